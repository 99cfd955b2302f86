"""What services return and raise."""

import logging

import pytest

from scripted_services import NOT_INSTALLED, ScriptedService, ask_all, question
from secondpass.effects import Completion
from secondpass.errors import LLMError


def test_missing_packages_are_named():
    (answer,), _ = ask_all(ScriptedService(NOT_INSTALLED), question())
    error = answer.error
    assert type(error) is LLMError
    assert (str(error), error.code) == (str(NOT_INSTALLED), NOT_INSTALLED.code)
    assert error.sent is False


INVALID = {
    "bytes": (b"yes", "the model returned a bytes, not a Completion"),
    "nothing": (None, "the model returned a NoneType, not a Completion"),
    "no string": (Completion(5), "the text of the reply is an int, not a string"),
}


@pytest.mark.parametrize(("returned", "message"), INVALID.values(), ids=INVALID)
def test_invalid_completions_are_refused(returned, message):
    (answer,), _ = ask_all(ScriptedService(returned), question())
    assert (answer.error.code, str(answer.error)) == ("bad_response", message)


def test_readers_see_validated_log_probabilities():
    seen = []
    reply = Completion("Yes", logprobs=[{"Yes": 0.7}])
    ask_all(ScriptedService(reply), question(read=lambda each: seen.append(each.logprobs)))
    assert seen == [None]


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
