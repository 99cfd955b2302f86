"""Finds keys in configurations; copies configurations without, or with other, values of keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from secondpass.errors import NotSerializableError, Problem
from secondpass.settings import SECRET, Secret, environment, model_of, registry, variable
from secondpass.settings.secrets import bare, private_parts

HIDDEN = "<hidden>"
"""What takes the place of a key."""

_USUAL_SECRETS = frozenset({"api_key", "token"})
"""Settings that hold a key in mappings of an unknown kind."""

_KEY_WORDS = frozenset(
    """
    auth authorization bearer cookie cookies credential credentials header headers jwt key keys pass
    passphrase pat pwd secrets signature
    """.split()  # noqa: SIM905 - a table of words
)
"""Words in the name of a setting or variable whose value may be a key."""

_KEY_ENDS = ("apikey", "apikeys", "passwd", "password", "passwords", "secret", "token")
"""Ends of such words, as of `PGPASSWORD`. `tokens` counts them."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


def may_name_key(name: str) -> bool:
    """Whether the value of a setting or variable of this name may be a key."""
    words = re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    return any(word in _KEY_WORDS or word.endswith(_KEY_ENDS) for word in words)


_KEY_NAME = re.compile(
    r"(proxy)?authorization|bearer|cookie|jwt|passphrase|token|\w*(secret|passwd|password)"
    r"|\w*(access|account|api|auth|private|secret|subscription)keys?"
    r"|\w*(access|api|auth|bearer|hf|hub|refresh|security|session)tokens?"
)
"""Names, without hyphens and underscores, of nothing but keys: not of `pad_token`, for example."""


def names_key(name: str) -> bool:
    """Whether a text of this name is a key."""
    return bool(_KEY_NAME.fullmatch(re.sub(r"[\W_]", "", name.lower())))


def literal_keys(
    value: Any, path: tuple[str | int, ...] = (), *, foreign: bool = False
) -> Iterator[Problem]:
    """A problem for each key that a configuration holds instead of the name of its variable.

    In what is passed on to other libraries (``foreign``) a key is known by its name.
    """
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from literal_keys(item, (*path, index), foreign=foreign)
    if not isinstance(value, Mapping):
        return
    secrets = frozenset() if foreign else _secrets_of(value.get("type"))
    for name, item in value.items():
        place = (*path, str(name))
        literal = item.get("default") if environment.names_variable(item) else item
        if name in secrets and literal is not None:
            message = f"a file cannot hold a key; name its variable in {name + '_env'!r}"
            yield Problem(place, message)
        elif name == "base_url" and isinstance(literal, str) and _has_key(literal):
            message = "a file cannot hold a key; name the variable of the address: {env: NAME}"
            yield Problem(place, message)
        elif foreign and isinstance(item, str) and names_key(str(name)):
            yield Problem(place, "a file cannot hold a key; name its variable in 'api_key_env'")
        elif name not in secrets:
            inner = foreign or name in environment.FOREIGN
            yield from literal_keys(item, place, foreign=inner)


def check_written(written: Any, *about: str) -> None:
    """Raise a NotSerializableError if settings that are to be written hold a key."""
    message = "holds a key, which is not written out; name its environment variable instead"
    if problems := [Problem(problem.path, message) for problem in literal_keys(written)]:
        raise NotSerializableError(problems, *about)


def _has_key(url: str) -> bool:
    """Whether a parameter of an address is a key."""
    from urllib.parse import parse_qsl, urlsplit  # costs time to import

    try:
        names = [name for name, _ in parse_qsl(urlsplit(url).query)]
    except ValueError:
        return False
    return any(name.lower() in {"key", "sig"} or names_key(name) for name in names)


def with_hidden_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration that shows no key.

    Hides the settings of keys, parameters of other libraries that may be keys by their names, and
    the parts of an address that may be keys. Names of variables are kept.
    """
    return {**_hidden(config, foreign=False)}


def with_placeholder_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration that needs no key: those of variables become placeholders."""
    return {**_with_keys(config, lambda _name: "placeholder")}


def with_read_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration with the keys of variables that are set, which know their variable.

    So the configuration can be written out again, unlike one with the value of the variable.
    """
    return {**_with_keys(config, variable)}


def _hidden(value: Any, *, foreign: bool) -> Any:
    if isinstance(value, list | tuple):
        return [_hidden(item, foreign=foreign) for item in value]
    if not isinstance(value, Mapping):
        is_address = isinstance(value, str) and _ADDRESS.fullmatch(value) is not None
        return _without_query(value) if foreign and is_address else value
    secrets = _secrets_of(value.get("type"))
    result: dict[Any, Any] = {}
    for name, item in value.items():
        if name in secrets:
            result[name] = _without_value(item)
        elif foreign and may_name_key(str(name)):
            result[name] = _without_any_value(item)
        elif name == "base_url":
            result[name] = _without_query(item)
        else:
            result[name] = _hidden(item, foreign=foreign or name in environment.FOREIGN)
    return result


def _without_value(item: Any) -> Any:
    if environment.names_variable(item):
        return {name: part if name == "env" else HIDDEN for name, part in item.items()}
    return None if item is None else HIDDEN


def _without_any_value(item: Any) -> Any:
    """The value of a name that may be a key's, such as `headers`; numbers may be keys, too."""
    if isinstance(item, Mapping):
        return {name: _without_any_value(part) for name, part in item.items()}
    if isinstance(item, list | tuple):
        return [_without_any_value(part) for part in item]
    return item if item is None or isinstance(item, bool) else HIDDEN


def _without_query(item: Any) -> Any:
    """An address without its user, password, query and fragment, which may hold a key."""
    if environment.names_variable(item):
        return {key: part if key == "env" else _without_query(part) for key, part in item.items()}
    if isinstance(item, str) and any(private_parts(item)):
        return f"{bare(item)}?{HIDDEN}"
    return item


def _with_keys(value: Any, read: Callable[[str], str]) -> Any:
    """A copy in which variables of keys are replaced by what ``read`` returns, unless empty."""
    if type(value) in (list, tuple):  # no OptionalVariables, which are names
        return [_with_keys(item, read) for item in value]
    if not isinstance(value, Mapping):
        return value
    filled = {}
    for name, item in value.items():
        if name in environment.FOREIGN:
            filled[name] = item
        elif environment.names_variable(item) and name in _secrets_of(value.get("type")):
            source = item["env"]
            is_read = isinstance(source, str) and source and item.get("default") is None
            key_text = read(source) if is_read else ""
            filled[name] = Secret(key_text, source) if key_text else item
        else:
            filled[name] = _with_keys(item, read)
    return filled


def _secrets_of(kind: Any) -> frozenset[str]:
    """The settings that hold a key, of the method or language model that a ``type`` names."""
    kind = environment.read(kind)
    families: tuple[registry.Family, ...] = ("methods", "llms")
    for family in families:
        if isinstance(kind, str) and kind in registry.names(family):
            fields = model_of(registry.kind(family, kind)).model_fields
            return frozenset(name for name in fields if SECRET in fields[name].metadata)
    return _USUAL_SECRETS
