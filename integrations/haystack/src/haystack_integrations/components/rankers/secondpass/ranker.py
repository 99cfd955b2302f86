"""A Haystack component around :class:`secondpass.Reranker`: convert, call, convert back."""

# Annotations are not postponed, because Haystack makes its sockets of them.
import asyncio
import numbers
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.components.generators.chat.types import ChatGenerator
from haystack.core.serialization import component_to_dict
from haystack.utils.deserialization import deserialize_chatgenerator_inplace

from haystack_integrations.components.rankers.secondpass.chat_generator import ChatGeneratorLLM
from secondpass import Candidate, ConfigurationError, Ranking, Reranker
from secondpass.config import resolve
from secondpass.errors import Problem
from secondpass.provenance import falling_scores, provenance

_PLACES = {
    "depth": ("depth",),
    "score_threshold": ("floor",),
    "meta_fields_to_embed": ("render", "fields"),
    "embedding_separator": ("render", "separator"),
    "raise_on_failure": ("strict",),
}
"""Where in a configuration each flat parameter stands."""


@component
class SecondPassRanker:
    """Reranks documents with secondpass: best first, none lost, with a report of what was done.

    A fault of the model fails no pipeline unless `raise_on_failure` is set: what was scored is
    ranked, the rest keeps the order that it came in, and `report` says what went wrong.

    The documents that come out are copies. Their `score` never rises along the list, and `meta`
    has `rerank_score`, `retrieval_score`, `rerank_rank` and `rerank_status` besides what it had. A
    key of one of these names that something else wrote is left as it is.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.rankers.secondpass import SecondPassRanker

    ranker = SecondPassRanker("lexical", top_k=1)
    documents = [Document(content="Berlin is in Germany."), Document(content="Paris is in France.")]
    result = ranker.run(query="Where is Paris?", documents=documents)
    print(result["documents"][0].content, result["report"]["status"])
    ```
    """

    def __init__(
        self,
        reranker: str | Mapping[str, Any] | Path | Reranker = "default",
        *,
        top_k: int | None = None,
        depth: int | None = None,
        score_threshold: float | None = None,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        dedupe: bool = True,
        meta_prefix: str = "",
        raise_on_failure: bool = False,
        chat_generator: ChatGenerator | None = None,
    ) -> None:
        """Create a SecondPassRanker. No model is loaded yet.

        `depth`, `score_threshold`, `meta_fields_to_embed`, `embedding_separator` and
        `raise_on_failure`, where they are not left at their defaults, stand over the same setting
        of a preset or a file. Beside a mapping that has the setting too, or beside a ready
        Reranker, they are refused. `top_k` and `dedupe` are given with each call, so they stand
        over any configuration.

        :param reranker:
            The name of a preset, a configuration as a mapping, the path of a YAML file that holds
            one, or a ready `secondpass.Reranker`.
        :param top_k:
            How many documents to return. `None` leaves it to the configuration.
        :param depth:
            How many documents are judged; those behind them keep their order.
        :param score_threshold:
            Judged documents whose final score is lower are left out.
        :param meta_fields_to_embed:
            Metadata fields that the model is shown before the content. A dot goes into nested
            mappings.
        :param embedding_separator:
            Stands between the metadata fields and the content.
        :param dedupe:
            Whether to keep only the best scored of the documents with the same id.
        :param meta_prefix:
            Stands before each metadata key that is added.
        :param raise_on_failure:
            Whether to raise if a document that was to be judged could not be.
        :param chat_generator:
            The language model to ask, instead of that of the configuration, which need not have
            one then.
        :raises ValueError:
            If `top_k` is not greater than 0.
        :raises secondpass.ConfigurationError:
            If a setting is wrong, or is given twice.
        :raises secondpass.MissingExtraError:
            If the packages that the configuration needs are not installed.
        """
        self.top_k = _checked_top_k(top_k)
        for name, value, kind in (
            ("dedupe", dedupe, bool),
            ("meta_prefix", meta_prefix, str),
            ("embedding_separator", embedding_separator, str),
            ("raise_on_failure", raise_on_failure, bool),
        ):
            if not isinstance(value, kind):
                told = f"must be a {kind.__name__}, not {type(value).__name__}"
                raise ConfigurationError([Problem((name,), told)], "SecondPassRanker")
        if isinstance(score_threshold, numbers.Real):
            score_threshold = float(score_threshold)  # numpy's can't be saved
        self.depth = depth
        self.score_threshold = score_threshold
        self.meta_fields_to_embed = meta_fields_to_embed
        self.embedding_separator = embedding_separator
        self.dedupe = dedupe
        self.meta_prefix = meta_prefix
        self.raise_on_failure = raise_on_failure
        flat = {
            "depth": depth,
            "score_threshold": score_threshold,
            "meta_fields_to_embed": _fields(meta_fields_to_embed),
            "embedding_separator": None if embedding_separator == "\n" else embedding_separator,
            "raise_on_failure": raise_on_failure or None,
        }
        self.chat_generator = chat_generator
        llm = None if chat_generator is None else _SavedApart(chat_generator)
        self.reranker = resolve(reranker, llm=llm, **_overrides(reranker, flat))
        # Presets and files are saved by name. Of a mapping its meaning is saved, because whoever
        # made it may go on to change it.
        self._given: str | Reranker = (
            _saved_path(reranker)
            if isinstance(reranker, str | PathLike)
            else resolve(reranker, llm=llm)
        )
        self._warm = False
        self._used = False

    def to_dict(self) -> dict[str, Any]:
        """Serialize this component to a dictionary.

        :returns:
            Dictionary with serialized data.
        :raises secondpass.NotSerializableError:
            If the reranker holds an object that no configuration can describe.
        """
        given, generator = self._given, self.chat_generator
        return default_to_dict(
            self,
            reranker=given if isinstance(given, str) else given.to_config(),
            top_k=self.top_k,
            depth=self.depth,
            score_threshold=self.score_threshold,
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
            dedupe=self.dedupe,
            meta_prefix=self.meta_prefix,
            raise_on_failure=self.raise_on_failure,
            chat_generator=(
                None if generator is None else component_to_dict(generator, "chat_generator")
            ),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SecondPassRanker":
        """Deserialize this component from a dictionary.

        :param data:
            The dictionary to deserialize from.
        :returns:
            The deserialized component.
        """
        if data.get("init_parameters", {}).get("chat_generator"):
            deserialize_chatgenerator_inplace(data["init_parameters"])
        return default_from_dict(cls, data)

    def warm_up(self) -> None:
        """Load the models, unless that was done before.

        Pipelines call this at each run, so a model that can't be loaded raises here only if
        `raise_on_failure` is set. Otherwise it is logged, and `report` tells of it.

        :raises Exception:
            If `raise_on_failure` is set and no model can be loaded.
        """
        if self._warm:
            return
        self._used = True
        try:
            self.reranker.warm_up()
        except Exception:
            # The core has logged it, and loads again by itself when it ranks.
            if self.reranker.strict:
                raise
        self._warm = True

    async def warm_up_async(self) -> None:
        """Do as `warm_up` does, in a worker thread."""
        await asyncio.to_thread(self.warm_up)

    def close(self) -> None:
        """Let go of models and connections. They are loaded again when they are needed."""
        if self._used:
            self._used = self._warm = False
            self.reranker.close()

    async def close_async(self) -> None:
        """Do as `close` does, in a worker thread."""
        await asyncio.to_thread(self.close)

    @component.output_types(documents=list[Document], report=dict[str, Any])
    def run(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        *,
        depth: int | None = None,
        order: str | dict[str, Any] | None = None,
        context: Any = None,
    ) -> dict[str, Any]:
        """Rerank documents for a query.

        :param query:
            What was searched for.
        :param documents:
            The documents, in the order of the retriever. Several retrievers may be connected.
        :param top_k:
            How many documents to return, instead of the number set for the component.
        :param depth:
            How many documents are judged, instead of the number set for the component.
        :param order:
            A rule that moves documents after they are ranked, by name or as a mapping with a
            `type`, instead of the configured one; `"none"` for none.
        :param context:
            Anything that the method wants to know about this query.
        :returns:
            A dictionary with the following keys:
            - `documents`: copies of the documents, best first.
            - `report`: what was done, what it cost and what went wrong, as plain values.
        :raises ValueError:
            If `top_k` is not greater than 0, or an argument is of the wrong kind.
        :raises secondpass.RerankError:
            If `raise_on_failure` is set and a document that was to be judged could not be.
        """
        settings = self._call(top_k, depth, order, context)
        ranking = self.reranker.rerank(query, _candidates(documents), **settings)
        return self._output(documents, ranking)

    @component.output_types(documents=list[Document], report=dict[str, Any])
    async def run_async(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        *,
        depth: int | None = None,
        order: str | dict[str, Any] | None = None,
        context: Any = None,
    ) -> dict[str, Any]:
        """Do as `run` does, with the same parameters; what blocks does so in a worker thread."""
        settings = self._call(top_k, depth, order, context)
        ranking = await self.reranker.arerank(query, _candidates(documents), **settings)
        return self._output(documents, ranking)

    def _call(
        self, top_k: int | None, depth: int | None, order: object, context: object
    ) -> dict[str, Any]:
        top_k = _checked_top_k(top_k)
        self._used = True
        return {
            "top_k": self.top_k if top_k is None else top_k,
            "depth": depth,
            "order": order,
            "context": context,
            "dedupe": self.dedupe,
        }

    def _output(self, documents: Sequence[Document], ranking: Ranking) -> dict[str, Any]:
        ranked = []
        for item, score in zip(ranking.items, falling_scores(ranking), strict=True):
            document = documents[item.position]
            meta = {**document.meta, **provenance(item, document.meta, self.meta_prefix)}
            ranked.append(replace(document, score=score, meta=meta))
        return {"documents": ranked, "report": ranking.report.to_dict()}


class _SavedApart(ChatGeneratorLLM):
    """The component saves its chat generator by itself, so the configuration holds none."""

    def as_setting(self, _where: str) -> None:
        return None


def _saved_path(reranker: str | PathLike[str]) -> str:
    """A preset's name or a path, as a string that is read as the same again."""
    name = fspath(reranker)
    if isinstance(reranker, str) or Path(name).name != name:
        return name
    return os.path.join(os.curdir, name)  # a bare name would be taken for a preset's


def _candidates(documents: Sequence[Document]) -> list[Candidate]:
    # Documents without a text, such as images, are carried along by the core and not read.
    return [
        Candidate(document.content, document.id, document.score, document.meta)  # type: ignore[arg-type]
        for document in documents
    ]


def _checked_top_k(top_k: int | None) -> int | None:
    """A plain int, which can be saved; ValueError for anything that is no number of documents."""
    if top_k is None:
        return None
    if isinstance(top_k, bool) or not hasattr(top_k, "__index__"):
        raise ValueError(f"top_k must be a whole number, but got {top_k!r}")
    if top_k <= 0:
        raise ValueError(f"top_k must be > 0, but got {top_k}")
    return operator.index(top_k)


def _fields(names: Sequence[str] | None) -> list[str] | None:
    """The fields to show, the content last; None where the configuration shall decide."""
    if not names:
        return None
    wrong = "give a list of metadata keys" if isinstance(names, str) else ""
    if own := {"text", "id", "score"}.intersection(names):
        # The core would show the document's own text, id or score under these names.
        wrong = f"a metadata key named {min(own)!r} can't be shown"
    if wrong:
        raise ConfigurationError([Problem(("meta_fields_to_embed",), wrong)], "SecondPassRanker")
    return [*names, "text"]


def _overrides(reranker: object, flat: Mapping[str, Any]) -> dict[str, Any]:
    """What the flat parameters change in a configuration; refused if it was given there too."""
    overrides: dict[str, Any] = {}
    problems = []
    for name, value in flat.items():
        if value is None:
            continue
        *outer, key = _PLACES[name]
        setting = ".".join(_PLACES[name])
        inside: Any = reranker
        target = overrides
        for step in outer:
            inside = inside.get(step) if isinstance(inside, Mapping) else None
            target = target.setdefault(step, {})
        target[key] = value
        if isinstance(reranker, Reranker):
            told = f"can't be given beside a ready Reranker; set {setting!r} on that"
            problems.append(Problem((name,), told))
        elif isinstance(inside, Mapping) and key in inside:
            told = f"the mapping that is given as reranker sets {setting!r}, which is the same"
            problems.append(Problem((name,), f"{told}; keep one of them"))
    if problems:
        raise ConfigurationError(problems, "SecondPassRanker")
    return overrides
