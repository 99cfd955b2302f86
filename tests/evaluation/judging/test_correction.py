"""Figures of a comparison, corrected by a person's judgements."""

from dataclasses import replace

import pytest

from judged_folders import mark
from reports import make
from secondpass_evaluation import Result, corrected_difference, corrected_mean, evaluate
from secondpass_evaluation.experiment import corrected_results
from secondpass_evaluation.judging.inference import fewest_people

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
    [None, dict([*PEOPLE.items()][: fewest_people() - 1]), {f"z{n}": {"a": 1} for n in range(9)}],
    ids=["people", "few", "other queries"],
)
def test_nothing_is_corrected_without_enough_queries(people):
    assert corrected_results(comparison(people)) == ()


def test_measures_that_are_equal_for_all_are_left_out():
    people = {query: {"a": 1, "b": 1} for query in PEOPLE}
    assert corrected_results(comparison(people)) == ()
