"""Rerank APIs and servers, which are described as data (:mod:`secondpass.apis.descriptions`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.apis import template as api_template
from secondpass.apis import wire
from secondpass.apis.descriptions import API_SETTING, APIS, RerankApi
from secondpass.apis.method import ApiMethod
from secondpass.apis.wire import RerankRequest, Response, ResponseScores
from secondpass.concurrency.threads import in_thread
from secondpass.effects import Judgement, Task
from secondpass.errors import ConfigurationError, ReplyError
from secondpass.limits import PRICES, Prices
from secondpass.questions import Answer
from secondpass.ranking.issues import IssueCollector
from secondpass.services import json_http
from secondpass.services.diagnosis import Sent
from secondpass.settings import SECRET, Variables, built, configurable
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MinLen

__all__ = ["APIS", "Endpoint", "RerankRequest"]


@configurable
class Endpoint(ApiMethod[RerankApi]):
    """Scores candidates by a rerank API or server.

    Args:
        api: the API: the name of a built-in one, the path of a YAML file that describes another,
            or that description.
        model: its name; optional for servers that run one model.
        base_url: the URL, with or without the API's path; required if every user of the API has
            another.
        path: replaces the API's path, and is appended to any ``base_url``; ``$model`` stands for
            the model's name.
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
        options: further fields of the request, which may be placeholders.

    Raises:
        ConfigurationError: a missing base URL or model, or a setting that the API does not have.
    """

    scale = None
    windows = "each"
    _apis = APIS
    _EXAMPLES = MappingProxyType({"api": "cohere"})

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
        prices: Annotated[Prices | Mapping[str, Any] | None, PRICES] = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.batch_size = batch_size
        self.raw_scores = raw_scores
        self.scores = scores
        self.document_tokens = document_tokens
        self.spans = spans
        described = APIS.resolve(api)
        self._describe(
            api,
            described,
            described.template(with_spans=spans),
            model=model,
            base_url=base_url,
            path=path,
            api_key=api_key,
            api_key_env=api_key_env,
            timeout=timeout,
            prices=built(prices),
            options=options,
        )
        if raw_scores and not described.raw_scores:
            raise self._unsupported("raw_scores")
        if document_tokens is not None and "document_tokens" not in described.placeholders:
            raise self._unsupported("document_tokens")
        if spans and described.spans is None:
            raise self._unsupported("spans")

    def _unsupported(self, setting: str) -> ConfigurationError:
        return ConfigurationError(f"{setting}: is not supported by {self._about!r}")

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""
        if self.scores is not None:
            return self.scores
        return "logit" if self.raw_scores else self._api.score_kind

    @property
    def takes_instruction(self) -> bool:
        """Whether the API has a field for the instruction of a call."""
        return self._api.takes_instruction

    def _judgement(
        self, task: Task, answers: Mapping[range, Answer[ResponseScores]], issues: IssueCollector
    ) -> Judgement:
        kind = wire.kind_of_scores(
            [answer.value for answer in answers.values() if answer.value is not None],
            self.score_kind,
            maybe_logits=self._api.raw_scores and not self.raw_scores and self.scores is None,
        )
        if kind != self.score_kind:
            issues.add(
                "scores_read_as_logits",
                "scores lie outside 0 to 1, so all were read as logits; set raw_scores or scores",
            )
        within: dict[range, Answer[ResponseScores]] = {}
        for part, answer in answers.items():
            if answer.value is None:
                within[part] = answer
            else:
                within[part] = replace(answer, value=wire.clipped(answer.value, kind))
        spans = wire.spans_of(answers, len(task.texts), issues) if self.spans else None
        judgement = replace(super()._judgement(task, within, issues), spans=spans)
        return judgement if kind == self.score_kind else replace(judgement, score_kind=kind)

    # ------------------------------------------------------------------ one request

    @property
    def cache_key(self) -> Mapping[str, Any]:
        """The settings that an answer may depend on."""
        key = dict(super().cache_key)
        if not self.spans:
            del key["spans"]  # keeps keys valid that are older than this setting
        return key

    @property
    def _most_documents(self) -> int:
        return self.batch_size or self._api.max_documents

    @property
    def _document_tokens(self) -> int | None:
        for member, option in (self.options or {}).items():
            if self._api.request.get(member) == "$document_tokens" and type(option) is int:
                return option
        return self.document_tokens or self._api.document_tokens

    @property
    def _optional(self) -> Sequence[str]:
        if self.spans:
            return [*self._api.optional, *self._api.span_members]
        return self._api.optional

    def _body(self, request: RerankRequest, without: Sequence[str]) -> dict[str, Any]:
        query, instruction = request.query, request.instruction
        values = {
            "query": query,
            "instructed_query": f"{instruction}\n{query}" if instruction else query,
            "instruction": instruction,
            "model": self.model,
            "raw_scores": self.raw_scores,
            "document_tokens": self.document_tokens or self._api.document_tokens,
        }
        whole = self._api.template(with_spans=self.spans)
        template = {name: part for name, part in whole.items() if name not in without}
        return api_template.filled(template, values, request.documents, self.options)

    async def _response(self, text: str, sent: Sent, without: Sequence[str]) -> Response:
        body = json_http.parse_json(text)
        tokens = wire.tokens_used(body, self._api.usage_tokens)
        remark = ""
        if wire.lacks_scores(body, self._api):
            # In a thread: comparing megabytes takes seconds.
            remark = await in_thread(lambda: wire.remark(body, self._api, sent))
        return Response(
            text,
            False,
            tokens,
            None if tokens is None else 0,
            units=wire.units_used(body, self._api.usage_units),
            body=body,
            with_spans=self.spans and not {*without} & {*self._api.span_members},
            remark=remark,
        )

    def _scores(self, response: Response, request: RerankRequest) -> ResponseScores:
        body, texts = response.body, request.documents
        spans = self._api.spans if response.with_spans else None
        try:
            return wire.read_scores(body, self._api, texts, self.score_kind, spans)
        except ReplyError as error:
            raise ReplyError(f"{error}{response.remark}", error.code) from None
