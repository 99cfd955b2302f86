"""Hints about names: what is probably meant by one that stands where another kind is expected.

Such as the name of a language model, of a model on the hub, of a rerank API, or of a reranker in
another package, where that of a method or a preset is expected. A hint follows a message, and
begins with ``; ``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from secondpass.errors import ConfigurationError
from secondpass.settings import model_of, registry
from secondpass.settings.messages import COMING_FROM

CONFIGURATION_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
"""How the names of files with a configuration end."""

_LANGUAGE_MODELS = {
    **dict.fromkeys(("openai/", "gpt-", "chatgpt-", "o1", "o3", "o4"), "openai"),
    **dict.fromkeys(("anthropic/", "claude-"), "anthropic"),
    **dict.fromkeys(("gemini/", "vertex_ai/", "gemini-"), "google"),
}
"""How the names of language models begin -> provider. With a slash, as LiteLLM names that."""

_LOCAL_MODEL = re.compile(r"(?:openai/)?gpt-oss|[\w.-]+:(?:e?[0-9][0-9.]*[bm][\w.-]*|latest)\Z")
"""Language models with open weights, such as those that Ollama serves: ``qwen3:8b``."""

_OWN = "…"
"""Stands for a value that the name does not tell."""

_RERANK_MODELS = {
    **dict.fromkeys(("cohere/", "rerank-v", "rerank-english", "rerank-multilingual"), "cohere"),
    **dict.fromkeys(("jina_ai/", "jina-reranker"), "jina"),
    **dict.fromkeys(("voyage/", "rerank-1", "rerank-2"), "voyage"),
    "zerank": "zeroentropy",
}
"""How names of models of rerank APIs begin, and the API."""

_OWNERS = {
    "bge-reranker": "BAAI",
    "ce-esci-": "metarank",
    "colbert-": "colbert-ir",
    "colbertv": "colbert-ir",
    "jina-colbert": "jinaai",
    "ms-marco-": "cross-encoder",
    "mxbai-rerank": "mixedbread-ai",
}
"""How names of models begin that other packages write without the owner on the Hugging Face hub."""
_FLASHRANK = re.compile(r"(ms-marco-(?:MiniLM|TinyBERT))-L-(\d+)(-v2)")
"""Names of FlashRank: on the hub ``L12`` in place of ``L-12``."""
_FLASHRANK_ONLY = frozenset(
    {"ms-marco-MultiBERT-L-12", "rank-T5-flan", "rank_zephyr_7b_v1_full", "miniReranker_arabic_v1"}
)
"""Names of FlashRank whose files are in no form that can be read here."""
_COLBERT = {"type": "late_interaction", "model": _OWN}
_CROSS_ENCODER = {"type": "cross_encoder", "model": _OWN}
_LISTWISE = {"type": "listwise", "llm": _OWN}
_ELSEWHERE: Mapping[str, Mapping[str, Any]] = {
    "colbert": _COLBERT,
    "pylate": _COLBERT,
    "flashrank": _CROSS_ENCODER,
    "llm-layerwise": _CROSS_ENCODER,
    "mxbaiv2": _CROSS_ENCODER,
    "sentence-transformers": _CROSS_ENCODER,
    "t5": {**_CROSS_ENCODER, "family": "monot5"},
    "rankgpt": _LISTWISE,
    "rankllm": _LISTWISE,
    "text-embeddings-inference": {"type": "endpoint", "api": "tei", "base_url": _OWN},
}
"""Kind of reranker by its name in other packages -> method."""


def name_hint(name: str, *, as_options: bool = False, caller: str = "") -> str:
    """What a name is and how to use it, after ``; ``; empty if that is not known.

    Args:
        name: of no method, preset or file, where one of these is expected.
        as_options: whether to use it in options of the command, not in Python or a configuration.
        caller: the class of an adapter that takes a preset, a mapping or ``model=``; empty for
            Reranker.
    """
    if name in registry.preset_names():
        python = f"{caller}({name!r})" if caller else f"Reranker.from_preset({name!r})"
        python += f", or 'preset: {name}' in a configuration"
        use = f"--preset {name}" if as_options else python
        return f"; {name!r} is a preset, which is a whole reranker: use {use}"
    if name in _FLASHRANK_ONLY:
        return f"; it is a model of FlashRank; what to use in its place: {COMING_FROM}"
    found = _registered(name) or _model(name)
    if found is None:
        plain = name.lower()
        if plain == name or plain in registry.names("methods"):
            return ""
        return name_hint(plain, as_options=as_options, caller=caller)
    what, method = found
    if as_options:
        return f"; {what}, use {in_options({'method': method})}"
    python = _in_python(method, caller).replace(repr(_OWN), _OWN)
    # JSON is also YAML.
    in_yaml = method if isinstance(method, str) else json.dumps(method, ensure_ascii=False)
    return f"; {what}, use {python}, or 'method: {in_yaml}' in a configuration"


_Meaning: TypeAlias = tuple[str, str | dict[str, Any]]
"""What a name is, in words; and the method that is meant by it."""


def _registered(name: str) -> _Meaning | None:
    """The meaning of a name of this package, or of a folder."""
    if name in registry.names("methods"):
        settings = dict.fromkeys(required_settings(name), _OWN)
        return "it is a method", {"type": name, **settings} if settings else name
    if name in registry.names_in("rerank_apis"):
        method = {"type": "endpoint", "api": name, "model": _OWN}
        if not _has_address(name):
            method["base_url"] = _OWN
        return "it is a rerank API", method
    if name in registry.names("llms"):
        llm = {"type": name, "model": _OWN}
        return "it is a provider of language models", {"type": "graded", "llm": llm}
    if name and os.path.isdir(name):
        return "if it is a reranking model", {"type": "cross_encoder", "model": name}
    return None


def _model(name: str) -> _Meaning | None:
    """The meaning of a name of a model, or of a kind of reranker in other packages."""
    if llm := language_model(name):
        return "if it is a language model", {"type": "graded", "llm": llm}
    if endpoint := _by_beginning(name, "api", _RERANK_MODELS):
        return "if it is a model of that rerank API", {"type": "endpoint", **endpoint}
    if _may_be_on_hub(name):
        return "if it is a reranking model", {"type": "cross_encoder", "model": name}
    if elsewhere := _ELSEWHERE.get(name.lower()):
        what = f"in other packages it is a kind of reranker ({COMING_FROM}); here"
        return what, {**elsewhere}
    if on_hub := hub_name(name):
        kind = "late_interaction" if "colbert" in name else "cross_encoder"
        return "if it is the model on the Hugging Face hub", {"type": kind, "model": on_hub}
    return None


def hub_name(name: str) -> str:
    """A model's name on the Hugging Face hub, of its name without the owner; empty if unknown."""
    on_hub = _FLASHRANK.sub(r"\1-L\2\3", name)
    owners = (owner for start, owner in _OWNERS.items() if name.startswith(start))
    return next((f"{owner}/{on_hub}" for owner in owners), "")


def _in_python(method: str | dict[str, Any], caller: str) -> str:
    """The call that makes a reranker of a method."""
    if not caller:
        return f"Reranker({method!r})"
    model = method.get("model") if isinstance(method, dict) else None
    if method == {**_CROSS_ENCODER, "model": model}:
        return f"{caller}(model={model!r})"  # of the adapters' default preset
    config = {"method": method}
    return f"{caller}({config!r})"


def path_hint(name: str) -> str:
    """What is wrong with a path where none is expected, after ``; ``; empty if it is none."""
    if Path(name).suffix.lower() in CONFIGURATION_SUFFIXES:
        return f"; if it is a file, use Reranker.from_config({name!r})"
    if name.startswith(("/", "./", "../", "~")) or "\\" in name:
        return "; there is no such folder"
    return ""


def _has_address(api: str) -> bool:
    """Whether the description of a rerank API has its address; others are self-hosted."""
    from importlib.resources import files

    path = files("secondpass") / "data" / "rerank_apis" / f"{api}.yaml"
    return re.search("^url:", path.read_text("utf-8"), re.MULTILINE) is not None


def required_settings(method: str) -> list[str]:
    """The names of the settings that a method of this name must have."""
    try:
        required: list[str] = model_of(registry.kind("methods", method)).model_json_schema()[
            "required"
        ]
    except (ConfigurationError, KeyError):  # of another package that is broken; or none
        return []
    return required


def in_options(config: Mapping[str, Any], path: str = "") -> str:
    """A configuration as options of the command."""
    options = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            options.append(in_options(value, f"{path}{key}."))
        else:
            quoted = value if value == _OWN else shlex.quote(value)
            options.append(f"--set {path}{key}={quoted}")
    return " ".join(options)


def language_model(name: str) -> dict[str, str] | None:
    """The settings of a language model, as far as its name tells them."""
    if _LOCAL_MODEL.match(name):
        return {"type": "openai", "model": name, "base_url": _OWN}
    owner, _, model = name.partition("/")
    if owner == "azure" and model:
        return {"type": "openai", "model": model, "base_url": _OWN}
    return _by_beginning(name, "type", _LANGUAGE_MODELS)


def _by_beginning(name: str, setting: str, values: Mapping[str, str]) -> dict[str, str] | None:
    """The model of this name, and the setting whose values are known by how names begin."""
    for start, value in values.items():
        model = name.removeprefix(start) if start.endswith("/") else name
        if name.startswith(start) and model:
            return {setting: value, "model": model}
    return None


def _may_be_on_hub(name: str) -> bool:
    """Whether it may be the name of a model on the Hugging Face hub."""
    owner, slash, model = name.partition("/")
    return bool(
        slash
        and owner.strip(".~")
        and model
        and "/" not in model
        and Path(name).suffix.lower() not in CONFIGURATION_SUFFIXES
    )
