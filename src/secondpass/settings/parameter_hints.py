"""Names of other packages for settings, and what to write instead of their parameters.

The reranker, the command and the adapters give hints from this one table, each in its own form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import registry
from secondpass.settings.keys import with_hidden_keys
from secondpass.settings.messages import COMING_FROM, UNKNOWN_KEY, did_you_mean, suggestion
from secondpass.settings.name_hints import (
    ANY_LLM,
    OPEN,
    complete,
    elsewhere,
    in_words,
    in_yaml,
    of_key,
)
from secondpass.settings.signature import model_of, parameters_of

Config: TypeAlias = Mapping[str, Any]

_BATCH_SIZE = ("method.batch_size", "method.window")
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
    # The key of an API is never sent to the hub, and a token of the hub to no API.
    "api_key": ("method.api_key", "method.llm.api_key"),
    "api_key_env": ("method.api_key_env", "method.llm.api_key_env"),
    "token": ("method.token",),
    "token_env": ("method.token_env",),
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
    **dict.fromkeys(("activationfct", "activationfn", "activationfunction"), "activation"),
    "defaultactivationfunction": "activation",
    "raiseonerror": "strict",
    **dict.fromkeys(("modelname", "modelid", "modelnameorpath", "name"), "model"),
    **dict.fromkeys(("rerankmodel", "rerankmodelname", "rerankmodelarn"), "model"),
    **dict.fromkeys(("apitoken", "authtoken", "key"), "api_key"),
    **dict.fromkeys(("hftoken", "hubtoken", "useauthtoken"), "token"),
    "metadataseparator": "separator",
    "rankfields": "fields",
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
    **dict.fromkeys(("api_url", "api_base", "api_base_url", "url"), _BASE_URL),
    "max_retries": {"limits": {"retries": OPEN}},
    "max_concurrency": {"limits": {"concurrency": OPEN}},
    **dict.fromkeys(("extra_parameters", "truncate_text"), _OPTIONS),
    **{
        name: {"method": {"type": "endpoint", "options": {name: OPEN}}}
        for name in ("max_tokens_per_doc", "truncate", "truncation", "truncation_direction")
    },
    **dict.fromkeys(
        (
            *("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
            *("aws_profile_name", "profile_name", "botocore_session", "botocore_config"),
            "additional_kwargs",
        ),
        _AWS,
    ),
    **dict.fromkeys(("aws_region_name", "region_name"), _REGION),
    **dict.fromkeys(
        ("meta_field", "weight", "ranking_mode", "sort_order", "missing_meta", "meta_value_type"),
        _BY_FIELD,
    ),
    "client": "leave it out; the method has its own client, whose key is read from the variable "
    "that 'api_key_env' names (with Bedrock, botocore reads the credentials)",
    "cache_dir": {"method": {"type": "cross_encoder", "cache_folder": OPEN}},
    "lang": "leave it out; choose a model that reads the language",
    "model_type": "write the kind of the method, as in {'type': 'cross_encoder', 'model': …}",
    "normalize": {"method": {"type": "cross_encoder", "activation": "sigmoid"}},
    **dict.fromkeys(("num_labels", "apply_softmax"), "leave it out; the model has one score"),
    "query_instruction": {"render": {"query_prefix": OPEN}},
    "return_documents": "leave it out; the result has the documents",
    "step_size": {"method": {"type": "listwise", "stride": OPEN}},
    "text_instruction": {"render": {"prefix": OPEN}},
    "timeout": {"limits": {"deadline": OPEN}},
    "timeout_s": {"method": {"type": "endpoint", "timeout": OPEN}},
    "use_fp16": {"method": {"type": "cross_encoder", "precision": "float16"}},
    "with_retrieval": "leave it out; the candidates are those of your retriever",
    **dict.fromkeys(
        ("verbose", "show_progress", "show_progress_bar"), "leave it out; the result has a report"
    ),
    **dict.fromkeys(("max_chunks_per_doc", "num_gpus", "num_workers"), NO_EQUIVALENT),
    **dict.fromkeys(("convert_to_numpy", "convert_to_tensor"), NO_EQUIVALENT),
}
"""Parameter of rerankers of other packages -> the setting to write instead, or what to do."""

_IN_SETTINGS: Mapping[str, str] = {
    **dict.fromkeys(("weight", "alpha"), "original"),
    **dict.fromkeys(("in", "prompt"), "input"),
    **dict.fromkeys(("out", "completion"), "output"),
    **dict.fromkeys(("threshold", "value", "min"), "at"),
}
"""Names that are assumed for settings of a blend, prices or a threshold -> the setting."""


def synonym(name: str) -> str:
    """The name in `PATHS` that a name of another package stands for; empty if there is none."""
    return name if name in PATHS else _SYNONYMS.get(name.replace("_", ""), "")


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
        if "llm" not in fields:
            return None
        path, settings = f"{path}.llm", settings.get("llm", ANY_LLM)
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
            path = place_of(kind, setting)
            if path is not None:
                return {"method": _with_setting(kind, path.split(".")[1:])}
    return None


def _names_in_methods(name: str) -> Iterator[str]:
    if name in {"api_key", "token"}:
        yield f"{name}_env"
        return
    yield name
    for path in PATHS.get(synonym(name), ()):
        outer, _, setting = path.rpartition(".")
        if outer.startswith("method"):
            yield setting


def _with_setting(method: Any, path: list[str]) -> dict[str, Any]:
    """A method by its type alone, with one setting more, of itself or of its language model."""
    settings: Config = {"type": method} if isinstance(method, str) else method
    if len(path) == 1:
        return {"type": settings["type"], path[0]: OPEN}
    provider: Config = settings.get("llm", ANY_LLM)
    llm = {"type": provider["type"], "model": OPEN, path[1]: OPEN}
    return {"type": settings["type"], "llm": llm}


def configured(name: str, known: Collection[str], method: object = None) -> str | Config | None:
    """What to write for a name that is no setting of a reranker, or no option of a call.

    Args:
        name: of the parameter.
        known: the names that can be written in its place.
        method: the configured one, which is preferred to others.

    Returns:
        Another setting of a reranker, or option of a call, as ``{name: "…"}``; a configuration;
        what to do, in words; None if the name is not known.
    """
    whole, sections = registry.reranker()
    for path in PATHS.get(synonym(name), ()):
        outer, _, setting = path.rpartition(".")
        if setting in known and not outer:
            return {setting: OPEN}
        if outer in sections:
            return {outer: {setting: OPEN}}
    if name in parameters_of(whole):
        return {name: OPEN}
    config = of_methods(name, method)
    if place_of(method, name) is not None:
        return config
    in_sections = ({key: {name: OPEN}} for key, cls in sections.items() if _has(cls, name))
    return INSTEAD.get(name) or next(in_sections, config)


def _has(cls: type, name: str) -> bool:
    return name in parameters_of(cls)


def also(name: str, config: str | Config) -> str:
    """``, or …`` if methods have a setting of this name, too, besides what a hint says."""
    other = None if isinstance(config, str) or "method" in config else of_methods(name)
    if other is None or place_of(other["method"], name) is None:
        return ""
    return f", or {name!r} of the method, {in_words(other['method'])}"


def hint(name: str, known: Collection[str], method: object = None) -> str:
    """``; …`` for a name that a reranker does not have, in Python and in a configuration.

    Args:
        name: of the setting.
        known: the settings of rerankers.
        method: the configured one.
    """
    method = elsewhere(method)
    what = configured(name, known, method)
    if what is None:
        return suggestion(name, sorted(known), leads_to_page=True)
    if isinstance(what, str):
        return f"; {what}"
    if (known_name := near(what, known)) is not None:
        return f"; did you mean {known_name!r}{also(name, what)}?"
    (key, value), *_ = what.items()
    return f"; it is a setting {_elsewhere(key, value, method)}{also(name, what)}"


def over_preset(problems: Iterable[Problem], preset: str, method: object) -> list[Problem]:
    """The problems of a configuration that extends a preset, with hints that keep the preset.

    Args:
        problems: of the configuration.
        preset: the name of the preset.
        method: that of the preset.
    """
    return [
        Problem(problem.path, UNKNOWN_KEY + instead)
        if len(problem.path) == 1
        and problem.message.startswith(UNKNOWN_KEY)
        and (instead := _of_preset(str(problem.path[0]), preset, method))
        else problem
        for problem in problems
    ]


def _of_preset(name: str, preset: str, method: object) -> str:
    """``; …`` for a name that the method of a preset has as a setting; empty if it has none."""
    what = configured(name, parameters_of(registry.reranker()[0]), method)
    kind = method.get("type") if isinstance(method, Mapping) else method
    if what is None or isinstance(what, str) or "method" not in what:
        return ""
    if kind == "cascade":
        use = f"Reranker.from_preset({preset!r}, method={{'stages': [{OPEN}]}})"
        return (
            f"; the stages of the preset have their own: to change one, write them all: use {use}"
        )
    if what["method"].get("type") != kind:
        return ""
    in_file = {key: value for key, value in what["method"].items() if key != "type"}
    owner, holder = "the method", in_file
    if "llm" in in_file:
        owner, rest = "'llm'", {k: v for k, v in in_file["llm"].items() if k != "type"}
        holder = {k: v for k, v in rest.items() if k != "model"} or rest
        in_file = {"llm": holder}
    in_python = dict(holder)
    if f"{name}_env" in in_python:  # a key can stand in Python, but not in a file
        in_python = {name: OPEN}
    python = in_words({"llm": in_python} if "llm" in in_file else in_python)
    use = f"use Reranker.from_preset({preset!r}, method={python})"
    beside = f"'method: {in_yaml(in_file)}' beside 'preset: {preset}'"
    return f"; it is a setting of {owner}: {use}, or {beside} in a configuration"


def near(what: Config, known: Collection[str]) -> str | None:
    """The one of the known names that a configuration stands for, at its top or in a section."""
    (key, value), *_ = what.items()
    if value != OPEN:
        (key, value), *_ = value.items()
    return key if value == OPEN and key in known else None


def _elsewhere(key: str, value: Any, method: object) -> str:
    """``of …: use …`` of a setting of a method, or of another section of a configuration."""
    if value == OPEN:
        owner, python = "of the reranker", f"{key}={OPEN}"
    elif key != "method":
        owner, python = f"of {key!r}", f"{key}={in_words(value)}"
    else:
        llm = value.get("llm", OPEN)  # a mapping with the setting, if that is one of the model
        value = complete(value)
        kind = method.get("type") if isinstance(method, Mapping) else method
        is_other = isinstance(kind, str) and kind != value["type"]
        owner = "of the method" if llm == OPEN else "of 'llm'"
        if is_other:
            owner = f"of the method {value['type']!r}, not of {kind!r}"
        python = f"Reranker({in_words(value)})"
    return f"{owner}: use {python}, or '{key}: {in_yaml(value)}' in a configuration"


def key_hint(
    name: str, cls: type, settings: Mapping[str, Any], beside: Collection[str] = ()
) -> str:
    """``; …`` for a setting that a configurable class does not have.

    Args:
        name: of the setting.
        cls: the class: a reranker, a method, a language model, a section such as ``limits``, …
        settings: all that it was given.
        beside: further settings that may stand beside those of the class, as in a cascade.
    """
    whole, sections = registry.reranker()
    known = [*parameters_of(cls), *beside]
    if name == "preset" or cls is whole:
        method = settings.get("method")
        return hint(name, known, method) if name != "preset" else _preset(settings, cls is whole)
    kind = registry.name_of("methods", cls)
    inside = next((key for key, value in sections.items() if value is cls), None)
    if inside is None and (kind or registry.name_of("llms", cls)):
        inside = "method"
    similar = did_you_mean(name, known)
    if inside is None or (similar and not synonym(name) and name not in INSTEAD):
        similar = similar or did_you_mean(_IN_SETTINGS.get(name, ""), known)
        return similar or suggestion(name, known)
    of_hub = _of_hub(name, known, settings)
    there = of_hub or _of_stage(name, settings) or _within(name, inside, known)
    if there := there or _beside(name, beside):
        return there
    what = configured(name, parameters_of(whole), kind and {"type": kind, **settings})
    if isinstance(what, str):
        return f"; {what}"
    if what is None:
        return suggestion(name, known, leads_to_page=True)
    (key, value), *_ = what.items()
    return f"; it is a setting {_elsewhere(key, value, kind)}"


def _of_stage(name: str, settings: Mapping[str, Any]) -> str:
    """``; …`` for a setting that a stage of a cascade has, and the cascade has not; else empty."""
    stages = settings.get("stages")
    if not isinstance(stages, list | tuple):
        return ""
    for number, stage in enumerate(stages, 1):
        if not isinstance(stage, Mapping) or place_of(stage, name) != f"method.{name}":
            continue
        all_stages = [*stages[: number - 1], {**stage, name: OPEN}, *stages[number:]]
        own = f"; it is a setting of stage {number}, {stage['type']!r}: write all stages, "
        return f"{own}method={in_words(with_hidden_keys({'stages': all_stages}))}"
    return ""


def _of_hub(name: str, known: Collection[str], settings: Mapping[str, Any]) -> str:
    """``; …`` for the key of an API beside a model of the hub, or the reverse; else empty."""
    if "api_key" in known and synonym(name) == "token":
        return "; did you mean 'api_key'?"
    if "token" not in known or synonym(name) not in {"api_key", "api_key_env"}:
        return ""
    return f"; the key of an API is never sent to the hub; {of_key(settings.get('model'))}"


def _preset(settings: Mapping[str, Any], in_reranker: bool) -> str:
    """``; …`` for the setting ``preset`` of a reranker or of a part of it."""
    if not in_reranker:
        return "; a preset can be named only at the top of a configuration"
    named = settings["preset"] if settings["preset"] in registry.preset_names() else OPEN
    return f"; use Reranker.from_preset({named!r})".replace(repr(OPEN), OPEN)


def _within(name: str, inside: str, known: Collection[str]) -> str:
    """``; …`` if the settings of the section ``inside`` have what a name stands for; else empty."""
    for outer, setting, value in _places(name):
        if outer == inside and setting in known:
            instead = {setting: value}
            if value == OPEN:
                return f"; did you mean {setting!r}{also(name, {outer: instead})}?"
            return f"; write {in_words(instead)[1:-1]}"
    return ""


def _beside(name: str, beside: Collection[str]) -> str:
    """``; …`` if a setting that stands beside those of a method is meant; else empty."""
    meant = synonym(name)
    names = (meant, "depth") if meant == "top_k" else (meant,)  # a stage passes on as many
    return next((f"; did you mean {each!r}?" for each in names if each in beside), "")


def _places(name: str) -> Iterator[tuple[str, str, Any]]:
    """Where the settings that a name may stand for are: section, setting and value."""
    for setting in _names_in_methods(name):
        yield "method", setting, OPEN
    for path in PATHS.get(synonym(name), ()):
        outer, _, setting = path.rpartition(".")
        yield outer, setting, OPEN
    instead = INSTEAD.get(name, "")
    if not isinstance(instead, str):
        for outer, settings in instead.items():
            yield from ((outer, key, value) for key, value in settings.items() if key != "type")
