"""Configurations: YAML, mappings and presets to rerankers and back, and their JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from secondpass.errors import ConfigurationError, Problem
from secondpass.ranking.stages import Stage
from secondpass.reranker import Reranker
from secondpass.settings import loading, schema
from secondpass.settings.arguments import explained
from secondpass.settings.loading import merged, preset, preset_purpose, presets, read_yaml
from secondpass.settings.messages import REQUIRED
from secondpass.settings.overrides import Override, with_llm
from secondpass.settings.registry import preset_names

__all__ = [
    "dump",
    "json_schema",
    "load",
    "merged",
    "preset",
    "preset_names",
    "preset_purpose",
    "presets",
    "read_yaml",
    "resolve",
    "with_llm",
]


@explained()
def load(config: Mapping[str, Any] | str | PathLike[str]) -> Reranker:
    """A reranker from a mapping or the path of a YAML file.

    Raises:
        ConfigurationError: every problem, with its place in the configuration.
    """
    return Reranker.from_config(config)


def dump(reranker: Reranker) -> dict[str, Any]:
    """The mapping that :func:`load` makes an equal reranker from; defaults are left out.

    Raises:
        NotSerializableError: it holds an object without a registered name.
    """
    return reranker.to_config()


def resolve(
    reranker: Reranker | Mapping[str, Any] | str | PathLike[str],
    *,
    llm: Any = None,
    flat: Mapping[str, Override] | None = None,
    defaults: Mapping[str, Any] | None = None,
    llm_parameter: str = "llm",
    caller: str = "",
) -> Reranker:
    """A reranker from one, a preset name, a mapping, or the path of a YAML file.

    A string is a path if it ends in ``.yaml``, ``.yml`` or ``.json``, or holds a separator, else a
    preset name.

    Args:
        reranker: as above.
        llm: replaces the language model of every method that has one; None for none.
        flat: an adapter's parameters by name. They override a preset or a file.
        defaults: the adapter's defaults for settings that the configuration leaves out.
        llm_parameter: the adapter's parameter for ``llm``, for the message that one is required.
        caller: the adapter's class, for messages that say what to write instead.

    Raises:
        ConfigurationError: it is none of these; or a parameter is one that the method does not
            have, was set in a mapping too, or was given beside a ready Reranker.
    """
    if isinstance(reranker, Reranker):
        message = "can't be used beside a ready Reranker; create that with {!r}"
        if problems := [
            Problem((name,), message.format(override.places[0]))
            for name, override in (flat or {}).items()
        ]:
            raise ConfigurationError(problems)
        if llm is not None:
            raise ConfigurationError("a language model: create the Reranker that you give with it")
        return reranker
    config, about = loading.read(reranker, caller)
    # What a mapping sets itself; a preset's settings may be overridden.
    own = reranker if isinstance(reranker, Mapping) else {}
    try:
        return loading.construct(
            Reranker,
            config,
            about,
            defaults=defaults or {},
            llm=llm,
            flat=flat or {},
            own=own,
            caller=caller,
        )
    except ConfigurationError as error:
        parameters = {"llm": llm_parameter, "model": "model"}  # by the last part of the path

        def with_parameter(problem: Problem) -> Problem:
            name = parameters.get(str(problem.path[-1])) if problem.path else None
            if name is None or not problem.message.startswith(REQUIRED):
                return problem
            hint = f"; give it as {name}=, or in the configuration"
            return Problem(problem.path, problem.message + hint)

        raise ConfigurationError([*map(with_parameter, error.problems)], error.about) from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of configurations, for editors and validators."""
    from secondpass.strategies.cascade import CascadeStage  # costs time to import

    return schema.json_schema(Reranker, {"stage": Stage, "cascade_stage": CascadeStage})
