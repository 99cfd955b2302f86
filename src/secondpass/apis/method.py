"""The base class of methods that speak to described APIs: batches, keys, and what servers accept.

Requests go through the same driver as those to language models (deadline, retries, budget, ledger).
For n candidates and batches of b: ceil(n / b) calls side by side in one round; every document is
read once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from secondpass.apis import batches as api_batches
from secondpass.apis import template as api_template
from secondpass.apis import wire
from secondpass.apis.auth import BEARER, Auth, Credentials, authorize
from secondpass.apis.descriptions import Api, Verified, check_path
from secondpass.apis.wire import RerankRequest, Response, ResponseScores
from secondpass.asking.batches import ask_in_halves, merge_batches, repairing
from secondpass.concurrency.lazy import require
from secondpass.concurrency.threads import in_thread, in_thread_of
from secondpass.effects import Ask, Judgement, Plan, Task
from secondpass.errors import ConfigurationError, LLMError, MethodError, Problem, ReplyError
from secondpass.limits import Prices
from secondpass.questions import (
    Answer,
    Completion,
    Estimate,
    Question,
    Recall,
    cut,
    cut_evenly,
    estimate_tokens,
)
from secondpass.ranking.issues import IssueCollector
from secondpass.ranking.scoring import equal_scores
from secondpass.services import json_http
from secondpass.services.client import NO_KEY, Client, Connection
from secondpass.services.diagnosis import Sent, words_in_answer
from secondpass.services.http import MAX_VALUES
from secondpass.services.json_http import StatusError
from secondpass.services.provider_errors import ErrorResponse
from secondpass.services.recent import Recent
from secondpass.settings import Secret, to_mapping
from secondpass.settings.descriptions import Descriptions
from secondpass.settings.messages import REQUIRED

A = TypeVar("A", bound=Api)

BATCH_TOO_LARGE = "batch_too_large"
MEMBER_REJECTED = "member_rejected"
LONG = 2000
"""If a server rejects a batch as too long, passages with more characters are cut first."""
_TOKEN_SHARE = 0.8
"""Estimated tokens of a request at most, as a share of those that the API accepts."""
_LEARNED_SHARE = 0.95
"""The share once the server has reported the tokens of a request, so that estimates are better."""
_ASKED_AGAIN = frozenset({BATCH_TOO_LARGE, MEMBER_REJECTED})
_Limit: TypeAlias = Literal["documents", "tokens"]
"""Of a request, as a server states it."""
_ROUNDS = 6
"""Maximum rounds in which parts are sent, not counting those in which a member is rejected."""
_Purpose: TypeAlias = Literal["first", "search", "repair"]
"""Why questions are asked: for the first time; in the search for a size that the server accepts; or
about parts of what was refused because of its content."""


class ApiMethod(Client[RerankRequest], Generic[A]):
    """Scores candidates by an API that is described as data. Subclasses have the settings."""

    package = "httpx"
    extra = "remote"
    score_kind: Any
    spans: bool = False
    """Whether the best spans are requested."""
    _splits_long = False
    """Whether a batch of short texts that is too long is split rather than cut."""
    _fixed = api_template.FIXED
    """Placeholders that ``options`` cannot replace."""
    _in_options: Collection[str] = api_template.IN_OPTIONS
    """Placeholders that they may have."""
    _output_tokens = 0
    """Tokens of an answer about one document, by an estimate."""
    batch_size: int | None
    path: str | None
    prices: Prices | None
    _apis: Descriptions[Any]
    _api: A

    def _describe(
        self,
        api: Any,
        description: A,
        template: Mapping[str, Any],
        *,
        model: str | None,
        base_url: str | None,
        path: str | None,
        api_key: Any,
        api_key_env: Any,
        timeout: float,
        prices: Prices | None,
        options: Mapping[str, Any] | None,
    ) -> None:
        """Check and keep the settings that all of them have; ``description`` is what ``api`` names.

        ``options`` cannot replace the texts of the template of the request.
        """
        self.api = api
        self.model = model
        self.base_url = base_url
        self.path = path
        self.api_key = api_key
        self.api_key_env = api_key_env
        self.timeout = timeout
        self.prices = prices
        self.options = options
        self.url = description.url or ""
        self.key_variables = tuple(description.key_variables)
        self._api = description
        self._auth = description.auth or BEARER
        about = self._about = api if isinstance(api, str) else description.title or "this API"
        if self.base_url is None and description.url is None:
            example = description.example_url
            reason = f"such as {example}" if example else "which is self-hosted"
            raise ConfigurationError(f"base_url: is required for {about!r}, {reason}")
        if self.path is not None:
            check_path(self.path, "path")
        if self.model is None and (description.needs_model or "$model" in (self.path or "")):
            raise ConfigurationError([Problem(("model",), f"{REQUIRED} for {about!r}")])
        has_key = self.api_key is not None or self.api_key_env is not None
        if self._auth.sigv4 is not None and has_key:
            message = f"api_key: is not supported by {about!r}, which has AWS credentials"
            raise ConfigurationError(message)
        options = self.options or {}
        problems = api_template.misplaced(options, self._in_options)
        if wrong := [problem.under(("options",)) for problem in problems]:
            raise ConfigurationError(wrong)
        occupied = api_template.occupied(template, options, self._fixed)
        if "model" in options:
            occupied.append("model")
        if occupied:
            raise ConfigurationError(f"options: {min(occupied)!r} cannot be set in options")
        self._prepare()

    def _prepare(self) -> None:
        super()._prepare()
        self._credentials: Credentials | None = None
        self._limits: Recent[_Limit, float] = Recent()
        self._rejected_members: Recent[str, bool] = Recent()
        self._refused_forms: Recent[frozenset[str], bool] = Recent()
        """Names of the members of requests that no smaller number of documents helps."""

    @property
    def name(self) -> str:
        """The model's name, or the API's."""
        return self.model or self._about

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
        api_batches.add_truncated(issues, task.texts, self._document_tokens)

        def ask(parts: Sequence[range], repairs: bool) -> Plan[dict[range, Answer[ResponseScores]]]:
            return self._ask_in_rounds(task, parts, repairs, issues)

        parts = self._parts(task, range(len(task.texts)))
        answers = yield from ask_in_halves(task.call, ask, parts, issues)
        return self._judgement(task, answers, issues)

    def _ask_in_rounds(
        self, task: Task, parts: Sequence[range], repairs: bool, issues: IssueCollector
    ) -> Plan[dict[range, Answer[ResponseScores]]]:
        """The answers about ranges of the task, which are split where the server asks for it.

        If the server refuses requests for no known reason, a search follows for the number of
        documents that it accepts. That counts as repair, so limits may not allow it.
        """
        answers: dict[range, Answer[ResponseScores]] = {}
        search = api_batches.SizeSearch(answers, issues)
        purpose: _Purpose = "repair" if repairs else "first"
        rounds_left = _ROUNDS
        while parts:
            asked = yield from self._ask(task, parts, purpose)
            errors = [answer.error for answer in asked.values() if answer.error is not None]
            if all(error.code != MEMBER_REJECTED for error in errors):
                rounds_left -= 1  # else it is not counted: each member can be rejected once
            again: dict[range, MethodError] = {}
            for part, answer in asked.items():
                error = answer.error
                if rounds_left > 0 and error is not None and error.code in _ASKED_AGAIN:
                    again[part] = error
                else:
                    answers[part] = answer
            last_by_code = {error.code: error for error in again.values()}
            for code, error in last_by_code.items():
                issues.add("asked_again", f"{code}: {error}")
            # By now, requests have the form and the sizes that the server has asked for.
            parts = [smaller for part in again for smaller in self._parts(task, part)]
            if parts or repairs:
                continue
            rounds_needed = 1 if search.is_running else 2
            if rounds_left >= rounds_needed and task.call.rounds_left(repairs=True) != 0:
                parts = search.next_parts()
                if parts:
                    purpose = "search"
        if search.in_vain is not None:
            self._refused_forms.remember(search.in_vain.form, True)
        if purpose == "search" and all(answer.value is not None for answer in answers.values()):
            self._limits.remember("documents", max(map(len, answers)))
        return answers

    def _judgement(
        self, task: Task, answers: Mapping[range, Answer[Any]], issues: IssueCollector
    ) -> Judgement:
        judgement = merge_batches(len(task.texts), answers, word="score", issues=issues)
        equal = equal_scores(task.texts, judgement.scores, self.name)
        return replace(judgement, issues=[*judgement.issues, *equal])

    def _parts(self, task: Task, whole: range) -> list[range]:
        """A range of the task, split into requests."""
        tokens, sizes = self._max_tokens, None
        if tokens is not None:
            estimate = self._estimate(task.query, self._instruction(task))
            sizes = [*map(estimate, task.texts)]
        return [*api_batches.split(whole, self._max_documents, sizes, tokens)]

    def _instruction(self, task: Task) -> str | None:
        return task.instruction if self.takes_instruction else None

    def _ask(
        self, task: Task, parts: Sequence[range], purpose: _Purpose
    ) -> Plan[dict[range, Answer[ResponseScores]]]:
        """The answers about ranges of the task, side by side."""
        questions = []
        for part in parts:
            question = self._question(task, task.texts[part.start : part.stop])
            if purpose == "search":
                question = replace(question, repairs=True)
            elif purpose == "repair":
                question = repairing(question)
            questions.append(question)
        answers = yield from Ask(self, questions)
        return dict(zip(parts, answers, strict=True))

    # ------------------------------------------------------------------ one request

    def _question(
        self, task: Task, texts: Sequence[str]
    ) -> Question[RerankRequest, ResponseScores]:
        request = RerankRequest(task.query, texts, self._instruction(task))

        def read(response: Any) -> ResponseScores:
            if response.body is json_http.INVALID:
                raise ReplyError(f"it is not JSON{response.remark}", "bad_response")
            return self._scores(response, request)

        def shrink() -> Question[RerankRequest, ResponseScores] | None:
            if any(len(text) > LONG for text in texts):
                return self._question(task, [cut(text, LONG) for text in texts])
            if self._splits_long and len(texts) > 1:
                return None
            shorter = cut_evenly(texts, sum(map(len, texts)) // 2)
            return None if shorter is None else self._question(task, shorter)

        return Question(
            request=request,
            read=read,
            reminder=None,
            shrink=shrink,
            estimate=Estimate(
                sum(map(self._estimate(task.query, request.instruction), texts)),
                self._output_tokens * len(texts),
            ),
            documents=len(texts),
            assumed=wire.equal(len(texts), 0.0, with_spans=self.spans),
            recall=Recall(
                lambda: request,
                lambda scores: wire.dump(scores, with_spans=self.spans),
                lambda data: wire.load(data, texts, with_spans=self.spans),
            ),
        )

    # ------------------------------------------------------------------ for subclasses

    @property
    def takes_instruction(self) -> bool:
        """Whether requests have a place for the instruction of a call."""
        raise NotImplementedError

    @property
    def _most_documents(self) -> int:
        """Documents per request at most, by the settings and the API."""
        raise NotImplementedError

    @property
    def _document_tokens(self) -> int | None:
        """Tokens that the API reads of a document; None if that is not known."""
        return None

    @property
    def _optional(self) -> Sequence[str]:
        """Members of a request that are left out once the server rejects them by name."""
        return self._api.optional

    def _estimate(self, query: str, instruction: str | None) -> Callable[[str], float]:
        """Estimates the tokens of a document with what is read along with it."""
        per_pair = estimate_tokens(query) + estimate_tokens(instruction or "")
        return lambda document: estimate_tokens(document) + per_pair

    def _body(self, request: RerankRequest, without: Sequence[str]) -> dict[str, Any]:
        """The JSON body of a request, without some of its optional members."""
        raise NotImplementedError

    async def _response(self, text: str, sent: Sent, without: Sequence[str]) -> Response:
        """The response with this text, to a request without some of its optional members."""
        raise NotImplementedError

    def _scores(self, response: Response, request: RerankRequest) -> ResponseScores:
        """The scores in a response that is JSON.

        Raises:
            ReplyError: there are none.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ the client

    @property
    def _is_built_in(self) -> bool:
        return isinstance(self.api, str) and self.api in self._apis

    @property
    def provider(self) -> str:
        """The provider of the API, for traces."""
        return self.api if self._is_built_in else self._api.title or "custom"

    @property
    def cache_key(self) -> Mapping[str, Any]:
        """The settings that an answer may depend on."""
        key = dict(super().cache_key)
        if not self._is_built_in:
            key["api"] = to_mapping(self._api, _cached_part)
        return key

    def check_installed(self) -> None:
        """Check that the packages are installed, without importing them."""
        packages = [self.package, *self._auth.packages]
        require(packages, self._auth.extra, f"the API {self.provider!r}")

    @property
    def _max_documents(self) -> int:
        """Maximum documents per request, by the settings and by a recent error of the server."""
        limit = self._most_documents
        return int(min(limit, self._limits.get("documents") or limit))

    @property
    def _max_tokens(self) -> float | None:
        """Maximum estimated tokens per request, by the same; None if there is no limit."""
        stated = self._api.max_tokens
        limits = [None if stated is None else _TOKEN_SHARE * stated, self._limits.get("tokens")]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def _url(self) -> str:
        return wire.request_url(self._api, self.base_url, self.path, self.model)

    def _key(self) -> Secret:
        keyless = self._auth.sigv4 or self._auth.google or not self.key_variables
        if keyless and self.api_key is None and self.api_key_env is None:
            return Secret(NO_KEY)
        return super()._key()

    async def _complete(self, request: RerankRequest) -> Completion:
        auth = self._auth
        if (auth.sigv4 or auth.google) and self._key().reveal() == NO_KEY:
            self.check_installed()
            credentials = self._credentials = self._credentials or Credentials(auth)
            # It may call a server of the provider.
            await in_thread_of(credentials, credentials.prepare)
        return await super()._complete(request)

    def _sent_with(self, key: Secret, request: RerankRequest) -> Sent:
        sent = super()._sent_with(key, request)
        return sent if self._credentials is None else sent.with_secrets(self._credentials.secrets)

    def _connect(self, key: str) -> Connection:
        auth = self._auth
        as_bearer = auth == BEARER or (auth.google and key != NO_KEY)
        token = key if as_bearer else NO_KEY
        connection = json_http.connect(token, self.timeout, max_values=MAX_VALUES)
        if not as_bearer:
            authorize(connection.client, auth, key, self._credentials, self.model or "")
        if self._api.headers:
            connection.client.headers.update(self._api.headers)
        return connection

    def _texts(self, request: RerankRequest) -> Sequence[str]:
        texts = (request.query, request.instruction, *request.documents)
        return [text for text in texts if text is not None]

    async def _answer(self, client: Any, request: RerankRequest, sent: Sent) -> Completion:
        without = [name for name in self._optional if name in self._rejected_members]
        body = self._body(request, without)
        response = await client.post(self._url, json=body)
        if response.status_code != 200:
            error = StatusError(response)
            if described := await self._error_response(error, sent):
                self._learn(described, request, body, without)
            raise error
        self._refused_forms.forget(frozenset(body))
        text = response.content.decode("utf-8")
        read = await self._response(text, sent, without)
        if read.body is json_http.INVALID:
            return replace(read, remark=await in_thread(lambda: words_in_answer(text, sent)))
        return read

    def _learn(
        self,
        response: ErrorResponse,
        request: RerankRequest,
        body: Mapping[str, Any],
        without: Sequence[str],
    ) -> None:
        """Remember what the server accepts, and raise the error that has the request sent again."""
        if response.status in {400, 413, 422}:
            self._learn_size(response, request)
        # A server that shows the whole request blames no member of it.
        shows_request = all(map(response.blames, self._api.text_members))
        sent = [name for name in self._optional if name in body and name not in without]
        rejected = [name for name in sent if response.blames(name)]
        if rejected and not shows_request:
            for name in rejected:
                self._rejected_members.remember(name, True)
            message = f"the server does not support {rejected[0]!r} {response.source}"
            raise LLMError(message, MEMBER_REJECTED)
        if len(request.documents) > 1 and self._may_be_too_large(response, request, body):
            error = response.error()
            refused = api_batches.BatchRefusedError(error.message, error.code)
            refused.form = frozenset(body)
            if refused.form not in self._refused_forms:
                raise refused

    def _learn_size(self, response: ErrorResponse, request: RerankRequest) -> None:
        """Remember the documents or tokens per request that a server states; then raise that."""
        count = len(request.documents)
        limit = api_batches.batch_limit(response.text)
        if limit is not None and 0 < limit < count:
            self._limits.remember("documents", limit)
            message = f"the server accepts {limit} documents per request {response.source}"
            raise LLMError(message, BATCH_TOO_LARGE)
        tokens = api_batches.token_limit(response.text)
        if tokens is not None and count > 1:
            allowed, actual = tokens
            estimate = self._estimate(request.query, request.instruction)
            estimated = sum(map(estimate, request.documents))
            self._limits.remember("tokens", _LEARNED_SHARE * estimated * allowed / actual)
            message = f"the server accepts {allowed} tokens per request {response.source}"
            raise LLMError(message, BATCH_TOO_LARGE)

    def _may_be_too_large(
        self, response: ErrorResponse, request: RerankRequest, body: Mapping[str, Any]
    ) -> bool:
        """Whether a request was refused for no known reason, which may be its size."""
        texts = self._api.text_members
        if response.status == 413:
            is_long = any(len(text) > LONG for text in request.documents)
            is_unknown = not response.names_length and not is_long
        else:
            is_unknown = response.status in {400, 422} and response.error().code == "bad_request"
        others = body.keys() - {*texts}
        return is_unknown and not api_batches.blames_form(response, texts, others)


def _cached_part(part: Any, _name: str) -> Any:
    """The form of a part of an API's description in the cache key; None if it has no effect."""
    return None if isinstance(part, Auth | Verified) else to_mapping(part, _cached_part)
