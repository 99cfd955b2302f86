"""Carries out a plan without calling anything, to see what it would take.

Every question is left unanswered, or answered by the value that it assumes, and every scorer gives
equal scores, so a plan goes on as if no call changed the order. Methods that ask more questions if
it does, such as ``partition``, take more than is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from secondpass.effects import Answer, Ask, Estimate, Plan, Question, RawScores, RoundsLeft, Score
from secondpass.errors import BudgetError, MethodError
from secondpass.limits import Prices
from secondpass.runtime.ledger import Ledger
from secondpass.scoring import member


@dataclass(frozen=True, slots=True)
class Expected:
    """What one model is expected to take.

    Attributes:
        model: its name, as in reports.
        calls: questions to a service; 0 for a local model.
        pairs: query-document pairs that it is asked about, or scores.
        input_tokens: estimated, at four bytes per token; None for a local model.
        output_tokens: estimated likewise, without reasoning.
        cost: of these tokens, in the currency of the prices; None without prices.
    """

    model: str
    calls: int = 0
    pairs: int = 0
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost: float | None = None

    def times(self, factor: float) -> Expected:
        """What it takes to do the same several times; calls and pairs are rounded."""
        tokens_in, tokens_out, cost = (
            None if number is None else number * factor
            for number in (self.input_tokens, self.output_tokens, self.cost)
        )
        calls, pairs = round(self.calls * factor), round(self.pairs * factor)
        return Expected(self.model, calls, pairs, tokens_in, tokens_out, cost)


def dry_run(plan: Plan[Any], ledger: Ledger) -> list[Expected]:
    """Run a plan to its end without calling anything.

    Args:
        plan: what a ranking pass or a method yields.
        ledger: its limits of calls, tokens and cost are kept to; the deadline is not.

    Returns:
        One entry per model, in the order of first use.
    """
    uses: list[Expected] = []
    result: Any = None
    while True:
        try:
            effect = plan.send(result)
        except StopIteration:
            return merged(uses)
        result = None
        if isinstance(effect, Score):
            count = len(effect.texts)
            name = str(member(effect.scorer, "model_name", None) or type(effect.scorer).__name__)
            uses.append(Expected(name, pairs=count))
            result = RawScores([0.0] * count, called=False)
        elif isinstance(effect, Ask):
            result = [_unanswered(effect, question, ledger, uses) for question in effect.questions]
        elif isinstance(effect, RoundsLeft):
            result = ledger.rounds_left(effect.questions)


def merged(uses: Iterable[Expected]) -> list[Expected]:
    """Add up what is expected of each model, in the order of first use."""
    groups: dict[str, list[Expected]] = {}
    for use in uses:
        groups.setdefault(use.model, []).append(use)
    return [total(group, model) for model, group in groups.items()]


def total(uses: Iterable[Expected], model: str = "total") -> Expected:
    """Add up what is expected of several models.

    The cost is None unless it is known of every model that is asked.
    """
    uses = list(uses)
    with_calls = [use for use in uses if use.calls]
    costs = [use.cost for use in with_calls if use.cost is not None]
    return Expected(
        model,
        sum(use.calls for use in with_calls),
        sum(use.pairs for use in uses),
        sum(use.input_tokens or 0 for use in with_calls) if with_calls else None,
        sum(use.output_tokens or 0 for use in with_calls) if with_calls else None,
        sum(costs) if with_calls and len(costs) == len(with_calls) else None,
    )


def _unanswered(
    effect: Ask[Any, Any], question: Question[Any, Any], ledger: Ledger, uses: list[Expected]
) -> Answer[Any]:
    """Book the estimate of a question that is not sent, if the limits allow it."""
    prices: Prices | None = getattr(effect.service, "prices", None)
    estimate: Estimate = question.estimate
    try:
        ledger.reserve(estimate, prices)
    except BudgetError as error:
        return Answer(error=error)
    ledger.charge_estimate(estimate, prices)
    tokens = estimate.input_tokens, estimate.output_tokens
    cost = None if prices is None else prices.of(*tokens)
    uses.append(Expected(effect.service.name, 1, question.documents, *tokens, cost))
    if question.assumed is not None:
        return Answer(question.assumed)
    return Answer(error=MethodError("a dry run asks nothing", "dry_run"))
