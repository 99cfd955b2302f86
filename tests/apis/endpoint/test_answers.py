"""Scales of scores; blending and thresholds."""

from __future__ import annotations

import importlib
import json

import pytest

import fake_provider as fake
from fake_provider import http, status
from rankings import codes, scores
from rerank_answers import answer, documents, envelope, logit, rows, rows_of, where
from rerank_dialects import NUMBERS
from secondpass import Candidate, ConfigurationError

json_http = importlib.import_module("secondpass.services.json_http")

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


def test_other_scale_goes_to_the_fallback(make, provider):
    provider.play(answer(lambda text: fake.by_number(text) * 3))
    ranking = make("vllm", whole={"fallback": ["lexical"]}).rerank("a", NUMBERS)
    assert ranking.report.status == "degraded"
    assert "score_out_of_range" in codes(ranking)


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


def test_batches_on_two_scales_are_refused(make, provider):
    """As of two servers behind one address, one of which gives logits."""
    provider.play(where(lambda r: "9 b" in documents(r), answer(logit)))
    ranking = make("tei", batch_size=2).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, codes(ranking)) == ("unchanged", {"score_out_of_range"})


@pytest.mark.parametrize("whole", [{"floor": 0.3}, {"blend": {"original": 0.4}}])
def test_logits_are_refused_where_the_kind_matters(whole, make, provider):
    provider.play(answer(logit))
    given = [{"text": text, "score": 0.5} for text in NUMBERS]
    ranking = make("tei", whole=whole).rerank("q", given)
    assert ranking.report.status == "unchanged"
    assert ranking.order == (0, 1, 2)


def test_an_answer_is_parsed_once(make, provider, monkeypatch):
    parsed = []
    loads = json.loads

    def counted(text, **options):
        parsed.append(len(text))
        return loads(text, **options)

    monkeypatch.setattr(json_http.json, "loads", counted)
    provider.play(rows(lambda found: found * 1000))
    assert make("jina").rerank("q", NUMBERS).report.status == "ok"
    assert len([size for size in parsed if size > 50_000]) == 1


KINDS = [
    # the API, its settings, the blend; whether the two go together
    ("cohere", {}, {"original": 0.3, "normalize": "none"}, True),
    ("cohere", {}, {"original": 0.3, "normalize": "sigmoid"}, False),
    ("jina", {}, {"original": 0.3, "normalize": "none"}, False),
    ("jina", {"scores": "probability"}, {"original": 0.3, "normalize": "none"}, True),
    ("tei", {"raw_scores": True}, {"original": 0.3, "normalize": "none"}, False),
    ("llama_cpp", {}, {"original": 0.3, "normalize": "sigmoid"}, True),
]


# ---------------------------------------------------------------------- blending, floors


@pytest.mark.parametrize(("api", "settings", "blend", "fits"), KINDS)
def test_scores_that_can_be_blended(api, settings, blend, fits, make):
    if fits:
        assert make(api, whole={"blend": blend}, **settings).rerank("q", NUMBERS).order
    else:
        with pytest.raises(ConfigurationError, match="blend"):
            make(api, whole={"blend": blend}, **settings)


def test_blend_and_floor(make, provider):
    candidates = [
        Candidate(text, score=score) for text, score in zip(NUMBERS, (1, 0, 0.4), strict=True)
    ]
    blend = {"original": 0.5, "normalize": "none"}
    ranking = make("cohere", whole={"blend": blend, "floor": 0.46}).rerank("q", candidates)
    assert [item.position for item in ranking] == [0]
    assert ranking[0].final_score == pytest.approx(0.65)
    assert ranking[0].rerank_score == 0.3
    assert ranking.report.left_out == {"floor": (1, 2)}
    # What could not be scored is not dropped, and where nothing was, nothing is.
    provider.play(rows(lambda found: found[1:]))
    ranking = make("cohere", whole={"floor": 0.4}).rerank("q", candidates)
    assert [(item.position, item.status) for item in ranking] == [
        (2, "scored"),
        (1, "backfilled"),
    ]
    provider.play(status(400))
    assert make("cohere", whole={"floor": 0.4}).rerank("q", candidates).order == (0, 1, 2)
