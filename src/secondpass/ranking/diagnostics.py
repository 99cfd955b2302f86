"""What is logged: issues of rankings, tracebacks on request, and names without folders.

The logger ``secondpass`` gets one record for each ranking that met an error. Reports, errors and
this logger name only the class of an exception that your own scorer, function or method raised,
because its message and its traceback may hold queries, passages or keys. The logger
``secondpass.diagnostics`` gets all of it, but only if its own level is DEBUG::

    logging.getLogger("secondpass.diagnostics").setLevel(logging.DEBUG)

The level of a parent does not count, so an application that logs everything at DEBUG does not get
passages into its logs by accident. Exceptions of providers' SDKs are never logged.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from secondpass.concurrency.workers import uninterrupted
from secondpass.errors import printable
from secondpass.settings import counted
from secondpass.types import Issue

if TYPE_CHECKING:
    from secondpass.ranking.result import Ranking

_logger_name: ContextVar[str] = ContextVar("secondpass_logger_name", default="secondpass")
_traceback_logger = logging.getLogger("secondpass.diagnostics")

_INPUT_ISSUES = {"original_missing", "original_out_of_range", "query_empty"}
"""Issues of candidates and query, which are not logged: they would recur with every query."""

_ONCE = {
    "field_missing",
    "instruction_not_used",
    "list_split",
    "model_doubtful",
    "no_text",
    "not_cached",
    "not_english",
    "query_truncated",
    "score_unreadable",
    "scores_ascending",
    "text_truncated",
}
"""Issues that are logged once per process, because they usually concern every query."""
_logged: set[str] = set()

_RECOVERED = {"asked_again", "batch_failed"}  # issues that need no attention if the report is ok


@contextmanager
def use_logger(name: str) -> Iterator[None]:
    """Log under another name inside the block, for frameworks that show only their own loggers."""
    token = _logger_name.set(name)
    try:
        yield
    finally:
        _logger_name.reset(token)


def log(level: str, message: str, *values: object, cause: str | None = None) -> None:
    """Log a message at a level given by its name in lower case, in one line.

    ``cause``, an attribute of the record, is the same for messages that differ in numbers only.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    shown = [value if isinstance(value, int) else printable(str(value)) for value in values]
    name = _logger_name.get()
    extra = None if cause is None else {"cause": printable(cause)}
    _emit(lambda: logging.getLogger(name).log(number, message, *shown, extra=extra))


def log_issues(rankings: Iterable[Ranking], level: str) -> None:
    """Log the issues of each ranking in one record; at DEBUG if none needs attention."""
    for ranking in rankings:
        report = ranking.report
        if not report.issues:
            continue
        skipped = _INPUT_ISSUES | _logged
        if report.status != "unchanged":  # some texts may well be empty, all of a list may not
            skipped = skipped | {"no_text"}
        issues = [issue for issue in report.issues if issue.code not in skipped]
        _logged.update(_ONCE & {issue.code for issue in issues})
        if issues:
            recovered = report.status == "ok" and all(issue.code in _RECOVERED for issue in issues)
            total = len(ranking) + sum(map(len, report.left_out.values()))
            summary = "; ".join(_described(issue, total) for issue in issues)
            cause = "; ".join([report.status_text, *(f"{it.code}: {it.message}" for it in issues)])
            is_ok = report.status == "ok"
            how = "reranking" if is_ok else f"reranking is {report.status_text}"
            log("debug" if recovered else level, "%s: %s", how, summary, cause=cause)


def _described(issue: Issue, total: int) -> str:
    """An issue, with how many candidates it concerns, unless it concerns the ranking as a whole."""
    count = len(issue.positions)
    concerned = f" ({count:,} of {counted(total, 'candidate')})" if count else ""
    return f"{issue.code}{concerned}: {issue.message}"


def log_exception(error: BaseException, source: str) -> None:
    """Log the traceback of ``error`` if the level of ``secondpass.diagnostics`` is DEBUG."""
    if logging.NOTSET < _traceback_logger.level <= logging.DEBUG:
        message = "%s raised %s", source, type(error).__name__
        _emit(lambda: _traceback_logger.debug(*message, exc_info=error))


def _emit(log: Callable[[], None]) -> None:
    """Log something, in another thread than the main one.

    Up to Python 3.12, ``logging`` takes its locks in Python code. An exception of a signal handler
    there leaves one held, and every thread waits for ever that logs next.
    """
    if sys.version_info < (3, 13) and current_thread() is main_thread():
        uninterrupted(log)
    else:
        log()


_PARTS = r"(, then (?:\w+ by )?|^\w+ by )"
"""Before the names of models within that of a method, as in ``a, then graded by b``."""

_PATH = r"[/~\\]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|.*\\"
"""How a path begins, on any system. Names of models on a hub have a separator, too."""

_FOLDERS = r"(?<![\w:/\\])(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[^/\\,]*[/\\])*(?=[^/\\,])"
"""The folders of a path among other words, as in a name that your own scorer has."""


@lru_cache(256)
def without_folders(method: str) -> str:
    """The name of a method without the folders of local models: ``/home/me/bge`` is ``bge``."""
    return "".join(map(_last_part, re.split(_PARTS, method)))


def _last_part(name: str) -> str:
    if re.match(_PATH, name) or ("/" in name and _is_folder(name)):
        return re.split(r"[/\\]", name.rstrip("/\\"))[-1] or name
    return re.sub(_FOLDERS, "", name)


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # such as a name that is too long for a file
        return False
