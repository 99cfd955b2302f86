"""One check for settings, whether they come from Python or from a file.

A configurable class states its settings once, as the typed parameters of its constructor:

    @configurable
    class LexicalScorer:
        def __init__(self, *, k1: Annotated[float, Ge(0)] = 1.2) -> None:
            self.k1 = k1

(``Ge`` and its like are those of annotated_types; with postponed annotations a module may import
them for type checkers only.)

From that signature come the check of every construction, the reading and writing of YAML, and the
JSON Schema. In return each parameter must be kept under its own name as an attribute.

pydantic does the checking. It is imported at the first construction, not with the package.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from secondpass.errors import ConfigurationError, NotSerializableError, Problem

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError
    from pydantic_core import CoreSchema

C = TypeVar("C", bound=type)
T = TypeVar("T")


def configurable(cls: C) -> C:
    """Check every construction of ``cls`` against the annotations of its constructor.

    A wrong value raises ConfigurationError, which names the parameter. Values arrive in the
    constructor as pydantic made them: nested mappings as the objects that they describe.
    """
    construct = cls.__init__  # type: ignore[misc]
    names = [
        name
        for name, parameter in inspect.signature(construct).parameters.items()
        if name != "self" and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]

    @functools.wraps(construct)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(names):
            raise TypeError(f"{cls.__name__} takes at most {len(names)} positional arguments")
        positional = dict(zip(names, args, strict=False))
        if twice := positional.keys() & kwargs.keys():
            raise TypeError(f"{cls.__name__} got {min(twice)!r} twice")
        try:
            construct(self, **validated(cls, {**positional, **kwargs}))
        except ConfigurationError as error:
            raise ConfigurationError(error.problems, cls.__name__) from None

    cls.__init__ = checked  # type: ignore[misc]
    _configurable.add(cls)
    return cls


_configurable: set[type] = set()


def is_configurable(value: object) -> bool:
    """Whether the class of ``value`` states its settings in its constructor."""
    return type(value) in _configurable


def validated(cls: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, checked; defaults are left to the constructor.

    Raises:
        ConfigurationError: listing every problem with its place.
    """
    from pydantic import ValidationError

    model = model_of(cls)
    try:
        instance = model.model_validate(dict(settings))
    except ValidationError as error:
        problems = _problems(
            error, list(model.model_fields), functools.partial(_hint, cls, settings)
        )
        raise ConfigurationError(problems) from None
    return {name: getattr(instance, name) for name in instance.model_fields_set}


@functools.cache
def model_of(cls: type, without: tuple[str, ...] = ()) -> type[BaseModel]:
    """The pydantic model that mirrors the constructor of ``cls``, but for some parameters."""
    import annotated_types
    from pydantic import ConfigDict, create_model

    construct = inspect.unwrap(cls.__init__)  # type: ignore[misc]
    # Modules need not import the constraints that their annotations name: it takes 15 ms.
    hints = typing.get_type_hints(construct, localns=vars(annotated_types), include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(construct).parameters.items():
        if name == "self" or name in without:
            continue
        missing = parameter.default is inspect.Parameter.empty
        fields[name] = (hints[name], ... if missing else parameter.default)
    config = ConfigDict(
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )
    model: type[BaseModel] = create_model(cls.__name__, __config__=config, **fields)
    return model


class Nested:
    """Marks a parameter that holds another configurable object.

    Used as ``Annotated[Blend | None, Nested(...)]``. The value may be such an object, or the
    mapping that describes one.

    Args:
        build: makes the object of whatever was given; raises ConfigurationError.
        schema: gives the JSON Schema of the mapping.
    """

    def __init__(self, build: Callable[[Any], Any], schema: Callable[[], dict[str, Any]]) -> None:
        self.build = build
        self.schema = schema

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            self.build,
            metadata={"pydantic_js_functions": [lambda _schema, _handler: self.schema()]},
        )


class OneOrMore:
    """Marks a parameter that holds a list, for whose only item a name may stand alone.

    Args:
        names: gives the names that may, for the JSON Schema.
    """

    def __init__(self, names: Callable[[], list[str]]) -> None:
        self.names = names

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        def schema(inner: Any, json_handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
            return {"anyOf": [{"enum": self.names()}, json_handler(inner)]}

        return core_schema.no_info_before_validator_function(
            lambda value: [value] if isinstance(value, str) else value,
            handler(source),
            metadata={"pydantic_js_functions": [schema]},
        )


def definition(name: str) -> dict[str, Any]:
    """Stands for a part of the JSON Schema that is written once, and may contain itself."""
    return {"x-definition": name}


def nested(cls: type, *, optional: bool = False) -> Nested:
    """A parameter that holds one ``cls``, or None where that is allowed."""

    def build(value: Any) -> Any:
        if isinstance(value, cls) or (optional and value is None):
            return value
        if isinstance(value, Mapping):
            return from_mapping(cls, value)
        raise ConfigurationError(f"give a mapping or a {cls.__name__}, not {describe(value)}")

    def schema() -> dict[str, Any]:
        own = model_of(cls).model_json_schema()
        return {"anyOf": [own, {"type": "null"}]} if optional else own

    return Nested(build, schema)


class Secret:
    """A key given in Python: used, but never shown and never written."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def reveal(self) -> str:
        """The key itself."""
        return self._value

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> Any:
        raise NotSerializableError("a key given in Python cannot be written out: name its variable")


def _secret(value: Any) -> Secret | None:
    if value is None or isinstance(value, Secret):
        return value
    # Secrets of pydantic and the like.
    if callable(reveal := getattr(value, "get_secret_value", None)):
        value = reveal()
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"give a key, a string that is not empty, not a {_kind(value)}")
    return Secret(value.strip())


def _kind(value: object) -> str:
    return "blank one" if isinstance(value, str) else type(value).__name__


SECRET = Nested(_secret, lambda: {"type": "null"})
"""A parameter that holds a key. In a configuration it can only be absent."""


def variables(setting: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names in a setting that names variables."""
    return (setting,) if isinstance(setting, str) else tuple(setting or ())


def _names_variables(setting: Any) -> Any:
    if not isinstance(setting, str | list | tuple | None):
        told = f"give the name of a variable or a list of names, not {describe(setting)}"
        raise ConfigurationError(told)
    if setting is not None and not (setting and all(map(_is_variable, variables(setting)))):
        # It may be the key itself, so it is not shown.
        raise ConfigurationError("give the name of a variable, not the key")
    return setting


_VARIABLE_NAME = r"(?!hf_\w{12})[A-Za-z_]\w*"
"""Of a variable, and of no key."""


def _variables_schema() -> dict[str, Any]:
    name = {"type": "string", "pattern": f"^{_VARIABLE_NAME}$"}
    return {"anyOf": [name, {"type": "array", "items": name, "minItems": 1}, {"type": "null"}]}


_VARIABLES = Nested(_names_variables, _variables_schema)
Variables: TypeAlias = Annotated[str | Sequence[str] | None, _VARIABLES]
"""A parameter that names the environment variable of a key, or several to be tried in turn."""


class OptionalVariables(list[str]):
    """Names of variables for a key that a server of your own may do without."""


def variable(name: str) -> str:
    """What an environment variable holds; nothing where it is not set."""
    try:
        return os.environ.get(name, "").strip()
    except ValueError:  # the operating system cannot hold a variable of such a name
        return ""


def first_set(names: Sequence[str]) -> str | None:
    """What the first of these variables that holds something holds."""
    return next(filter(None, map(variable, names)), None)


def _is_variable(name: object) -> bool:
    return isinstance(name, str) and bool(re.fullmatch(_VARIABLE_NAME, name))


def from_mapping(cls: type, settings: Mapping[Any, Any]) -> Any:
    """Construct ``cls`` from a mapping, with the problems of the mapping kept without a heading."""
    if wrong := [key for key in settings if not isinstance(key, str)]:
        raise ConfigurationError(f"keys must be words, not {describe(wrong[0])}")
    try:
        return cls(**settings)
    except ConfigurationError as error:
        raise ConfigurationError(error.problems) from None


def changed(instance: T, **settings: Any) -> T:
    """A copy of an object of a configurable class that has other settings."""
    names = inspect.signature(inspect.unwrap(type(instance).__init__)).parameters
    own = {name: getattr(instance, name) for name in names if name != "self"}
    return type(instance)(**{**own, **settings})


def to_mapping(instance: Any, dump: Callable[[Any, str], Any]) -> dict[str, Any]:
    """The settings of ``instance`` that are not at their defaults, as YAML can hold them.

    Args:
        instance: an object of a configurable class.
        dump: makes YAML of a value that is neither plain nor a list or mapping of plain ones;
            is told the parameter's name.
    """
    construct = inspect.unwrap(type(instance).__init__)
    settings: dict[str, Any] = {}
    for name, parameter in inspect.signature(construct).parameters.items():
        if name == "self":
            continue
        value = getattr(instance, name)
        if parameter.default is not inspect.Parameter.empty and value == parameter.default:
            continue
        written = _plain(value, functools.partial(_swapped, dump, name))
        if written == {} and not isinstance(value, Mapping):
            continue  # a nested object that is all defaults
        settings[name] = written
    return settings


def _swapped(dump: Callable[[Any, str], Any], name: str, value: Any) -> Any:
    return dump(value, name)


def _plain(value: Any, dump: Callable[[Any], Any]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, dump) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, dump) for item in value]
    return dump(value)


def not_serializable(value: object, where: str) -> NotSerializableError:
    """The error for an object that no YAML can describe."""
    if isinstance(value, Secret):
        told = "a key is not written out; name its environment variable instead"
    else:
        told = f"{describe(value)} has no registered name, so it cannot be written out"
    return NotSerializableError([Problem((where,), told)])


def describe(value: object) -> str:
    """What a value is, for messages; short values are quoted."""
    if value is None:
        return "nothing"
    if isinstance(value, str | int | float | bool):
        try:
            shown = repr(value)
        except Exception:  # an integer of thousands of digits, or a foreign subclass
            shown = ""
        if 0 < len(shown) <= 60:
            return shown
    kind = type(value)
    if hasattr(builtins, kind.__name__) and kind.__module__ != "builtins":
        return f"a {kind.__module__}.{kind.__name__}"  # numpy has another bool
    return f"a {kind.__name__}"


def suggestion(word: str, known: list[str]) -> str:
    """``; did you mean 'x'?`` where a known word is near, else the list of them."""
    import difflib

    if near := difflib.get_close_matches(word, known, n=1, cutoff=0.65):
        return f"; did you mean {near[0]!r}?"
    return f"; known are: {', '.join(sorted(known))}" if known else ""


def _hint(cls: type, settings: Mapping[str, Any], name: str, known: list[str]) -> str:
    """What may have been meant by a setting that ``cls`` does not have."""
    if name == "preset":
        return "; a preset can be named only at the top of a configuration"
    elsewhere = getattr(cls, "_place_elsewhere", None)
    place = elsewhere(name, settings) if elsewhere is not None else None
    return suggestion(name, known) if place is None else f"; did you mean {place!r}?"


def _problems(
    error: ValidationError, known: list[str], hint: Callable[[str, list[str]], str]
) -> list[Problem]:
    found: list[Problem] = []
    for detail in error.errors(include_url=False):
        path = detail["loc"]
        inner = detail.get("ctx", {}).get("error")
        if isinstance(inner, ConfigurationError):
            found.extend(problem.under(path) for problem in inner.problems)
        elif detail["type"] == "extra_forbidden":
            found.append(Problem(path, "unknown key" + hint(str(path[-1]), known)))
        elif detail["type"] == "missing":
            found.append(Problem(path, "is required"))
        elif detail["type"] == "sequence_str":
            found.append(Problem(path, f"must be a list, not {describe(detail['input'])}"))
        else:
            message = detail["msg"].removeprefix("Value error, ")
            message = message.replace("Input should", "must").replace("String should", "must")
            message = message.replace("must be an instance of Sequence", "must be a list")
            if message.startswith("Value should have"):  # it tells what there is by itself
                message = message.replace("Value should", "must").replace(" after validation", "")
            else:
                message += f", not {describe(detail['input'])}"
            found.append(Problem(path, message))
    return found
