"""What services return, validated, and what they raise."""

import logging
import math

import pytest

from scripted_services import ScriptedService, ask_all, question
from secondpass.asking.dispatch import validated
from secondpass.questions import Completion

INVALID = {
    "bytes": (b"yes", "the model returned bytes, not a Completion"),
    "nothing": (None, "the model returned a NoneType, not a Completion"),
    "no string": (Completion(5), "the text of the reply is an int, not a string"),
}


@pytest.mark.parametrize(("returned", "message"), INVALID.values(), ids=INVALID)
def test_invalid_completions_are_refused(returned, message):
    (answer,), _ = ask_all(ScriptedService(returned), question())
    assert (answer.error.code, str(answer.error)) == ("bad_response", message)


LOGPROBS = {
    "as they are": ([{"Yes": -0.5, "No": -1}], ({"Yes": -0.5, "No": -1.0},)),
    "of several tokens": (({"Yes": 0.0}, {"": -2.0}), ({"Yes": 0.0}, {"": -2.0})),
    "rounded up": ([{"Yes": 9e-5}], ({"Yes": 0.0},)),
    "nothing": (None, None),
    "no tokens": ([], None),
    "a token without alternatives": ([{"Yes": -0.5}, {}], None),
    "probabilities": ([{"Yes": 0.7}], None),
    "infinite": ([{"Yes": -math.inf}], None),
    "not a number": ([{"Yes": -0.5, "No": math.nan}], None),
    "strings": ([{"Yes": "-0.5"}], None),
    "booleans": ([{"Yes": False}], None),
    "no text": ([{7: -0.5}], None),
    "pairs": ([("Yes", -0.5)], None),
    "one mapping": ({"Yes": -0.5}, None),
    "a string": ("Yes", None),
    "a number": (-0.5, None),
}
TOKENS = [(7, 7), (0, 0), ("7", None), (-1, None), (True, None), (2.0, None)]
UNITS = [(1, 1.0), (0.5, 0.5), (-1, None), ("1", None), (True, None), (math.nan, None)]
NUMBERS = [
    *(("logprobs", *row) for row in LOGPROBS.values()),
    *((name, *row) for name in ("input_tokens", "output_tokens") for row in TOKENS),
    *(("units", *row) for row in UNITS),
]


@pytest.mark.parametrize(("name", "reported", "kept"), NUMBERS)
def test_invalid_numbers_become_none(name, reported, kept):
    value = getattr(validated(Completion("Yes", **{name: reported})), name)
    assert (value, type(value)) == (kept, type(kept))


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
