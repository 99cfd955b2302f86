"""Suites and results in notebooks and as plain values, and the progress bar."""

import io
import json
import sys

import pytest

from secondpass import Candidate, Reranker
from secondpass.errors import InputError
from secondpass_evaluation import HybridRetriever, compare, make_suite
from secondpass_evaluation import progress as progress_module
from secondpass_evaluation.progress import progress_bar
from topic_suites import CANDIDATES, SUITE, ByGrade, suite_of


@pytest.fixture(scope="module")
def comparison():
    return compare(
        {"x": Reranker(ByGrade())}, SUITE, first_stages=["lexical"], measures=["nDCG@10", "RR"]
    )


def test_suites_in_notebooks():
    page = SUITE._repr_html_()
    assert repr(SUITE) == "<Suite 'wombats': 6 queries, 24 passages>"
    assert "&lt;Suite &#x27;wombats&#x27;: 6 queries, 24 passages&gt;" in page
    assert page.count("<tr>") == 7
    assert "q-owls" in page
    assert repr(suite_of(candidates=CANDIDATES)).endswith("6 queries, 72 candidates>")


def test_hostile_suites_are_escaped():
    queries = {"<i>": "<script>", **{str(number): "a" for number in range(30)}}
    suite = make_suite(
        "<b>", queries, {query: {"d": 1} for query in queries}, corpus=[Candidate("", "d")]
    )
    page = suite._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "and 11 more" in page


def test_results_as_plain_values(comparison):
    result = comparison["lexical+x"]
    assert result.gains
    assert "wombats see" not in json.dumps(result.to_dict())
    assert "wombats see" in json.dumps(result.to_dict(text=True))
    system = comparison.to_dict()["systems"][1]
    assert system["seconds"].pop("end_to_end")  # a result alone does not know its search
    assert result.to_dict(text=True) == system


def test_a_comparison_shows_its_progress_on_request(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    compare([], SUITE, first_stages=["lexical"], progress=True)
    assert "lexical  6/6" in stream.getvalue()


def test_the_embedded_model_searches_by_default():
    told = []
    found = compare([], SUITE, progress=lambda *step: told.append(step))
    assert [result.name for result in found.ran] == ["vector", "lexical", "hybrid"]
    assert told[:2] == [("Encoding the corpus", 0, 24), ("Encoding the corpus", 24, 24)]
    retriever = HybridRetriever(SUITE.corpus)
    alone = compare([], SUITE, retriever=retriever, first_stages=["lexical"])
    assert alone["lexical"].run == found["lexical"].run


# ---------------------------------------------------------------------- the bar that shows how fa


class Terminal(io.StringIO):
    def isatty(self):
        return True


def bars(progress, stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(progress) as report:
        for done in range(1, 7):
            report("lexical", done, 6)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("progress", "stream", "shown"),
    [
        (None, io.StringIO, False),
        (None, Terminal, True),
        (False, Terminal, False),
        (True, Terminal, True),
        (True, io.StringIO, True),
    ],
)
def test_progress_is_shown_on_terminals_and_on_request(progress, stream, shown, monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert ("lexical  6/6" in bars(progress, stream(), monkeypatch)) is shown


def test_progress_elsewhere(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert "lexical  6/6" in bars(None, io.StringIO(), monkeypatch)
    monkeypatch.setattr(sys, "stderr", None)
    with progress_bar(True) as report:
        report("x", 1, 2)
    with pytest.raises(InputError, match="progress: give True, False or a function, not 'yes'"):
        progress_bar("yes").__enter__()


def test_the_bar_fills(monkeypatch):
    monkeypatch.setattr(progress_module, "_INTERVAL", 0.0)
    lines = bars(True, Terminal(), monkeypatch).split("\r")[1:7]
    assert [line.count("#") for line in lines] == [4, 8, 12, 16, 20, 24]
    assert {len(line.split()[0]) for line in lines} == {24}
    assert lines[2].endswith("  lexical  3/6")


def test_the_bar_changes_at_intervals_and_at_the_end(monkeypatch):
    monkeypatch.setattr(progress_module, "_INTERVAL", 60.0)
    written = bars(True, Terminal(), monkeypatch)
    assert [part for part in ("1/6", "2/6", "5/6", "6/6") if part in written] == ["1/6", "6/6"]
