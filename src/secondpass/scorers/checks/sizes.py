"""Whether a model, its tokenizer and its settings fit each other, by their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from secondpass.errors import ModelLoadError

_POSITIONS_AFTER_PADDING = {
    "camembert",
    "data2vec-text",
    "ibert",
    "layoutlmv3",
    "lilt",
    "longformer",
    "luke",
    "markuplm",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
}
"""Kinds of models whose first token has the position of the padding token's id plus one."""
_OWN_WORDS, _LETTERS, _LEAST_WORDS = 40, 3, 5


def whole(value: object) -> int | None:
    """A size from a configuration; None if it is absent or stands for "no limit"."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return int(value)
    return None


def skipped_positions(config: Mapping[str, Any]) -> int:
    """The number of positions before that of the first token, by a model's configuration."""
    kind = config.get("model_type")
    if kind not in _POSITIONS_AFTER_PADDING:
        return 0
    padding = 1 if kind == "mpnet" else whole(config.get("pad_token_id", 1))
    return (0 if padding is None else padding) + 1


def check_length(name: str, max_length: int | None, positions: int | None) -> None:
    """Check that a model has a position for each token of the setting ``max_length``."""
    if max_length is not None and positions is not None and max_length > positions:
        raise ModelLoadError(
            f"max_length {max_length} is more than the {positions} positions of the model {name!r}"
        )


def check_size(name: str, tokens: int, rows: int) -> None:
    """Check that a tokenizer knows at least half of the tokens for which a model has vectors."""
    if tokens < rows / 2:
        raise ModelLoadError(
            f"the model {name!r} has {rows} token vectors, and its tokenizer only {tokens} tokens: "
            "it is damaged, or the tokenizer of another model"
        )


def check_own_words(
    name: str,
    size: int,
    token_of: Callable[[int], str | None],
    read: Callable[[str], Sequence[int]],
) -> None:
    """Check that a tokenizer reads words of its vocabulary as such: one of some at least."""
    words = 0
    for number in range(0, size, max(1, size // _OWN_WORDS)):
        word = (token_of(number) or "").lstrip("▁Ġ")
        if len(word) < _LETTERS or not word.isalpha():
            continue
        words += 1
        if number in read(word) or number in read(f" {word}"):
            return
    if words >= _LEAST_WORDS:
        raise ModelLoadError(
            f"the tokenizer of the model {name!r} reads no word of its own vocabulary: its files "
            "do not fit each other"
        )
