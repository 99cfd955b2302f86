"""The error of files, and the check of numbers."""

import pickle

import pytest

from secondpass import InputError
from secondpass.formats.errors import FormatError, check_numbers


@pytest.mark.parametrize(
    ("line", "message"), [(3, "a.jsonl:3: is empty"), (None, "a.jsonl: is empty")]
)
def test_a_message_survives_pickling(line, message):
    error = FormatError("a.jsonl", line, "is empty")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (message, vars(error))
    assert isinstance(error, ValueError)


def test_a_name_of_a_file_is_printable():
    assert str(FormatError("a\x1b[2J\n\u202e", 3, "is empty")) == "a\\x1b[2J\\n\\u202e:3: is empty"


@pytest.mark.parametrize("number", [0, True, 1.0, "1", None])
def test_wrong_numbers_are_named(number):
    with pytest.raises(InputError, match=r"^depth: must be a whole number of 1 or more, not "):
        check_numbers(k=(3, 1), depth=(number, 1))
