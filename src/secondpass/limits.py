"""Limits of a ranking, and prices of models."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from secondpass.settings import configurable, nested

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le


@configurable
@dataclass(frozen=True)
class Limits:
    """Limits of one ranking, fallbacks included.

    Attributes:
        deadline: wall-clock seconds until the best order so far is returned. Calls still running
            are abandoned. Local scorers score the texts in batches, so that some scores are ready
            in time. A method that others follow (a fallback, a later stage of a cascade) gets 80 %
            of the remaining time. A scorer that has already scored something, and that only
            fallbacks follow, may use the rest. A scorer that several rankings share scores the
            first ten candidates of each first; if others leave no time for these, a ranking is
            refused at once (issue ``overloaded``).
        calls: questions to language models, retries included.
        tokens: of prompts and replies. They are estimated before a question is sent, at four bytes
            per token, and counted as reported by the server afterwards.
        cost: in the currency of the model's prices, which must be set.
        concurrency: maximum number of concurrent questions, over all rankings of a reranker in the
            process. A model that calls the reranker that waits for it needs one more slot.
        retries: maximum number of retries of a question after a temporary error.
        repair: how often to ask again, with the reason, if a reply cannot be used: 0 or 1. With 1,
            a batch that is refused because of its content (by a filter, as too long, or with a
            second unusable reply) is also asked about in halves, down to single passages.
    """

    deadline: Annotated[float, Gt(0)] | None = None
    calls: Annotated[int, Ge(1)] | None = None
    tokens: Annotated[int, Ge(1)] | None = None
    cost: Annotated[float, Gt(0)] | None = None
    concurrency: Annotated[int, Ge(1)] = 8
    retries: Annotated[int, Ge(0)] = 2
    repair: Annotated[int, Ge(0), Le(1)] = 1


LIMITS = nested(Limits, optional=True)
"""A parameter whose value is limits."""


def waves(rounds: Iterable[int], concurrency: int) -> int:
    """How many questions wait for each other, one after the other, in rounds of these sizes.

    Of each round, ``concurrency`` questions are sent at a time.
    """
    return sum(math.ceil(questions / concurrency) for questions in rounds)


@configurable
@dataclass(frozen=True)
class Prices:
    """Prices of a model per million tokens, in any currency.

    Attributes:
        input: price of a million prompt tokens. Those in a provider's cache cost the same here.
        output: price of a million reply tokens, those of thinking included.
    """

    input: Annotated[float, Ge(0)]
    output: Annotated[float, Ge(0)]

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Return the cost of these numbers of tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


PRICES = nested(Prices, optional=True)
"""A parameter whose value is prices."""
