"""Every exception of secondpass.

::

    SecondPassError
    ├── ConfigurationError (also a ValueError)   wrong settings; raised when they are given
    │   └── NotSerializableError                 to_config() met an object that YAML cannot hold
    ├── InputError (also a ValueError)           wrong query, candidates or per-call argument
    ├── MissingExtraError (also a RuntimeError   an optional package is not installed
    │     and an ImportError)
    ├── MethodError (also a RuntimeError)        a method could not judge what it was shown
    │   ├── ModelLoadError                       its model could not be loaded
    │   ├── DeadlineError                        the time was over before it was asked
    │   ├── BudgetError                          calls, tokens or money were
    │   ├── LLMError                             a language model gave no answer
    │   ├── ReplyError                           it gave one that cannot be used
    │   └── NestedCallError (also an InputError) a model called the reranker that waits for it
    └── RerankError (also a RuntimeError)        a fault under ``strict``; carries the ranking

No message of these holds a query, a passage or a key. All of them pass between processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secondpass.types import Ranking


class SecondPassError(Exception):
    """Base class of every exception that secondpass raises."""


class Problem:
    """One thing that is wrong with a configuration: where it is, and what would be right."""

    __slots__ = ("message", "path")

    def __init__(self, path: Sequence[str | int], message: str) -> None:
        self.path = tuple(path)
        self.message = message

    def under(self, prefix: Sequence[str | int]) -> Problem:
        """The same problem, seen from the mapping that holds this one."""
        return Problem((*prefix, *self.path), self.message)

    def __repr__(self) -> str:
        return f"Problem({str(self)!r})"

    def __str__(self) -> str:
        where = ""
        for step in self.path:
            where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else step
        return f"{where}: {self.message}" if where else self.message


class ConfigurationError(SecondPassError, ValueError):
    """Settings that cannot work. ``problems`` lists each of them with its place.

    Args:
        problems: what is wrong; a plain string is one problem without a place.
        about: what was being configured, for the first line.
    """

    def __init__(self, problems: str | Sequence[Problem], about: str = "") -> None:
        self.problems: tuple[Problem, ...] = (
            (Problem((), problems),) if isinstance(problems, str) else tuple(problems)
        )
        self.about = about
        super().__init__(self.problems, about)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems]
        head = f"{self.about}: " if self.about else ""
        if len(lines) == 1:
            text = head + lines[0]
        else:
            text = head + f"{len(lines)} problems\n  " + "\n  ".join(lines)
        # Names in a file may hold lone surrogates, which can be neither printed nor logged.
        return text.encode("utf-8", "backslashreplace").decode()


class NotSerializableError(ConfigurationError):
    """A reranker holds an object that has no registered name, so no YAML can describe it."""


class InputError(SecondPassError, ValueError):
    """A query, a candidate or a per-call argument of the wrong kind. The message names it."""


class MissingExtraError(SecondPassError, RuntimeError, ImportError):
    """An optional package is needed and not installed.

    Args:
        extra: the name of the extra, as in ``pip install "secondpass[extra]"``.
        needed_for: what asked for it.
    """

    code = "missing_extra"

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra = extra
        self.needed_for = needed_for
        super().__init__(extra, needed_for)

    def __str__(self) -> str:
        return (
            f"{self.needed_for} needs packages that are not installed. "
            f'Run: pip install "secondpass[{self.extra}]"'
        )


class MethodError(SecondPassError, RuntimeError):
    """A method could not judge the candidates it was shown.

    Args:
        message: what happened, without any text of the query or of a candidate.
        code: a stable word for programs; goes into the report.
    """

    code = "method_failed"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message, code)
        self.message = message
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return self.message


class ModelLoadError(MethodError):
    """A model could not be loaded: no such folder, no network, broken files, wrong kind."""

    code = "model_not_loaded"


class DeadlineError(MethodError):
    """The deadline had passed before the method was asked."""

    code = "deadline"


class BudgetError(MethodError):
    """The calls, tokens or money that one ranking may take were spent."""

    code = "budget"


class LLMError(MethodError):
    """A language model gave no answer.

    Args:
        message: what happened; of what the server wrote only what is neither of the request nor of
            a key.
        code: a stable word for programs; goes into the report.
        retryable: whether the same request may succeed a little later.
        retry_after: seconds after which the server says that it may.
        adapted: the client has changed how it asks, and should be asked again at once.
        too_long: the server found the prompt too long.
        sent: whether a request was sent at all.
    """

    code = "llm_failed"

    def __init__(
        self,
        message: str,
        code: str | None = None,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        adapted: bool = False,
        too_long: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(message, code)
        self.retryable = retryable
        self.retry_after = retry_after
        self.adapted = adapted
        self.too_long = too_long
        self.sent = sent

    def with_message(self, message: str) -> LLMError:
        """The same error in other words."""
        return LLMError(
            message,
            self.code,
            retryable=self.retryable,
            retry_after=self.retry_after,
            adapted=self.adapted,
            too_long=self.too_long,
            sent=self.sent,
        )


class ReplyError(MethodError):
    """A language model's reply is not of the form that was asked for, or is ambiguous."""

    code = "reply_refused"


class NestedCallError(InputError, MethodError):
    """A model called a reranker that could never answer, because it waits for that model.

    ``rerank`` and ``arerank`` raise it inside the model, whatever ``strict`` says. If the model
    passes it on, the report of the outer ranking lists it.
    """

    code = "nested_call"

    def __init__(self, message: str) -> None:
        MethodError.__init__(self, message)


class RerankError(SecondPassError, RuntimeError):
    """A fault met under ``strict``. ``ranking`` is what would have been returned without it."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        report = ranking.report
        told = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
        # The ranking is no argument of the exception: tools that log arguments would log passages.
        super().__init__(f"reranking is {report.status}, and strict was asked for: {told}")

    def __reduce__(self) -> tuple[type[RerankError], tuple[Ranking]]:
        return RerankError, (self.ranking,)
