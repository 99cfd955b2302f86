"""Models that are traced for ONNX once a process, for tests of what is done with the file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

_files: dict[bytes, bytes] = {}


def remember(patch: pytest.MonkeyPatch) -> None:
    """Let `torch.onnx.export` write again what it wrote for the same model, inputs and settings."""
    import torch

    export = torch.onnx.export

    def export_once(model: Any, inputs: tuple[Any, ...], path: str, **settings: Any) -> None:
        key = _key(model, inputs, settings)
        if key not in _files:
            export(model, inputs, path, **settings)
            _files[key] = Path(path).read_bytes()
        Path(path).write_bytes(_files[key])

    patch.setattr(torch.onnx, "export", export_once)


def _key(model: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> bytes:
    config = getattr(model, "classifier", model).config
    values = {**config.to_dict(), "_name_or_path": "", "": config._attn_implementation}
    found = hashlib.sha256(repr([values, settings, [one.tolist() for one in inputs]]).encode())
    for name, tensor in model.state_dict().items():
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.digest()
