"""Successive methods share the time that is left, and methods that ask a language model."""

from __future__ import annotations

from typing import TypeVar

from secondpass.effects import KeepTime, Method, Plan
from secondpass.errors import MethodError

T = TypeVar("T")


def in_turn(plan: Plan[T], *, last: bool, until_scored: bool = False) -> Plan[T]:
    """Run the plan of one of several successive methods.

    It ends after four fifths of the time left, unless it is the last method: here, and
    in any method that runs this one.

    Args:
        plan: of the method.
        last: whether no other method follows.
        until_scored: whether the others run only if it scores nothing, so that it has all of the
            time once it has scored something.

    Raises:
        MethodError: the method failed.
    """
    before = yield KeepTime(last, until_scored=until_scored)
    try:
        result = yield from plan
    except MethodError:
        yield KeepTime(last, before)
        raise
    yield KeepTime(last, before)
    return result


def asks(method: Method) -> bool:
    """Whether a method asks a language model, as it states by ``language_models``."""
    return bool(getattr(method, "language_models", ()))
