"""Adapters of language models (LoRA), which the package peft merges into their base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secondpass.errors import ModelLoadError
from secondpass.scorers.hub.find import find_files
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.torch.checkpoints import VOCABULARIES

_PREFIX = "base_model.model."
"""Of the names of weights in an adapter's checkpoint."""
FILES = ("adapter_model.safetensors", "adapter_model.bin")
_HEADS = ("score.weight", "classifier.weight")
_SHOWN = 4
"""Weights that a message names."""


def tokenizer_source(source: HubModel, base: HubModel, offline: bool) -> HubModel:
    """The model whose tokenizer an adapter reads: itself, or its base if it has none."""
    find = find_files(source, offline=offline)
    return source if any(find(name) is not None for name in VOCABULARIES) else base


def of_base(hub: Mapping[str, Any], base: HubModel) -> dict[str, Any]:
    """The arguments of loaders for the hub, for the base."""
    own = {"revision": base.revision, "local_files_only": base.local_files_only}
    return {**hub, **own}


def load_merged(
    source: HubModel,
    base: HubModel,
    cls: Any,
    hub: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> tuple[Any, list[str]]:
    """The base with an adapter merged into it, W + (alpha / r) B A, and the weights it supplies.

    Args:
        source: the adapter.
        base: the model that it changes.
        cls: the base's class in transformers.
        hub: arguments of loaders for the hub, for the adapter.
        settings: further arguments of the base's loader.

    Raises:
        ModelLoadError: the adapter lacks a weight that its settings name, or has another one.
    """
    import peft

    find = find_files(source, offline=hub["local_files_only"])
    file = next(filter(None, map(find, FILES)), None)
    if file is None:
        raise ModelLoadError(f"the model {source.name!r} cannot be loaded: it has no {FILES[0]}")
    folder = str(file.parent)  # with its settings; of the hub, peft would ask once more
    stored = peft.load_peft_weights(folder, device="cpu")
    heads = [weight for key, weight in stored.items() if key.endswith(_HEADS)]
    labels = {"num_labels": heads[0].shape[0]} if heads and heads[0].ndim == 2 else {}
    model = cls.from_pretrained(base.name, **of_base(hub, base), **{**labels, **settings})
    adapted = peft.get_peft_model(model, peft.PeftConfig.from_pretrained(folder))
    expected = set(peft.get_peft_model_state_dict(adapted, save_embedding_layers=False))
    for problem, names in (
        ("has no", expected - stored.keys()),
        ("has weights that its settings do not name:", stored.keys() - expected),
    ):
        if names:
            listed = ", ".join(sorted(names)[:_SHOWN])
            raise ModelLoadError(
                f"the model {source.name!r} cannot be loaded: its adapter {problem} {listed}"
            )
    peft.set_peft_model_state_dict(adapted, stored)
    return adapted.merge_and_unload(), [key.removeprefix(_PREFIX) for key in stored]
