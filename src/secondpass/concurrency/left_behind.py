"""Abandoned calls: bounds on their number, and the wait for those in threads at exit.

A thread cannot be ended from outside, and a task may ignore its cancellation. A function that hangs
would leave one behind with each call, so it is not called while as many of its calls were abandoned
and still run as may run at once. Objects and closures that are made for each call count together,
too: by class or code, a few times as many.

Python ends a daemon thread when it returns from a model's C++ code after the interpreter has shut
down. Within torch, onnxruntime and openvino this aborts the process (SIGABRT).
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType, MethodType
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from secondpass.concurrency.waiting import Signal
from secondpass.errors import MethodError

T = TypeVar("T")

ALLOWED: ContextVar[int] = ContextVar("secondpass_abandoned_calls", default=8)
"""How many abandoned calls a service may have: ``limits.concurrency`` of the ranking."""

_OF_A_KIND = 4
"""How many times as many abandoned calls there may be of functions or objects of one kind."""

_SECONDS_AT_EXIT = 3.0  # enough for a batch in progress

# A call that runs is referenced by its thread or task. One that an interruption kept from leaving
# these is forgotten with its last reference.
_abandoned: WeakSet[Abandonable[Any]] = WeakSet()
_left: WeakSet[GuardedCall[Any]] = WeakSet()
_modules = 0  # number of loaded modules when the exit function was registered
_exiting = False

if hasattr(os, "register_at_fork"):
    for _calls in (_abandoned, _left):
        os.register_at_fork(after_in_child=_calls.clear)  # threads do not survive a fork


class AbandonedCallsError(MethodError):
    """A function is not called, because too many of its abandoned calls still run."""

    code = "abandoned_calls"
    sent = False

    def __init__(self, count: int) -> None:
        super().__init__(
            f"not called: {count} earlier calls, given up at their deadline or timeout, still run"
        )


class Abandonable(Generic[T]):
    """A function that is called once, in a thread or a task, and that its caller may abandon.

    Its owner is the user's function or object that it calls; of a bound method, the object counts.
    """

    def __init__(self, function: Callable[[], T], owner: object = None) -> None:
        self._function = function
        self._owner = _owner_of(owner)
        self._done = False
        self.is_abandoned = False
        self._stop: Callable[[], object] = lambda: None

    def __call__(self) -> T:
        token = RUNNING.set(self)
        try:
            return self._function()
        finally:
            RUNNING.reset(token)
            self.end()

    def stop_with(self, stop: Callable[[], object]) -> None:
        """Call ``stop``, in any thread, when the call is abandoned."""
        self._stop = stop
        if self.is_abandoned:
            stop()

    def end(self) -> None:
        self._done = True
        _abandoned.discard(self)

    def abandon(self) -> None:
        """Count the call as abandoned until it ends; no effect if it has ended."""
        if self._done:
            return
        self.is_abandoned = True
        _abandoned.add(self)
        self._stop()
        if self._done:
            _abandoned.discard(self)


class AbandonedError(MethodError):
    """The end of a call that was abandoned. Its caller does not see it."""

    code = AbandonedCallsError.code

    def __init__(self) -> None:
        super().__init__("the call was abandoned")


RUNNING: ContextVar[Abandonable[Any] | None] = ContextVar("secondpass_running", default=None)
"""The call that the current code runs in, which may stop if that is abandoned."""


def check_abandoned(owner: object, allowed: int) -> None:
    """Raise AbandonedCallsError if as many abandoned calls of an owner, or of its kind, still run.

    Of its kind there may be a few times as many.
    """
    if len(_abandoned) < allowed:  # the usual case
        return
    owner = _owner_of(owner)
    kind = _kind_of(owner)
    owners = [call._owner for call in list(_abandoned) if not call._done]
    same_owner = [item for item in owners if item is owner]
    same_kind = [item for item in owners if _kind_of(item) is kind]
    if len(same_owner) >= allowed or len(same_kind) >= allowed * _OF_A_KIND:
        raise AbandonedCallsError(len(same_kind))


def _owner_of(function: object) -> object:
    return function.__self__ if isinstance(function, MethodType) else function


def _kind_of(owner: object) -> object:
    """What functions or objects have in common that are made for each call: code, or class."""
    while isinstance(owner, functools.partial):
        owner = _owner_of(owner.func)
    return owner.__code__ if isinstance(owner, FunctionType) else type(owner)


class GuardedCall(Abandonable[T]):
    """A call that the process waits for before it exits: a moment, or until it ends."""

    def __init__(
        self, function: Callable[[], T], owner: object = None, *, until_it_ends: bool = False
    ) -> None:
        super().__init__(function, owner)
        self._until_it_ends = until_it_ends
        self._ended = Signal()
        self._process = os.getpid()

    def __call__(self) -> T:
        # The caller may be a daemon thread, and the process may end while it waits.
        self.leave()
        return super().__call__()

    def end(self) -> None:
        super().end()
        self._ended.set()
        _left.discard(self)

    def abandon(self) -> None:
        super().abandon()
        self.leave()

    def ended(self, within: float = 0.0) -> bool:
        """Whether the call has ended, after waiting up to ``within`` seconds.

        A call of a parent process has ended: threads do not survive a fork.
        """
        return self._process != os.getpid() or self._ended.wait(within)

    def leave(self) -> None:
        """Let the process wait for this call before it exits; no effect if it has ended."""
        _left.add(self)
        if self._ended.is_set:
            _left.discard(self)
            return
        _register()


def _register() -> None:
    """Register the exit function, again only if a module was imported since.

    Exit functions run in reverse order, and this one has to run before those that the models'
    libraries register on import. Registering it again takes time and memory: Python up to 3.13
    keeps the place of every unregistered function.
    """
    global _modules  # noqa: PLW0603
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        atexit.unregister(_wait_at_exit)
        atexit.register(_wait_at_exit)


def process_exits() -> bool:
    """Whether the process waits for the last calls, and should begin no more."""
    return _exiting


def _wait_at_exit() -> None:
    global _exiting  # noqa: PLW0603
    _exiting = True
    until = time.monotonic() + _SECONDS_AT_EXIT
    for call in list(_left):
        call._ended.wait(None if call._until_it_ends else until - time.monotonic())
