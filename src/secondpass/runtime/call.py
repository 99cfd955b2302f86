"""What the methods of a pass can know and say of it: its ledger, and its observers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from secondpass.effects import Call, Judgement, Left, Method
from secondpass.errors import MethodError
from secondpass.runtime import observers
from secondpass.runtime.ledger import Ledger
from secondpass.runtime.observers import MethodOperation
from secondpass.types import EngineInfo


class PassCall(Call):
    """The handle of the pass, or of the dry run, that has this ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def rounds_left(self, questions: int = 1, *, repairs: bool = False) -> int | None:
        return self._ledger.rounds_left(questions, repairs=repairs)

    def limits_left(self) -> Left:
        return self._ledger.left()

    @contextmanager
    def keeping_time(self, last: bool, *, until_scored: bool = False) -> Iterator[None]:
        before = self._ledger.keep_time(last, until_scored=until_scored)
        try:
            yield
        finally:
            self._ledger.keep_time(last, before)

    def started(self, method: Method, texts: int) -> MethodOperation | None:
        """Notify the observers of this ranking, if any, that a method starts."""
        running = self._ledger.operations
        if not running:
            return None
        operation = MethodOperation(name=method.name, parents=(running[-1],), texts=texts)
        running.append(operation)
        observers.start(operation)
        return operation

    def ended(self, started: object, result: Judgement | MethodError) -> None:
        """Notify them that a method has ended, and before it what it ran and closed."""
        running = self._ledger.operations
        if not isinstance(started, MethodOperation) or started not in running:
            return
        while (last := running.pop()) is not started:
            observers.end(last, "cancelled")
        if isinstance(result, MethodError):
            observers.end(started, result.code)
        else:
            started.scored = sum(score is not None for score in result.scores)
            observers.end(started)

    def raised(self, error: BaseException, source: str) -> None:
        self._ledger.record_exception(error, source)

    def ran(self, engine: EngineInfo) -> None:
        self._ledger.add_engine(engine)
