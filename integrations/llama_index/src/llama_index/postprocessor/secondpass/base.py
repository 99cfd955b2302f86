"""The node postprocessor around :class:`secondpass.Reranker`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from llama_index.core.prompts.mixin import PromptDictType, PromptMixin
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType

from llama_index.postprocessor.secondpass.events import Observed, dispatcher, observe
from llama_index.postprocessor.secondpass.nodes import candidates, checked_nodes, ranked
from llama_index.postprocessor.secondpass.prompts import prompts_of, with_prompts
from llama_index.postprocessor.secondpass.query_settings import scope, settings_of
from llama_index.postprocessor.secondpass.settings import RerankFields
from secondpass import ConfigurationError, Ranking, Report
from secondpass.adapters.options import check_order, whole_number
from secondpass.call_options import validate
from secondpass.concurrency.lazy import ForkLock
from secondpass.errors import InputError
from secondpass.ordering import Ordering
from secondpass.settings import describe

_updating = ForkLock()


class SecondPassRerank(RerankFields, PromptMixin):
    """Reranks nodes: best first, none lost, with a report.

    Every node is returned once, except those that ``top_n``, a threshold, a dropped tail or
    ``dedupe`` leave out. If the method fails, the scores that it gave are used and the other nodes
    keep their order. :meth:`rerank_nodes` also returns the report.

    The returned nodes are copies. Their scores fall with rank, so that components that sort by
    score keep the order. ``rerank_score``, ``rerank_final_score``, ``retrieval_score``,
    ``rerank_rank``, ``rerank_status`` and, if there are any, ``rerank_span``, ``rerank_spread`` and
    ``rerank_probability`` are added to their metadata and kept out of the texts for language models
    and embeddings.

    The parameters from ``top_n`` to ``strict`` override settings of a preset or a file; None: as
    configured. They are an error if a mapping or a Reranker has the same setting, and if the method
    has no such setting.

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
        api_key: of an API, or the hub token for a private model. It is never serialised; prefer an
            environment variable.
        dedupe: of nodes with the same id, keep the one that was retrieved with the best score.
        strict: raise ``secondpass.RerankError`` if a node with a text could not be scored.
        order: a rule that moves nodes after they are ranked: the name of one of the configuration's
            ``orders``, or of another ordering, a mapping with a ``type``, or a function;
            ``"none"`` for none.
        metadata_mode: which text of a node is scored. The default is the bare text, and ``render``
            in the configuration adds metadata. The other modes show all metadata that is not
            excluded, file paths and dates included.
        metadata_prefix: prefix of the added metadata keys.
        keep_retrieval_score: whether ``retrieval_score`` is added.
        llm: the language model, instead of that of the configuration, which then need not have one.
            It is never serialised: pass it to ``from_json`` again.
        callback_manager: receives an event for each reranking.

    Raises:
        ConfigurationError: the configuration is wrong or conflicts with an argument, or an argument
            is unknown; the message names the nearest parameter.
        MissingExtraError: no method of the configuration has the packages that it needs.
        ValidationError: an argument is of the wrong kind.
    """

    @classmethod
    def class_name(cls) -> str:
        """The name under which this is serialised."""
        return "SecondPassRerank"

    # ------------------------------------------------------------------ reranking

    def rerank_nodes(
        self,
        nodes: Sequence[NodeWithScore],
        query: QueryType | None,
        *,
        top_n: int | None = None,
        order: str | Mapping[str, Any] | Ordering | None = None,
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
        with self._observe(query, nodes, settings) as observed:
            converted = candidates(nodes, self.metadata_mode)
            return self._result(nodes, self._reranker.rerank(text, converted, **settings), observed)

    async def arerank_nodes(
        self,
        nodes: Sequence[NodeWithScore],
        query: QueryType | None,
        *,
        top_n: int | None = None,
        order: str | Mapping[str, Any] | Ordering | None = None,
        context: Any = None,
        instruction: str | None = None,
    ) -> tuple[list[NodeWithScore], Report]:
        """:meth:`rerank_nodes` for event loops; blocking calls are made in a worker thread."""
        text, nodes = _query_text(query), checked_nodes(nodes)
        settings = self._settings(top_n, order=order, context=context, instruction=instruction)
        with self._observe(query, nodes, settings) as observed:
            converted = candidates(nodes, self.metadata_mode)
            ranking = await self._reranker.arerank(text, converted, **settings)
            return self._result(nodes, ranking, observed)

    def query_settings(
        self,
        *,
        top_n: int | None = None,
        order: str | Mapping[str, Any] | Ordering | None = None,
        context: Any = None,
        instruction: str | None = None,
    ) -> AbstractContextManager[None]:
        """Settings for what this postprocessor and its copies rerank within a ``with`` block.

        For engines, agents and workflows, which pass nothing but a query and nodes::

            with rerank.query_settings(order="learn", context=project):
                response = engine.query("...")

        They apply in the thread or task of the block and in the tasks that are started in it, so
        concurrent queries can share a postprocessor. None leaves a setting as it is outside the
        block. Arguments of :meth:`rerank_nodes` override them.

        Args:
            top_n: as in :meth:`rerank_nodes`.
            order: as in :meth:`rerank_nodes`.
            context: as in :meth:`rerank_nodes`.
            instruction: as in :meth:`rerank_nodes`.

        Raises:
            ValueError: an argument is of the wrong kind.
        """
        settings = {
            "top_k": whole_number("top_n", top_n),
            "order": order,
            "context": context,
            "instruction": instruction,
        }
        validate({"instruction": instruction})
        try:
            check_order(order, self._reranker)
        except ConfigurationError as error:
            raise InputError(str(error)) from None
        block_settings = {name: value for name, value in settings.items() if value is not None}
        return scope(self._scope, block_settings)

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
        options = {name: value for name, value in options.items() if value is not None}
        return self.PARAMETERS.call_settings(self, **settings_of(self._scope) | options)

    def _observe(
        self, query: QueryType | None, nodes: Sequence[NodeWithScore], settings: Mapping[str, Any]
    ) -> AbstractContextManager[Observed]:
        top_n = settings["top_k"] or self._reranker.top_k or len(nodes)
        model = self._reranker.method.name
        return observe(self.callback_manager, query or "", nodes, top_n=top_n, model=model)

    def _result(
        self, nodes: Sequence[NodeWithScore], ranking: Ranking, observed: Observed
    ) -> tuple[list[NodeWithScore], Report]:
        prefix = self.metadata_prefix
        omitted = None if self.keep_retrieval_score else f"{prefix}retrieval_score"
        copies = ranked(nodes, ranking, prefix, omitted)
        observed(copies, ranking.report)
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
        return prompts_of(self._reranker)

    def _update_prompts(self, prompts: PromptDictType) -> None:
        own = {name: prompt for name, prompt in prompts.items() if ":" not in name}
        with _updating:
            self._reranker = with_prompts(self._reranker, own)
            self._prompts = {**self._prompts, **own}


def _query_text(query: QueryType | None) -> str:
    if query is None:
        raise InputError("query: reranking needs one; give query_bundle or query_str")
    text = query.query_str if isinstance(query, QueryBundle) else query
    if not isinstance(text, str):
        raise InputError(f"query: give a string or a QueryBundle, not {describe(text)}")
    return text
