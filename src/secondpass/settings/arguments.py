"""Errors about calls: what to write in place of arguments that a function does not take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from secondpass.settings.messages import too_many_by_position

F = TypeVar("F", bound=Callable[..., Any])

Hint: TypeAlias = Callable[[str, Collection[str]], str]
"""Returns ``; …`` for a keyword that a function does not take: of it, and of the known ones."""

_OWNERS = frozenset({"self", "cls", "_cls"})


def explained(hint: Callable[[], Hint] | None = None) -> Callable[[F], F]:
    """Make a function, or a class, say what to write in place of arguments that it does not take.

    A call with other arguments is passed on, and so are the errors of the function itself.

    Args:
        hint: returns what words a hint, when one is needed. Without it, hints are those of
            :mod:`secondpass.settings.call_hints` for the name of the function.
    """

    def decorate(function: F) -> F:
        if not isinstance(function, type):
            return cast("F", _explained(function, hint))
        name = "__new__" if issubclass(function, tuple) else "__init__"
        setattr(function, name, _explained(getattr(function, name), hint))
        return function

    return decorate


def _explained(function: Any, hint: Callable[[], Hint] | None) -> Any:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except TypeError:
                if not (message := _message(function, args, kwargs, hint)):
                    raise
            raise TypeError(message)

        return call_async

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            if not (message := _message(function, args, kwargs, hint)):
                raise
        raise TypeError(message)

    return call


def _message(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    hint: Callable[[], Hint] | None,
) -> str:
    """What is wrong with the arguments, and what to write; empty if Python's words are enough."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return ""  # an error of the function itself
    from secondpass.settings import call_hints  # for errors only

    call = function.__qualname__.removesuffix(".__init__").removesuffix(".__new__")
    parameters = [each for each in signature.parameters.values() if each.name not in _OWNERS]
    known = [each.name for each in parameters]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    unknown = next((name for name in kwargs if name not in known), None)
    if unknown is not None and not takes_any:
        words = (hint or (lambda: call_hints.of_keyword(call)))()(unknown, known)
        return f"{call}() got an unexpected keyword argument {unknown!r}{words}"
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    further = args[len(names) + len(signature.parameters) - len(parameters) :]
    if not further:
        return ""
    if takes_any:
        is_mapping = isinstance(further[0], Mapping)
        words = f"; {'write ** before the mapping of' if is_mapping else 'name the'} settings"
    else:
        keywords = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        words = call_hints.of_position(call, keywords)
    return too_many_by_position(call, names) + words
