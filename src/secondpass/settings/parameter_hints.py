"""Names of other packages for settings, and what to write instead of their parameters.

The reranker, the command and the adapters give hints from this one table, each in its own form.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from secondpass.errors import ConfigurationError
from secondpass.settings import registry
from secondpass.settings.messages import COMING_FROM, suggestion
from secondpass.settings.name_hints import required_settings
from secondpass.settings.signature import model_of

Config: TypeAlias = Mapping[str, Any]

OPEN = "…"
"""Stands for a value that the user knows."""

_BATCH_SIZE = ("method.batch_size", "method.window")
_KEY_ENV = ("method.token_env", "method.api_key_env", "method.llm.api_key_env")

KEY = ("method.token", "method.api_key", "method.llm.api_key")
"""Where a configuration has a key."""

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
    "api_key": KEY,
    "token": KEY,
    "api_key_env": _KEY_ENV,
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
`secondpass.settings.overrides.Override`.
"""

_SYNONYMS = {
    **dict.fromkeys(("k", "topk", "topn", "limit"), "top_k"),
    **dict.fromkeys(("threshold", "scorethreshold", "similaritycutoff", "minscore"), "floor"),
    **dict.fromkeys(("modelname", "modelid", "modelnameorpath"), "model"),
    **dict.fromkeys(("rerankmodel", "rerankmodelname", "rerankmodelarn"), "model"),
    **dict.fromkeys(("apitoken", "authtoken", "key"), "api_key"),
    "metadataseparator": "separator",
    "prefix": "document_prefix",
    "suffix": "document_suffix",
}
"""Names of other packages, without underscores -> name in `PATHS`, for hints."""

NO_EQUIVALENT = "there is no equivalent; leave it out"
"""What to do instead, in messages about a parameter of another reranker that has no place."""
_AWS = "leave it out; botocore reads the credentials from its own variables and files"
_BY_FIELD = f"to rank by a metadata field, see {COMING_FROM}#a-metadata-field"
_OPTIONS: Config = {"method": {"type": "endpoint", "options": OPEN}}
_BASE_URL: Config = {"method": {"type": "endpoint", "base_url": OPEN}}
_REGION = "leave it out; the region is that of the ARN that model= names"

INSTEAD: Mapping[str, str | Config] = {
    **dict.fromkeys(("api_url", "api_base_url", "url"), _BASE_URL),
    "max_retries": {"limits": {"retries": OPEN}},
    "max_concurrency": {"limits": {"concurrency": OPEN}},
    **dict.fromkeys(("extra_parameters", "max_tokens_per_doc", "truncation_direction"), _OPTIONS),
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
    **dict.fromkeys(
        ("meta_field", "weight", "ranking_mode", "sort_order", "missing_meta", "meta_value_type"),
        _BY_FIELD,
    ),
    "cache_dir": {"method": {"type": "cross_encoder", "cache_folder": OPEN}},
    "lang": "leave it out; choose a model that reads the language",
    "model_type": "write the kind of the method, as in {'type': 'cross_encoder', 'model': …}",
    "query_instruction": {"render": {"query_prefix": OPEN}},
    "return_documents": "leave it out; the result has the documents",
    "step_size": {"method": {"type": "listwise", "stride": OPEN}},
    "text_instruction": {"render": {"prefix": OPEN}},
    "timeout_s": {"method": {"type": "endpoint", "timeout": OPEN}},
    "use_fp16": {"method": {"type": "cross_encoder", "precision": "float16"}},
    "with_retrieval": "leave it out; the candidates are those of your retriever",
    **dict.fromkeys(
        ("verbose", "show_progress", "show_progress_bar"), "leave it out; the result has a report"
    ),
    **dict.fromkeys(("max_chunks_per_doc", "num_gpus"), NO_EQUIVALENT),
}
"""Parameter of rerankers of other packages -> the setting to write instead, or what to do."""


def synonym(name: str) -> str:
    """The name in `PATHS` that a name of another package stands for; empty if there is none."""
    return name if name in PATHS else _SYNONYMS.get(name.replace("_", ""), "")


def in_words(config: Any) -> str:
    """A configuration as Python writes it, with a bare ``…`` for an open value."""
    return repr(config).replace(repr(OPEN), OPEN)


def place_of(method: object, name: str) -> str | None:
    """The path of a setting of this method in a configuration; None if it has none."""
    path = "method"
    settings: Any = {"type": method} if isinstance(method, str) else method
    for family in ("methods", "llms"):
        kind = settings.get("type") if isinstance(settings, Mapping) else None
        if not isinstance(kind, str) or kind not in registry.names(family):
            return None
        try:
            fields = model_of(registry.kind(family, kind)).model_fields
        except ConfigurationError:  # an entry point that cannot be loaded
            return None
        if name in fields:
            return f"{path}.{name}"
        path, settings = f"{path}.llm", settings.get("llm")
    return None


def of_methods(name: str, method: object = None) -> Config | None:
    """The configuration that has a setting of this method or else of another; None without any.

    Its other settings are left out. Of a key it is the setting for the name of its variable.
    """
    names = list(_names_in_methods(name))
    for setting in names:
        path = place_of(method, setting)
        if path is not None:
            return {"method": _with_setting(method, path.split(".")[1:])}
    for setting in names:
        for kind in ("cross_encoder", "endpoint", *registry.names("methods")):
            if place_of(kind, setting) is not None:
                return {"method": _with_setting(kind, [setting])}
    return None


def _names_in_methods(name: str) -> Iterator[str]:
    if name in {"api_key", "token"}:
        yield from (f"{name}_env", "token_env", "api_key_env")
        return
    yield name
    for path in PATHS.get(synonym(name), ()):
        outer, _, setting = path.rpartition(".")
        if outer.startswith("method"):
            yield setting


def _with_setting(method: Any, path: list[str]) -> dict[str, Any]:
    """A method by its type alone, with one setting more, of itself or of its language model."""
    kind = method if isinstance(method, str) else method["type"]
    if len(path) == 1:
        return {"type": kind, path[0]: OPEN}
    llm = {"type": method["llm"]["type"], "model": OPEN, path[1]: OPEN}
    return {"type": kind, "llm": llm}


def complete(method: Config) -> dict[str, Any]:
    """A method with its required settings, which are open unless it has them."""
    required = dict.fromkeys(required_settings(method["type"]), OPEN)
    return {"type": method["type"], **required, **method}


def configured(
    name: str, known: Collection[str], sections: Mapping[str, type], method: object = None
) -> str | Config | None:
    """What to write for a name that is no setting of a reranker.

    Args:
        name: of the parameter.
        known: the settings of a reranker.
        sections: those with settings of their own, and their classes.
        method: the configured one, which is preferred to others.

    Returns:
        Another setting of the reranker, as ``{name: "…"}``; a configuration; what to do, in words;
        None if the name is not known.
    """
    meant = synonym(name)
    for path in PATHS.get(meant, ()):
        outer, _, setting = path.rpartition(".")
        if setting in known and not outer:
            return {setting: OPEN}
        if outer in sections:
            return {outer: {setting: OPEN}}
    if place_of(method, name) is None and name in INSTEAD:
        return INSTEAD[name]
    if (config := of_methods(name, method)) is not None and place_of(method, name) is not None:
        return config
    for section, cls in sections.items():
        if name in model_of(cls).model_fields:
            return {section: {name: OPEN}}
    return config


def hint(
    name: str, known: Collection[str], sections: Mapping[str, type], method: object = None
) -> str:
    """``; …`` for a parameter that a reranker does not have, in Python and in a configuration."""
    what = configured(name, known, sections, method)
    if what is None:
        return suggestion(name, sorted(known), leads_to_page=True)
    if isinstance(what, str):
        return f"; {what}"
    (key, value), *_ = what.items()
    if value == OPEN:
        return f"; did you mean {key!r}?"
    if key != "method":
        owner, python = f"of {key!r}", f"{key}={in_words(value)}"
    else:
        value = complete(value)
        kind = method.get("type") if isinstance(method, Mapping) else method
        is_other = isinstance(kind, str) and kind != value["type"]
        owner = f"of the method {value['type']!r}, not of {kind!r}" if is_other else "of the method"
        python = f"Reranker({in_words(value)})"
    in_yaml = json.dumps(value, ensure_ascii=False)  # JSON is also YAML
    return f"; it is a setting {owner}: use {python}, or '{key}: {in_yaml}' in a configuration"


def call_hint(name: str, known: Collection[str]) -> str:
    """``; …`` for a keyword that the calls of a reranker do not have."""
    what = configured(name, known, {})
    elsewhere = f"; coming from another package: {COMING_FROM}"
    if what is None:
        return suggestion(name, sorted(known), leads_to_page=True)
    if isinstance(what, str):
        return f"; {what}{elsewhere}"
    (key, value), *_ = what.items()
    if value == OPEN:
        return f"; did you mean {key!r}?"
    python = f"{key}={in_words(value)}" if key != "method" else in_words(complete(value))
    return f"; it is a setting of the reranker: Reranker({python}){elsewhere}"
