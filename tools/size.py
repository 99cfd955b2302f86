"""Prints how much there is between a caller and the work.

python tools/size.py
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from secondpass import Reranker
from secondpass.candidates import to_request
from secondpass.effects import Ask

_PASSAGES = [f"passage {number}" for number in range(30)]


def nested_generators() -> int:
    """How many generators a question of ``listwise`` passes, from the method to the scheduler."""
    reranker = Reranker({"type": "listwise", "llm": lambda _messages: "[]"})
    (item,) = reranker._passes(
        [to_request("query", _PASSAGES, text_needed=True)], reranker._settings({})
    )
    generator: Generator[Any, Any, Any] | None = item.plan
    if not isinstance(next(item.plan), Ask):
        raise AssertionError("the first effect is no question")
    number = 0
    while generator is not None:
        number += 1
        generator = getattr(generator, "gi_yieldfrom", None)
    item.plan.close()
    return number


def main() -> None:
    """Print the figures."""
    print(f"nested generators of a listwise question: {nested_generators()}")


if __name__ == "__main__":
    main()
