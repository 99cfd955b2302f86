"""Terms: each kind, the order of operations, and equality with a plain transcription."""

import math
import random
import statistics
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass import Candidate, ConfigurationError, InputError, Reranker
from secondpass.config import json_schema
from secondpass.ranking.terms import Number, Recency, Value, to_seconds

NOW = "2026-11-27T12:00:00Z"
SECONDS = datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp()
DAYS = 86_400
MIDNIGHT = SECONDS - DAYS / 2
CLICKS = {"type": "number", "field": "clicks", "high": 10, "weight": 0.2}


class Stated:
    """A scorer whose score of a passage is the passage."""

    model_name = "stated"

    def __init__(self, score_kind="probability", scale=None):
        self.score_kind = score_kind
        if scale is not None:
            self.scale = scale

    def score_pairs(self, _query, documents):
        return [float(document) for document in documents]


def rank(rows, terms, kind="probability", scale=None, **settings):
    """Rank rows of a score and metadata, with the row as id."""
    candidates = [
        Candidate("" if score is None else str(score), str(number), 1 / (number + 1), metadata)
        for number, (score, metadata) in enumerate(rows)
    ]
    reranker = Reranker(Stated(kind, scale), terms=terms, log_level="debug", **settings)
    return reranker.rerank("q", candidates, now=NOW)


def codes(ranking):
    return [issue.code for issue in ranking.report.issues]


# ---------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2026-11-27T12:00:00Z", SECONDS),
        ("2026-11-27T12:00:00", SECONDS),
        (" 2026-11-27 13:00:00+01:00 ", SECONDS),
        ("20261127", SECONDS - 43_200),
        (date(2026, 11, 27), SECONDS - 43_200),
        (datetime(2026, 11, 27, 12), SECONDS),
        (datetime(2026, 11, 27, 14, tzinfo=timezone(timedelta(hours=2))), SECONDS),
        (SECONDS, SECONDS),
        (int(SECONDS) * 1000, SECONDS),
        (-86_400, -86_400),
        (datetime.min, datetime.min.replace(tzinfo=UTC).timestamp()),
        *[(value, None) for value in ("", "yesterday", "2026-13-01", True, None, [], math.nan)],
        (10**999, None),
        *[(year, MIDNIGHT) for year in (20261127, 20261127.0, "2026-11-27")],
        *[(month, MIDNIGHT - 26 * DAYS) for month in (202611, "202611", "2026-11")],
        *[(year, MIDNIGHT - 330 * DAYS) for year in (2026, 2026.0, "2026")],
        *[(SECONDS * unit, SECONDS) for unit in (1e3, 1e6, 1e9)],
        (str(int(SECONDS)), SECONDS),
        (str(int(SECONDS) * 1000), SECONDS),
        *[(number, None) for number in (1, 12, 0.5, 365, 1899, 2101, 20_785, 45_988, 20261301)],
        *[(text, None) for text in ("12", "2026-13", "nan", "inf", "3 days")],
    ],
)
def test_times(value, seconds):
    assert to_seconds(value) == seconds


@pytest.mark.parametrize(
    ("term", "value", "expected"),
    [
        (Recency(field="f", weight=1, half_life_days=30), SECONDS, 1),
        (Recency(field="f", weight=1, half_life_days=30), SECONDS - 30 * DAYS, 0.5),
        (Recency(field="f", weight=1, half_life_days=30), SECONDS - 60 * DAYS, 0.25),
        (Recency(field="f", weight=1, half_life_days=30), SECONDS + DAYS, 1),
        (Recency(field="f", weight=1, half_life_days=30), SECONDS + DAYS + 1, None),
        (Recency(field="f", weight=1, half_life_days=1e-300), "0001-01-01", 0),
        (Number(field="f", weight=1, high=5), 2, 0.4),
        (Number(field="f", weight=1, low=-5, high=5), 0, 0.5),
        (Number(field="f", weight=1, high=5), 9, 1),
        (Number(field="f", weight=1, high=5), -9, 0),
        (Number(field="f", weight=1, high=5), math.inf, 1),
        (Number(field="f", weight=1, high=5), math.nan, None),
        (Number(field="f", weight=1, high=5), "3", None),
        (Number(field="f", weight=1, low=100, high=0), 25, 0.75),
        (Number(field="f", weight=1, low=-1.5e308, high=1.5e308), 0, 0.5),
        (Number(field="f", weight=1, high=1000, scale="log"), 31, math.log(32) / math.log(1001)),
        (Number(field="f", weight=1, high=1000, scale="log"), 9999, 1),
        (Number(field="f", weight=1, high=1000, scale="log"), -3, 0),
        (Value(field="f", weight=1, values={"a": 0.3}), "a", 0.3),
        (Value(field="f", weight=1, values={"a": 0.3}), "b", None),
        (Value(field="f", weight=1, values={"a": 0.3}, default=0.1), "b", 0.1),
        (Value(field="f", weight=1, values={"a": 0.3}, default=0.1), ["a"], 0.1),
        (Value(field="f", weight=1, values={"true": 1, "7": 0.7}), True, 1),
        (Value(field="f", weight=1, values={"true": 1, "7": 0.7}), 7, 0.7),
    ],
)
def test_a_term_of_a_value(term, value, expected):
    assert term.of(value, SECONDS) == (None if expected is None else pytest.approx(expected))


def test_values_of_numpy_are_read_as_those_of_python():
    numpy = pytest.importorskip("numpy")
    assert to_seconds(numpy.datetime64("2026-11-27T12:00")) == SECONDS
    assert to_seconds(numpy.datetime64("2026-11-27T12:00", "ns")) == SECONDS
    assert to_seconds(numpy.int64(2026)) == to_seconds(2026)
    assert to_seconds(numpy.datetime64("NaT")) is None
    term = Value(field="f", weight=1, values={"true": 1, "7": 0.7}, default=0.1)
    values = [numpy.int64(7), numpy.float32(7), 7.0, numpy.True_, numpy.zeros(2), 7.5]
    assert [term.of(value, SECONDS) for value in values] == [0.7, 0.7, 0.7, 1, 0.1, 0.1]


def test_a_year_counts_and_a_number_of_another_unit_is_reported():
    term = {"type": "recency", "field": "at", "half_life_days": 365, "weight": 1}
    years = rank([(0.6, {"at": 2020}), (0.5, {"at": 2026}), (0.5, {"at": "2025"})], [term])
    assert (years.order, codes(years)) == ((1, 2, 0), [])
    ages = rank([(0.5, {"at": 400}), (0.6, {"at": 3})], [term])
    assert codes(ages) == ["term_missing"]


# ---------------------------------------------------------------------- operations

OLD, NEW = {"clicks": 0}, {"clicks": 10}


@pytest.mark.parametrize(
    ("kind", "scale", "scores", "units"),
    [
        ("probability", None, [0.9, 0.5], [0.9, 0.5]),
        ("grade", (1, 5), [5, 2], [1, 0.25]),
        ("logit", None, [0, -2], [0.5, 1 / (1 + math.e**2)]),
        ("similarity", None, [0.9, 0.5, 0.4], [1, 0.2, 0]),
        ("unbounded", None, [30, 20, 10], [1, 0.5, 0]),
        ("rank", None, [1, 0.5], [1, 0]),
    ],
)
def test_the_scale_follows_the_kind_of_the_scores(kind, scale, scores, units):
    ranking = rank([(score, OLD) for score in scores], [CLICKS], kind, scale)
    assert [item.final_score for item in ranking] == pytest.approx([unit / 1.2 for unit in units])
    assert [item.rerank_score for item in ranking] == scores
    assert codes(ranking) == []


@pytest.mark.parametrize(
    ("blend", "kind", "units"),
    [
        ({"original": 0.5}, "probability", [(0.2 + 1) / 2, (0.9 + 0.5) / 2]),
        ({"original": 0.5, "normalize": "sigmoid"}, "logit", [0.774917, 0.605475]),
        ({"original": 0.2, "normalize": "minmax"}, "unbounded", [0, 1]),
        ({"original": 0.2, "normalize": "rrf"}, "unbounded", [0, 1]),
    ],
)
def test_a_blend_by_value_is_taken_as_it_is(blend, kind, units):
    rows = [(0.2, OLD), (0.9, OLD)]
    ranking = rank(rows, [CLICKS], kind, blend=blend)
    scores = [item.final_score * 1.2 for item in sorted(ranking, key=lambda item: item.position)]
    assert scores == pytest.approx(units, abs=1e-6)


def test_sums_of_equal_numbers_are_equal_and_weights_may_be_huge():
    columns = [{"type": "number", "field": name, "high": 1, "weight": 0.1} for name in "abc"]
    values = (0.1, 0.2, 0.7)
    rows = [(0.3, dict(zip("abc", order, strict=True))) for order in permutations(values)]
    rows.append((0.9, {"a": 1, "b": 1, "c": 1}))
    assert len({item.final_score for item in rank(rows, columns)}) == 2
    huge = [{**column, "weight": 1e308} for column in columns]
    assert [item.final_score for item in rank(rows[-2:], huge)] == pytest.approx([1, 1 / 3])


def test_a_fallback_has_its_own_scale():
    class Failing(Stated):
        def score_pairs(self, *_):
            raise OSError

    reranker = Reranker(
        Failing("probability"),
        terms=[CLICKS],
        fallback=[Stated("logit")],
        log_level="debug",
    )
    ranking = reranker.rerank("q", [{"text": "0", "clicks": 10}, {"text": "9", "clicks": 0}])
    assert ranking.report.status == "degraded"
    assert [item.final_score for item in ranking] == pytest.approx(
        [1 / (1 + math.exp(-9)) / 1.2, (0.5 + 0.2) / 1.2]
    )


def test_terms_move_and_are_in_the_metadata():
    rows = [(0.5, OLD | {"rerank_terms": {"old": 1}}), (0.4, NEW)]
    ranking = rank(rows, [CLICKS])
    assert ranking.order == (1, 0)
    assert [item.metadata["rerank_terms"] for item in ranking] == [{"clicks": 1}, {"clicks": 0}]
    assert ranking[0].terms == {"clicks": 1}
    assert ranking.to_dict()["ranking"][0]["terms"] == {"clicks": 1}
    plain = rank(rows, [])
    assert plain.order == (0, 1)
    assert plain[0].metadata["rerank_terms"] is None
    assert "rerank_terms" not in plain[1].metadata
    assert "terms" not in plain.to_dict()["ranking"][0]


@pytest.mark.parametrize("on", ["final", "rerank"])
def test_thresholds_and_probabilities_are_of_the_score_before_terms(on):
    settings = {
        "floor": {"at": 0.45, "on": on, "nothing": 0.6},
        "probabilities": {"slope": 1, "intercept": 0},
    }
    if on == "final":
        settings["blend"] = {"original": 0, "normalize": "none"}
    ranking = rank([(0.5, OLD), (0.4, NEW), (0.46, NEW)], [CLICKS], **settings)
    assert ranking.order == (2, 0)
    assert ranking.report.left_out == {"floor": (1,)}
    assert ranking.report.nothing_relevant is True
    assert ranking[0].probability == pytest.approx(1 / (1 + math.exp(-0.46)))
    assert "floor      " in str(ranking.explain(position=1))
    assert f"{on} score 0.4 is below 0.45" in str(ranking.explain(position=1))


def test_a_floor_changes_no_score_of_what_it_keeps():
    rows = [(9, OLD), (5, {}), (2, NEW), (1, NEW)]
    terms = [CLICKS]
    kept = rank(rows, terms, "unbounded", floor=3)
    every = rank(rows, terms, "unbounded")
    finals = {item.position: item.final_score for item in every}
    assert {item.position: item.final_score for item in kept} == {0: finals[0], 1: finals[1]}


def test_unjudged_candidates_keep_their_places_and_orderings_follow():
    rows = [(0.5, OLD), (None, NEW), (0.45, NEW), (0.4, OLD)]
    ranking = rank(rows, [CLICKS])
    assert ranking.order == (2, 0, 3, 1)  # without a text it comes last
    assert ranking[3].final_score is None
    order = {"type": "tiers", "field": "clicks", "tiers": [0, 10]}
    assert rank(rows, [CLICKS], order=order).order == (0, 3, 2, 1)
    assert rank(rows, [CLICKS], top_k=1).order == (2,)
    assert rank(rows, [CLICKS], depth=1).order == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("rows", "kind", "settings"),
    [
        ([(0.5, OLD), (0.5, NEW)], "probability", {}),
        ([(50, OLD), (60, NEW)], "logit", {}),
        ([(None, OLD), (None, NEW)], "probability", {}),
        ([(0.5, OLD), (0.4, NEW)], "probability", {"when": {"words": {"at_least": 9}}}),
        ([(math.nan, OLD), (math.nan, NEW)], "probability", {}),
    ],
    ids=["equal", "equal as probabilities", "no text", "skipped", "no valid score"],
)
def test_without_scores_that_differ_there_are_no_terms(rows, kind, settings):
    ranking = rank(rows, [CLICKS], kind, **settings)
    assert ranking.order == ((1, 0) if kind == "logit" else (0, 1))
    assert codes(ranking).count("terms_not_applied") == 1
    assert ranking[0].metadata.get("rerank_terms") is None


@pytest.mark.parametrize("rows", [[], [(0.5, NEW)]])
def test_nothing_to_order_is_no_issue(rows):
    assert codes(rank(rows, [CLICKS])) == []


@pytest.mark.parametrize(
    ("settings", "values", "term", "message"),
    [
        ({}, [0, 10, 4, None], 0.4, "1 of 4 candidates in 'clicks'"),
        ({}, [0, 10, None, "many"], 0.5, "2 of 4 candidates in 'clicks'"),
        ({"missing": 0.1}, [0, 10, 4, None], 0.1, None),
        ({"missing": 0.1}, [0, 10, 4, "many"], 0.1, "1 of 4 candidates in 'clicks'"),
        ({"missing": 0.1}, [None] * 4, None, "4 of 4 candidates in 'clicks'"),
        ({}, ["many"] * 4, None, "4 of 4 candidates in 'clicks'"),
    ],
)
def test_missing_values(settings, values, term, message):
    rows = [(score, {"clicks": value}) for score, value in zip([9, 8, 7, 6], values, strict=True)]
    ranking = rank(rows, [CLICKS | settings], "unbounded")
    last = next(item for item in ranking if item.position == 3)
    assert last.terms == ({} if term is None else {"clicks": pytest.approx(term)})
    assert last.final_score == pytest.approx(0 if term is None else 0.2 * term / 1.2)
    issues = [issue for issue in ranking.report.issues if issue.code == "term_missing"]
    assert len(issues) == (message is not None)
    if message is not None:
        assert message in issues[0].message
        assert 3 in issues[0].positions


def test_a_misspelt_field_is_named_with_the_nearest_key():
    rows = [(0.5, {"published": "2026-11-27"}), (0.4, {"published": "2025-01-01"})]
    term = {"type": "recency", "field": "publishd", "half_life_days": 1, "weight": 1}
    (issue,) = rank(rows, [term]).report.issues
    assert issue.message.endswith("in 'publishd'; did you mean 'published'?")


def test_several_terms_have_one_issue_about_missing_values():
    terms = [CLICKS, {"type": "recency", "field": "a|b", "half_life_days": 1, "weight": 1}]
    ranking = rank([(0.5, {"b": "2026-11-27"}), (0.4, NEW), (0.3, OLD | {"b": "x"})], terms)
    (issue,) = ranking.report.issues
    assert issue.message.endswith("1 of 3 candidates in 'clicks', 2 of 3 candidates in 'a|b'")
    assert issue.positions == (0, 1, 2)


def test_the_clock_is_read_once_a_call(monkeypatch):
    ticks = iter([SECONDS, SECONDS + 30 * DAYS])
    monkeypatch.setattr("secondpass.ranking.options.time", lambda: next(ticks))
    term = {"type": "recency", "field": "at", "half_life_days": 30, "weight": 1}
    reranker = Reranker(Stated(), terms=[term])
    rows = [{"text": "0.5", "at": "2026-11-27T12:00Z"}, {"text": "0.4", "at": "2026-11-27T12:00Z"}]
    for expected in (1, 0.5):
        rankings = reranker.rerank_many([("q", rows)] * 2)
        assert [ranking[0].terms for ranking in rankings] == [{"at": expected}] * 2


# ---------------------------------------------------------------------- explanations


def test_an_explanation_sums_to_the_final_score():
    terms = [CLICKS, {"type": "value", "field": "source", "values": {"wiki": 0.3}, "weight": 0.1}]
    rows = [(2.0, OLD | {"source": "wiki"}), (1.0, NEW | {"source": "wiki"}), (0.5, OLD)]
    ranking = rank(rows, terms, "unbounded", blend={"original": 0.5, "normalize": "minmax"})
    for item in ranking:
        found = ranking.explain(position=item.position)
        parts = found.terms
        assert parts.scale == "minmax"
        total = parts.score + sum(parts.weights[name] * parts.values[name] for name in parts.values)
        assert total / (1 + sum(parts.weights.values())) == pytest.approx(found.final_score)
    text = str(ranking.explain("1"))
    assert "terms      (0.291667 (by minmax, in this list) + 0.2 * 1 (clicks) + 0.1 * 0.3" in text
    assert rank(rows, [], "unbounded").explain("1").terms is None


# ---------------------------------------------------------------------- settings


def test_settings_are_written_as_they_were_read():
    config = {
        "method": "lexical",
        "terms": [
            {
                "type": "recency",
                "field": "updated|created",
                "half_life_days": 30.0,
                "weight": 0.1,
                "missing": 0.0,
            },
            {"type": "number", "field": "clicks", "scale": "log", "high": 1000.0, "weight": 0.1},
            {"type": "value", "field": "source", "values": {"wiki": 0.3}, "weight": 0.05},
        ],
    }
    reranker = Reranker.from_config(config)
    written = reranker.to_config()
    assert written["terms"] == config["terms"]
    assert Reranker.from_config(written).terms == reranker.terms
    assert reranker.changed(terms=()).to_config() == {"method": {"type": "lexical"}}
    definitions = json_schema()["$defs"]
    assert {"recency", "number", "value"} <= definitions.keys()
    assert definitions["recency"]["required"] == ["type", "field", "weight", "half_life_days"]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (CLICKS, "terms: give a list of mappings with a 'type', not a dict"),
        (["recency"], r"terms\[0\]: give a mapping with a 'type'"),
        ([{"field": "a"}], r"terms\[0\].type: is required; known are: recency, number, value"),
        ([CLICKS | {"type": "age"}], r"terms\[0\].type: no term is named 'age'"),
        ([CLICKS | {"weight": 0}], r"terms\[0\].weight: must be greater than 0"),
        ([CLICKS | {"missing": 2}], r"terms\[0\].missing: must be less than or equal to 1"),
        ([CLICKS | {"low": 10}], r"terms\[0\].high: must differ from low"),
        ([CLICKS | {"scale": "log", "low": -1}], r"terms\[0\].scale: 'log' needs low and high"),
        ([CLICKS, CLICKS], r"terms\[1\].field: 'clicks' has a term already"),
        (
            [{"type": "value", "field": "a", "weight": 1, "values": {"x": 2}}],
            r"terms\[0\].values.x: must be less than or equal to 1",
        ),
        (
            [{"type": "recency", "field": "a", "weight": 1, "half_life": 2}],
            r"half_life: unknown key; did you mean 'half_life_days'",
        ),
    ],
)
def test_wrong_settings(terms, message):
    with pytest.raises(ConfigurationError, match=message):
        Reranker.from_config({"method": "lexical", "terms": terms})


def test_a_wrong_time_of_a_call():
    with pytest.raises(InputError, match="now: give a date or time in ISO 8601"):
        Reranker("lexical").rerank("q", ["a"], now="tomorrow")


# ---------------------------------------------------------------------- properties

metadata = st.fixed_dictionaries(
    {},
    optional={
        "clicks": st.floats(allow_infinity=False) | st.integers(-5, 2000) | st.just("x"),
        "at": st.floats(SECONDS - 1e8, SECONDS + 1e6) | st.sampled_from(["2026-01-01", "soon"]),
        "source": st.sampled_from(["wiki", "book", "else"]),
    },
)
weights = st.floats(0.001, 2)


@given(
    rows=st.lists(st.tuples(st.floats(0, 1), metadata), min_size=2, max_size=8),
    three=st.tuples(weights, weights, weights),
)
@examples(300)
def test_what_rises_was_less_than_the_weights_below(rows, three):
    ranking = rank(rows, _three(three))
    _check_rises(rows, ranking, math.fsum(three))
    finals = [item.final_score for item in ranking]
    assert finals == sorted(finals, reverse=True)
    assert all(0 <= final <= 1 for final in finals)


@pytest.mark.long
def test_what_rises_in_10000_lists_was_less_than_the_weights_below():
    rng = random.Random(7)
    for _ in range(10_000):
        rows = [
            (
                rng.choice([rng.random(), round(rng.random(), 1)]),
                {
                    "clicks": rng.choice([rng.randint(0, 2000), "x", None]),
                    "at": SECONDS - rng.expovariate(1e-7),
                    "source": rng.choice(["wiki", "book", "else"]),
                },
            )
            for _ in range(rng.randint(2, 12))
        ]
        three = [rng.choice([0.05, rng.random() + 0.001]) for _ in range(3)]
        ranking = rank(rows, _three(three))
        _check_rises(rows, ranking, math.fsum(three))


def _check_rises(rows, ranking, total):
    place = {position: place for place, position in enumerate(ranking.order)}
    for a, (high, _) in enumerate(rows):
        for b, (low, _) in enumerate(rows):
            if low < high and place[b] < place[a]:
                assert high - low < total + 1e-12


def _three(three):
    return [
        {"type": "number", "field": "clicks", "scale": "log", "high": 1000, "weight": three[0]},
        {"type": "recency", "field": "at", "half_life_days": 30, "weight": three[1]},
        {
            "type": "value",
            "field": "source",
            "values": {"wiki": 0.3, "book": 1},
            "weight": three[2],
        },
    ]


def _transcribed(rows, three, kind):
    """The final scores by the formulas of the documentation; None if terms are not applied."""
    scores = [score for score, _ in rows]
    if kind == "logit":
        scores = [1 / (1 + math.exp(-score)) for score in scores]
    elif kind == "unbounded":
        low, high = min(scores), max(scores)
        scores = [(score - low) / (high - low) if high > low else 0.5 for score in scores]
    if len(set(scores)) < 2:
        return None

    def number(meta):
        x = meta.get("clicks")
        if isinstance(x, bool) or not isinstance(x, int | float) or x != x:
            return None
        return min(1, math.log(1 + max(x, 0)) / math.log(1001))

    def age(meta):
        at = meta.get("at")
        if isinstance(at, str):
            try:
                at = datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()
            except ValueError:
                return None
        if at is None or at - SECONDS > DAYS:
            return None
        return 0.5 ** (max(0, SECONDS - at) / DAYS / 30)

    def value(meta):
        return {"wiki": 0.3, "book": 1}.get(meta.get("source"))

    total, whole = list(scores), 1.0
    for weight, term in zip(three, (number, age, value), strict=True):
        values = [term(meta) for _, meta in rows]
        known = [each for each in values if each is not None]
        if known:
            middle = statistics.median(known)
            whole += weight
            total = [
                sum_ + weight * (middle if each is None else each)
                for sum_, each in zip(total, values, strict=True)
            ]
    return [sum_ / whole for sum_ in total]


def test_5000_lists_are_as_in_a_plain_transcription():
    rng = random.Random(11)
    extremes = [math.nan, 1e300, -1e300, -3, 0, "", "x", None, True]
    times = [
        *("2026-11-27", "1970-01-01", "9999-12-31", "0001-01-01", "2026-11-28T11:00", "soon", ""),
        *(0, 1e10, SECONDS + 80_000, SECONDS + 90_000, None),
    ]
    for number in range(5_000):
        kind = ("probability", "logit", "unbounded")[number % 3]
        rows = []
        for _ in range(rng.randint(1, 12)):
            score = rng.choice([rng.random(), round(rng.random(), 1)])
            score = score * 20 - 10 if kind != "probability" else score
            meta = {
                "clicks": rng.choice([rng.randint(0, 2000), rng.choice(extremes)]),
                "at": rng.choice([SECONDS - rng.expovariate(1e-7), rng.choice(times)]),
                "source": rng.choice(["wiki", "book", "else", None]),
            }
            rows.append((score, {key: meta[key] for key in meta if rng.random() < 0.8}))
        three = [rng.choice([0.1, rng.random() + 0.001]) for _ in range(3)]
        ranking = rank(rows, _three(three), kind)
        expected = _transcribed(rows, three, kind)
        if expected is None:
            assert "terms_not_applied" in codes(ranking) or len(rows) == 1
            continue
        by_position = {item.position: item.final_score for item in ranking}
        assert [by_position[at] for at in range(len(rows))] == pytest.approx(expected, abs=1e-9)
