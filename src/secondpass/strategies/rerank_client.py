"""The client of rerank APIs: addresses, keys, requests, and what a server says that it accepts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from secondpass.concurrency.lazy import require
from secondpass.concurrency.threads import in_thread, in_thread_of
from secondpass.effects import Completion
from secondpass.errors import LLMError, ReplyError
from secondpass.prompts.truncation import estimate_tokens
from secondpass.services import json_http
from secondpass.services.client import NO_KEY, REMEMBERED_SECONDS, Client, Connection
from secondpass.services.echoes import Sent
from secondpass.services.http import MAX_VALUES
from secondpass.services.json_http import StatusError
from secondpass.services.provider_errors import ErrorResponse
from secondpass.settings import Secret, to_mapping
from secondpass.strategies import rerank_batches, rerank_wire
from secondpass.strategies.rerank_apis import APIS, RerankApi
from secondpass.strategies.rerank_auth import BEARER, Credentials, authorize
from secondpass.strategies.rerank_scores import ResponseScores, with_skipped
from secondpass.strategies.rerank_spans import RerankSpans, SpanReader
from secondpass.strategies.rerank_wire import Pairs, Response
from secondpass.types import ScoreKind

BATCH_TOO_LARGE = "batch_too_large"
EMPTY_REJECTED = "empty_rejected"
MEMBER_REJECTED = "member_rejected"
LONG = 2000
"""If a server rejects a batch as too long, passages with more characters are cut first."""
_TOKEN_SHARE = 0.8
"""Estimated tokens of a request at most, as a share of those that the API accepts."""
_LEARNED_SHARE = 0.95
"""The same, once the server has reported the tokens of a request."""


class RerankClient(Client[Pairs]):
    """Sends requests to a rerank API, and remembers for ten minutes what the server accepts.

    Subclasses set ``api``, ``batch_size``, ``raw_scores``, ``document_tokens``, ``spans`` and
    ``path``, and the attributes that :class:`Client` needs, and call ``_prepare``.
    """

    package = "httpx"
    extra = "remote"

    api: Any
    path: str | None
    batch_size: int | None
    raw_scores: bool
    document_tokens: int | None
    spans: bool
    _api: RerankApi

    def _prepare(self) -> None:
        super()._prepare()
        self._credentials: Credentials | None = None
        self._learned_limit: tuple[int, float] | None = None
        self._learned_tokens: tuple[float, float] | None = None
        self._learned: dict[str, float] = {}

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""
        raise NotImplementedError

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
        return with_skipped(scores, request.skipped)


def pair_tokens(query: str, instruction: str | None) -> Callable[[str], float]:
    """Estimates the tokens of a document with the query and the instruction."""
    per_pair = estimate_tokens(query) + estimate_tokens(instruction or "")
    return lambda document: estimate_tokens(document) + per_pair


def _cached_part(part: Any, _name: str) -> Any:
    """The form of a part of an API's description in the cache key; None if it has no effect."""
    return to_mapping(part, _cached_part) if isinstance(part, RerankSpans) else None


def _is_recent(since: float) -> bool:
    return time.monotonic() - since < REMEMBERED_SECONDS
