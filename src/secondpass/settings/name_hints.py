"""Hints about names: what is probably meant by one that stands where another kind is expected.

Such as the name of a language model, of a model on the hub, of a rerank API, or of a reranker in
another package, where that of a method or a preset is expected. A hint follows a message, and
begins with ``; ``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from secondpass.errors import ConfigurationError
from secondpass.settings import model_of, registry, yaml_text
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

OPEN = "…"
"""Stands for a value that the user knows."""

ANY_LLM: Mapping[str, str] = {"type": "openai", "model": OPEN}
"""Stands for a language model that is not known."""

_SAME_API: Mapping[str, Mapping[str, str]] = {
    "ollama": {"base_url": "http://localhost:11434/v1"},
    "vllm": {"base_url": "http://localhost:8000/v1"},
    "llamacpp": {"base_url": "http://localhost:8080/v1"},
    "lmstudio": {"base_url": "http://localhost:1234/v1"},
    "azure": {"base_url": OPEN, "api_key_env": "AZURE_OPENAI_API_KEY"},
    "deepseek": {"base_url": "https://api.deepseek.com", "api_key_env": "DEEPSEEK_API_KEY"},
    "groq": {"base_url": "https://api.groq.com/openai/v1", "api_key_env": "GROQ_API_KEY"},
    "mistral": {"base_url": "https://api.mistral.ai/v1", "api_key_env": "MISTRAL_API_KEY"},
    "openrouter": {
        "base_url": "https://openrouter.ai/api/v1",
        "api_key_env": "OPENROUTER_API_KEY",
    },
}
"""Servers and services with OpenAI's API, without underscores -> settings beside ``model``."""

_PROVIDERS = {
    **dict.fromkeys(("gemini", "vertex", "vertexai", "googlegenai"), "google"),
    "azureopenai": "azure",
    **dict.fromkeys(("gpt", "chatgpt", "openailike"), "openai"),
    "claude": "anthropic",
}
"""Providers of language models as other packages name them, without underscores -> name here."""

_RERANK_MODELS = {
    **dict.fromkeys(("cohere/", "rerank-v", "rerank-english", "rerank-multilingual"), "cohere"),
    **dict.fromkeys(("jina_ai/", "jina-reranker"), "jina"),
    **dict.fromkeys(("voyage/", "rerank-1", "rerank-2"), "voyage"),
    "zerank": "zeroentropy",
}
"""How names of models of rerank APIs begin, and the API."""

_RERANK_MODELS_WITH_KEY = {"jinaai/": "jina", "mixedbread-ai/mxbai-rerank": "mixedbread"}
"""The same for models that are on the hub, too: the API is meant by a name with an API's key."""

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
_ANY_LLM_NAMES = frozenset({"llm", "llms", "languagemodel", "chat", "chatmodel"})
"""Words for a language model of any kind, without underscores."""
_CROSS_ENCODER = {"type": "cross_encoder", "model": OPEN}
_COLBERT = {**_CROSS_ENCODER, "family": "colbert"}
_LISTWISE = {"type": "listwise", "llm": ANY_LLM}
_ELSEWHERE: Mapping[str, Mapping[str, Any]] = {
    "colbert": _COLBERT,
    "late_interaction": _COLBERT,
    "pylate": _COLBERT,
    "flashrank": _CROSS_ENCODER,
    "llm-layerwise": _CROSS_ENCODER,
    "mxbaiv2": _CROSS_ENCODER,
    "sentence-transformers": _CROSS_ENCODER,
    "t5": {**_CROSS_ENCODER, "family": "monot5"},
    "rankgpt": _LISTWISE,
    "rankllm": _LISTWISE,
    "text-embeddings-inference": {"type": "endpoint", "api": "tei", "base_url": OPEN},
}
"""Kind of reranker by its name in other packages -> method."""


def elsewhere(method: object) -> object:
    """The method that is meant by the name of a kind of reranker in other packages."""
    is_name = isinstance(method, str) and method not in registry.names("methods")
    return _ELSEWHERE.get(str(method).lower(), method) if is_name else method


def llm_named(name: str) -> dict[str, str] | None:
    """The settings of a language model, of its name or that of its provider; None if unknown."""
    if (llm := language_model(name)) is not None:
        return llm
    plain = re.sub("[-_. ]", "", name.lower())
    plain = _PROVIDERS.get(plain, plain)
    if plain in registry.names("llms"):
        return {"type": plain, "model": OPEN}
    return {**ANY_LLM, **_SAME_API[plain]} if plain in _SAME_API else None


def llm_hint(name: str) -> str:
    """``; …`` what to write for a name that no provider of language models has."""
    llm = llm_named(name)
    if llm is None:
        return ""
    if "base_url" in llm:
        return f"; {name} speaks OpenAI's API: {in_words(llm)}"
    if llm["model"] != OPEN:
        return f"; if it is a language model, use {in_words(llm)}"
    return f"; did you mean {llm['type']!r}?"


def name_hint(
    name: str, *, as_options: bool = False, as_part: bool = False, caller: str = ""
) -> str:
    """What a name is and how to use it, after ``; ``; empty if that is not known.

    Args:
        name: of no method, preset or file, where one of these is expected.
        as_options: whether to use it in options of the command, not in Python or a configuration.
        as_part: whether it stands in the place of a fallback or a stage.
        caller: the class of an adapter that takes a preset, a mapping or ``model=``; empty for
            Reranker.
    """
    if name in registry.preset_names() and not as_part:
        python = f"{caller}({name!r})" if caller else f"Reranker.from_preset({name!r})"
        python += f", or 'preset: {name}' in a configuration"
        use = f"--preset {name}" if as_options else python
        return f"; {name!r} is a preset, which is a whole reranker: use {use}"
    if re.sub("[-_. ]", "", name.lower()) in _ANY_LLM_NAMES:
        methods = "'listwise', 'graded', 'pointwise' or 'blocks'"
        return f"; a language model is the 'llm' of a method: use {methods}"
    if name in _FLASHRANK_ONLY:
        return f"; it is a model of FlashRank; what to use in its place: {COMING_FROM}"
    found = _registered(name) or _model(name)
    if found is None:
        plain = name.lower()
        if plain == name or plain in registry.names("methods"):
            return ""
        return name_hint(plain, as_options=as_options, as_part=as_part, caller=caller)
    what, method = found
    if as_options:
        write = f"use {in_options({'method': method})}"
    elif as_part:
        write = f"write {in_words(method)}"
    else:
        python = _in_python(method, caller).replace(repr(OPEN), OPEN)
        write = f"use {python}, or 'method: {in_yaml(method)}' in a configuration"
    return f"; {what}, {write}"


_Meaning: TypeAlias = tuple[str, str | dict[str, Any]]
"""What a name is, in words; and the method that is meant by it."""


_PART = "a fallback or a stage is a method"


def preset_hint(name: str, preset: Mapping[str, Any]) -> str:
    """``; …`` for a preset, and its configuration, in the place of a fallback or a stage."""
    method = {
        key: value if isinstance(value, str | int) else OPEN
        for key, value in preset["method"].items()
    }
    what = f"{name!r} is a preset, which is a whole reranker; {_PART}"
    return f"; {what}: write that of the preset, {in_words(method)}"


def _registered(name: str) -> _Meaning | None:
    """The meaning of a name of this package, or of a folder."""
    if name in registry.names("methods"):
        return "it is a method", complete({"type": name}) if required_settings(name) else name
    if name in registry.names_in("rerank_apis"):
        method = {"type": "endpoint", "api": name, "model": OPEN}
        if not _has_address(name):
            method["base_url"] = OPEN
        return "it is a rerank API", method
    if name in registry.names("llms"):
        llm = {"type": name, "model": OPEN}
        return "it is a provider of language models", {"type": "graded", "llm": llm}
    if name and os.path.isdir(name):
        return "if it is a reranking model", {"type": "cross_encoder", "model": name}
    return None


def _model(name: str) -> _Meaning | None:
    """The meaning of a name of a model, or of a kind of reranker in other packages."""
    if llm := language_model(name):
        return "if it is a language model", {"type": "graded", "llm": llm}
    if endpoint := rerank_api(name):
        return "if it is a model of that rerank API", {"type": "endpoint", **endpoint}
    if _may_be_on_hub(name):
        return "if it is a reranking model", {"type": "cross_encoder", "model": name}
    if elsewhere := _ELSEWHERE.get(name.lower()):
        what = f"in other packages it is a kind of reranker ({COMING_FROM}); here"
        return what, {**elsewhere}
    if on_hub := hub_name(name):
        method = {"type": "cross_encoder", "model": on_hub}
        return "if it is the model on the Hugging Face hub", method
    return None


def of_key(model: object, caller: str = "") -> str:
    """What to write in place of a model of the hub that was given with the key of an API.

    Args:
        model: its name.
        caller: the class of an adapter with the parameters ``model`` and ``api_key``; empty for
            Reranker.
    """
    name = model if isinstance(model, str) else ""
    hub = "for a token of the hub, set HF_TOKEN or 'token_env' of the method"
    llm = language_model(name)
    if llm is not None and "base_url" not in llm:
        method: dict[str, Any] = {"type": "graded", "llm": llm}
        return f"for that language model use {_with_key(method, caller)}; {hub}"
    api = rerank_api(name) or _by_beginning(name, "api", _RERANK_MODELS_WITH_KEY)
    method = {"type": "endpoint", **(api or {"api": OPEN, "model": name or OPEN})}
    what = f"for the rerank API {api['api']!r}" if api else "for a rerank API, name it:"
    return f"{what} use {_with_key(method, caller)}; {hub}"


def rerank_api(model: str) -> dict[str, str] | None:
    """The API and the model of a rerank API's model, as far as its name tells them."""
    return _by_beginning(model, "api", _RERANK_MODELS)


def _with_key(method: Mapping[str, Any], caller: str) -> str:
    """The call that makes a reranker of a rerank API or a language model with its key."""
    if not caller:
        llm = method.get("llm")
        keyed = {"llm": {**llm, "api_key": OPEN}} if llm else {"api_key": OPEN}
        return in_words({**method, **keyed})
    if method.get("api") in registry.preset_names():
        settings, model = repr(method["api"]), method["model"]
    else:
        inner = method.get("llm", method)
        model = inner["model"]
        rest = {key: value for key, value in inner.items() if key != "model"}
        config = {"method": {**method, "llm": rest} if "llm" in method else rest}
        settings = in_words(config)
    return f"{caller}({settings}, model={in_words(model)}, api_key={OPEN})"


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


def path_hint(name: str, *, as_part: bool = False) -> str:
    """What is wrong with a path where none is expected, after ``; ``; empty if it is none.

    ``as_part`` as for :func:`name_hint`.
    """
    if Path(name).suffix.lower() in CONFIGURATION_SUFFIXES:
        if as_part:
            return f"; if it is a file, it has a whole reranker; {_PART}: write that of the file"
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


def complete(method: Mapping[str, Any]) -> dict[str, Any]:
    """A method with its required settings, which are open unless it has them."""
    required = dict.fromkeys(required_settings(method["type"]), OPEN)
    whole: dict[str, Any] = {"type": method["type"], **required, **method}
    return {**whole, "llm": dict(ANY_LLM)} if whole.get("llm") == OPEN else whole


def in_words(config: Any) -> str:
    """A configuration as Python writes it, with a bare ``…`` for an open value."""
    return repr(config).replace(repr(OPEN), OPEN)


def in_yaml(config: Any) -> str:
    """A value in a configuration as YAML on one line, with a bare ``…`` for an open value."""
    return config if isinstance(config, str) else yaml_text.write(config, on_one_line=True).strip()


def in_options(config: Mapping[str, Any], path: str = "") -> str:
    """A configuration as options of the command."""
    options = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            options.append(in_options(value, f"{path}{key}."))
        else:
            quoted = value if value == OPEN else shlex.quote(value)
            options.append(f"--set {path}{key}={quoted}")
    return " ".join(options)


def language_model(name: str) -> dict[str, str] | None:
    """The settings of a language model, as far as its name tells them."""
    if _LOCAL_MODEL.match(name):
        return {"type": "openai", "model": name, "base_url": OPEN}
    owner, _, model = name.partition("/")
    if owner == "azure" and model:
        return {"type": "openai", "model": model, "base_url": OPEN}
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
