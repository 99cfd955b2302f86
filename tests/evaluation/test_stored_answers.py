"""What an interrupted comparison asked is not asked again, and no system gets another's answers."""

import pytest

from fake_provider import FakeProvider
from fakes import numbered
from secondpass import Candidate
from secondpass_evaluation import Journal, compare, make_suite

TEXTS = numbered([1, 5, 3, 9])
QUERIES = {"q1": "one", "q2": "two", "q3": "three"}
CANDIDATES = [Candidate(text, f"d{index}", 1.0 / (index + 1)) for index, text in enumerate(TEXTS)]


@pytest.fixture
def provider():
    with FakeProvider() as running:
        yield running


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rankings.jsonl"


@pytest.fixture
def run(provider, path):
    """Compares two systems that ask the same two questions for each query."""
    llm = {"type": "openai", "model": "m", "base_url": provider.base_url("openai")}
    config = {"method": {"type": "graded", "batch_size": 2, "llm": llm}}
    suite = make_suite(
        "suite",
        QUERIES,
        {query: {"d3": 1} for query in QUERIES},
        candidates=dict.fromkeys(QUERIES, CANDIDATES),
    )

    def compared(delete=True):
        with Journal(path) as journal:
            found = compare({"a": config, "b": config}, suite, journal=journal)
            if delete:
                journal.delete()
        return found

    return compared


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C when a ranking is made and not yet recorded."""

    def arm(number):
        add, calls = Journal.add, []

        def stopping(self, key, ranking):
            calls.append(key)
            if len(calls) == number:
                raise KeyboardInterrupt
            add(self, key, ranking)

        monkeypatch.setattr(Journal, "add", stopping)

    return arm


def test_each_system_asks_for_itself(run, provider, path):
    comparison = run()
    assert provider.calls == 2 * 2 * len(QUERIES)
    assert [result.cost.cached for result in comparison.ran[1:]] == [0, 0]
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("number", [1, 2, 5])
def test_no_question_is_asked_twice(run, provider, interrupted, path, number):
    interrupted(number)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert provider.calls == 2 * number
    assert path.with_name("rankings.jsonl.answers.sqlite").exists()
    interrupted(0)
    comparison = run()
    assert provider.calls == 2 * 2 * len(QUERIES)
    assert sum(result.cost.cached for result in comparison.ran) == 2
    assert "2 answers came from a response cache" in comparison.to_markdown(details=True)
    assert not list(path.parent.iterdir())


def test_rankings_of_before_are_found_first(run, provider):
    run(delete=False)
    assert run().ran
    assert provider.calls == 2 * 2 * len(QUERIES)


def test_a_cleared_journal_has_no_answers(run, provider, interrupted, path):
    interrupted(2)
    with pytest.raises(KeyboardInterrupt):
        run()
    interrupted(0)
    with Journal(path) as journal:
        journal.clear()
    run()
    assert provider.calls == 2 * 2 + 2 * 2 * len(QUERIES)
