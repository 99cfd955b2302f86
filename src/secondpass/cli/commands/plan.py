"""``secondpass plan``: estimate what a ranking takes, without calling a model."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from secondpass.cli.console import (
    fail,
    info,
    on_terminal,
    one_line,
    print_json,
    result_console,
    warn,
)
from secondpass.cli.options import AsJson, Depth, Instruction, RerankerOptions, grouped
from secondpass.cli.tables import plain_table
from secondpass.concurrency.lazy import running_nothing
from secondpass.config import load
from secondpass.errors import SecondPassError
from secondpass.ranking.cost_plan import CostPlan, PlannedStage, in_words
from secondpass.reranker import Reranker
from secondpass.settings import counted, model_of, registry


@grouped
def plan(
    *,
    configured: RerankerOptions,
    candidates: Annotated[
        int,
        typer.Option(
            "--candidates", "-n", min=0, max=100_000, help="Number of candidates of a query."
        ),
    ] = 100,
    tokens_per_passage: Annotated[
        int,
        typer.Option(
            min=1, max=100_000, help="Number of tokens that a candidate takes in a prompt."
        ),
    ] = 100,
    depth: Depth = None,
    instruction: Instruction = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Plan every strategy with the configured language model, instead of the "
            "configured strategy alone.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate calls, tokens and cost without calling a model.

    The packages that the models need do not have to be installed. Calls are questions to language
    models and APIs, and a round is a set of calls that can be made at the same time. Their numbers
    are exact if nothing fails, and if the setting `when` skips no query. Tokens and cost are
    estimates. If an API's limit of tokens splits requests, the number of calls is an estimate, too.
    Retries, repairs, fallbacks and cache hits are not included. For example:

    - `secondpass plan --preset accurate --candidates 100 --tokens-per-passage 120`

    - `secondpass plan -c rerank.yaml --compare`
    """
    options: dict[str, Any] = {
        "tokens_per_passage": tokens_per_passage,
        "depth": depth,
        "instruction": instruction,
    }
    with running_nothing():
        reranker = load(configured.read())
        if compare:
            rerankers, not_run = strategies_of(reranker)
            reaching, before = _reaching(reranker.plan(candidates, **options), reranker)
            if before and not as_json:
                info(
                    f"Not in the table: {', '.join(map(one_line, before))}, before the language "
                    f"model. Each strategy gets the {counted(reaching, 'candidate')} that remain."
                )
            options["depth"] = None  # is in the number of candidates
            plans = {name: each.plan(reaching, **options) for name, each in rerankers.items()}
            print_strategies(plans, not_run, as_json=as_json)
        else:
            print_plan(reranker.plan(candidates, **options), as_json=as_json)


_ESTIMATED = (
    "Nothing was called. Tokens are estimated at four bytes each. Retries, repairs, fallbacks, "
    "cache hits and reasoning are not included."
)
_CURRENCY = " Cost is in the currency of `prices` in the configuration."
_LOCAL = "Nothing was called. The method runs on this machine and takes no calls."
_CHOICE = (
    "With shuffles: R, graded, listwise and blocks take R times the calls, tokens and cost, in as "
    "many rounds. Quality differs, too: see Language models in the documentation, and measure it "
    "with secondpass eval"
)


def print_plan(plan: CostPlan, *, as_json: bool) -> None:
    """Print a table of the stages and their total, the notes and the assumptions."""
    if as_json or not on_terminal(sys.stdout):
        print_json(plan.to_dict())
        return
    total = plan.total
    rows = [(stage.method, stage) for stage in plan.stages]
    _print_table("method", rows, None if len(rows) == 1 else total)
    for note in plan.notes:
        warn(one_line(note))
    info(f"{_assumptions(plan)} {_note(plan.stages)}")


def strategies_of(reranker: Reranker) -> tuple[dict[str, Reranker], dict[str, str]]:
    """A reranker for each strategy whose only required setting is a language model.

    They use the language model of ``reranker``, the first if it has several. Also returned is why
    others cannot be created.
    """
    llms = _language_models(reranker)
    if not llms:
        fail("--compare: the configuration has no language model")
    rerankers: dict[str, Reranker] = {}
    not_run: dict[str, str] = {}
    for name in registry.names("methods"):
        try:
            fields = model_of(registry.kind("methods", name)).model_fields
            if [key for key, field in fields.items() if field.is_required()] == ["llm"]:
                rerankers[name] = Reranker(
                    {"type": name, "llm": llms[0]},
                    depth=reranker.depth,
                    limits=reranker.limits,
                    passages=reranker.passages,
                )
        except SecondPassError as error:
            not_run[name] = str(error)
    return rerankers, not_run


def _language_models(reranker: Reranker) -> list[Any]:
    return [
        service
        for method in reranker._methods
        for service in getattr(method, "language_models", ())
        if not hasattr(service, "judge")  # rerank APIs are methods themselves
    ]


def _reaching(plan: CostPlan, reranker: Reranker) -> tuple[int, list[str]]:
    """How many candidates reach the language model, and the stages of the cascade before it."""
    suffix = f" by {_language_models(reranker)[0].name}"
    for number, stage in enumerate(plan.stages):
        if stage.method.endswith(suffix):
            return stage.candidates, [each.method for each in plan.stages[:number]]
    return plan.candidates, []  # it is asked as a fallback, or there are no candidates


def print_strategies(
    plans: Mapping[str, CostPlan], not_run: Mapping[str, str], *, as_json: bool
) -> None:
    """Print a row for each strategy, the least expensive first."""
    plans = dict(sorted(plans.items(), key=lambda item: _expense(item[1])))
    for name, reason in not_run.items():
        warn(f"{name} is not run: {one_line(reason)}")
    if as_json or not on_terminal(sys.stdout):
        strategies = {name: plan.to_dict() for name, plan in plans.items()}
        print_json({"strategies": strategies, "not_run": dict(not_run)})
        return
    # Each strategy is a single stage, but there is none without candidates.
    _print_table(
        "strategy",
        [(name, plan.stages[0] if plan.stages else plan.total) for name, plan in plans.items()],
    )
    for name, plan in plans.items():
        for note in plan.notes:
            warn(one_line(f"{name}: {note}"))
    if plans:  # the assumptions are the same for all
        stages = [stage for plan in plans.values() for stage in plan.stages]
        info(f"{_assumptions(next(iter(plans.values())))} {_note(stages)}")
        info(_CHOICE)


def _expense(plan: CostPlan) -> float:
    """The cost of a plan, or its tokens if prices are not known; infinite if neither is."""
    whole = plan.total
    if whole.cost is not None:
        return whole.cost
    if whole.input_tokens is None or whole.output_tokens is None:
        return math.inf if whole.asks else 0.0
    return whole.input_tokens + whole.output_tokens


def _assumptions(plan: CostPlan) -> str:
    return (
        f"{counted(plan.candidates, 'candidate')} of about "
        f"{counted(plan.tokens_per_passage or 0, 'token')}. Each row has the number of "
        "candidates that its method gets; in and out are tokens."
    )


def _note(stages: Sequence[PlannedStage]) -> str:
    """What the numbers are, and the currency of costs, if there are any."""
    if not any(stage.asks for stage in stages):
        return _LOCAL
    return _ESTIMATED + (_CURRENCY if any(stage.cost is not None for stage in stages) else "")


def _print_table(
    heading: str, rows: Iterable[tuple[str, PlannedStage]], total: PlannedStage | None = None
) -> None:
    # So short that a table with usual numbers fits 80 columns; `_assumptions` says what they are.
    columns = ["candidates", "calls", "rounds", "in", "out", "cost"]
    table = plain_table(heading, numbers=columns)
    lines = [*rows]
    if total is not None:
        lines.append(("total", total))
    for name, stage in lines:
        cells = [
            one_line(name),
            # One stage gets what another has ranked, so there is no sum of candidates.
            "" if stage is total else f"{stage.candidates:,}",
            in_words(stage.calls),
            in_words(stage.rounds),
            in_words(stage.input_tokens) if stage.asks else "",
            in_words(stage.output_tokens) if stage.asks else "",
            "" if stage.cost is None else in_words(stage.cost, 4),
        ]
        table.add_row(*cells)
    result_console().print(table)
