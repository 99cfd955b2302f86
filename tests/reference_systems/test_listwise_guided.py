"""The preset `listwise_guided`: a permutation of indices, with the guidelines of a domain.

Every row of its table goes through the real SDK to a provider on the loopback interface.
"""

from __future__ import annotations

import json
import logging
import os

import pytest

import fake_provider as fake
from reference_replies import logged, says
from secondpass import Reranker

KEY = "sk-ant-test-SECRET"
QUERY = "how do I publish to PyPI?"


@pytest.fixture
def provider(provider_with):
    return provider_with({"ANTHROPIC_API_KEY": KEY}, "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN")


@pytest.fixture
def listwise_guided(preset_maker):
    return preset_maker("listwise_guided", "anthropic")


def pages(count=4):
    return [
        {"path": f"task-{at}.md", "text": f"Page {at}.", "score": 9.5 - at, "section": "guides"}
        for at in range(count)
    ]


def backwards(request):
    """A step: all indices, the last first."""
    return says(json.dumps([*range(len(request.labels))][::-1]))(request)


# ---------------------------------------------------------------------- the request


def test_the_defaults():
    reranker = Reranker.from_preset("listwise_guided")
    llm = reranker.method.llm
    assert (llm.model, llm.timeout) == ("claude-haiku-4-5-20251001", 60.0)
    assert llm.package == "anthropic"
    assert reranker.candidate_multiplier == 3
    assert reranker.depth is None  # the pool is shown whole, however large
    assert reranker.log_level == "debug"
    assert not reranker.strict


def test_what_is_sent(provider, listwise_guided, rank):
    provider.play(backwards)
    rank(listwise_guided(), QUERY, pages())
    [request] = provider.requests
    assert request.path == "/anthropic/v1/messages"
    assert request.headers["user-agent"].startswith("AsyncAnthropic/")
    assert request.headers["x-stainless-read-timeout"] == "60.0"
    assert request.key == KEY
    assert request.body["model"] == "claude-haiku-4-5-20251001"
    # Neither a schema nor a tool: those are for objects, and what is asked for is an array.
    assert request.body.keys() == {"model", "max_tokens", "messages", "system", "temperature"}


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
def test_each_guideline_is_in_the_system_prompt(provider, listwise_guided, rank, words):
    provider.play(backwards)
    rank(listwise_guided(), QUERY, pages())
    [request] = provider.requests
    guidelines = [line for line in request.body["system"].splitlines() if line.startswith("- ")]
    assert len(guidelines) == 4
    guideline = next(line for line in guidelines if words[0] in line)
    assert all(word in guideline for word in words)
    assert words[-1] not in json.dumps(request.body["messages"])


def test_what_the_model_sees_of_a_page(provider, listwise_guided, rank):
    provider.play(backwards)
    rank(listwise_guided(), QUERY, pages(2))
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


def test_pages_without_a_path_or_a_text(provider, listwise_guided, rank):
    provider.play(backwards)
    given = [{"path": "a.md"}, {"text": "b"}, {"section": "nothing to show"}]
    ranking = rank(listwise_guided(), QUERY, given)
    assert list(provider.requests[0].documents.values()) == ["path: a.md", "text: b"]
    assert ranking.order == (1, 0, 2)
    assert ranking[2].status == "unjudged"
    assert "no_text" in {issue.code for issue in ranking.report.issues}


# ---------------------------------------------------------------------- the pool


@pytest.mark.parametrize("wanted", [1, 40])
def test_three_times_as_many_are_asked_for(provider, listwise_guided, rank, wanted):
    reranker = listwise_guided()
    needed = reranker.candidates_needed(wanted)
    assert needed == 3 * wanted
    provider.play(backwards)
    ranking = rank(reranker, QUERY, pages(needed), top_k=wanted)
    assert len(provider.requests[0].labels) == needed
    assert provider.calls == 1
    assert ranking.order == tuple(range(needed))[: -wanted - 1 : -1]


def test_the_multiplier_can_be_another(provider, listwise_guided):
    assert listwise_guided(candidate_multiplier=5).candidates_needed(4) == 20
    assert listwise_guided(top_k=6).candidates_needed() == 18


# ---------------------------------------------------------------------- the reply


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_a_permutation_is_the_order(provider, listwise_guided, rank, order):
    provider.play(says(json.dumps(order)))
    ranking = rank(listwise_guided(), QUERY, pages())
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
def test_replies_that_are_read(provider, listwise_guided, rank, caplog, reply, order, codes):
    provider.play(says(reply))
    with caplog.at_level(logging.DEBUG, logger="secondpass"):
        ranking = rank(listwise_guided(), QUERY, pages())
    assert ranking.order == order
    assert {issue.code for issue in ranking.report.issues} == codes
    assert [record.levelno for record in logged(caplog)] == [logging.DEBUG] * bool(codes)
    assert provider.calls == 1


def test_indices_that_count_from_one_are_refused(provider, listwise_guided, rank):
    """Read as they stand they would put every page into the place of another."""
    provider.play(says("[4, 3, 2, 1]"), says("[3, 2, 1, 0]"))
    ranking = rank(listwise_guided(), QUERY, pages())
    assert ranking.order == (3, 2, 1, 0)
    assert provider.calls == 2
    assert [issue.code for issue in ranking.report.issues] == ["asked_again"]


@pytest.mark.parametrize("count", [0, 1])
def test_where_there_is_nothing_to_order_nothing_is_asked(provider, listwise_guided, rank, count):
    ranking = rank(listwise_guided(), QUERY, pages(count))
    assert len(ranking) == count
    assert (ranking.report.status, ranking.report.issues, provider.calls) == ("ok", (), 0)


# ---------------------------------------------------------------------- faults

FAULTS = {
    "no credit": (fake.status(400, "Your credit balance is too low"), "quota"),
    "prose": (says("Page 3 first, then page 1."), "reply_refused"),
}


@pytest.mark.parametrize(("step", "code"), FAULTS.values(), ids=FAULTS)
def test_faults_are_silent_and_told(provider, listwise_guided, rank, caplog, capfd, step, code):
    provider.play(step)
    with caplog.at_level(logging.DEBUG, logger="secondpass"):
        ranking = rank(listwise_guided(), QUERY, pages())
    assert ranking.order == (0, 1, 2, 3)
    assert [item.final_score for item in ranking] == [9.5, 8.5, 7.5, 6.5]
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues[-1].code == code
    assert ranking.report.usage.calls == provider.calls
    [record] = logged(caplog)
    assert record.levelno == logging.DEBUG
    assert code in record.getMessage()
    assert not any(secret in record.getMessage() for secret in (KEY, QUERY, "Page 0"))
    assert capfd.readouterr() == ("", "")


def test_at_the_usual_level_nothing_is_logged(provider, listwise_guided, rank, caplog):
    provider.play(fake.status(404))
    with caplog.at_level(logging.INFO, logger="secondpass"):
        ranking = rank(listwise_guided(), QUERY, pages())
    assert logged(caplog) == []
    assert ranking.report.status == "unchanged"


def test_without_a_key(provider, rank, monkeypatch, caplog):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with caplog.at_level(logging.DEBUG, logger="secondpass"):
        ranking = rank(Reranker.from_preset("listwise_guided"), QUERY, pages())
    assert ranking.order == (0, 1, 2, 3)
    [issue] = ranking.report.issues
    assert (issue.code, provider.calls) == ("no_key", 0)
    assert "ANTHROPIC_API_KEY" in issue.message
    assert [record.levelno for record in logged(caplog)] == [logging.DEBUG]


# ---------------------------------------------------------------------- frameworks


@pytest.mark.integration
@pytest.mark.skipif(not os.environ.get("ANTHROPIC_API_KEY"), reason="needs ANTHROPIC_API_KEY")
def test_live():
    reranker = Reranker.from_preset("listwise_guided", strict=True)
    given = [
        {"path": "task-package-publishing.md", "text": "How packages are published to PyPI."},
        {"path": "tool-release-prep.md", "text": "Prepares a release: version, changelog, PyPI."},
    ]
    ranking = reranker.rerank("publish a new version to PyPI", given)
    reranker.close()
    assert ranking.order == (1, 0)
