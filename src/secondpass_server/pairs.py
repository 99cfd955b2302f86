"""Query-passage pairs in a file."""

from __future__ import annotations

from secondpass.formats.errors import FormatError
from secondpass.formats.lines import AnyPath, read_json_lines
from secondpass.settings import describe


def read_pairs(path: AnyPath) -> list[tuple[str, str]]:
    """Read pairs from JSON lines with ``query`` and ``text``, both strings; other keys are ignored.

    Returns:
        (query, text) pairs in the order of the file.

    Raises:
        FormatError: a line is malformed, or there is none.
        OSError: the file cannot be read.
    """
    pairs = []
    for line, record in read_json_lines(path):
        for key in ("query", "text"):
            value = record.get(key)
            if not isinstance(value, str) or not value.strip():
                raise line.error(f"{key!r} must be a text that is not empty, not {describe(value)}")
        pairs.append((record["query"], record["text"]))
    if not pairs:
        raise FormatError(path, None, 'has no pairs: lines such as {"query": "…", "text": "…"}')
    return pairs
