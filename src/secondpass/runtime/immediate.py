"""Carries out the effects that only need the ledger of their pass."""

from __future__ import annotations

from typing import Any

from secondpass.effects import (
    Ended,
    Interim,
    KeepTime,
    LimitsLeft,
    Raised,
    Ran,
    RoundsLeft,
    Started,
)
from secondpass.errors import MethodError, with_article
from secondpass.runtime import observers
from secondpass.runtime.ledger import Ledger
from secondpass.runtime.observers import MethodOperation


def carry_out(effect: object, ledger: Ledger) -> Any:
    """Return the result of an effect that calls neither a scorer nor a service.

    Raises:
        MethodError: the object is no effect (``unknown_effect``).
    """
    if isinstance(effect, RoundsLeft):
        return ledger.rounds_left(effect.questions, repairs=effect.repairs)
    if isinstance(effect, LimitsLeft):
        return ledger.left()
    if isinstance(effect, KeepTime):
        return ledger.keep_time(effect.last, effect.before, until_scored=effect.until_scored)
    if isinstance(effect, Raised):
        ledger.record_exception(effect.error, effect.source)
    elif isinstance(effect, Ran):
        ledger.add_engine(effect.engine)
    elif isinstance(effect, Started):
        return _start_method(effect, ledger)
    elif isinstance(effect, Ended):
        _end_method(effect, ledger)
    elif not isinstance(effect, Interim):  # ignored: there is no listener
        message = f"the method yielded {with_article(type(effect).__name__)}, not an effect"
        raise MethodError(message, "unknown_effect")
    return None


def _start_method(effect: Started, ledger: Ledger) -> MethodOperation | None:
    """Notify the observers of this ranking, if any, that a method starts."""
    if not ledger.operations:
        return None
    parents = (ledger.operations[-1],)
    operation = MethodOperation(name=effect.method, parents=parents, texts=effect.texts)
    ledger.operations.append(operation)
    observers.start(operation)
    return operation


def _end_method(effect: Ended, ledger: Ledger) -> None:
    """Notify them that a method has ended, and with it those that it ran and that were closed."""
    operation = effect.started
    if isinstance(operation, MethodOperation) and operation in ledger.operations:
        while (last := ledger.operations.pop()) is not operation:
            observers.end(last, "cancelled")
        operation.scored = effect.scored
        observers.end(operation, effect.error)
