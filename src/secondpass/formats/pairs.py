"""Pairs of a query and a passage as JSON lines; other keys are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from secondpass.formats.errors import FormatError
from secondpass.formats.lines import AnyPath, Line, read_json_lines
from secondpass.settings import describe


def read_pairs(path: AnyPath) -> list[tuple[str, str]]:
    """The (query, text) pairs of lines with ``query`` and ``text``."""
    return [(record["query"], record["text"]) for _, record in _pairs(path, "")]


def read_scored_pairs(path: AnyPath) -> list[tuple[str, str, float]]:
    """The (query, text, score) triples of lines with ``query``, ``text`` and ``score``."""
    pairs = []
    for line, record in _pairs(path, ', "score": 1.5'):
        score = record.get("score")
        if not isinstance(score, int | float) or isinstance(score, bool):
            raise line.error(f"'score' must be a number, not {describe(score)}")
        pairs.append((record["query"], record["text"], float(score)))
    return pairs


def _pairs(path: AnyPath, more: str) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The lines, whose query and text are texts; ``more`` is what else a line has."""
    line = None
    for line, record in read_json_lines(path):
        for key in ("query", "text"):
            value = record.get(key)
            if not isinstance(value, str) or not value.strip():
                raise line.error(f"{key!r} must be a text that is not empty, not {describe(value)}")
        yield line, record
    if line is None:
        example = f'{{"query": "…", "text": "…"{more}}}'
        raise FormatError(path, None, f"has no pairs: lines such as {example}")
