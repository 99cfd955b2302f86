"""The time for terms in comparisons: given, stored, and part of the journal's keys."""

import pytest

from secondpass import Candidate, InputError
from secondpass_evaluation import Journal, calibrate, compare, make_suite, tune

CONFIG = {
    "method": "lexical",
    "terms": [{"type": "recency", "field": "date", "half_life_days": 1, "weight": 2.0}],
}
LISTS = {
    str(number): [
        Candidate(f"cat {number} purrs", "old", 2, {"date": "2026-01-01"}),
        Candidate(f"a cat {number} sleeps", "new", 1, {"date": "2026-11-20"}),
        Candidate("dogs bark", "dog", 0, {"date": "2026-01-02"}),
    ]
    for number in range(30)
}
SUITE = make_suite(
    "cats",
    {query: f"cat purrs {query}" for query in LISTS},
    {query: {"old": 1} for query in LISTS},
    candidates=LISTS,
)


def first(comparison):
    (run,) = [result.run for result in comparison.results if result.first_stage]
    return {max(scores, key=scores.get) for scores in run.values()}


def test_a_comparison_ranks_at_its_time_and_stores_it(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        late = compare(CONFIG, SUITE, now="2026-11-21", journal=journal)
        early = compare(CONFIG, SUITE, now="2026-01-02", journal=journal)
        assert journal.reused == 0
        again = compare(CONFIG, SUITE, now="2026-11-21", journal=journal)
        assert journal.reused == len(LISTS)
    assert [first(one) for one in (late, early, again)] == [{"new"}, {"old"}, {"new"}]
    assert late.settings["now"] == "2026-11-21"
    assert "now" not in compare("lexical", SUITE).settings
    (result,) = [result for result in late.results if result.first_stage]
    assert result.depths == {}


def test_without_a_time_it_is_that_of_the_day():
    assert len(compare(CONFIG, SUITE).settings["now"]) == len("2026-11-21")
    with pytest.raises(InputError, match="now: give a date or time"):
        compare(CONFIG, SUITE, now="tomorrow")


def test_tune_tries_terms_as_they_are():
    tuning = tune(SUITE, {"mine": CONFIG}, now="2026-11-21")
    assert tuning.settings["now"] == "2026-11-21"
    assert [trial.variants for trial in tuning.trials] == [1]


def test_thresholds_are_fitted_without_terms():
    without = {**CONFIG, "terms": []}
    assert calibrate(CONFIG, SUITE).floor.at == calibrate(without, SUITE).floor.at
