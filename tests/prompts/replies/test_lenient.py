"""Almost-JSON: what is read, and that nothing is guessed."""

import pytest

from secondpass.prompts.replies import json_text as lenient
from secondpass.prompts.replies.json_text import MAX_LENGTH, JsonObject, lex, parse

needs_json_repair = pytest.mark.skipif(
    lenient.json_repair_loads() is None, reason="needs json-repair"
)


def read(text, longest=MAX_LENGTH):
    return parse(lex(text, 0, longest))


READ = [
    ('{"a": 1,}', {"a": 1}),
    ("{'a': 1, 'b': 'c'}", {"a": 1, "b": "c"}),
    ("{a: 1, b: c}", {"a": 1, "b": "c"}),
    ("[True, False, None, null]", [True, False, None, None]),
    ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
    ("[1 2]", [1, 2]),
    ('["a", // the best\n"b"]', ["a", "b"]),
    ('["a", /* of two */ "b"]', ["a", "b"]),
    ("\u007b\u201ca\u201d: 1}", {"a": 1}),
    ("['it\\'s']", ["it's"]),
    ("[007]", ["007"]),
]


@needs_json_repair
@pytest.mark.parametrize(("text", "value"), READ, ids=[row[0] for row in READ])
def test_read(text, value):
    assert read(text) == value


REFUSED = [
    '{"a": 1',
    "[1, 2",
    "{]",
    '{"a": }',
    "[1,, 2]",
    "[, 1]",
    '["a": 1]',
    "[...]",
    "['a\\x']",
    '[1, // {"b": 2}\n3]',
    "[" * 13 + "]" * 13,
    "text",
    "",
]


@pytest.mark.parametrize("text", REFUSED, ids=ascii)
def test_refused(text):
    assert lex(text, 0, MAX_LENGTH).tokens is None
    assert read(text) is None


def test_where_it_ends():
    lexed = lex("so: {a: 'b'} and [1]", 4, MAX_LENGTH)
    assert lexed.end == len("so: {a: 'b'}")
    assert lexed.text == '{ "a" : "b" }'


@needs_json_repair
def test_keys_that_occur_twice_are_refused():
    assert read('{"a": 1, "a": 2,}') is None
    assert isinstance(read("{'a': {'b': 1}}")["a"], JsonObject)


def test_a_guess_is_refused(monkeypatch):
    for guess in ({"a": 2}, {"a": 1, "b": 1}, {"a": "1"}, {"a": True}, [1], None):
        monkeypatch.setattr(
            lenient, "json_repair_loads", lambda guess=guess: lambda *_a, **_k: guess
        )
        assert read("{a: 1}") is None
    monkeypatch.setattr(lenient, "json_repair_loads", lambda: lambda *_a, **_k: {"a": 1})
    assert read("{a: 1}") == {"a": 1}


def test_whatever_json_repair_raises(monkeypatch):
    def raising(*_arguments, **_options):
        raise RecursionError

    monkeypatch.setattr(lenient, "json_repair_loads", lambda: raising)
    assert read("{a: 1}") is None


def test_without_json_repair_nothing_is_read(monkeypatch):
    monkeypatch.setattr(lenient, "json_repair_loads", lambda: None)
    assert lenient.json_repair_loads() is None
    assert read("{'a': 1}") is None
