"""Prints the estimates of ``--dry-run``: calls, tokens and cost, per model."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from secondpass.cli.console import info, on_terminal, one_line, print_json, result_console, warn
from secondpass.reranker import Reranker
from secondpass.runtime.dry_run import Expected, merged, total
from secondpass.types import Request
from secondpass_evaluation.dry_run import ExpectedComparison, expected_use

_TOKENS = "Tokens are estimated at four bytes each, and without retries, fallbacks and reasoning"
_NOTE = f"dry run: no model was called. {_TOKENS}"


def print_dry_run(
    reranker: Reranker, requests: Iterable[tuple[Request, Mapping[str, Any]]], *, as_json: bool
) -> None:
    """Print calls, tokens and cost that ranking these requests is estimated to take.

    Args:
        reranker: what would rank them.
        requests: with their call options.
        as_json: whether to write JSON on a terminal, too.
    """
    queries = candidates = 0
    uses: list[Expected] = []
    for request, options in requests:
        uses = merged([*uses, *expected_use(reranker, [request], **options)])
        queries += 1
        candidates += len(request.candidates)
    if as_json or not on_terminal(sys.stdout):
        print_json({"dry_run": True, "queries": queries, "candidates": candidates, **_record(uses)})
    else:
        _print_table({"": uses})
    info(f"{_count(queries, 'query', 'queries')}, {_count(candidates, 'candidate')}. {_NOTE}")


def print_comparison(
    expected: ExpectedComparison, not_run: Mapping[str, str], *, as_json: bool
) -> None:
    """Print calls, tokens and cost that a comparison is estimated to take.

    Args:
        expected: as estimated.
        not_run: why other rerankers cannot be created, by name.
        as_json: whether to write JSON on a terminal, too.
    """
    not_run = {**expected.not_run, **not_run}
    for name, reason in not_run.items():
        warn(f"{name} is not run: {reason}")
    if as_json or not on_terminal(sys.stdout):
        print_json(
            {
                "dry_run": True,
                "queries": expected.queries,
                "systems": {name: _record(uses) for name, uses in expected.systems.items()},
                "not_run": not_run,
                "total": _total([use for uses in expected.systems.values() for use in uses]),
            }
        )
    else:
        _print_table(expected.systems)
    info(f"{_count(expected.queries, 'query', 'queries')}. {_NOTE}")


def print_expected(expected: ExpectedComparison) -> None:
    """Print to standard error the expected calls, tokens and cost of systems that use a service."""
    rows = [(name, use) for name, uses in expected.systems.items() for use in uses if use.calls]
    for name, use in rows:
        info(f"{one_line(name)} will ask {one_line(use.model)}: {_sentence(use)}")
    if len(rows) > 1:
        info(f"in total: {_sentence(total(use for _, use in rows))}")
    sample = f"; from {expected.sampled:,} rankings of each system" if expected.sampled else ""
    info(f"{_TOKENS}{sample}")


def _sentence(use: Expected) -> str:
    cost = "" if use.cost is None else f", cost about {use.cost:.4g}"
    tokens = f"{_shown(use.input_tokens)} tokens in and {_shown(use.output_tokens)} out"
    return f"{_count(use.calls, 'call')}, about {tokens}{cost}"


def _record(uses: Sequence[Expected]) -> dict[str, Any]:
    models = [{"model": use.model, **_numbers(use)} for use in merged(uses)]
    return {"models": models, "total": _total(uses)}


def _total(uses: Sequence[Expected]) -> dict[str, Any]:
    return _numbers(total(uses))


def _numbers(use: Expected) -> dict[str, Any]:
    return {
        "calls": use.calls,
        "pairs": use.pairs,
        "input_tokens": _whole(use.input_tokens),
        "output_tokens": _whole(use.output_tokens),
        "cost": use.cost,
    }


def _print_table(systems: Mapping[str, Sequence[Expected]]) -> None:
    """A table with a row per model, and their total if there are several."""
    table = Table(box=None, pad_edge=False)
    named = any(systems)
    if named:
        table.add_column("system", overflow="fold")
    table.add_column("model", overflow="fold")
    for heading in ("calls", "pairs", "tokens in, about", "tokens out, about", "cost, about"):
        table.add_column(heading, justify="right")
    rows = [(name, use) for name, uses in systems.items() for use in uses]
    if len(rows) > 1:
        rows.append(("", total(use for _, use in rows)))
    for name, use in rows:
        cells = [one_line(name)] if named else []
        cells += [one_line(use.model), f"{use.calls:,}", f"{use.pairs:,}"]
        cells += [_shown(use.input_tokens), _shown(use.output_tokens)]
        cells.append("" if use.cost is None else f"{use.cost:.4g}")
        table.add_row(*map(Text, cells))
    result_console().print(table)


def _shown(tokens: float | None) -> str:
    return "" if tokens is None else f"{_whole(tokens):,}"


def _whole(tokens: float | None) -> int | None:
    return None if tokens is None else math.ceil(tokens)


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
