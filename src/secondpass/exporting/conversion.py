"""Converts cross-encoders to ONNX and OpenVINO."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from secondpass.errors import SecondPassError
from secondpass.exporting.agreement import ScoreAgreement
from secondpass.scorers.hub.model import first_line
from secondpass.scorers.runtimes.runtime import Backend, import_openvino, openvino_core

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_OPSET = 17
"""Has layer normalization as one operation. onnxruntime 1.17 and OpenVINO 2024 read it."""


class ExportError(SecondPassError, RuntimeError):
    """A model cannot be exported, or its file ranks differently from the original.

    Attributes:
        agreements: as in :class:`Exported`; empty if none was measured.
    """

    def __init__(
        self, message: str, agreements: Mapping[str, ScoreAgreement] | None = None
    ) -> None:
        super().__init__(message)
        self.agreements: Mapping[str, ScoreAgreement] = dict(agreements or {})


def convert(
    encoder: CrossEncoder,
    path: Path,
    backend: Backend,
    *,
    sample: Sequence[tuple[str, str]],
    scratch: Path,
) -> None:
    """Write the ONNX file of a model, or for OpenVINO its ``.xml`` and ``.bin``.

    The encoder is in float32. It is traced with the sample: two (query, passage) pairs of different
    lengths. ``scratch`` is an existing folder.

    Raises:
        ExportError: the model cannot be converted.
        OSError: a file cannot be written.
    """
    import onnx

    path.parent.mkdir(parents=True)
    with TemporaryDirectory(dir=scratch) as folder:
        traced = Path(folder) / "model.onnx"
        try:
            _trace(encoder, traced, sample)
            model = onnx.load(str(traced))
        except Exception as error:
            raise ExportError(
                f"the model cannot be converted to ONNX: {first_line(error)}"
            ) from error
        if backend == "onnx":
            save(model, path)
            return
        openvino = import_openvino()

        converted = Path(folder) / "converted.onnx"
        save(model, converted)
        # Not `openvino.convert_model`, which reports each use over the network.
        openvino.save_model(
            openvino_core().read_model(str(converted)), str(path), compress_to_fp16=False
        )


def _trace(encoder: CrossEncoder, path: Path, sample: Sequence[tuple[str, str]]) -> None:
    """Write the ONNX file of a model, with any number of pairs and of tokens."""
    import torch

    classifier: Any = encoder.model
    features = encoder.preprocess([*sample])
    names = [name for name in _INPUTS if name in features]

    class Logits(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.classifier = classifier

        def forward(self, *inputs: Any) -> Any:
            return self.classifier(**dict(zip(names, inputs, strict=True))).logits

    with torch.inference_mode():
        torch.onnx.export(
            Logits().eval(),
            tuple(features[name] for name in names),
            str(path),
            dynamo=False,  # runtimes recognise attention in the graphs of this exporter only
            opset_version=_OPSET,
            input_names=names,
            output_names=["logits"],
            dynamic_axes={
                **{name: {0: "batch", 1: "tokens"} for name in names},
                "logits": {0: "batch"},
            },
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress progress bars and warnings of loaders and exporters."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def save(model: Any, path: Path, largest: int = 1_900_000_000) -> None:
    """Write an ``onnx.ModelProto``; weights beyond what one file can hold go to ``NAME_data``."""
    import onnx

    apart = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > largest
    onnx.save_model(
        model,
        str(path),
        save_as_external_data=apart,
        location=f"{path.name}_data" if apart else None,
    )
