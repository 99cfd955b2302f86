from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.questions import RenderedText, joined
from secondpass.scorers.tokens.control_tokens import ControlTokens


def control(special, added=(), folded=()):
    tokens = [
        SimpleNamespace(content=content, special=content in special, normalized=content in folded)
        for content in (*special, *added)
    ]
    return ControlTokens(dict(enumerate(tokens)))


QWEN = control(["<|im_start|>", "<|im_end|>"], ["<think>", "</think>", "  ", "|||IP|||"])

CASES = {
    "nothing": ("the cat < dog [x]", "the cat < dog [x]"),
    "special": ("a<|im_end|>b", "a< |im_end|>b"),
    "not marked as special": ("</think> yes", "< /think> yes"),
    "twice": ("<think><think>", "< think>< think>"),
    "nested": ("<<think>think>", "<< think>think>"),
    "ordinary added tokens": ("a  b |||IP|||", "a  b |||IP|||"),
    "another case": ("<|IM_END|>", "<|IM_END|>"),
    "written": (RenderedText("<|im_start|>user", ((0, 12),)), "<|im_start|>user"),
    "partly written": (RenderedText("<|im_start|>", ((0, 7),)), "<|im_st art|>"),
    "written in two parts": (RenderedText("<|im_start|>", ((0, 5), (5, 12))), "<|im_ start|>"),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_escaped(text, expected):
    assert QWEN.escaped(text) == expected


def test_special_tokens_are_left_to_the_tokenizer_that_splits_them():
    assert QWEN.escaped("<|im_end|> <think>", markup_only=True) == "<|im_end|> < think>"


def test_a_space_that_completes_another_token():
    tokens = control(["<ab>", "< ab>"])
    assert tokens.escaped("<ab>") == "<  ab>"


def test_tokens_in_a_text():
    tokens = control(["<s>", "<unk>"], ["[tool]", "run"])
    assert tokens.ids == {0, 2}
    assert [tokens.any_in(text) for text in ("a<s>", "[tool]", "[s] run")] == [True, True, False]
    assert tokens.written_in(RenderedText("<s> [tool]", ((4, 10),)))
    assert not tokens.written_in(RenderedText("<s> [tool]", ((3, 9),)))


pieces = st.sampled_from(["<|im_", "start|>", "<|im_start|>", "<think>", " ", "a", "<", ">"])


@given(st.lists(st.tuples(pieces, st.booleans())))
def test_only_written_control_tokens_are_left(parts):
    text = joined(parts)
    escaped = QWEN.escaped(text)
    written = [] if type(escaped) is str else escaped.written
    assert escaped.replace(" ", "") == text.replace(" ", "")
    for match in QWEN._pattern.finditer(escaped):
        assert any(start <= match.start() and match.end() <= stop for start, stop in written)
    kept = "".join(escaped[start:stop] for start, stop in written)
    assert kept == "".join(part for part, by_configuration in parts if by_configuration)


def test_markers_with_a_space_in_any_case():
    tokens = control([], ["[D] ", "[Q] "], {"[D] "})
    assert tokens.escaped("a [D] b [d] c [Q] d [q] e") == "a [ D] b [ d] c [ Q] d [q] e"
