"""Rerank APIs and servers: Cohere, Jina, Voyage, Mixedbread, TEI, vLLM, Infinity, llama.cpp.

Requests go through the same driver as those to language models (deadline, retries, budget, ledger).
For n candidates and batches of b: ceil(n / b) calls side by side in one round; every document is
read once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.effects import Answer, Ask, Completion, Estimate, Judgement, Plan, Question, Task
from secondpass.errors import ConfigurationError, LLMError, ReplyError
from secondpass.limits import Prices
from secondpass.prompts.replies import values
from secondpass.prompts.replies.values import BatchScores
from secondpass.prompts.truncation import cut_evenly, estimate_tokens
from secondpass.questions import Recall
from secondpass.services import json_http
from secondpass.services.client import REMEMBERED_SECONDS, Client, Connection
from secondpass.services.echoes import Sent
from secondpass.services.http import MAX_VALUES
from secondpass.services.json_http import StatusError
from secondpass.services.provider_errors import ErrorResponse
from secondpass.settings import SECRET, Secret, Variables, configurable, nested
from secondpass.strategies import rerank_wire
from secondpass.strategies.base import (
    Bounds,
    IssueCollector,
    batch_bounds,
    merge_batches,
    split_batches,
)
from secondpass.strategies.rerank_apis import APIS, ApiName
from secondpass.strategies.rerank_wire import Pairs, Response, ResponseScores
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MinLen

__all__ = ["APIS", "Endpoint", "Pairs"]

_BATCH_TOO_LARGE = "batch_too_large"
_LONG = 2000
"""Characters. If a server finds a batch too long, passages longer than this are cut first."""


@configurable
class Endpoint(Client[Pairs]):
    """Scores candidates by a rerank API or server.

    Args:
        api: the API it speaks.
        model: its name; optional for servers that run one model.
        base_url: the URL without the API's path; required for self-hosted servers.
        path: replaces the API's path.
        api_key: the key. Prefer an environment variable.
        api_key_env: environment variable that holds the key, or several to try in turn, instead of
            the usual one.
        batch_size: documents per request; None is the most that the API allows. Longer lists are
            sent as several requests, never cut.
        raw_scores: request logits instead of probabilities, if the API offers both.
        scores: kind of this model's scores, if it differs from what the API usually returns.
        timeout: seconds per answer.
        prices: per million tokens, for ``limits.cost`` and the report.
        options: further fields of the request.

    Raises:
        ConfigurationError: a missing base URL or model, or a setting that the API does not have.
    """

    package = "httpx"
    extra = "remote"
    scale = None
    windows = "each"

    def __init__(
        self,
        api: ApiName,
        *,
        model: Annotated[str, MinLen(1)] | None = None,
        base_url: Annotated[str, MinLen(1)] | None = None,
        path: Annotated[str, MinLen(1)] | None = None,
        api_key: Annotated[Any, SECRET] = None,
        api_key_env: Variables = None,
        batch_size: Annotated[int, Ge(1)] | None = None,
        raw_scores: bool = False,
        scores: Literal["logit", "probability", "similarity", "unbounded"] | None = None,
        timeout: Annotated[float, Gt(0)] = 30.0,
        prices: Annotated[Prices | None, nested(Prices, optional=True)] = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._api = APIS[api]
        if base_url is None and self._api.url is None:
            raise ConfigurationError(f"base_url: is required for {api!r}, which is self-hosted")
        if model is None and self._api.url is not None:
            raise ConfigurationError(f"model: is required for {api!r}")
        if raw_scores and not self._api.raw_scores:
            raise ConfigurationError(f"raw_scores: is not supported by {api!r}")
        reserved = {self._api.query, self._api.documents, "model"} & set(options or ())
        if reserved:
            raise ConfigurationError(f"options: {min(reserved)!r} cannot be set in options")
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
        self.timeout = timeout
        self.prices = prices
        self.options = options
        self.key_variables = self._api.key_variables
        self._learned_limit: tuple[int, float] | None = None
        self._prepare()

    @property
    def name(self) -> str:
        """The model's name, or the API's."""
        return self.model or self.api

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""
        return self.scores or ("logit" if self.raw_scores else self._api.score_kind)

    @property
    def takes_instruction(self) -> bool:
        """Whether the API has a field for the instruction of a call."""
        return self._api.instruction is not None

    @property
    def language_models(self) -> list[Any]:
        """The services that are asked, for their prices."""
        return [self]

    @property
    def _max_documents(self) -> int:
        """Documents per request, by the settings and by a recent answer of the server."""
        most = self.batch_size or self._api.max_documents
        if self._learned_limit is not None:
            limit, since = self._learned_limit
            if time.monotonic() - since < REMEMBERED_SECONDS:
                most = min(most, limit)
        return most

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Ask effect with a question per batch, and another if the batches were too large.

        Raises:
            MethodError: no batch was answered, or the scores are on another scale.
        """
        issues = IssueCollector(self.name)
        answers = yield from self._ask(task, split_batches(len(task.texts), self._max_documents))
        too_large = {
            batch: answer.error
            for batch, answer in answers.items()
            if answer.error is not None and answer.error.code == _BATCH_TOO_LARGE
        }
        if too_large:
            issues.add("asked_again", f"{_BATCH_TOO_LARGE}: {next(iter(too_large.values()))}")
            smaller = [
                range(batch.start + part.start, batch.start + part.stop)
                for batch in too_large
                for part in split_batches(len(batch), self._max_documents)
            ]
            answers = {batch: answers[batch] for batch in answers if batch not in too_large}
            answers |= yield from self._ask(task, smaller)
        kind = rerank_wire.kind_of_scores(
            [answer.value for answer in answers.values() if answer.value is not None],
            self.score_kind,
            maybe_logits=self._api.raw_scores and not self.raw_scores and self.scores is None,
        )
        if kind != self.score_kind:
            issues.add(
                "scores_read_as_logits",
                "scores lie outside 0 to 1, so all were read as logits; set raw_scores or scores",
            )
        within: list[Answer[BatchScores]] = [
            Answer(
                None if answer.value is None else rerank_wire.clipped(answer.value, kind),
                answer.error,
                answer.troubles,
            )
            for answer in answers.values()
        ]
        judgement = merge_batches(
            self.name, len(task.texts), [*answers], within, word="score", issues=issues
        )
        return judgement if kind == self.score_kind else replace(judgement, score_kind=kind)

    def bounds(self, count: int) -> Bounds:
        """A question for each batch, in one round, of as many documents as the server accepts."""
        return batch_bounds(count, self._max_documents)

    def _ask(
        self, task: Task, stretches: Iterable[range]
    ) -> Plan[dict[range, Answer[ResponseScores]]]:
        """The answers about stretches of the task."""
        parts = list(stretches)
        answers: list[Answer[ResponseScores]] = yield Ask(
            self,
            [self._question(task, task.texts[part.start : part.stop]) for part in parts],
        )
        return dict(zip(parts, answers, strict=True))

    # ------------------------------------------------------------------ one request

    def _question(self, task: Task, texts: Sequence[str]) -> Question[Pairs, ResponseScores]:
        count = len(texts)
        request = Pairs(task.query, texts, task.instruction if self.takes_instruction else None)
        per_pair = estimate_tokens(task.query) + estimate_tokens(request.instruction or "")

        def shrink() -> Question[Pairs, ResponseScores] | None:
            if any(len(text) > _LONG for text in texts):
                return self._question(task, [text[:_LONG] for text in texts])
            shorter = cut_evenly(texts, sum(map(len, texts)) // 2)
            return None if shorter is None else self._question(task, shorter)

        return Question(
            request,
            lambda completion: self._read(completion, count),
            None,
            shrink,
            Estimate(sum(map(estimate_tokens, texts)) + count * per_pair, 0),
            count,
            ResponseScores((0.0,) * count, ()),
            recall=Recall(
                lambda: request, values.dump, lambda data: values.load(data, count, ResponseScores)
            ),
        )

    @property
    def _url(self) -> str:
        return rerank_wire.request_url(self._api, self.base_url, self.path)

    def _connect(self, key: str) -> Connection:
        return json_http.connect(key, self.timeout, max_values=MAX_VALUES)

    def _texts(self, request: Pairs) -> Sequence[str]:
        texts = (request.query, request.instruction, *request.documents)
        return [text for text in texts if text is not None]

    async def _answer(self, client: Any, request: Pairs, sent: Sent) -> Completion:
        body = rerank_wire.request_body(
            self._api,
            request.query,
            request.documents,
            model=self.model,
            raw_scores=self.raw_scores,
            options=self.options,
            instruction=request.instruction,
        )
        response = await client.post(self._url, json=body)
        if response.status_code != 200:
            error = StatusError(response)
            if described := await self._error_response(error, sent):
                self._learn(described, len(request.documents))
            raise error
        text = response.content.decode("utf-8")
        parsed = json_http.parse_json(text)
        tokens = rerank_wire.tokens_used(parsed)
        return Response(text, False, tokens, None if tokens is None else 0, body=parsed)

    def _learn(self, response: ErrorResponse, count: int) -> None:
        """Remember how many documents the server accepts.

        Raises:
            LLMError: the request had more.
        """
        limit = rerank_wire.batch_limit(response.text)
        if response.status in {400, 413, 422} and limit is not None and 0 < limit < count:
            self._learned_limit = limit, time.monotonic()
            message = f"the server accepts {limit} documents per request {response.source}"
            raise LLMError(message, _BATCH_TOO_LARGE)

    def _read(self, completion: Completion, count: int) -> ResponseScores:
        body = (
            completion.body
            if isinstance(completion, Response)
            else json_http.parse_json(completion.text)
        )
        if body is json_http.INVALID:
            raise ReplyError("it is not JSON", "bad_response")
        return rerank_wire.read_scores(body, self._api, count, self.score_kind)
