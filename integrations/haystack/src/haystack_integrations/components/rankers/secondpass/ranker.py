"""A Haystack component around :class:`secondpass.Reranker`: convert, call, convert back."""

# Annotations are not postponed, because Haystack makes its sockets of them.
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from os import PathLike
from pathlib import Path
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict, logging
from haystack.components.generators.chat.types import ChatGenerator
from haystack.core.serialization import component_to_dict
from haystack.utils import ComponentDevice, Secret
from haystack.utils.deserialization import deserialize_chatgenerator_inplace

from haystack_integrations.components.rankers.secondpass.chat_generator import OwnedChatGenerator
from haystack_integrations.components.rankers.secondpass.documents import (
    candidates,
    checked_documents,
    ranked,
)
from haystack_integrations.components.rankers.secondpass.parameters import (
    ASSIGNABLE,
    FIXED,
    as_settings,
    assigned,
    checked,
    checked_threshold,
    checked_top_k,
    plain_number,
    plain_types,
    saved_path,
)
from secondpass import ConfigurationError, Ranking, Reranker
from secondpass.concurrency.lazy import ForkLock
from secondpass.config import resolve
from secondpass.config.overrides import without
from secondpass.diagnostics import use_logger
from secondpass.errors import Problem

logger = logging.getLogger(__name__)
_VOICE = "haystack_integrations.components.rankers.secondpass"
"""The core logs under this name, so that it speaks through the handlers that Haystack sets up."""


@component
class SecondPassRanker:
    """Reranks documents with secondpass: best first, none lost, with a report of what was done.

    A fault of the model fails no pipeline unless `raise_on_failure` is set: what was scored is
    ranked, the rest keeps the order that it came in, and `report` says what went wrong.

    The documents that come out are copies. Their `score` never rises along the list, and `meta`
    has `rerank_score`, `rerank_final_score`, `retrieval_score`, `rerank_rank` and `rerank_status`
    besides what it had. A key of one of these names that something else wrote is left as it is.

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
        model_kwargs: dict[str, Any] | None = None,
        dedupe: bool | None = None,
        meta_prefix: str = "",
        raise_on_failure: bool = False,
        chat_generator: ChatGenerator | None = None,
    ) -> None:
        """Create a SecondPassRanker. No model is loaded, no client made and no secret read yet.

        The other parameters are short for settings of the configuration. Where they are not left at
        their defaults, they stand over the same setting of a preset or a file. They are refused
        beside a mapping that has the setting too, beside a ready Reranker (but for `dedupe`, and
        for `top_k` if that has none), and where the method has no such setting.

        :param reranker:
            The name of a preset, a configuration as a mapping, the path of a YAML file that holds
            one, or a ready `secondpass.Reranker`.
        :param model:
            The name or folder of the model: of the method itself, such as a cross-encoder or a
            rerank API, else of the language model that it asks.
        :param top_k:
            How many documents to return. `None` leaves it to the configuration.
        :param depth:
            How many documents are judged; those behind them keep their order.
        :param score_threshold:
            Judged documents whose final score is lower are left out. A fallback, whose scores mean
            something else, has a threshold of its own or none.
        :param scale_score:
            Whether a cross-encoder's scores are put between 0 and 1 by a sigmoid.
        :param meta_fields_to_embed:
            Metadata fields that the model is shown before the content. A dot goes into nested
            mappings.
        :param embedding_separator:
            Stands between the metadata fields and the content.
        :param query_prefix:
            Stands before the query, for models that want an instruction there.
        :param query_suffix:
            Stands behind the query.
        :param document_prefix:
            Stands before what the model is shown of each document.
        :param document_suffix:
            Stands behind it.
        :param device:
            Where a local model runs. `None` takes an accelerator if there is one.
        :param token:
            The key of an API, or the hub token for a private model. It is read when a model is
            loaded or asked. `None` leaves it to the usual variables. Variables of a `Secret` that
            is not `strict` may be absent for a server with a `base_url`.
        :param batch_size:
            Documents that a model is given at once.
        :param model_kwargs:
            Further arguments for the `from_pretrained` of a local model.
        :param dedupe:
            Whether to keep only the best scored of the documents with the same id. `None` leaves it
            to the configuration, and does so where that says nothing.
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
            If a setting is wrong, is given twice, or is one that the method does not have.
        :raises secondpass.MissingExtraError:
            If the packages that the configuration needs are not installed.
        """
        self.top_k = checked_top_k(top_k)
        self.model = model
        self.depth = depth
        self.score_threshold = plain_number(score_threshold)
        self.scale_score = scale_score
        self.meta_fields_to_embed = copy(meta_fields_to_embed)  # the caller may go on to change it
        self.embedding_separator = embedding_separator
        self.query_prefix = query_prefix
        self.query_suffix = query_suffix
        self.document_prefix = document_prefix
        self.document_suffix = document_suffix
        self.device = device
        self.token = token
        self.batch_size = batch_size
        self.model_kwargs = copy(model_kwargs)
        self.dedupe = dedupe
        self.meta_prefix = meta_prefix
        self.raise_on_failure = raise_on_failure
        self.chat_generator = chat_generator
        checked(vars(self))
        self._flat = as_settings(vars(self))
        self._ready = isinstance(reranker, Reranker)
        if isinstance(reranker, Reranker):
            # Given with each call.
            self._flat.pop("dedupe", None)
            if reranker.top_k is None:
                self._flat.pop("top_k", None)
        self._llm = None if chat_generator is None else OwnedChatGenerator(chat_generator)
        try:
            self.reranker = resolve(
                reranker, llm=self._llm, flat=self._flat, defaults={"dedupe": True}
            )
        except ConfigurationError as error:
            raise ConfigurationError(error.problems, "SecondPassRanker") from None
        # Presets and files are saved by name. Of a mapping its meaning is saved, because whoever
        # made it may go on to change it.
        self._name = saved_path(reranker) if isinstance(reranker, str | PathLike) else None
        self._warm: set[str] = set()
        self._warming = ForkLock()
        self._told: set[str] = set()
        self._opened = False
        self._elsewhere = _set_elsewhere(reranker)
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        # Not super(): @component makes another class of this one.
        if "_made" in self.__dict__:
            if name in FIXED:
                told = f"{name} can't be changed after the component is made; make a new one"
                raise AttributeError(told)
            if name in ASSIGNABLE:
                value = assigned(name, value, self._flat)
                if value is not None and name in self._elsewhere:
                    raise ConfigurationError([Problem((name,), _ELSEWHERE)], "SecondPassRanker")
        object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Serialize this component to a dictionary.

        :returns:
            Dictionary with serialized data.
        :raises secondpass.NotSerializableError:
            If the reranker holds an object that no configuration can describe.
        :raises ValueError:
            If `token` is not taken from the environment.
        """
        generator = self.chat_generator
        return default_to_dict(
            self,
            reranker=self._name or self._configuration(),
            model=None if self.model is None else str(self.model),
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
            token=self.token,
            batch_size=self.batch_size,
            model_kwargs=plain_types(self.model_kwargs),
            dedupe=self.dedupe,
            meta_prefix=self.meta_prefix,
            raise_on_failure=self.raise_on_failure,
            chat_generator=(
                None if generator is None else component_to_dict(generator, "chat_generator")
            ),
        )

    def _configuration(self) -> dict[str, Any]:
        config = without(self.reranker.to_config(), self._flat)
        if not config.pop("dedupe", False) and not self._ready and self.dedupe is None:
            config["dedupe"] = False  # what goes without saying in the core does not here
        return config

    def __deepcopy__(self, memo: dict[int, Any]) -> "SecondPassRanker":
        # It shares the models: those that it asks have to be those that it warms up and closes.
        shared = [self.reranker, self.chat_generator, self._llm, self._warming]
        memo.update((id(one), one) for one in shared)
        copied = type(self).__new__(type(self))
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

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
        """Load the models and make the clients, unless that was done before.

        Pipelines call this at each run, so what can't be loaded raises here only if
        `raise_on_failure` is set. Otherwise it is logged, and `report` tells of it.

        :raises Exception:
            If `raise_on_failure` is set and no model can be loaded.
        """
        self._opened = True
        with self._warming, self._tolerant("the chat generator"):
            if "warm_up" not in self._warm:
                if self._llm is not None:
                    self._llm.warm_up_sync()
                self._warm.add("warm_up")
        if self._first("models"):
            with self._tolerant("the models"), use_logger(_VOICE):
                self.reranker.warm_up()

    async def warm_up_async(self) -> None:
        """Do as `warm_up` does: the chat generator in this event loop, the rest in a thread."""
        self._opened = True
        with self._tolerant("the chat generator"):
            if "warm_up_async" not in self._warm:
                if self._llm is not None:
                    await self._llm.warm_up_async()
                self._warm.add("warm_up_async")
        if self._first("models"):
            with self._tolerant("the models"), use_logger(_VOICE):
                await self.reranker.awarm_up()

    def close(self) -> None:
        """Let go of models and connections. They are loaded again when they are needed.

        The asynchronous side of a chat generator that has a `close_async` is left to that.
        """
        try:
            if self._llm is not None:
                self._llm.close_sync()
        finally:
            if self._shut():
                self.reranker.close()

    async def close_async(self) -> None:
        """Close both sides of the chat generator and, in a thread, the models."""
        try:
            if self._llm is not None:
                await self._llm.close_async()
        finally:
            if self._shut():
                await self.reranker.aclose()

    def _shut(self) -> bool:
        """Whether the models are to be closed; from now on they are not."""
        opened, self._opened = self._opened, False
        self._warm.clear()
        return opened

    def _first(self, what: str) -> bool:
        """Whether this is to be warmed up; from now on it is not, whatever comes of it.

        Models that cannot be loaded are tried again by the core, which knows when.
        """
        first = what not in self._warm
        self._warm.add(what)
        return first

    @contextmanager
    def _tolerant(self, what: str) -> Iterator[None]:
        """Log a failure, which the report of the next ranking tells too; raise it under strict."""
        try:
            yield
        except Exception as error:
            if self.reranker.strict:
                self._warm.clear()
                raise
            if what not in self._told:  # pipelines try again with each run
                self._told.add(what)
                told = "{what} can't be warmed up: {error}"
                logger.warning(told, what=what, error=type(error).__name__)

    def candidates_needed(self, top_k: int | None = None) -> int | None:
        """How many documents to ask the retriever for.

        :param top_k:
            How many documents are to be returned, instead of the number set for the component.
        :returns:
            `top_k` times the configuration's `candidate_multiplier` where that is set, else as many
            as are judged (but no fewer than are returned); `None` where neither bounds it.
        :raises ValueError:
            If `top_k` is not greater than 0.
        """
        top_k = checked_top_k(top_k)
        top_k = self.top_k if top_k is None else top_k
        return self.reranker.candidates_needed(top_k, depth=self.depth)

    @component.output_types(documents=list[Document], report=dict[str, Any])
    def run(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        *,
        score_threshold: float | None = None,
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
        :param score_threshold:
            Judged documents whose final score is lower are left out; instead of the one set for the
            component.
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
            If `top_k` is not greater than 0, or an argument is of the wrong kind, such as
            `documents` that are no Documents.
        :raises secondpass.RerankError:
            If `raise_on_failure` is set and a document that was to be judged could not be.
        """
        documents = checked_documents(documents)
        settings = self._call(top_k, score_threshold, depth, order, context)
        self._opened = True
        with use_logger(_VOICE):
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
        depth: int | None = None,
        order: str | dict[str, Any] | None = None,
        context: Any = None,
    ) -> dict[str, Any]:
        """Do as `run` does, with the same parameters; what blocks does so in a worker thread."""
        documents = checked_documents(documents)
        settings = self._call(top_k, score_threshold, depth, order, context)
        self._opened = True
        with use_logger(_VOICE):
            ranking = await self.reranker.arerank(query, candidates(documents), **settings)
        return self._output(documents, ranking)

    def _call(
        self,
        top_k: int | None,
        score_threshold: float | None,
        depth: int | None,
        order: object,
        context: object,
    ) -> dict[str, Any]:
        top_k = checked_top_k(top_k)
        threshold = checked_threshold(score_threshold)
        return {
            "top_k": self.top_k if top_k is None else top_k,
            "floor": self.score_threshold if threshold is None else threshold,
            "depth": self.depth if depth is None else depth,
            "order": order,
            "context": context,
            "dedupe": True if self._ready and self.dedupe is None else self.dedupe,
        }

    def _output(self, documents: list[Document], ranking: Ranking) -> dict[str, Any]:
        copies = ranked(documents, ranking, self.meta_prefix)
        return {"documents": copies, "report": ranking.report.to_dict()}


_ELSEWHERE = "can't be assigned, for the reranker that was given sets it; set it there"


def _set_elsewhere(reranker: object) -> frozenset[str]:
    """The assignable parameters that a mapping or a ready Reranker has set already."""
    if isinstance(reranker, Reranker):
        names = {"depth", "score_threshold"}
        return frozenset(names if reranker.top_k is None else {*names, "top_k"})
    config = reranker if isinstance(reranker, Mapping) else {}
    return frozenset(name for name, setting in ASSIGNABLE.items() if setting in config)
