"""Runtimes of model files without torch: onnxruntime and OpenVINO.

Both have the same interface, and are safe for use from many threads. A runtime has ``threads``
streams of one thread each: several batches run concurrently, which scales better than several
threads in one batch. ``inputs`` are the names of the model's inputs, ``precision`` is that of
matrix products, ``float32`` or ``bfloat16``, and ``run`` returns the model's first output for
arrays of the shape (batch, tokens).
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from secondpass.concurrency.lazy import is_installed, require
from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.processor import InstructionSet, has_fast_bfloat16, instruction_set
from secondpass.errors import MissingExtraError, ModelLoadError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Backend: TypeAlias = Literal["onnx", "openvino"]
Precision: TypeAlias = Literal["auto", "exact", "float16", "bfloat16", "checkpoint"]

MODULES: Mapping[Backend, str] = {"onnx": "onnxruntime", "openvino": "openvino"}
"""The package of each backend; the extra has the name of the backend."""

_FASTER: Mapping[InstructionSet, Backend] = {
    "bfloat16": "openvino",  # onnxruntime has no bfloat16
    "AVX-512": "openvino",  # a tie
    "AVX2": "onnx",
    "other": "openvino",  # not measured
}
"""The faster runtime, as ``make bench-speed`` and ``benchmarks/embedded_speed.py`` measured it (see
docs/evidence.md). It is not measured at the start: the scores of a model depend on its runtime."""


def backends_by_speed() -> tuple[Backend, ...]:
    """The backends of which ``auto`` takes the first that is installed and has a file."""
    faster = _FASTER[instruction_set()]
    return (faster, *(backend for backend in MODULES if backend != faster))


def why_chosen(backend: Backend, precision: str) -> str:
    """Why ``auto`` took a backend that runs in this precision."""
    kind = instruction_set()
    faster = _FASTER[kind]
    package = MODULES[backend]
    [other] = [name for name in MODULES.values() if name != package]
    if not is_installed(other):
        better = (
            ", which is faster on this processor" if kind == "AVX2" and backend != faster else ""
        )
        return f"{package} is installed and {other} is not{better}"
    if backend != faster:
        return f"the model has a file for {package} only"
    if kind == "AVX2":
        return f"{package} is faster than {other} on this processor, which has no AVX-512"
    if precision == "bfloat16":
        return f"{package} is faster than {other} on this processor, by bfloat16"
    speed = "was not measured" if kind == "other" else "is the same"
    return f"{package} is installed; the speed of {other} on this processor {speed}"


def open_runtime(
    model: Path | bytes,
    backend: Backend,
    *,
    precision: Precision = "auto",
    threads: int = 1,
) -> Runtime:
    """Load a model file, or the content of an ``.onnx`` file.

    OpenVINO reads ``.onnx`` files, and ``.xml`` files with their ``.bin`` beside them. Precision
    ``auto`` is bfloat16 where the runtime supports it and the processor has it, else float32.

    Raises:
        MissingExtraError: the runtime is not installed.
        ModelLoadError: the file is no model that the runtime can load.
    """
    kind: type[Runtime] = _Onnx if backend == "onnx" else _OpenVino
    require([MODULES[backend], "numpy"], backend, f"the {backend} backend")
    try:
        runtime = kind(model, precision, threads)
    except MissingExtraError:
        raise
    except Exception as error:
        # The messages of runtimes name paths and span many lines; the cause has them.
        name = "the model" if isinstance(model, bytes) else repr(model.name)
        raise ModelLoadError(
            f"{MODULES[backend]} cannot load {name} ({type(error).__name__}); "
            "the file may be truncated, or of another version"
        ) from error
    _open.add(runtime)
    return runtime


_KEPT = 512
"""Tokens of the longest text after which onnxruntime keeps the memory for the next batch. Attention
takes some bytes for each pair of tokens and head: of a text of 8,192 tokens, gigabytes."""


class _Onnx:
    backend: Backend = "onnx"
    precision = "float32"

    def __init__(self, model: Path | bytes, _precision: Precision, threads: int) -> None:
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # All threads share the arena. Without it, each keeps what its batches have freed, in pieces
        # that malloc does not use again: 30 to 60 MB a thread instead of 10 to 20.
        options.enable_cpu_mem_arena = True
        options.enable_mem_pattern = False  # batches vary in shape
        # Expands int8 weights when loading. Otherwise their products quantize activations, too.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        self._session = onnxruntime.InferenceSession(
            model if isinstance(model, bytes) else str(model),
            options,
            providers=["CPUExecutionProvider"],
        )
        self._outputs = [self._session.get_outputs()[0].name]
        self._releasing = onnxruntime.RunOptions()
        self._releasing.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self.inputs = frozenset(item.name for item in self._session.get_inputs())
        self.version = str(onnxruntime.__version__)
        self.threads = threads

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        tokens = next(iter(inputs.values())).shape[1]
        options = self._releasing if tokens > _KEPT else None
        (output,) = self._session.run(self._outputs, dict(inputs), options)
        result: NDArray[np.float32] = output
        return result


def is_reduced(backend: Backend, precision: Precision) -> bool:
    """Whether a model is run in bfloat16."""
    return backend == "openvino" and precision == "auto" and has_fast_bfloat16()


class _OpenVino:
    backend: Backend = "openvino"

    def __init__(self, model: Path | bytes, precision: Precision, threads: int) -> None:
        openvino = import_openvino()
        reduced = is_reduced(self.backend, precision)
        weakref.finalize(self, _threads.left_idle).atexit = False  # also if it cannot be compiled
        settings: dict[str, Any] = {
            "NUM_STREAMS": 0 if _threads.lost else threads,
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "bf16" if reduced else "f32",
            "ENABLE_CPU_PINNING": False,  # the cores may be shared with other processes
            # No int8 activations: scores would depend on the batch, and rankings would change.
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        }
        core = openvino_core()
        source = model if isinstance(model, bytes) else str(model)
        self._model = core.compile_model(core.read_model(source), "CPU", settings)
        self.inputs = frozenset(item.get_any_name() for item in self._model.inputs)
        self.version = str(openvino.__version__)
        self.precision = "bfloat16" if reduced else "float32"
        self.threads = threads
        self._idle: list[Any] = []
        self._turn = threading.Lock()

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        with self._turn:
            request = self._idle.pop() if self._idle else None
        if request is None:
            request = self._model.create_infer_request()
        # The arrays are kept alive by the caller, so they need not be copied.
        request.infer(dict(inputs), share_inputs=True)
        result: NDArray[np.float32] = request.get_output_tensor(0).data.copy()
        with self._turn:
            if len(self._idle) < self.threads:
                self._idle.append(request)
        return result


Runtime: TypeAlias = _Onnx | _OpenVino


def import_onnxruntime() -> Any:
    """The package ``onnxruntime``, without its usage data.

    Version 1.31 gives the machine an id and queues an event when it is imported, before it can be
    told not to, unless a variable says so.
    """
    with _telemetry_lock:
        if "onnxruntime" not in sys.modules and _NO_TELEMETRY not in os.environ:
            os.environ[_NO_TELEMETRY] = "1"
            try:
                import onnxruntime
            finally:
                del os.environ[_NO_TELEMETRY]
    import onnxruntime

    with suppress(AttributeError):  # also if the caller had imported it
        onnxruntime.disable_telemetry_events()
    return onnxruntime


_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
_telemetry_lock = fork_lock()


def import_openvino() -> Any:
    """The package ``openvino``, without its usage data.

    On import it sends an event through ``openvino_telemetry``, from a new process. It works without
    that package.
    """
    if "openvino" not in sys.modules and "openvino_telemetry" not in sys.modules:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
        try:
            import openvino
        finally:
            del sys.modules["openvino_telemetry"]
    import openvino

    return openvino


_cores: dict[int, Any] = {}
"""OpenVINO's core of each process, by process id."""
_cores_lock = fork_lock()


def openvino_core() -> Any:
    """The one ``openvino.Core`` of this process, which lasts as long as the process.

    The CPU plugin of each core gives the thread that loads it an alternate signal stack, and
    restores the one before when it is destroyed. With several cores, destroyed in any order, a
    thread is left with a stack that was freed, and the next signal, such as Ctrl-C, ends the
    process. The cores of parent processes are kept as well: they have no threads here to end.
    """
    with _cores_lock:
        core = _cores.get(os.getpid())
        if core is None:
            openvino = import_openvino()
            _make_tables(openvino)
            core = _cores[os.getpid()] = openvino.Core()
            if _threads.lost:  # it would wait for their end when it is destroyed
                _keep(core)
        return core


def _make_tables(openvino: Any) -> None:
    """Let OpenVINO make its tables of types while no other thread needs them.

    Its binding to Python makes each on first use, as a static variable of C++, and releases the
    interpreter meanwhile. Another thread that then needs the same table waits for it and keeps the
    interpreter, for which the first one waits, for ever.
    """
    import numpy as np

    tensor = openvino.Tensor(np.zeros(1, dtype=np.int64), shared_memory=True)
    tensor.element_type.to_dtype()
    _ = tensor.data


_open: weakref.WeakSet[Runtime] = weakref.WeakSet()


class _StreamThreads:
    """Whether OpenVINO has threads here that do not exist.

    It keeps the threads of a closed model for the next one. In a child that was forked then, these
    are gone, and compiling a model would wait for them for ever. There models have no threads of
    OpenVINO: they run in those of their callers, one batch at a time.
    """

    def __init__(self) -> None:
        self.idle = self.lost = False

    def left_idle(self) -> None:
        self.idle = True

    def after_fork(self) -> None:
        self.lost = self.idle


_threads = _StreamThreads()


def _after_fork() -> None:
    """Never destroy what the parent has loaded: it would wait for threads of the parent."""
    _threads.after_fork()
    for one in (*_open, *_cores.values()):
        _keep(one)


def _keep(value: object) -> None:
    """Let an object live until the process has ended."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
