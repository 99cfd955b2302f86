"""The node postprocessor: nodes to candidates, one call of the core, candidates to nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

from llama_index.core.bridge.pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_serializer,
    field_validator,
)
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptDictType, PromptMixin
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, QueryType
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticSerializationError, ValidationError

from llama_index.postprocessor.secondpass.events import Observed, dispatcher, observed
from llama_index.postprocessor.secondpass.nodes import candidates, checked_nodes, ranked
from llama_index.postprocessor.secondpass.parameters import (
    CALL_SETTINGS,
    PLACES,
    check_order,
    flat_of,
    holds_a_key,
    refuse_twice,
    resolved,
    whole_number,
    written_order,
)
from llama_index.postprocessor.secondpass.prompts import prompts_of, with_prompts
from llama_index.postprocessor.secondpass.query_settings import scope, settings_of
from secondpass import ConfigurationError, Ranking, Report, Reranker
from secondpass.concurrency.lazy import ForkLock
from secondpass.config import preset_names
from secondpass.config.overrides import without
from secondpass.errors import InputError, NotSerializableError, Problem
from secondpass.ordering import Ordering
from secondpass.settings import describe

RerankerLike: TypeAlias = str | dict[str, Any] | Path | SkipJsonSchema[Reranker]

_updating = ForkLock()

R = TypeVar("R", bound="SecondPassRerank")


class SecondPassRerank(BaseNodePostprocessor, PromptMixin):
    """Puts the best nodes first, loses none, and says what it did.

    Every node comes back once, but for what ``top_n``, a floor, a dropped tail or ``dedupe`` leave
    out. If the method fails, what it judged is used and the other nodes keep the order that they
    came in. :meth:`rerank_nodes` gives the report of that along with the nodes.

    The nodes that come out are copies; those that go in are not changed. Their scores fall with
    rank, so that components behind which sort by score keep the order. Their metadata gains
    ``rerank_score``, ``rerank_final_score``, ``retrieval_score``, ``rerank_rank`` and
    ``rerank_status``, which are kept out of the texts for language models and embeddings.

    The parameters from ``top_n`` to ``strict`` are short for settings of the configuration. Where
    they are None the configuration decides. They stand over that of a preset or a file, and are
    refused beside a mapping or a Reranker that has the setting too, and where the method has no
    such setting.

    Args:
        reranker: the name of a preset, a configuration, the path of one in YAML, or a Reranker.
        top_n: how many nodes to return.
        depth: how many nodes to judge.
        similarity_cutoff: judged nodes whose final score is lower are left out. A fallback, whose
            scores mean something else, has a floor of its own or none.
        model: name or folder of the model: of the method itself, such as a cross-encoder or a
            rerank API, else of the language model that it asks.
        device: where a local model runs, such as ``cpu`` or ``cuda:1``.
        choice_batch_size: nodes that a model is given at once.
        api_key: of an API, or the hub token for a private model. It is never serialised; better
            left to the environment.
        dedupe: of nodes with the same id, keep the one that was retrieved with the best score.
        strict: raise ``secondpass.RerankError`` where a node that has a text to judge could not be
            judged.
        order: a rule that moves nodes after they are ranked: the name of one of the configuration's
            ``orders``, or of another ordering, a mapping with a ``type``, or a function;
            ``"none"`` for none.
        metadata_mode: which text of a node is judged. The default is the bare text: what metadata
            is worth judging is for the configuration to say (``render``), whereas the other modes
            show all that is not excluded, file paths and dates included.
        metadata_prefix: stands before the names of the five metadata keys.
        keep_retrieval_score: whether ``retrieval_score`` is one of them.
        llm: the language model to ask, instead of that of the configuration, which need not have
            one then. It is never serialised: give it to ``from_json`` again.
        callback_manager: is told of each reranking.

    Raises:
        ConfigurationError: the configuration is wrong, or does not go together with an argument.
        MissingExtraError: no method of the configuration has the packages that it needs.
        ValidationError: an argument is of the wrong kind or unknown.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True, hide_input_in_errors=True)

    reranker: RerankerLike = Field(
        default="default",
        frozen=True,
        repr=False,
        description="Preset name, configuration, path of a YAML file, or secondpass.Reranker.",
    )
    top_n: int | None = Field(
        default=None, ge=1, strict=True, description="Number of nodes to return."
    )
    depth: int | None = Field(
        default=None, ge=1, strict=True, description="Number of nodes to judge."
    )
    similarity_cutoff: float | None = Field(
        default=None,
        strict=True,
        allow_inf_nan=False,
        description="Lowest final score of judged nodes.",
    )
    model: str | None = Field(default=None, frozen=True, description="Name or folder of the model.")
    device: str | None = Field(default=None, frozen=True, description="Where a local model runs.")
    choice_batch_size: int | None = Field(
        default=None,
        ge=1,
        strict=True,
        frozen=True,
        description="Number of nodes that a model is given at once.",
    )
    api_key: SecretStr | None = Field(
        default=None, exclude=True, repr=False, frozen=True, description="Key of an API."
    )
    dedupe: bool | None = Field(
        default=None, description="Whether to keep only the best node of each id."
    )
    strict: bool | None = Field(
        default=None, frozen=True, description="Whether to raise where a node cannot be judged."
    )
    order: str | dict[str, Any] | SkipJsonSchema[Callable[..., Any]] | None = Field(
        default=None, description="Rule that moves nodes after they are ranked."
    )
    metadata_mode: MetadataMode = Field(
        default=MetadataMode.NONE, description="Which text of a node is judged."
    )
    metadata_prefix: str = Field(
        default="", description="Stands before the names of the metadata keys that are added."
    )
    keep_retrieval_score: bool = Field(
        default=True, description="Whether to keep the retrieval score in the metadata."
    )
    llm: SkipJsonSchema[LLM] | None = Field(
        default=None,
        exclude=True,
        repr=False,
        frozen=True,
        description="The language model to ask.",
    )

    _reranker: Reranker = PrivateAttr()
    _prompts: dict[str, object] = PrivateAttr(default_factory=dict)

    def __init__(
        self,
        reranker: Reranker | Mapping[str, Any] | Path | str = "default",
        *,
        top_n: int | None = None,
        depth: int | None = None,
        similarity_cutoff: float | None = None,
        model: str | Path | None = None,
        device: str | None = None,
        choice_batch_size: int | None = None,
        api_key: str | SecretStr | None = None,
        dedupe: bool | None = None,
        strict: bool | None = None,
        order: str | Mapping[str, Any] | Ordering | None = None,
        metadata_mode: MetadataMode = MetadataMode.NONE,
        metadata_prefix: str = "",
        keep_retrieval_score: bool = True,
        llm: LLM | None = None,
        **fields: Any,
    ) -> None:
        fields.pop("class_name", None)  # it stands in what model_dump gives
        fields |= {
            "top_n": top_n,
            "depth": depth,
            "similarity_cutoff": similarity_cutoff,
            "model": None if model is None else str(model),
            "device": device,
            "choice_batch_size": choice_batch_size,
            "api_key": api_key,
            "dedupe": dedupe,
            "strict": strict,
            "order": dict(order) if isinstance(order, Mapping) else order,
            "metadata_mode": metadata_mode,
            "metadata_prefix": metadata_prefix,
            "keep_retrieval_score": keep_retrieval_score,
        }
        # Before pydantic, which would make its own error of the core's.
        for name in CALL_SETTINGS:
            refuse_twice(reranker, name, fields[name])
        core = resolved(reranker, fields, llm)
        check_order(core, fields["order"])
        super().__init__(reranker=reranker, llm=llm, **fields)  # type: ignore[call-arg]  # of the base
        self._reranker = core

    @field_validator(*CALL_SETTINGS)
    @classmethod
    def _not_set_twice(cls, value: Any, info: ValidationInfo) -> Any:
        # For assignments, which do not pass through the constructor.
        refuse_twice(info.data.get("reranker"), str(info.field_name), value)
        return value

    @classmethod
    def class_name(cls) -> str:
        """The name under which this is serialised."""
        return "SecondPassRerank"

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # An LLM's repr may hold its key, and so may a mapping.
        yield "reranker", self.reranker if isinstance(self.reranker, str) else self._reranker
        for name, field in type(self).model_fields.items():
            told = field.repr and name != "callback_manager"
            if told and (value := getattr(self, name)) != field.default:
                yield name, value

    def __setattr__(self, name: str, value: Any) -> None:
        field = type(self).model_fields.get(name)
        if field is not None and field.frozen:
            # pydantic's own error would show what was assigned, which may be a key.
            raise ValidationError.from_exception_data(
                type(self).__name__,
                [{"type": "frozen_field", "loc": (name,), "input": None}],
                hide_input=True,
            )
        if name == "order":
            check_order(self._reranker, value)
        super().__setattr__(name, value)

    # ------------------------------------------------------------------ reranking

    def rerank_nodes(
        self,
        nodes: Sequence[NodeWithScore],
        query: QueryType | None,
        *,
        top_n: int | None = None,
        order: str | Mapping[str, Any] | Ordering | None = None,
        context: Any = None,
    ) -> tuple[list[NodeWithScore], Report]:
        """The nodes, best first, with a report of how that came about.

        Args:
            nodes: in the order of the retriever; not changed.
            query: what was searched for.
            top_n: how many nodes to return, instead of the number set here.
            order: a rule that moves nodes after they are ranked, by name or as a mapping with a
                ``type``, instead of the configured one; ``"none"`` for none.
            context: anything that the method wants to know about this query.

        Raises:
            ValueError: there is no query, or an argument is of the wrong kind, such as nodes
                without scores.
            RerankError: under ``strict``, when a node that has a text to judge could not be judged.
        """
        text, nodes = _query_text(query), checked_nodes(nodes)
        settings = self._call(top_n, order, context)
        with self._observed(query, nodes, settings) as ended:
            found = candidates(nodes, self.metadata_mode)
            return self._told(nodes, self._reranker.rerank(text, found, **settings), ended)

    async def arerank_nodes(
        self,
        nodes: Sequence[NodeWithScore],
        query: QueryType | None,
        *,
        top_n: int | None = None,
        order: str | Mapping[str, Any] | Ordering | None = None,
        context: Any = None,
    ) -> tuple[list[NodeWithScore], Report]:
        """:meth:`rerank_nodes` for event loops: whatever blocks does so in a worker thread."""
        text, nodes = _query_text(query), checked_nodes(nodes)
        settings = self._call(top_n, order, context)
        with self._observed(query, nodes, settings) as ended:
            found = candidates(nodes, self.metadata_mode)
            return self._told(nodes, await self._reranker.arerank(text, found, **settings), ended)

    def query_settings(
        self,
        *,
        top_n: int | None = None,
        order: str | Mapping[str, Any] | Ordering | None = None,
        context: Any = None,
    ) -> AbstractContextManager[None]:
        """Settings for what this postprocessor reranks within a ``with`` block.

        For engines, agents and workflows, which call it with a query and nodes alone::

            with rerank.query_settings(order="learn", context=project):
                response = engine.query("...")

        They hold in the thread or task of the block and in the tasks that are started in it, so
        queries that run side by side with a shared postprocessor do not see each other's. What is
        None is left as it is outside the block. Arguments of :meth:`rerank_nodes` win over them.

        Args:
            top_n: as in :meth:`rerank_nodes`.
            order: likewise.
            context: likewise.

        Raises:
            ValueError: an argument is of the wrong kind.
        """
        given = {"top_k": whole_number("top_n", top_n), "order": order, "context": context}
        try:
            check_order(self._reranker, order)
        except ConfigurationError as error:
            raise InputError(str(error)) from None
        return scope(self, {name: value for name, value in given.items() if value is not None})

    def candidates_needed(self, top_k: int | None = None) -> int | None:
        """How many nodes to ask the retriever for (its ``similarity_top_k``).

        ``top_k`` times the configuration's ``candidate_multiplier`` where that is set, else as many
        as are judged (but no fewer than are returned); None where neither bounds it.

        Args:
            top_k: how many nodes are to be returned, instead of ``top_n``.

        Raises:
            ValueError: ``top_k`` is no whole number of 1 or more.
        """
        top_k = whole_number("top_k", top_k)
        wanted = self._call(None, None, None)["top_k"] if top_k is None else top_k
        return self._reranker.candidates_needed(wanted, depth=self.depth)

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

    def _call(self, top_n: int | None, order: object, context: object) -> dict[str, Any]:
        settings = {core: getattr(self, name) for name, core in CALL_SETTINGS.items()}
        given = {"top_k": whole_number("top_n", top_n), "order": order, "context": context}
        given = {name: value for name, value in given.items() if value is not None}
        return {**settings, **settings_of(self), **given}

    def _observed(
        self, query: QueryType | None, nodes: Sequence[NodeWithScore], settings: Mapping[str, Any]
    ) -> AbstractContextManager[Observed]:
        top_n = settings["top_k"] or self._reranker.top_k or len(nodes)
        model = self._reranker.method.name
        return observed(self.callback_manager, query or "", nodes, top_n=top_n, model=model)

    def _told(
        self, nodes: Sequence[NodeWithScore], ranking: Ranking, ended: Observed
    ) -> tuple[list[NodeWithScore], Report]:
        prefix = self.metadata_prefix
        without_key = None if self.keep_retrieval_score else f"{prefix}retrieval_score"
        found = ranked(nodes, ranking, prefix, without_key)
        ended(found, ranking.report)
        return found, ranking.report

    # ------------------------------------------------------------------ life

    def warm_up(self) -> None:
        """Load the models, so that the first reranking need not.

        Raises:
            ModelLoadError | MissingExtraError: neither the method nor a fallback can be loaded.
        """
        self._reranker.warm_up()

    async def awarm_up(self) -> None:
        """:meth:`warm_up` in a worker thread."""
        await self._reranker.awarm_up()

    def close(self) -> None:
        """Let go of models and connections; the next reranking loads them again."""
        self._reranker.close()

    async def aclose(self) -> None:
        """:meth:`close` in a worker thread."""
        await self._reranker.aclose()

    # ------------------------------------------------------------------ prompts

    def _get_prompts(self) -> PromptDictType:
        return prompts_of(self._reranker)

    def _update_prompts(self, prompts: PromptDictType) -> None:
        own = {name: prompt for name, prompt in prompts.items() if ":" not in name}
        with _updating:
            self._reranker = with_prompts(self._reranker, own)
            self._prompts = {**self._prompts, **own}

    # ------------------------------------------------------------------ serialisation

    @field_serializer("reranker")
    def _serialised(self, _value: object) -> str | dict[str, Any]:
        return self._configuration()

    @field_serializer("order")
    def _serialised_order(self, value: object) -> object:
        return written_order(value)

    def _configuration(self) -> str | dict[str, Any]:
        """What this can be made from again, together with its other settings."""
        named = isinstance(self.reranker, str) and self.reranker in preset_names()
        if named and not self._prompts:
            return str(self.reranker)
        fields, core = self._fields(), self._reranker
        if self.api_key is not None:  # it is never written out
            core = resolved(self.reranker, {**fields, "api_key": None}, self.llm)
            core = with_prompts(core, self._prompts)
        config = without(core.to_config(), flat_of(fields))
        here = {core for name, core in CALL_SETTINGS.items() if getattr(self, name) is not None}
        return {key: value for key, value in config.items() if key not in here}

    def _fields(self) -> dict[str, Any]:
        names = type(self).model_fields.keys() - {"callback_manager", "reranker"}
        return {name: getattr(self, name) for name in names}

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        """The settings, with the reranker as what YAML and JSON can hold.

        Raises:
            NotSerializableError: the reranker holds an object without a registered name.
        """
        try:
            return super().model_dump(**kwargs)
        except PydanticSerializationError:
            self._configuration()  # raises the core's own error, of which pydantic keeps the text
            written_order(self.order)
            raise

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; one that is not deep shares the models, unless ``update`` replaces them."""
        original = deepcopy(self) if deep else self
        copied = super(SecondPassRerank, original).model_copy(update=update)
        if update and not update.keys().isdisjoint({"reranker", "llm", *PLACES}):
            copied._reranker = resolved(copied.reranker, copied._fields(), copied.llm)
            copied._update_prompts(copied._prompts)  # type: ignore[arg-type]
        if update and "order" in update:
            check_order(copied._reranker, copied.order)
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        copied = _rebuilt(type(self), self._settings(), self._prompts)
        copied.callback_manager = self.callback_manager
        if memo is not None:
            memo[id(self)] = copied
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        # The base class leaves out, with no more than a log line, what cannot be pickled. Locks and
        # models cannot; what they are made from can. Handlers belong to the process, keys to the
        # environment.
        settings = {**self._settings(), "api_key": None}
        told = "holds a key, which is not written out; name its environment variable instead"
        if holds_a_key(settings["reranker"]):
            raise NotSerializableError([Problem(("reranker",), told)])
        if self.llm is not None and holds_a_key(vars(self.llm)):
            told = "holds a key, which is not written out; use to_json, and give llm= to from_json"
            raise NotSerializableError([Problem(("llm",), told)])
        return _rebuilt, (type(self), settings, self._prompts)

    def _settings(self) -> dict[str, Any]:
        """Arguments to make one of the same settings; its prompts apart.

        What has no configuration, such as an object of the user's, is passed on itself.
        """
        if not isinstance(self.reranker, Mapping):
            return {"reranker": self.reranker, **self._fields()}
        try:
            return {"reranker": self._configuration(), **self._fields()}
        except NotSerializableError:
            return {"reranker": self.reranker, **self._fields()}


def _rebuilt(cls: type[R], settings: dict[str, Any], prompts: dict[str, Any]) -> R:
    made = cls(**settings)
    if prompts:
        made.update_prompts(prompts)
    return made


def _query_text(query: QueryType | None) -> str:
    if query is None:
        raise InputError("query: reranking needs one; give query_bundle or query_str")
    text = query.query_str if isinstance(query, QueryBundle) else query
    if not isinstance(text, str):
        raise InputError(f"query: give a string or a QueryBundle, not {describe(text)}")
    return text
