"""The life of methods: what they need before they run, warming up and closing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from secondpass.asking.answer_keys import NotStorableError, service_key
from secondpass.effects import Method
from secondpass.errors import (
    ConfigurationError,
    MissingExtraError,
    Problem,
    SecondPassError,
    reraise_exit,
)
from secondpass.ranking.diagnostics import log, log_exception
from secondpass.ranking.methods import inner
from secondpass.ranking.scoring import ScorerMethod
from secondpass.ranking.stages import Stage


def check_cache(methods: Iterable[Method]) -> None:
    """Raise ConfigurationError if no answer could be stored in a response cache."""
    if not has_storable(methods):
        message = (
            "cannot be set: no method asks a service whose answers can be stored; a function or an "
            "object of a framework needs a 'cache_key', and a local model has settings of its own, "
            "such as 'store' of embedded or 'score_cache' of cross_encoder"
        )
        raise ConfigurationError([Problem(("cache",), message)])


def check_packages(methods: Sequence[Method], log_level: str) -> None:
    """Log each method that lacks packages, if another can run.

    Raises:
        MissingExtraError: all methods lack packages.
    """
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


def asks_service(method: Method) -> bool:
    """Whether a method asks a service, or may do so: one that is not built in, and does not say."""
    if parts := getattr(method, "methods", None):
        return any(map(asks_service, parts))
    if isinstance(method, ScorerMethod):
        return type(method.scorer).__module__.partition(".")[0] != "secondpass"
    return any(True for _ in services([method]))


def has_storable(methods: Iterable[Method]) -> bool:
    """Whether a method asks a service whose answers may be stored."""
    return any(map(is_storable, services(methods)))


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
    """The error of a method whose packages are missing."""
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
    first_error: BaseException | None = None
    for method in methods:
        try:
            call_if_present(inner(method), "warm_up")
            return first_error is None
        except BaseException as error:
            reraise_exit(error)
            log(log_level, "warming up %s failed: %s", method.name, reason_of(error))
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    return True


def warm_up_orderings(orderings: Iterable[object], log_level: str) -> None:
    """Load the models of orderings; what fails is logged, because rankings work without it."""
    for ordering in orderings:
        try:
            call_if_present(ordering, "warm_up")
        except BaseException as error:
            reraise_exit(error)
            log(log_level, "warming up an ordering failed: %s", reason_of(error))


def close_all(owners: Iterable[object], log_level: str = "warning") -> None:
    """Call the method ``close`` of each of these that has one; errors as of :class:`Closing`."""
    closing = Closing(log_level)
    for owner in owners:
        with closing:
            call_if_present(owner, "close")
    closing.end()


async def aclose_all(owners: Iterable[Any]) -> None:
    """Await the method ``aclose`` of each of these; errors as of :class:`Closing`."""
    closing = Closing()
    for owner in owners:
        with closing:
            await owner.aclose()
    closing.end()


class Closing:
    """Takes all steps of closing something, also if one raises. Each is a with block of its own.

    :meth:`end` raises the first error. The others are logged, by the names of their classes: their
    messages may contain anything. An interrupt and a cancellation are raised before other errors.
    """

    def __init__(self, log_level: str = "warning") -> None:
        self._log_level = log_level
        self._first: BaseException | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            return False
        if self._first is None:
            self._first = error
        elif isinstance(self._first, Exception) and not isinstance(error, Exception):
            self._log(self._first)
            self._first = error
        else:
            self._log(error)
        return True

    def _log(self, error: BaseException) -> None:
        log_exception(error, "closing")
        log(self._log_level, "closing also raised %s", type(error).__name__)

    def end(self) -> None:
        """Raise the first error, if there was one."""
        first, self._first = self._first, None
        if first is not None:
            try:
                raise first
            finally:
                del first  # the error refers to this frame


def call_if_present(owner: object, name: str) -> None:
    """Call an optional method."""
    function = getattr(owner, name, None)
    if function is not None:
        function()


def reason_of(error: BaseException) -> str:
    """Why something failed, for the log."""
    # The message of a foreign exception may contain anything.
    return str(error) if isinstance(error, SecondPassError) else type(error).__name__
