"""How the answers of decision APIs are read. Does no I/O.

Only probabilities are used, and only if they are what the API's description says: numbers from 0 to
1, of all levels and of no others, that sum to 1. A stated score, choice or confidence is not read:
what these mean differs between servers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from secondpass.apis.decision_descriptions import DecisionApi, Grades, YesNo
from secondpass.apis.template import lookup
from secondpass.apis.wire import ResponseScores
from secondpass.errors import ReplyError
from secondpass.ranking.scoring import in_range, to_float
from secondpass.services.diagnosis import names, words
from secondpass.services.echoes import Sent
from secondpass.services.json_http import Ambiguous

_ROUNDING = 0.005
"""By how much a probability with two decimals may be off."""
_DECIMALS = 9
"""Digits of a grade, so that rounding errors of a sum do not order what is equal."""
_DECLINED = object()


class _UnusableError(Exception):
    """An answer without a probability that can be used. Its text says why, in our words."""


def read_answers(
    body: Any, api: DecisionApi, question: YesNo | Grades, ids: Sequence[str], levels: int
) -> ResponseScores:
    """The scores in a parsed response: probabilities of a yes, or grades from 0 to 1.

    A document without an answer has no score; one whose answer cannot be used, or has two answers,
    counts as refused. Answers to other questions are counted, and not used.

    Args:
        body: the response, in which doubled names are marked.
        api: whose it is.
        question: that was asked about each document.
        ids: of the questions, in their order.
        levels: of the scale; 0 for a yes or no.

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
        try:
            value = _value(answer, api, question, levels)
        except _UnusableError as error:
            refused[place] = str(error)
            continue
        if value is _DECLINED:
            declined.append(place)
        else:
            values[place] = value
    if all(value is None for value in values):
        raise _unusable(refused, declined, question)
    return ResponseScores(
        tuple(values), tuple(sorted(refused)), unknown, declined=tuple(sorted(declined))
    )


def _unusable(
    refused: Mapping[int, str], declined: Sequence[int], question: YesNo | Grades
) -> ReplyError:
    """The error for a response without a score."""
    if declined:
        message = "it declines to decide about any document"
        return ReplyError(message, "content_filter", repairable=False)
    if not refused:
        return ReplyError("it answers none of the questions", "bad_response")
    what = "probability" if isinstance(question, YesNo) else "distribution"
    return ReplyError(f"it has no usable {what}: {next(iter(refused.values()))}", "bad_response")


def lacks_answers(body: Any, api: DecisionApi) -> bool:
    """Whether a response has no answers in the place where they are expected."""
    expected = dict if api.answer_id is None else list
    return not isinstance(lookup(body, api.answers), expected)


def remark(body: Any, api: DecisionApi, sent: Sent) -> str:
    """What a response without answers has instead, for the end of a message.

    Args:
        body: the response.
        api: whose it is.
        sent: texts and keys that must not appear.
    """
    if said := words(body, sent):
        return f"; the server says: {said}"
    known = ", ".join(map(repr, names(body, sent))) if isinstance(body, dict) else ""
    return f": {api.answers!r} is wanted, and it has {known}" if known else ""


def _by_id(
    answers: Any, api: DecisionApi, ids: Sequence[str]
) -> tuple[dict[int, Any], int, set[int]]:
    """The answers by the places of their questions, the number of others, and doubled places.

    Raises:
        ReplyError: they have another form, or belong to the questions by their order alone and
            have another number.
    """
    places = {name: place for place, name in enumerate(ids)}
    if api.answer_id is None:
        if not isinstance(answers, dict):
            raise ReplyError("it has no object of answers", "bad_response")
        twice = answers.doubled if isinstance(answers, Ambiguous) else frozenset()
        known = {places[name]: answer for name, answer in answers.items() if name in places}
        doubled = {places[name] for name in twice if name in places}
        rest = {place: answer for place, answer in known.items() if place not in doubled}
        return rest, len(answers) - len(known), doubled
    if not isinstance(answers, list):
        raise ReplyError("it has no list of answers", "bad_response")
    stated = [lookup(answer, api.answer_id) for answer in answers]
    if len(answers) == len(ids):
        # By their order; one that names another question contradicts it.
        return {
            place: answer if stated[place] in {None, ids[place]} else None
            for place, answer in enumerate(answers)
        }, 0, set()  # fmt: skip
    if not all(isinstance(name, str) for name in stated):
        message = f"it has {len(answers)} answers to {len(ids)} questions"
        raise ReplyError(message, "bad_response")
    found: dict[int, Any] = {}
    doubled, unknown = set(), 0
    for name, answer in zip(stated, answers, strict=True):
        if name not in places:
            unknown += 1
        elif places[name] in found:
            doubled.add(places[name])
        else:
            found[places[name]] = answer
    return {place: found[place] for place in found if place not in doubled}, unknown, doubled


def _value(answer: Any, api: DecisionApi, question: YesNo | Grades, levels: int) -> Any:
    """The score in an answer; ``_DECLINED`` for none.

    Raises:
        _UnusableError: there is no score that can be used.
        ReplyError: the probability of a yes is on another scale.
    """
    kind = lookup(answer, api.answer_type)
    if api.declined is not None and kind == api.declined:
        return _DECLINED
    expected = lookup(question.question, api.answer_type)
    if expected is not None and kind != expected:
        raise _UnusableError(f"answers are not of the type {expected!r}")
    if isinstance(answer, Ambiguous):
        raise _UnusableError("an answer states something twice")
    if isinstance(question, YesNo):
        number = to_float(lookup(answer, question.probability))
        if number is None or not math.isfinite(number):
            raise _UnusableError(f"{question.probability!r} is no number")
        value = in_range(number, (0.0, 1.0))
        if value is None:
            message = f"it has a probability of {number:.6g}, so none of its numbers is used"
            raise ReplyError(message, "score_out_of_range", repairable=False)
        return value
    return _expectation(_distribution(answer, question, levels))


def _distribution(answer: Any, question: Grades, levels: int) -> list[float]:
    """The probabilities of the levels, lowest first."""
    stated = lookup(answer, question.probabilities)
    if question.level is not None and isinstance(stated, list):
        rows = [(lookup(row, question.level), lookup(row, question.probability)) for row in stated]
        clear = all(isinstance(label, str) for label, _ in rows) and not any(
            isinstance(row, Ambiguous) for row in stated
        )
        stated = dict(rows) if clear and len({label for label, _ in rows}) == len(rows) else None
    expected = [str(level) for level in range(levels)]
    if (
        not isinstance(stated, dict)
        or isinstance(stated, Ambiguous)
        or stated.keys() != set(expected)
    ):
        raise _UnusableError(f"not one probability of each level, named 0 to {levels - 1}")
    numbers = [to_float(stated[level]) for level in expected]
    probabilities = [
        in_range(number, (0.0, 1.0))
        for number in numbers
        if number is not None and math.isfinite(number)
    ]
    if len(probabilities) < levels or None in probabilities:
        raise _UnusableError("not every probability is a number from 0 to 1")
    known = [number for number in probabilities if number is not None]
    if abs(math.fsum(known) - 1) > _ROUNDING * levels:
        raise _UnusableError("the probabilities of the levels do not sum to 1")
    return known


def _expectation(probabilities: Sequence[float]) -> float:
    """The expected level, as a share of the highest: from 0 to 1."""
    weighted = math.fsum(level * number for level, number in enumerate(probabilities))
    highest = len(probabilities) - 1
    return min(1.0, round(weighted / math.fsum(probabilities) / highest, _DECIMALS))
