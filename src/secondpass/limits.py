"""Limits of one ranking, and the prices that its cost is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from secondpass.settings import configurable

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le


@configurable
@dataclass(frozen=True)
class Limits:
    """What one ranking may take, fallbacks included.

    Attributes:
        deadline: wall-clock seconds; when they are over, the best order so far is returned. Local
            scorers are then called for slices of the texts, so that something is there by that
            time; what is under way is given up on.
        calls: questions to language models, those asked again included.
        tokens: of prompts and replies. What a question will take is estimated before it is asked,
            at four bytes a token, and counted as the server says afterwards.
        cost: in the currency of the model's prices, which have to be given.
        concurrency: questions under way at once, of all rankings of a reranker in one event loop;
            synchronous rankings share one. A model that calls the reranker which waits for it
            needs one more slot.
        retries: how often a question that met a passing fault is asked again.
        repair: whether a question whose reply cannot be used is asked once more, saying why.
    """

    deadline: Annotated[float, Gt(0)] | None = None
    calls: Annotated[int, Ge(1)] | None = None
    tokens: Annotated[int, Ge(1)] | None = None
    cost: Annotated[float, Gt(0)] | None = None
    concurrency: Annotated[int, Ge(1)] = 8
    retries: Annotated[int, Ge(0)] = 2
    repair: Annotated[int, Ge(0), Le(1)] = 1


@configurable
@dataclass(frozen=True)
class Prices:
    """What a model costs, per million tokens, in any one currency.

    Attributes:
        input: per million tokens of prompts.
        output: per million tokens of replies.
    """

    input: Annotated[float, Ge(0)]
    output: Annotated[float, Ge(0)]

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """The cost of so many tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6
