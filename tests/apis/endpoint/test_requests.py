"""What is sent to each rerank API, and the scores that are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fake_provider as fake
from fakes import task_of
from rankings import codes, scores
from rerank_answers import KEY, logit, rows
from rerank_dialects import DIALECTS, NUMBERS, SIGNED
from secondpass.apis.template import lookup


@pytest.mark.parametrize("api", DIALECTS)
def test_what_is_sent_and_read(api, make, rank, provider):
    dialect = DIALECTS[api]
    ranking = rank(make(api, api_key=KEY), "q", NUMBERS)
    assert ranking.order == (1, 2, 0)
    assert scores(ranking) == {0: 0.3, 1: 0.9, 2: 0.5}
    assert ranking.report.status == "ok"
    assert ranking.report.score_kind == dialect.kind
    assert ranking.report.method == ("tei" if api == "tei" else "m")
    (request,) = provider.requests
    assert request.path == f"/{api}{dialect.path}"
    assert request.body == dialect.sends
    header, prefix = dialect.header
    assert request.headers[header].startswith(prefix if api in SIGNED else f"{prefix}{KEY}")
    assert request.headers["content-type"] == "application/json"
    usage = ranking.report.usage
    assert (usage.calls, usage.rounds, usage.pairs) == (1, 1, 3)
    assert usage.input_tokens == dialect.tokens  # not reported is None, never 0
    assert usage.output_tokens == (None if dialect.tokens is None else 0)
    assert usage.units == dialect.units


@pytest.mark.parametrize("api", DIALECTS)
def test_the_whole_url_may_be_the_base_url(api, make, provider):
    make(api).rerank("q", NUMBERS)
    url = f"http://127.0.0.1:{provider.port}{provider.requests[0].path}"
    assert make(api, base_url=url).rerank("q", NUMBERS).report.status == "ok"
    assert [request.path for request in provider.requests] == [provider.requests[0].path] * 2


@pytest.mark.parametrize("api", DIALECTS)
def test_instruction_is_sent_in_a_field_of_its_own_or_reported(api, make, provider):
    ranking = make(api, api_key=KEY).rerank("q", NUMBERS, instruction="prefer owls")
    assert ranking.order == (1, 2, 0)
    (request,) = provider.requests
    field = DIALECTS[api].instruction
    if api == "voyage":
        assert request.body["query"] == "prefer owls\nq"
    elif field is not None:
        assert lookup(request.body, field) == "prefer owls"
    else:
        assert "owls" not in str(request.body)
    issues = [(issue.code, issue.method) for issue in ranking.report.issues]
    is_sent = field or api == "voyage"
    assert issues == ([] if is_sent else [("instruction_not_used", ranking.report.method)])


def test_instruction_counts_for_each_pair_and_is_kept_out_of_errors(make, provider):
    instruction = "prefer what the night guard of the museum wrote"
    provider.play(fake.raw(fake.http(400, {"message": f"no template for {instruction}"})))
    report = make("vllm").rerank("q", NUMBERS, instruction=instruction).report
    assert report.status == "unchanged"
    assert "night guard" not in repr(report) + str(report.to_dict())
    plain, instructed = (
        next(make("vllm").method.judge(task)).questions[0]
        for task in (task_of(NUMBERS), replace(task_of(NUMBERS), instruction="x" * 40))
    )
    assert instructed.estimate.input_tokens - plain.estimate.input_tokens == 10 * len(NUMBERS)
    assert "x" * 40 not in repr(instructed)


@pytest.mark.parametrize(("api", "batch_size"), [("tei", None), ("infinity", 2)])
def test_unasked_logits_are_read_and_reported(api, batch_size, make, provider):
    provider.play(rows(list, logit))
    ranking = make(api, batch_size=batch_size).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, codes(ranking)) == ("ok", {"scores_read_as_logits"})
    assert ranking.report.score_kind == "logit"
    assert scores(ranking) == {0: -5, 1: 7, 2: -1, 3: 3}
    stated = make(api, scores="probability").rerank("q", NUMBERS)
    assert (stated.report.status, codes(stated)) == ("unchanged", {"score_out_of_range"})
    provider.play(fake.good())
    ranking = make(api).rerank("q", NUMBERS)
    assert (ranking.report.score_kind, codes(ranking)) == ("probability", set())
