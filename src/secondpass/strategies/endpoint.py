"""Rerank APIs and servers: Cohere, Jina, Voyage, Mixedbread, TEI, vLLM, Infinity, llama.cpp.

They differ in names and limits only, which stand here as data; questions go through the same driver
as those to language models (deadline, retries, budget, ledger).

For n candidates and batches of b: ceil(n / b) calls, side by side in one round; every document is
read once.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from secondpass.effects import Answer, Ask, Completion, Estimate, Judgement, Plan, Question, Task
from secondpass.errors import ConfigurationError, LLMError, MethodError, ReplyError
from secondpass.limits import Prices
from secondpass.prompts.replies.values import BatchScores
from secondpass.prompts.truncation import cut_evenly, estimate_tokens
from secondpass.scoring import in_range, range_of, to_float
from secondpass.services.client import NO_KEY, REMEMBERED_SECONDS, Client, Connection, whole
from secondpass.services.echoes import Sent
from secondpass.services.http import MOST_VALUES, bounded
from secondpass.services.provider_errors import Refusal
from secondpass.settings import SECRET, Secret, Variables, configurable, nested
from secondpass.strategies.base import IssueCollector, merge_batches, split_batches
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MinLen

_TOO_MANY = "batch_too_large"
_LONG = 2000
"""Characters. Where a server finds a batch too long, passages longer than this are cut first."""


@dataclass(frozen=True, slots=True)
class Api:
    """How one API differs from the others.

    Attributes:
        path: of the address.
        query: what it calls the query.
        documents: what it calls the documents.
        rows: where the results are; empty where they are the whole answer.
        score: what it calls a score.
        kind: what scores mean; may depend on ``raw_scores``.
        most: documents a request.
        url: the provider's own address; None for servers that one runs oneself.
        key_variables: where the key is usually kept.
        fixed: further parameters.
        raw: whether it takes ``raw_scores``, for logits.
        named: whether it takes the name of a model.
    """

    path: str
    rows: str = "results"
    score: str = "relevance_score"
    kind: ScoreKind = "probability"
    most: int = 1000
    url: str | None = None
    key_variables: tuple[str, ...] = ("RERANK_API_KEY",)
    query: str = "query"
    documents: str = "documents"
    fixed: Mapping[str, Any] | None = None
    raw: bool = False
    named: bool = True


APIS: Mapping[str, Api] = {
    "cohere": Api(
        "/v2/rerank",
        url="https://api.cohere.com",
        key_variables=("CO_API_KEY", "COHERE_API_KEY"),
    ),
    "jina": Api(
        "/v1/rerank",
        url="https://api.jina.ai",
        key_variables=("JINA_API_KEY",),
        kind="unbounded",  # the range depends on the model
        fixed={"return_documents": False},
    ),
    "voyage": Api(
        "/v1/rerank",
        rows="data",
        url="https://api.voyageai.com",
        key_variables=("VOYAGE_API_KEY",),
        fixed={"truncation": True},
    ),
    "mixedbread": Api(
        "/v1/reranking",
        rows="data",
        score="score",
        documents="input",
        url="https://api.mixedbread.com",
        key_variables=("MXBAI_API_KEY",),
        kind="unbounded",  # the range depends on the model
        fixed={"return_input": False},
    ),
    "tei": Api(
        "/rerank",
        rows="",
        score="score",
        documents="texts",
        most=32,
        fixed={"truncate": True},
        raw=True,
        named=False,
    ),
    "vllm": Api("/v1/rerank"),
    "vllm_score": Api("/score", rows="data", score="score", query="text_1", documents="text_2"),
    "infinity": Api("/rerank", fixed={"return_documents": False}, raw=True),
    "llama_cpp": Api("/v1/rerank", kind="logit"),
}

ApiName: TypeAlias = Literal[
    "cohere", "jina", "voyage", "mixedbread", "tei", "vllm", "vllm_score", "infinity", "llama_cpp"
]


@dataclass(frozen=True, slots=True)
class Pairs:
    """A request: a query, and documents to score for it."""

    query: str
    documents: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Parsed(Completion):
    """A response whose JSON was read when its tokens were counted; None where it is no JSON."""

    body: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Scores(BatchScores):
    """The scores of one batch; ``outside`` has those that the score kind does not allow."""

    outside: tuple[float, ...] = ()


class StatusError(Exception):
    """An HTTP response that is no answer, in the shape that ``provider_errors`` reads."""

    def __init__(self, response: Any) -> None:
        super().__init__(response.status_code)
        self.status_code: int = response.status_code
        self.response = response
        self.body: Any = response.text
        try:
            body = response.json()
        except (ValueError, RecursionError):
            return
        if isinstance(body, dict):
            self.body = body


@configurable
class Endpoint(Client[Pairs]):
    """Scores candidates by a rerank API or server.

    Args:
        api: whose API it speaks.
        model: its name; not needed by servers that run one model.
        base_url: where to ask, without the API's path; required for servers of one's own.
        path: instead of the API's path.
        api_key: the key. Better left to the environment.
        api_key_env: the environment variable that holds the key, or several to try in turn, instead
            of the usual one.
        batch_size: documents a request; None takes what the API allows. Longer lists are put as
            several requests, never cut.
        raw_scores: ask for logits rather than probabilities, where the API offers both.
        scores: what the scores of this model mean, where that is not what the API usually gives.
        timeout: seconds that one answer may take.
        prices: per million tokens, for ``limits.cost`` and the report.
        options: further parameters of the request.

    Raises:
        ConfigurationError: no base URL, or a setting that the API does not have.
    """

    package = "httpx"
    extra = "remote"
    scale = None

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
            raise ConfigurationError(f"base_url: is required, for {api!r} is run by oneself")
        if model is None and self._api.url is not None:
            raise ConfigurationError(f"model: is required by {api!r}")
        if raw_scores and not self._api.raw:
            raise ConfigurationError(f"raw_scores: {api!r} has no such choice")
        taken = {self._api.query, self._api.documents, "model"} & set(options or ())
        if taken:
            raise ConfigurationError(f"options: {min(taken)!r} is not theirs to set")
        self.api = api
        self.model = model
        self.base_url = base_url
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
        self._taken: tuple[int, float] | None = None
        self._prepare()

    @property
    def name(self) -> str:
        """The model's name, or the API's."""
        return self.model or self.api

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""
        return self.scores or ("logit" if self.raw_scores else self._api.kind)

    @property
    def language_models(self) -> list[Any]:
        """What is asked, for its prices."""
        return [self]

    @property
    def _most(self) -> int:
        """Documents a request, by the settings and by what the server said lately."""
        most = self.batch_size or self._api.most
        if self._taken is not None and time.monotonic() - self._taken[1] < REMEMBERED_SECONDS:
            most = min(most, self._taken[0])
        return most

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Ask effect with a question for each batch.

        Raises:
            MethodError: no batch was answered, or the scores are on another scale.
        """
        notes = IssueCollector(self.name)
        answers = yield from self._asked(task, split_batches(len(task.texts), self._most))
        # The server may tell only now how many documents it takes.
        refused = {
            stretch: answer.error
            for stretch, answer in answers.items()
            if answer.error is not None and answer.error.code == _TOO_MANY
        }
        if refused:
            notes.add("asked_again", f"{_TOO_MANY}: {next(iter(refused.values()))}")
            smaller = [
                range(stretch.start + part.start, stretch.start + part.stop)
                for stretch in refused
                for part in split_batches(len(stretch), self._most)
            ]
            answers = {one: answer for one, answer in answers.items() if one not in refused}
            answers |= yield from self._asked(task, smaller)
        read = [*answers.values()]
        kind = self._kind_of([answer.value for answer in read if answer.value])
        bounds = range_of(kind)
        within: list[Answer[BatchScores]] = [
            Answer(answer.value and _within(answer.value, bounds), answer.error, answer.troubles)
            for answer in read
        ]
        if kind != self.score_kind:
            notes.add(
                "scores_read_as_logits",
                "scores lie outside 0 to 1, so all were read as logits; set raw_scores or scores",
            )
        judgement = merge_batches(
            self.name, len(task.texts), [*answers], within, word="score", issues=notes
        )
        return judgement if kind == self.score_kind else replace(judgement, score_kind=kind)

    def _kind_of(self, answers: Sequence[_Scores]) -> ScoreKind:
        """What the scores of one ranking mean, decided over all of its batches.

        Logits are accepted in place of probabilities only where the API documents both, the
        settings do not say which, every batch has a score outside 0 to 1, every row's score is a
        number, and none is beyond 50, as those of percentages are.

        Raises:
            MethodError: they are on another scale.
        """
        strange = next((answer.outside[0] for answer in answers if answer.outside), None)
        if strange is None:
            return self.score_kind
        if (
            self._api.raw
            and self.scores is None
            and not self.raw_scores
            and all(answer.outside and not answer.refused for answer in answers)
            and all(abs(value) <= _LARGEST_LOGIT for answer in answers for value in answer.outside)
        ):
            return "logit"
        bounds = range_of(self.score_kind)
        told = (
            f"a score of {strange:.6g} is outside {bounds[0]:g} to {bounds[1]:g}, so no score is "
            "used; if the model's scores have another range, say so by the setting scores"
        )
        raise MethodError(told, "score_out_of_range")

    def _asked(self, task: Task, stretches: Iterable[range]) -> Plan[dict[range, Answer[_Scores]]]:
        """The answers about stretches of the task."""
        asked = list(stretches)
        answers: list[Answer[_Scores]] = yield Ask(
            self, [self._question(task.query, task.texts[one.start : one.stop]) for one in asked]
        )
        return dict(zip(asked, answers, strict=True))

    # ------------------------------------------------------------------ one request

    def _question(self, query: str, texts: Sequence[str]) -> Question[Pairs, _Scores]:
        count = len(texts)

        def shrink() -> Question[Pairs, _Scores] | None:
            if any(len(text) > _LONG for text in texts):
                return self._question(query, [text[:_LONG] for text in texts])
            shorter = cut_evenly(texts, sum(map(len, texts)) // 2)
            return None if shorter is None else self._question(query, shorter)

        return Question(
            Pairs(query, texts),
            lambda completion: self._read(completion, count),
            None,
            shrink,
            Estimate(sum(map(estimate_tokens, texts)) + count * estimate_tokens(query), 0),
            count,
        )

    def _connect(self, key: str) -> Connection:
        import httpx

        client = bounded(httpx.AsyncClient, self.timeout, most_values=MOST_VALUES)
        if key != NO_KEY:
            client.headers["authorization"] = f"Bearer {key}"
        return Connection(client, client.aclose)

    def _texts(self, request: Pairs) -> Sequence[str]:
        return [request.query, *request.documents]

    async def _answer(self, client: Any, request: Pairs, sent: Sent) -> Completion:
        api = self._api
        body: dict[str, Any] = {
            api.query: request.query,
            api.documents: list(request.documents),
            **(api.fixed or {}),
            **(self.options or {}),
        }
        if api.named and self.model is not None:
            body["model"] = self.model
        if api.raw:
            body["raw_scores"] = self.raw_scores
        response = await client.post(self._url, json=body)
        if response.status_code != 200:
            error = StatusError(response)
            if refusal := await self._refusal_of(error, sent):
                self._learn(refusal, len(request.documents))
            raise error
        text = response.content.decode("utf-8")
        parsed = _json(text)
        usage = _usage(parsed)
        return _Parsed(text, False, usage, None if usage is None else 0, parsed)

    def _learn(self, refusal: Refusal, count: int) -> None:
        """Take note of how many documents the server takes, if that is what it complains of.

        Raises:
            LLMError: it is.
        """
        if refusal.status not in {400, 413, 422}:
            return
        found = re.search(r"maximum allowed batch size:? (\d{1,6})", refusal.text[:2000])
        if found is not None and 0 < int(found[1]) < count:
            self._taken = int(found[1]), time.monotonic()
            told = f"the server takes {found[1]} documents a request {refusal.source}"
            raise LLMError(told, _TOO_MANY)

    @property
    def _url(self) -> str:
        base = (self.base_url or self._api.url or "").rstrip("/")
        path = "/" + (self.path or self._api.path).lstrip("/")
        # A base URL may be given as SDKs of language models want it, with the version in it.
        version = re.match(r"/v\d+(?=/)", path)
        if version is not None and re.search(rf"[^/]{version[0]}$", base):  # and no host
            base = base.removesuffix(version[0])
        return base + path

    def _read(self, completion: Completion, count: int) -> _Scores:
        body = completion.body if isinstance(completion, _Parsed) else _json(completion.text)
        if body is _NO_JSON:
            raise ReplyError("it is no JSON", "bad_response")
        rows = body.get(self._api.rows) if isinstance(body, dict) else body
        if not isinstance(rows, list):
            raise ReplyError("it holds no list of results")
        values: list[float | None] = [None] * count
        refused: set[int] = set()
        unknown = 0
        seen: set[int | None] = set()
        outside: list[float] = []
        bounds = range_of(self.score_kind)
        for row in rows:
            index = row.get("index") if isinstance(row, dict) else None
            if type(index) is not int or not 0 <= index < count:
                unknown += 1
                number = index if type(index) is int else _whole_number(index)
                if number in {-1, count}:
                    seen.add(number)
                continue
            seen.add(index)
            score = to_float(row.get(self._api.score))
            if score is None or not math.isfinite(score):
                refused.add(index)
                continue
            if values[index] not in {None, score}:  # scored twice, differently
                refused.add(index)
            values[index] = score
            if in_range(score, bounds) is None:
                outside.append(score)
        if (count in seen and 0 not in seen) or (-1 in seen and count - 1 not in seen):
            raise ReplyError("its indices do not count from 0")
        for index in refused:
            values[index] = None
        if not outside and all(value is None for value in values):
            raise ReplyError("it holds no score that can be used")
        places = tuple(sorted(refused))
        return _Scores(tuple(values), places, unknown, outside=tuple(outside))


_NO_JSON = object()
_LARGEST_LOGIT = 50.0


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _name: math.nan)
    except (ValueError, RecursionError):
        return _NO_JSON


def _whole_number(index: Any) -> int | None:
    """The whole number that an index is, however it is spelled."""
    if isinstance(index, str):
        text = index.strip()
        return int(float(text)) if re.fullmatch(r"[+-]?\d{1,9}(?:\.0*)?", text) else None
    if isinstance(index, bool) or not isinstance(index, int | float):
        return None
    return int(index) if abs(index) < 1e9 and index == int(index) else None


def _within(grades: BatchScores, bounds: tuple[float, float]) -> BatchScores:
    """The same, with rounding errors put back onto the edges."""
    low, high = bounds
    return replace(
        grades,
        values=tuple(
            value if value is None else min(max(value, low), high) for value in grades.values
        ),
    )


def _usage(body: Any) -> int | None:
    """Tokens that were read, where the answer tells of them."""
    if not isinstance(body, dict):
        return None
    meta = body.get("meta")
    told = [body.get("usage"), meta.get("tokens") if isinstance(meta, dict) else None]
    for one in told:
        for name in ("total_tokens", "prompt_tokens", "input_tokens"):
            if isinstance(one, dict) and (number := whole(one.get(name))) is not None:
                return number
    return None
