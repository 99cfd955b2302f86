"""The Haystack component around :class:`secondpass.Reranker`."""

# Annotations are evaluated here, because Haystack derives a component's sockets from them.
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from operator import attrgetter
from os import PathLike
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
    ASSIGNABLE,
    BESIDE_READY,
    INSTEAD,
    KWARGS,
    overrides_of,
    plain_types,
    saved_path,
)
from secondpass import Candidate, ConfigurationError, Ranking, Reranker
from secondpass.adapters.parameters import (
    Parameters,
    check_floor,
    checked_list,
    finite_number,
    plain_number,
    whole_number,
)
from secondpass.adapters.scores import naming_kept_keys, results
from secondpass.adapters.shortening import Shortened, shortened
from secondpass.config import resolve
from secondpass.errors import InputError
from secondpass.ranking.candidates import kind_of
from secondpass.ranking.diagnostics import use_logger
from secondpass.settings import describe
from secondpass.settings.overrides import Override, without

LOGGER_NAME = "haystack_integrations.components.rankers.secondpass"
"""The core logs under this name, whose handlers Haystack sets up."""
_DEFAULTS = {"dedupe": True}
_NEIGHBOURS = ("source_id", "split_idx_start")
"""Metadata of Haystack's splitters: the document of a chunk, and where the chunk begins in it."""


@component
class SecondPassRanker:
    """Reranks documents: best first, none lost, with a report of what was done.

    An error of the model does not fail the pipeline unless `raise_on_failure` is set: scored
    documents are ranked, the others keep their order, and `report` lists the issues. The returned
    documents are copies. Their `score` never rises along the list, and `rerank_score`,
    `rerank_final_score`, `retrieval_score`, `rerank_rank`, `rerank_status` and, if there are any,
    `rerank_span`, `rerank_spread`, `rerank_probability` and `rerank_terms` are added to `meta`,
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
    model: str | Path | None
    depth: int | None
    scale_score: bool | None
    dedupe: bool | None
    max_tokens: int | None
    token_counter: Callable[[str], Any] | None
    meta_prefix: str
    chat_generator: ChatGenerator | None
    _name: str | None
    _is_ready: bool
    _fixed: frozenset[str]
    _overrides: dict[str, Override]
    _life: LifeCycle

    def __new__(cls, *_arguments: Any, **named: Any) -> Self:
        """Reject unknown arguments; the message has the nearest parameter, unlike Python's."""
        own = inspect.signature(cls.__init__).parameters.values()  # a subclass may have others
        names = named.keys() - {parameter.name for parameter in own}
        if names and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own):
            unknown = "; ".join(map(str, cls.PARAMETERS.unknown(names)))
            raise TypeError(f"{cls.__name__}: {unknown}")
        # `component` makes the class anew, which a bare super() does not know.
        return super(SecondPassRanker, cls).__new__(cls)  # noqa: UP008  # see above

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
        an error if a mapping has the same setting, with a ready Reranker (except `dedupe`, and
        `top_k` if it has none), and if the method has no such setting.

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
        :param token:
            API key, or hub token for a private model, read when a model is loaded or called. `None`
            reads the usual variables. Variables of a `Secret` that is not `strict` may be absent.
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
            where text was left out; neighbours that a splitter made are merged, and exact copies
            returned once. `rerank_sources` in `meta` has the id of each document in the content,
            and the `spans` of it that are there.
        :param token_counter:
            A function that returns the number of tokens of a text, or a list of them. `None`
            takes an estimate that is rarely too low.
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
        vars(self).update(self.PARAMETERS.arguments(locals()))
        self.top_k = checked_top_k(top_k)
        self.max_tokens = whole_number("max_tokens", max_tokens)
        self.score_threshold = plain_number(score_threshold)
        self.meta_fields_to_embed = copy(meta_fields_to_embed)  # the caller may change it later
        self.model_kwargs = copy(model_kwargs)
        self.tokenizer_kwargs = copy(tokenizer_kwargs)
        self.config_kwargs = copy(config_kwargs)
        self._fixed = self.PARAMETERS.fixed_by(reranker)
        self._is_ready = isinstance(reranker, Reranker)
        llm = None if chat_generator is None else OwnedChatGenerator(chat_generator)
        try:
            self._overrides = overrides_of(self.PARAMETERS, vars(self))
            if self._is_ready:  # parameters that it does not set are passed with each call
                for name in self.PARAMETERS.per_call.keys() - self._fixed:
                    self._overrides.pop(name, None)
            self.reranker = resolve(
                reranker,
                llm=llm,
                flat=self._overrides,
                defaults=_DEFAULTS,
                llm_parameter="chat_generator",
                caller="SecondPassRanker",
            )
            check_floor("score_threshold", self.score_threshold, self.reranker)
        except ConfigurationError as error:
            raise ConfigurationError(error.problems, "SecondPassRanker") from None
        # Presets and files are saved by name, mappings as their values at construction.
        self._name = saved_path(reranker) if isinstance(reranker, str | PathLike) else None
        self._life = LifeCycle(self.reranker, llm)

    def __setattr__(self, name: str, value: Any) -> None:
        is_parameter = not name.startswith("_") and not hasattr(type(self), name)
        if "PARAMETERS" not in vars(type(self)):  # a subclass, which may have other attributes
            is_parameter = name in self.PARAMETERS.defaults
        if is_parameter and "_life" in vars(self):  # constructed
            value = self.PARAMETERS.assigned(name, value, self._overrides, self._fixed)
            if name == "score_threshold":
                check_floor(name, value, self.reranker)
        super(SecondPassRanker, self).__setattr__(name, value)  # noqa: UP008  # as in __new__

    @property
    def model_name(self) -> str:
        """The name of the method: a model's name, or for example `listwise by gpt-4.1-mini`."""
        return self.reranker.method.name

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
        return self.reranker.candidates_needed(settings["top_k"], depth=self.depth)

    @component.output_types(documents=list[Document], report=dict[str, Any])
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
            ranking = self.reranker.rerank(query, candidates(documents), **settings)
        return self._output(documents, ranking)

    @component.output_types(documents=list[Document], report=dict[str, Any])
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
            ranking = await self.reranker.arerank(query, candidates(documents), **settings)
        return self._output(documents, ranking)

    def _settings(
        self, documents: list[Document], top_k: Any, floor: Any, scale: Any, **options: Any
    ) -> dict[str, Any]:
        """Settings of a call of the core, and the start of that call."""
        if scale is not None and scale is not bool(self.scale_score):
            message = f"is {self.scale_score} here and can't be changed at run time"
            raise InputError(f"scale_score: {message}; create a ranker for each")
        options["top_k"] = checked_top_k(top_k)
        options["floor"] = finite_number("score_threshold", floor)
        settings = self.PARAMETERS.call_settings(self, **options)
        if settings["dedupe"] is None and self._is_ready:
            settings["dedupe"] = True
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
            span.set_attribute("reranker.top_k", top_k or self.reranker.top_k or documents)

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
            If the reranker holds an object that no configuration can describe.
        :raises ValueError:
            If `token` is not taken from the environment.
        """
        values = self.PARAMETERS.values(self)
        if self.chat_generator is not None:
            values["chat_generator"] = component_to_dict(self.chat_generator, "chat_generator")
        if self.model is not None:
            values["model"] = str(self.model)
        if self.token_counter is not None:
            values["token_counter"] = serialize_callable(self.token_counter)
        values |= {name: plain_types(values[name]) for name in KWARGS}
        values["reranker"] = self._name or self._configuration()
        return default_to_dict(self, **values)

    def _configuration(self) -> dict[str, Any]:
        config = without(self.reranker.to_config(), self._overrides)
        if not config.pop("dedupe", False) and not self._is_ready and self.dedupe is None:
            config["dedupe"] = False  # the default of the core, not of the component
        return config

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
        shared = (self.reranker, self.chat_generator)
        memo.update((id(value), value) for value in shared)
        copied = type(self).__new__(type(self))
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied


SecondPassRanker.PARAMETERS = Parameters(
    SecondPassRanker.__init__,
    assignable=ASSIGNABLE,
    beside_ready=BESIDE_READY,
    instead=INSTEAD,
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
