"""Keys: secrets in Python, and names of environment variables in configurations."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from secondpass.errors import ConfigurationError, NotSerializableError, Problem, with_article
from secondpass.settings.messages import describe
from secondpass.settings.signature import Nested

_MAX_ADDRESS = 300


class Secret:
    """A key. It is used, but neither shown nor written out.

    Args:
        value: the key.
        variable: the environment variable that it was read from, which is written out; None for a
            key that was given in Python.
    """

    __slots__ = ("_value", "variable")

    def __init__(self, value: str, variable: str | None = None) -> None:
        self._value = value
        self.variable = variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def reveal(self) -> str:
        """The key itself."""
        return self._value

    def as_setting(self, where: str) -> dict[str, str]:
        """The form of the setting ``where`` in a configuration.

        Raises:
            NotSerializableError: the key was given in Python.
        """
        if self.variable is None:
            message = "a key cannot be written out; name its environment variable instead"
            raise NotSerializableError([Problem((where,), message)])
        return {"env": self.variable}

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> Any:
        raise NotSerializableError("a key given in Python cannot be written out: name its variable")


def _secret(value: Any) -> Secret | None:
    if value is None or isinstance(value, Secret):
        return value
    # pydantic's SecretStr and the like
    if callable(reveal := getattr(value, "get_secret_value", None)):
        value = reveal()
    if not isinstance(value, str):
        kind = with_article(type(value).__name__)
        hint = "the name of its variable goes into 'api_key_env' or 'token_env'"
        raise ConfigurationError(f"give a key, a string, not {kind}; {hint}")
    if not value.strip():
        raise ConfigurationError("give a key, a string that is not blank")
    return Secret(value.strip())


SECRET = Nested(_secret, lambda: {"type": "null"})
"""Marks a parameter that holds a key. A file can only leave it out."""


def variables(setting: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names of the variables in a setting of the type :data:`Variables`."""
    return (setting,) if isinstance(setting, str) else tuple(setting or ())


def variable(name: str) -> str:
    """The value of an environment variable without surrounding space; empty if it is not set."""
    try:
        return os.environ.get(name, "").strip()
    except ValueError:  # the operating system allows no variable of such a name
        return ""


def first_set(names: Sequence[str]) -> str | None:
    """The value of the first of these variables that is set and not empty."""
    return next(filter(None, map(variable, names)), None)


_NAME_PATTERN = r"(?!hf_\w{12})[A-Za-z_]\w*"
"""Of a variable's name; tokens of the Hugging Face hub are excluded."""


def is_variable(name: object) -> bool:
    """Whether this can be the name of an environment variable."""
    return isinstance(name, str) and bool(re.fullmatch(_NAME_PATTERN, name))


def _checked_names(setting: Any) -> Any:
    if not isinstance(setting, str | list | tuple | None):
        message = f"give the name of a variable or a list of names, not {describe(setting)}"
        raise ConfigurationError(message)
    if setting is not None and not (setting and all(map(is_variable, variables(setting)))):
        # It may be the key itself, so it is not quoted.
        raise ConfigurationError("give the name of a variable, not the key")
    return setting


def _names_schema() -> dict[str, Any]:
    name = {"type": "string", "pattern": f"^{_NAME_PATTERN}$"}
    return {"anyOf": [name, {"type": "array", "items": name, "minItems": 1}, {"type": "null"}]}


Variables: TypeAlias = Annotated[str | Sequence[str] | None, Nested(_checked_names, _names_schema)]
"""A parameter that names the environment variable of a key, or several to be tried in turn."""


class OptionalVariables(list[str]):
    """Variables of a key that a self-hosted server may do without."""


def bare(url: str) -> str:
    """An address without user, password, query and fragment; empty if it is invalid."""
    from urllib.parse import urlsplit  # costs time to import

    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return ""
    path = "".join(character for character in parts.path if character.isprintable())
    return f"{parts.scheme}://{host}{path}"[:_MAX_ADDRESS] if host else ""


def private_parts(url: str | None) -> list[str]:
    """The parts of an address that may contain a key."""
    from urllib.parse import urlsplit  # costs time to import

    try:
        parts = urlsplit(url or "")
    except ValueError:
        return []
    return [parts.netloc.rpartition("@")[0], *re.split(r"[&=;]", parts.query), parts.fragment]
