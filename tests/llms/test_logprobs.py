"""Log probabilities: how providers are asked, what they report, and servers that have none."""

import asyncio
import math
from dataclasses import replace

import pytest

import fake_provider as fake
from fake_provider import FakeProvider, replying
from rotation import rotating
from secondpass import Reranker
from secondpass.errors import LLMError
from secondpass.llms import has_logprobs, to_llm
from secondpass.prompts.replies.first_token import word_probabilities
from secondpass.questions import Prompt, Turn
from secondpass.strategies.pointwise import Pointwise

TURNS = (Turn("user", "yes or no?"),)
WISHED = Prompt("", TURNS, logprobs=20)
NEEDED = Prompt("", TURNS, logprobs=20, needs_logprobs=True)
ONE_WORD = replace(NEEDED, words=("Yes", "No"))
FLAVOURS = ("openai", "compatible", "google")
LIMITS = {
    "openai": {"max_completion_tokens": 16},
    "compatible": {"max_completion_tokens": 16},
    "google": {"maxOutputTokens": 16},
}
"""The limit of a reply of which the first token is read."""
YES = {"Yes": 0.75, "No": 0.125, "yes": 0.0625}
YES_LOGS = {text: math.log(value) for text, value in YES.items()}
END = {"": 1.0}


@pytest.fixture(scope="module")
def provider():
    with FakeProvider() as server:
        yield server


@pytest.fixture
def model(provider, request):
    def build(flavour, **settings):
        llm = to_llm(provider.llm(flavour, api_key="k", **settings))
        request.addfinalizer(llm.close)
        return llm

    return build


def ask(llm, prompt=NEEDED):
    return asyncio.run(llm.complete(prompt))


def error_of(llm, prompt=NEEDED):
    with pytest.raises(LLMError) as caught:
        ask(llm, prompt)
    return caught.value


def wide(token):
    """A token of the reply with 19 alternatives."""
    return {token: 0.5, **{f"{token}{number}": 0.02 for number in range(19)}}


def limit_of(request):
    """The names and values of the limit of a reply's length in a request."""
    names = ("max_completion_tokens", "max_tokens", "maxOutputTokens")
    sent = {**request.body, **(request.body.get("generationConfig") or {})}
    return {name: sent[name] for name in names if name in sent}


def cut(reply):
    for choice in reply.get("choices", ()):
        choice["finish_reason"] = "length"
    for candidate in reply.get("candidates", ()):
        candidate["finishReason"] = "MAX_TOKENS"


# ---------------------------------------------------------------------- requests


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_requested_if_wanted(provider, model, flavour):
    provider.play(replying("Yes", YES, END))
    llm = model(flavour)
    completion = ask(llm)
    assert completion.text == "Yes"
    assert [list(token) for token in completion.logprobs] == [list(YES), [""]]
    assert completion.logprobs[0] == pytest.approx(YES_LOGS)
    assert ask(llm, Prompt("", TURNS)).logprobs is None
    assert [fake.logprobs_wanted(request) for request in provider.requests] == [20, None]


@pytest.mark.parametrize(("flavour", "name"), [("openai", "top_logprobs"), ("google", "logprobs")])
def test_options_set_the_number(provider, model, flavour, name):
    provider.play(replying("Yes", YES))
    completion = ask(model(flavour, options={name: 2}))
    assert [list(token) for token in completion.logprobs] == [["Yes", "No"]]
    assert fake.logprobs_wanted(provider.requests[0]) == 2


def test_who_has_them(provider):
    assert [has_logprobs(to_llm(provider.llm(name))) for name in ("openai", "google")] == [True] * 2
    assert not has_logprobs(to_llm(provider.llm("anthropic")))
    assert not has_logprobs(to_llm(lambda messages: "yes"))
    assert has_logprobs(to_llm(lambda messages, logprobs: "yes"))


# ---------------------------------------------------------------------- servers that reject them


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_rejection_is_an_error_where_they_are_needed(provider, model, flavour):
    provider.play(fake.logprobs_refused(), replying("Yes", YES))
    llm = model(flavour)
    error = error_of(llm)
    assert (error.code, error.adapted, error.retryable) == ("logprobs_refused", False, False)
    again = error_of(llm)
    assert (again.code, again.sent) == ("logprobs_refused", False)
    assert provider.calls == 1
    # What needs none is asked as before.
    assert ask(llm, Prompt("", TURNS)).text == "Yes"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_rejection_is_an_adaptation_where_they_are_wished(provider, model, flavour):
    provider.play(fake.logprobs_refused(), replying("Yes", YES))
    llm = model(flavour)
    error = error_of(llm, WISHED)
    assert (error.code, error.adapted) == ("parameter_refused", True)
    completion = ask(llm, WISHED)
    assert (completion.text, completion.logprobs) == ("Yes", None)
    assert [fake.logprobs_wanted(each) for each in provider.requests] == [20, None]


def test_options_are_not_dropped_silently(provider, model):
    provider.play(fake.logprobs_refused())
    llm = model("compatible", options={"top_logprobs": 5})
    assert error_of(llm).code == "logprobs_refused"
    assert error_of(llm).sent is False


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (fake.status(400, "logprobs", param="temperature"), "parameter_refused"),
        (fake.status(400, "invalid api key"), "authentication"),
        (fake.status(400, "blocked by the content filter"), "content_filter"),
        (fake.status(500, "logprobs failed"), "server_error"),
        (fake.too_long(), "too_long"),
    ],
)
def test_other_errors_are_blamed_neither_on_them_nor_on_the_limit(provider, model, step, code):
    provider.play(step, replying("Yes", YES))
    llm = model("openai")
    assert error_of(llm, ONE_WORD).code == code
    assert ask(llm, ONE_WORD).logprobs is not None
    assert limit_of(provider.requests[-1]) == LIMITS["openai"]


def test_a_passage_about_them_is_not_a_rejection(provider, model):
    passage = "how to get logprobs of a model, and why one would want them"
    provider.play(fake.status(400, f"cannot read: {passage}", leak=False), replying("Yes", YES))
    llm = model("openai")
    prompt = Prompt("", (Turn("user", passage),), logprobs=20, needs_logprobs=True)
    assert error_of(llm, prompt).code == "bad_request"
    assert ask(llm, prompt).logprobs is not None


# ---------------------------------------------------------------------- long replies

BECAUSE = [wide(f" because{number}") for number in range(79)]
THINKING = [wide(word) for word in ("<think>", *map(str, range(200)), "</think>", "\n\n")]


@rotating(flavour=FLAVOURS, before=[[], THINKING], form=[replying, fake.logprobs_of_completions])
def test_a_long_reply_is_read_by_the_first_token_of_its_answer(
    provider, model, flavour, before, form
):
    if form is not replying and flavour == "google":
        return
    tokens = [*before, wide("Yes"), *BECAUSE * 2]
    text = "".join(next(iter(token)) for token in tokens)
    provider.play(form(text, *tokens))
    completion = ask(model(flavour), ONE_WORD)
    assert completion.text == text
    assert word_probabilities(completion, ("Yes", "Yes7")).listed == pytest.approx((0.5, 0.02))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_reply_that_is_read_by_its_first_token_is_short(provider, model, flavour):
    provider.play(replying("Yes. Because it", YES, {".": 1.0}, change=cut))
    llm = model(flavour)
    completion = ask(llm, ONE_WORD)
    assert (completion.text, completion.cut) == ("Yes. Because it", False)
    assert ask(llm, NEEDED).cut
    assert ask(model(flavour, max_tokens=300), ONE_WORD).cut
    name = "max_output_tokens" if flavour == "google" else "max_tokens"
    assert ask(model(flavour, options={name: 300}), ONE_WORD).cut
    given = [list(limit_of(request).values()) for request in provider.requests]
    assert given == [[16], [], [300], [300]]
    assert limit_of(provider.requests[0]) == LIMITS[flavour]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_model_that_thinks_has_time_to(provider, model, flavour):
    start = "No, wait, I need to look at"
    provider.play(replying(start, {start: 1.0}, change=cut), replying("Yes", YES))
    llm = model(flavour)
    error = error_of(llm, ONE_WORD)
    assert (error.code, error.adapted) == ("reply_too_short", True)
    assert None not in error.tokens
    assert ask(llm, ONE_WORD).text == "Yes"
    assert [limit_of(request) for request in provider.requests] == [LIMITS[flavour], {}]


@pytest.mark.parametrize("flavour", ["openai", "compatible"])
def test_a_server_that_takes_no_short_limit(provider, model, flavour):
    refusals = [fake.status(400, f"{name} is not supported") for name in SENT[:2]]
    provider.play(*refusals, replying("Yes", YES))
    reranker = Reranker(Pointwise(model(flavour)))
    ranking = reranker.rerank("q", ["a"])
    assert ranking.report.status == "ok"
    assert [list(limit_of(request)) for request in provider.requests] == [SENT[:1], SENT[1:], []]


SENT = ["max_completion_tokens", "max_tokens"]
CUT = "Could not finish the message because max_tokens or model output limit was reached."
LOW = "Expected a value >= 64, but got 16 instead."


@rotating(
    flavour=FLAVOURS,
    refusal=[
        fake.status(400, CUT),
        fake.status(400, LOW, param="max_completion_tokens"),
        fake.status(422, "the request is not valid"),
        fake.status(400, "not valid", param="extra"),
    ],
)
def test_a_server_that_refuses_the_short_limit_for_any_reason(provider, model, flavour, refusal):
    llm = model(flavour)

    def answer(request):
        return refusal(request) if limit_of(request) else replying("Yes", YES)(request)

    provider.play(answer)
    reranker = Reranker(Pointwise(llm))
    assert reranker.rerank("q", ["a"]).report.status == "ok"
    assert limit_of(provider.requests[-1]) == {}
    calls = provider.calls
    assert reranker.rerank("q", ["b"]).report.status == "ok"
    assert provider.calls == calls + 1


def test_the_same_refusal_without_the_limit_is_final(provider, model):
    provider.play(fake.status(400, "not valid"))
    llm = model("openai")
    assert error_of(llm, ONE_WORD).adapted
    error = error_of(llm, ONE_WORD)
    assert (error.code, error.adapted) == ("bad_request", False)
