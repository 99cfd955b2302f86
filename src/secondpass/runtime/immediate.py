"""Effects that are carried out at once, by what the ledger of their pass knows."""

from __future__ import annotations

from typing import Any

from secondpass.effects import Chose, LimitsLeft, Raised, Ran, RoundsLeft
from secondpass.errors import MethodError
from secondpass.runtime.ledger import Ledger


def carry_out(effect: object, ledger: Ledger) -> Any:
    """Return the result of an effect that calls nothing.

    Raises:
        MethodError: it is none (``unknown_effect``).
    """
    if isinstance(effect, RoundsLeft):
        return ledger.rounds_left(effect.questions)
    if isinstance(effect, LimitsLeft):
        return ledger.left()
    if isinstance(effect, Raised):
        ledger.record_exception(effect.error, effect.source)
    elif isinstance(effect, Ran):
        ledger.add_engine(effect.engine)
    elif isinstance(effect, Chose):
        ledger.choices.setdefault(effect.method, effect.reason)
    else:
        message = f"the method yielded a {type(effect).__name__}, not an effect"
        raise MethodError(message, "unknown_effect")
    return None
