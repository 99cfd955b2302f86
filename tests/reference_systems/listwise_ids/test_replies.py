"""Replies, the limit of the output, and errors."""

from __future__ import annotations

import copy
import json
import logging

import pytest

import fake_provider as fake
from reference_replies import logged, says
from secondpass import Reranker, RerankError
from tactic_candidates import KEY, QUERY, backwards, ids, nodes, tactic, tactics

READ = {
    "valid": ('["t2", "t0", "t3", "t1"]', "t2 t0 t3 t1"),
    "missing ids keep their old order": ('["t3"]', "t3 t0 t1 t2"),
    "unknown ids are ignored": ('["x9", "t2", "t0", "nope", "t3", "t1"]', "t2 t0 t3 t1"),
    "an id of the tail is unknown": ('["t4", "t3", "t2", "t1", "t0"]', "t3 t2 t1 t0"),
    "fenced, one twice": ('```json\n["t3", "t1", "t3", "t0", "t2"]\n```', "t3 t1 t0 t2"),
}


# ---------------------------------------------------------------------- the reply


@pytest.mark.parametrize(("reply", "head"), READ.values(), ids=READ)
def test_replies_that_are_read(provider, listwise_ids, rank, reply, head):
    provider.play(says(reply))
    ranking = rank(listwise_ids(depth=4), QUERY, tactics(6))
    assert ids(ranking) == [*head.split(), "t4", "t5"]
    assert provider.calls == 1


def test_omitted_and_invented_ids_are_logged(provider, listwise_ids, rank, caplog):
    provider.play(says('["x9", "t2"]'))
    ranking = rank(listwise_ids(), QUERY, tactics(3))
    told = {issue.code: issue.ids for issue in ranking.report.issues}
    assert told == {"not_in_reply": ("t0", "t1"), "unknown_label": ()}
    assert [item.status for item in ranking] == ["scored", "backfilled", "backfilled"]
    assert ranking.report.status == "partial"
    [record] = logged(caplog)
    assert record.levelno == logging.WARNING


def test_ids_that_repeat_or_are_numbers(provider, listwise_ids, rank):
    provider.play(lambda request: says(json.dumps([12, *request.labels[::-1][:2]]))(request))
    given = [tactic("same"), tactic("same"), tactic(12)]
    ranking = rank(listwise_ids(), QUERY, given)
    assert ranking.order == (2, 1, 0)
    assert ids(ranking) == [12, "same", "same"]


@pytest.mark.parametrize("escaped", [True, False], ids=["as in the prompt", "unescaped"])
def test_ids_with_characters_of_markup(provider, listwise_ids, rank, escaped):
    own = ["a<b>", 'say "hi"', "<think>", "x&y", "plain/id-1"]
    shown = ["a&lt;b&gt;", "say &quot;hi&quot;", "&lt;think&gt;", "x&y", "plain/id-1"]
    provider.play(says(json.dumps((shown if escaped else own)[::-1])))
    ranking = rank(listwise_ids(), QUERY, [tactic(id_) for id_ in own])
    assert provider.requests[0].labels == shown
    assert ids(ranking) == own[::-1]
    assert ranking.report.status == "ok"


def test_everything_of_a_candidate_comes_back(provider, listwise_ids, rank):
    provider.play(backwards)
    given = tactics()
    before = copy.deepcopy(given)
    for item in rank(listwise_ids(), QUERY, given, context=nodes()):
        fields = {key: value for key, value in before[item.position].items() if key != "id"}
        assert item.metadata == {**fields, "rerank_score": item.rerank_score}
    assert given == before


# ---------------------------------------------------------------------- the head and the limit


def test_the_limit_of_the_output_comes_last(provider, listwise_ids, rank):
    found = [
        tactic(f"t{at}", heuristic=at % 7, ready=at % 3 != 0) for at in range(30)
    ]  # as a search finds them
    ready = [one for one in found if one["ready"]]
    baseline = sorted(ready, key=lambda one: -one["heuristic"])
    provider.play(backwards)
    ranking = rank(listwise_ids(), QUERY, baseline, top_k=12)
    names = [one["id"] for one in baseline]
    assert provider.requests[0].labels == names[:10]  # not cut to the limit before
    assert ids(ranking) == [*names[:10][::-1], *names[10:12]]
    assert ids(rank(listwise_ids(), QUERY, baseline, top_k=3)) == names[9:6:-1]


@pytest.mark.parametrize("depth", [3, 40])
def test_candidates_beyond_the_limit_keep_their_order(provider, listwise_ids, rank, depth):
    provider.play(backwards)
    ranking = rank(listwise_ids(depth=depth), QUERY, tactics(15))
    head = min(depth, 15)
    assert list(ranking.order) == [*reversed(range(head)), *range(head, 15)]
    assert [item.status for item in ranking] == ["scored"] * head + ["tail"] * (15 - head)
    assert ranking.report.status == "ok"
    assert ranking.report.usage.calls == 1


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_order_sends_nothing(provider, listwise_ids, rank, count):
    ranking = rank(listwise_ids(), QUERY, tactics(count), context=nodes())
    assert len(ranking) == count
    assert (ranking.report.status, ranking.report.issues, provider.calls) == ("ok", (), 0)


FAULTS = {
    "no credit": (fake.status(429, error_code="insufficient_quota"), "quota"),
    "prose": (says("t2 is the best, then t0."), "reply_refused"),
    "unknown ids only": (says('["x", "y"]'), "reply_refused"),
}


# ---------------------------------------------------------------------- faults


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("step", "code"), FAULTS.values(), ids=FAULTS)
def test_faults(provider, listwise_ids, rank, caplog, step, code, strict):
    provider.play(step)
    reranker = listwise_ids(strict=strict)
    if strict:
        with pytest.raises(RerankError, match=code) as caught:
            rank(reranker, QUERY, tactics(12), context=nodes())
        ranking = caught.value.ranking
    else:
        ranking = rank(reranker, QUERY, tactics(12), context=nodes())
        [record] = logged(caplog)
        assert record.levelno == logging.WARNING
        assert code in record.getMessage()
        assert not any(secret in record.getMessage() for secret in (KEY, QUERY, "result 0"))
    assert ids(ranking) == [f"t{at}" for at in range(12)]
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues[-1].code == code
    assert ranking.report.usage.calls == provider.calls


@pytest.mark.parametrize("strict", [False, True])
def test_without_a_key(provider, rank, monkeypatch, caplog, strict):
    monkeypatch.delenv("OPENAI_API_KEY")
    # No address either, so a request would leave this machine: the key is looked for first.
    reranker = Reranker.from_preset("listwise_ids", strict=strict)
    if strict:
        with pytest.raises(RerankError, match="OPENAI_API_KEY"):
            rank(reranker, QUERY, tactics())
        return
    ranking = rank(reranker, QUERY, tactics())
    assert ids(ranking) == ["t0", "t1", "t2", "t3"]
    [issue] = ranking.report.issues
    assert (issue.code, provider.calls) == ("no_key", 0)
    [record] = logged(caplog)
    assert record.levelno == logging.WARNING
    assert "OPENAI_API_KEY" in record.getMessage()


def test_temporary_error_is_retried(provider, listwise_ids, rank):
    provider.play(fake.status(503), says("no idea"), backwards)
    ranking = rank(listwise_ids(), QUERY, tactics())
    assert ids(ranking) == ["t3", "t2", "t1", "t0"]
    assert ranking.report.status == "ok"
    assert [issue.code for issue in ranking.report.issues] == ["asked_again", "asked_again"]


@pytest.mark.parametrize("context", [7, ["a goal"]])
def test_a_context_that_is_no_project(provider, listwise_ids, rank, caplog, context):
    ranking = rank(listwise_ids(), QUERY, tactics(), context=context)
    assert ids(ranking) == ["t0", "t1", "t2", "t3"]
    [issue] = ranking.report.issues
    assert (issue.code, provider.calls) == ("context_failed", 0)
    assert len(logged(caplog)) == 1
