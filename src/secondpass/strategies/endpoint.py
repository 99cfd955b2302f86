"""Rerank APIs and servers, which are described as data (:mod:`secondpass.strategies.rerank_apis`).

Requests go through the same driver as those to language models (deadline, retries, budget, ledger).
For n candidates and batches of b: ceil(n / b) calls side by side in one round; every document is
read once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.effects import Answer, Ask, Estimate, Judgement, Plan, Question, Task
from secondpass.errors import ConfigurationError
from secondpass.limits import Prices
from secondpass.prompts.replies.values import BatchScores
from secondpass.prompts.truncation import cut_evenly
from secondpass.questions import Recall, cut
from secondpass.scoring import equal_scores
from secondpass.settings import SECRET, Secret, Variables, configurable, nested
from secondpass.strategies import rerank_batches, rerank_scores, rerank_template
from secondpass.strategies.base import IssueCollector, merge_batches
from secondpass.strategies.halving import ask_in_halves, repairing
from secondpass.strategies.rerank_address import check_path
from secondpass.strategies.rerank_apis import API_SETTING, APIS, resolve
from secondpass.strategies.rerank_auth import BEARER
from secondpass.strategies.rerank_client import (
    BATCH_TOO_LARGE,
    EMPTY_REJECTED,
    LONG,
    MEMBER_REJECTED,
    RerankClient,
    pair_tokens,
)
from secondpass.strategies.rerank_scores import ResponseScores
from secondpass.strategies.rerank_wire import Pairs
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MinLen

__all__ = ["APIS", "Endpoint", "Pairs"]

_ASKED_AGAIN = frozenset({BATCH_TOO_LARGE, EMPTY_REJECTED, MEMBER_REJECTED})
_ROUNDS = 5
"""Maximum number of times that a batch is sent, each time in another form."""


@configurable
class Endpoint(RerankClient):
    """Scores candidates by a rerank API or server.

    Args:
        api: the API: the name of a built-in one, the path of a YAML file that describes another,
            or that description.
        model: its name; optional for servers that run one model.
        base_url: the URL without the API's path; required if every user of the API has another.
        path: replaces the API's path; ``$model`` stands for the model's name.
        api_key: the key. Prefer an environment variable.
        api_key_env: environment variable that holds the key, or several to try in turn, instead of
            the usual one.
        batch_size: documents per request; None is the most that the API allows. Longer lists are
            sent as several requests, never cut.
        raw_scores: request logits instead of probabilities, if the API offers both.
        scores: kind of this model's scores, if it differs from what the API usually returns.
        document_tokens: tokens that the API reads of each document, if that can be set. Documents
            that are estimated to be longer are reported.
        spans: request the relevant parts of documents, if the API has them; the best one is the
            span of an item.
        timeout: seconds per answer.
        prices: per million tokens, for ``limits.cost`` and the report.
        options: further fields of the request.

    Raises:
        ConfigurationError: a missing base URL or model, or a setting that the API does not have.
    """

    scale = None
    windows = "each"

    def __init__(
        self,
        api: Annotated[Any, API_SETTING],
        *,
        model: Annotated[str, MinLen(1)] | None = None,
        base_url: Annotated[str, MinLen(1)] | None = None,
        path: Annotated[str, MinLen(1)] | None = None,
        api_key: Annotated[Any, SECRET] = None,
        api_key_env: Variables = None,
        batch_size: Annotated[int, Ge(1)] | None = None,
        raw_scores: bool = False,
        scores: Literal["logit", "probability", "similarity", "unbounded"] | None = None,
        document_tokens: Annotated[int, Ge(1)] | None = None,
        spans: bool = False,
        timeout: Annotated[float, Gt(0)] = 30.0,
        prices: Annotated[Prices | None, nested(Prices, optional=True)] = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._api = resolve(api)
        about = api if isinstance(api, str) else self._api.title or "this API"
        if base_url is None and self._api.url is None:
            example = self._api.example_url
            reason = f"such as {example}" if example else "which is self-hosted"
            raise ConfigurationError(f"base_url: is required for {about!r}, {reason}")
        if path is not None:
            check_path(path, "path")
        if model is None and (self._api.needs_model or "$model" in (path or "")):
            raise ConfigurationError(f"model: is required for {about!r}")
        if raw_scores and not self._api.raw_scores:
            raise ConfigurationError(f"raw_scores: is not supported by {about!r}")
        if document_tokens is not None and "document_tokens" not in self._api.placeholders:
            raise ConfigurationError(f"document_tokens: is not supported by {about!r}")
        if spans and self._api.spans is None:
            raise ConfigurationError(f"spans: is not supported by {about!r}")
        if (self._api.auth or BEARER).sigv4 is not None and (
            api_key is not None or api_key_env is not None
        ):
            message = f"api_key: is not supported by {about!r}, which has AWS credentials"
            raise ConfigurationError(message)
        template = self._api.template(with_spans=spans)
        occupied = rerank_template.occupied(template, options or {})
        if occupied := [*occupied, *({"model"} & set(options or ()))]:
            raise ConfigurationError(f"options: {min(occupied)!r} cannot be set in options")
        self.api = api
        self.model = model
        self.base_url = base_url
        self.url = self._api.url or ""
        self.path = path
        self.api_key: Secret | None = api_key
        self.api_key_env = api_key_env
        self.batch_size = batch_size
        self.raw_scores = raw_scores
        self.scores = scores
        self.document_tokens = document_tokens
        self.spans = spans
        self.timeout = timeout
        self.prices = prices
        self.options = options
        self.key_variables = tuple(self._api.key_variables)
        self._about = about
        self._prepare()

    @property
    def name(self) -> str:
        """The model's name, or the API's."""
        return self.model or self._about

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""
        return self.scores or ("logit" if self.raw_scores else self._api.score_kind)

    @property
    def takes_instruction(self) -> bool:
        """Whether the API has a field for the instruction of a call."""
        return self._api.takes_instruction

    @property
    def language_models(self) -> list[Any]:
        """The services that are asked, for their prices."""
        return [self]

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Ask effect with a question per batch; more if the server asks for other requests.

        A request that is refused because of its content is asked again in halves.

        Raises:
            MethodError: no batch was answered, or the scores are on another scale.
        """
        issues = IssueCollector(self.name)
        rerank_batches.add_truncated(issues, task.texts, self._document_tokens)

        def ask(parts: Sequence[range], repairs: bool) -> Plan[dict[range, Answer[ResponseScores]]]:
            return self._ask_in_rounds(task, parts, repairs, issues)

        parts = self._parts(task, range(len(task.texts)))
        answers = yield from ask_in_halves(task.call, ask, parts, issues)
        return self._judgement(task, answers, issues)

    def _ask_in_rounds(
        self, task: Task, parts: Sequence[range], repairs: bool, issues: IssueCollector
    ) -> Plan[dict[range, Answer[ResponseScores]]]:
        """The answers about ranges of the task, which are split where the server asks for it.

        Of a request that is refused for a reason that is not known, the first half is asked, and
        the rest if that is answered.
        """
        answers: dict[range, Answer[ResponseScores]] = {}
        skips_empty = self._has_learned(EMPTY_REJECTED)
        half: range | None = None
        halved = False
        for rounds_left in reversed(range(_ROUNDS)):
            asked = yield from self._ask(task, parts, skips_empty, repairs, halved=halved)
            again = {
                part: answer.error
                for part, answer in asked.items()
                if rounds_left and answer.error is not None and answer.error.code in _ASKED_AGAIN
            }
            answers |= {part: asked[part] for part in asked if part not in again}
            for code, error in {error.code: error for error in again.values()}.items():
                issues.add("asked_again", f"{code}: {error}")
                skips_empty = skips_empty or code == EMPTY_REJECTED
            parts = [smaller for part in again for smaller in self._parts(task, part)]
            may_halve = not parts and not repairs and rounds_left > (half is None)
            if may_halve and task.call.rounds_left(repairs=True) != 0:
                parts, half = rerank_batches.next_parts(answers, half, issues)
                halved = halved or bool(parts)
            if not parts:
                break
        if halved and all(answer.value is not None for answer in answers.values()):
            self._learned_limit = max(map(len, answers)), time.monotonic()
        if skips_empty and any(answer.value is not None for answer in asked.values()):
            self._learned[EMPTY_REJECTED] = time.monotonic()
        return answers

    def _judgement(
        self, task: Task, answers: Mapping[range, Answer[ResponseScores]], issues: IssueCollector
    ) -> Judgement:
        kind = rerank_scores.kind_of_scores(
            [answer.value for answer in answers.values() if answer.value is not None],
            self.score_kind,
            maybe_logits=self._api.raw_scores and not self.raw_scores and self.scores is None,
        )
        if kind != self.score_kind:
            issues.add(
                "scores_read_as_logits",
                "scores lie outside 0 to 1, so all were read as logits; set raw_scores or scores",
            )
        spans = rerank_scores.spans_of(answers, len(task.texts), issues) if self.spans else None
        within: dict[range, Answer[BatchScores]] = {
            part: Answer(
                None if answer.value is None else rerank_scores.clipped(answer.value, kind),
                answer.error,
                answer.troubles,
            )
            for part, answer in answers.items()
        }
        judgement = merge_batches(len(task.texts), within, word="score", issues=issues)
        named = rerank_batches.named_empty(judgement.issues)
        named += equal_scores(task.texts, judgement.scores, self.name)
        judgement = replace(judgement, issues=named, spans=spans)
        return judgement if kind == self.score_kind else replace(judgement, score_kind=kind)

    def _parts(self, task: Task, whole: range) -> list[range]:
        """A range of the task, split into requests."""
        tokens = self._max_tokens
        sizes = (
            None
            if tokens is None
            else [*map(pair_tokens(task.query, self._instruction(task)), task.texts)]
        )
        return [*rerank_batches.split(whole, self._max_documents, sizes, tokens)]

    def _instruction(self, task: Task) -> str | None:
        return task.instruction if self.takes_instruction else None

    def _ask(
        self,
        task: Task,
        parts: Sequence[range],
        skips_empty: bool,
        repairs: bool,
        *,
        halved: bool = False,
    ) -> Plan[dict[range, Answer[ResponseScores]]]:
        """The answers about ranges of the task.

        Args:
            task: the task.
            parts: the ranges.
            skips_empty: whether empty texts are not sent.
            repairs: whether the ranges are parts of what was refused because of its content.
            halved: whether they are parts of what was refused for another reason.
        """
        answers: dict[range, Answer[ResponseScores]] = {}
        questions = {}
        for part in parts:
            texts = task.texts[part.start : part.stop]
            skipped = rerank_batches.blank(texts) if skips_empty else ()
            if 0 < len(skipped) == len(texts):
                nothing = rerank_scores.equal(0, 0.0, with_spans=self.spans)
                answers[part] = Answer(rerank_scores.with_skipped(nothing, skipped))
            else:
                question = self._question(task, texts, skipped)
                question = replace(question, repairs=halved)
                questions[part] = repairing(question) if repairs else question
        if questions or not answers:
            results = yield from Ask(self, [*questions.values()])
            answers |= zip(questions, results, strict=True)
        return answers

    # ------------------------------------------------------------------ one request

    def _question(
        self, task: Task, texts: Sequence[str], skipped: tuple[int, ...] = ()
    ) -> Question[Pairs, ResponseScores]:
        sent = [text for place, text in enumerate(texts) if place not in skipped]
        request = Pairs(task.query, sent, self._instruction(task), skipped)

        def shrink() -> Question[Pairs, ResponseScores] | None:
            if any(len(text) > LONG for text in texts):
                return self._question(task, [cut(text, LONG) for text in texts], skipped)
            shorter = cut_evenly(texts, sum(map(len, texts)) // 2)
            return None if shorter is None else self._question(task, shorter, skipped)

        return Question(
            request,
            lambda completion: self._read(completion, request),
            None,
            shrink,
            Estimate(sum(map(pair_tokens(task.query, request.instruction), sent)), 0),
            len(sent),
            rerank_scores.equal(len(texts), 0.0, with_spans=self.spans),
            recall=Recall(
                lambda: request,
                lambda scores: rerank_scores.dump(scores, with_spans=self.spans),
                lambda data: rerank_scores.load(data, texts, with_spans=self.spans),
            ),
        )
