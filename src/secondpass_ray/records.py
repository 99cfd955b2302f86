"""Rows of Arrow tables as JSON texts of requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

from secondpass.formats.errors import FormatError

REQUEST = "request"
"""Column with the JSON text of a request."""


def record_texts(table: Any, source: str, line: int) -> Iterator[bytes | FormatError]:
    """The JSON text of each row of an Arrow table, the first of which has the number ``line``."""
    for index in range(table.num_rows):
        # One by one, so that a value that Python cannot represent fails only its own row.
        try:
            (record,) = table.slice(index, 1).to_pylist(maps_as_pydicts="strict")
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            problem = f"Python cannot hold its values ({type(error).__name__})"
            yield FormatError(source, line + index, problem)
        else:
            yield record_text(record, source, line + index)


def record_text(record: Mapping[str, Any], source: str, line: int) -> bytes | FormatError:
    """The JSON text of a row of columns, or the error if it has none.

    A column ``request`` has the text already. Otherwise the columns are the keys of a request, and
    a null means that the key is absent, since all rows have the same columns.
    """
    text = record.get(REQUEST)
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return json.dumps(_present(record), allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"JSON cannot hold its values ({type(error).__name__})"
        return FormatError(source, line, problem)


def _present(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _present(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_present(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "tolist"):  # an array or a number of numpy
        return value.tolist()
    raise TypeError
