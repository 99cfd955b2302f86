"""Messages are in plain words: none of pydantic's own, and nouns agree with their numbers."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

import secondpass
from secondpass.settings import counted
from secondpass.settings.messages import reworded

SOURCES = Path(secondpass.__file__).parents[1]
PYDANTIC = ("Input", "Value error", "valid", "unable to", "Field", "Assertion", "dictionary")
UNCOUNTED = re.compile(r"\{[^{}]*\blen\([^{}]*\} (?:more )?[a-z]+s\b")
"""The length of something before a noun in the plural, which may be 1."""
MORE_THAN_ONE = {
    "problems",  # of an error with several
    "modules",  # of a model that has more than a light engine runs
    "names",  # more than are accepted
    "characters",  # likewise, and of a text
    "tokens",  # two or more in place of one
    "fields",
}


class Model(BaseModel):
    integer: int = 0
    number: float = 0
    text: Annotated[str, Field(min_length=2)] = "ab"
    flag: bool = False
    mapping: dict[str, int] = {}
    items: Annotated[list[int], Field(min_length=1)] = [1]
    choice: Literal["a", "b"] = "a"
    low: Annotated[int, Field(ge=1)] = 1
    own: Any = None

    @field_validator("own")
    @classmethod
    def _own(cls, value):
        raise ValueError(f"must be an owl, not {value}")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"integer": "x"}, "must be a whole number"),
        ({"integer": 2.5}, "must be a whole number"),
        ({"number": "x"}, "must be a number"),
        ({"text": 3}, "must be a string"),
        ({"text": "a"}, "must have at least 2 characters"),
        ({"text": "\ud800\ud800"}, "must be Unicode"),
        ({"flag": "perhaps"}, "must be true or false"),
        ({"mapping": 3}, "must be a mapping"),
        ({"items": 3}, "must be a list"),
        ({"items": []}, "must have at least 1 item, not 0"),
        ({"choice": "c"}, "must be 'a' or 'b'"),
        ({"low": 0}, "must be greater than or equal to 1"),
        ({"own": 3}, "must be an owl, not 3"),
    ],
)
def test_errors_of_pydantic(wrong, message):
    with pytest.raises(ValidationError) as caught:
        Model(**wrong)
    (detail,) = caught.value.errors()
    assert reworded(detail["msg"]) == message
    assert not [word for word in PYDANTIC if word in reworded(detail["msg"])]


def test_errors_of_typer():
    message = "Value error, 'csv' is not one of 'jsonl', 'trec'."
    assert reworded(message) == "must be one of 'jsonl', 'trec'"


def test_a_number_and_its_noun():
    assert [counted(number, "query", "queries") for number in (0, 1, 2000)] == [
        "0 queries",
        "1 query",
        "2,000 queries",
    ]
    assert (counted(1, "more issue"), counted(2, "more issue")) == ("1 more issue", "2 more issues")


def test_no_noun_is_in_the_plural_whatever_its_number():
    found = {
        f"{path.relative_to(SOURCES)}: {match[0]}"
        for path in SOURCES.rglob("*.py")
        for match in UNCOUNTED.finditer(path.read_text("utf-8"))
        if match[0].split()[-1] not in MORE_THAN_ONE and "counted(" not in match[0]
    }
    assert not found
