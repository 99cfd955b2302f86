import pytest

from secondpass.questions import RenderedText
from secondpass.scorers.tokens.control_tokens import ControlTokens
from secondpass.scorers.torch.texts import as_characters, count_tokens, shortened
from tiny_models import unigram


class Words:
    """A tokenizer whose tokens are words."""

    truncation_side = "right"

    def __init__(self, *, is_fast=True):
        self.is_fast = is_fast

    def __call__(self, text, *, return_offsets_mapping=False, **settings):
        assert type(text) is str
        assert return_offsets_mapping is False or self.is_fast
        offsets, place = [], 0
        for word in text.split():
            place = text.index(word, place)
            offsets.append((place, place + len(word)))
            place += len(word)
        return {"input_ids": [0] * len(offsets), "offset_mapping": offsets}


FRAMED = RenderedText("P: one two three four :S", ((0, 3), (21, 24)))

CASES = {
    "nothing": ("one two", 0, "one two"),
    "plain": ("one two three", 1, "one two"),
    "prefix and suffix stay": (FRAMED, 2, "P: one two :S"),
    "all of the body": (FRAMED, 9, "P:  :S"),
}


@pytest.mark.parametrize(("text", "tokens", "expected"), CASES.values(), ids=CASES)
def test_shortened(text, tokens, expected):
    assert shortened(Words(), text, tokens) == expected
    assert count_tokens(Words(), "one two") == 2


def test_from_the_left():
    words = Words()
    words.truncation_side = "left"
    assert shortened(words, FRAMED, 2) == "P: three four :S"


def test_a_tokenizer_without_positions_cuts_characters():
    text = shortened(Words(is_fast=False), FRAMED, 2)
    assert text.startswith("P: one")
    assert text.endswith(":S")
    assert len(text) < len(FRAMED)


def fast(path):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_file=str(path))


@pytest.mark.parametrize("text", ["cat </s>", "a \uff1c/s\uff1e", "</s>"])
def test_pieces_that_are_control_tokens(tmp_path, text):
    tokenizer = fast(unigram(tmp_path / "tokenizer.json"))
    control = ControlTokens(tokenizer.added_tokens_decoder)
    for split in (True, False):
        tokenizer.split_special_tokens = split
        escaped = as_characters(tokenizer, control, text)
        ids = tokenizer(escaped, add_special_tokens=False)["input_ids"]
        assert not {0, 1, 2} & {*ids}
        assert as_characters(tokenizer, control, "cat < s") == "cat < s"
    assert as_characters(Words(is_fast=False), control, text) == text
