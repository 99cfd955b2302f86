"""Checks of the addresses of rerank APIs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from secondpass.errors import ConfigurationError, Problem


def check_url(url: str, setting: str) -> None:
    """Check a base URL.

    Raises:
        ConfigurationError: it is invalid, or contains a password.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{setting}: must begin with http:// or https://")
    try:
        host = urlsplit(url).netloc
    except ValueError:
        raise ConfigurationError(f"{setting}: is not a valid URL; give one with http") from None
    if "@" in host:
        raise ConfigurationError(f"{setting}: must not contain a password, as http allows it")


def check_path(path: str, setting: str) -> None:
    """Check the path of a URL, in which ``$model`` is the only placeholder.

    Raises:
        ConfigurationError: it is invalid.
    """
    if re.search(r"[\s\x00-\x1f\x7f#]", path):
        message = "must not contain spaces or '#', as http allows none"
        raise ConfigurationError([Problem((setting,), message)])
    if wrong := [name for name in re.findall(r"\$\w+", path) if name != "$model"]:
        message = f"{wrong[0]!r} is no placeholder; '$model' is one"
        raise ConfigurationError([Problem((setting,), message)])
