"""The Haystack component around :class:`secondpass.Reranker`."""

# Annotations are evaluated here, because Haystack derives a component's sockets from them.
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from operator import attrgetter
from os import fspath
from pathlib import Path
from typing import Any, ClassVar, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.components.generators.chat.types import ChatGenerator
from haystack.core.serialization import component_to_dict
from haystack.utils import ComponentDevice, Secret, deserialize_callable, serialize_callable
from haystack.utils.deserialization import deserialize_chatgenerator_inplace

from haystack_integrations.components.rankers.secondpass.chat_generator import OwnedChatGenerator
from haystack_integrations.components.rankers.secondpass.life_cycle import LifeCycle
from haystack_integrations.components.rankers.secondpass.parameters import (
    INSTEAD,
    READ_AT_EACH_RUN,
    overrides_of,
    plain_types,
)
from secondpass import Candidate, ConfigurationError, InputError, Problem, Ranking, Reranker
from secondpass.adapters import (
    Parameters,
    Shortened,
    checked_list,
    describe,
    detached,
    explained,
    kind_of,
    naming_kept_keys,
    results,
    saved,
    shortened,
    use_logger,
    whole_number,
)
from secondpass.config import resolve

LOGGER_NAME = "haystack_integrations.components.rankers.secondpass"
"""The core logs under this name, whose handlers Haystack sets up."""
_DEFAULTS = {"dedupe": True}
"""Of this component, where the core has others. They are also those of a ready Reranker: its own
setting has no effect, so it is neither compared with the parameter nor saved."""
_NEIGHBOURS = ("source_id", "split_idx_start")
"""Metadata of Haystack's splitters: the document of a chunk, and where the chunk begins in it."""

_explained = explained(lambda: SecondPassRanker.PARAMETERS.of_keyword)


@component
class SecondPassRanker:
    """Reranks documents: best first, none lost, with a report of what was done.

    An error of the model does not fail the pipeline unless `raise_on_failure` is set: scored
    documents are ranked, the others keep their order, and `report` lists the issues. The returned
    documents are copies. Their `score` never rises along the list, and `rerank_score`,
    `rerank_final_score`, `retrieval_score`, `rerank_rank`, `rerank_status` and, if there are any,
    `rerank_span`, `rerank_probability` and `rerank_terms` are added to `meta`,
    except if another component wrote a key of that name.

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

    PARAMETERS: ClassVar[Parameters]

    def __new__(cls, *_arguments: Any, **named: Any) -> Self:
        """Reject unknown arguments, such as those of other rankers, with what to write instead."""
        cls.PARAMETERS.check_known(cls, named)
        return object.__new__(cls)

    def __init__(
        self,
        reranker: str | Mapping[str, Any] | Path | Reranker = "default",
        *,
        model: str | Path | None = None,
        top_k: int | None = None,
        depth: int | None = None,
        score_threshold: float | None = None,
        scale_score: bool | None = None,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        query_prefix: str = "",
        query_suffix: str = "",
        document_prefix: str = "",
        document_suffix: str = "",
        device: ComponentDevice | None = None,
        api_key: Secret | None = None,
        token: Secret | None = None,
        batch_size: int | None = None,
        backend: str | None = None,
        trust_remote_code: bool = False,
        model_kwargs: dict[str, Any] | None = None,
        tokenizer_kwargs: dict[str, Any] | None = None,
        config_kwargs: dict[str, Any] | None = None,
        dedupe: bool | None = None,
        max_tokens: int | None = None,
        token_counter: Callable[[str], Any] | None = None,
        meta_prefix: str = "",
        raise_on_failure: bool = False,
        chat_generator: ChatGenerator | None = None,
    ) -> None:
        """Create a SecondPassRanker. No model is loaded, no client made and no secret read yet.

        Parameters that are not at their defaults override settings of a preset or a file. They are
        an error if a mapping has the same setting, and if the method has no such setting. Beside a
        ready Reranker they are an error, except `dedupe`, and `top_k` and `score_threshold` if it
        has none. `top_k`, `depth`, `score_threshold`, `dedupe`, `max_tokens` and `meta_prefix` are
        read at each run, so they can be assigned; all others are fixed.

        :param reranker:
            A preset's name, a configuration, the path of one in YAML, or a `secondpass.Reranker`.
        :param model:
            Name or folder of the model: of the method itself, else of its language model.
        :param top_k:
            Number of documents to return. `None` leaves it to the configuration.
        :param depth:
            Number of documents to score; those after them keep their order.
        :param score_threshold:
            Scored documents with a lower `rerank_score` are left out; with a blend by `none` or
            `sigmoid`, with a lower final score. Not for methods whose scores are ranks; a fallback
            has its own.
        :param scale_score:
            Whether to map a cross-encoder's scores to 0-1 by a sigmoid.
        :param meta_fields_to_embed:
            Metadata fields to put before the content. A dot leads into nested mappings.
        :param embedding_separator:
            Separates the metadata fields and the content.
        :param query_prefix:
            Put before the query, such as an instruction.
        :param query_suffix:
            Put after the query.
        :param document_prefix:
            Put before the text of each document.
        :param document_suffix:
            Put after the text of each document.
        :param device:
            Device of a local model. `None` takes an accelerator if there is one.
        :param api_key:
            Key of a rerank API or a language model, read when it is called. `None` reads the usual
            variables. Variables of a `Secret` that is not `strict` may be absent.
        :param token:
            Token of the Hugging Face hub for a private model, read when the model is loaded. It is
            sent to no API, and `api_key` not to the hub.
        :param batch_size:
            Documents per call of a model.
        :param backend:
            What runs a cross-encoder: `torch`, `onnx`, `openvino` or `auto`.
        :param trust_remote_code:
            Whether to run code from the model's repository. Only for models you trust.
        :param model_kwargs:
            Further arguments for the `from_pretrained` of a local model.
        :param tokenizer_kwargs:
            The same for its tokenizer.
        :param config_kwargs:
            The same for its configuration.
        :param dedupe:
            Whether to keep only the best document of each id. `None`: as configured, else yes.
        :param max_tokens:
            Number of tokens that the contents of the returned documents may have together. Of a
            document that does not fit whole, the sentences that match best are kept, with `[…]`
            where text was left out; text that a splitter repeats in the next document is kept
            once, and so are exact copies. `rerank_sources` in `meta` has the id of the document,
            and the `spans` of its content that are there.
        :param token_counter:
            A function that returns the number of tokens of a text, or a list of them. `None`
            takes an estimate, which is about 1.5 times the number for English text.
        :param meta_prefix:
            Prefix of each metadata key that is added.
        :param raise_on_failure:
            Whether to raise if a document that should be scored could not be.
        :param chat_generator:
            The language model, instead of that of the configuration, which then need not have one.
        :raises ValueError:
            If `top_k` is not greater than 0.
        :raises secondpass.ConfigurationError:
            If a setting is wrong, is set twice, or is one that the method does not have.
        :raises secondpass.MissingExtraError:
            If the packages that the configuration needs are not installed.
        """
        self.model = fspath(model) if isinstance(model, Path) else model
        self.scale_score = scale_score
        self.meta_fields_to_embed = copy(meta_fields_to_embed)  # the caller may change it later
        self.embedding_separator = embedding_separator
        self.query_prefix = query_prefix
        self.query_suffix = query_suffix
        self.document_prefix = document_prefix
        self.document_suffix = document_suffix
        self.device = device
        self.api_key = api_key
        self.token = token
        self.batch_size = batch_size
        self.backend = backend
        self.trust_remote_code = trust_remote_code
        self.model_kwargs = plain_types(model_kwargs)
        self.tokenizer_kwargs = plain_types(tokenizer_kwargs)
        self.config_kwargs = plain_types(config_kwargs)
        self.token_counter = token_counter
        self.raise_on_failure = raise_on_failure
        self.chat_generator = chat_generator
        llm = None if chat_generator is None else OwnedChatGenerator(chat_generator)
        try:
            self._reranker = resolve(
                reranker,
                llm=llm,
                # Of what is assigned so far: what is read at each run is passed with the calls.
                flat=overrides_of(self.PARAMETERS, vars(self)),
                defaults=_DEFAULTS,
                llm_parameter="chat_generator",
                caller="SecondPassRanker",
            )
            self.reranker = detached(reranker)
            # The following are read at each run. __setattr__ checks them, now and later.
            self.top_k = top_k
            self.depth = depth
            self.score_threshold = score_threshold
            self.dedupe = dedupe
            self.max_tokens = max_tokens
            self.meta_prefix = meta_prefix
        except ConfigurationError as error:
            raise ConfigurationError(error.problems, "SecondPassRanker") from None
        except InputError as error:  # of a parameter that is also an argument of a run
            name, _, message = str(error).partition(": ")
            raise ConfigurationError([Problem((name,), message)], "SecondPassRanker") from None
        self._life = LifeCycle(self._reranker, llm)

    def __setattr__(self, name: str, value: Any) -> None:
        """Check what is read at each run; all else is fixed after construction."""
        if name in READ_AT_EACH_RUN:
            value = checked_top_k(value) if name == "top_k" else value
            value = self.PARAMETERS.converted(name, value)
            if name in self.PARAMETERS.per_call:
                self.PARAMETERS.check(name, value, self.reranker, self._reranker)
        elif "_life" in vars(self) and self._is_fixed(name):
            raise AttributeError(self.PARAMETERS.fixed(name))
        object.__setattr__(self, name, value)

    def _is_fixed(self, name: str) -> bool:
        """Whether an attribute cannot be assigned once the component is constructed.

        Only attributes of the class, such as Haystack's, can be, and private ones. A subclass may
        have attributes of its own, so there only the parameters are fixed.
        """
        if "PARAMETERS" not in vars(type(self)):
            return name in self.PARAMETERS.defaults
        return not name.startswith("_") and not hasattr(type(self), name)

    @property
    def model_name(self) -> str:
        """The name of the method: a model's name, or for example `listwise by gpt-4.1-mini`."""
        return self._reranker.method.name

    @_explained
    def candidates_needed(self, top_k: int | None = None) -> int | None:
        """Return how many documents to ask the retriever for.

        :param top_k:
            Number of documents to return, instead of that of the component.
        :returns:
            `top_k` times the configuration's `candidate_multiplier` if that is set, else as many as
            are scored (but no fewer than are returned); `None` if neither bounds it.
        :raises ValueError:
            If `top_k` is not greater than 0.
        """
        settings = self.PARAMETERS.call_settings(self, top_k=checked_top_k(top_k))
        return self._reranker.candidates_needed(settings["top_k"], depth=self.depth)

    @component.output_types(documents=list[Document], report=dict[str, Any])
    @_explained
    def run(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        *,
        score_threshold: float | None = None,
        scale_score: bool | None = None,
        depth: int | None = None,
        order: str | dict[str, Any] | None = None,
        context: Any = None,
        instruction: str | None = None,
    ) -> dict[str, Any]:
        """Rerank documents for a query.

        :param query:
            The search query.
        :param documents:
            The documents, in the order of the retriever. Several retrievers may be connected.
        :param top_k:
            Number of documents to return, instead of that of the component.
        :param score_threshold:
            Scored documents with a lower score are left out; instead of the component's.
        :param scale_score:
            Accepted if it is that of the component, which cannot be changed at run time.
        :param depth:
            Number of documents to score, instead of that of the component.
        :param order:
            An ordering instead of the configured one: name or mapping; `"none"` for none.
        :param context:
            Whatever the method uses of this query's context.
        :param instruction:
            What counts as relevant in this run, such as "prefer recent documents". If the method
            takes none, `report` lists `instruction_not_used`.
        :returns:
            A dictionary with the following keys:
            - `documents`: copies of the documents, best first.
            - `report`: status, method, usage, cost and issues of the ranking, as plain values.
        :raises ValueError:
            If `top_k` is not greater than 0, or an argument is of the wrong kind.
        :raises secondpass.RerankError:
            If `raise_on_failure` is set and a document that should be scored could not be.
        """
        documents = checked_documents(documents)
        options = {"depth": depth, "order": order, "context": context, "instruction": instruction}
        settings = self._settings(documents, top_k, score_threshold, scale_score, **options)
        with use_logger(LOGGER_NAME):
            ranking = self._reranker.rerank(query, candidates(documents), **settings)
        return self._output(documents, ranking)

    @component.output_types(documents=list[Document], report=dict[str, Any])
    @_explained
    async def run_async(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        *,
        score_threshold: float | None = None,
        scale_score: bool | None = None,
        depth: int | None = None,
        order: str | dict[str, Any] | None = None,
        context: Any = None,
        instruction: str | None = None,
    ) -> dict[str, Any]:
        """Like `run`, with the same parameters; blocking calls are made in a worker thread."""
        documents = checked_documents(documents)
        options = {"depth": depth, "order": order, "context": context, "instruction": instruction}
        settings = self._settings(documents, top_k, score_threshold, scale_score, **options)
        with use_logger(LOGGER_NAME):
            ranking = await self._reranker.arerank(query, candidates(documents), **settings)
        return self._output(documents, ranking)

    def _settings(
        self, documents: list[Document], top_k: Any, floor: Any, scale: Any, **options: Any
    ) -> dict[str, Any]:
        """Settings of a call of the core, and the start of that call."""
        if scale is not None and scale is not bool(self.scale_score):
            message = f"is {self.scale_score} here and can't be changed at run time"
            raise InputError(f"scale_score: {message}; create a ranker for each")
        options["top_k"] = checked_top_k(top_k)
        options["floor"] = self.PARAMETERS.converted("score_threshold", floor)
        settings = self.PARAMETERS.call_settings(self, **options)
        if settings["dedupe"] is None and isinstance(self.reranker, Reranker):
            settings["dedupe"] = _DEFAULTS["dedupe"]
        self._life.opened = True
        self._trace_top_k(settings["top_k"], len(documents))
        return settings

    def _output(self, documents: list[Document], ranking: Ranking) -> dict[str, Any]:
        ranking = naming_kept_keys(ranking, self.meta_prefix, "meta_prefix")
        texts: list[Shortened] | None = None
        if self.max_tokens is not None:
            ranking, texts = shortened(
                ranking, self.max_tokens, count=self.token_counter, neighbours=_NEIGHBOURS
            )
        copies = ranked(documents, ranking, self.meta_prefix, texts)
        return {"documents": copies, "report": ranking.report.to_dict()}

    def _trace_top_k(self, top_k: int | None, documents: int) -> None:
        opentelemetry = sys.modules.get("opentelemetry.trace")
        if opentelemetry is None:
            return
        span = opentelemetry.get_current_span()
        name = type(self).__name__
        if getattr(span, "name", None) in (f"{name}.run", f"{name}.run_async"):
            span.set_attribute("reranker.top_k", top_k or self._reranker.top_k or documents)

    # ------------------------------------------------------------------ life cycle

    def warm_up(self) -> None:
        """Load the models and create the clients, unless they exist.

        Pipelines call this at each run, so an error is raised only if `raise_on_failure` is set.
        Otherwise it is logged, and the next `report` lists it.

        :raises Exception:
            If `raise_on_failure` is set and no model can be loaded.
        """
        with use_logger(LOGGER_NAME):
            self._life.warm_up()

    async def warm_up_async(self) -> None:
        """Like `warm_up`; the chat generator in this event loop, the rest in a thread."""
        with use_logger(LOGGER_NAME):
            await self._life.awarm_up()

    def close(self) -> None:
        """Close models and connections; they are loaded again when they are needed.

        The asynchronous interface of a chat generator that has a `close_async` stays open.
        """
        self._life.close()

    async def close_async(self) -> None:
        """Close both interfaces of the chat generator and, in a thread, the models."""
        await self._life.aclose()

    # ------------------------------------------------------------------ saving, loading and copies

    def to_dict(self) -> dict[str, Any]:
        """Serialize this component to a dictionary.

        :returns:
            Dictionary with serialized data.
        :raises secondpass.NotSerializableError:
            If the reranker holds a key, or an object that no configuration can describe.
        :raises ValueError:
            If `api_key` or `token` is not taken from the environment.
        """
        reranker = saved(self.reranker, "reranker")
        if isinstance(self.reranker, Reranker):
            for name in _DEFAULTS:
                reranker.pop(name, None)
        counter: Any = self.token_counter
        if counter is not None:
            counter = serialize_callable(counter)
        generator: Any = self.chat_generator
        if generator is not None:
            generator = component_to_dict(generator, "chat_generator")
        return default_to_dict(
            self,
            reranker=reranker,
            model=self.model,
            top_k=self.top_k,
            depth=self.depth,
            score_threshold=self.score_threshold,
            scale_score=self.scale_score,
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
            query_prefix=self.query_prefix,
            query_suffix=self.query_suffix,
            document_prefix=self.document_prefix,
            document_suffix=self.document_suffix,
            device=self.device,
            api_key=self.api_key,
            token=self.token,
            batch_size=self.batch_size,
            backend=self.backend,
            trust_remote_code=self.trust_remote_code,
            model_kwargs=self.model_kwargs,
            tokenizer_kwargs=self.tokenizer_kwargs,
            config_kwargs=self.config_kwargs,
            dedupe=self.dedupe,
            max_tokens=self.max_tokens,
            token_counter=counter,
            meta_prefix=self.meta_prefix,
            raise_on_failure=self.raise_on_failure,
            chat_generator=generator,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Deserialize this component from a dictionary.

        :param data:
            The dictionary to deserialize from.
        :returns:
            The deserialized component.
        """
        parameters = data.get("init_parameters", {})
        if parameters.get("chat_generator"):
            deserialize_chatgenerator_inplace(parameters)
        if isinstance(parameters.get("token_counter"), str):
            parameters["token_counter"] = deserialize_callable(parameters["token_counter"])
        return default_from_dict(cls, data)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__, _life=deepcopy(self._life))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        shared = (self.reranker, self._reranker, self.chat_generator)
        memo.update((id(value), value) for value in shared)
        copied = type(self).__new__(type(self))
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied


SecondPassRanker.PARAMETERS = Parameters(
    SecondPassRanker.__init__, own_defaults=_DEFAULTS, instead=INSTEAD
)


def checked_top_k(value: Any) -> int | None:
    """A number of documents; the error message is that of Haystack's rankers."""
    if type(value) is int and value <= 0:
        raise ValueError(f"top_k must be > 0, but got {describe(value)}")
    return whole_number("top_k", value)


def checked_documents(documents: object) -> list[Document]:
    """The documents as a list, checked."""
    checked = checked_list(documents, Document, "documents", "Documents")
    for index, document in enumerate(checked):
        if document.meta is not None and not isinstance(document.meta, Mapping):
            message = f"give a dictionary, not {kind_of(document.meta)}"
            raise InputError(f"documents[{index}].meta: {message}")
    return checked


def candidates(documents: Sequence[Document]) -> list[Candidate]:
    """The documents as candidates; those without a text, such as images, are not scored."""
    return [
        Candidate(document.content, document.id, document.score, document.meta)  # type: ignore[arg-type]
        for document in documents
    ]


def ranked(
    documents: Sequence[Document],
    ranking: Ranking,
    prefix: str,
    texts: Sequence[Shortened] | None = None,
) -> list[Document]:
    """Copies of the documents in the order of the ranking, with its scores, and perhaps texts."""
    copies = []
    found = results(documents, ranking, attrgetter("meta"), prefix)
    for index, (document, score, added) in enumerate(found):
        fields: dict[str, Any] = {"score": score, "meta": {**(document.meta or {}), **added}}
        if texts is not None:
            fields["content"] = texts[index].text
            fields["meta"] |= texts[index].added(document.meta or {}, prefix)
        copies.append(_copied(document, fields))
    return copies


def _copied(document: Document, fields: dict[str, Any]) -> Document:
    """A copy with other values of some fields."""
    if type(document) is not Document:
        return replace(document, **fields)
    # As ``replace``, which checks all fields again; that took half of the component's time.
    copied = object.__new__(Document)
    copied.__dict__.update(document.__dict__, **fields)
    return copied
