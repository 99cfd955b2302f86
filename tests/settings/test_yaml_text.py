"""YAML text, read within bounds."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.settings import yaml_text
from secondpass.settings.yaml_text import NotYAMLError, TooLargeError

NOT_YAML = {
    "broken": ("method: [1, 2\n", "not YAML at line 2, column 1"),
    "nested mapping in a line": ("a: b: c", "not YAML at line 1, column 5"),
    "tab": ("method:\n\ttype: graded\n", "not YAML at line 2"),
    "Python object": ("method: !!python/object/apply:os.system ['true']\n", "not YAML at line 1"),
    "Python name": ("method: {type: !!python/name:os.system }\n", "not YAML at line 1"),
    "unknown tag": ("method: !secret x\n", "not YAML at line 1"),
    "key twice": ("a: 1\ndepth: 5\ndepth: 7", "line 3, column 1: the key 'depth' is there twice"),
    "key twice inside": ("method: {type: a, type: b}\n", "the key 'type' is there twice"),
    "equal keys": ("method: {1: a, 0x1: b}", "two keys mean the same"),
    "two documents": ("method: lexical\n---\nmethod: lexical\n", "not YAML at line 2"),
    "unknown alias": ("method: *other\n", "not YAML at line 1"),
    "zero byte": ("method: lexical\x00\n", "not YAML"),
    "deep nesting": ("method: " + "[" * 500, "not YAML: RecursionError"),
    "octal": ("depth: 010", "line 1, column 8: 010 is octal in YAML 1.1 and decimal in 1.2"),
    "octal, in JSON": ('{"depth": -007}', "-007 is octal in YAML 1.1"),
    "octal key": ("010: a", "010 is octal in YAML 1.1"),
    "infinite": ("floor: -1e999", "line 1, column 8: a number that is too large"),
    "beyond floats": ("floor: 1" + "0" * 350, "column 8: a number that is too large"),
    "wrong integer": ("method: !!int abc", "not YAML: ValueError"),
    "empty integer": ("depth: !!int ''", "not YAML: ValueError"),
    "wrong boolean": ("depth: !!bool many", "not YAML: KeyError"),
    "wrong timestamp": ("depth: !!timestamp today", "not YAML: AttributeError"),
    "merged into itself": ("method: &a {<<: *a}", "a mapping is merged into itself"),
    "merged number": ("method: {<<: 5}", "only mappings and lists of them can be merged"),
    "merges of a long list": (
        f"a: &a {{{', '.join(f'k{n}: 1' for n in range(20))}}}\n"
        + "\n".join(f"b{n}: {{<<: [{','.join(['*a'] * 300)}]}}" for n in range(4)),
        "what is merged is too large",
    ),
    "long hexadecimal": ("depth: 0x" + "f" * 5000, "a number of more than 400 characters"),
}


@pytest.mark.parametrize(("text", "message"), NOT_YAML.values(), ids=NOT_YAML)
def test_wrong_text(text, message):
    with pytest.raises(NotYAMLError) as caught:
        yaml_text.parse(text)
    assert message in str(caught.value)


TOO_LARGE = {
    "long text": "method: lexical\n" + "# comment\n" * 30_000,
    "billion laughs": "\n".join(
        ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 6)]
    ),
    "refers to itself": "method: &a {type: graded, llm: *a}\n",
    "nested lists": "order: " + "[" * 100 + "]" * 100,
}


@pytest.mark.parametrize("text", TOO_LARGE.values(), ids=TOO_LARGE)
def test_too_large(text):
    with pytest.raises(TooLargeError, match=r"is too large|is nested more than 64 deep"):
        yaml_text.parse(text)


MERGED = {
    "own keys take precedence": "base: &base {a: 1, b: 1}\nend: {<<: *base, b: 2}",
    "the first of a list does": "a: &a {b: 2}\nb: &b {a: 1, b: 1}\nend: {<<: [*a, *b]}",
    "merges of merges": "a: &a {a: 1, b: 3}\nb: &b {<<: *a, b: 2}\nend: {<<: *b}",
    "before it is read": (
        "end:\n  <<: &b\n    <<: &a {a: 1, b: 0}\n    b: 1\n  b: 2\nbefore: [*b, *a]"
    ),
}


@pytest.mark.parametrize("text", MERGED.values(), ids=MERGED)
def test_merge_keys(text):
    value = yaml_text.parse(text)
    assert value["end"] == {"a": 1, "b": 2}
    assert value.get("before") in (None, [{"a": 1, "b": 1}, {"a": 1, "b": 0}])


def test_equal_merges_are_not_multiplied():
    parts = [f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 5)}]}}" for n in range(1, 14)]
    value = yaml_text.parse("\n".join(["a0: &a0 {k: 1}", *parts]))
    assert value["a13"] == {"k": 1}


def test_values_may_be_merged_twice():
    text = "a: &a {k: 1}\nb: {<<: *a}\nc: {<<: *a, k: 2}"
    assert yaml_text.parse(text) == {"a": {"k": 1}, "b": {"k": 1}, "c": {"k": 2}}


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30))
def test_numbers_of_json_are_numbers(number):
    value = yaml_text.parse(json.dumps({"floor": number, "list": [number]}))
    assert value == {"floor": number, "list": [number]}
    assert type(value["floor"]) is type(number)


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "no", "on", "off", "Yes", "y", "1_000", "1_0.5", "0o8", "0b11", "-0x1", "1:30"),
        *("-1:30", "1:30.5", "2024-01-31", "2024-13-45", "2001-12-14t21:59:43.10-05:00", "="),
    ],
)
def test_words_and_numbers_of_yaml_1_1_are_strings(text):
    assert yaml_text.parse(f"a: {text}\n{text}: 1") == {"a": text, text: 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("true", True), ("False", False), ("~", None), ("", None), ("null", None)),
        *(("0", 0), ("-0", 0), ("+12", 12), ("0x1f", 31), ("0o10", 8), ("-089", -89)),
        *(("0.5", 0.5), ("00.5", 0.5)),
        *(("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("1.5E+2", 150.0), (".inf", math.inf)),
    ],
)
def test_words_and_numbers_of_yaml_1_2(text, value):
    found = yaml_text.parse(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


_WORDS = [
    *("1e5", "1E-3", "0o10", "010", "09", "0x1f", "1_000", "1:30", "0b1", "2001-01-01", "=", "<<"),
    *("yes", "No", "on", "~", "null", "true", ".inf", "-.INF", ".NaN", "+1", "", " a ", "a: b"),
    *("#", "- a", "{{x}}", "a\nb ", "\x85", "\u2028 b", "\ufeff", "\t", "\x07", "!x", "*a", "@"),
]
_TEXTS = st.sampled_from(_WORDS) | st.text(st.characters(exclude_categories=["Cs"]))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(_TEXTS, parts, max_size=3),
    max_leaves=8,
)


@given(_VALUES)
def test_what_is_written_is_read_back(value):
    found = yaml_text.parse(yaml_text.write({"a": value}))
    assert repr(found) == repr({"a": value})


@pytest.mark.parametrize("text", _WORDS)
def test_words_are_written_as_strings(text):
    assert yaml_text.parse(yaml_text.write([text, {text: text}])) == [text, {text: text}]


def test_objects_are_not_written():
    with pytest.raises(NotYAMLError, match="give plain values"):
        yaml_text.write({"a": object()})
