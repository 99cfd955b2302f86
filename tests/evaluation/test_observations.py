"""Rankings of a suite's queries behind one first stage."""

import pytest

from secondpass import Reranker
from secondpass.errors import InputError
from secondpass_evaluation import make_suite
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.observations import Observations

CORPUS = [
    {"id": "a", "text": "pears grow on trees"},
    {"id": "b", "text": "apples grow on trees, and apples are red"},
    {"id": "c", "text": "trains run on rails"},
]
SUITE = make_suite(
    "fruit", {"q": "red apples", "r": "rails"}, {"q": {"b": 1}, "r": {"c": 1}}, corpus=CORPUS
)
GIVEN = make_suite("given", {"q": "red apples"}, {"q": {"b": 1}}, candidates={"q": CORPUS})


def test_first_stage_and_rankings() -> None:
    observed = Observations(SUITE, behind="lexical", depth=2)
    assert observed.candidates["r"][0].id == "c"
    rankings = observed.rankings("words", Reranker("lexical"))
    assert rankings["q"][0].id == "b"
    assert len(rankings["q"]) == len(observed.candidates["q"]) <= 2


def test_own_candidates_are_preferred() -> None:
    observed = Observations(GIVEN)
    assert observed.stage == "given"
    assert [item.id for item in observed.candidates["q"]] == ["a", "b", "c"]


def test_journal_has_what_is_finished(tmp_path) -> None:  # type: ignore[no-untyped-def]
    reranker = Reranker("lexical")
    with Journal(tmp_path / "rankings.jsonl") as journal:
        observed = Observations(GIVEN, journal=journal)
        first = observed.rankings("words", reranker)
        assert observed.rankings("words", reranker)["q"].order == first["q"].order
        assert journal.reused == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "depth"),
        ({"behind": "best"}, "behind: must be one of"),
        ({"behind": "lexical"}, "lexical: the suite has no corpus to search"),
    ],
)
def test_wrong_arguments(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assert Observations(GIVEN, **options).candidates  # type: ignore[arg-type]
