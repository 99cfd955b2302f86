"""What models are expected to take, and sums of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expected:
    """What one model is expected to take."""

    model: str  # its name, as in reports
    calls: int = 0  # questions to a service; 0 for a local model
    pairs: int = 0  # query-document pairs that it is asked about, or scores
    input_tokens: float | None = None  # at four bytes per token; None for a local model
    output_tokens: float | None = None  # of replies, without reasoning
    cost: float | None = None  # of these tokens, in the currency of the prices

    def times(self, factor: float) -> Expected:
        """All numbers multiplied by ``factor``; calls and pairs are rounded."""

        def multiplied(number: float | None) -> float | None:
            return None if number is None else number * factor

        return Expected(
            self.model,
            calls=round(self.calls * factor),
            pairs=round(self.pairs * factor),
            input_tokens=multiplied(self.input_tokens),
            output_tokens=multiplied(self.output_tokens),
            cost=multiplied(self.cost),
        )


def merged(uses: Iterable[Expected]) -> list[Expected]:
    """Add up what is expected of each model, in the order of first use."""
    groups: dict[str, list[Expected]] = {}
    for use in uses:
        groups.setdefault(use.model, []).append(use)
    return [total(group, model) for model, group in groups.items()]


def total(uses: Iterable[Expected], model: str = "total") -> Expected:
    """Add up what is expected. The cost is None unless it is known of every model that is asked."""
    uses = list(uses)
    calls = sum(use.calls for use in uses)
    pairs = sum(use.pairs for use in uses)
    asked = [use for use in uses if use.calls]
    if not asked:
        return Expected(model, calls, pairs)
    costs = [use.cost for use in asked if use.cost is not None]
    return Expected(
        model,
        calls,
        pairs,
        input_tokens=sum(use.input_tokens or 0 for use in asked),
        output_tokens=sum(use.output_tokens or 0 for use in asked),
        cost=sum(costs) if len(costs) == len(asked) else None,
    )
