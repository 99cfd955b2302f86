"""Parameters of adapters: checks of their values, and the settings that they stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar, get_args

from secondpass.errors import ConfigurationError, InputError, Problem, with_article
from secondpass.ranking import options
from secondpass.ranking.candidates import kind_of
from secondpass.ranking.fits import check_fits
from secondpass.ranking.floors import Floor
from secondpass.ranking.ordering import to_ordering
from secondpass.reranker import Reranker
from secondpass.settings import (
    call_hints,
    model_of,
    name_hints,
    parameter_hints,
    registry,
    suggestion,
)
from secondpass.settings.overrides import Override
from secondpass.settings.parameter_hints import PATHS

T = TypeVar("T")

_UNKNOWN = "unknown argument"
"""Message about an argument that does not exist, before its hint."""

_FIRST = frozenset({"preset", "config", "configuration"})
"""What the first argument of adapters, ``reranker``, may be taken for."""

PER_CALL = ("top_k", "depth", "floor", "dedupe", "order")
"""Settings that adapters pass with each call, so that their parameters can be assigned."""


class Parameters:
    """The parameters of a framework's component, read from the signature of its constructor.

    Those that stand for a setting in `PER_CALL` are passed with each call of the Reranker
    (:meth:`call_settings`), so they can be assigned to the component at any time. Those that stand
    for another setting replace it when the Reranker is made (:meth:`overrides`). None leaves it to
    the configuration.

    Args:
        constructor: its ``__init__``.
        own_defaults: settings of `PER_CALL` for which the component has a default of its own, which
            is that of a ready Reranker, too.
        instead: name of a parameter of the framework's own rerankers -> the configuration to write
            instead, or what to do, in words; beside those of several frameworks.

    Attributes:
        defaults: name of each parameter -> default.
        paths: the part of `PATHS` about its parameters.
        per_call: name of each parameter of `PER_CALL` -> name of its setting.
    """

    def __init__(
        self,
        constructor: Callable[..., Any],
        *,
        own_defaults: Collection[str] = (),
        instead: Mapping[str, str | parameter_hints.Config] | None = None,
    ) -> None:
        parameters = [
            parameter
            for parameter in inspect.signature(constructor).parameters.values()
            if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
        ]
        self.component = constructor.__qualname__.split(".", maxsplit=1)[0]
        self.defaults = {parameter.name: parameter.default for parameter in parameters}
        self.paths = {name: PATHS[name] for name in self.defaults if name in PATHS}
        self.per_call = {
            name: paths[0] for name, paths in self.paths.items() if paths[0] in PER_CALL
        }
        self._own_defaults = own_defaults
        self._instead = {**parameter_hints.INSTEAD, **(instead or {})}
        self._types: dict[str, tuple[Any, ...]] = {
            parameter.name: get_args(parameter.annotation) or (parameter.annotation,)
            for parameter in parameters
        }

    def overrides(
        self,
        values: Mapping[str, Any],
        key_variables: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, Override]:
        """The parameters that replace a setting of the configuration: neither None nor default.

        Args:
            values: name of each parameter -> value.
            key_variables: ``api_key`` or ``token`` -> environment variables that hold the key, to
                try in turn. They replace its value.
        """
        key_variables = key_variables or {}
        overrides = {}
        for name, paths in self.paths.items():
            if name in self.per_call:
                continue
            value = values[name]
            if name in key_variables:
                overrides[name] = Override(key_variables[name], PATHS[f"{name}_env"])
            elif value is not None and value != self.defaults[name]:
                overrides[name] = Override(value, paths)
        return overrides

    def call_settings(self, component: object, **options: Any) -> dict[str, Any]:
        """Arguments for `Reranker.rerank`: a component's parameters, and over them the options."""
        settings = {setting: getattr(component, name) for name, setting in self.per_call.items()}
        return settings | {name: value for name, value in options.items() if value is not None}

    # ------------------------------------------------------------------ checks

    def converted(self, name: str, value: Any) -> Any:
        """The value of a number, string or boolean, as Python's type, which can be saved.

        Raises:
            ValueError: it is of another type than that of the signature, or a number out of range.
        """
        kinds = self._types[name]
        if value is None and NoneType in kinds:
            return None
        if int in kinds:
            return whole_number(name, value)
        if float in kinds:
            return options.finite_number(name, value)
        if problems := self.type_problems({name: value}):
            raise ConfigurationError(problems, self.component)
        return value

    def type_problems(self, values: Mapping[str, Any]) -> list[Problem]:
        """A problem for each string or boolean parameter of the wrong type.

        Such a value could be valid as a different setting.
        """
        problems = []
        for name, kinds in self._types.items():
            is_plain = {*kinds} <= {str, bool, NoneType}
            if is_plain and name in values and not isinstance(values[name], kinds):
                expected, kind = with_article(kinds[0].__name__), type(values[name]).__name__
                problems.append(Problem((name,), f"must be {expected}, not {kind}"))
        return problems

    def check(self, name: str, value: Any, passed: object, core: Reranker) -> None:
        """Check that a parameter of `per_call` takes effect when it is passed or assigned.

        Args:
            name: of the parameter.
            value: its value.
            passed: the ``reranker`` argument of the component, which may have the same setting.
            core: the Reranker that was made of it.

        Raises:
            ConfigurationError: it is set twice, or the method or another setting rules it out.
        """
        if value is None:
            return
        setting = self.per_call[name]
        if self._is_set(setting, passed):
            # A Reranker does not know whether its value was passed or is the default.
            owner = "Reranker has its own" if isinstance(passed, Reranker) else "reranker sets"
            message = f"can't be set, because the {owner} {setting!r}; change it there"
            raise ConfigurationError([Problem((name,), message)])
        try:
            if setting == "floor":
                Floor(0.0).check(core.method, core.blend)
            elif setting == "depth" and type(value) is int:
                check_fits(core._stages, value, core.render, core.passages)
            elif setting == "order":
                to_ordering(value, core.orders)
        except ConfigurationError as error:
            inside = setting == "order"  # its own settings have paths
            problems = [
                problem.under((name,)) if inside else Problem((name,), problem.message)
                for problem in error.problems
            ]
            raise ConfigurationError(problems) from None

    def _is_set(self, setting: str, passed: object) -> bool:
        """Whether the ``reranker`` argument has a setting."""
        if isinstance(passed, Reranker):
            return setting not in self._own_defaults and getattr(passed, setting) is not None
        return isinstance(passed, Mapping) and setting in passed

    def check_known(self, cls: type, names: Iterable[str] | Mapping[str, Any]) -> None:
        """Check the names of keyword arguments.

        Args:
            cls: the class to construct, which may be one with further parameters.
            names: the names; a mapping has their values, for hints.

        Raises:
            TypeError: one is unknown; the message has the nearest parameter, unlike Python's.
        """
        parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return
        values = names if isinstance(names, Mapping) else {}
        if unknown := {*names} - {parameter.name for parameter in parameters}:
            by_message: dict[str, list[str]] = {}
            for problem in self.unknown({name: values.get(name) for name in unknown}):
                by_message.setdefault(problem.message, []).append(str(problem.path[0]))
            parts = [
                f"{', '.join(names)}: {message if len(names) == 1 else _of_several(message)}"
                for message, names in by_message.items()
            ]
            raise TypeError(f"{cls.__name__}: {'; '.join(parts)}")

    def unknown(self, names: Iterable[str] | Mapping[str, Any]) -> list[Problem]:
        """A problem for each name that is not a parameter, with what to write instead.

        ``names`` may be a mapping, with their values.
        """
        values = names if isinstance(names, Mapping) else {}
        by_paths = {paths: parameter for parameter, paths in self.paths.items()}
        presets = registry.preset_names()
        problems = []
        for name in sorted(set(names) - self.defaults.keys()):
            synonym = by_paths.get(PATHS.get(parameter_hints.synonym(name), ()))
            if name in _FIRST and "reranker" in self.defaults:
                value = values.get(name)
                is_named = isinstance(value, str) and (name != "preset" or value in presets)
                whole = value if is_named else name_hints.OPEN
                use = f"use {self.component}({name_hints.in_words(whole)})"
                hint = f"; {use}, or 'reranker: {whole}' in a saved one: it is the first argument"
            elif name in self._instead:
                instead = self._instead[name]
                hint = f"; {_written(instead)}{parameter_hints.also(name, instead)}"
            elif synonym is not None:
                hint = f"; did you mean {synonym!r}?"
            else:
                hint = _as_setting(name) or suggestion(name, sorted(self.defaults))
            problems.append(Problem((name,), f"{_UNKNOWN}{hint}"))
        return problems

    def of_keyword(self, name: str, known: Collection[str]) -> str:
        """``; …`` for a keyword that a method of the component does not take.

        ``known`` are those that it takes. For :func:`~secondpass.adapters.explained`.
        """
        if meant := call_hints.of_argument(name, known):
            return meant
        by_paths = {paths: parameter for parameter, paths in self.paths.items()}
        same = by_paths.get(PATHS.get(parameter_hints.synonym(name), ()))
        parameter = name if name in self.defaults else same
        if parameter is not None:
            return f"; it is a parameter of the component: {self.component}({parameter}=…)"
        if name in self._instead or _as_setting(name):
            (problem,) = self.unknown([name])
            return problem.message.removeprefix(_UNKNOWN)
        return suggestion(name, [*known])

    def fixed(self, name: str) -> str:
        """What to say about an attribute that cannot be assigned."""
        if name in self.defaults:
            return f"{name} can't be changed after construction; make a new component"
        return f"{name} is no parameter of {self.component}{suggestion(name, [*self.defaults])}"


def _of_several(message: str) -> str:
    return message.replace(_UNKNOWN, f"{_UNKNOWN}s", 1)


_FIRST_ARGUMENT = ", as the first argument ('reranker:' in a saved one)"
"""Where the configuration stands."""


def _written(instead: str | parameter_hints.Config) -> str:
    if isinstance(instead, str):
        return instead
    if "method" in instead:
        instead = {**instead, "method": name_hints.complete(instead["method"])}
    return f"write {name_hints.in_words(instead)}{_FIRST_ARGUMENT}"


def _as_setting(name: str) -> str:
    """``; …`` where a configuration has a setting of this name; empty if none has."""
    if name in model_of(Reranker).model_fields:
        return f"; it is a setting of the configuration: {{{name!r}: …}}{_FIRST_ARGUMENT}"
    if (config := parameter_hints.of_methods(name)) is not None:
        return f"; it is a setting of the method: {name_hints.in_words(config)}{_FIRST_ARGUMENT}"
    return ""


# ---------------------------------------------------------------------- values


def whole_number(name: str, value: Any) -> int | None:
    """A number of documents as Python's int, which can be saved; None stays None.

    Raises:
        InputError: it is not an integer of 1 or more.
    """
    return None if value is None else options.whole_number(name, value)


def check_options(reranker: Reranker, **given: Any) -> None:
    """Check options of `Reranker.rerank` for later calls.

    Raises:
        InputError: one is of the wrong kind.
    """
    options.validate(given, reranker.orders)


def checked_list(
    values: object, kind: type[T], name: str, plural: str, hints: Mapping[Any, str] | None = None
) -> list[T]:
    """The framework's documents as a list.

    Args:
        values: any iterable of documents.
        kind: their class.
        name: of the argument.
        plural: of the class's name.
        hints: other class -> text for the message on what to write instead.

    Raises:
        InputError: one is not of the class; the message has its index.
    """
    hints = hints or {}
    is_single = isinstance(values, (str, bytes, Mapping, kind, *hints))
    if is_single or not isinstance(values, Iterable):
        raise InputError(f"{name}: give a list of {plural}, not {kind_of(values)}")
    checked = list(values)
    for index, value in enumerate(checked):
        if not isinstance(value, kind):
            hint = next((hints[other] for other in hints if isinstance(value, other)), "")
            message = f"give {with_article(kind.__name__)}, not {kind_of(value)}{hint}"
            raise InputError(f"{name}[{index}]: {message}")
    return checked
