"""Checks the API keys of clients."""

from __future__ import annotations

import hmac
import os
import re
import time
from collections.abc import Callable, Mapping

from secondpass import ConfigurationError
from secondpass.ranking.diagnostics import log
from secondpass.settings import variable, variables
from secondpass_server.http.errors import RequestError
from secondpass_server.http.settings import ServerSettings

_CHECK_SECONDS = 1.0
"""Minimum seconds between checks whether a file of keys has changed."""
_SHORTEST = 8
"""Minimum characters of a key."""


class Keys:
    """The keys that are accepted at the moment.

    Several keys make rotation possible: clients change to the new key while the old one is still
    valid. A file is read again when it has changed; if that fails, or it has no valid key, the
    previous keys remain.

    Args:
        settings: of the server.
        clock: a monotonic clock, in seconds.

    Raises:
        ConfigurationError: a variable or the file has no key, or one that is too short.
    """

    def __init__(
        self, settings: ServerSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.demanded = settings.demands_key
        self._path = settings.api_key_file
        self._clock = clock
        self._fixed: tuple[bytes, ...] = ()
        for name in variables(settings.api_key_env):
            self._fixed += _keys_in(variable(name), f"API keys in the variable {name}")
        self._checked = clock()
        self._version: object = None
        self._stale = False
        self._from_file: tuple[bytes, ...] = ()
        if self._path is not None:
            self._version = _version(self._path)
            self._from_file = _read(self._path)

    def check(self, headers: Mapping[str, str]) -> None:
        """Check the key of a request: ``Authorization``, with or without ``Bearer``, or
        ``X-Api-Key``.

        Raises:
            RequestError: a key is demanded, and the request has none or another.
        """
        if not self.demanded:
            return
        self._refresh()
        sent = headers.get("authorization") or headers.get("x-api-key") or ""
        sent = re.sub(r"(?i)^bearer\s+", "", sent.strip())
        # Every key is compared, so that the time does not depend on which one matches.
        matches = [
            hmac.compare_digest(sent.encode("utf-8", "replace"), key)
            for key in (*self._fixed, *self._from_file)
        ]
        if not any(matches):
            reason = "is not valid" if sent else "is missing"
            raise RequestError(
                401,
                f"the API key {reason}; send it as 'Authorization: Bearer KEY'",
                "unauthorized",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _refresh(self) -> None:
        now = self._clock()
        if self._path is None or now - self._checked < _CHECK_SECONDS:
            return
        self._checked = now
        try:
            version = _version(self._path)
            if version != self._version:
                self._from_file = _read(self._path)
                self._version = version
        except ConfigurationError as error:
            # The file may be half written; the next check reads it again.
            if not self._stale:
                log("warning", "the previous keys remain valid: %s", error)
            self._stale = True
        else:
            self._stale = False


def _version(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError as error:
        raise ConfigurationError(f"API keys in {path}: cannot be read: {error.strerror}") from None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: str) -> tuple[bytes, ...]:
    source = f"API keys in {path}"
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file.read().splitlines() if not line.lstrip().startswith("#")]
    except OSError as error:
        raise ConfigurationError(f"{source}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{source}: must be UTF-8") from None
    return _keys_in("\n".join(lines), source)


def _keys_in(text: str, source: str) -> tuple[bytes, ...]:
    keys = re.split(r"[\s,]+", text.strip()) if text.strip() else []
    if not keys:
        raise ConfigurationError(f"{source}: has no key")
    if any(len(key) < _SHORTEST for key in keys):
        message = f"{source}: a key is too short; give each {_SHORTEST} characters or more"
        raise ConfigurationError(message)
    if not all(key.isascii() for key in keys):
        raise ConfigurationError(f"{source}: a key is not ASCII, which headers cannot carry")
    return tuple(key.encode() for key in keys)
