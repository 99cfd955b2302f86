"""The rerankers that ``secondpass eval`` measures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from secondpass import ConfigurationError, MissingExtraError, ModelLoadError
from secondpass.cli.shared import configuration, with_depth
from secondpass.config import load, preset_names

_SINGLE_NAME = "rerank"
"""Name of a single reranker without one: `hybrid+rerank`."""


def reranker_specs(
    presets: Sequence[str] | None,
    configs: Sequence[Path] | None,
    compared: Sequence[str] | None,
    models: Sequence[str] | None,
) -> dict[str, Any]:
    """The rerankers of the options: unique name -> preset name, path, or configuration.

    Raises:
        ConfigurationError: a value of ``--compare`` is malformed.
    """
    from secondpass_evaluation.rerankers import unique_name  # slow to import

    specs: list[tuple[str, Any]] = [(name, name) for name in presets or ()]
    specs += [(path.stem, path) for path in configs or ()]
    for argument in compared or ():
        name, equals, value = argument.partition("=")
        if equals and (not name or not value):
            raise ConfigurationError(f"--compare {argument}: write NAME=WHAT, or WHAT alone")
        value = value if equals else argument
        specs.append((name if equals else Path(value).stem, _preset_or_path(value)))
    for model in models or ():
        method = {"type": "cross_encoder", "model": model}
        specs.append((Path(model).name or model, {"method": method}))
    if len(specs) == 1 and not (compared and "=" in compared[0]):
        return {_SINGLE_NAME: specs[0][1]}
    unique: dict[str, Any] = {}
    for name, spec in specs:
        unique[unique_name(name, unique)] = spec
    return unique


def loadable_rerankers(
    specs: Mapping[str, Any], settings: Sequence[str] | None, top_n: int | None
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The configurations that can be loaded, and why the others cannot, by name.

    Raises:
        ConfigurationError: a configuration is wrong.
    """
    loadable: dict[str, dict[str, Any]] = {}
    not_run = {} if specs else {_SINGLE_NAME: "no reranker; give --preset or --config"}
    for name, spec in specs.items():
        if isinstance(spec, Mapping):
            config = configuration(None, None, settings, base=spec)
        elif isinstance(spec, Path):
            config = configuration(None, spec, settings)
        else:
            config = configuration(spec, None, settings)
        config = with_depth(config, top_n)
        try:
            load(config)  # only to check it: `compare` loads and closes its own
            loadable[name] = config
        except (MissingExtraError, ModelLoadError) as error:
            not_run[name] = str(error)
        except ConfigurationError as error:
            place = name if isinstance(spec, Mapping) else str(spec)
            raise ConfigurationError(error.problems, place) from None
    return loadable, not_run


def _preset_or_path(value: str) -> str | Path:
    is_path = Path(value).suffix in {".yaml", ".yml"} or "/" in value or os.sep in value
    return Path(value) if is_path and value not in preset_names() else value
