"""Rerank APIs and servers, which are described as data (:mod:`secondpass.apis.descriptions`).

Requests go through the same driver as those to language models (deadline, retries, budget, ledger).
For n candidates and batches of b: ceil(n / b) calls side by side in one round; every document is
read once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.apis import batches as rerank_batches
from secondpass.apis import template as rerank_template
from secondpass.apis import wire as rerank_wire
from secondpass.apis.auth import BEARER, Credentials, authorize
from secondpass.apis.descriptions import API_SETTING, APIS, RerankSpans, check_path
from secondpass.apis.wire import Pairs, Response, ResponseScores, SpanReader
from secondpass.concurrency.lazy import require
from secondpass.concurrency.threads import in_thread, in_thread_of
from secondpass.effects import (
    Answer,
    Ask,
    Completion,
    Estimate,
    Judgement,
    Plan,
    Question,
    Task,
)
from secondpass.errors import ConfigurationError, LLMError, ReplyError
from secondpass.limits import Prices
from secondpass.prompts.replies.values import BatchScores
from secondpass.questions import Recall, cut, cut_evenly, estimate_tokens
from secondpass.ranking.scoring import equal_scores
from secondpass.services import json_http
from secondpass.services.client import NO_KEY, REMEMBERED_SECONDS, Client, Connection
from secondpass.services.echoes import Sent
from secondpass.services.http import MAX_VALUES
from secondpass.services.json_http import StatusError
from secondpass.services.provider_errors import ErrorResponse
from secondpass.settings import SECRET, Secret, Variables, configurable, nested, to_mapping
from secondpass.strategies.base import IssueCollector, merge_batches
from secondpass.strategies.halving import ask_in_halves, repairing
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MinLen

__all__ = ["APIS", "Endpoint", "Pairs"]

BATCH_TOO_LARGE = "batch_too_large"
EMPTY_REJECTED = "empty_rejected"
MEMBER_REJECTED = "member_rejected"
LONG = 2000
"""If a server rejects a batch as too long, passages with more characters are cut first."""
_TOKEN_SHARE = 0.8
"""Estimated tokens of a request at most, as a share of those that the API accepts."""
_LEARNED_SHARE = 0.95
"""The same, once the server has reported the tokens of a request."""
_ASKED_AGAIN = frozenset({BATCH_TOO_LARGE, EMPTY_REJECTED, MEMBER_REJECTED})
_ROUNDS = 5
"""Maximum number of times that a batch is sent, each time in another form."""


@configurable
class Endpoint(Client[Pairs]):
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

    package = "httpx"
    extra = "remote"
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
        self._api = APIS.resolve(api)
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

    def _prepare(self) -> None:
        super()._prepare()
        self._credentials: Credentials | None = None
        self._learned_limit: tuple[int, float] | None = None
        self._learned_tokens: tuple[float, float] | None = None
        self._learned: dict[str, float] = {}

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
        spans = rerank_wire.spans_of(answers, len(task.texts), issues) if self.spans else None
        within: dict[range, Answer[BatchScores]] = {
            part: Answer(
                None if answer.value is None else rerank_wire.clipped(answer.value, kind),
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
                nothing = rerank_wire.equal(0, 0.0, with_spans=self.spans)
                answers[part] = Answer(rerank_wire.with_skipped(nothing, skipped))
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
            rerank_wire.equal(len(texts), 0.0, with_spans=self.spans),
            recall=Recall(
                lambda: request,
                lambda scores: rerank_wire.dump(scores, with_spans=self.spans),
                lambda data: rerank_wire.load(data, texts, with_spans=self.spans),
            ),
        )

    # ------------------------------------------------------------------ the client

    @property
    def _is_built_in(self) -> bool:
        return isinstance(self.api, str) and self.api in APIS

    @property
    def provider(self) -> str:
        """The provider of the API, for traces."""
        return self.api if self._is_built_in else self._api.title or "custom"

    @property
    def cache_key(self) -> Mapping[str, Any]:
        """The settings that an answer may depend on."""
        key = dict(super().cache_key)
        if not self.spans:
            del key["spans"]  # keeps keys valid that are older than this setting
        if not self._is_built_in:
            key["api"] = to_mapping(self._api, _cached_part)
        return key

    def check_installed(self) -> None:
        """Check that the packages are installed, without importing them.

        Raises:
            MissingExtraError: one is not.
        """
        auth = self._api.auth or BEARER
        require([self.package, *auth.packages], auth.extra, f"the model {self.name!r}")

    @property
    def _max_documents(self) -> int:
        """Maximum documents per request, by the settings and by a recent error of the server."""
        limit = self.batch_size or self._api.max_documents
        if self._learned_limit is not None and _is_recent(self._learned_limit[1]):
            limit = min(limit, self._learned_limit[0])
        return limit

    @property
    def _max_tokens(self) -> float | None:
        """Maximum estimated tokens per request, by the same; None if there is no limit."""
        limits = [] if self._api.max_tokens is None else [_TOKEN_SHARE * self._api.max_tokens]
        if self._learned_tokens is not None and _is_recent(self._learned_tokens[1]):
            limits.append(self._learned_tokens[0])
        return min(limits, default=None)

    @property
    def _url(self) -> str:
        return rerank_wire.request_url(self._api, self.base_url, self.path, self.model)

    @property
    def _document_tokens(self) -> int | None:
        """Tokens that the API reads of a document; None if that is not known."""
        limit = rerank_wire.member_option(self._api, "document_tokens", self.options)
        return limit or self.document_tokens or self._api.document_tokens

    def _key(self) -> Secret:
        auth = self._api.auth or BEARER
        keyless = auth.sigv4 or auth.google or not self.key_variables
        if keyless and self.api_key is None and self.api_key_env is None:
            return Secret(NO_KEY)
        return super()._key()

    async def _complete(self, request: Pairs) -> Completion:
        auth = self._api.auth or BEARER
        if (auth.sigv4 or auth.google) and self._key().reveal() == NO_KEY:
            self.check_installed()
            credentials = self._credentials = self._credentials or Credentials(auth)
            await in_thread_of(
                credentials, credentials.prepare
            )  # may call a server of the provider
        return await super()._complete(request)

    def _sent_with(self, key: Secret, request: Pairs) -> Sent:
        sent = super()._sent_with(key, request)
        return sent if self._credentials is None else sent.with_secrets(self._credentials.secrets)

    def _connect(self, key: str) -> Connection:
        auth = self._api.auth or BEARER
        if auth == BEARER or (auth.google and key != NO_KEY):
            connection = json_http.connect(key, self.timeout, max_values=MAX_VALUES)
        else:
            connection = json_http.connect(NO_KEY, self.timeout, max_values=MAX_VALUES)
            authorize(connection.client, auth, key, self._credentials, self.model or "")
        if self._api.headers:
            connection.client.headers.update(self._api.headers)
        return connection

    def _texts(self, request: Pairs) -> Sequence[str]:
        texts = (request.query, request.instruction, *request.documents)
        return [text for text in texts if text is not None]

    @property
    def _optional(self) -> Sequence[str]:
        """Members of a request that are left out once the server rejects them by name."""
        return [*self._api.optional, *self._span_members]

    @property
    def _span_members(self) -> Sequence[str]:
        """The members of a request that ask for spans, if these are wanted."""
        return self._api.span_members if self.spans else []

    def _has_learned(self, name: str) -> bool:
        """Whether the server has rejected something of this name recently."""
        return name in self._learned and _is_recent(self._learned[name])

    async def _answer(self, client: Any, request: Pairs, sent: Sent) -> Completion:
        without = [*filter(self._has_learned, self._optional)]
        body = rerank_wire.request_body(
            self._api,
            request.query,
            request.documents,
            model=self.model,
            raw_scores=self.raw_scores,
            options=self.options,
            instruction=request.instruction,
            document_tokens=self.document_tokens,
            spans=self.spans,
            without=without,
        )
        response = await client.post(self._url, json=body)
        if response.status_code != 200:
            error = StatusError(response)
            if described := await self._error_response(error, sent):
                self._learn(described, request, body)
            raise error
        text = response.content.decode("utf-8")
        parsed = json_http.parse_json(text)
        tokens = rerank_wire.tokens_used(parsed, self._api.usage_tokens)
        units = rerank_wire.units_used(parsed, self._api.usage_units)
        output = None if tokens is None else 0
        with_spans = self.spans and not {*without} & {*self._span_members}
        remark = ""
        if rerank_wire.lacks_scores(parsed, self._api):
            # In a thread: comparing megabytes takes seconds.
            remark = await in_thread(lambda: rerank_wire.remark(parsed, self._api, sent))
        return Response(
            text,
            False,
            tokens,
            output,
            units=units,
            body=parsed,
            with_spans=with_spans,
            remark=remark,
        )

    def _learn(self, response: ErrorResponse, request: Pairs, body: Mapping[str, Any]) -> None:
        """Remember what the server accepts.

        Raises:
            LLMError: the request exceeded a limit, or had a part that the server rejects.
        """
        count, now = len(request.documents), time.monotonic()
        if response.status in {400, 413, 422}:
            limit = rerank_batches.batch_limit(response.text)
            if limit is not None and 0 < limit < count:
                self._learned_limit = limit, now
                message = f"the server accepts {limit} documents per request {response.source}"
                raise LLMError(message, BATCH_TOO_LARGE)
            tokens = rerank_batches.token_limit(response.text)
            if tokens is not None and count > 1:
                size = sum(map(pair_tokens(request.query, request.instruction), request.documents))
                self._learned_tokens = _LEARNED_SHARE * size * tokens[0] / tokens[1], now
                message = f"the server accepts {tokens[0]} tokens per request {response.source}"
                raise LLMError(message, BATCH_TOO_LARGE)
        rejected = [name for name in self._optional if name in body and response.blames(name)]
        repeated = all(map(response.blames, self._api.text_members))  # the server shows the request
        if rejected and not repeated:
            self._learned |= dict.fromkeys(rejected, now)
            message = f"the server does not support {rejected[0]!r} {response.source}"
            raise LLMError(message, MEMBER_REJECTED)
        empty = rerank_batches.blank(request.documents)
        if 0 < len(empty) < count and response.blames_request and not response.too_long:
            message = f"the server may not accept empty texts {response.source}"
            raise LLMError(message, EMPTY_REJECTED)
        refusal = response.error()
        long = response.names_length or any(len(text) > LONG for text in request.documents)
        is_unknown = not long if response.status == 413 else refusal.code == "bad_request"
        if count > 1 and response.status in {400, 413, 422} and is_unknown:
            raise rerank_batches.BatchRefusedError(refusal.message, refusal.code)

    def _read(self, completion: Completion, request: Pairs) -> ResponseScores:
        remark = ""
        if isinstance(completion, Response):
            body, with_spans, remark = completion.body, completion.with_spans, completion.remark
        else:
            body, with_spans = json_http.parse_json(completion.text), self.spans
        if body is json_http.INVALID:
            raise ReplyError("it is not JSON", "bad_response")
        kind, texts = self.score_kind, request.documents
        places = self._api.spans if with_spans else None
        spans = None if places is None else SpanReader(places, texts, kind)
        try:
            scores = rerank_wire.read_scores(body, self._api, len(texts), kind, spans)
        except ReplyError as error:
            empty = rerank_batches.blank(texts)
            if 0 < len(empty) < len(texts) and rerank_wire.is_null(body, self._api):
                message = f"the server may not accept empty texts: {error}"
                raise ReplyError(message, EMPTY_REJECTED) from None
            raise ReplyError(f"{error}{remark}", error.code) from None
        return rerank_wire.with_skipped(scores, request.skipped)


def pair_tokens(query: str, instruction: str | None) -> Callable[[str], float]:
    """Estimates the tokens of a document with the query and the instruction."""
    per_pair = estimate_tokens(query) + estimate_tokens(instruction or "")
    return lambda document: estimate_tokens(document) + per_pair


def _cached_part(part: Any, _name: str) -> Any:
    """The form of a part of an API's description in the cache key; None if it has no effect."""
    return to_mapping(part, _cached_part) if isinstance(part, RerankSpans) else None


def _is_recent(since: float) -> bool:
    return time.monotonic() - since < REMEMBERED_SECONDS
