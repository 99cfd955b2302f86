"""Tracebacks of exceptions that scorers, functions and methods of your own raise.

Reports, errors and the logger ``secondpass`` name only the class of such an exception, because its
message and its traceback may hold queries, passages or keys. The logger ``secondpass.diagnostics``
gets all of it, but only if its own level is DEBUG::

    logging.getLogger("secondpass.diagnostics").setLevel(logging.DEBUG)

The level of a parent does not count, so an application that logs everything at DEBUG does not get
passages into its logs by accident. Exceptions of providers' SDKs are never logged.
"""

from __future__ import annotations

import logging

_logger = logging.getLogger("secondpass.diagnostics")


def log_exception(error: BaseException, source: str) -> None:
    """Log the traceback of ``error`` if the diagnostics logger is set to DEBUG."""
    if logging.NOTSET < _logger.level <= logging.DEBUG:
        _logger.debug("%s raised %s", source, type(error).__name__, exc_info=error)
