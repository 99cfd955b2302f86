"""Methods and stages, made of whatever describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from secondpass import registry
from secondpass.blending import Blend
from secondpass.effects import Method
from secondpass.errors import ConfigurationError, MissingExtraError
from secondpass.scoring import ScorerMethod, check_kind
from secondpass.settings import (
    Nested,
    configurable,
    describe,
    from_mapping,
    model_of,
    nested,
    to_mapping,
)


def to_method(value: object) -> Method:
    """The method that a scorer, a method, a name or a mapping with a ``type`` describes.

    Raises:
        ConfigurationError: it is none of these, or its settings are wrong.
    """
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, Mapping):
        value = registry.build("methods", value)
    if isinstance(value, type):
        raise ConfigurationError(f"give an instance of {value.__name__}, not the class")
    if callable(getattr(value, "judge", None)):
        if not isinstance(getattr(value, "name", None), str):
            raise ConfigurationError("a method needs a 'name', a string")
        check_kind(getattr(value, "score_kind", None))
        if not hasattr(value, "scale"):
            raise ConfigurationError("a method needs a 'scale': (lowest, highest), or None")
        return value  # type: ignore[return-value]
    if callable(getattr(value, "score_pairs", None)):
        return ScorerMethod(value)  # type: ignore[arg-type]
    raise ConfigurationError(
        "give a scorer (an object with score_pairs), a name or a mapping with a 'type', "
        f"not {describe(value)}"
    )


def dump_method(method: Method, where: str = "method") -> dict[str, Any]:
    """The mapping that :func:`to_method` makes ``method`` from.

    Raises:
        NotSerializableError: it has no registered name.
    """
    return registry.dump("methods", inner(method), where)


def inner(method: Method) -> Any:
    """The object that the caller or the configuration gave: the scorer, where it is one."""
    return method.scorer if isinstance(method, ScorerMethod) else method


def check_installed(method: Method) -> MissingExtraError | None:
    """The error that the first use of ``method`` would meet for want of a package, if any."""
    check = getattr(inner(method), "check_installed", None)
    try:
        if check is not None:
            check()
    except MissingExtraError as error:
        return error
    return None


def _schema() -> dict[str, Any]:
    options = registry.schema("methods")["anyOf"]
    return {"anyOf": [{"enum": registry.names("methods")}, *options]}


METHOD = Nested(to_method, _schema)


@configurable
@dataclass(frozen=True)
class Stage:
    """A method, and how its scores become final scores.

    A reranker has one of its own, and one for each fallback. In a configuration the settings of a
    fallback's method and these stand side by side, as in ``{type: embedded, floor: 0.1}``.

    Attributes:
        method: a scorer or another method.
        blend: how the retriever's score goes into the final score; None takes the method's alone.
        floor: scored items whose final score is lower are dropped.
    """

    method: Annotated[Any, METHOD]
    blend: Annotated[Blend | None, nested(Blend, optional=True)] = None
    floor: float | None = None

    def __post_init__(self) -> None:
        if self.blend is None:
            return
        try:
            self.blend.check(self.method.score_kind)
        except ConfigurationError as error:
            inside = [problem.under(("blend",)) for problem in error.problems]
            raise ConfigurationError(inside) from None


def to_stage(value: object) -> Stage:
    """A stage from one, from a mapping, or from whatever :func:`to_method` takes."""
    if isinstance(value, Stage):
        return value
    if isinstance(value, Mapping):
        own = {key: value[key] for key in ("blend", "floor") if key in value}
        rest = {key: item for key, item in value.items() if key not in own}
        made: Stage = from_mapping(Stage, {"method": to_method(rest), **own})
        return made
    return Stage(to_method(value))


def dump_stage(stage: Stage, where: str = "fallback") -> dict[str, Any]:
    """The mapping that :func:`to_stage` makes ``fallback`` from."""
    own = to_mapping(
        stage,
        lambda value, name: (
            to_mapping(value, registry.not_serializable_value)
            if name == "blend"
            else dump_method(value, where)
        ),
    )
    return {**own.pop("method"), **own}


def _stage_schema() -> dict[str, Any]:
    own = {
        key: value
        for key, value in model_of(Stage).model_json_schema()["properties"].items()
        if key != "method"
    }
    options = registry.schema("methods")["anyOf"]
    for option in options:
        option["properties"].update(own)
    return {"anyOf": [{"enum": registry.names("methods")}, *options]}


STAGE = Nested(to_stage, _stage_schema)
