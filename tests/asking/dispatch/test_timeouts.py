"""The timeout of a request."""

import pytest

from scripted_services import ScriptedService, ask_all, question
from secondpass.asking import dispatch as module

TIMEOUTS = {
    # timeout of the service, deadline; the timeout of a request
    "default": ({}, None, 60),
    "own": ({"timeout": 5}, None, 5),
    "none": ({"timeout": None}, None, None),
    "before the end": ({"timeout": 5}, 1000, 5),
    "end": ({"timeout": None}, 1000, pytest.approx(1000, abs=60)),
    "end before": ({"timeout": 5000}, 1000, pytest.approx(1000, abs=60)),
}


@pytest.mark.parametrize(("members", "end", "expected"), TIMEOUTS.values(), ids=TIMEOUTS)
def test_request_timeouts(members, end, expected, monkeypatch):
    timeouts = []

    async def spy(work, seconds):
        timeouts.append(seconds)
        return await work

    monkeypatch.setattr(module, "with_timeout", spy)
    model = ScriptedService("yes")
    vars(model).update(members)
    (answer,), _ = ask_all(model, question(), deadline=end)
    assert answer.value == "yes"
    assert timeouts == [expected]


PLACE = "[http://localhost/v1, model m, no key]"
SLOW = {
    # members of the service; the message
    "timeout": ({"timeout": 5}, "no answer within 5 s"),
    "no timeout": ({"timeout": None}, "no answer"),
    "origin": ({"timeout": 0.5, "origin": PLACE}, f"no answer within 0.5 s {PLACE}"),
    "empty origin": ({"timeout": 5, "origin": ""}, "no answer within 5 s"),
    "no origin": ({"timeout": 5, "origin": None}, "no answer within 5 s"),
    "odd origin": ({"timeout": 5, "origin": 5}, "no answer within 5 s"),
}


@pytest.mark.parametrize(("members", "message"), SLOW.values(), ids=SLOW)
def test_timeouts_name_the_server(members, message):
    """A service that raises TimeoutError is treated like one that took too long."""
    model = ScriptedService(TimeoutError())
    vars(model).update(members)
    (answer,), ledger = ask_all(model, question())
    assert (answer.error.code, str(answer.error)) == ("timeout", message)
    assert [str(issue) for issue in answer.troubles] == [message] * 2
    assert ledger.questions == 3
