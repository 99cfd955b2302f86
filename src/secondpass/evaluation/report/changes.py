"""Queries that changed, with their documents before and after, for a comparison's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from secondpass.evaluation.report.parts import escape, name

if TYPE_CHECKING:
    from secondpass.evaluation.comparison import Change, Shown


_CUT = 200
"""Characters of a document, at most, that a comparison keeps."""


def change(measure: str, one: Change) -> str:
    """A query, its values, and its best documents side by side; closed until it is opened."""
    delta = one.after - one.before
    tone = "gain" if delta > 0 else "loss"
    values = f"{one.before:.3f} \N{RIGHTWARDS ARROW} {one.after:.3f}"
    return "\n".join(
        [
            "<details>",
            f'<summary>{name(one.text)} <span class="of">({name(one.query)})</span> '
            f'<b class="{tone}">{name(measure)} {values} ({delta:+.3f})</b></summary>',
            '<div class="lists">',
            _documents("Before", one.top_before, "goes to", "goes out of the list"),
            _documents("After", one.top, "came from", "was not in the list"),
            "</div>",
            "</details>",
        ]
    )


def _documents(title: str, documents: Sequence[Shown], moved: str, absent: str) -> str:
    lines = [f"<div>\n<h4>{title}</h4>\n<ol>"]
    for one in documents:
        if one.before is None:
            told = absent
        elif one.before == one.rank:
            told = "stays"
        else:
            told = f"{moved} {one.before}"
        lines.append(
            f'<li value="{one.rank}"><p>{_judged(one.relevance)} '
            f'<code>{name(one.id)}</code> <span class="of">{told}</span></p>'
            f'<p dir="auto">{escape(one.text)}{_more(one.text)}</p></li>'
        )
    if not documents:
        lines.append("<li>nothing</li>")
    return "\n".join([*lines, "</ol>\n</div>"])


def _more(text: str) -> str:
    return "\N{HORIZONTAL ELLIPSIS}" if len(text) >= _CUT else ""


def _judged(relevance: int | None) -> str:
    if relevance is None:
        return '<span class="badge">not judged</span>'
    if relevance <= 0:
        return '<span class="badge">not relevant</span>'
    return f'<span class="badge relevant">relevant: {relevance}</span>'
