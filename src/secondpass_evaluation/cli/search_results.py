"""The results of ``secondpass query`` as records and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from secondpass.cli.console import escaped, from_span, one_line, result_console
from secondpass.runtime.explanations import Explanation
from secondpass.types import Candidate, Ranking


def retrieved_rows(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """A record for each candidate."""
    return [_row(candidate, rank) for rank, candidate in enumerate(candidates, 1)]


def reranked_rows(ranking: Ranking) -> list[dict[str, Any]]:
    """A record for each item."""
    return [
        {
            **_row(item.candidate, item.rank),
            "retrieval_rank": item.position + 1,
            "rerank_score": item.rerank_score,
            "final_score": item.final_score,
            "status": item.status,
            **({} if item.span is None else {"span": list(item.span)}),
            **({} if item.spread is None else {"spread": item.spread}),
        }
        for item in ranking
    ]


def _row(candidate: Candidate, rank: int) -> dict[str, Any]:
    return {
        "final_rank": rank,
        "id": candidate.id,
        "score": candidate.score,
        "text": candidate.text,
        "metadata": dict(candidate.metadata),
    }


def print_table(
    rows: Sequence[Mapping[str, Any]], explanations: Sequence[Explanation] = ()
) -> None:
    """Print records as a table, and the explanations below it."""
    console = result_console()
    if rows:
        console.print(_table(rows))
    else:
        console.print("No results.")
    for explanation in explanations:
        console.print(Text(f"{escaped(str(explanation))}\n"))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    reranked = "rerank_score" in rows[0]
    for heading in ("#", "was", "score", "reranked", "final") if reranked else ("#", "score"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows:
        cells = [str(row["final_rank"]), _number(row["score"])]
        if reranked:
            cells.insert(1, str(row["retrieval_rank"]))
            cells += [_number(row["rerank_score"]), _number(row["final_score"])]
        table.add_row(*cells, _passage(row))
    return table


def _passage(row: Mapping[str, Any], max_length: int = 240) -> Text:
    title = row["metadata"].get("title")
    text = one_line(from_span(str(row["text"]), row.get("span")))
    if len(text) > max_length:
        text = text[:max_length].rsplit(" ", 1)[0] + " …"
    cell = Text(one_line(str(row["id"])), style="bold")
    if title:
        cell.append(f"  {one_line(str(title))}", style="not bold cyan")
    return cell.append(f"\n{text}", style="not bold")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
