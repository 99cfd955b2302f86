"""Options of one call, and the settings of a ranking pass that they override."""

from __future__ import annotations

import inspect
import math
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal, TypedDict, TypeVar

from secondpass.errors import ConfigurationError, InputError
from secondpass.ranking.floors import moved
from secondpass.ranking.methods import Stage
from secondpass.ranking.ordering import Ordering, to_ordering
from secondpass.ranking.rendering import Rendering, well_formed
from secondpass.ranking.terms import Term, to_seconds
from secondpass.ranking.when import When
from secondpass.ranking.windows import Passages
from secondpass.settings import describe, suggestion

F = TypeVar("F", bound=Callable[..., Any])


class CallOptions(TypedDict, total=False):
    """Keyword arguments of ``rerank``, ``arerank``, ``rerank_many`` and ``arerank_many``.

    Each one overrides a setting of the reranker for this call. None keeps the setting.

    Attributes:
        top_k: number of items to return, at least 1.
        depth: number of candidates to judge, at least 1.
        order: an ordering: a function, a mapping with a ``type``, or a name, which may be one of
            those in ``orders``. ``"none"`` applies no ordering.
        dedupe: whether to keep only the best candidate of each id.
        floor: threshold that replaces that of the method, on the same score as that or a
            configured one would be; fallbacks keep theirs. Not allowed if the method's scores are
            ranks.
        instruction: what counts as relevant in this call, such as ``"prefer recent documents"``,
            for methods that take an instruction; it is added to the prompt of the configuration.
            White space around it is removed; an empty one has no effect. The report lists
            ``instruction_not_used`` if the method takes none.
        deadline: wall-clock seconds for each ranking of this call, in place of
            ``limits.deadline``.
        target: wall-clock seconds in which each of them should end, in place of ``limits.target``.
        strict: whether to raise RerankError unless each candidate of the head that can be shown was
            scored.
        now: the time for the terms of this call: ISO 8601 (UTC without an offset), a date or time
            of ``datetime``, or seconds since 1970. Without it the clock is read, once a call.
    """

    top_k: int | None
    depth: int | None
    order: Ordering | Mapping[str, Any] | str | None
    dedupe: bool | None
    floor: float | None
    instruction: str | None
    deadline: float | None
    target: float | None
    strict: bool | None
    now: datetime | date | str | float | None


def validate(
    options: Mapping[str, Any], orders: Mapping[str, Ordering | None] | None = None
) -> dict[str, Any]:
    """The options that are not None, converted to the types that a pass uses."""
    known = list(CallOptions.__annotations__)
    for name in options:
        if name not in known:
            hint = suggestion(name, known)
            raise TypeError(f"got an unexpected keyword argument {name!r}{hint}")
    return {
        name: _validated(name, value, orders)
        for name, value in options.items()
        if value is not None
    }


def _validated(name: str, value: Any, orders: Mapping[str, Ordering | None] | None) -> Any:
    match name:
        case "top_k" | "depth":
            return whole_number(name, value)
        case "floor":
            return finite_number(name, value)
        case "deadline" | "target":
            return _positive(name, value)
        case "dedupe" | "strict":
            return _boolean(name, value)
        case "order":
            return _ordering(value, orders)
        case "instruction" | "now":
            return _text(name, value) if name == "instruction" else _time(name, value)
        case _:
            raise NotImplementedError(f"the option {name!r} has no validation")


def _positive(name: str, value: object) -> float:
    if (number := finite_number(name, value)) > 0:
        return number
    raise InputError(f"{name}: must be greater than 0")


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InputError(f"{name}: give True or False, not {describe(value)}")


def _ordering(value: object, orders: Mapping[str, Ordering | None] | None) -> Ordering | None:
    try:
        return to_ordering(value, orders)
    except ConfigurationError as error:
        raise InputError(f"order: {error}") from None


def _text(name: str, value: object) -> str | None:
    if isinstance(value, str):
        return well_formed(value).strip() or None
    raise InputError(f"{name}: give a string, not {describe(value)}")


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


@dataclass(frozen=True, slots=True)
class PassSettings:
    """Settings of one ranking pass: those of the reranker, or of the call.

    Attributes:
        stages: the method and its fallbacks, in the order in which they are tried.
        deadline, target: wall-clock seconds of the ranking; None uses those of the limits.
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
    target: float | None = None
    terms: Sequence[Term] = ()
    now: float = 0.0

    def override(
        self, options: CallOptions, orders: Mapping[str, Ordering | None] | None
    ) -> PassSettings:
        """Validate the options and apply them to these settings."""
        if not options:
            return self
        changes = validate(options, orders)
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
    """List the keywords of :class:`CallOptions` in the signature of a function that takes them.

    Type checkers read ``Unpack[CallOptions]``; ``help()`` and editors read the signature.
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
    return function
