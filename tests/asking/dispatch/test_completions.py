"""What services return and raise."""

import logging

import pytest

from scripted_services import ScriptedService, ask_all, question
from secondpass.effects import Completion

INVALID = {
    "bytes": (b"yes", "the model returned a bytes, not a Completion"),
    "nothing": (None, "the model returned a NoneType, not a Completion"),
    "no string": (Completion(5), "the text of the reply is an int, not a string"),
}


@pytest.mark.parametrize(("returned", "message"), INVALID.values(), ids=INVALID)
def test_invalid_completions_are_refused(returned, message):
    (answer,), _ = ask_all(ScriptedService(returned), question())
    assert (answer.error.code, str(answer.error)) == ("bad_response", message)


OWN_CODE = {
    "own": ({"own_code": True}, True),
    "not own": ({"own_code": False}, False),
    "unsaid": ({}, False),
}


@pytest.mark.parametrize(("members", "recorded"), OWN_CODE.values(), ids=OWN_CODE)
def test_exceptions_of_own_code_are_recorded(members, recorded, caplog):
    caplog.set_level(logging.DEBUG, "secondpass.diagnostics")
    error = ValueError("sk-secret-key")
    model = ScriptedService(error)
    vars(model).update(members)
    (answer,), ledger = ask_all(model, question())
    assert str(answer.error) == "the model raised ValueError"
    assert ledger.error is (error if recorded else None)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["the model raised ValueError"] * recorded
