"""What the engines on torch share: a thread, the device and its budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from secondpass.concurrency.processor import has_fast_bfloat16
from secondpass.concurrency.workers import Worker
from secondpass.errors import MissingExtraError, ModelLoadError
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.runtimes.runtime import Precision
from secondpass.storage.digests import file_digest

T = TypeVar("T")

EXTRA = "sentence-transformers"
BUDGET, BUDGET_ON_GPU = 768, 16_384
"""Estimated padded tokens of a batch."""


class TorchRunner:
    """A model on torch, in a separate thread.

    Calls from many threads take turns. A forked child can use torch: a thread that has used it in
    the parent would wait forever for other threads of torch, which do not exist in the child.

    Precision ``auto`` is bfloat16 where the processor has it, else float32. ``options`` are further
    arguments of the constructors, ``settings`` everything else that scores depend on.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ModelLoadError: torch has no such device here.
    """

    threads = 1  # forward passes take turns; each has all of torch's threads
    backend = "torch"

    def __init__(
        self,
        source: HubModel,
        offline: bool,
        *,
        device: str,
        precision: Precision,
        options: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> None:
        try:
            import sentence_transformers  # noqa: F401 - whether they are installed
            import torch  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(EXTRA, "a model on torch") from error
        check_device(device)
        self._source, self._offline, self._options = source, offline, options
        self._settings = settings
        self._thread = Worker("secondpass-torch")
        if precision == "auto":
            precision = "bfloat16" if is_fast(device) else "exact"
        self.arguments = source.loader_arguments(
            options, device=device, precision=precision, offline=offline
        )

    def load(self, construct: Callable[[], T]) -> T:
        """Load the model in the thread; all errors are a ModelLoadError."""
        with self._source.loading(self._offline):
            return self._thread.run(construct)

    def loaded(self, model: Any, device: Any) -> None:
        """Set what depends on the loaded model."""
        if (card := getattr(model, "model_card_data", None)) is not None:
            card.model = None  # a cycle: a dropped model would wait for a garbage collection
        self._model, self._device = model, device
        self.precision = str(next(model.parameters()).dtype).removeprefix("torch.")
        self.budget = BUDGET if device.type == "cpu" else BUDGET_ON_GPU

    @property
    def device(self) -> str:
        """The device of the model, such as ``cpu`` or ``cuda``."""
        return str(self._device.type)

    def identity(self) -> dict[str, Any]:
        import sentence_transformers
        import torch

        # Subfolders have modules of the model, or files of other engines, which do not matter here.
        files = [
            path
            for path in self._source.entries()
            if path.is_file() and path.parent.name not in {"onnx", "openvino"}
        ]
        transformer = getattr(self._model, "transformers_model", None) or self._model
        config = getattr(transformer, "config", None)
        return {
            "model": self._source.name,
            "files": [file_digest(path) for path in files],
            "commit": getattr(config, "_commit_hash", None),
            "versions": [torch.__version__, sentence_transformers.__version__],
            "device": self.device,
            "precision": self.precision,
            **self._settings,
            "options": repr(self._options),
        }


_PAGE = "the section GPU of the page `Local models` (docs/models.md) says how to install it"


def check_device(device: str) -> None:
    """Check that torch has a device, such as ``cpu`` or ``cuda:1``.

    Raises:
        ModelLoadError: it has not.
    """
    import torch

    if device == "auto":
        return
    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise ModelLoadError(
            f"device: {device!r} is no device of torch; name auto, cpu, cuda or cuda:1: {_PAGE}"
        ) from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ModelLoadError(
            f"device: {device!r} needs a GPU and a torch with CUDA, and this torch "
            f"({torch.__version__}) finds none: {_PAGE}"
        )


def is_fast(device: str) -> bool:
    """Whether bfloat16 is fast on the device."""
    import torch

    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return has_fast_bfloat16()
    if device == "auto" or device.startswith("cuda"):
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    return False
