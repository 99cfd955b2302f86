"""Values of questions: windows, estimates, and what is not shown."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.questions import (
    Completion,
    Prompt,
    Recall,
    RenderedText,
    Turn,
    Windows,
    affixes,
    cut,
    joined,
    sliced,
    text_key,
    written_spans,
)


@pytest.mark.parametrize(
    ("body", "span", "shown"),
    [((0, 6), (2, 4), "cd"), ((2, 4), (2, 3), "abcef"), ((2, 6), (4, 6), "abef")],
)
def test_the_text_of_a_window_has_what_is_around_the_body(body, span, shown):
    assert Windows([span], body).text("abcdef", span) == shown


def test_texts_are_not_shown():
    for value in (
        Turn("user", "which owl"),
        Prompt("which owl", (Turn("user", "which owl"),), {"owl": 1}),
        Completion("which owl", logprobs=[{"owl": -1.0}]),
        Recall(lambda: "owl", str, str),
    ):
        assert "owl" not in repr(value)


# ---------------------------------------------------------------------- rendered texts

PARTS = st.lists(st.tuples(st.text("abc", max_size=4), st.booleans()), max_size=6)


def origins(text):
    """Each character, and whether the configuration wrote it."""
    written = {place for start, stop in written_spans(text) for place in range(start, stop)}
    return [(character, place in written) for place, character in enumerate(text)]


def of_parts(parts):
    return [(character, written) for part, written in parts for character in part]


@given(PARTS, st.data())
def test_ranges_of_a_text_keep_what_the_configuration_wrote(parts, data):
    text = joined(parts)
    assert origins(text) == of_parts(parts)
    bound = st.integers(0, len(text))
    ranges = [tuple(sorted((data.draw(bound), data.draw(bound)))) for _ in range(2)]
    expected = [item for start, stop in ranges for item in origins(text)[start:stop]]
    assert origins(sliced(text, *ranges)) == expected


@given(st.text("ab", max_size=3), st.text("cd", max_size=9), st.text("ef", max_size=3))
def test_prefix_and_suffix_are_never_cut(prefix, body, suffix):
    text = joined([(prefix, True), (body, False), (suffix, True)])
    if body:
        assert affixes(text) == (len(prefix), len(suffix))
    for length in range(len(text) + 2):
        kept = max(length - len(prefix) - len(suffix), 0)
        assert origins(cut(text, length)) == of_parts(
            [(prefix, True), (body[:kept], False), (suffix, True)]
        )


def test_rendered_texts_are_strings():
    text = RenderedText("abc", ((0, 1),))
    assert (text, str(text), type(str(text))) == ("abc", "abc", str)
    copy = pickle.loads(pickle.dumps(text))
    assert (copy, copy.written) == ("abc", ((0, 1),))
    keys = {text_key(text), text_key("abc"), text_key(RenderedText("abc", ((0, 2),)))}
    assert len(keys) == 3
