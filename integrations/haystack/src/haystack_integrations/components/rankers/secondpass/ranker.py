"""The Haystack component around :class:`secondpass.Reranker`."""

# Annotations are evaluated here, because Haystack derives a component's sockets from them.
from collections.abc import Mapping
from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any

from haystack import Document, component
from haystack.components.generators.chat.types import ChatGenerator
from haystack.utils import ComponentDevice, Secret

from haystack_integrations.components.rankers.secondpass.chat_generator import OwnedChatGenerator
from haystack_integrations.components.rankers.secondpass.documents import (
    candidates,
    checked_documents,
    ranked,
)
from haystack_integrations.components.rankers.secondpass.life_cycle import (
    LOGGER_NAME,
    Loaded,
    warn,
)
from haystack_integrations.components.rankers.secondpass.parameters import (
    ALIASES,
    ASSIGNABLE,
    BESIDE_READY,
    INSTEAD,
    checked_scale,
    checked_top_k,
    overrides_of,
    saved_path,
)
from secondpass import ConfigurationError, Ranking, Reranker
from secondpass.adapters.life_cycle import LifeCycle
from secondpass.adapters.options import check_floor, finite_number, plain_number
from secondpass.adapters.parameters import Parameters
from secondpass.config import resolve
from secondpass.runtime.diagnostics import use_logger

_DEFAULTS = {"dedupe": True}


@component
class SecondPassRanker(Loaded):
    """Reranks documents: best first, none lost, with a report of what was done.

    An error of the model does not fail the pipeline unless `raise_on_failure` is set: scored
    documents are ranked, the others keep their order, and `report` lists the issues. The returned
    documents are copies. Their `score` never rises along the list, and `rerank_score`,
    `rerank_final_score`, `retrieval_score`, `rerank_rank`, `rerank_status` and, if there are any,
    `rerank_span`, `rerank_spread` and `rerank_probability` are added to `meta`, except if another
    component wrote a key of that name.

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
        backend: str | None = None,
        trust_remote_code: bool = False,
        model_kwargs: dict[str, Any] | None = None,
        tokenizer_kwargs: dict[str, Any] | None = None,
        config_kwargs: dict[str, Any] | None = None,
        dedupe: bool | None = None,
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
            )
            check_floor("score_threshold", self.score_threshold, self.reranker)
        except ConfigurationError as error:
            raise ConfigurationError(error.problems, "SecondPassRanker") from None
        # Presets and files are saved by name, mappings as their values at construction.
        self._name = saved_path(reranker) if isinstance(reranker, str | PathLike) else None
        self._life = LifeCycle(self.reranker, llm, warn)

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
        checked_scale(scale_score, self.scale_score)
        options = {"depth": depth, "order": order, "context": context, "instruction": instruction}
        settings = self._settings(len(documents), top_k, score_threshold, **options)
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
        checked_scale(scale_score, self.scale_score)
        options = {"depth": depth, "order": order, "context": context, "instruction": instruction}
        settings = self._settings(len(documents), top_k, score_threshold, **options)
        with use_logger(LOGGER_NAME):
            ranking = await self.reranker.arerank(query, candidates(documents), **settings)
        return self._output(documents, ranking)

    def _settings(self, count: int, top_k: Any, floor: Any, **options: Any) -> dict[str, Any]:
        options["top_k"] = checked_top_k(top_k)
        options["floor"] = finite_number("score_threshold", floor)
        settings = self.PARAMETERS.call_settings(self, **options)
        if settings["dedupe"] is None and self._is_ready:
            settings["dedupe"] = True
        self._life.opened = True
        self._trace_top_k(settings["top_k"], count)
        return settings

    def _output(self, documents: list[Document], ranking: Ranking) -> dict[str, Any]:
        copies = ranked(documents, ranking, self.meta_prefix)
        return {"documents": copies, "report": ranking.report.to_dict()}


SecondPassRanker.PARAMETERS = Parameters(
    SecondPassRanker.__init__,
    ALIASES,
    assignable=ASSIGNABLE,
    beside_ready=BESIDE_READY,
    instead=INSTEAD,
)
