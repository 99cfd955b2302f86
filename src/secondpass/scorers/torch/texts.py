"""Texts for tokenizers of transformers: counts of tokens, and cuts that spare prefix and suffix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secondpass.questions import affixes, cut, sliced
from secondpass.scorers.tokens.control_tokens import ControlTokens, Tokens
from secondpass.scorers.tokens.pair_tokenizer import are_more_than_letters, longest_first

CUTS = 8
"""Attempts to make a text fit: the tokens at a cut change with it."""


def count_tokens(tokenizer: Any, text: str) -> int:
    """The number of tokens of a text, without special tokens around it."""
    return len(_encoded(tokenizer, text)["input_ids"])


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text, without special tokens around it."""
    return list(_encoded(tokenizer, text)["input_ids"])


def knows(tokenizer: Any, word: str) -> bool:
    """Whether a vocabulary knows a word, and not only its letters; True without a tokenizer."""
    if tokenizer is None:
        return True
    ids = _encoded(tokenizer, word)["input_ids"]
    known = getattr(tokenizer, "unk_token_id", None) not in ids
    return known and are_more_than_letters(word, len(ids))


def shortened(tokenizer: Any, text: str, tokens: int) -> str:
    """Cut a number of tokens off a text, between the prefix and suffix of the configuration.

    The result may have a few tokens more or less, because those at the cut change. A tokenizer in
    Python has no positions, so characters are counted.
    """
    if tokens <= 0:
        return text
    head, tail = affixes(text)
    end = len(text) - tail
    from_left = getattr(tokenizer, "truncation_side", "right") == "left"
    if not getattr(tokenizer, "is_fast", False):
        share = tokens / max(1, count_tokens(tokenizer, text))
        size = min(end - head, max(1, round(len(text) * share)))
    else:
        offsets = _encoded(tokenizer, text, return_offsets_mapping=True)["offset_mapping"]
        body = [(start, stop) for start, stop in offsets if start >= head and stop <= end]
        if tokens >= len(body):
            size = end - head
        elif from_left:
            size = body[tokens][0] - head
        else:  # after the token before, or a space would be left that is a token of its own
            size = end - body[-tokens - 1][1]
    if from_left:
        return sliced(text, (0, head), (head + size, len(text)))
    return cut(text, len(text) - size)


def cut_pair(
    tokenizer: Any, query: str, passage: str, excess: int, *, spares_query: bool
) -> tuple[str, str]:
    """Cut tokens off the longer of two texts, or off the passage if a quarter is left for it."""
    first, second = (count_tokens(tokenizer, text) for text in (query, passage))
    room = max(0, first + second - excess)
    kept = longest_first(first, second, room)
    if spares_query and first <= 3 * room // 4:
        kept = first, room - first
    return (
        shortened(tokenizer, query, first - kept[0]),
        shortened(tokenizer, passage, second - kept[1]),
    )


def as_characters(tokenizer: Any, control: ControlTokens, text: str) -> str:
    """The text with spaces in what the tokenizer would read as control tokens of its content."""
    if not getattr(tokenizer, "is_fast", False) or not control.is_suspect(text):
        return text

    def encode(text: str) -> Tokens:
        encoded = _encoded(tokenizer, text, return_offsets_mapping=True)
        return encoded["input_ids"], encoded["offset_mapping"]

    return control.read(text, encode)[0]


def as_messages(encoder: Any, query: str, passage: str) -> list[Any]:
    """A pair for the chat template of a cross-encoder, marked as texts.

    Of a plain string, sentence-transformers opens or fetches what looks like the path or the
    address of a picture.
    """
    to_message = encoder[0].input_formatter.to_message
    texts = {"query": query, "document": passage}
    return [
        message for role, text in texts.items() for message in to_message({"text": text}, role=role)
    ]


def as_inputs(encoder: Any, texts: Sequence[str]) -> list[Any]:
    """Texts for an encoder of sentence-transformers, marked as such unless it reads only texts.

    As for :func:`as_messages`, a plain string may be taken for a picture.
    """
    if getattr(encoder, "modalities", ["text"]) == ["text"]:
        return [*texts]
    return [{"text": text} for text in texts]


def _encoded(tokenizer: Any, text: str, **settings: Any) -> Any:
    # Not `verbose`, or transformers warns of texts that are longer than the model reads.
    return tokenizer(
        str(text), add_special_tokens=False, truncation=False, verbose=False, **settings
    )
