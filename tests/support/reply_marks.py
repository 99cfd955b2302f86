"""The marks of thinking that are known, as models write them."""

from __future__ import annotations

from collections.abc import Iterator

from secondpass.prompts.replies.thinking import read_notations


def _pairs() -> Iterator[tuple[str, str]]:
    notations = read_notations()
    for tag in notations["tags"]:
        name = tag.replace("*", "51bce0c785ca2f68081bfa7d91973934")
        yield f"<{name}>", f"</{name}>"
    for roles in notations["marks"].values():
        for start in [*roles.get("start", ()), *roles.get("opening", ())]:
            for end in [*roles.get("end", ()), *roles.get("answer", ())]:
                yield start.replace("*", ""), end.replace("*", " json")


MARKS = [*_pairs()]
"""The marks that start and end thinking, of each notation. Some need a capital behind them."""
