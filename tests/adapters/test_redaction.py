"""Reports as clients of a server see them."""

import pytest

from fakes import ByTable
from secondpass import EngineInfo, Issue, Reranker
from secondpass.adapters.redaction import without_messages
from secondpass.ranking.result import Ranking
from secondpass.types import Report


@pytest.mark.parametrize(
    ("positions", "about"), [((), "all documents"), ((2,), "1 document"), ((0, 2), "2 documents")]
)
def test_codes_and_counts_remain(positions, about):
    issue = Issue("unreachable", "no answer from http://10.0.0.7/", positions, (), "endpoint")
    found = without_messages(Ranking("q", (), Report("unchanged", issues=(issue,))))
    (shown,) = found.report.issues
    assert (shown.code, shown.positions, shown.method) == ("unreachable", positions, "endpoint")
    assert shown.message == f"concerns {about}; the log of the server has the message"


def test_a_ranking_without_issues_is_as_it_was():
    ranking = Reranker(ByTable()).rerank("q", ["a"])
    assert without_messages(ranking) is ranking


def test_local_models_are_named_without_folders():
    issue = Issue("unreachable", "no answer", (), (), "/srv/ours")
    engine = EngineInfo("./ours", "torch", "float32", 1, "", "")
    report = Report("partial", method="graded by ~/ours", issues=(issue,), engines=(engine,))
    found = without_messages(Ranking("q", (), report)).report
    assert found.method == "graded by ours"
    assert (found.issues[0].method, found.engines[0].method) == ("ours", "ours")
