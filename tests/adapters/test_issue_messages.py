"""Issues as clients of a server may see them."""

import pytest

from fakes import ByTable
from secondpass import Issue, Reranker
from secondpass.adapters.issue_messages import without_messages
from secondpass.types import Ranking, Report


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
