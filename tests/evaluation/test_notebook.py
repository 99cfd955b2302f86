"""Suites and results in notebooks and as plain values."""

from secondpass import Candidate
from secondpass_evaluation import HybridRetriever, compare, make_suite
from topic_suites import CANDIDATES, SUITE, suite_of


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


def test_the_embedded_model_searches_by_default():
    told = []
    found = compare([], SUITE, progress=lambda *step: told.append(step))
    assert [result.name for result in found.ran] == ["vector", "lexical", "hybrid"]
    assert told[:2] == [("Encoding the corpus", 0, 24), ("Encoding the corpus", 24, 24)]
    words_first = compare([], SUITE, first_stages=["lexical", "vector"])
    assert words_first["vector"].run == found["vector"].run
    retriever = HybridRetriever(SUITE.corpus)
    alone = compare([], SUITE, retriever=retriever, first_stages=["lexical"])
    assert alone["lexical"].run == found["lexical"].run
