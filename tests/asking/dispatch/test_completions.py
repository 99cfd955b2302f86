"""What services return, validated, and what they raise."""

import logging
import math

import pytest

from scripted_services import ScriptedService, ask_all, question
from secondpass.asking.dispatch import validated
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


COUNTS = [
    (7, 2, 7, 2),
    ("7", 2, None, 2),
    (7, -1, 7, None),
    (True, 0, None, 0),
    (None, 2.0, None, None),
]


@pytest.mark.parametrize(("tokens_in", "tokens_out", "kept_in", "kept_out"), COUNTS)
def test_invalid_counts_become_none(tokens_in, tokens_out, kept_in, kept_out):
    completion = validated(Completion("yes", True, tokens_in, tokens_out))
    assert completion == Completion("yes", True, kept_in, kept_out)
    assert type(completion.input_tokens) is type(kept_in)


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


@pytest.mark.parametrize(("reported", "kept"), LOGPROBS.values(), ids=LOGPROBS)
def test_invalid_log_probabilities_become_none(reported, kept):
    assert validated(Completion("Yes", logprobs=reported)).logprobs == kept


@pytest.mark.parametrize(
    ("units", "kept"),
    [(1, 1.0), (0.5, 0.5), (None, None), (-1, None), ("1", None), (True, None), (math.nan, None)],
)
def test_invalid_units_become_none(units, kept):
    assert validated(Completion("yes", units=units)).units == kept


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
