"""The report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from secondpass.markup import clean
from secondpass.settings import counted
from secondpass_evaluation.report.not_measured import without_figures
from secondpass_evaluation.report.tables import corrected, overview, tables
from secondpass_evaluation.report.text import NONE, Table
from secondpass_evaluation.report.verdict import verdict
from secondpass_evaluation.results import Change, ComparisonData, Shown
from secondpass_evaluation.texts import shortened

_MARKUP = re.compile(r"[\\`*_\[\]>|!&~]|<(?! )")  # "<" before a space begins no tag
_DOCUMENTS = 3
_TEXT_LENGTH = 100


def report(comparison: ComparisonData, *, details: bool = True) -> str:
    """The verdict, the tables, and the queries that changed most."""
    queries = counted(len(comparison.queries), "query", "queries")
    parts = [f"# {escaped(comparison.suite)}: {queries}"]
    outcome = verdict(comparison)
    parts.append(f"**{escaped(outcome.answer)}** {escaped(outcome.because)}")
    parts += [f"> {escaped(note)}" for note in comparison.notes]
    if not details:
        if (brief := overview(comparison)).rows:
            parts += [*map(escaped, brief.notes), table_text(brief)]
        if (brief := corrected(comparison, first_only=True)).rows:
            parts += [*map(escaped, brief.notes), table_text(brief)]
        # The verdict has the reasons of rerankers.
        parts += map(escaped, without_figures(comparison, stages=True))
        return "\n\n".join(parts) + "\n"
    for table in tables(comparison):
        parts += [f"## {escaped(table.title)}", *map(escaped, table.notes)]
        if table.rows:
            parts.append(table_text(table))
    for result in comparison.ran:
        for word, changes in (("better", result.gains), ("worse", result.losses)):
            if changes:
                parts.append(f"## Queries that {escaped(result.name)} makes {word}")
                parts.append("\n".join(_changes(comparison.measures[0], changes)))
    return "\n\n".join(parts) + "\n"


def table_text(table: Table) -> str:
    """A table as Markdown."""
    rules = [" --- " if column.kind == "text" else " ---: " for column in table.columns]
    lines = [_line(escaped(column.title) for column in table.columns), f"|{'|'.join(rules)}|"]
    for cells in table.rows:
        texts = [(escaped(cell.text), cell.best) for cell in cells]
        lines.append(_line(f"**{text}**" if best else text for text, best in texts))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _changes(measure: str, changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        values = f"{escaped(measure)} {change.before:.3f} → {change.after:.3f}"
        yield f"- **{escaped(change.text)}** ({escaped(change.query)}): {values}"
        for item in change.top[:_DOCUMENTS]:
            yield f"    {item.rank}. {_document(item, item.before)}"
        for item in change.top[_DOCUMENTS:]:
            if item.relevance and item.before != item.rank:
                yield f"    - rank {item.rank} {_document(item, item.before)}"
        listed = {item.id for item in change.top}
        for item in change.top_before:
            if item.relevance and item.before is None and item.id not in listed:
                yield f"    - not in the list {_document(item, item.rank)}"


def _document(item: Shown, before: int | None) -> str:
    """A document with its rank in the first stage, its judgement and its text."""
    judged = "not judged" if item.relevance is None else f"relevance {item.relevance}"
    text = escaped(shortened(item.text, _TEXT_LENGTH))
    was = NONE if before is None else str(before)
    return f"(was {was}; {judged}) **{escaped(item.id)}** {text}"


def escaped(text: object) -> str:
    """The text on one line, without any markup: no image, link or tag, and no control characters.

    The report is also printed on terminals.
    """
    return _MARKUP.sub(r"\\\g<0>", " ".join(clean(text).split()))
