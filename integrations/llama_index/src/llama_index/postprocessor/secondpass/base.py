"""The node postprocessor: nodes to candidates, one call of the core, candidates to nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Self, TypeAlias

from llama_index.core.bridge.pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_serializer,
    field_validator,
)
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation import (  # type: ignore[attr-defined]  # no __all__
    Dispatcher,
    NullEventHandler,
    get_dispatcher,
)
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
    QueryType,
    TextNode,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticSerializationError

from llama_index.postprocessor.secondpass.llm import LlamaIndexLLM
from secondpass import Candidate, ConfigurationError, Ranking, Report, Reranker
from secondpass.config import preset_names, resolve
from secondpass.errors import InputError, NotSerializableError
from secondpass.provenance import falling_scores, provenance

dispatcher = get_dispatcher(__name__)

RerankerLike: TypeAlias = str | dict[str, Any] | Path | SkipJsonSchema[Reranker]

_CORE_NAMES = {"top_n": "top_k", "depth": "depth", "dedupe": "dedupe", "strict": "strict"}
"""What the core calls each setting that it has as well."""


_EXCLUDED_SET = frozenset({"excluded_llm_metadata_keys", "excluded_embed_metadata_keys"})


class SecondPassRerank(BaseNodePostprocessor):
    """Puts the best nodes first, loses none, and says what it did.

    Every node comes back once, but for what ``top_n``, a floor, a dropped tail or ``dedupe`` leave
    out. If the method fails, what it judged is used and the other nodes keep the order that they
    came in. :meth:`rerank_nodes` gives the report of that along with the nodes.

    The nodes that come out are copies; those that go in are not changed. Their scores fall with
    rank, so that components behind which sort by score keep the order. Their metadata gains
    ``rerank_score``, ``retrieval_score``, ``rerank_rank`` and ``rerank_status``, which are kept out
    of the texts that are shown to language models and embedded.

    Args:
        reranker: the name of a preset, a configuration, the path of one in YAML, or a Reranker.
        top_n: how many nodes to return; None leaves it to the configuration.
        depth: how many nodes to judge; None leaves it to the configuration.
        metadata_mode: which text of a node is judged. The default is the bare text: what metadata
            is worth judging is for the configuration to say (``render``), whereas the other modes
            show all that is not excluded, file paths and dates included.
        metadata_prefix: stands before the names of the four metadata keys.
        dedupe: of nodes with the same id, keep the one that was retrieved with the best score; None
            leaves it to the configuration.
        strict: raise ``secondpass.RerankError`` where a node that has a text to judge could not be
            judged; None leaves it to the configuration.
        llm: the language model to ask, instead of that of the configuration, which need not have
            one then. It is never serialised: give it to ``from_json`` again.
        callback_manager: is told of each reranking.

    Raises:
        ConfigurationError: the configuration is wrong, or sets what an argument sets too.
        MissingExtraError: no method of the configuration has the packages that it needs.
        ValidationError: an argument is of the wrong kind or unknown.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    reranker: RerankerLike = Field(
        default="default",
        frozen=True,
        description="Preset name, configuration, path of a YAML file, or secondpass.Reranker.",
    )
    top_n: int | None = Field(
        default=None, ge=1, strict=True, description="Number of nodes to return."
    )
    depth: int | None = Field(
        default=None, ge=1, strict=True, description="Number of nodes to judge."
    )
    metadata_mode: MetadataMode = Field(
        default=MetadataMode.NONE, description="Which text of a node is judged."
    )
    metadata_prefix: str = Field(
        default="", description="Stands before the names of the metadata keys that are added."
    )
    dedupe: bool | None = Field(
        default=None, description="Whether to keep only the best node of each id."
    )
    strict: bool | None = Field(
        default=None, frozen=True, description="Whether to raise where a node cannot be judged."
    )
    llm: SkipJsonSchema[LLM] | None = Field(
        default=None, exclude=True, frozen=True, description="The language model to ask."
    )

    _reranker: Reranker = PrivateAttr()

    def __init__(
        self,
        reranker: Reranker | Mapping[str, Any] | Path | str = "default",
        *,
        top_n: int | None = None,
        depth: int | None = None,
        metadata_mode: MetadataMode = MetadataMode.NONE,
        metadata_prefix: str = "",
        dedupe: bool | None = None,
        strict: bool | None = None,
        llm: LLM | None = None,
        **fields: Any,
    ) -> None:
        fields.pop("class_name", None)  # it stands in what model_dump gives
        shared: dict[str, Any] = {
            "top_n": top_n,
            "depth": depth,
            "dedupe": dedupe,
            "strict": strict,
        }
        # Before pydantic, which would make its own error of the core's.
        for name, value in shared.items():
            _refuse_twice(reranker, name, value)
        core = _resolved(reranker, strict, llm)
        fields |= {
            "metadata_mode": metadata_mode,
            "metadata_prefix": metadata_prefix,
            **shared,
        }
        super().__init__(reranker=reranker, llm=llm, **fields)  # type: ignore[call-arg]  # of the base
        self._reranker = core

    @field_validator("top_n", "depth", "dedupe", "strict")
    @classmethod
    def _not_set_twice(cls, value: Any, info: ValidationInfo) -> Any:
        # For assignments, which do not pass through the constructor.
        _refuse_twice(info.data.get("reranker"), str(info.field_name), value)
        return value

    @classmethod
    def class_name(cls) -> str:
        """The name under which this is serialised."""
        return "SecondPassRerank"

    # ------------------------------------------------------------------ reranking

    def rerank_nodes(
        self, nodes: Sequence[NodeWithScore], query: QueryType | None
    ) -> tuple[list[NodeWithScore], Report]:
        """The nodes, best first, with a report of how that came about.

        Args:
            nodes: in the order of the retriever; not changed.
            query: what was searched for.

        Raises:
            ValueError: there is no query.
            RerankError: under ``strict``, when a node that has a text to judge could not be judged.
        """
        text, nodes = _query_text(query), list(nodes)
        with self._observed(query, nodes) as ended:
            ranking = self._reranker.rerank(text, self._candidates(nodes), **self._call())
            ranked = self._ranked(nodes, ranking)
            ended(ranked)
        return ranked, ranking.report

    async def arerank_nodes(
        self, nodes: Sequence[NodeWithScore], query: QueryType | None
    ) -> tuple[list[NodeWithScore], Report]:
        """:meth:`rerank_nodes` for event loops: whatever blocks does so in a worker thread."""
        text, nodes = _query_text(query), list(nodes)
        with self._observed(query, nodes) as ended:
            ranking = await self._reranker.arerank(text, self._candidates(nodes), **self._call())
            ranked = self._ranked(nodes, ranking)
            ended(ranked)
        return ranked, ranking.report

    @dispatcher.span
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return self.rerank_nodes(nodes, query_bundle)[0]

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return (await self.arerank_nodes(nodes, query_bundle))[0]

    def _call(self) -> dict[str, Any]:
        # At the call, not at construction: so they can be assigned without loading models anew.
        return {"top_k": self.top_n, "depth": self.depth, "dedupe": self.dedupe}

    def _candidates(self, nodes: Sequence[NodeWithScore]) -> list[Candidate]:
        mode = self.metadata_mode
        return [
            Candidate(
                one.node.get_content(metadata_mode=mode) or _no_text(one.node),  # type: ignore[arg-type]
                one.node.node_id,
                one.score,
                one.node.metadata,
            )
            for one in nodes
        ]

    def _ranked(self, nodes: Sequence[NodeWithScore], ranking: Ranking) -> list[NodeWithScore]:
        ranked = []
        for item, score in zip(ranking.items, falling_scores(ranking), strict=True):
            node = nodes[item.position].node
            added = provenance(item, node.metadata, self.metadata_prefix)
            ranked.append(NodeWithScore(node=_copy(node, added), score=score))
        return ranked

    @contextmanager
    def _observed(
        self, query: QueryType | None, nodes: Sequence[NodeWithScore]
    ) -> Iterator[Callable[[list[NodeWithScore]], None]]:
        """Tell handlers of both kinds that a reranking starts, and by what is yielded, its end."""
        # What handlers keep must not change when components behind write to the nodes. Copies are
        # spared where nobody listens.
        listened = bool(self.callback_manager.handlers) or _has_handlers()
        shown = _snapshot(nodes) if listened else list(nodes)
        top_n = self.top_n or self._reranker.top_k or len(nodes)
        model = self._reranker.method.name
        dispatcher.event(ReRankStartEvent(query=query, nodes=shown, top_n=top_n, model_name=model))
        payload: dict[str, Any] = {
            EventPayload.NODES: shown,
            EventPayload.MODEL_NAME: model,
            EventPayload.QUERY_STR: _query_text(query),
            EventPayload.TOP_K: top_n,
        }
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:

            def ended(ranked: list[NodeWithScore]) -> None:
                shown = _snapshot(ranked) if listened else ranked
                event.on_end(payload={EventPayload.NODES: shown})
                dispatcher.event(ReRankEndEvent(nodes=shown))

            yield ended

    # ------------------------------------------------------------------ serialisation

    @field_serializer("reranker")
    def _serialised(self, _value: object) -> str | dict[str, Any]:
        return self._configuration()

    def _configuration(self) -> str | dict[str, Any]:
        """What this can be made from again, together with its other settings."""
        if isinstance(self.reranker, str) and self.reranker in preset_names():
            return self.reranker
        here = {core for name, core in _CORE_NAMES.items() if getattr(self, name) is not None}
        config = self._reranker.to_config()
        return {key: value for key, value in config.items() if key not in here}

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        """The settings, with the reranker as what YAML and JSON can hold.

        Raises:
            NotSerializableError: the reranker holds an object without a registered name.
        """
        try:
            return super().model_dump(**kwargs)
        except PydanticSerializationError:
            self._configuration()  # raises the core's own error, of which pydantic keeps the text
            raise

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; one that is not deep shares the models, unless ``update`` replaces them."""
        original = deepcopy(self) if deep else self
        copied = super(SecondPassRerank, original).model_copy(update=update)
        if update and not update.keys().isdisjoint({"reranker", "strict", "llm"}):
            copied._reranker = _resolved(copied.reranker, copied.strict, copied.llm)
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        copied = type(self)(callback_manager=self.callback_manager, **self._settings())
        if memo is not None:
            memo[id(self)] = copied
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        # The base class leaves out, with no more than a log line, what cannot be pickled. Locks and
        # models cannot; what they are made from can. Handlers belong to the process.
        return _rebuilt, (type(self), self._settings())

    def _settings(self) -> dict[str, Any]:
        """Arguments to make an equal one; the very reranker where it has no configuration."""
        names = type(self).model_fields.keys() - {"callback_manager", "reranker"}
        settings = {name: getattr(self, name) for name in names}
        try:
            return {"reranker": self._configuration(), **settings}
        except NotSerializableError:
            return {"reranker": self.reranker, **settings}


def _rebuilt(cls: type[SecondPassRerank], settings: dict[str, Any]) -> SecondPassRerank:
    return cls(**settings)


def _refuse_twice(reranker: object, name: str, value: object) -> None:
    """Refuse a setting for which there are two places, so that none silently wins."""
    core_name = _CORE_NAMES[name]
    if value is None:
        return
    if isinstance(reranker, Reranker):
        raise ConfigurationError(f"{name}: set {core_name} on the Reranker given as 'reranker'")
    if isinstance(reranker, Mapping) and core_name in reranker:
        raise ConfigurationError(
            f"{name}: {core_name} in the configuration given as 'reranker' is the same; give one"
        )


def _resolved(
    reranker: Reranker | Mapping[str, Any] | Path | str, strict: bool | None, llm: LLM | None
) -> Reranker:
    overrides = {} if strict is None else {"strict": strict}
    return resolve(reranker, llm=None if llm is None else _SavedApart(llm), **overrides)


class _SavedApart(LlamaIndexLLM):
    """The postprocessor keeps its LLM apart, so the configuration holds none."""

    def as_setting(self, _where: str) -> None:
        return None


def _query_text(query: QueryType | None) -> str:
    if query is None:
        raise InputError("query: reranking needs one; give query_bundle or query_str")
    return query.query_str if isinstance(query, QueryBundle) else query


def _copy(node: BaseNode, added: Mapping[str, Any]) -> BaseNode:
    """The node with ``added`` metadata, sharing no mapping or list that components write to."""
    # What model_copy(update=...) does, without its detours: they took half of an adapter's time.
    fields = node.__dict__.copy()
    fields["metadata"] = {**fields["metadata"], **added}
    fields["relationships"] = fields["relationships"].copy()
    fields["excluded_llm_metadata_keys"] = _joined(fields["excluded_llm_metadata_keys"], added)
    fields["excluded_embed_metadata_keys"] = _joined(fields["excluded_embed_metadata_keys"], added)
    extra, private = node.__pydantic_extra__, node.__pydantic_private__
    copied = node.__class__.__new__(node.__class__)
    assign = object.__setattr__
    assign(copied, "__dict__", fields)
    assign(copied, "__pydantic_fields_set__", node.__pydantic_fields_set__ | _EXCLUDED_SET)
    assign(copied, "__pydantic_extra__", None if extra is None else extra.copy())
    assign(copied, "__pydantic_private__", None if private is None else private.copy())
    return copied


def _no_text(node: BaseNode) -> str | None:
    """An empty text; or None, which tells the core that there is nothing to judge."""
    textual = isinstance(node, TextNode) or getattr(node, "text_resource", None) is not None
    return "" if textual and not isinstance(node, ImageNode) else None


def _joined(keys: list[str], added: Mapping[str, Any]) -> list[str]:
    if not keys:  # the usual case; this runs for every node
        return [*added]
    return keys + [name for name in added if name not in keys]


def _snapshot(nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    return [NodeWithScore(node=_copy(one.node, {}), score=one.score) for one in nodes]


def _has_handlers() -> bool:
    """Whether an event of this module would reach a handler that does something with it."""
    at: Dispatcher | None = dispatcher
    while at is not None:
        if any(not isinstance(handler, NullEventHandler) for handler in at.event_handlers):
            return True
        at = at.parent if at.propagate else None
    return False
