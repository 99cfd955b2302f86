"""Rankings of several questions: some fail, time or budget runs out, a key is refused.

What was answered is used, and no more is asked than the limits allow.
"""

import asyncio

import pytest

import fake_provider as fake
from fakes import ByTable, within_deadlines
from rankings import codes
from rotation import rotated
from secondpass import Candidate, Reranker

GIVEN = [f"{number} text" for number in (3, 9, 5, 1, 7, 4)]
BATCHES = ((0, 1), (2, 3), (4, 5))
"""Positions, with batches of two."""

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def graded(provider, reranker):
    """Three questions a ranking."""

    def make(llm=(), method=(), **settings):
        asked = {**provider.llm("openai", api_key="k"), **dict(llm)}
        settings["limits"] = {"deadline": 60, "retries": 1, **settings.get("limits", {})}
        return reranker(
            method={"type": "graded", "batch_size": 2, "llm": asked, **dict(method)}, **settings
        )

    return make


def scored(ranking):
    return {item.position for item in ranking if item.status == "scored"}


def asking_about(position, step, otherwise=None):
    """A step for the questions that hold this position's passage, and one for the others."""
    return lambda request: (
        step
        if any(text.startswith(GIVEN[position]) for text in request.documents.values())
        else otherwise or fake.good()
    )


FAILURES = {
    # step; issue and requests of three questions, of which one meets the step
    "status 500": (fake.status(500), "server_error", 4),
    "reset": (fake.raw(fake.End.RESET), "connection", 4),
    "status 400": (fake.status(400), "bad_request", 3),
    "status 404": (fake.status(404), "not_found", 3),
    "refused": (fake.refused(), "content_filter", 3),
    "prose": (fake.says(lambda answer: "no"), "reply_refused", 4),
    "page": (fake.page(), "bad_response", 3),
}


@pytest.mark.parametrize(("failure", "batch"), rotated(FAILURES, [0, 1, 2]))
def test_one_of_three_batches_fails(provider, graded, failure, batch):
    step, code, requests = FAILURES[failure]
    provider.play_by(asking_about(BATCHES[batch][0], step))
    ranking = graded().rerank("q", GIVEN)
    lost = set(BATCHES[batch])
    halves = code in {"content_filter", "reply_refused"}
    if halves:  # the two of the batch are asked about one by one
        lost = {BATCHES[batch][0]}
    assert ranking.report.status == "partial"
    assert scored(ranking) == set(range(6)) - lost
    assert {item.position for item in ranking if item.status == "unjudged"} == lost
    issues = [issue for issue in ranking.report.issues if issue.code == code]
    assert [set(issue.positions) for issue in issues] == [lost]
    assert provider.calls == ranking.report.usage.calls == requests + 2 * halves
    assert ranking.report.usage.rounds == 1 + halves


def test_refused_key_opens_the_circuit(provider, graded, monkeypatch):
    provider.play(fake.status(401))
    monkeypatch.setenv("SOME_KEY", "first")
    llm = {"api_key": None, "api_key_env": "SOME_KEY"}
    one = graded(llm, limits={"concurrency": 1})
    ranking = one.rerank("q", GIVEN)
    assert ranking.report.status == "unchanged"
    assert "authentication" in codes(ranking)
    assert provider.calls == ranking.report.usage.calls == 1
    again = asyncio.run(one.arerank("q", GIVEN))
    assert codes(again) == {"circuit_open"}
    assert provider.calls == 1
    assert again.report.usage.calls == 0
    # Another client, and another key, are none of its business.
    provider.play()
    assert graded().rerank("q", GIVEN).report.status == "ok"
    monkeypatch.setenv("SOME_KEY", "second")
    assert one.rerank("q", GIVEN).report.status == "ok"


ECHOED = {
    "key": "my api key is unauthorized: authentication_error",
    "quota": "insufficient_quota and billing_hard_limit, credit balance",
    "length": "maximum context length, prompt is too long",
    "schema": "json_schema response_format",
    "temperature": "temperature",
    "filter": "content_filter safety moderation",
}


@pytest.mark.parametrize(("name", "code"), rotated(ECHOED, [400, 422]))
def test_echoed_passages_are_harmless(provider, graded, name, code):
    """Some servers quote the request in their errors. Else the author of a passage could have a key
    taken for refused, or the schema left out, in the rankings of others."""
    provider.play(fake.status(code, "Invalid request"))
    one = graded(method={"batch_size": None})
    ranking = one.rerank("q", [Candidate(f"3 {ECHOED[name]}"), "9 b"])
    assert ranking.report.status == "unchanged"
    assert provider.calls <= 4
    provider.play()
    assert one.rerank("q", GIVEN).report.status == "ok"
    assert provider.requests[0].schema is not None
    assert fake.has_temperature(provider.requests[0])


@pytest.mark.parametrize("step", [fake.status(500), fake.says(lambda answer: "no")])
def test_retries_and_repairs_count_as_calls(provider, graded, step):
    provider.play(step)
    one = graded(limits={"calls": 1, "retries": 5}, method={"batch_size": None})
    ranking = one.rerank("q", GIVEN)
    assert ranking.report.status == "unchanged"
    assert provider.calls == ranking.report.usage.calls == 1
    assert "budget" in codes(ranking)


def test_budget_ends_between_questions(provider, graded):
    """The server says that a question took far more than it was estimated to."""
    usage = {"prompt_tokens": 50_000, "completion_tokens": 50_000, "total_tokens": 100_000}
    provider.play(fake.usage(usage))
    ranking = graded(limits={"tokens": 10_000, "concurrency": 1}).rerank("q", GIVEN)
    assert ranking.report.status == "partial"
    assert scored(ranking) == {0, 1}
    assert codes(ranking) == {"budget"}
    assert provider.calls == 1
    assert ranking.report.usage.input_tokens == 50_000


CACHED = {
    # the same tokens: of the input, 2,000 were read from the provider's cache and 500 written to it
    "anthropic": {
        "input_tokens": 10,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 500,
        "output_tokens": 7,
    },
    "openai": {
        "prompt_tokens": 2510,
        "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 500},
        "completion_tokens": 7,
        "completion_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 2517,
    },
    "google": {
        "promptTokenCount": 2510,
        "cachedContentTokenCount": 2000,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 4,
        "totalTokenCount": 2517,
    },
}


@pytest.mark.parametrize("limit", [{"tokens": 2600}, {"cost": 0.0026}])
@pytest.mark.parametrize("api", CACHED)
def test_cached_tokens_count_in_usage_cost_and_limits(provider, reranker, api, limit):
    llm = {**provider.llm(api, api_key="k"), "prices": {"input": 1.0, "output": 1.0}}
    provider.play(fake.usage(CACHED[api]))
    method = {"type": "graded", "batch_size": 2, "llm": llm}
    ranking = reranker(method=method, limits={**limit, "concurrency": 1}).rerank("q", GIVEN)
    usage = ranking.report.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 2510, 7)
    assert usage.cost == pytest.approx(2517 / 1e6)
    assert codes(ranking) == {"budget"}


def test_the_deadline_covers_repairs(provider, graded):
    def rank(deadline):
        provider.play(fake.says(lambda answer: "no"), fake.silence())
        return graded(limits={"deadline": deadline}, method={"batch_size": None}).rerank("q", GIVEN)

    ranking = within_deadlines(rank, lambda ranking: ranking.report.usage.calls == 2)
    assert ranking.report.status == "unchanged"
    assert provider.calls == ranking.report.usage.calls == 2


def test_retry_after_is_kept(provider, graded):
    provider.play(fake.status(429, headers={"Retry-After": "0.3"}), fake.good())
    assert graded(method={"batch_size": None}).rerank("q", GIVEN).report.status == "ok"
    first, second = provider.requests
    assert second.at - first.at >= 0.29


@pytest.mark.parametrize(
    ("server", "mode"),
    rotated(["none", "silent", "busy"], ["rerank", "arerank", "rerank_many"]),
)
def test_a_dead_server_leaves_time_for_the_fallback(provider, graded, monkeypatch, server, mode):
    monkeypatch.setattr("secondpass.asking.dispatch._FIRST_PAUSE", 0.05)
    llm = {"base_url": f"http://127.0.0.1:{fake.unused_port()}/v1"} if server == "none" else {}

    def rank(deadline):
        provider.play(fake.status(503) if server == "busy" else fake.silence())
        limits = {"deadline": deadline, "retries": 1000}
        one = graded(llm, limits=limits, fallback=["lexical"])
        if mode == "rerank_many":
            return one.rerank_many([("9", GIVEN)] * 2)
        if mode == "arerank":
            return [asyncio.run(one.arerank("9", GIVEN))]
        return [one.rerank("9", GIVEN)]

    def are_degraded(rankings):
        return all(ranking.report.status == "degraded" for ranking in rankings)

    rankings = within_deadlines(rank, are_degraded)
    assert are_degraded(rankings)
    for ranking in rankings:
        assert ranking[0].position == 1
        assert ranking.report.method == "lexical"
        assert codes(ranking) & {"deadline", "timeout", "connection", "server_error"}


@pytest.mark.parametrize(
    ("window", "statuses"),
    [
        (0, {"partial"}),  # it was the only window of two candidates
        (1, {"ok", "partial"}),  # it had no candidates of its own
        (2, {"unchanged"}),  # without it, nothing is known of the best
    ],
)
def test_one_window_fails(provider, reranker, window, statuses):
    """Three questions, one after the other, from the end of the list to its top."""
    llm = provider.llm("openai", api_key="k")
    method = {"type": "listwise", "window": 3, "stride": 2, "llm": llm}
    one = reranker(method=method, limits={"deadline": 60, "retries": 0, "repair": 0})
    provider.play_by(lambda request: fake.status(500) if request.number == window else fake.good())
    ranking = one.rerank("q", GIVEN)
    assert sorted(ranking.order) == list(range(6))
    assert ranking.report.issues
    assert ranking.report.status in statuses
    assert (ranking.order == tuple(range(6))) == (window == 2)
    assert provider.calls == ranking.report.usage.calls == 3


@pytest.mark.parametrize("deadline", [9.3e9, 1e300])
def test_deadline_of_centuries(provider, graded, deadline):
    provider.play()
    for one in (
        graded(limits={"deadline": deadline}),
        Reranker(ByTable(), limits={"deadline": deadline}),
    ):
        for ranking in (one.rerank("q", GIVEN), asyncio.run(one.arerank("q", GIVEN))):
            assert ranking.report.status == "ok"
        assert [ranking.report.status for ranking in one.rerank_many([("q", GIVEN)] * 2)] == [
            "ok"
        ] * 2
