"""Rankings as sequences, and what is not shown of candidates."""

import numpy as np
import pytest

from secondpass import Candidate, Issue, Ranked, Ranking, Report, Request, Reranker, Skipped, Usage

CANDIDATES = [
    Candidate("cats", "a", 0.5),
    Candidate("owls", "b", 0.4, {"in": "a burrow"}),
    Candidate("dogs", "c"),
]


@pytest.fixture
def ranking():
    return Reranker("lexical").rerank("owls", CANDIDATES)


def test_a_ranking_is_a_sequence(ranking):
    assert len(ranking) == 3
    assert [item.position for item in ranking] == list(ranking.order) == [1, 0, 2]
    assert ranking[0] is ranking.items[0]
    assert ranking[-1].candidate is CANDIDATES[2]
    assert ranking[:2] == ranking.items[:2]
    assert ranking[1] in ranking
    with pytest.raises(IndexError):
        ranking[3]
    assert len(Ranking("q", (), Report("ok"))) == 0
    assert ranking.index(ranking[2]) == 2
    with pytest.raises(ValueError, match=r"^the ranking has no such item$"):
        ranking.index(ranking[2], 0, 1)
    with pytest.raises(ValueError, match=r"; of ids: \[it.id for it in ranking\].index$"):
        ranking.index("a")


def test_texts_are_not_shown(ranking):
    for value in (CANDIDATES[1], ranking, ranking[0], ranking.report):
        assert "owls" not in repr(value)
        assert "burrow" not in repr(value)
    assert "owls" not in str(ranking.to_dict())
    assert "owls" in str(ranking.to_dict(text=True))


SCORED = {"position": 4, "candidate": Candidate("owls", "a"), "stage_scores": (), "metadata": {}}
REPRS: dict[str, object] = {
    "<Report ok: 0 s>": Report("ok"),
    "<Report degraded by fallback: interim; method 'm'; 40 of 50 scored; cost 0.0012; 1.23 s; "
    "nothing relevant; 3 left out; issues a, b>": Report(
        "degraded",
        "m",
        issues=(Issue("a", "…"), Issue("b", "…"), Issue("a", "…")),
        usage=Usage(calls=3, cost=0.0012),
        seconds=1.2345,
        left_out={"floor": (1, 2), "top_k": (3,)},
        final=False,
        nothing_relevant=True,
        depth_asked=50,
        depth_done=40,
        degraded_by=("fallback",),
    ),
    "<Report ok: skipped 9; 0.5 s>": Report("ok", skipped=Skipped("…", 9), seconds=0.5),
    "<Report ok: method 'm'; 50 of 1,151 scored (depth 50); 0 s>": Report(
        "ok", "m", depth_asked=50, depth_done=50, beyond_depth=1101
    ),
    "<Report ok: method 'm'; 9 of 151 scored (depth 50); skipped 40; 0 s>": Report(
        "ok", "m", depth_asked=10, depth_done=9, beyond_depth=101, skipped=Skipped("…", 40, 10)
    ),
    "Usage()": Usage(),
    "Usage(calls=2, pairs=40, cost=0.333333)": Usage(calls=2, pairs=40, cost=1 / 3),
    "<Issue a: why>": Issue("a", "why"),
    "<Issue a of 'm' at 1000: why>": Issue("a", "why", (1000,), ("x",), "m"),
    "<Issue a at 1, 2, 4, …: why>": Issue("a", "why", (1, 2, 4, 7), ("x", None, 3, 4)),
    "<Ranked 1: id 'a', position 4, rerank_score 0.3333, final_score 0.25>": Ranked(
        1, status="scored", rerank_score=1 / 3, final_score=0.25, **SCORED
    ),
    "<Ranked 2: id 'a', position 4, rerank_score 0.5, probability 0.9>": Ranked(
        2, status="scored", rerank_score=0.5, final_score=0.5, probability=0.9, **SCORED
    ),
    "<Ranked 3: id 'a', position 4, tail>": Ranked(
        3, status="tail", rerank_score=None, final_score=None, **SCORED
    ),
    "<Ranked 4: id 7, position 4, score 0.5, tail>": Ranked(
        4,
        status="tail",
        rerank_score=None,
        final_score=None,
        **{**SCORED, "candidate": Candidate("owls", np.int64(7), np.float32(0.5))},
    ),
    "<Ranked 5: position 4, tail>": Ranked(
        5,
        status="tail",
        rerank_score=None,
        final_score=None,
        **{**SCORED, "candidate": Candidate("owls", score=10**400)},
    ),
}


@pytest.mark.parametrize("expected", REPRS)
def test_reprs_are_short(expected):
    assert repr(REPRS[expected]) == expected


def test_a_request_is_a_tuple():
    assert Request("q", ["a"]) == ("q", ["a"], None)
