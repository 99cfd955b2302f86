"""Templates: what may stand in them, and what is left out."""

import pytest

from secondpass import ConfigurationError
from secondpass.prompts.template import Prompting, fill

FILLED = [
    ("{a}", {"a": "x"}, "x"),
    ("{a} and {b}", {"a": "x", "b": ""}, "x and"),
    ("no placeholder", {}, "no placeholder"),
    ("one\n\n{a}\n\ntwo", {"a": ""}, "one\n\ntwo"),
    ("one\n\nabout {a}\n\ntwo", {"a": ""}, "one\n\ntwo"),
    ("one\n\nabout {a} {b}\n\ntwo", {"a": "", "b": "x"}, "one\n\nabout  x\n\ntwo"),
    ("{{a}}", {"a": "x"}, "{a}"),
    ('{{"k": {a}}}', {"a": "1"}, '{"k": 1}'),
    ("\n{a}\n", {"a": "x"}, "x"),
    ("one\n\n\n\ntwo", {}, "one\n\ntwo"),
    ("{a}", {"a": "{b} {{c}} {0}"}, "{b} {{c}} {0}"),
    ("{a}\n\n{b}", {"a": "x\n\n{b}", "b": ""}, "x\n\n{b}"),
]


@pytest.mark.parametrize(("template", "values", "filled"), FILLED)
def test_fill(template, values, filled):
    assert fill(template, values).rstrip() == filled


ASKING = "{query} {documents} {reply}"
WRONG = [
    ({"instruction": "{documentz}"}, "no placeholder 'documentz'; did you mean 'documents'"),
    ({"instruction": "{}"}, "no placeholder ''"),
    ({"instruction": "{0}"}, "no placeholder '0'"),
    ({"instruction": "{query.__class__}"}, "no placeholder"),
    ({"instruction": "{query[0]}"}, "no placeholder"),
    ({"instruction": "{count!r}"}, "takes no format"),
    ({"instruction": "{count:>9}"}, "takes no format"),
    ({"instruction": "{count:{lowest}}"}, "takes no format"),
    ({"instruction": "{"}, "is no template"),
    ({"instruction": "}"}, "is no template"),
    ({"instruction": '{"k": 1}'}, "instruction: .*write a literal brace"),
    ({"system": "{role}"}, "no placeholder 'role'"),
    ({"user": "no query {documents}"}, r"user: has to hold \{query\}"),
    ({"user": "{query} alone"}, r"user: has to hold \{documents\} and \{reply\}"),
    ({"user": "{query} {documents}", "system": "Be brief."}, r"user: has to hold \{reply\}"),
    ({"user": ASKING, "instruction": "Take {count}."}, r"instruction: is not shown"),
    ({"user": ASKING, "system": "Hello.", "criteria": ["new"]}, r"criteria: is not shown"),
    ({"system": "Hello.", "guidelines": ["new"]}, r"guidelines: is not shown"),
    ({"user": ASKING, "context": "project"}, r"context: is not shown"),
    ({"criteria": "one string"}, "criteria"),
    ({"guidelines": [1]}, "guidelines"),
    ({"passage_characters": 0}, "passage_characters"),
    ({"context": "nothing of this name"}, "context"),
    ({"instructions": "x"}, "instructions"),
]


@pytest.mark.parametrize(("given_settings", "told"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_wrong_templates(given_settings, told):
    with pytest.raises(ConfigurationError, match=told):
        Prompting(**given_settings)


def test_default_templates_can_be_copied():
    completed = Prompting().completed("You judge relevance.", "Order them.")
    copied = Prompting(system=completed.system, user=completed.user)
    assert copied.completed("Another role.", "Order them.") == completed


@pytest.mark.parametrize("user", ["{{query}} {documents}", "{query} {{documents}}"])
def test_literal_braces(user):
    with pytest.raises(ConfigurationError, match="has to hold"):
        Prompting(user=user)
