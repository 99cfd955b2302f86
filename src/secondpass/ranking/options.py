"""Options of one call, and the settings of a ranking pass that they override."""

from __future__ import annotations

import inspect
import math
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from time import time
from typing import Any, Literal, TypedDict, TypeVar

from secondpass.effects import Method
from secondpass.errors import ConfigurationError, InputError
from secondpass.ranking.candidates import MISSING
from secondpass.ranking.floors import moved
from secondpass.ranking.methods import inner
from secondpass.ranking.ordering import Ordering, to_ordering
from secondpass.ranking.rendering import Rendering, well_formed
from secondpass.ranking.stages import Stage
from secondpass.ranking.terms import Term, to_seconds
from secondpass.ranking.when import When
from secondpass.ranking.windows import Passages
from secondpass.settings import describe, registry

F = TypeVar("F", bound=Callable[..., Any])


class CallOptions(TypedDict, total=False):
    """Keyword arguments of ``Reranker.rerank``, which explains them, and of the methods like it."""

    top_k: int | None
    depth: int | None
    order: Ordering | Mapping[str, Any] | str | None
    dedupe: bool | None
    floor: float | None
    instruction: str | None
    deadline: float | None
    strict: bool | None
    now: datetime | date | str | float | None


ONE_REQUEST = ("query", "candidates", "context")
WITH_LISTENER = (*ONE_REQUEST, "on_interim")
REQUESTS = ("requests",)
"""Names of what calls of rerankers take beside their options, for hints."""


def validate(
    options: Mapping[str, Any],
    orders: Mapping[str, Ordering | None] | None = None,
    arguments: Sequence[str] = (),
    method: Method | None = None,
) -> dict[str, Any]:
    """The options that are not None, converted to the types that a pass uses.

    ``arguments`` are the names of what else the call takes, and ``method`` that of the reranker,
    for a hint.
    """
    if unknown := [name for name in options if name not in CallOptions.__annotations__]:
        from secondpass.settings import call_hints  # for errors only

        known = [*CallOptions.__annotations__, *arguments]
        kind = method and registry.name_of("methods", type(inner(method)))
        raise TypeError(call_hints.of_options(unknown, known, kind))
    return {
        name: _validated(name, value, orders)
        for name, value in options.items()
        if value is not None
    }


def _validated(name: str, value: Any, orders: Mapping[str, Ordering | None] | None) -> Any:
    return _ordering(value, orders) if name == "order" else _VALIDATIONS[name](name, value)


def _positive(name: str, value: object) -> float:
    number = finite_number(name, value)
    if number <= 0:
        raise InputError(f"{name}: must be greater than 0")
    return number


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name}: give True or False, not {describe(value)}")
    return value


def _ordering(value: object, orders: Mapping[str, Ordering | None] | None) -> Ordering | None:
    try:
        return to_ordering(value, orders)
    except ConfigurationError as error:
        raise InputError(f"order: {error}") from None


def _text(name: str, value: object) -> str | None:
    if not isinstance(value, str):
        raise InputError(f"{name}: give a string, not {describe(value)}")
    return well_formed(value).strip() or None


def _time(name: str, value: object) -> float:
    seconds = to_seconds(value)
    if seconds is None:
        hint = "give a date or time in ISO 8601 or of datetime, or seconds since 1970"
        raise InputError(f"{name}: {hint}, not {describe(value)}")
    return seconds


def whole_number(name: str, value: object) -> int:
    """The option as Python's int; raises an InputError if it is not an integer of 1 or more."""
    # Arrays without dimensions have __index__ too, but are no numbers.
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise InputError(f"{name}: give a whole number, not {describe(value)}")
    number = operator.index(value)
    if number < 1:
        # Python refuses to convert an integer of thousands of digits to a string.
        actual = f", not {number}" if number > -(10**9) else ""
        raise InputError(f"{name}: must be 1 or more{actual}")
    return number


def finite_number(name: str, value: object) -> float:
    """The option as Python's float; raises an InputError if it is not a finite number."""
    try:
        if isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        raise InputError(f"{name}: is too large for a float") from None
    raise InputError(f"{name}: give a finite number, not {describe(value)}")


_VALIDATIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "top_k": whole_number,
    "depth": whole_number,
    "dedupe": _boolean,
    "floor": finite_number,
    "instruction": _text,
    "deadline": _positive,
    "strict": _boolean,
    "now": _time,
}
"""The function that checks and converts the value of each option, but of ``order``."""


@dataclass(frozen=True, slots=True)
class PassSettings:
    """Settings of one ranking pass: those of the reranker, or of the call.

    Attributes:
        stages: the method and its fallbacks, in the order in which they are tried.
        deadline: wall-clock seconds of the ranking; None uses that of the limits.
        now: seconds since 1970, for the terms.
    """

    stages: tuple[Stage, ...]
    render: Rendering
    passages: Passages | None
    depth: int | None
    top_k: int | None
    order: Ordering | None
    tail: Literal["keep", "drop"]
    dedupe: bool
    strict: bool
    instruction: str | None = field(default=None, repr=False)
    when: When | None = None
    deadline: float | None = None
    terms: Sequence[Term] = ()
    now: float = 0.0

    @classmethod
    def of(cls, reranker: Any, stages: tuple[Stage, ...]) -> PassSettings:
        """The settings of a reranker, with the time of the clock."""
        return cls(
            stages=stages,
            render=reranker.render,
            passages=reranker.passages,
            depth=reranker.depth,
            top_k=reranker.top_k,
            order=reranker.order,
            tail=reranker.tail,
            dedupe=reranker.dedupe,
            strict=reranker.strict,
            when=reranker.when,
            terms=reranker.terms,
            now=time(),
        )

    def override(
        self,
        options: CallOptions,
        orders: Mapping[str, Ordering | None] | None,
        arguments: Sequence[str] = (),
    ) -> PassSettings:
        """Validate the options and apply them to these settings; see :func:`validate`."""
        if not options:
            return self
        changes = validate(options, orders, arguments, self.stages[0].method)
        if "floor" in changes:
            method, *fallbacks = self.stages
            try:
                changed = replace(method, floor=moved(method.floor, changes.pop("floor")))
            except ConfigurationError as error:
                message = "; ".join(problem.message for problem in error.problems)
                raise InputError(f"floor: {message}") from None
            changes["stages"] = (changed, *fallbacks)
        return replace(self, **changes)


def show_call_options(function: F) -> F:
    """Show the keywords of :class:`CallOptions` in ``help()`` of a function that takes them.

    They are listed in its signature. Type checkers read ``Unpack[CallOptions]`` in its place.
    """
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    parameters += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=annotation.__forward_arg__,  # as written, like those of the function
        )
        for name, annotation in CallOptions.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    # With a default, a call with docs= reaches `validate`, which says what to write.
    function.__defaults__ = (MISSING,)
    return function
