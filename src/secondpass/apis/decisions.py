"""Decision models: a state and questions go in, probabilities come out, nothing is generated.

The APIs are described as data (:mod:`secondpass.apis.decision_descriptions`). There is no reply to
parse, and no label that a passage could forge. For n candidates, the layout ``each`` sends n
requests, ``together`` ceil(n / b) with batches of b, all side by side in one round; every document
is read once.

Only probabilities are used, and only if they are what the API's description says: numbers from 0 to
1, of all levels and of no others, that sum to 1. A stated score, choice or confidence is not read:
what these mean differs between servers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.apis import template as api_template
from secondpass.apis import wire
from secondpass.apis.decision_descriptions import (
    DECISION_API_SETTING,
    DECISION_APIS,
    KEY_VARIABLES,
    OF_LEVELS,
    OF_REQUEST,
    OF_STATE,
    TEXTS,
    DecisionApi,
    Grades,
    Layout,
    YesNo,
)
from secondpass.apis.method import ApiMethod
from secondpass.apis.template import lookup
from secondpass.apis.wire import RerankRequest, Response, ResponseScores
from secondpass.concurrency.threads import in_thread
from secondpass.errors import ConfigurationError, Problem, ReplyError
from secondpass.limits import PRICES, Prices
from secondpass.prompts.fencing import fenced
from secondpass.prompts.labels import label_all
from secondpass.prompts.template import call_instruction
from secondpass.questions import estimate_tokens
from secondpass.ranking.scoring import in_range, to_float
from secondpass.services import json_http
from secondpass.services.diagnosis import Sent
from secondpass.services.json_http import Ambiguous
from secondpass.settings import SECRET, Variables, built, configurable, counted
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MaxLen, MinLen

_ROUNDING = 0.005
"""By how much a probability with two decimals may be off."""
_DECIMALS = 9
"""Digits of a grade, so that rounding errors of a sum do not order what is equal."""


class _UnusableError(Exception):
    """An answer without a probability that can be used. Its text says why, in our words."""


def read_answers(
    body: Any, api: DecisionApi, kind: YesNo | Grades, ids: Sequence[str], levels: int
) -> ResponseScores:
    """The scores in a parsed response: probabilities of a yes, or grades from 0 to 1.

    A document without an answer has no score; one whose answer cannot be used, or has two answers,
    counts as refused. Answers to other questions are counted, and not used. In ``body``, doubled
    names are marked; ``levels`` is the number of levels of a scale.

    Raises:
        ReplyError: no answers, no usable one, or a probability on another scale.
    """
    if api.blocked is not None and lookup(body, api.blocked) is not None:
        raise ReplyError("it was blocked", "content_filter")
    if isinstance(body, Ambiguous) and api.answers.partition(".")[0] in body.doubled:
        raise ReplyError(f"it has {api.answers!r} twice", "bad_response")
    answers, unknown, doubled = _by_id(lookup(body, api.answers), api, ids)
    values: list[float | None] = [None] * len(ids)
    refused: dict[int, str] = dict.fromkeys(doubled, "a question has two answers")
    declined: list[int] = []
    for place, answer in answers.items():
        if api.declined is not None and lookup(answer, api.answer_type) == api.declined:
            declined.append(place)
            continue
        try:
            values[place] = _score(answer, api, kind, levels)
        except _UnusableError as error:
            refused[place] = str(error)
    if any(value is not None for value in values):
        return ResponseScores(
            tuple(values), tuple(sorted(refused)), unknown, declined=tuple(sorted(declined))
        )
    if declined:
        message = "it declines to decide about any document"
        raise ReplyError(message, "content_filter", repairable=False)
    if not refused:
        raise ReplyError("it answers none of the questions", "bad_response")
    what = "probability" if isinstance(kind, YesNo) else "distribution"
    raise ReplyError(f"it has no usable {what}: {next(iter(refused.values()))}", "bad_response")


def _by_id(
    answers: Any, api: DecisionApi, ids: Sequence[str]
) -> tuple[dict[int, Any], int, set[int]]:
    """The answers by the places of their questions, the number of others, and doubled places."""
    if api.answer_id is None:
        if not isinstance(answers, dict):
            raise ReplyError("it has no object of answers", "bad_response")
        doubled = answers.doubled if isinstance(answers, Ambiguous) else frozenset()
        return _by_place([*answers.items()], doubled, ids)
    if not isinstance(answers, list):
        raise ReplyError("it has no list of answers", "bad_response")
    named = [(lookup(answer, api.answer_id), answer) for answer in answers]
    if len(named) == len(ids):
        return _in_order(named, ids), 0, set()
    if not all(isinstance(stated, str) for stated, _ in named):
        message = f"it has {counted(len(answers), 'answer')} to {counted(len(ids), 'question')}"
        raise ReplyError(message, "bad_response")
    counts = Counter(stated for stated, _ in named)
    return _by_place(named, {stated for stated, count in counts.items() if count > 1}, ids)


def _in_order(named: Sequence[tuple[Any, Any]], ids: Sequence[str]) -> dict[int, Any]:
    """The answers in the order of the questions, each with the id that it states.

    One that names another question contradicts the order, so it is None.
    """
    answers: dict[int, Any] = {}
    for place, (name, (stated, answer)) in enumerate(zip(ids, named, strict=True)):
        answers[place] = answer if stated is None or stated == name else None
    return answers


def _by_place(
    named: Sequence[tuple[str, Any]], doubled: Set[str], ids: Sequence[str]
) -> tuple[dict[int, Any], int, set[int]]:
    """What :func:`_by_id` returns, of answers with the ids that they state."""
    places = {name: place for place, name in enumerate(ids)}
    answers: dict[int, Any] = {}
    unknown = 0
    for name, answer in named:
        if name not in places:
            unknown += 1
        elif name not in doubled:
            answers[places[name]] = answer
    return answers, unknown, {places[name] for name in doubled if name in places}


def _score(answer: Any, api: DecisionApi, kind: YesNo | Grades, levels: int) -> float:
    """The probability of a yes, or the expected level as a share of the highest.

    Raises:
        _UnusableError: there is none that can be used.
        ReplyError: the probability of a yes is on another scale.
    """
    expected = lookup(kind.question, api.answer_type)
    if expected is not None and lookup(answer, api.answer_type) != expected:
        raise _UnusableError(f"answers are not of the type {expected!r}")
    if isinstance(answer, Ambiguous):
        raise _UnusableError("an answer states something twice")
    if isinstance(kind, YesNo):
        stated = lookup(answer, kind.probability)
        number = to_float(stated)
        if number is None or not math.isfinite(number):
            what = "null or missing" if stated is None else "no number"
            raise _UnusableError(f"{kind.probability!r} is {what}")
        value = in_range(number, (0.0, 1.0))
        if value is None:
            message = f"it has a probability of {number:.6g}, so none of its numbers is used"
            raise ReplyError(message, "score_out_of_range", repairable=False)
        return value
    probabilities = _distribution(answer, kind, levels)
    weighted = math.fsum(level * share for level, share in enumerate(probabilities))
    return min(1.0, round(weighted / math.fsum(probabilities) / (levels - 1), _DECIMALS))


def _distribution(answer: Any, kind: Grades, levels: int) -> list[float]:
    """The probabilities of the levels, lowest first."""
    stated = lookup(answer, kind.probabilities)
    if stated is None:
        raise _UnusableError(f"{kind.probabilities!r} is null or missing")
    if kind.level is not None and isinstance(stated, list):
        stated = _by_level(stated, kind.level, kind.probability)
    expected = [str(level) for level in range(levels)]
    is_clear = isinstance(stated, dict) and not isinstance(stated, Ambiguous)
    if not is_clear or stated.keys() != set(expected):
        raise _UnusableError(f"not one probability of each level, named 0 to {levels - 1}")
    probabilities = []
    for level in expected:
        number = to_float(stated[level])
        probability = None if number is None else in_range(number, (0.0, 1.0))
        if probability is None:
            raise _UnusableError("not every probability is a number from 0 to 1")
        probabilities.append(probability)
    if abs(math.fsum(probabilities) - 1) > _ROUNDING * levels:
        raise _UnusableError("the probabilities of the levels do not sum to 1")
    return probabilities


def _by_level(rows: Sequence[Any], level: str, probability: str) -> dict[str, Any] | None:
    """The probabilities in rows, by level; None if a row names none, or what another names."""
    probabilities: dict[str, Any] = {}
    for row in rows:
        label = lookup(row, level)
        if isinstance(row, Ambiguous) or not isinstance(label, str) or label in probabilities:
            return None
        probabilities[label] = lookup(row, probability)
    return probabilities


_DOCUMENT = "{document}"
_ALONE = "document"
"""The id of the only question of a request."""
_BATCH_SIZE = 50
_INSTRUCTIONS = {
    "graded": "How well does {document} answer the query?",
    "yes_no": "The query is answered by {document}.",
}
_LEVELS = (
    "Unrelated: nothing in it helps with the query.",
    "The same topic, but it does not answer the query.",
    "It answers a part of the query, or answers it vaguely.",
    "It answers the query in full.",
)


@configurable
class Decisions(ApiMethod[DecisionApi]):
    """Scores candidates by the probabilities that a decision model gives to answers.

    Args:
        api: the shape of the API: the name of a built-in one, the path of a YAML file that
            describes another, or that description.
        model: its name.
        base_url: the URL, with or without the API's path, for another provider or server of that
            shape.
        path: replaces the API's path, and is appended to any ``base_url``.
        rename: names of fields of another provider, by the names in the description; three at most.
        api_key: the key. Prefer an environment variable.
        api_key_env: environment variable that holds the key, or several to try in turn, instead of
            the usual one; with ``base_url`` that is ``DECISIONS_API_KEY``.
        question: ``graded`` asks for the probability of each level of a scale; the score is the
            expected level, from 0 to 1. ``yes_no`` asks for the probability that a document answers
            the query.
        levels: what the levels of the scale mean, lowest first; of ``yes_no``, what a no and a yes
            mean.
        instructions: the question. ``{document}`` stands for "the document" or, in the layout
            ``together``, for the one that is asked about.
        layout: ``each`` sends one document per request; ``together`` a batch, with a question about
            each document in it. None is what the API's description says.
        batch_size: documents per request of ``together``; None is 50, or fewer if the API takes
            fewer questions.
        timeout: seconds per answer.
        prices: per million tokens, for ``limits.cost`` and the report.
        options: further fields of the request, which may be the placeholders ``$model``,
            ``$state`` and ``$state_text``.

    A document that the model declines to decide about is unjudged, never 0. If a probability of
    a yes is outside 0 to 1, no score of the ranking is used.

    Raises:
        ConfigurationError: a missing base URL or model, or a setting that the API does not have.
    """

    _apis = DECISION_APIS
    _fixed = TEXTS | {"id", "model"}
    _in_options = (TEXTS - OF_REQUEST) | {"model"}
    _output_tokens = 1
    _splits_long = True  # its documents share one state

    def __init__(
        self,
        api: Annotated[Any, DECISION_API_SETTING],
        *,
        model: Annotated[str, MinLen(1)] | None = None,
        base_url: Annotated[str, MinLen(1)] | None = None,
        path: Annotated[str, MinLen(1)] | None = None,
        rename: Annotated[Mapping[str, Annotated[str, MinLen(1)]], MaxLen(3)] | None = None,
        api_key: Annotated[Any, SECRET] = None,
        api_key_env: Variables = None,
        question: Literal["graded", "yes_no"] = "graded",
        levels: Annotated[Sequence[Annotated[str, MinLen(1)]], MinLen(2)] | None = None,
        instructions: Annotated[str, MinLen(1)] | None = None,
        layout: Literal["each", "together"] | None = None,
        batch_size: Annotated[int, Ge(1)] | None = None,
        timeout: Annotated[float, Gt(0)] = 30.0,
        prices: Annotated[Prices | Mapping[str, Any] | None, PRICES] = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        described = DECISION_APIS.resolve(api).renamed(rename or {})
        self.rename = rename
        self.question = question
        self.levels = levels
        self.instructions = instructions
        self.layout = layout
        self.batch_size = batch_size
        self._describe(
            api,
            described,
            described.request,
            model=model,
            base_url=base_url,
            path=path,
            api_key=api_key,
            api_key_env=api_key_env,
            timeout=timeout,
            prices=built(prices),
            options=options,
        )
        if base_url is not None and described.url is not None:
            self.key_variables = KEY_VARIABLES  # the usual key is not that of another provider
        self._layout: Layout = layout or described.layout
        self._check_question(described)
        self.scale = None if question == "yes_no" else (0.0, 1.0)

    def _check_question(self, api: DecisionApi) -> None:
        """Check the settings of the question against the API, and keep the question."""
        kind = api.graded if self.question == "graded" else api.yes_no
        if kind is None:
            raise ConfigurationError(f"question: {self.question!r} is not supported by this API")
        if api.needs_state and api.state_of(self._layout) is None:
            raise ConfigurationError(f"layout: {self._layout!r} is not supported by this API")
        self._kind: YesNo | Grades = kind
        self._levels = self.levels or (_LEVELS if isinstance(kind, Grades) else ())
        if isinstance(kind, Grades) and len(self._levels) > kind.max_levels:
            raise ConfigurationError(f"levels: this API takes {kind.max_levels} at most")
        if isinstance(kind, YesNo) and self.levels is not None:
            if not {"yes", "no"} <= api_template.placeholders(kind.question):
                message = "levels: what a no and a yes mean is not supported by this API"
                raise ConfigurationError(f"{message}; say it in instructions")
            if len(self.levels) != 2:
                raise ConfigurationError("levels: give two: what a no means, and what a yes means")
        self._instructions = self.instructions or _INSTRUCTIONS[self.question]
        together = self._layout == "together"
        if together and _DOCUMENT not in self._instructions:
            message = f"must contain {_DOCUMENT}: ids of questions are not shown to the model"
            raise ConfigurationError([Problem(("instructions",), message)])
        size = self.batch_size or 1
        if not together and size > 1:
            raise ConfigurationError("batch_size: must be 1 in the layout 'each'")
        if size > api.max_questions:
            raise ConfigurationError(f"batch_size: must be {api.max_questions} at most")

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""
        return "grade" if self.question == "graded" else "probability"

    @property
    def isolated(self) -> bool:
        """Whether no request shows more than one candidate."""
        return self._layout == "each"

    @property
    def takes_instruction(self) -> bool:
        """Whether the state has a place for the instruction of a call."""
        return self._api.takes_instruction(self._layout)

    # ------------------------------------------------------------------ one request

    @property
    def _most_documents(self) -> int:
        if self._layout == "each":
            return 1
        return self.batch_size or min(_BATCH_SIZE, self._api.max_questions)

    def _estimate(self, query: str, instruction: str | None) -> Callable[[str], float]:
        question = sum(map(estimate_tokens, (self._instructions, *self._levels)))
        if self._layout == "each":  # of a batch, the query is one of many texts
            question += estimate_tokens(query) + estimate_tokens(instruction or "")
        return lambda document: estimate_tokens(document) + question

    def _ids(self, request: RerankRequest) -> list[str]:
        """The ids of the questions of a request, which are labels of its documents."""
        if self._layout == "each":
            return [_ALONE]
        return label_all("opaque", request.query, request.documents, ())

    def _body(self, request: RerankRequest, without: Sequence[str]) -> dict[str, Any]:
        ids = self._ids(request)
        values = {
            "model": self.model,
            "state": self._state(request, ids),
            "state_text": self._state_text(request, ids),
        }
        questions = [{"id": name, "question": self._filled_question(name)} for name in ids]
        template = {name: part for name, part in self._api.request.items() if name not in without}
        body = api_template.fill(template, values, questions, OF_REQUEST)
        options = api_template.fill(self.options or {}, values)
        return api_template.laid_over(template, body, options)

    def _filled_question(self, name: str) -> dict[str, Any]:
        """The part of a request that asks about the document of this id."""
        alone = self._layout == "each"
        document = "the document" if alone else f"the document with the id {name}"
        instructions = self._instructions.replace(_DOCUMENT, document)
        no = yes = None
        if isinstance(self._kind, YesNo) and self._levels:
            no, yes = self._levels
        values = {"id": name, "instructions": instructions, "no": no, "yes": yes}
        levels = [{"level": text, "index": str(number)} for number, text in enumerate(self._levels)]
        return api_template.fill(self._kind.question, values, levels, OF_LEVELS)

    def _state(self, request: RerankRequest, ids: Sequence[str]) -> dict[str, Any] | None:
        values = {"query": request.query, "instruction": request.instruction}
        if self._layout == "each":
            values["document"] = request.documents[0]
            return api_template.fill(self._api.each or {}, values, (), ())
        documents = [
            {"id": name, "document": text}
            for name, text in zip(ids, request.documents, strict=True)
        ]
        return api_template.fill(self._api.together or {}, values, documents, OF_STATE)

    def _state_text(self, request: RerankRequest, ids: Sequence[str]) -> str:
        labels: Sequence[str | None] = [None] if self._layout == "each" else ids
        documents = [
            fenced("document", text, label)
            for label, text in zip(labels, request.documents, strict=True)
        ]
        instruction = call_instruction(request.instruction)
        return "\n".join(filter(None, [fenced("query", request.query), *documents, instruction]))

    async def _response(self, text: str, sent: Sent, _without: Sequence[str]) -> Response:
        api, body = self._api, json_http.parse_json(text, mark_doubled=True)
        tokens = wire.tokens_used(body, api.usage_tokens)
        output = wire.tokens_used(body, api.usage_output_tokens)
        units = wire.units_used(body, api.usage_units)
        remark = ""
        if not isinstance(lookup(body, api.answers), dict if api.answer_id is None else list):
            # In a thread: comparing megabytes takes seconds.
            remark = await in_thread(lambda: wire.remark_without(api.answers, body, sent))
        return Response(text, False, tokens, output, units=units, body=body, remark=remark)

    def _scores(self, response: Response, request: RerankRequest) -> ResponseScores:
        ids = self._ids(request)
        try:
            return read_answers(response.body, self._api, self._kind, ids, len(self._levels))
        except ReplyError as error:
            if error.code != "bad_response":
                raise
            raise ReplyError(f"{error}{response.remark}", error.code) from None
