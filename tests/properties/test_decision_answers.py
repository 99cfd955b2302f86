"""Answers of decision APIs: whatever comes in, nothing is lost, raised or made up."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass.apis.decision_descriptions import DECISION_APIS
from secondpass.apis.decisions import read_answers
from secondpass.errors import ReplyError
from secondpass.services.json_http import parse_json

IDS = ["b2c", "d3f", "g4h"]
LEVELS = 3

odd = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
numbers = st.sampled_from([0.0, 1, 0.5, 0.25, 0.333, 1.0001, True, -0.1, math.nan, "0.5"])
rows = st.lists(
    st.fixed_dictionaries(
        {"label": st.sampled_from(["0", "1", "2", "3", 0]), "probability": numbers}
    ),
    max_size=4,
)
by_level = st.dictionaries(st.sampled_from(["0", "1", "2", "3", "00"]), numbers)
distributions = rows | by_level | odd


@st.composite
def an_answer(draw: Any) -> Any:
    kinds = ["noul", "predicate", "score", "refusal", "boolean", None]
    answer = {
        "type": draw(st.sampled_from(kinds)),
        "name": draw(st.sampled_from([*IDS, "zork", None, 5])),
        "noul": draw(numbers),
        "probability": draw(numbers),
        "probabilities": draw(distributions),
        "confidence": draw(numbers),
    }
    for name in draw(st.sets(st.sampled_from([*answer]), max_size=2)):
        del answer[name]
    return draw(st.sampled_from([answer, answer, answer, draw(odd)]))


answers = (
    st.lists(an_answer(), max_size=5)
    | st.dictionaries(st.sampled_from([*IDS, "zork"]), an_answer())
    | odd
)
bodies = st.fixed_dictionaries({"answers": answers, "usage": odd}) | odd


def usable(answer: Any, question: str, api: str) -> float | None:
    """The score by the definition; None if there is none."""
    if not isinstance(answer, dict):
        return None

    def number(value: Any) -> float | None:
        good = type(value) in {int, float} and -1e-4 <= value <= 1 + 1e-4
        return min(max(float(value), 0.0), 1.0) if good else None

    if question == "yes_no":
        kind, name = ("predicate", "probability") if api == "openai" else ("noul", "noul")
        return number(answer.get(name)) if answer.get("type") == kind else None
    stated = answer.get("probabilities")
    if answer.get("type") != "score":
        return None
    if api == "openai" and isinstance(stated, list):
        if not all(isinstance(row, dict) and isinstance(row.get("label"), str) for row in stated):
            return None
        pairs = [(row["label"], row.get("probability")) for row in stated]
        stated = dict(pairs) if len(dict(pairs)) == len(pairs) else None
    if not isinstance(stated, dict) or sorted(stated) != ["0", "1", "2"]:
        return None
    shares = [number(stated[level]) for level in ("0", "1", "2")]
    if None in shares or abs(sum(shares) - 1) > 0.015 + 1e-9:
        return None
    return (shares[1] + 2 * shares[2]) / sum(shares) / 2


def check(body: Any, api: str, question: str) -> None:
    described = DECISION_APIS[api]
    asked = described.yes_no if question == "yes_no" else described.graded
    body = parse_json(json.dumps(body), mark_doubled=True)
    levels = 0 if question == "yes_no" else LEVELS
    try:
        scores = read_answers(body, described, asked, IDS, levels)
    except ReplyError as error:
        assert error.code in {"bad_response", "content_filter", "score_out_of_range"}
        return
    assert scores.is_about(len(IDS))
    stated = body["answers"]
    for place, value in enumerate(scores.values):
        if value is None:
            continue
        assert 0 <= value <= 1
        name = IDS[place]
        if isinstance(stated, dict):
            candidates = [stated[name]]
        elif len(stated) == len(IDS):
            candidates = [stated[place]]
        else:
            candidates = [row for row in stated if row.get("name") == name]
        assert len(candidates) == 1
        expected = usable(candidates[0], question, api)
        assert expected is not None
        assert math.isclose(value, expected, abs_tol=1e-8)
    named = {*scores.refused, *scores.declined}
    assert all(scores.values[place] is None for place in named)


@given(
    bodies,
    st.sampled_from(["openai", "systemone", "google"]),
    st.sampled_from(["graded", "yes_no"]),
)
@examples(100)
def test_every_score_is_a_stated_probability(body, api, question):
    check(body, api, question)


right = st.lists(st.floats(0.01, 1), min_size=3, max_size=3)


@given(
    st.lists(right, min_size=3, max_size=3),
    st.integers(2, 6),
    st.sampled_from(["openai", "systemone"]),
)
@examples(100)
def test_rounded_distributions_are_read(weights, decimals, api):
    """Rounded to two decimals or more, every distribution is used, near its expectation."""
    shares = [[weight / sum(row) for weight in row] for row in weights]
    rounded = [[round(share, decimals) for share in row] for row in shares]
    described = DECISION_APIS[api]

    def answer(name: str, row: list[float]) -> dict[str, Any]:
        if api == "openai":
            stated: Any = [
                {"label": str(n), "value": n + 1, "probability": p} for n, p in enumerate(row)
            ]
        else:
            stated = {str(n): p for n, p in enumerate(row)}
        return {"type": "score", "name": name, "probabilities": stated}

    given_answers = {name: answer(name, row) for name, row in zip(IDS, rounded, strict=True)}
    body = {"answers": [*given_answers.values()] if api == "openai" else given_answers}
    scores = read_answers(body, described, described.graded, IDS, LEVELS)
    for value, row in zip(scores.values, shares, strict=True):
        assert value is not None
        assert abs(value - (row[1] + 2 * row[2]) / 2) <= 0.02
