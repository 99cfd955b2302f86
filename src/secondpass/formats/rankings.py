"""Rankings as plain values, as DataFrames and in notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from secondpass.candidates import retrieval_score
from secondpass.errors import MissingExtraError
from secondpass.formats.markup import Markup, block, clean, excerpt, paragraph, table
from secondpass.types import Ranked, Ranking

TEXT_LENGTH = 200
"""Characters of a query or a text in a notebook."""

_ROWS = 50
_IDS = 3
_ISSUES = 5


def to_dict(ranking: Ranking, *, text: bool) -> dict[str, Any]:
    """The ranking as plain values; with ``text`` also the query, texts and metadata."""
    record: dict[str, Any] = {"query": ranking.query} if text else {}
    record["ranking"] = [_item(item, text=text) for item in ranking]
    record["report"] = ranking.report.to_dict()
    return record


def _item(item: Ranked, *, text: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "rank": item.rank,
        "id": item.id,
        "position": item.position,
        "status": item.status,
        "score": retrieval_score(item.candidate),
        "rerank_score": item.rerank_score,
        "final_score": item.final_score,
        "stage_scores": list(item.stage_scores),
        "span": item.span and list(item.span),
        "spread": item.spread,
        "probability": item.probability,
    }
    if text:
        record |= {"text": item.text, "metadata": dict(item.candidate.metadata or {})}
    return record


def to_pandas(ranking: Ranking, *, text: bool) -> Any:
    """A DataFrame with a row for each item."""
    columns = ["rank", "id", "position", "status", "score", "rerank_score", "final_score"]
    columns += ["stage_scores", "span", "spread", "probability", *(["text"] if text else [])]
    return data_frame([_item(item, text=text) for item in ranking], columns)


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """A DataFrame of these columns of the rows.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("pandas", "to_pandas") from None
    return pandas.DataFrame([[row[name] for name in columns] for row in rows], columns=[*columns])


def to_repr(ranking: Ranking) -> str:
    """Status, size, method and first ids. Records are logged, so there is no text."""
    report = ranking.report
    noun = "item" if len(ranking) == 1 else "items"
    parts = (
        [f"{len(ranking):,} {noun}"] if report.final else ["interim", f"{len(ranking):,} {noun}"]
    )
    if report.method is not None:
        parts.append(f"method {report.method!r}")
    if report.skipped is not None:
        parts.append(f"skipped {report.skipped.pairs:,}")
    ids = [f"{_id(item)!r}" for item in ranking[:_IDS] if item.id is not None]
    if ids:
        more = ["…"] if len(ranking) > _IDS else []
        parts.append(f"first {', '.join(ids + more)}")
    if report.nothing_relevant:
        parts.append("nothing relevant")
    if left_out := sum(map(len, report.left_out.values())):
        parts.append(f"{left_out:,} left out")
    if report.issues:
        parts.append(f"issues {', '.join(dict.fromkeys(issue.code for issue in report.issues))}")
    return f"<Ranking {report.status}: {'; '.join(parts)}>"


def to_html(ranking: Ranking) -> str:
    """The items as a table: rank, rank before, score, id and the first characters of the text."""
    report = ranking.report
    query = ranking.query[:TEXT_LENGTH] + ("…" if len(ranking.query) > TEXT_LENGTH else "")
    return block(
        "ranking",
        paragraph(Markup(f"<strong>{excerpt(query, None, len(query))}</strong>"), to_repr(ranking)),
        paragraph(*_issues(ranking)) if report.issues else Markup(""),
        table(
            ["#", "was", "score", "id", "text"],
            [
                (item.rank, item.position + 1, _score(item), _id(item), _text(item))
                for item in ranking[:_ROWS]
            ],
            texts=2,
        ),
        paragraph(f"and {len(ranking) - _ROWS:,} more") if len(ranking) > _ROWS else Markup(""),
    )


def _issues(ranking: Ranking) -> Iterator[str]:
    issues = ranking.report.issues
    for issue in issues[:_ISSUES]:
        yield f"{issue.code}: {issue.message}"
    if len(issues) > _ISSUES:
        yield f"and {len(issues) - _ISSUES:,} more issues"


def _score(item: Ranked) -> str:
    score = "" if item.final_score is None else f"{item.final_score:.4f}"
    return score if item.status == "scored" else f"{score} ({item.status})".strip()


def _text(item: Ranked) -> Markup:
    return excerpt(item.text, item.span, TEXT_LENGTH) if isinstance(item.text, str) else Markup("")


def _id(item: Ranked) -> str:
    """The id as text; the type of a foreign object, whose text may be anything."""
    if item.id is None:
        return ""
    return clean(item.id) if isinstance(item.id, str | int) else f"<{type(item.id).__name__}>"
