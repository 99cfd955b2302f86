"""What the JSON files of a model say of it, read without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secondpass.errors import with_article
from secondpass.scorers.hub.find import Find, find_files
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
    """

    name: str
    config: Mapping[str, Any]
    own: Mapping[str, Any]
    modules: Sequence[Mapping[str, Any]] | None
    types: Sequence[str]
    find: Find

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

    Raises:
        ValueError: a file is no JSON, or of another form.
    """
    return facts_of(source.name, find_files(source, offline=offline))


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
        types.append(kind)
        if kind.endswith((".Router", ".Asym")):
            router = read("router_config.json", folder) or read("config.json", folder) or {}
            types.extend(map(str, (router.get("types") or {}).values()))
    if config is None and modules:
        config = read("config.json", str(modules[0].get("path", "")))
    return ModelFacts(_last_part(name), config or {}, own or {}, modules, types, find)


def _last_part(name: str) -> str:
    """The model's name without that of its owner, or the name of its folder."""
    parts = Path(name).parts
    cached = [part for part in parts if part.startswith("models--")]
    return cached[-1].rpartition("--")[2] if cached else (parts or ("",))[-1]


def _read(find: Find, name: str) -> Any:
    path = None
    with suppress(Exception):  # of the hub; the loader reports it
        path = find(name)
    if path is None:
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{name} is no JSON ({type(error).__name__})") from error
