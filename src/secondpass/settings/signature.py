"""Validates settings, those from Python and those from a file alike.

A configurable class states its settings once, as the typed parameters of its constructor:

    @configurable
    class LexicalScorer:
        def __init__(self, *, k1: Annotated[float, Ge(0)] = 1.2) -> None:
            self.k1 = k1

Validation, the YAML form and the JSON Schema are derived from that signature. Each parameter must
be stored as an attribute of the same name. A ConfigurationError of the constructor may begin with
the name of a setting and a colon. Once the object is constructed, these attributes cannot
be changed: nothing would check the values, and calls that run share the object.

Constraints such as ``Ge`` are those of annotated_types; with postponed annotations a module may
import them under ``TYPE_CHECKING`` only. pydantic does the checking. It is imported at the first
construction with a setting that is not :func:`nested`, since it costs more than a ranking.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.settings.messages import (
    NO_LIST,
    REQUIRED,
    UNKNOWN_KEY,
    describe,
    problems_of,
    suggestion,
    too_many_by_position,
    with_off_hint,
)

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler
    from pydantic_core import CoreSchema

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_configurable: set[type] = set()


def configurable(cls: C) -> C:
    """Validate the arguments of ``cls`` against the annotations of its constructor.

    A wrong value raises ConfigurationError, which names the parameter. The constructor receives
    values as pydantic validated them: objects in place of the nested mappings that describe them.

    Once it has ended, the attributes with the names of the parameters cannot be set: an
    AttributeError says what to do instead. Other attributes can. A class that defines
    ``__setattr__`` itself, as a frozen dataclass does, keeps that.
    """
    construct = cls.__init__  # type: ignore[misc]
    set_attribute: Any = cls.__setattr__
    if set_attribute is object.__setattr__:
        cls.__setattr__ = _set_unless_fixed  # type: ignore[assignment]
        cls.__delattr__ = _delete_unless_fixed  # type: ignore[assignment]
    fixes_settings = set_attribute in {object.__setattr__, _set_unless_fixed}
    settings = frozenset(inspect.signature(construct).parameters) - {"self"}
    names = [
        name
        for name, parameter in inspect.signature(construct).parameters.items()
        if name != "self" and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]

    @functools.wraps(construct)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(names):
            keywords = [name for name in parameters_of(cls) if name not in names]
            hint = f"; name the others, as in {keywords[0]}=…" if keywords else ""
            raise TypeError(too_many_by_position(cls.__name__, names) + hint)
        positional = dict(zip(names, args, strict=False))
        if twice := positional.keys() & kwargs.keys():
            raise TypeError(f"{cls.__name__} got {min(twice)!r} twice")
        try:
            construct(self, **validated(cls, {**positional, **kwargs}))
        except ConfigurationError as error:
            problems = [_with_path(problem, settings) for problem in error.problems]
            raise ConfigurationError(problems, cls.__name__) from None
        if fixes_settings:
            _attributes(self)[_FIXED] = settings | _attributes(self).get(_FIXED, frozenset())

    cls.__init__ = show_types(checked)  # type: ignore[misc]
    _configurable.add(cls)
    return cls


def _with_path(problem: Problem, settings: Collection[str]) -> Problem:
    """The problem with its path, of a constructor that writes it before a colon in the message."""
    found = re.match(r"(\w+)((?:\[\d+\]|\.\w+)*): ", problem.message)
    if problem.path or found is None or found[1] not in settings:
        return problem
    path = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", found[0])]
    return Problem(path, problem.message[found.end() :])


_FIXED = "_fixed_settings"
"""Name of the attribute with the names of the settings of a constructed object."""


def _set_unless_fixed(self: object, name: str, value: object) -> None:
    if name in _attributes(self).get(_FIXED, ()):
        raise _fixed_error(type(self), name)
    object.__setattr__(self, name, value)


def _delete_unless_fixed(self: object, name: str) -> None:
    if name in _attributes(self).get(_FIXED, ()):
        raise _fixed_error(type(self), name)
    object.__delattr__(self, name)


def _fixed_error(cls: type, name: str) -> AttributeError:
    instead = getattr(cls, "_instead_of_setting", None)
    hint = f"create another {cls.__name__}" if instead is None else instead(name)
    return AttributeError(f"{name} cannot be changed after construction; {hint}")


def _attributes(instance: object) -> dict[str, Any]:
    return getattr(instance, "__dict__", {})  # with __slots__ there is none, and nothing is fixed


def show_types(function: F) -> F:
    """Show types without constraints in the signature of a function, in ``help()`` and editors."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=without_constraints(parameter.annotation))
        for parameter in signature.parameters.values()
    ]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function


def without_constraints(annotation: Any) -> Any:
    """A postponed annotation with the type alone in place of each ``Annotated[type, …]``."""
    start = annotation.rfind("Annotated[") if isinstance(annotation, str) else -1
    if start < 0:
        return annotation
    inside = start + len("Annotated[")
    first_comma = 0
    depth = 1  # of brackets
    for end in range(inside, len(annotation)):
        character = annotation[end]
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        if depth == 1 and character == "," and not first_comma:
            first_comma = end
        elif depth == 0:
            break
    bare = annotation[:start] + annotation[inside:first_comma] + annotation[end + 1 :]
    return without_constraints(bare)


def check_takes(function: Any, what: str, *names: str, keywords: Collection[str] = ()) -> None:
    """Check that a function of the user takes the arguments that it will be called with.

    Args:
        function: the function. One whose signature is not known, such as of C, passes.
        what: its name, for the message.
        names: of what it gets by position, for the message.
        keywords: the names that it gets by keyword.

    Raises:
        ConfigurationError: it does not take them.
    """
    try:  # of the function that is called, not of one that it wraps
        signature = inspect.signature(function, follow_wrapped=False)
    except Exception:  # foreign objects may raise anything
        return
    try:
        signature.bind(*names, **dict.fromkeys(keywords))
    except TypeError:
        raise ConfigurationError(f"{what} must take ({', '.join(names)})") from None


def is_configurable(value: object) -> bool:
    """Whether the class of ``value`` is :func:`configurable`."""
    return type(value) in _configurable


def validated(cls: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The validated settings; the constructor supplies the defaults of the others."""
    with contextlib.suppress(ValueError, AssertionError):  # pydantic collects them, to report all
        if (values := _built_without_pydantic(cls, settings)) is not None:
            return values
    from pydantic import ValidationError

    model = model_of(cls)
    try:
        instance = model.model_validate(dict(settings))
    except ValidationError as error:
        problems = problems_of(error, lambda name: _hint(cls, settings, name))
        # A preset has the settings that are required.
        problems = [problem for problem in problems if problem.path == ("preset",)] or problems
        problems = [_with_example(cls, problem) for problem in problems]
        problems = [with_off_hint(problem, settings, model) for problem in problems]
        raise ConfigurationError(problems) from None
    return {name: getattr(instance, name) for name in instance.model_fields_set}


def _built_without_pydantic(cls: type, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The validated settings, if all of them are nested and none is missing; otherwise None.

    So a reranker whose settings are plain objects is constructed without importing pydantic.
    """
    for name, parameter in parameters_of(cls).items():
        if parameter.default is parameter.empty and name not in settings:
            return None
    marks = {name: _nested_mark(cls, name) for name in settings}
    if None in marks.values():
        return None
    return {name: mark.build(settings[name]) for name, mark in marks.items() if mark is not None}


@functools.cache
def parameters_of(cls: type) -> Mapping[str, inspect.Parameter]:
    """The parameters of the constructor of a configurable class, without ``self``."""
    parameters = inspect.signature(inspect.unwrap(cls.__init__)).parameters  # type: ignore[misc]
    return {name: parameter for name, parameter in parameters.items() if name != "self"}


@functools.cache
def _nested_mark(cls: type, name: str) -> Nested | None:
    """The mark of a constructor parameter that pydantic only passes on to it; None without one."""
    construct = inspect.unwrap(cls.__init__)  # type: ignore[misc]
    own = {key: hint for key, hint in construct.__annotations__.items() if key == name}
    try:
        hints = typing.get_type_hints(
            SimpleNamespace(__annotations__=own),
            construct.__globals__,
            _names_of_bases(cls),
            include_extras=True,
        )
    except NameError:  # a constraint that the module does not import
        return None
    match getattr(hints.get(name), "__metadata__", ()):
        case [Nested() as mark]:
            return mark
    return None


@functools.cache
def model_of(cls: type) -> type[BaseModel]:
    """A pydantic model with a field for each constructor parameter of a configurable class."""
    import annotated_types
    from pydantic import ConfigDict, create_model

    construct = inspect.unwrap(cls.__init__)  # type: ignore[misc]
    # Modules need not import the constraints that their annotations name, which takes 15 ms.
    names = {**_names_of_bases(cls), **vars(annotated_types)}
    hints = typing.get_type_hints(construct, localns=names, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in parameters_of(cls).items():
        required = parameter.default is inspect.Parameter.empty
        fields[name] = (hints[name], ... if required else parameter.default)
    config = ConfigDict(
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )
    model: type[BaseModel] = create_model(cls.__name__, __config__=config, **fields)
    return model


def _names_of_bases(cls: type) -> dict[str, Any]:
    """What annotations of inherited fields name; a dataclass has them in its own constructor."""
    names: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:-1]):
        names |= vars(sys.modules[base.__module__])
    return names


def from_mapping(cls: type, settings: Mapping[Any, Any], beside: Collection[str] = ()) -> Any:
    """Construct ``cls`` from a mapping; an error does not name the class.

    ``beside`` are the settings that the place of the mapping adds to those of ``cls``, for hints.
    """
    if wrong := [key for key in settings if not isinstance(key, str)]:
        raise ConfigurationError(f"keys must be words, not {describe(wrong[0])}")
    try:
        return cls(**settings)
    except ConfigurationError as error:
        problems = error.problems
    if beside:
        unknown = {(name,) for name in settings.keys() - parameters_of(cls).keys()}
        problems = tuple(
            Problem(problem.path, UNKNOWN_KEY + _hint(cls, settings, str(problem.path[0]), beside))
            if problem.path in unknown
            else problem
            for problem in problems
        )
    raise ConfigurationError(problems)


def changed(instance: T, **settings: Any) -> T:
    """A copy of a configurable object with some settings changed."""
    cls: type = type(instance)
    current = {name: getattr(instance, name) for name in parameters_of(cls)}
    changed_: T = cls(**{**current, **settings})
    keep_sources_of(instance, changed_, settings)
    return changed_


def examples(cls: type) -> Mapping[Any, Any]:
    """Setting of a configurable class -> value that messages show, as a class has in _EXAMPLES."""
    values: Mapping[Any, Any] = getattr(cls, "_EXAMPLES", {})
    return values


def _with_example(cls: type, problem: Problem) -> Problem:
    """The problem of a setting that is absent or no list, with an example if its class has one."""
    example = examples(cls).get(problem.path[-1]) if problem.path else None
    if example is None or len(problem.path) > 1:
        return problem
    if problem.message == REQUIRED:
        return Problem(problem.path, f"{REQUIRED}, such as {example!r}")
    such_as = f"{NO_LIST} such as {_in_yaml(example)}"
    return Problem(problem.path, problem.message.replace(NO_LIST, such_as))


def _hint(cls: type, settings: Mapping[str, Any], name: str, beside: Collection[str] = ()) -> str:
    """A hint for a setting that ``cls`` does not have; ``beside`` as for :func:`from_mapping`."""
    if _key_hints:
        return _key_hints[-1](name, cls, settings, beside)
    return suggestion(name, [*parameters_of(cls), *beside])


KeyHint: TypeAlias = Callable[[str, type, Mapping[str, Any], Collection[str]], str]
"""Returns ``; …`` for an unknown setting.

Of its name, the class, all settings that it got, and those that may stand beside them.
"""

_key_hints: list[KeyHint] = []


def use_key_hint(hint: KeyHint) -> None:
    """Use this hint for unknown settings, in place of the similar names alone."""
    _key_hints.append(hint)


# ---------------------------------------------------------------------- annotations


class Nested:
    """Marks a parameter that is built from its description: ``Annotated[..., Nested(...)]``.

    Args:
        build: converts any value to the object; raises ConfigurationError.
        schema: returns the JSON Schema of the description.
        cls: the class of the object, if its settings are always a mapping.
    """

    def __init__(
        self,
        build: Callable[[Any], Any],
        schema: Callable[[], dict[str, Any]],
        cls: type | None = None,
    ) -> None:
        self.build = build
        self.schema = schema
        self.cls = cls

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            self.build,
            metadata={"pydantic_js_functions": [lambda _schema, _handler: self.schema()]},
        )


class OneOrMore:
    """Marks a parameter that holds a list, or a single name in place of a list of one.

    ``names`` returns those that are allowed alone, for the JSON Schema; None allows any string.
    """

    def __init__(self, names: Callable[[], list[str]] | None = None) -> None:
        self.names = names

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        def schema(inner: Any, json_handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
            alone = {"type": "string"} if self.names is None else {"enum": self.names()}
            return {"anyOf": [alone, json_handler(inner)]}

        return core_schema.no_info_before_validator_function(
            lambda value: [value] if isinstance(value, str) else value,
            handler(source),
            metadata={"pydantic_js_functions": [schema]},
        )


def definition(name: str) -> dict[str, Any]:
    """A reference to a part of the JSON Schema that is written once and may contain itself."""
    return {"x-definition": name}


def _example(cls: type, value: object) -> str:
    """`` such as …``: the example of a class, with a number as the first key that takes it."""
    example = dict(examples(cls))
    if isinstance(value, int | float) and not isinstance(value, bool):
        for name in parameters_of(cls):
            with contextlib.suppress(ConfigurationError):
                from_mapping(cls, {name: value})
                example[name] = value
                break
    return f" such as {_in_yaml(example)}" if example else ""


def _in_yaml(value: object) -> str:
    from secondpass.settings import yaml_text  # for errors only

    return yaml_text.write(value, on_one_line=True).strip()


def nested(cls: type, *, optional: bool = False) -> Nested:
    """Marks a parameter that holds a ``cls``, or None if ``optional``."""

    def build(value: Any) -> Any:
        if isinstance(value, cls) or (optional and value is None):
            return value
        if isinstance(value, Mapping):
            return from_mapping(cls, value)
        known = ", ".join(parameters_of(cls))
        example = _example(cls, value)
        raise ConfigurationError(
            f"must be a mapping{example}, not {describe(value)}; its keys are: {known}"
        )

    def schema() -> dict[str, Any]:
        own = model_of(cls).model_json_schema()
        return {"anyOf": [own, {"type": "null"}]} if optional else own

    return Nested(build, schema, cls)


def built(value: T | Mapping[str, Any]) -> T:
    """The value itself, for type checkers: validation has built an object from a mapping."""
    return cast("T", value)


_SOURCES = "_sources"
"""Name of the attribute with what settings come from, by their paths: the setting, and in it."""


def keep_source(instance: object, path: Sequence[str | int], source: object) -> None:
    """Keep what a setting of a constructed object comes from, or a part of a setting."""
    _attributes(instance).setdefault(_SOURCES, {})[tuple(path)] = source


def keep_sources_of(instance: object, other: object, changed: Collection[str]) -> None:
    """Keep for ``other`` what the settings of ``instance`` come from that were not changed."""
    for path, source in _attributes(instance).get(_SOURCES, {}).items():
        if path[0] not in changed:
            keep_source(other, path, source)


def to_mapping(instance: Any, dump: Callable[[Any, str], Any]) -> dict[str, Any]:
    """The settings of a configurable object that differ from their defaults.

    ``dump(value, name of the setting)`` writes what is neither plain nor a list or mapping of that.
    What :func:`keep_source` has kept is written as it is, in place of the value.
    """
    settings: dict[str, Any] = {}
    cls: type = type(instance)
    sources = _attributes(instance).get(_SOURCES, {})
    has_source = {path[0] for path in sources}
    for name, parameter in parameters_of(cls).items():
        value = getattr(instance, name)
        is_default = parameter.default is not inspect.Parameter.empty and value == parameter.default
        if is_default and name not in has_source:
            continue
        written = _plain(value, name, dump)
        if written == {} and not isinstance(value, Mapping):
            continue  # a nested object that is all defaults
        settings[name] = written
    for (name, *inside), source in sources.items():
        settings[name] = _replaced(settings.get(name), inside, source)
    return settings


def _replaced(written: Any, path: Sequence[str | int], replacement: object) -> Any:
    """A written setting with a part replaced, or all of it if the path is empty."""
    if not path:
        return replacement
    step, *rest = path
    if isinstance(written, Mapping):
        return {
            key: _replaced(item, rest, replacement) if str(key) == step else item
            for key, item in written.items()
        }
    if isinstance(written, list):
        return [
            _replaced(item, rest, replacement) if index == step else item
            for index, item in enumerate(written)
        ]
    return written


def _plain(value: Any, name: str, dump: Callable[[Any, str], Any]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, name, dump) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name, dump) for item in value]
    return dump(value, name)


_GROUPS = {
    "method": "secondpass.methods",
    "llm": "secondpass.llms",
    "order": "secondpass.orderings",
    "terms": "secondpass.terms",
    "context": "secondpass.contexts",
}
"""Setting -> group of entry points that name classes for it."""


def not_serializable(value: object, where: str) -> NotSerializableError:
    """The error for a value of the setting ``where`` that no YAML can describe."""
    message = f"{describe(value)} has no registered name, so it cannot be written out"
    group = _GROUPS.get(where)
    if group and not isinstance(value, FunctionType):
        message += f"; give its class one, by an entry point of the group {group}"
    return NotSerializableError([Problem((where,), message)])
