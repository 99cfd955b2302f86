"""Checks Haystack's parameters, and converts them to settings of a configuration."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from haystack.utils import ComponentDevice, Secret
from haystack.utils.auth import SecretType

from secondpass import ConfigurationError, Problem
from secondpass.adapters import (
    NO_EQUIVALENT,
    OptionalVariables,
    Override,
    Parameters,
    kind_of,
)

READ_AT_EACH_RUN = frozenset(
    {"top_k", "depth", "score_threshold", "dedupe", "max_tokens", "meta_prefix"}
)
"""Parameters that can be assigned to a component."""
_GROUPING = "keep a MetaFieldGroupingRanker after this ranker"
_DIVERSE = "write {'order': {'type': 'diverse', …}}"
INSTEAD = {
    "prompt": "leave it out, unless you changed it; then put its rules, without query, documents "
    "and form of the reply, into 'instruction': write {'method': {'type': 'listwise', …, 'prompt': "
    "{'instruction': …}}}",
    "http_client_kwargs": "write {'method': {'type': 'endpoint', 'timeout': …}}",
    **dict.fromkeys(("lambda_threshold", "similarity", "strategy"), _DIVERSE),
    **dict.fromkeys(("group_by", "subgroup_by", "sort_docs_by"), _GROUPING),
    "word_count_threshold": "write {'order': 'lost_in_the_middle'}, and to limit tokens use "
    "max_tokens=",
    "calibration_factor": "leave it out if it is 1.0, the default, which has no effect; otherwise "
    "write {'probabilities': {'slope': …, 'intercept': 0}} and leave out scale_score=; then "
    "rerank_probability in meta is the probability, and score_threshold is compared with logits",
    **dict.fromkeys(("parallel", "retry_status_codes", "use_grpc"), NO_EQUIVALENT),
}
"""Parameter of Haystack's own rankers -> what to do instead."""


def overrides_of(parameters: Parameters, values: Mapping[str, Any]) -> dict[str, Override]:
    """The settings that a component's parameters override."""
    problems = parameters.type_problems(values)
    generator = values["chat_generator"]
    is_class = isinstance(generator, type)
    can_run = callable(getattr(generator, "run", None)) and not is_class
    if generator is not None and not can_run:
        kind = "a class" if is_class else kind_of(generator)
        message = f"give a chat generator, an object with a run method, not {kind}"
        problems.append(Problem(("chat_generator",), message))
    if problems:
        raise ConfigurationError(problems)
    keys, variables = {}, {}
    for name in ("api_key", "token"):
        keys[name], names = _key(name, values[name])
        if names is not None:
            variables[name] = names
    return parameters.overrides(
        {
            **values,
            "scale_score": _ACTIVATIONS.get(values["scale_score"]),
            "meta_fields_to_embed": _fields(values["meta_fields_to_embed"]),
            "device": _device(values["device"]),
            **keys,
        },
        variables,
    )


_ACTIVATIONS = {True: "sigmoid", False: "none"}


def plain_types(value: Any) -> Any:
    """Arguments with types of torch as names, which loaders accept and YAML can represent."""
    if isinstance(value, Mapping):
        return {key: plain_types(item) for key, item in value.items()}
    if type(value).__module__ == "torch" or (isinstance(value, str) and _TORCH.fullmatch(value)):
        return str(value).removeprefix("torch.")
    return value


_TORCH = re.compile(r"torch\.\w+")
"""A type of torch as Haystack's rankers save it."""


def _fields(names: Sequence[str] | None) -> list[str] | None:
    """The fields of a text, the content last; None: as configured."""
    if not names:
        return None
    message = "give a list of metadata keys" if isinstance(names, str) else ""
    if reserved := {"text", "id", "score"}.intersection(names):
        # The core would show the document's own text, id or score under these names.
        name = min(reserved)
        message = f"{name!r} is the document's own; write 'metadata.{name}' for the metadata key"
    if message:
        raise ConfigurationError([Problem(("meta_fields_to_embed",), message)])
    return [*names, "text"]


def _device(device: ComponentDevice | None) -> str | None:
    if device is None:
        return None
    message = ""
    if not isinstance(device, ComponentDevice):
        message = f"give a ComponentDevice, not {kind_of(device)}"
        if isinstance(device, str):
            message += ": ComponentDevice.from_str(...)"
    elif device.has_multiple_devices:
        message = "give a single device; pass a map of devices in model_kwargs as 'device_map'"
    if message:
        raise ConfigurationError([Problem(("device",), message)])
    return device.to_torch_str()


def _key(name: str, token: Secret | None) -> tuple[str | None, list[str] | None]:
    """The text of a key or a token, or the names of its variables; None for the other.

    Variables are read when a model is loaded or called, so they need not be set here.
    """
    if token is None:
        return None, None
    if not isinstance(token, Secret):
        message = "give a Secret, such as Secret.from_env_var('NAME')"
        raise ConfigurationError([Problem((name,), message)])
    if token.type is not SecretType.ENV_VAR:
        return str(token.resolve_value()), None
    saved = token.to_dict()
    names: list[str] = saved["env_vars"]
    return None, names if saved["strict"] else OptionalVariables(names)
