"""``secondpass plan``: estimate what a ranking takes, without calling a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from secondpass.cli.configurations import configuration
from secondpass.cli.console import decode_argument
from secondpass.cli.options import (
    AsJson,
    Config,
    Depth,
    Instruction,
    Preset,
    Set,
)
from secondpass.cli.plans import print_plan, print_strategies, strategies_of
from secondpass.concurrency.lazy import running_nothing
from secondpass.config import load


def plan(
    *,
    preset: Preset = None,
    config: Config = None,
    settings: Set = None,
    candidates: Annotated[
        int, typer.Option("--candidates", "-n", min=0, max=100_000, help="Number of candidates.")
    ] = 100,
    tokens_per_passage: Annotated[
        int, typer.Option(min=1, max=100_000, help="Tokens of each candidate in a prompt.")
    ] = 100,
    seconds_per_call: Annotated[
        float | None,
        typer.Option(min=0.001, help="Duration of a call of the model, to estimate the time."),
    ] = None,
    depth: Depth = None,
    instruction: Instruction = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Plan all strategies with the configured language model instead."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate calls, rounds, tokens, cost and time of a ranking, without calling a model.

    The packages that the models need do not have to be installed. Calls and rounds are exact if
    nothing fails and `when` skips nothing; requests that an API's limit of tokens splits are
    estimated, as tokens and cost are. Retries, repairs, fallbacks and cache hits are not
    included. For example:

    - `secondpass plan --preset accurate --candidates 100 --tokens-per-passage 120`

    - `secondpass plan -c rerank.yaml --seconds-per-call 1.5 --compare`
    """
    options: dict[str, Any] = {
        "tokens_per_passage": tokens_per_passage,
        "seconds_per_call": seconds_per_call,
        "depth": depth,
        "instruction": None if instruction is None else decode_argument(instruction),
    }
    with running_nothing():
        reranker = load(configuration(preset, config, settings))
        if compare:
            rerankers, not_run = strategies_of(reranker)
            plans = {name: each.plan(candidates, **options) for name, each in rerankers.items()}
            print_strategies(plans, not_run, as_json=as_json)
        else:
            print_plan(reranker.plan(candidates, **options), as_json=as_json)
