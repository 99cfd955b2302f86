"""The preset `listwise_guided`: a permutation of indices, with the guidelines of a domain.

Every row of its table goes through the real SDK to a provider on the loopback interface.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass

import pytest

import fake_provider as fake
from reference_systems import logged, pages, says

PRESET = "listwise_guided"
QUERY = "how do I publish to PyPI?"


# ---------------------------------------------------------------------- the request


@pytest.mark.parametrize(
    "words",
    [
        [  # canonical references
            "file name begins with tool-",
            "canonical references of workflows",
            "queries that state a workflow goal",
            "rank above pages whose file name begins with skill-, task- or use-",
        ],
        [  # releases
            "releasing or publishing (version bump, changelog, ship, publish to PyPI)",
            "prefer tool-release-prep.md over task guides such as task-package-publishing.md",
        ],
        [  # CI and failing tests
            "CI or failing tests",
            "prefer tool-fix-test.md or skill-fix-test.md over task-ci-cd-pipeline.md",
            "set-up guide",
        ],
        [  # orchestration
            "orchestration (orchestrate, coordinate, manage)",
            "prefer tool-doc-orchestrator.md",
        ],
    ],
    ids=["canonical", "release", "tests", "orchestration"],
)
def test_each_guideline_is_in_the_system_prompt(provider, make, rank, words):
    rank(make(), QUERY, pages())
    [request] = provider.requests
    guidelines = [line for line in request.body["system"].splitlines() if line.startswith("- ")]
    assert len(guidelines) == 4
    guideline = next(line for line in guidelines if words[0] in line)
    assert all(word in guideline for word in words)
    assert words[-1] not in json.dumps(request.body["messages"])


def test_what_the_model_sees_of_a_page(provider, make, rank):
    rank(make(), QUERY, pages(2))
    [request] = provider.requests
    assert request.documents == {
        "0": "path: task-0.md\ntext: Page 0.",
        "1": "path: task-1.md\ntext: Page 1.",
    }
    user = request.messages[1]
    assert f"<query>{QUERY}</query>" in user
    assert "all 2 documents" in user
    assert "Reply with ONLY a JSON array of this form, best first: [<index>, <index>, ...]" in user
    assert "Every index has to be there exactly once. Indices count from 0." in user


@dataclass(frozen=True)
class Entry:
    path: str
    content: str
    summary: str | None = None


@dataclass(frozen=True)
class Hit:
    entry: Entry
    score: float


def test_hits_that_hold_an_entry(provider, make, rank):
    entries = [Entry("task-a.md", "All of A.", "About A."), Entry("tool-b.md", "All of B.")]
    given = [Hit(entries[0], 0.9), {"entry": asdict(entries[1]), "score": 0.5}]
    ranking = rank(make(), QUERY, given)
    assert provider.requests[0].documents == {
        "0": "path: task-a.md\ntext: About A.",
        "1": "path: tool-b.md\ntext: All of B.",
    }
    assert (ranking.report.status, ranking.report.issues) == ("ok", ())
    assert {item.candidate.score for item in ranking} == {0.9, 0.5}


def test_pages_without_a_path_or_a_text(provider, make, rank):
    given = [{"path": "a.md"}, {"text": "b"}, {"section": "nothing to show"}]
    ranking = rank(make(), QUERY, given)
    assert list(provider.requests[0].documents.values()) == ["path: a.md", "text: b"]
    assert ranking.order == (1, 0, 2)
    assert ranking[2].status == "unjudged"
    assert "no_text" in {issue.code for issue in ranking.report.issues}


# ---------------------------------------------------------------------- the pool


@pytest.mark.parametrize("wanted", [1, 40])
def test_three_times_as_many_are_asked_for(provider, make, rank, wanted):
    reranker = make()
    needed = reranker.candidates_needed(wanted)
    assert needed == 3 * wanted
    ranking = rank(reranker, QUERY, pages(needed), top_k=wanted)
    assert len(provider.requests[0].labels) == needed
    assert provider.calls == 1
    assert ranking.order == tuple(range(needed))[: -wanted - 1 : -1]


def test_the_multiplier_can_be_another(provider, make):
    assert make(candidate_multiplier=5).candidates_needed(4) == 20
    assert make(top_k=6).candidates_needed() == 18


# ---------------------------------------------------------------------- the reply


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_a_permutation_is_the_order(provider, make, rank, order):
    provider.play(says(json.dumps(order)))
    ranking = rank(make(), QUERY, pages())
    assert ranking.order == order
    assert (ranking.report.status, ranking.report.issues) == ("ok", ())
    assert [item.rerank_score for item in ranking] == [1.0, 0.75, 0.5, 0.25]
    assert [item.score for item in ranking] == [9.5 - at for at in order]
    for item in ranking:
        assert item.metadata == {
            "path": f"task-{item.position}.md",
            "section": "guides",
            "rerank_score": item.rerank_score,
        }


READ = {
    "missing ones keep their order": ("[2]", (2, 0, 1, 3), {"not_in_reply"}),
    "doubled and out of range": (
        "[3, 3, 17]",
        (3, 0, 1, 2),
        {"not_in_reply", "doubled_label", "unknown_label"},
    ),
    "in prose": ("The best order is [3, 2, 1, 0].", (3, 2, 1, 0), set()),
}


@pytest.mark.parametrize(("reply", "order", "codes"), READ.values(), ids=READ)
def test_replies_that_are_read(provider, make, rank, caplog, reply, order, codes):
    provider.play(says(reply))
    with caplog.at_level(logging.DEBUG, logger="secondpass"):
        ranking = rank(make(), QUERY, pages())
    assert ranking.order == order
    assert {issue.code for issue in ranking.report.issues} == codes
    assert [record.levelno for record in logged(caplog)] == [logging.DEBUG] * bool(codes)
    assert provider.calls == 1


def test_indices_that_count_from_one_are_refused(provider, make, rank):
    """Read as they stand they would put every page into the place of another."""
    provider.play(says("[4, 3, 2, 1]"), says("[3, 2, 1, 0]"))
    ranking = rank(make(), QUERY, pages())
    assert ranking.order == (3, 2, 1, 0)
    assert provider.calls == 2
    assert [issue.code for issue in ranking.report.issues] == ["asked_again"]


# ---------------------------------------------------------------------- faults


def test_at_the_usual_level_nothing_is_logged(provider, make, rank, caplog):
    provider.play(fake.status(404))
    with caplog.at_level(logging.INFO, logger="secondpass"):
        ranking = rank(make(), QUERY, pages())
    assert logged(caplog) == []
    assert ranking.report.status == "unchanged"
