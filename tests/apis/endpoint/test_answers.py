"""Scales of scores; blending and thresholds."""

from __future__ import annotations

import pytest

from rankings import codes, scores
from rerank_answers import answer, logit
from rerank_dialects import NUMBERS


@pytest.mark.parametrize("api", ["tei", "infinity"])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_unasked_logits_are_read_and_reported(api, batch_size, make, provider):
    provider.play(answer(logit))
    ranking = make(api, batch_size=batch_size).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, codes(ranking)) == ("ok", {"scores_read_as_logits"})
    assert ranking.report.score_kind == "logit"
    assert scores(ranking) == {0: -5, 1: 7, 2: -1, 3: 3}
    stated = make(api, scores="probability").rerank("q", NUMBERS)
    assert (stated.report.status, codes(stated)) == ("unchanged", {"score_out_of_range"})
    provider.play(answer())
    ranking = make(api).rerank("q", NUMBERS)
    assert (ranking.report.score_kind, codes(ranking)) == ("probability", set())
