"""Life cycle of methods: checks of packages and prices, warming up, closing, copying."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from secondpass.asking.response_cache import NotStorableError, ResponseCache, service_key
from secondpass.effects import Method
from secondpass.errors import ConfigurationError, MissingExtraError, Problem, SecondPassError
from secondpass.limits import Limits
from secondpass.ranking.diagnostics import log
from secondpass.ranking.methods import Stage, inner
from secondpass.ranking.scoring import ScorerMethod


def check_methods(
    methods: Sequence[Method], limits: Limits, cache: ResponseCache | None, log_level: str
) -> None:
    """Check that methods can be used with these limits and this cache.

    Each that lacks packages, while another can run, is logged.

    Raises:
        ConfigurationError: a language model has no prices, for a cost limit; or there is a cache,
            and no answer could be stored.
        MissingExtraError: all methods lack packages.
    """
    if limits.cost is not None:
        check_prices(methods)
    if cache is not None and not any(map(is_storable, services(methods))):
        message = (
            "cannot be set: no method asks a service whose answers can be stored; a function or an "
            "object of a framework needs a 'cache_key', and a local model has settings of its own"
        )
        raise ConfigurationError([Problem(("cache",), message)])
    for index, error in enumerate(check_installed(methods)):
        if error is not None:
            role = "fallback" if index else "method"
            log(log_level, "the %s %s cannot run: %s", role, methods[index].name, error)


def check_prices(methods: Iterable[Method]) -> None:
    """Raise ConfigurationError if a language model has no prices, as for a cost limit."""
    for method in methods:
        for llm in getattr(method, "language_models", ()):
            if getattr(llm, "prices", None) is None:
                message = f"cannot be kept without the prices of {llm.name!r}: set its 'prices'"
                raise ConfigurationError([Problem(("limits", "cost"), message)])


def services(methods: Iterable[Method]) -> Iterator[Any]:
    """The services that methods ask; None for each method that does not state its services.

    Scorers ask none. A method that runs others has these as ``methods``.
    """
    for method in methods:
        if parts := getattr(method, "methods", None):
            yield from services(parts)
        elif not isinstance(method, ScorerMethod):
            yield from getattr(method, "language_models", [None])


def is_storable(service: Any) -> bool:
    """Whether answers of a service may be stored; true if the service is not known."""
    try:
        return service is None or bool(service_key(service))
    except NotStorableError:
        return False


def check_installed(methods: Iterable[Method]) -> list[MissingExtraError | None]:
    """For each method, the error if its packages are missing.

    Raises:
        MissingExtraError: all methods lack packages; this is the error of the first.
    """
    errors = [_missing(method) for method in methods]
    if errors and errors[0] is not None and all(errors):
        raise errors[0]
    return errors


def _missing(method: Method) -> MissingExtraError | None:
    try:
        call_if_present(inner(method), "check_installed")
    except MissingExtraError as error:
        return error
    return None


def runnable(stages: Sequence[Stage]) -> Stage:
    """The first stage whose packages are installed; the first if there is none."""
    return next((stage for stage in stages if _missing(stage.method) is None), stages[0])


def warm_up_first(methods: Iterable[Method], log_level: str) -> bool:
    """Load the models of the first method that can be loaded; return whether it is the first.

    Raises:
        ModelLoadError | MissingExtraError: none can be loaded; this is the error of the first.
    """
    first_error: Exception | None = None
    for method in methods:
        try:
            call_if_present(inner(method), "warm_up")
            return first_error is None
        except Exception as error:
            log(log_level, "warming up %s failed: %s", method.name, reason_of(error))
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    return True


def close_all(methods: Iterable[Method]) -> None:
    """Release the models and connections of all methods."""
    for method in methods:
        call_if_present(inner(method), "close")


def call_if_present(owner: object, name: str) -> None:
    """Call an optional method."""
    function = getattr(owner, name, None)
    if function is not None:
        function()


def reason_of(error: Exception) -> str:
    # The message of a foreign exception may contain anything.
    return str(error) if isinstance(error, SecondPassError) else type(error).__name__
