"""Prints what a comparison is estimated to take, per system and model."""

from __future__ import annotations

import sys

from secondpass.asking.expected_use import Expected, total
from secondpass.cli.console import info, on_terminal, one_line, print_json, warn
from secondpass.cli.dry_run import (
    NOTE,
    TOKENS,
    print_use_table,
    shown_tokens,
    total_record,
    use_record,
)
from secondpass.settings import counted
from secondpass_evaluation.dry_run import ExpectedComparison


def print_comparison(expected: ExpectedComparison, *, as_json: bool) -> None:
    """Print calls, tokens and cost that a comparison is estimated to take."""
    for name, reason in expected.not_run.items():
        warn(f"{name} is not run: {reason}")
    if as_json or not on_terminal(sys.stdout):
        print_json(
            {
                "dry_run": True,
                "queries": expected.queries,
                "systems": {name: use_record(uses) for name, uses in expected.systems.items()},
                "not_run": expected.not_run,
                "total": total_record([use for uses in expected.systems.values() for use in uses]),
            }
        )
    else:
        print_use_table(expected.systems)
    info(f"{counted(expected.queries, 'query', 'queries')}. {NOTE}")


def print_expected(expected: ExpectedComparison) -> None:
    """Print to standard error the expected calls, tokens and cost of systems that use a service."""
    rows = [(name, use) for name, uses in expected.systems.items() for use in uses if use.calls]
    for name, use in rows:
        info(f"{one_line(name)} will ask {one_line(use.model)}: {_sentence(use)}")
    if len(rows) > 1:
        info(f"in total: {_sentence(total(use for _, use in rows))}")
    sample = (
        f"; from {counted(expected.sampled, 'ranking')} of each system" if expected.sampled else ""
    )
    info(f"{TOKENS}{sample}")


def _sentence(use: Expected) -> str:
    cost = "" if use.cost is None else f", cost about {use.cost:.4g}"
    tokens = f"{shown_tokens(use.input_tokens)} tokens in and {shown_tokens(use.output_tokens)} out"
    return f"{counted(use.calls, 'call')}, about {tokens}{cost}"
