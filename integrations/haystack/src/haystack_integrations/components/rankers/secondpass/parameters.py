"""The flat parameters of the ranker: checked, and as settings of a configuration."""

import math
import numbers
import operator
import os
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from haystack.utils import ComponentDevice, Secret
from haystack.utils.auth import SecretType

from secondpass import ConfigurationError, InputError
from secondpass.config.overrides import Override, given
from secondpass.errors import Problem
from secondpass.settings import OptionalVariables, describe

_TEXTS = (
    "embedding_separator",
    "query_prefix",
    "query_suffix",
    "document_prefix",
    "document_suffix",
    "meta_prefix",
)
_BOOLEANS = ("dedupe", "raise_on_failure", "scale_score")
_MAY_BE_NONE = ("dedupe", "scale_score")

ASSIGNABLE = {
    "top_k": "top_k",
    "depth": "depth",
    "score_threshold": "floor",
    "dedupe": "dedupe",
    "meta_prefix": None,
}
"""Parameters that are given with each call, so that they can be assigned, and their settings."""
FIXED = frozenset(
    {
        "reranker",
        "model",
        "scale_score",
        "meta_fields_to_embed",
        "embedding_separator",
        "query_prefix",
        "query_suffix",
        "document_prefix",
        "document_suffix",
        "device",
        "token",
        "batch_size",
        "model_kwargs",
        "raise_on_failure",
        "chat_generator",
    }
)
"""The others: to assign them would change what is saved and nothing else."""


def checked(parameters: Mapping[str, Any]) -> None:
    """Refuse texts and choices of another type, which would be taken for something else.

    :raises secondpass.ConfigurationError:
        If one is.
    """
    kinds = {**dict.fromkeys(_TEXTS, str), **dict.fromkeys(_BOOLEANS, bool)}
    problems = [
        Problem((name,), f"must be a {kind.__name__}, not {type(parameters[name]).__name__}")
        for name, kind in kinds.items()
        if name in parameters
        and not isinstance(parameters[name], kind)
        and not (name in _MAY_BE_NONE and parameters[name] is None)
    ]
    generator = parameters.get("chat_generator")
    if generator is not None and (
        isinstance(generator, type) or not callable(getattr(generator, "run", None))
    ):
        told = f"give a chat generator, an object with a run method, not a {_kind(generator)}"
        problems.append(Problem(("chat_generator",), told))
    if problems:
        raise ConfigurationError(problems, "SecondPassRanker")


def assigned(name: str, value: Any, flat: Mapping[str, Override]) -> Any:
    """The value of an `ASSIGNABLE` parameter that is assigned to a component, checked.

    :param name:
        The parameter.
    :param value:
        Its new value.
    :param flat:
        The parameters that the component was made with.
    :raises ValueError:
        If it is of the wrong kind, or `None` where that could not take effect.
    """
    checked({name: value})
    if value is None and name in flat:
        told = "can't be set to None, for the component was made with a value; make a new one"
        raise ConfigurationError([Problem((name,), told)], "SecondPassRanker")
    if name in {"top_k", "depth"}:
        return checked_top_k(value, name)
    if name == "score_threshold" and value is not None:
        value = plain_number(value)
        if type(value) is not float or not math.isfinite(value):
            told = f"must be a finite number, not {value!r}"
            raise ConfigurationError([Problem((name,), told)], "SecondPassRanker")
    return value


def as_settings(parameters: Mapping[str, Any]) -> dict[str, Override]:
    """What was given, and where in a configuration it stands.

    :param parameters:
        The parameters of the component by name. Those at their defaults leave it to the
        configuration.
    :raises secondpass.ConfigurationError:
        If one is of the wrong kind.
    """

    def value(name: str) -> Any:
        return parameters[name] or None  # an empty text or list, or False, changes nothing

    separator = parameters["embedding_separator"]
    scale_score = parameters["scale_score"]
    if scale_score is not None:
        scale_score = "sigmoid" if scale_score else "none"
    try:
        token, kind = _token(parameters["token"])
        return given(
            {
                "model": Override.at(
                    _path(parameters["model"]), "method.model", "method.llm.model"
                ),
                "top_k": Override.at(parameters["top_k"], "top_k"),
                "depth": Override.at(parameters["depth"], "depth"),
                "dedupe": Override.at(parameters["dedupe"], "dedupe"),
                "score_threshold": Override.at(
                    plain_number(parameters["score_threshold"]), "floor"
                ),
                "scale_score": Override.at(scale_score, "method.activation"),
                "meta_fields_to_embed": Override.at(
                    _fields(parameters["meta_fields_to_embed"]), "render.fields"
                ),
                "embedding_separator": Override.at(
                    None if separator == "\n" else separator, "render.separator"
                ),
                "query_prefix": Override.at(value("query_prefix"), "render.query_prefix"),
                "query_suffix": Override.at(value("query_suffix"), "render.query_suffix"),
                "document_prefix": Override.at(value("document_prefix"), "render.prefix"),
                "document_suffix": Override.at(value("document_suffix"), "render.suffix"),
                "device": Override.at(_device(parameters["device"]), "method.device"),
                "token": Override.at(token, *kind),
                "batch_size": Override.at(
                    parameters["batch_size"], "method.batch_size", "method.window"
                ),
                "model_kwargs": Override.at(
                    plain_types(parameters["model_kwargs"]), "method.model_kwargs"
                ),
                "raise_on_failure": Override.at(value("raise_on_failure"), "strict"),
            }
        )
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, "SecondPassRanker") from None


def checked_top_k(value: int | None, name: str = "top_k") -> int | None:
    """A plain int, which can be saved.

    :raises ValueError:
        For anything that is no number of documents.
    """
    if value is None:
        return None
    # A numpy array has an __index__, which raises unless it holds a single number.
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise ValueError(f"{name} must be a whole number, but got a {_kind(value)}")
    if number <= 0:
        raise ValueError(f"{name} must be > 0, but got {_digits(number)}")
    return number


def _digits(number: int) -> str:
    """An integer in decimal; Python refuses to write huge ones."""
    return str(number) if number.bit_length() < 1000 else "a huge negative number"


def plain_number(value: Any) -> Any:
    """A float of Python's for one of another library, which can't be saved."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return float(value) if number else value


def checked_threshold(value: Any) -> float | None:
    """The `score_threshold` of a call.

    :raises ValueError:
        If it is no finite number.
    """
    number = plain_number(value)
    if number is not None and (type(number) is not float or not math.isfinite(number)):
        raise InputError(f"score_threshold: give a finite number, not {describe(value)}")
    return number


def plain_types(value: Any) -> Any:
    """The arguments with torch's types by name, which loaders take as well and YAML can hold."""
    if isinstance(value, Mapping):
        return {key: plain_types(item) for key, item in value.items()}
    if type(value).__module__ == "torch" or (isinstance(value, str) and _TORCH.fullmatch(value)):
        return str(value).removeprefix("torch.")
    return value


def _kind(value: object) -> str:
    return "class" if isinstance(value, type) else type(value).__name__


_TORCH = re.compile(r"torch\.\w+")
"""A type as Haystack's own rankers save it."""


def saved_path(reranker: str | PathLike[str]) -> str:
    """A preset's name or a path, as a string that is read as the same again."""
    name = fspath(reranker)
    if isinstance(reranker, str) or Path(name).name != name:
        return name
    return os.path.join(os.curdir, name)  # a bare name would be taken for a preset's


def _path(model: str | Path | None) -> str | None:
    return fspath(model) if isinstance(model, PathLike) else model


def _fields(names: Sequence[str] | None) -> list[str] | None:
    """The fields to show, the content last; None where the configuration shall decide."""
    if not names:
        return None
    wrong = "give a list of metadata keys" if isinstance(names, str) else ""
    if own := {"text", "id", "score"}.intersection(names):
        # The core would show the document's own text, id or score under these names.
        name = min(own)
        wrong = f"{name!r} is the document's own; write 'metadata.{name}' for the metadata key"
    if wrong:
        raise ConfigurationError([Problem(("meta_fields_to_embed",), wrong)])
    return [*names, "text"]


def _device(device: ComponentDevice | None) -> str | None:
    if device is None:
        return None
    told = ""
    if not isinstance(device, ComponentDevice):
        told = f"give a ComponentDevice, not a {type(device).__name__}"
        if isinstance(device, str):
            told += ": ComponentDevice.from_str(...)"
    elif device.has_multiple_devices:
        told = "give a single one; a map of devices goes into model_kwargs as 'device_map'"
    if told:
        raise ConfigurationError([Problem(("device",), told)])
    return device.to_torch_str()


def _token(token: Secret | None) -> tuple[Any, tuple[str, ...]]:
    """The names of a token's variables, or the token itself; and where that stands.

    Variables are read when a model is loaded or asked, so that none is needed here.
    """
    if token is None:
        return None, ()
    if not isinstance(token, Secret):
        told = "give a Secret, such as Secret.from_env_var('NAME')"
        raise ConfigurationError([Problem(("token",), told)])
    if token.type is SecretType.ENV_VAR:
        described = token.to_dict()
        names: list[str] = described["env_vars"]
        if not described["strict"]:
            names = OptionalVariables(names)
        return names, ("method.token_env", "method.api_key_env", "method.llm.api_key_env")
    return token.resolve_value(), ("method.token", "method.api_key", "method.llm.api_key")
