"""Prints the estimates of ``--dry-run``: calls, tokens and cost, per model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from secondpass.asking.expected_use import Expected, merged, total
from secondpass.cli.console import (
    info,
    one_line,
    print_json,
    result_console,
)
from secondpass.cli.tables import plain_table
from secondpass.reranker import Reranker
from secondpass.settings import counted
from secondpass.types import Request

TOKENS = (
    "Tokens are an estimate: four bytes each, without retries, fallbacks and reasoning tokens. "
    "Cost is in the currency of `prices`"
)
NOTE = f"dry run: no model was called. {TOKENS}"


@dataclass(frozen=True)
class Estimate:
    """What ranking requests is estimated to take."""

    queries: int
    candidates: int
    uses: Sequence[Expected]


def estimated(
    reranker: Reranker, requests: Iterable[tuple[Request, Mapping[str, Any]]]
) -> Estimate:
    """Estimate the ranking of requests with their call options."""
    queries = candidates = 0
    uses: list[Expected] = []
    for request, options in requests:
        uses = merged([*uses, *reranker.expected_use([request], **options)])
        queries += 1
        candidates += len(request.candidates)
    return Estimate(queries, candidates, uses)


def print_estimate(estimate: Estimate, *, as_json: bool) -> None:
    """Print the estimated calls, tokens and cost; no progress bar may be on screen."""
    queries, candidates, uses = estimate.queries, estimate.candidates, estimate.uses
    if as_json:
        print_json(
            {"dry_run": True, "queries": queries, "candidates": candidates, **use_record(uses)}
        )
    else:
        print_use_table({"": uses})
    info(f"{counted(queries, 'query', 'queries')}, {counted(candidates, 'candidate')}. {NOTE}")


def use_record(uses: Sequence[Expected]) -> dict[str, Any]:
    models = [{"model": use.model, **_numbers(use)} for use in merged(uses)]
    return {"models": models, "total": total_record(uses)}


def total_record(uses: Sequence[Expected]) -> dict[str, Any]:
    return _numbers(total(uses))


def _numbers(use: Expected) -> dict[str, Any]:
    return {
        "calls": use.calls,
        "pairs": use.pairs,
        "input_tokens": _whole(use.input_tokens),
        "output_tokens": _whole(use.output_tokens),
        "cost": use.cost,
    }


def print_use_table(systems: Mapping[str, Sequence[Expected]]) -> None:
    named = any(systems)
    headings = ["system", "model"] if named else ["model"]
    table = plain_table(
        *headings,
        numbers=["calls", "pairs", "tokens in", "tokens out", "cost"],
    )
    rows = [(name, use) for name, uses in systems.items() for use in uses]
    if len(rows) > 1:
        rows.append(("", total(use for _, use in rows)))
    for name, use in rows:
        cells = [one_line(name)] if named else []
        cells += [one_line(use.model), f"{use.calls:,}", f"{use.pairs:,}"]
        cells += [shown_tokens(use.input_tokens), shown_tokens(use.output_tokens)]
        cells.append("" if use.cost is None else f"{use.cost:.4g}")
        table.add_row(*cells)
    if rows:
        result_console().print(table)


def shown_tokens(tokens: float | None) -> str:
    return "" if tokens is None else f"{_whole(tokens):,}"


def _whole(tokens: float | None) -> int | None:
    return None if tokens is None else math.ceil(tokens)
