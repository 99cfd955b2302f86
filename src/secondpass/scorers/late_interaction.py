"""Late interaction: ColBERT-style models, the family ``colbert`` of :mod:`.cross_encoder`.

``score = sum_i max_j q_i · p_j``

q_i and p_j are the model's vectors for the tokens of query and passage: Khattab and Zaharia,
"ColBERT", SIGIR 2020. i and j run over the tokens that the model scores: with expansion tokens of a
query, and without tokens on the model's skiplist (often punctuation).

Query and passage are encoded separately, so a passage that is kept encoded needs no model call for
the next query. One round; cost is linear in the number of passages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.settings import SECRET, Variables, configurable

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen


@configurable
class LateInteractionScorer(CrossEncoderScorer):
    """Scores pairs with a model of the family ``colbert``, loaded on first use.

    The scores are those of ``cross_encoder`` with the same model. Here its family is fixed, so that
    the kind of its scores is known before it is loaded, and what only such models have can be set.
    Prompts, query expansion and skiplist are the model's own. Runs on torch, by a
    ``MultiVectorEncoder`` of sentence-transformers 6 or later.

    Args:
        model: a name on the Hugging Face hub, or a local folder, as sentence-transformers, PyLate
            or Stanford's ColBERT save it.
        device: ``auto`` selects an accelerator if there is one; or ``cpu``, ``cuda:1``, ….
        cache_folder: where downloaded models are stored; a relative path is relative to the working
            directory. None is Hugging Face's own setting.
        revision: branch, tag or commit of the model.
        query_length: tokens per query; longer queries are truncated. A model with query expansion
            extends shorter queries to this length. None is the model's own setting.
        document_length: tokens per passage; longer passages are truncated. None is the model's own
            setting.
        prompts: ``query`` and ``document``, to replace the model's own prefixes.
        batch_size: texts per forward pass. None is 8 on a CPU, where padding costs more than a
            larger batch gains, and 32 elsewhere.
        remember: number of passages that are kept encoded, the last used ones, or 64 if it is
            lower. Scoring them again takes no model call. With 128 float32 numbers per token, as in
            most models, a passage takes 0.5 KB per token of the device's memory: 51 MB for 1,000
            passages of 100 tokens.
        score_cache: number of pairs whose scores are kept in memory, or the path of a SQLite file
            for scores, which is created, or is a score cache of the same user. None keeps none.
        precision: of weights and vectors: ``auto`` and ``exact`` are float32, ``checkpoint`` is
            that in which the weights are stored. Scores are summed in float32.
        known_answers: whether the loaded model scores six questions with obvious answers first. One
            that does not find them makes reports ``degraded``, with the issue ``model_doubtful``;
            one that ranks other passages first is refused.
        local_files_only: never contact Hugging Face.
        token: a token of Hugging Face. Prefer an environment variable.
        token_env: environment variable that holds a token of Hugging Face, or several to try in
            turn. None is Hugging Face's own setting.
        trust_remote_code: run code from the model's repository. Only for models you trust.
        model_kwargs: further arguments for the model's ``from_pretrained``.
        tokenizer_kwargs: the same for the tokenizer.
        config_kwargs: the same for the model's configuration.

    Scores have no bounds (kind ``unbounded``). Most models have vectors of length 1; their scores
    are between minus and plus the number of query tokens, so scores of different queries cannot be
    compared. Scorers with the same settings share one loaded model and its vectors. Safe for use
    from many threads, whose forward passes take turns, and after a fork.
    """

    def __init__(
        self,
        model: Annotated[str, MinLen(1)],
        *,
        device: str = "auto",
        cache_folder: str | None = None,
        revision: str | None = None,
        query_length: Annotated[int, Ge(8)] | None = None,
        document_length: Annotated[int, Ge(8)] | None = None,
        prompts: Mapping[Literal["query", "document"], str] | None = None,
        batch_size: Annotated[int, Ge(1)] | None = None,
        remember: Annotated[int, Ge(0)] = 0,
        score_cache: Annotated[int, Ge(1)] | Annotated[str, MinLen(1)] | None = None,
        precision: Literal["auto", "exact", "float16", "bfloat16", "checkpoint"] = "auto",
        known_answers: bool = True,
        local_files_only: bool = False,
        token: Annotated[Any, SECRET] = None,
        token_env: Variables = None,
        trust_remote_code: bool = False,
        model_kwargs: Mapping[str, Any] | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        config_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.query_length = query_length
        self.document_length = document_length
        self.prompts = prompts
        super().__init__(
            model,
            family="colbert",
            device=device,
            cache_folder=cache_folder,
            revision=revision,
            max_length=document_length,
            batch_size=batch_size,
            remember=remember,
            score_cache=score_cache,
            precision=precision,
            known_answers=known_answers,
            local_files_only=local_files_only,
            token=token,
            token_env=token_env,
            trust_remote_code=trust_remote_code,
            model_kwargs=model_kwargs,
            tokenizer_kwargs=tokenizer_kwargs,
            config_kwargs=config_kwargs,
        )

    def _options(self) -> dict[str, Any]:
        return {
            **super()._options(),
            "prompts": self.prompts,
            "query_length": self.query_length,
            "remember": self.remember,
        }
