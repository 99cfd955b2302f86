"""The worker: an actor with its own reranker, which ranks blocks within its share of the budget."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import takewhile
from typing import Any

from secondpass import ConfigurationError, Problem, Reranker, SecondPassError, Usage
from secondpass.concurrency.processor import limit_cpus
from secondpass.config import load
from secondpass.formats.requests import InputRequest
from secondpass.ranking.methods import asks
from secondpass.settings import changed
from secondpass.settings.environment import fill
from secondpass.settings.keys import with_hidden_keys
from secondpass_ray.blocks import Block, Row, read_rows
from secondpass_ray.configurations import within_budget
from secondpass_ray.coordination import MOST_ATTEMPTS, Amounts, Budget
from secondpass_ray.parts import Part, PartWriter, Todo
from secondpass_ray.ranking import Choices, RowRanker, in_batches

_PLANNED = ("depth", "instruction")
"""Call options that affect the use of a ranking."""


class Spending:
    """Limits a reranker to the budget that was reserved for its rows.

    The maximum use of a row is that of its plan, including repairs, or the limits of the
    configuration, if they are lower. It is the limit of its ranking, so that retries and fallbacks
    cannot exceed it.
    """

    def __init__(self, reranker: Reranker, options: Mapping[str, Any]) -> None:
        self._reranker, self._options = reranker, options

    def need(self, requests: Sequence[InputRequest]) -> Amounts:
        """The maximum use of each of these requests: that of the largest."""
        return reduce(Amounts.or_more, map(self._planned, requests), Amounts())

    def limited(self, need: Amounts) -> Reranker:
        """The reranker with the maximum use of each of its rankings as the limit."""
        limits = self._reranker.limits
        # A sum of the ranking may differ from that of its plan in the last digit.
        tokens, cost = int(need.tokens), need.cost * (1 + 1e-9)
        limits = changed(limits, tokens=tokens or limits.tokens, cost=cost or limits.cost)
        return self._reranker.changed(limits=limits)

    def spent(self, usages: Sequence[Usage], need: Amounts) -> Amounts:
        """The use of rankings; if a service did not report its usage, the maximum ``need``."""
        total = Amounts()
        for usage in usages:
            tokens = cost = 0.0
            if usage.input_tokens is not None or usage.output_tokens is not None:
                tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
                cost = need.cost if usage.cost is None else usage.cost
            elif usage.calls:
                tokens, cost = need.tokens, need.cost
            total += Amounts(tokens, cost)
        return total

    def _planned(self, request: InputRequest) -> Amounts:
        options = {**self._options, **request.options}
        limits = self._reranker.limits
        chosen: dict[str, Any] = {name: options.get(name) for name in _PLANNED}
        plan = self._reranker.plan(request.candidates, query=request.query, **chosen)
        if any(stage.calls is None for stage in plan.stages):  # then check_budget wants a limit
            return Amounts(limits.tokens or 0, limits.cost or 0)
        times = 1 + limits.repair
        tokens = cost = 0.0
        for stage in plan.stages:
            tokens += ((stage.input_tokens or 0.0) + (stage.output_tokens or 0.0)) * times
            cost += (stage.cost or 0.0) * times
        return Amounts(
            math.ceil(tokens if limits.tokens is None else min(tokens, limits.tokens)),
            cost if limits.cost is None else min(cost, limits.cost),
        )


def check_budget(reranker: Reranker, budget: Budget) -> None:
    """Check that the use of a row can be planned or is limited, so that a budget is guaranteed."""
    if not budget:
        return
    limits = reranker.limits
    stated = all(stage.calls is not None for stage in reranker.plan(10).stages)
    for name, total, limit in (
        ("tokens", budget.tokens, limits.tokens),
        ("cost", budget.cost, limits.cost),
    ):
        if total is not None and limit is None and not stated:
            message = "is needed for a budget: the method does not say how much a ranking may take"
            raise ConfigurationError([Problem(("limits", name), message)])


OUTCOME, TODO = "outcome", "todo"
"""Columns of the JSON messages to and from a worker: positions and counts, never texts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a block.

    Attributes:
        rows: number of rows that were written.
        failed: why the block could not be ranked or written; empty otherwise.
        exhausted: whether rows were left out because the budget is used up.
    """

    rows: int = 0
    counts: Mapping[str, int] | None = None
    warnings: Sequence[str] = ()
    failed: str = ""
    exhausted: bool = False


class BlockWorker:
    """Ranks blocks of the input, and writes parts of the output.

    Variables and keys are read in this process. With a budget, the maximum use of rows is reserved
    at the coordinator, which all workers share, before they are ranked.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        choices: Choices,
        folder: str,
        cpus: float,
        coordinator: Any,
        budget: bool,
    ) -> None:
        use_cpus(cpus)
        self._config, self._choices, self._folder = config, choices, folder
        self._coordinator, self._budget = coordinator, budget
        self._ranker: RowRanker | None = None
        self._spending: Spending | None = None

    def __call__(self, batch: Any) -> Any:
        """Rank the blocks of a table with the column ``todo``; the result has ``outcome``."""
        import pyarrow

        outcomes = [json.dumps(asdict(self._outcome(text))) for text in batch[TODO].to_pylist()]
        return pyarrow.table({OUTCOME: outcomes})

    def _outcome(self, text: str) -> Outcome:
        # Errors are returned, as Ray would log their messages and tracebacks.
        try:
            todo = parse_todo(text)
            attempts, may_begin = self._ask("begin", todo.part.first)
            if attempts > MOST_ATTEMPTS:
                return Outcome(
                    failed=f"rows {todo.part.first} to {todo.part.last}: their worker was killed "
                    f"{attempts - 1} times; perhaps they need more memory than there is: set "
                    "--block to fewer rows, or fewer --workers"
                )
            return self._ranked(todo) if may_begin else Outcome(exhausted=True)
        except Exception as error:
            return Outcome(failed=describe_error(error))

    def _ranked(self, todo: Todo) -> Outcome:
        if self._ranker is None:
            reranker = load(self._config)
            if self._budget:
                self._spending = Spending(reranker, self._choices.options)
            self._ranker = RowRanker(reranker, self._choices)
        ranker = self._ranker
        ranker.warnings.clear()
        exhausted = False
        with PartWriter(self._folder, todo.part.first) as writer:
            rows = takewhile(
                lambda row: row.number is not None and row.number <= todo.part.last,
                read_rows(todo.block, todo.part.first),
            )
            for batch in in_batches(rows, self._choices.batch):
                exhausted = self._rank(ranker, todo, batch, writer)
                if exhausted:
                    break
            writer.finish()
        return Outcome(writer.rows, dict(writer.counts), tuple(ranker.warnings), "", exhausted)

    def _rank(self, ranker: RowRanker, todo: Todo, batch: list[Row], writer: PartWriter) -> bool:
        """Rank and write rows; return whether the budget is used up and rows were left out."""
        parsed = [ranker.parse(row) for row in batch]
        spending = self._spending
        if spending is None:
            ranked = ranker.lines(batch, parsed)
            writer.write(ranked.lines, ranked.counts)
            return False
        need = spending.need([item for item in parsed if isinstance(item, InputRequest)])
        needs = [need if isinstance(item, InputRequest) else Amounts() for item in parsed]
        fitting = self._ask("hold", todo.part.first, needs)
        ranked = ranker.lines(batch[:fitting], parsed[:fitting], spending.limited(need))
        writer.write(ranked.lines, ranked.counts)
        spent = spending.spent(ranked.usages, need)
        self._ask("settle", todo.part.first, spent)
        return bool(fitting < len(batch))

    def _ask(self, method: str, *arguments: Any) -> Any:
        import ray

        try:
            return ray.get(getattr(self._coordinator, method).remote(*arguments))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # the message of Ray's error is a traceback


def use_cpus(count: float) -> None:
    """Set the number of threads of models and tokenizers that are loaded afterwards."""
    threads = max(1, int(count))
    limit_cpus(threads)
    for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[variable] = str(threads)


def parse_todo(text: str) -> Todo:
    record = json.loads(text)
    return Todo(Block(**record["block"]), Part(**record["part"]))


def describe_error(error: Exception) -> str:
    """A message without text of rows: errors of other packages are described by their type."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, OSError):  # of the coordinator, as Ray raises it
        error = cause
    if isinstance(error, SecondPassError):
        return str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or type(error).__name__}"
    return f"internal error: {type(error).__name__}"


def inspected(config: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
    """Build a reranker like a worker, and return what the driver needs to know about it.

    Returns:
        ``error`` if it cannot be built or has no bounds for the budget; otherwise ``asks``, whether
        it asks services, and ``hash``, of the configuration with the values of its variables but
        without keys and the budget, which can differ between runs.
    """
    try:
        check_budget(load(config), budget)
        reranker = load(within_budget(config, budget))
        known = with_hidden_keys(fill(config)[0])
        return {"asks": any(map(asks, reranker._methods)), "hash": hash_of_value(known)}
    except Exception as error:
        return {"error": describe_error(error)}


def hash_of_value(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
