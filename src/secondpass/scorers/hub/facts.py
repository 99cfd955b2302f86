"""What the JSON files of a model say of it, read without torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from secondpass.errors import ModelLoadError, with_article
from secondpass.scorers.hub.find import Find, check_inside, find_files
from secondpass.scorers.hub.model import HubModel


@dataclass(frozen=True)
class ModelFacts:
    """What the JSON files of a model say of it.

    Attributes:
        name: the last part of its name or folder; of a folder in the hub's cache, the model's name.
        config: ``config.json``, of the model's first module.
        own: ``config_sentence_transformers.json``.
        modules: ``modules.json``; None if there is none.
        types: the types of all modules, with those of routers.
        find: finds a file of the model, or of its base.
        base: the model that an adapter changes, whose ``config`` this is; None of all others.
    """

    name: str
    config: Mapping[str, Any]
    own: Mapping[str, Any]
    modules: Sequence[Mapping[str, Any]] | None
    types: Sequence[str]
    find: Find
    base: HubModel | None = None

    @property
    def architecture(self) -> str:
        """The class of the transformer, or its kind, or an empty string."""
        names = self.config.get("architectures") or [self.config.get("model_type")]
        return str(names[0] or "")

    @property
    def auto_map(self) -> Mapping[str, str]:
        """The author's own code that computes the model, by the class of transformers it is for."""
        code = self.config.get("auto_map")
        return {
            str(key): str(value)
            for key, value in (code.items() if isinstance(code, Mapping) else ())
            if str(key).startswith(("AutoModel", "AutoConfig"))
        }

    def read(self, name: str) -> Any:
        """The content of a JSON file; None if the model has none of that name."""
        return _read(self.find, name)


def read_facts(source: HubModel, *, offline: bool) -> ModelFacts | None:
    """Read the JSON files of a model; None if it has neither ``config.json`` nor ``modules.json``.

    Those of an adapter, which peft stores, are read with those of the model that it changes.

    Raises:
        ValueError: a file is no JSON, or of another form.
        ModelLoadError: an adapter is of another kind than LoRA, or its base is not here.
    """
    find = find_files(source, offline=offline)
    facts = facts_of(source.name, find)
    if source.is_local:  # of the hub, loaders ask it for each file
        _check_shards(source.name, facts, find)
    if facts is not None and facts.config:
        return facts
    adapter = _read(find, "adapter_config.json")
    if not isinstance(adapter, Mapping):
        return facts
    if facts is None:
        facts = ModelFacts(_last_part(source.name), {}, {}, None, (), find)
    return _with_base(source, facts, adapter, offline=offline)


_INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def _check_shards(name: str, facts: ModelFacts | None, find: Find) -> None:
    """Check the paths of the files over which weights are spread, which transformers opens."""
    modules = (facts.modules if facts is not None else None) or ()
    for folder in dict.fromkeys(("", *(str(module.get("path") or "") for module in modules))):
        for index in _INDICES:
            content = _read(find, f"{folder}/{index}" if folder else index) or {}
            for file in content.get("weight_map", {}).values():
                check_inside(name, f"{folder}/{file}" if folder else file)


_CLASSES = {"SEQ_CLS": "ForSequenceClassification", "FEATURE_EXTRACTION": "Model"}
"""The ends of the names of classes, by what adapters are for; others keep that of their base."""


def _with_base(
    source: HubModel, facts: ModelFacts, adapter: Mapping[str, Any], *, offline: bool
) -> ModelFacts:
    """What the files of an adapter say, and what those of its base say where it has none."""
    is_a = f"the model {source.name!r} is an adapter"
    if adapter.get("peft_type") != "LORA":
        raise ModelLoadError(f"{is_a} of the kind {adapter.get('peft_type')}; only LORA is read")
    name = adapter.get("base_model_name_or_path")
    if not name:
        raise ModelLoadError(
            f"{is_a}, and its adapter_config.json does not name the model that it changes "
            "(base_model_name_or_path)"
        )
    base = replace(source, name=str(name), revision=adapter.get("revision"))
    try:
        offline = offline or base.is_offline()
    except ModelLoadError as error:
        raise ModelLoadError(f"{is_a} of another one, which it needs: {error}") from error
    others = find_files(base, offline=offline)
    config = _read(others, "config.json")
    if config is None:
        where = "" if base.is_local else ", and is not in the cache" if offline else " on the hub"
        raise ModelLoadError(
            f"{is_a} of {name!r}, which it needs and which is no folder with a config.json{where}"
        )
    end = _CLASSES.get(str(adapter.get("task_type")))
    kinds = [str(kind) for kind in config.get("architectures") or ()]
    if end is not None:
        kinds = [re.sub(r"(For[A-Z]\w+|LMHeadModel|Model)$", "", kind) + end for kind in kinds]
    own = facts.find
    return replace(
        facts,
        config={**config, "architectures": kinds},
        find=lambda file: own(file) or others(file),
        base=base if offline == base.local_files_only else replace(base, local_files_only=offline),
    )


def facts_of(name: str, find: Find) -> ModelFacts | None:
    """As :func:`read_facts`, of the model of this name whose files ``find`` finds."""

    def read(file: str, folder: str = "", form: type = dict) -> Any:
        content = _read(find, f"{folder}/{file}" if folder else file)
        if content is not None and not isinstance(content, form):
            raise ValueError(f"{file} holds {with_article(type(content).__name__)}")
        return content

    modules = read("modules.json", form=list)
    own = read("config_sentence_transformers.json")
    config = read("config.json")
    if config is None and modules is None:
        return None
    types: list[str] = []
    for module in modules or ():
        kind, folder = str(module.get("type", "")), str(module.get("path", ""))
        check_inside(name, folder)
        types.append(kind)
        if kind.endswith((".Router", ".Asym")):
            router = read("router_config.json", folder) or read("config.json", folder) or {}
            for part, kind in (router.get("types") or {}).items():
                check_inside(name, part)
                types.append(str(kind))
    if config is None and modules:
        config = read("config.json", str(modules[0].get("path", "")))
    return ModelFacts(_last_part(name), config or {}, own or {}, modules, types, find)


def _last_part(name: str) -> str:
    """The model's name without that of its owner, or the name of its folder."""
    parts = Path(name).parts
    cached = [part for part in parts if part.startswith("models--")]
    return cached[-1].rpartition("--")[2] if cached else (parts or ("",))[-1]


def _read(find: Find, name: str) -> Any:
    try:
        path = find(name)
    except ModelLoadError:
        raise
    except Exception:  # of the hub; the loader reports it
        return None
    if path is None:
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{name} is no JSON ({type(error).__name__})") from error
