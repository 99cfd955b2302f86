"""Means corrected by a person: coverage, width, and what is refused."""

import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judged_folders import mark
from reports import make
from sampling import examples
from secondpass.errors import InputError
from secondpass_evaluation import Result, corrected_difference, corrected_mean, evaluate, kappa
from secondpass_evaluation.experiment import corrected_results
from secondpass_evaluation.significance import fewest_queries

VALUES = st.lists(
    st.tuples(st.floats(0, 1, allow_subnormal=False), st.floats(0, 1, allow_subnormal=False)),
    min_size=8,
    max_size=40,
)


def by_query(values):
    return {f"q{number}": value for number, value in enumerate(values)}


@examples(25)
@given(VALUES, st.integers(6, 40))
def test_corrected_intervals_are_never_wider_than_the_persons(pairs, people):
    model = by_query([first for first, _ in pairs])
    person = dict(list(by_query([second for _, second in pairs]).items())[:people])
    try:
        found = corrected_mean("m", model, person)
    except InputError as error:
        assert "its variance is not known" in str(error)
        return
    assert found.high - found.low <= found.people_high - found.people_low + 1e-12
    assert found.low <= found.mean <= found.high
    assert math.isclose(found.uncorrected, statistics.fmean(model.values()), abs_tol=1e-12)
    assert math.isclose(found.people_mean, statistics.fmean(person.values()), abs_tol=1e-12)
    assert found.weight or found.mean == found.people_mean


@examples(25)
@given(
    st.lists(st.floats(0, 1), min_size=10, max_size=40, unique=True),
    st.floats(0.1, 3),
    st.floats(-2, 2),
)
def test_a_linear_judge_is_corrected_exactly(values, slope, shift):
    if statistics.pvariance(values[:8]) < 1e-6:
        return
    model = by_query([slope * value + shift for value in values])
    person = by_query(values[:8])
    found = corrected_mean("m", model, person)
    if found.weight:
        assert math.isclose(found.mean, statistics.fmean(values), abs_tol=1e-6)
        assert math.isclose(found.weight, 1 / slope, rel_tol=1e-4)


def test_all_queries_judged_by_both_leave_the_persons_mean():
    rng = random.Random(0)
    person = by_query([rng.random() for _ in range(20)])
    model = {query: value * 0.5 + 0.1 * rng.random() for query, value in person.items()}
    found = corrected_mean("m", model, person)
    assert math.isclose(found.mean, found.people_mean)


def test_a_judge_that_says_nothing_leaves_the_persons_interval():
    rng = random.Random(0)
    person = by_query([rng.random() for _ in range(10)])
    model = dict.fromkeys(by_query(range(50)), 0.7)
    found = corrected_mean("m", model, person)
    assert found.weight == 0
    assert (found.low, found.high) == (found.people_low, found.people_high)


def test_intervals_cover_and_the_judge_alone_does_not():
    covered = judge_alone = 0
    for seed in range(200):
        rng = random.Random(seed)
        truth = [min(1.0, max(0.0, rng.gauss(0.5, 0.2))) for _ in range(100)]
        model = by_query([0.7 * value + 0.3 + rng.gauss(0, 0.05) for value in truth])
        found = corrected_mean("m", model, by_query(truth[:12]))
        covered += found.low <= 0.5 <= found.high
        judge_alone += abs(found.uncorrected - 0.5) < 0.05
    assert covered >= 0.93 * 200
    assert judge_alone < 0.05 * 200


def test_intervals_cover_where_few_queries_differ():
    """One relevant passage a query, which four of five rankings have first."""
    values, shares = (1.0, 0.63, 0.5, 0.0), (0.8, 0.05, 0.05, 0.1)
    truth = math.fsum(value * share for value, share in zip(values, shares, strict=True))
    covered = 0
    for seed in range(300):
        rng = random.Random(seed)
        person = rng.choices(values, shares, k=200)
        others = rng.choices(values, shares, k=200)
        judged = [p if rng.random() < 0.9 else o for p, o in zip(person, others, strict=True)]
        try:
            found = corrected_mean("m", by_query(judged), by_query(person[:20]))
        except InputError:  # all of the person's values are equal
            covered += 1
            continue
        covered += found.low <= truth <= found.high
    assert covered >= 0.93 * 300


def test_differences_are_paired():
    rng = random.Random(1)
    before = by_query([rng.random() for _ in range(30)])
    after = {query: value + 0.1 + rng.gauss(0, 0.01) for query, value in before.items()}
    person = [dict(list(values.items())[:10]) for values in (after, before)]
    found = corrected_difference("m", (after, before), (person[0], person[1]))
    assert 0.08 < found.low < found.mean < found.high < 0.12


@pytest.mark.parametrize(
    ("people", "message"),
    [
        (dict.fromkeys("abcde", 0.5), "5 queries are too few to correct by; 6 or more"),
        ({"a": 0.5}, "1 query is too few"),
        (dict.fromkeys("abcdef", 0.5), "m is 0.5000 on all 6 queries"),
        ({"x": 0.5}, "'x' is not among the model's queries"),
        ({"a": math.nan}, r"people\['a'\]: must be a finite number"),
        ({"a": 1e200}, r"people\['a'\]: must be a finite number up to 1e\+100"),
    ],
    ids=["five", "one", "equal", "unknown", "nan", "huge"],
)
def test_what_cannot_be_corrected(people, message):
    with pytest.raises(InputError, match=message):
        corrected_mean("m", dict.fromkeys("abcdefgh", 0.1), people)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ({"a": 1.0}, "model: the two rankers must have the same queries"),
        ({"a": 1.0, "b": "1"}, r"model\['b'\]: must be a finite number"),
        ([1.0], "model: must be a mapping, not a list"),
    ],
    ids=["missing", "text", "list"],
)
def test_both_rankers_of_a_difference_are_checked(before, message):
    with pytest.raises(InputError, match=message):
        corrected_difference("m", ({"a": 1.0, "b": 2.0}, before), ({}, {}))


@pytest.mark.parametrize("confidence", [0, 1, -1, 2])
def test_confidence_lies_between_0_and_1(confidence):
    with pytest.raises(InputError, match="confidence: must lie between 0 and 1"):
        corrected_mean("m", {"a": 1.0}, {"a": 1.0}, confidence=confidence)


@pytest.mark.parametrize(
    ("model", "people", "expected"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], 1.0),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0.0),
        ([0, 1], [1, 0], -1.0),
        ([2, 2], [2, 2], None),
        ([], [], None),
        # Cohen 1960, in counts: 20 and 15 agreed, 5 and 10 not.
        ([1] * 25 + [0] * 25, [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15, 0.4),
    ],
    ids=["equal", "chance", "opposite", "one grade", "none", "textbook"],
)
def test_kappa(model, people, expected):
    found = kappa(dict(enumerate(model)), dict(enumerate(people)))
    assert found == (None if expected is None else pytest.approx(expected))


# ---------------------------------------------------------------------- figures of a comparison


COUNT, MEASURES = 12, ("nDCG@3", "P@1")
QRELS = {f"q{n}": {"a": n % 3, "b": (n + 1) % 3} for n in range(COUNT)}
PEOPLE = {query: {"a": grades["b"], "b": 1} for query, grades in [*QRELS.items()][:8]}
RUNS = {
    "lexical": {query: {"a": 2.0, "b": 1.0} for query in QRELS},
    "lexical+x": {q: {"a": 1.0, "b": 2.0 - n % 2 * 1.5} for n, q in enumerate(QRELS)},
}


def comparison(people):
    results = [
        Result(
            name,
            "ran",
            first_stage=name.partition("+x")[0] if "+" in name else None,
            run=run,
            evaluation=evaluate(run, QRELS, MEASURES),
        )
        for name, run in RUNS.items()
    ]
    made = make(COUNT, results=tuple(results), measures=MEASURES, qrels=QRELS)
    return replace(made, judged_by=people and mark(people=people))


def per_query(qrels, measure):
    return {name: evaluate(run, qrels, [measure]).per_query[measure] for name, run in RUNS.items()}


@pytest.mark.parametrize("measure", MEASURES)
def test_figures_are_those_of_the_queries_that_both_judged(measure):
    found = {
        item.name: item
        for item in corrected_results(comparison(PEOPLE))
        if item.mean.measure == measure
    }
    model, person = per_query(QRELS, measure), per_query(PEOPLE, measure)
    for name in RUNS:
        assert found[name].mean == corrected_mean(measure, model[name], person[name])
    assert found["lexical+x"].base == "lexical"
    assert found["lexical+x"].difference == corrected_difference(
        measure,
        (model["lexical+x"], model["lexical"]),
        (person["lexical+x"], person["lexical"]),
    )
    assert found["lexical"].difference is None


@pytest.mark.parametrize(
    "people",
    [None, dict([*PEOPLE.items()][: fewest_queries() - 1]), {f"z{n}": {"a": 1} for n in range(9)}],
    ids=["people", "few", "other queries"],
)
def test_nothing_is_corrected_without_enough_queries(people):
    assert corrected_results(comparison(people)) == ()


def test_measures_that_are_equal_for_all_are_left_out():
    people = {query: {"a": 1, "b": 1} for query in PEOPLE}
    assert corrected_results(comparison(people)) == ()
