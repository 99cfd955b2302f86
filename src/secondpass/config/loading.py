"""From configurations to rerankers and back.

Every configuration takes the same steps, each once: it is parsed, laid over the preset that it
names, its variables are read, parameters are laid over it, and the result is validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from secondpass.config.files import merged, over_preset, preset, read_yaml
from secondpass.config.keys import with_read_keys
from secondpass.config.language_model import replace_llm
from secondpass.config.overrides import Override, beside_ready, overlay, with_parameter_names
from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.reranker import Reranker
from secondpass.settings import (
    describe,
    environment,
    from_mapping,
    not_serializable,
    registry,
    to_mapping,
    yaml_text,
)
from secondpass.settings.messages import REQUIRED


def load(config: Mapping[str, Any] | str | PathLike[str]) -> Reranker:
    """A reranker from a mapping or the path of a YAML file.

    Raises:
        ConfigurationError: every problem, with its place in the configuration.
    """
    if isinstance(config, Mapping):
        return _construct(config, "configuration")
    if not isinstance(config, str | PathLike):
        message = f"give a mapping or the path of a YAML file, not {describe(config)}"
        raise ConfigurationError(message)
    return _construct(read_yaml(Path(fspath(config))), fspath(config))


def resolve(
    reranker: Reranker | Mapping[str, Any] | str | PathLike[str],
    *,
    llm: Any = None,
    flat: Mapping[str, Override] | None = None,
    defaults: Mapping[str, Any] | None = None,
    llm_parameter: str = "llm",
) -> Reranker:
    """A reranker from one, a preset name, a mapping, or the path of a YAML file.

    A string is a path if it ends in ``.yaml``, ``.yml`` or ``.json``, or holds a separator, else a
    preset name.

    Args:
        reranker: as above.
        llm: the language model that every method asks that asks one, instead of the configured.
        flat: an adapter's parameters by name. They override a preset or a file.
        defaults: the adapter's defaults for settings that the configuration leaves out.
        llm_parameter: the adapter's parameter for ``llm``, for the message that one is required.

    Raises:
        ConfigurationError: it is none of these; or a parameter is one that the method does not
            have, was set in a mapping too, or was given beside a ready Reranker.
    """
    flat = flat or {}
    if isinstance(reranker, Reranker):
        if problems := beside_ready(flat):
            raise ConfigurationError(problems)
        if llm is not None:
            raise ConfigurationError("a language model: set it on the Reranker that you give")
        return reranker
    config, about = read(reranker)
    try:
        return _construct(
            config,
            about,
            defaults=defaults or {},
            llm=llm,
            flat=flat,
            # What a mapping sets itself; a preset's settings may be overridden.
            own=reranker if isinstance(reranker, Mapping) else {},
        )
    except ConfigurationError as error:
        problems = [_with_parameter(problem, llm_parameter) for problem in error.problems]
        raise ConfigurationError(problems, error.about) from None


def _with_parameter(problem: Problem, llm_parameter: str) -> Problem:
    if problem.path[-1:] != ("llm",) or problem.message != REQUIRED:
        return problem
    return Problem(
        problem.path, f"{REQUIRED}; give it as {llm_parameter}=, or in the configuration"
    )


def dump(reranker: Reranker) -> dict[str, Any]:
    """The mapping that :func:`load` makes an equal reranker from; defaults are left out.

    Raises:
        NotSerializableError: it holds an object without a registered name.
    """
    if type(reranker).__init__ is not Reranker.__init__:
        raise not_serializable(reranker, "reranker")
    try:
        settings = to_mapping(reranker, registry.dump_part)
    except NotSerializableError as error:
        raise NotSerializableError(error.problems, "to_config") from None
    order = reranker._order_name
    return settings if order is None else {**settings, "order": order}


def read(source: Mapping[str, Any] | str | PathLike[str]) -> tuple[dict[str, Any], str]:
    """A mapping, or the configuration of a preset or a file; and its name in error messages.

    Raises:
        ConfigurationError: there is no such preset or file, or it cannot be read.
    """
    if isinstance(source, Mapping):
        return dict(source), "configuration"
    if not isinstance(source, str | PathLike):
        message = (
            f"give a preset name, a mapping, a YAML path or a Reranker, not {describe(source)}"
        )
        raise ConfigurationError(message)
    name = fspath(source)
    bare = isinstance(source, str) and not ("/" in name or "\\" in name)
    if not bare or Path(name).suffix in registry.CONFIGURATION_SUFFIXES:
        if not Path(name).is_file():
            message = f"there is no such file or preset: {name}{registry.meaning(name)}"
            raise ConfigurationError(message)
        return read_yaml(Path(name)), name
    return preset(name), "configuration"


def _construct(
    config: Mapping[str, Any],
    about: str,
    *,
    defaults: Mapping[str, Any] = {},
    llm: Any = None,
    flat: Mapping[str, Override] = {},
    own: Mapping[str, Any] = {},
) -> Reranker:
    """The reranker that a configuration describes.

    Args:
        config: as it was parsed.
        about: its name in error messages.
        defaults: as for :func:`resolve`.
        llm: likewise.
        flat: likewise.
        own: the settings that no parameter may override.

    Raises:
        ConfigurationError: every problem, with its place.
    """
    try:
        _check_size(config)
        values, variables = environment.fill(with_read_keys(over_preset(config)))
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, about) from None
    overrides = overlay(values, flat, own=own, llm_given=llm is not None)
    values = {**defaults, **values}
    method = values.get("method")
    if "method" in overrides and isinstance(method, str | environment.Unfilled):
        values["method"] = {"type": method}
    values = merged(values, overrides)
    try:
        if llm is not None:
            values = replace_llm(values, llm)
        _check_size(values)
        if problems := [*environment.unfilled(values)]:
            raise ConfigurationError(problems)
        reranker: Reranker = from_mapping(Reranker, values)
    except ConfigurationError as error:
        problems = environment.with_sources(error.problems, values, variables)
        raise ConfigurationError(with_parameter_names(problems, flat), about) from None
    except RecursionError:
        message = "is nested too deeply"
    else:
        return reranker
    raise ConfigurationError(message, about)


def _check_size(config: Any) -> None:
    """Check that a configuration is of moderate size and does not refer to itself.

    Raises:
        ConfigurationError: it is too large.
    """
    if (message := yaml_text.too_large(config)) is not None:
        raise ConfigurationError(message)
