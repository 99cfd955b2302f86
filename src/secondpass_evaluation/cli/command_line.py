"""The command line for reports, without secrets."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from secondpass.settings.shared import may_name_key

_MASK = "***"
_ASSIGNMENT = re.compile(r"(?s)((?:--?[A-Za-z][\w-]*=)?(-?-?[\w.-]+)=)(.*)")
_INNER_NAME = re.compile(r"[\"']?([\w-]+)[\"']?\s*[:=]")
_ADDRESS = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/?#]*@")
_ADDRESS_TAIL = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s?#]*)[?#]\S*")
_KNOWN_KEY = re.compile(
    r"(?i)\b(?:bearer\s+|(?:sk|pk|rk|hf|gsk|xai|pplx|pa|jina|r8|ghp|glpat)[-_]|AIza)[\w-]{8,}"
)
_LONG_RUN = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{32,}\b")
_SHORTEST = 6
"""Characters of a variable's value from which on it is looked for."""


def masked(arguments: Sequence[str]) -> str:
    """The command line as a shell reads it; what may be a secret is replaced by ``***``.

    These are the values of settings named like a key (in ``--set`` and everywhere else), user,
    password, query and fragment of addresses, what looks like a key, and the values of environment
    variables that are named like one.
    """
    secrets = _secret_values()
    return shlex.join(["secondpass", *(_masked(argument, secrets) for argument in arguments)])


def _masked(argument: str, secrets: Sequence[str]) -> str:
    for value in secrets:
        argument = argument.replace(value, _MASK)
    if match := _ASSIGNMENT.fullmatch(argument):
        start, name, value = match.groups()
        inner = _INNER_NAME.findall(value)
        if any(map(may_name_key, (name, *inner))):
            return start + _MASK
    argument = _ADDRESS.sub(rf"\1{_MASK}@", argument)
    argument = _ADDRESS_TAIL.sub(rf"\1?{_MASK}", argument)
    argument = _KNOWN_KEY.sub(_MASK, argument)
    return _LONG_RUN.sub(_MASK, argument)


def _secret_values() -> list[str]:
    """The values of variables named like a secret, the longest first."""
    values = {
        value.strip()
        for name, value in os.environ.items()
        if may_name_key(name) and len(value.strip()) >= _SHORTEST
    }
    return sorted(values, key=len, reverse=True)
