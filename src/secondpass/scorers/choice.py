"""Chooses what runs a cross-encoder: torch, OpenVINO or onnxruntime."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from secondpass.concurrency.lazy import is_installed, require
from secondpass.errors import ConfigurationError, MissingExtraError, ModelLoadError
from secondpass.scorers.batching.lists import ListEngine
from secondpass.scorers.batching.pairs import PairEngine
from secondpass.scorers.families.descriptions import FAMILIES
from secondpass.scorers.families.recognition import recognise, torch_only
from secondpass.scorers.hub.facts import ModelFacts, facts_of, read_facts
from secondpass.scorers.hub.find import find_files
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.runtimes.light import LightModel
from secondpass.scorers.runtimes.light_files import TorchOnlyError, model_files
from secondpass.scorers.runtimes.runtime import (
    MODULES,
    Backend,
    Precision,
    backends_by_speed,
    why_chosen,
)
from secondpass.scorers.torch.families import FamilyModel
from secondpass.scorers.torch.pairs import INSTRUCTION, TorchModel
from secondpass.scorers.torch.runner import EXTRA
from secondpass.scorers.torch.vectors import VectorModel
from secondpass.types import ScoreKind

Choice: TypeAlias = Literal["auto", "torch", "onnx", "openvino"]

_USER = "a local model"
_TORCH_ONLY = (
    "family",
    "prompt",
    "prompt_name",
    "trust_remote_code",
    "model_kwargs",
    "tokenizer_kwargs",
    "config_kwargs",
)


@dataclass(frozen=True)
class EngineSettings:
    """Everything that the scores and the speed of a loaded cross-encoder depend on.

    ``torch_only`` are the names of settings that are set and that only torch supports. The family
    and the further arguments of the constructors are compared by ``option_key``.
    """

    source: HubModel
    backend: Choice
    precision: Precision
    file: str | None
    device: str
    threads: int | None
    batch_size: int | None
    max_length: int | None
    prompt: str | None
    prompt_name: str | None
    remember: int
    torch_only: tuple[str, ...]
    option_key: str
    family: Any = field(compare=False, repr=False)
    options: Mapping[str, Any] = field(compare=False, repr=False)


class Loaded(NamedTuple):
    """What runs a loaded model, and the kind of its scores."""

    engine: PairEngine | ListEngine
    score_kind: ScoreKind


_MEANT_DEVICES = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps", "apple": "mps"}
"""Name of a device that torch does not have -> its name for it."""


def settings_for_torch(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a scorer's settings that only torch supports.

    Raises:
        ConfigurationError: another backend is set.
    """
    backend, device, file = settings["backend"], settings["device"], settings["file"]
    kind, colon, number = device.partition(":")
    if (meant := _MEANT_DEVICES.get(kind.lower(), kind.lower())) != kind:
        raise ConfigurationError(
            f"device: torch names no device {device!r}; did you mean {meant + colon + number!r}?"
        )
    names = tuple(name for name in _TORCH_ONLY if settings[name] not in (None, False, {}))
    if settings["precision"] not in {"auto", "exact"}:
        names += (f"precision {settings['precision']}",)
    if backend not in {"auto", "torch"}:
        if device not in {"auto", "cpu"}:
            names += ("device",)
        if names:
            hint = "; name the model's file in 'file'" if "model_kwargs" in names else ""
            raise ConfigurationError(
                f"{', '.join(names)}: the backend {backend!r} has no such setting, "
                f"only torch has{hint}"
            )
    elif file is not None and device not in {"auto", "cpu"}:
        names += ("device",)
    if backend == "onnx" and file is not None and file.endswith(".xml"):
        raise ConfigurationError(f"backend, file: 'onnx' cannot read {file!r}")
    if file is not None and (backend == "torch" or names):
        raise ConfigurationError(
            "file: cannot be set with torch, which reads the model's own weights"
        )
    return names


def check_installed(backend: Choice, torch_only: Sequence[str] = ()) -> None:
    """Check that the packages of the backend, or of any for ``auto``, are installed.

    ``torch_only`` are the names of settings that are set and that only torch supports.

    Raises:
        MissingExtraError: they are not.
    """
    if torch_only:
        setting = ", ".join(torch_only)
        installed = " or ".join(MODULES[backend] for backend in _installed())
        instead = f"; without that, {installed} may run it)" if installed else ")"
        needed_for = f"{_USER} with {setting} (only torch supports that{instead}"
        require(["sentence_transformers"], EXTRA, needed_for)
    elif backend == "torch":
        require(["sentence_transformers"], EXTRA, _USER)
    elif backend == "auto" and not _installed() and not is_installed("sentence_transformers"):
        require([MODULES["openvino"], "tokenizers"], "openvino", _USER)
    elif backend != "auto":
        require([MODULES[backend], "tokenizers"], backend, f"the {backend} backend")


def load(settings: EngineSettings) -> Loaded:
    """Load the model with the fastest backend that is correct for it.

    Raises:
        MissingExtraError: a package is not installed.
        ModelLoadError: the model cannot be loaded, whatever is wrong with its files.
    """
    source = settings.source
    offline = source.is_offline()
    try:
        with source.loading(offline):
            model, kind, reason = _load(settings, offline)
    except TorchOnlyError as error:  # where another backend is set, or a file for one
        raise ModelLoadError(
            f"{error}; torch runs it: leave out `backend` and `file`, and install {EXTRA}"
        ) from error
    if isinstance(model, FamilyModel) and model.reads_lists:
        return Loaded(ListEngine(model, reason), kind)
    # What encodes single texts has so many of them in a forward pass.
    at_most = model.batch_size if isinstance(model, VectorModel) else settings.batch_size
    return Loaded(PairEngine(model, reason, at_most), kind)


_Model: TypeAlias = LightModel | TorchModel | FamilyModel | VectorModel


def _load(settings: EngineSettings, offline: bool) -> tuple[_Model, ScoreKind, str]:
    """The model, the kind of its scores, and why it has this backend."""
    if settings.backend == "torch":
        return *_torch(settings, offline), "the backend is set"
    if settings.backend != "auto":
        model = _light(settings, (settings.backend,), offline)
        if model is None:
            name, of = settings.source.name, f"file for the backend {settings.backend!r}"
            if offline and not settings.source.is_local:
                raise ModelLoadError(
                    f"the model {name!r} has no {of} in the cache, and "
                    f"{settings.source.why_offline()}"
                )
            raise ModelLoadError(f"the model {name!r} has no {of}; `secondpass export` makes one")
        return model, "logit", "the backend is set"
    reason = _why_torch(settings)
    if reason is None:
        installed = _installed()
        try:
            model = _light(settings, installed, offline) if installed else None
        except TorchOnlyError as error:
            if settings.file is not None:
                raise
            # Reports name no path, and that of a local model is its name.
            reason = str(error).replace(f"the model {settings.source.name!r}", "the model")
            return *_torch(settings, offline, str(error)), reason
        if model is not None:
            return model, "logit", why_chosen(model.backend, model.precision)
        if settings.file is not None:
            require([MODULES["openvino"], "tokenizers"], "openvino", f"the file {settings.file!r}")
        if not installed:
            return *_torch(settings, offline), "neither openvino nor onnxruntime is installed"
        reason = "the model has no ONNX or OpenVINO file; `secondpass export` makes one"
    return *_torch(settings, offline, reason), reason


def _installed() -> list[Backend]:
    if not is_installed("tokenizers"):
        return []
    return [backend for backend in backends_by_speed() if is_installed(MODULES[backend])]


def _why_torch(settings: EngineSettings) -> str | None:
    """Why only torch can run this; None if another backend can."""
    if settings.family is not None:
        family = FAMILIES.resolve(settings.family)
        if family.needs_torch:
            return f"the model is one of {family.title}, which only torch runs"
    if settings.torch_only:
        return f"only torch supports {', '.join(settings.torch_only)}"
    if settings.device not in {"auto", "cpu"}:
        return f"only torch runs on {settings.device!r}"
    if settings.device == "auto" and settings.file is None and _has_accelerator():
        return "there is a GPU"
    return None


def _has_accelerator() -> bool:
    """Whether torch would use a GPU. Imports torch only if the system may have one."""
    signs = any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")))
    signs = signs or sys.platform in {"win32", "darwin"}
    if not signs or not is_installed("sentence_transformers"):
        return False
    import torch

    return bool(torch.cuda.is_available() or torch.backends.mps.is_available())


def _light(
    settings: EngineSettings, backends: Sequence[Backend], offline: bool
) -> LightModel | None:
    """The model on the first of these backends for which it has a file."""
    source, file = settings.source, settings.file
    if file is not None and file.endswith(".xml"):
        backends = [backend for backend in backends if backend == "openvino"]
    if not backends:
        return None
    find = cache(find_files(source, offline=offline))
    facts = facts_of(source.name, find)
    if facts is not None and (reason := _family_reason(settings, facts)) is not None:
        raise TorchOnlyError(reason)
    found = (
        (files, backend)
        for backend in backends
        if (files := model_files(source.name, find, backend, file)) is not None
    )
    files, backend = next(found, (None, None))
    if files is None or backend is None:
        return None
    return LightModel(
        files,
        backend,
        precision=settings.precision,
        threads=settings.threads,
        max_length=settings.max_length,
        remember=settings.remember,
    )


def _family_reason(settings: EngineSettings, facts: ModelFacts) -> str | None:
    """:func:`torch_only`, with a hint in its error where the setting ``family`` cannot be used."""
    try:
        return torch_only(settings.source.name, facts)
    except ModelLoadError as error:
        if settings.backend == "auto" and settings.file is None:
            raise
        raise ModelLoadError(
            f"{error}. Only torch has the setting `family`: leave out `backend` and `file` with it"
        ) from error


def _torch(
    settings: EngineSettings, offline: bool, reason: str | None = None
) -> tuple[_Model, ScoreKind]:
    """The model by its family, and the kind of its scores."""
    source, options = settings.source, settings.options
    if not is_installed("sentence_transformers"):
        error = MissingExtraError(EXTRA, _USER)
        if reason is None:
            raise error
        raise ModelLoadError(f"{reason}, and {EXTRA} is not installed: {error}") from error
    facts = read_facts(source, offline=offline)
    trusted = bool(options.get("trust_remote_code"))
    recognised = recognise(source.name, facts, settings.family, trusted=trusted)
    family = recognised.family
    assert family.run is not None
    kind = family.run.model
    if facts is not None and facts.base is not None:
        _check_adapter(source.name, facts.base.name, facts, kind)
    if kind in {"SentenceTransformer", "SparseEncoder", "MultiVectorEncoder"}:
        vectors = _vectors(settings, offline, facts, kind)
        return vectors, vectors.score_kind
    common: Any = {
        "device": settings.device,
        "precision": settings.precision,
        "prompt": settings.prompt,
        "prompt_name": settings.prompt_name,
        "options": options,
    }
    if kind == "CrossEncoder":
        return TorchModel(source, offline, facts, **common), family.scale.kind
    return FamilyModel(source, offline, facts, recognised, **common), family.scale.kind


def _check_adapter(name: str, base: str, facts: ModelFacts, kind: str) -> None:
    """Check that what an adapter needs is here."""
    is_a = f"the model {name!r} is an adapter of {base!r}"
    if not is_installed("peft"):
        raise ModelLoadError(
            f"{is_a}, which the package peft applies, and it is not installed: pip install peft"
        )
    if kind == "CrossEncoder" and facts.modules is None:
        raise ModelLoadError(
            f"{is_a}, and has no modules.json, without which sentence-transformers does not read "
            "it: save the two as one model (peft: `merge_and_unload`)"
        )


def _vectors(
    settings: EngineSettings, offline: bool, facts: ModelFacts | None, kind: str
) -> VectorModel:
    """A model that encodes each text by itself."""
    source, prompt = settings.source, settings.prompt
    if settings.prompt_name is not None or (prompt is not None and INSTRUCTION in prompt):
        raise ModelLoadError(
            f"the model {source.name!r} is a {kind}: prompt takes no {INSTRUCTION}, and prompt_name"
            " cannot be set"
        )
    options = {key: value for key, value in settings.options.items() if key != "max_length"}
    return VectorModel(
        source,
        offline,
        facts,
        kind,
        device=settings.device,
        precision="exact" if settings.precision == "auto" else settings.precision,
        max_length=settings.max_length,
        batch_size=settings.batch_size,
        options=options if prompt is None else {**options, "prompts": {"query": prompt}},
    )
