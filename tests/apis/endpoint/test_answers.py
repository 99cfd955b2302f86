"""Scales of scores; blending and thresholds."""

from __future__ import annotations

import json

import pytest

from fake_provider import http
from rankings import codes, scores
from rerank_answers import answer, envelope, logit, rows_of
from rerank_dialects import NUMBERS

OTHER_SCALE = [
    ("cohere", {}, "1.01"),
    ("tei", {}, "50.5"),
    ("infinity", {"scores": "similarity"}, "7"),
]


# ---------------------------------------------------------------------- answers


@pytest.mark.parametrize(("api", "settings", "reply"), OTHER_SCALE)
def test_other_scale_refuses_all_batches(api, settings, reply, make, provider):
    """The one score that shows it may be in another batch."""

    def step(request):
        body = json.dumps(envelope(request, rows_of(request)))
        yield http(200, body.replace("0.9", reply, 1).encode())

    provider.play(step)
    ranking = make(api, batch_size=2, **settings).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, codes(ranking)) == ("unchanged", {"score_out_of_range"})
    assert ranking.order == (0, 1, 2, 3)
    assert len(provider.requests) == 2


@pytest.mark.parametrize("api", ["tei", "infinity"])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_unasked_logits_are_read_and_reported(api, batch_size, make, provider):
    provider.play(answer(logit))
    ranking = make(api, batch_size=batch_size).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, codes(ranking)) == ("ok", {"scores_read_as_logits"})
    assert ranking.report.score_kind == "logit"
    assert scores(ranking) == {0: -5, 1: 7, 2: -1, 3: 3}
    provider.play(answer())
    ranking = make(api).rerank("q", NUMBERS)
    assert (ranking.report.score_kind, codes(ranking)) == ("probability", set())


@pytest.mark.parametrize("whole", [{"floor": 0.3}, {"blend": {"original": 0.4}}])
def test_logits_are_refused_where_the_kind_matters(whole, make, provider):
    provider.play(answer(logit))
    given = [{"text": text, "score": 0.5} for text in NUMBERS]
    ranking = make("tei", whole=whole).rerank("q", given)
    assert ranking.report.status == "unchanged"
    assert ranking.order == (0, 1, 2)
