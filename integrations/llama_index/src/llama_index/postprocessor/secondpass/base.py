"""The node postprocessor around :class:`secondpass.Reranker`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from llama_index.core.bridge.pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    field_serializer,
    field_validator,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixin
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, QueryType
from pydantic import BeforeValidator, FieldSerializationInfo
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticSerializationError

from llama_index.postprocessor.secondpass.events import Finish, checked_manager, dispatcher, observe
from llama_index.postprocessor.secondpass.nodes import (
    candidates,
    checked_nodes,
    ranked,
    shortened_nodes,
)
from llama_index.postprocessor.secondpass.parameters import (
    INSTEAD,
    holds_a_key,
    plain_errors,
    resolved,
)
from llama_index.postprocessor.secondpass.prompts import prompt_objects, saved_prompts, templates
from llama_index.postprocessor.secondpass.query_settings import Scope
from secondpass import (
    ConfigurationError,
    InputError,
    NotSerializableError,
    Problem,
    Ranked,
    Ranking,
    Report,
    Reranker,
    Stored,
)
from secondpass.adapters import (
    Parameters,
    Shortened,
    check_options,
    describe,
    detached,
    explained,
    fork_lock,
    naming_kept_keys,
    saved,
    whole_number,
    with_prompts,
)

RerankerLike: TypeAlias = str | dict[str, Any] | Path | SkipJsonSchema[Reranker]
Order: TypeAlias = str | Mapping[str, Any] | Callable[[Sequence[Ranked]], Sequence[Ranked]]
Detached = BeforeValidator(detached)
"""Marks fields with mappings, of which a copy is kept: the caller may change theirs later."""

_updating = fork_lock()
_explained = explained(lambda: SecondPassRerank.PARAMETERS.of_keyword)


class SecondPassRerank(BaseNodePostprocessor, PromptMixin):
    """Reranks nodes: best first, none lost, with a report.

    Every node is returned once, except those that ``top_n``, a threshold, a dropped tail or
    ``dedupe`` leave out. If the method fails, the scores that it gave are used and the other nodes
    keep their order. :meth:`rerank_nodes` also returns the report.

    The returned nodes are copies. Their scores fall with rank, so that components that sort by
    score keep the order. ``rerank_score``, ``rerank_final_score``, ``retrieval_score``,
    ``rerank_rank``, ``rerank_status`` and, if there are any, ``rerank_span``,
    ``rerank_probability`` and ``rerank_terms`` are added to their metadata and kept out of the
    texts for language models and embeddings.

    The parameters from ``top_n`` to ``order`` override settings of a preset or a file; None: as
    configured. They are an error if a mapping or a Reranker has the same setting (a Reranker has a
    ``depth`` by default), and if the method has no such setting. ``top_n``, ``depth``,
    ``similarity_cutoff``, ``dedupe``, ``order``, ``max_tokens``, ``callback_manager`` and those of
    metadata are read at each run, so they can be assigned; all others are fixed.

    Args:
        reranker: the name of a preset, a configuration, the path of one in YAML, or a Reranker.
        top_n: number of nodes to return.
        depth: number of nodes to score.
        similarity_cutoff: scored nodes with a lower ``rerank_score`` are left out; with a blend by
            ``none`` or ``sigmoid``, with a lower final score. Not for methods whose scores are
            ranks; it does not apply to a fallback, whose scores have another scale.
        model: name or folder of the model: of the method itself, such as a cross-encoder or a
            rerank API, else of its language model.
        device: device of a local model, such as ``cpu`` or ``cuda:1``.
        choice_batch_size: nodes per call of a model.
        trust_remote_code: whether to run code from the model's repository. Only for models you
            trust.
        cross_encoder_kwargs: settings of a ``cross_encoder``, under the names that the arguments of
            sentence-transformers' ``CrossEncoder`` have.
        api_key: of a rerank API or a language model. It is never serialised; prefer an environment
            variable. It is not sent to the Hugging Face hub, whose token is read from the variable
            that ``token_env`` of the method names, else from ``HF_TOKEN``.
        dedupe: of nodes with the same id, keep the one that was retrieved with the best score.
        strict: raise ``secondpass.RerankError`` if a node with a text could not be scored.
        order: a rule that moves nodes after they are ranked: the name of one of the configuration's
            ``orders``, or of another ordering, a mapping with a ``type``, or a function;
            ``"none"`` for none.
        max_tokens: number of tokens that the texts of the returned nodes may have together, counted
            by the tokenizer of LlamaIndex's ``Settings``; metadata, which some synthesizers show,
            is not counted. Of a node that does not fit whole, the sentences that match best are
            kept, with ``[…]`` where text was left out; text that a splitter repeats in the next
            node is kept once, and so are exact copies. ``rerank_sources`` in the metadata has the
            id of the node, and the ``spans`` of its text that are there.
        metadata_mode: which text of a node is scored. The default is the bare text, and ``render``
            in the configuration adds metadata. The other modes show all metadata that is not
            excluded, file paths and dates included.
        metadata_prefix: prefix of the added metadata keys.
        keep_retrieval_score: whether ``retrieval_score`` is added.
        prompts: prompts of the methods, by the names that ``get_prompts`` has; ``update_prompts``
            adds to them.
        llm: the language model, instead of that of the configuration, which then need not have one.
            It is never serialised: pass it to ``from_json`` again.
        callback_manager: receives an event for each reranking; None: nothing does.

    Raises:
        ConfigurationError: the configuration is wrong or conflicts with an argument, or an argument
            is of the wrong kind or unknown; the message names the nearest parameter.
        MissingExtraError: no method of the configuration has the packages that it needs.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True, hide_input_in_errors=True)

    reranker: Annotated[RerankerLike, Detached] = Field(
        "default",
        frozen=True,
        repr=False,
        description="Preset name, configuration, path of a YAML file, or secondpass.Reranker.",
    )
    top_n: int | None = Field(None, ge=1, strict=True, description="Number of nodes to return.")
    depth: int | None = Field(None, ge=1, strict=True, description="Number of nodes to judge.")
    similarity_cutoff: float | None = Field(
        None, strict=True, allow_inf_nan=False, description="Lowest score of judged nodes."
    )
    model: str | None = Field(None, frozen=True, description="Name or folder of the model.")
    device: str | None = Field(None, frozen=True, description="Where a local model runs.")
    choice_batch_size: int | None = Field(
        None, ge=1, strict=True, frozen=True, description="Nodes that a model is given at once."
    )
    trust_remote_code: bool = Field(
        False, strict=True, frozen=True, description="Whether to run the model repository's code."
    )
    cross_encoder_kwargs: Annotated[dict[str, Any] | None, Detached] = Field(
        None,
        frozen=True,
        description="Settings of a cross-encoder, as SentenceTransformerRerank takes them.",
    )
    api_key: SecretStr | None = Field(
        None, exclude=True, repr=False, frozen=True, description="Key of an API."
    )
    dedupe: bool | None = Field(None, description="Whether to keep only the best node of each id.")
    strict: bool | None = Field(
        None, frozen=True, description="Whether to raise where a node cannot be judged."
    )
    order: Annotated[str | dict[str, Any] | SkipJsonSchema[Callable[..., Any]] | None, Detached] = (
        Field(None, description="Rule that moves nodes after they are ranked.")
    )
    max_tokens: int | None = Field(
        None, ge=1, strict=True, description="Number of tokens of all returned nodes."
    )
    metadata_mode: MetadataMode = Field(
        MetadataMode.NONE, description="Which text of a node is judged."
    )
    metadata_prefix: str = Field("", description="Prefix of the metadata keys that are added.")
    keep_retrieval_score: bool = Field(
        True, description="Whether to keep the retrieval score in the metadata."
    )
    prompts: dict[str, str | SkipJsonSchema[BasePromptTemplate]] = Field(
        default_factory=dict,
        frozen=True,
        repr=False,
        description="Prompts of the methods, by name.",
    )
    llm: SkipJsonSchema[LLM] | None = Field(
        None, exclude=True, repr=False, frozen=True, description="The language model to ask."
    )

    PARAMETERS: ClassVar[Parameters]

    _reranker: Reranker = PrivateAttr()
    _scope: Scope = PrivateAttr(default_factory=Scope)  # of query settings; copies share it

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
        trust_remote_code: bool = False,
        cross_encoder_kwargs: Mapping[str, Any] | None = None,
        api_key: str | SecretStr | None = None,
        dedupe: bool | None = None,
        strict: bool | None = None,
        order: Order | None = None,
        max_tokens: int | None = None,
        metadata_mode: MetadataMode = MetadataMode.NONE,
        metadata_prefix: str = "",
        keep_retrieval_score: bool = True,
        prompts: Mapping[str, BasePromptTemplate | str] | None = None,
        llm: LLM | None = None,
        **fields: Any,
    ) -> None:
        fields.pop("class_name", None)  # model_dump writes it
        others = {name: fields[name] for name in fields.keys() - type(self).model_fields.keys()}
        if unknown := self.PARAMETERS.unknown(others):
            raise ConfigurationError(unknown, type(self).__name__)
        # Checked before pydantic, which would wrap errors of the core.
        if "callback_manager" in fields:
            fields["callback_manager"] = checked_manager(fields["callback_manager"])
        fields |= {
            "reranker": reranker,
            "top_n": top_n,
            "depth": depth,
            "similarity_cutoff": similarity_cutoff,
            "model": None if model is None else str(model),
            "device": device,
            "choice_batch_size": choice_batch_size,
            "trust_remote_code": trust_remote_code,
            "cross_encoder_kwargs": cross_encoder_kwargs,
            "api_key": api_key,
            "dedupe": dedupe,
            "strict": strict,
            "order": order,
            "max_tokens": max_tokens,
            "metadata_mode": metadata_mode,
            "metadata_prefix": metadata_prefix,
            "keep_retrieval_score": keep_retrieval_score,
            "prompts": templates(prompts or {}),
            "llm": llm,
        }
        core = resolved(reranker, self.PARAMETERS, fields)
        with plain_errors(type(self).__name__):
            super().__init__(**fields)
        for name in self.PARAMETERS.per_call:
            self.PARAMETERS.check(name, getattr(self, name), reranker, core)
        self._reranker = core

    @field_validator("callback_manager", mode="before")
    @classmethod
    def _manager(cls, value: object) -> CallbackManager:
        return checked_manager(value)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # An LLM's repr may hold its key, and so may a mapping.
        yield "reranker", self.reranker if isinstance(self.reranker, str) else self._reranker
        for name, field in type(self).model_fields.items():
            in_repr = field.repr and name != "callback_manager"
            if in_repr and (value := getattr(self, name)) != field.default:
                yield name, value

    def __setattr__(self, name: str, value: Any) -> None:
        field = type(self).model_fields.get(name)
        if field is not None and field.frozen:
            message = "can't be changed after construction; make a new postprocessor"
            raise ConfigurationError([Problem((name,), message)], type(self).__name__)
        if field is None and not (name.startswith("_") or hasattr(type(self), name)):
            raise ConfigurationError(self.PARAMETERS.unknown([name]), type(self).__name__)
        if name in self.PARAMETERS.per_call:
            self.PARAMETERS.check(name, value, self.reranker, self._reranker)
        with plain_errors(type(self).__name__):
            super().__setattr__(name, value)

    @classmethod
    def class_name(cls) -> str:
        """The name under which this is serialised."""
        return "SecondPassRerank"

    # ------------------------------------------------------------------ reranking

    @_explained
    def rerank_nodes(
        self,
        nodes: Sequence[NodeWithScore],
        query: QueryType | None,
        *,
        top_n: int | None = None,
        order: Order | None = None,
        context: Any = None,
        instruction: str | None = None,
    ) -> tuple[list[NodeWithScore], Report]:
        """The nodes, best first, and the report.

        Args:
            nodes: in the order of the retriever; not changed.
            query: the search query.
            top_n: number of nodes to return, instead of the parameter.
            order: a rule that moves nodes after they are ranked, by name or as a mapping with a
                ``type``, instead of the configured one; ``"none"`` for none.
            context: whatever the method uses of this query's context.
            instruction: what counts as relevant in this call, such as ``"prefer recent
                documents"``. If the method takes none, the report lists ``instruction_not_used``.

        Raises:
            ValueError: there is no query, or an argument is of the wrong kind, such as nodes
                without scores.
            RerankError: under ``strict``, if a node with a text could not be scored.
        """
        text, nodes = _query_text(query), checked_nodes(nodes)
        settings = self._settings(top_n, order=order, context=context, instruction=instruction)
        with self._observe(query, nodes, settings) as finish:
            converted = candidates(nodes, self.metadata_mode)
            return self._result(nodes, self._reranker.rerank(text, converted, **settings), finish)

    @_explained
    async def arerank_nodes(
        self,
        nodes: Sequence[NodeWithScore],
        query: QueryType | None,
        *,
        top_n: int | None = None,
        order: Order | None = None,
        context: Any = None,
        instruction: str | None = None,
    ) -> tuple[list[NodeWithScore], Report]:
        """:meth:`rerank_nodes` for event loops; blocking calls are made in a worker thread."""
        text, nodes = _query_text(query), checked_nodes(nodes)
        settings = self._settings(top_n, order=order, context=context, instruction=instruction)
        with self._observe(query, nodes, settings) as finish:
            converted = candidates(nodes, self.metadata_mode)
            ranking = await self._reranker.arerank(text, converted, **settings)
            return self._result(nodes, ranking, finish)

    @_explained
    def query_settings(
        self,
        *,
        top_n: int | None = None,
        order: Order | None = None,
        context: Any = None,
        instruction: str | None = None,
    ) -> AbstractContextManager[None]:
        """Settings for what this postprocessor and its copies rerank within a ``with`` block.

        For engines, agents and workflows, which pass nothing but a query and nodes::

            with rerank.query_settings(order="learn", context=project):
                response = engine.query("...")

        They apply in the thread or task of the block and in the tasks that are started in it, so
        concurrent queries can share a postprocessor. None leaves a setting as it is outside the
        block. The arguments are those of :meth:`rerank_nodes`, which override them.

        Raises:
            ValueError: an argument is of the wrong kind.
        """
        check_options(self._reranker, order=order, instruction=instruction)
        settings = {"order": order, "context": context, "instruction": instruction}
        settings["top_k"] = whole_number("top_n", top_n)
        given = {name: value for name, value in settings.items() if value is not None}
        return self._scope.block(given)

    @_explained
    def candidates_needed(self, top_k: int | None = None) -> int | None:
        """How many nodes to ask the retriever for (its ``similarity_top_k``).

        ``top_k`` times the configuration's ``candidate_multiplier`` if that is set, else as many as
        are scored (but no fewer than are returned); None if neither bounds it.

        Args:
            top_k: number of nodes to return, instead of ``top_n``.

        Raises:
            ValueError: ``top_k`` is not a whole number of 1 or more.
        """
        top_k = whole_number("top_k", top_k)
        items = self._settings(top_k)["top_k"]
        return self._reranker.candidates_needed(items, depth=self.depth)

    @_explained
    def store(self, nodes: Sequence[NodeWithScore]) -> Stored:
        """Encode nodes ahead, and keep them in the ``store`` of the method.

        Args:
            nodes: as the retriever will return them; scores do not matter.

        Returns:
            The number of texts that were known, and of those that were encoded.

        Raises:
            ValueError: an argument is of the wrong kind.
            StoreError: no method has a store, or not all nodes could be stored.
        """
        return self._reranker.store(candidates(checked_nodes(nodes), self.metadata_mode))

    postprocess_nodes = _explained(BaseNodePostprocessor.postprocess_nodes)
    apostprocess_nodes = _explained(BaseNodePostprocessor.apostprocess_nodes)

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

    def _settings(self, top_n: int | None, **options: Any) -> dict[str, Any]:
        options["top_k"] = whole_number("top_n", top_n)
        given = {name: value for name, value in options.items() if value is not None}
        return self.PARAMETERS.call_settings(self, **{**self._scope.settings(), **given})

    def _observe(
        self, query: QueryType | None, nodes: Sequence[NodeWithScore], settings: Mapping[str, Any]
    ) -> AbstractContextManager[Finish]:
        top_n = settings["top_k"] or self._reranker.top_k or len(nodes)
        model = self._reranker.method.name
        return observe(self.callback_manager, query or "", nodes, top_n=top_n, model=model)

    def _result(
        self, nodes: Sequence[NodeWithScore], ranking: Ranking, finish: Finish
    ) -> tuple[list[NodeWithScore], Report]:
        prefix = self.metadata_prefix
        ranking = naming_kept_keys(ranking, prefix, "metadata_prefix")
        omitted = None if self.keep_retrieval_score else f"{prefix}retrieval_score"
        texts: list[Shortened] | None = None
        if self.max_tokens is not None:
            ranking, texts = shortened_nodes(nodes, ranking, self.max_tokens)
        copies = ranked(nodes, ranking, prefix, omitted, texts)
        finish(copies, ranking.report)
        return copies, ranking.report

    # ------------------------------------------------------------------ life cycle

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
        """Close models and connections; the next reranking loads them again."""
        self._reranker.close()

    async def aclose(self) -> None:
        """:meth:`close` in a worker thread."""
        await self._reranker.aclose()

    # ------------------------------------------------------------------ prompts

    def _get_prompts(self) -> PromptDictType:
        return prompt_objects(self._reranker)

    def _update_prompts(self, prompts: PromptDictType) -> None:
        own = templates({name: prompt for name, prompt in prompts.items() if ":" not in name})
        with _updating:
            self._reranker = with_prompts(self._reranker, own)
            self.__dict__["prompts"] = {**self.prompts, **own}  # fixed for others

    # ------------------------------------------------------------------ serialisation

    @field_serializer("reranker", "order")
    def _saved(self, value: object, info: FieldSerializationInfo) -> Any:
        return saved(value, info.field_name)

    @field_serializer("prompts")
    def _saved_prompts(self, value: dict[str, str | BasePromptTemplate]) -> dict[str, str]:
        return saved_prompts(value)

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        """The fields, as they were passed.

        Raises:
            NotSerializableError: the reranker holds a key, or an object without a registered name.
        """
        try:
            return super().model_dump(**kwargs)
        except PydanticSerializationError:
            # Raises the core's own error, of which pydantic keeps the text.
            saved(self.reranker, "reranker")
            saved(self.order, "order")
            saved_prompts(self.prompts)
            raise

    # ------------------------------------------------------------------ copies

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy. It shares the models, unless ``update`` replaces them."""
        update = update or {}
        copied = super().model_copy(update=update, deep=deep)
        fixed = {name for name, field in type(self).model_fields.items() if field.frozen}
        if not fixed.isdisjoint(update):
            copied._reranker = resolved(copied.reranker, self.PARAMETERS, copied.__dict__)
        for name in update.keys() & self.PARAMETERS.per_call.keys():
            self.PARAMETERS.check(name, update[name], copied.reranker, copied._reranker)
        return copied

    def __deepcopy__(self, _memo: dict[int, Any] | None = None) -> Self:
        # What it was made of is fixed, models can be shared, and handlers have to be.
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        # The base class drops what cannot be pickled, such as locks and models, with only a log
        # line; a new postprocessor has them again. Handlers and keys are never written out.
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        del fields["api_key"], fields["callback_manager"]
        if self.llm is not None and holds_a_key(vars(self.llm)):
            message = "holds a key, which is not written out; use to_json and from_json(..., llm=)"
            raise NotSerializableError([Problem(("llm",), message)])
        fields["reranker"] = saved(self.reranker, "reranker")
        return partial(type(self), **fields), ()


SecondPassRerank.PARAMETERS = Parameters(SecondPassRerank.__init__, instead=INSTEAD)


def _query_text(query: QueryType | None) -> str:
    if query is None:
        raise InputError("query: reranking needs one; give query_bundle or query_str")
    text = query.query_str if isinstance(query, QueryBundle) else query
    if not isinstance(text, str):
        raise InputError(f"query: give a string or a QueryBundle, not {describe(text)}")
    return text
