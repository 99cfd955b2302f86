"""Parameters of adapters: checks of their values, and the settings that they stand for."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from types import NoneType
from typing import Any, TypeVar, get_args

from secondpass.errors import ConfigurationError, InputError, Problem, with_article
from secondpass.ranking import options
from secondpass.ranking.candidates import kind_of
from secondpass.ranking.fits import check_fits
from secondpass.ranking.floors import Floor, moved
from secondpass.ranking.methods import place_of
from secondpass.ranking.ordering import to_ordering
from secondpass.reranker import Reranker
from secondpass.settings import model_of, registry, suggestion
from secondpass.settings.overrides import Override

T = TypeVar("T")

_BATCH_SIZE = ("method.batch_size", "method.window")
_KEY = ("method.token", "method.api_key", "method.llm.api_key")

PATHS: Mapping[str, tuple[str, ...]] = {
    "top_k": ("top_k",),
    "top_n": ("top_k",),
    "depth": ("depth",),
    "floor": ("floor",),
    "score_threshold": ("floor",),
    "similarity_cutoff": ("floor",),
    "dedupe": ("dedupe",),
    "order": ("order",),
    "strict": ("strict",),
    "raise_on_failure": ("strict",),
    "model": ("method.model", "method.llm.model"),
    "device": ("method.device",),
    "batch_size": _BATCH_SIZE,
    "choice_batch_size": _BATCH_SIZE,
    "activation": ("method.activation",),
    "scale_score": ("method.activation",),
    "backend": ("method.backend",),
    "trust_remote_code": ("method.trust_remote_code",),
    "model_kwargs": ("method.model_kwargs",),
    "tokenizer_kwargs": ("method.tokenizer_kwargs",),
    "config_kwargs": ("method.config_kwargs",),
    "api_key": _KEY,
    "token": _KEY,
    "api_key_env": ("method.token_env", "method.api_key_env", "method.llm.api_key_env"),
    "fields": ("render.fields",),
    "meta_fields_to_embed": ("render.fields",),
    "separator": ("render.separator",),
    "embedding_separator": ("render.separator",),
    "query_prefix": ("render.query_prefix",),
    "query_suffix": ("render.query_suffix",),
    "document_prefix": ("render.prefix",),
    "document_suffix": ("render.suffix",),
}
"""Name of a parameter, in any framework -> path of its setting in a configuration.

Where methods name that setting differently, or their language model has it, there are several; see
`Override`.
"""

_SYNONYMS = {
    **dict.fromkeys(("k", "topk", "topn", "limit"), "top_k"),
    **dict.fromkeys(("threshold", "scorethreshold", "similaritycutoff"), "floor"),
    **dict.fromkeys(("modelname", "modelid", "modelnameorpath"), "model"),
    **dict.fromkeys(("rerankmodelname", "rerankmodelarn"), "model"),
    **dict.fromkeys(("apitoken", "authtoken", "key"), "api_key"),
    "metadataseparator": "separator",
    "prefix": "document_prefix",
    "suffix": "document_suffix",
}
"""Names of other libraries, without underscores -> name in `PATHS`, for hints."""

NO_EQUIVALENT = "there is no equivalent; leave it out"
_OPTIONS = "write {'method': {'type': 'endpoint', 'options': {…}}}"
_AWS = "leave it out; botocore reads the credentials from its own variables and files"
_REGION = "leave it out; the region is that of the ARN that model= names"
_INSTEAD = {
    "api_url": "write {'method': {'type': 'endpoint', 'base_url': …}}",
    "max_retries": "write {'limits': {'retries': …}}",
    **dict.fromkeys(("truncate", "truncate_text", "truncation"), _OPTIONS),
    **dict.fromkeys(
        (
            *("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
            *("aws_profile_name", "profile_name", "botocore_session", "botocore_config"),
            *("client", "additional_kwargs"),
        ),
        _AWS,
    ),
    **dict.fromkeys(("aws_region_name", "region_name"), _REGION),
    "return_documents": "leave it out; the result has copies of the documents",
    "step_size": "write {'method': {'type': 'listwise', 'stride': …}}",
    "with_retrieval": "leave it out; the candidates are those of your retriever",
    "max_chunks_per_doc": NO_EQUIVALENT,
}
"""Parameter of rerankers of several frameworks -> what to do instead."""

PER_CALL = ("top_k", "depth", "floor", "dedupe", "order")
"""Parameters that are passed to `Reranker.rerank`, so that they can be assigned to a component."""


class Parameters:
    """The parameters of a framework's component, read from the signature of its constructor.

    Args:
        constructor: its ``__init__``.
        assignable: parameters without a setting that can be assigned to a component.
        beside_ready: parameters of `PER_CALL` that can be used with a ready Reranker that does not
            set them.
        instead: name of a parameter of the framework's own rerankers -> what to do instead, beside
            those of several frameworks.

    Attributes:
        defaults: name of each parameter -> default.
        paths: the part of `PATHS` about its parameters.
        per_call: name of each parameter of `PER_CALL` -> name of its setting.
    """

    def __init__(
        self,
        constructor: Callable[..., Any],
        *,
        assignable: Collection[str] = (),
        beside_ready: Collection[str] = (),
        instead: Mapping[str, str] | None = None,
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
        self.assignable = {*assignable, *self.per_call}
        self._beside_ready = beside_ready
        self._instead = {**_INSTEAD, **(instead or {})}
        # A value of another type could be valid as a different setting, so these are checked here.
        self._types: dict[str, tuple[Any, ...]] = {}
        for parameter in parameters:
            kinds = get_args(parameter.annotation) or (parameter.annotation,)
            if {*kinds} <= {str, bool, NoneType}:
                self._types[parameter.name] = kinds

    def arguments(self, local_variables: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a constructor from its ``locals()``."""
        return {name: local_variables[name] for name in self.defaults}

    def values(self, component: object) -> dict[str, Any]:
        """The values of a component that keeps each parameter in the attribute of that name."""
        return {name: getattr(component, name) for name in self.defaults}

    def overrides(self, values: Mapping[str, Any], *, per_call: bool = True) -> dict[str, Override]:
        """The parameters that are neither None nor at their defaults, as overrides."""
        return {
            name: Override(values[name], paths, moved if paths == ("floor",) else None)
            for name, paths in self.paths.items()
            if values[name] is not None
            and values[name] != self.defaults[name]
            and (per_call or name not in self.per_call)
        }

    def call_settings(self, component: object, **options: Any) -> dict[str, Any]:
        """Arguments for `Reranker.rerank`: a component's parameters, and over them the options."""
        settings = {setting: getattr(component, name) for name, setting in self.per_call.items()}
        return settings | {name: value for name, value in options.items() if value is not None}

    # ------------------------------------------------------------------ checks

    def type_problems(self, values: Mapping[str, Any]) -> list[Problem]:
        """A problem for each string or boolean parameter of the wrong type."""
        problems = []
        for name, kinds in self._types.items():
            if name in values and not isinstance(values[name], kinds):
                expected, kind = with_article(kinds[0].__name__), type(values[name]).__name__
                problems.append(Problem((name,), f"must be {expected}, not {kind}"))
        return problems

    def unknown(self, names: Iterable[str]) -> list[Problem]:
        """A problem for each name that is not a parameter, with what to write instead."""
        by_paths = {paths: parameter for parameter, paths in self.paths.items()}
        problems = []
        for name in sorted(set(names) - self.defaults.keys()):
            meant = name if name in PATHS else _SYNONYMS.get(name.replace("_", ""), "")
            synonym = by_paths.get(PATHS.get(meant, ()))
            if name in self._instead:
                hint = f"; {self._instead[name]}"
            elif synonym is not None:
                hint = f"; did you mean {synonym!r}?"
            else:
                hint = _as_setting(name) or suggestion(name, sorted(self.defaults))
            problems.append(Problem((name,), f"unknown argument{hint}"))
        return problems

    def fixed_by(self, reranker: object) -> frozenset[str]:
        """The parameters of `per_call` that the ``reranker`` argument sets."""
        if isinstance(reranker, Reranker):
            return frozenset(
                name
                for name, setting in self.per_call.items()
                if name not in self._beside_ready
                or (setting != "dedupe" and getattr(reranker, setting) is not None)
            )
        config = reranker if isinstance(reranker, Mapping) else {}
        return frozenset(name for name, setting in self.per_call.items() if setting in config)

    def check_free(self, name: str, value: object, fixed: Collection[str]) -> None:
        """Check that the reranker does not set a parameter that has a value."""
        if value is not None and name in fixed:
            setting = self.per_call[name]
            message = f"can't be set, because the reranker sets {setting!r}; change it there"
            raise ConfigurationError([Problem((name,), message)])

    def assigned(
        self, name: str, value: Any, overrides: Collection[str], fixed: Collection[str]
    ) -> Any:
        """The value of a parameter that is assigned to a component, checked.

        Args:
            name: name of the parameter.
            value: its new value.
            overrides: parameters that the component's configuration was created with.
            fixed: parameters that its reranker sets.

        Raises:
            AttributeError: the parameter is not assignable, or there is none of this name.
            ValueError: the value is of the wrong kind, or cannot take effect.
        """
        if name not in self.assignable:
            message = "can't be changed after construction; make a new component"
            if name not in self.defaults:
                hint = suggestion(name, sorted(self.defaults))
                message = f"is no parameter of {self.component}{hint}"
            raise AttributeError(f"{name} {message}")
        problems = self.type_problems({name: value})
        if value is None and name in overrides:
            message = "can't be set to None, because the component was made with a value"
            problems.append(Problem((name,), message))
        if problems:
            raise ConfigurationError(problems, self.component)
        self.check_free(name, value, fixed)
        setting = self.per_call.get(name)
        if setting in {"top_k", "depth"} or name == "max_tokens":
            return whole_number(name, value)
        return finite_number(name, value) if setting == "floor" else value


def _as_setting(name: str) -> str:
    """``; …`` where a configuration has a setting of this name; empty if none has."""
    if name in model_of(Reranker).model_fields:
        return f"; it is a setting of the configuration: {{{name!r}: …}}"
    for kind in ("cross_encoder", "endpoint", *registry.names("methods")):
        if place_of(kind, name) is not None:
            method = f"{{'type': {kind!r}, {name!r}: …}}"
            return f"; it is a setting of the method: {{'method': {method}}}"
    return ""


# ---------------------------------------------------------------------- values


def whole_number(name: str, value: Any) -> int | None:
    """A number of documents as Python's int, which can be saved; None stays None.

    Raises:
        InputError: it is not an integer of 1 or more.
    """
    return None if value is None else options.whole_number(name, value)


def plain_number(value: Any) -> Any:
    """Python's float for a real number of another library, which cannot be saved."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            return float(value)
    return value


def finite_number(name: str, value: Any) -> float | None:
    """A threshold as Python's float; None stays None.

    Raises:
        InputError: it is not a finite number.
    """
    return None if value is None else options.finite_number(name, value)


def check_order(order: object, reranker: Reranker) -> None:
    """Check that an ordering exists, and that its settings are right."""
    try:
        to_ordering(order, reranker.orders)
    except ConfigurationError as error:
        problems = [problem.under(("order",)) for problem in error.problems]
        raise ConfigurationError(problems) from None


def check_floor(name: str, value: object, reranker: Reranker) -> None:
    """Check that a component may have a threshold: scores that are ranks cannot have one."""
    if value is None:
        return
    try:
        Floor(0.0).check(reranker.method, reranker.blend)
    except ConfigurationError as error:
        problems = [Problem((name,), problem.message) for problem in error.problems]
        raise ConfigurationError(problems) from None


def check_depth(depth: int | None, reranker: Reranker) -> None:
    """Check that no setting, such as a threshold, was fitted for another depth."""
    if depth is not None:
        check_fits(reranker._stages, depth, reranker.render, reranker.passages)


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
