"""Retries, pauses, adaptations, and prompts that are too long."""

import time

import pytest

from scripted_services import (
    ADAPTED,
    BUSY,
    DOWN,
    ScriptedService,
    after,
    ask_all,
    question,
    rejecting,
)
from secondpass.asking import dispatch as module
from secondpass.errors import LLMError, MethodError
from secondpass.services.throttle import throttle_of

TOO_LONG = LLMError("the prompt is too long", "too_long", too_long=True)

RETRIES = [
    # replies in sequence; limits; calls; the answer or the error's code; troubles
    ("at once", ["yes"], {}, 1, "yes", []),
    ("fatal", [DOWN, "yes"], {}, 1, "authentication", []),
    ("busy once", [BUSY, "yes"], {}, 2, "yes", ["server_error"]),
    ("busy twice", [BUSY, BUSY, "yes"], {}, 3, "yes", ["server_error"] * 2),
    ("busy for ever", [BUSY], {}, 3, "server_error", ["server_error"] * 2),
    ("no retries", [BUSY, "yes"], {"retries": 0}, 1, "server_error", []),
    ("five retries", [BUSY], {"retries": 5}, 6, "server_error", ["server_error"] * 5),
    ("busy, then fatal", [BUSY, DOWN], {}, 2, "authentication", ["server_error"]),
    ("adapted", [ADAPTED, "yes"], {"retries": 0}, 2, "yes", ["parameter_refused"]),
    ("adapted for ever", [ADAPTED], {}, 9, "parameter_refused", ["parameter_refused"] * 8),
    ("adapted five times", [*[ADAPTED] * 5, "yes"], {}, 6, "yes", ["parameter_refused"] * 5),
    ("too long to shrink", [TOO_LONG], {}, 1, "too_long", []),
    ("refused once", ["no", "yes"], {}, 2, "yes", ["reply_refused"]),
    ("refused twice", ["no", "no", "yes"], {}, 2, "reply_refused", ["reply_refused"]),
    ("no repair", ["no", "yes"], {"repair": 0}, 1, "reply_refused", []),
    ("busy, then refused", [BUSY, "no", "yes"], {}, 3, "yes", ["server_error", "reply_refused"]),
    ("refused, then busy", ["no", BUSY, "yes"], {}, 3, "yes", ["reply_refused", "server_error"]),
    ("everything", [ADAPTED, BUSY, "no", BUSY, "yes"], {}, 5, "yes", None),
    ("asked to wait a little", [after(0.05), "yes"], {}, 2, "yes", ["rate_limited"]),
    ("asked to wait for nothing", [after(0.0), "yes"], {}, 2, "yes", ["rate_limited"]),
    ("asked to wait for a minute", [after(60), "yes"], {}, 1, "rate_limited", []),
    ("asked to wait for a day", [after(86_400), "yes"], {}, 1, "rate_limited", []),
    ("asked to wait past the end", [after(25), "yes"], {"deadline": 20}, 1, "rate_limited", []),
    ("calls are spent", [BUSY, "yes"], {"calls": 1}, 1, "budget", ["server_error"]),
    ("calls are spent by repair", ["no", "yes"], {"calls": 1}, 1, "budget", ["reply_refused"]),
    ("a foreign error", [ValueError("sk-secret-key")], {}, 1, "llm_raised", []),
    ("no completion", [Exception, "yes"], {}, 1, "bad_response", []),
    ("a method error", [MethodError("mine", "mine")], {}, 1, "mine", []),
]


@pytest.mark.parametrize(
    ("replies", "limits", "calls", "result", "troubles"),
    [row[1:] for row in RETRIES],
    ids=[row[0] for row in RETRIES],
)
def test_retries_repairs_adaptations(replies, limits, calls, result, troubles, pauses):
    model = ScriptedService(*replies)
    (answer,), ledger = ask_all(model, question(rejecting("no")), **limits)
    assert len(model.prompts) == ledger.calls == calls
    assert ledger.rounds == 1
    assert ledger.pairs == 3
    repeated = calls - 1
    assert ledger.usage().retries + ledger.usage().repairs == repeated
    if troubles is not None:  # requests that follow an unusable reply are repairs
        codes = [trouble.code for trouble in answer.troubles][:repeated]
        first = codes.index("reply_refused") if "reply_refused" in codes else repeated
        assert ledger.usage().repairs == repeated - first
    if result == "yes":
        assert (answer.value, answer.error) == ("yes", None)
    else:
        assert answer.value is None
        assert answer.error.code == result
        assert "sk-secret" not in str(answer.error)
    if troubles is not None:
        assert [trouble.code for trouble in answer.troubles] == troubles


def test_pauses_double_up_to_a_limit(pauses):
    ask_all(ScriptedService(*[BUSY] * 7, "yes"), question(), retries=9)
    assert pauses == [0.5, 1, 2, 4, 8, 8, 8]


PAUSES = {
    # seconds that the server asks for; the deadline; whether there is a fallback; the pause
    "jitter": (None, None, False, [0.25]),
    "longer than ours": (2, None, False, [2]),
    "shorter than ours": (0.01, None, False, [0.25]),
    "longest": (29.9, None, False, [29.9]),
    "too long": (30, None, False, []),
    "before the end": (29, 1000, False, [29]),
    "past the end": (29, 20, False, []),
    "before the fallback": (29, 1000, True, [29]),
    "into its time": (25, 30, True, []),
}


@pytest.mark.parametrize(("wanted", "end", "fallback", "expected"), PAUSES.values(), ids=PAUSES)
def test_servers_may_ask_for_longer_pauses(wanted, end, fallback, expected, pauses, monkeypatch):
    monkeypatch.setattr(module.random, "uniform", lambda low, _: low)
    ask_all(ScriptedService(after(wanted), "yes"), question(), fallback=fallback, deadline=end)
    assert pauses == expected


def test_too_long_questions_are_shortened():
    shorter = question(text="shorter")
    model = ScriptedService(TOO_LONG, "yes")
    (answer,), _ = ask_all(model, question(shrink=lambda: shorter))
    assert [prompt.turns[-1].text for prompt in model.prompts] == ["ask", "shorter"]
    assert answer.value == "yes"
    assert [trouble.code for trouble in answer.troubles] == ["too_long"]
    model = ScriptedService(TOO_LONG)
    (answer,), ledger = ask_all(model, question(shrink=lambda: shorter))
    assert (answer.error.code, ledger.calls) == ("too_long", 2)
    shorter = question(shrink=lambda: shorter)
    (answer,), ledger = ask_all(model, shorter)
    assert (answer.error.code, ledger.calls, len(answer.troubles)) == ("too_long", 4, 3)


def test_a_service_that_asks_to_wait_past_the_deadline_is_not_waited_for():
    model = ScriptedService("yes")
    throttle_of(model).note({"ratelimit-remaining": "0", "ratelimit-reset": "25"}, time.monotonic())
    began = time.perf_counter()
    (answer,), _ = ask_all(model, question(), deadline=2)
    assert time.perf_counter() - began < 1
    assert answer.error.code == "deadline"
    assert model.prompts == []
