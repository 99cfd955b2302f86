"""Passes that `when` leaves out or makes shorter, seen from every side."""

import json

import pytest

from fakes import Answering, ByTable
from secondpass import Candidate, Reranker, Skipped
from secondpass.types import Usage

CERTAIN = [Candidate(f"text {i}", str(i), score) for i, score in enumerate([10.0, 4, 3, 2])]
UNCERTAIN = [Candidate(f"text {i}", str(i), score) for i, score in enumerate([10.0, 9.5, 3, 2])]
BETTER = {"text 0": 1.0, "text 1": 2.0, "text 2": 3.0, "text 3": 4.0}
WHEN = {"margin": {"below": 0.5}}
REASON = "margin 0.75 is not below 0.5"


def test_a_skip_is_a_choice():
    scorer = ByTable(BETTER)
    reranker = Reranker(scorer, when=WHEN, strict=True, fallback=[Answering(lambda _: None)])
    ranking, other = reranker.rerank_many([("q", CERTAIN), ("q", UNCERTAIN)])
    assert other.report.skipped is None
    report = ranking.report
    assert ranking.order == (0, 1, 2, 3)
    assert (report.status, report.issues) == ("ok", ())
    assert (report.method, report.score_kind) == (None, None)
    assert report.skipped == Skipped(REASON, 4)
    assert report.usage == Usage()
    assert {item.status for item in ranking} == {"tail"}
    assert [item.final_score for item in ranking] == [10, 4, 3, 2]
    assert len(scorer.calls) == 1


def test_a_smaller_depth():
    scorer = ByTable(BETTER)
    reranker = Reranker(scorer, when={**WHEN, "depth": 2}, tail="drop", depth=3)
    ranking = reranker.rerank("q", CERTAIN)
    assert ranking.order == (1, 0, 2)  # what is skipped is no dropped tail
    assert [item.status for item in ranking] == ["scored", "scored", "tail"]
    assert ranking.report.skipped == Skipped(REASON, 1, 2)
    assert (ranking.report.status, ranking.report.usage.pairs) == ("ok", 2)
    assert ranking.report.left_out == {"tail": (3,)}


@pytest.mark.parametrize("scores", [[None] * 4, [1.0] * 4, [1.0, 2.0, 3.0, 4.0]], ids=str)
def test_where_it_cannot_help_the_pass_runs_and_says_so(scores):
    candidates = [Candidate(f"text {i}", score=score) for i, score in enumerate(scores)]
    report = Reranker(ByTable(BETTER), when=WHEN, log_level="debug").rerank("q", candidates).report
    assert (report.status, report.skipped) == ("ok", None)
    (issue,) = report.issues
    assert issue.code == "when_unknown"
    assert issue.message.startswith("margin is not known, so the pass runs: ")


def test_ordering_and_top_k_apply_floor_and_blend_do_not():
    reranker = Reranker(
        ByTable(BETTER),
        when=WHEN,
        floor=100.0,
        blend={"original": 0.5, "normalize": "minmax"},
        order="lost_in_the_middle",
        top_k=3,
        log_level="debug",
    )
    ranking = reranker.rerank("q", CERTAIN)
    assert (sorted(ranking.order), ranking.order[0]) == ([0, 1, 2], 0)
    assert ranking.order != (0, 1, 2)
    assert [issue.code for issue in ranking.report.issues] == ["floor_not_applied"]
    assert ranking.report.status == "ok"


def test_explained_and_written():
    ranking = Reranker(ByTable(BETTER), when=WHEN).rerank("q", CERTAIN)
    explanation = ranking.explain("1")
    assert explanation.skipped == REASON
    assert f"not scored {REASON}; it keeps its order" in str(explanation)
    written = json.loads(json.dumps(ranking.to_dict()))
    assert written["report"]["skipped"] == {"reason": REASON, "pairs": 4, "depth": 0}
    assert "skipped 4" in repr(ranking)
