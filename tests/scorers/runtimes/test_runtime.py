import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from secondpass import ModelLoadError
from secondpass.scorers.runtimes import runtime as runtimes
from secondpass.scorers.runtimes.runtime import open_runtime

BACKENDS = ["onnx", "openvino"]


@pytest.fixture(scope="module")
def path(folder):
    return Path(folder) / "onnx" / "model.onnx"


def inputs(rows, tokens):
    ids = np.arange(rows * tokens, dtype=np.int64).reshape(rows, tokens) % 12
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }


def test_the_backends_agree(path):
    onnx, openvino = (open_runtime(path, name, precision="exact") for name in BACKENDS)
    assert onnx.inputs == openvino.inputs == {"input_ids", "attention_mask", "token_type_ids"}
    for rows, tokens in ((1, 1), (3, 9), (8, 40), (2, 9)):
        batch = inputs(rows, tokens)
        assert onnx.run(batch) == pytest.approx(openvino.run(batch), abs=1e-4)


@pytest.mark.parametrize(
    ("fast", "precision", "expected"),
    [(True, "auto", "bfloat16"), (True, "exact", "float32"), (False, "auto", "float32")],
)
def test_bfloat16_only_where_it_is_fast(path, monkeypatch, fast, precision, expected):
    monkeypatch.setattr(runtimes, "has_fast_bfloat16", lambda: fast)
    assert open_runtime(path, "openvino", precision=precision).precision == expected
    assert open_runtime(path, "onnx", precision=precision).precision == "float32"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("content", [b"", b"no model", None])
def test_files_that_are_no_model(path, tmp_path, backend, content):
    broken = tmp_path / "model.onnx"
    broken.write_bytes(path.read_bytes()[:2000] if content is None else content)
    with pytest.raises(ModelLoadError, match=r"cannot load 'model\.onnx'.*truncated") as caught:
        open_runtime(broken, backend)
    assert str(tmp_path) not in str(caught.value)


def test_onnxruntime_collects_no_usage_data(path, tmp_path):
    """Version 1.31 writes an id of the machine, and an event with its description, on import."""
    code = """
import os, sys
from pathlib import Path
from secondpass.scorers.runtimes.runtime import open_runtime
before = dict(os.environ)
open_runtime(Path(sys.argv[1]), "onnx")
print(before == dict(os.environ))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "True\n"
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


@pytest.fixture(scope="module")
def fresh_process(path):
    """A process that imports OpenVINO, and in which models are closed before Ctrl-C."""
    code = """
import os, signal, sys, time
from pathlib import Path
from secondpass.scorers.runtimes.runtime import import_openvino, open_runtime
if import_openvino() is sys.modules["openvino"]:
    print("openvino_telemetry" in sys.modules, flush=True)
runtimes = [open_runtime(Path(sys.argv[1]), "openvino") for _ in range(4)]
for at in (0, 1, 0, 0):
    del runtimes[at]
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""
    return subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_openvino_sends_no_usage_data(fresh_process):
    assert fresh_process.stdout.startswith("False\n")


def test_ctrl_c_after_models_were_closed(fresh_process):
    """A plugin of OpenVINO that is destroyed must not leave a freed stack for signals."""
    assert (fresh_process.returncode, fresh_process.stdout) == (0, "False\ninterrupted\n")


MEMORY = """
import resource, sys
import numpy as np
from secondpass.concurrency.workers import in_threads
from secondpass.scorers.runtimes.onnx_graph import GraphTensor, GraphWriter
from secondpass.scorers.runtimes.runtime import open_runtime

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6

graph = GraphWriter([GraphTensor("states", "float32", ("batch", "tokens", 32))])
heads = graph.node("MatMul", "states", graph.node("Transpose", "states", perm=[0, 2, 1]))
mixed = graph.node("MatMul", graph.node("Softmax", heads, axis=-1), "states")
runtime = open_runtime(graph.model(mixed, ("batch", "tokens", 32)), "onnx", threads=8)
random = np.random.default_rng(0)

def run(shape):
    states = random.random((*shape, 32), dtype=np.float32)
    runtime.run({"states": states, "attention_mask": np.ones(shape, dtype=np.int64)})

run((1, 8))
before = resident()
shapes = eval(sys.argv[1])
for _ in in_threads(run, shapes, 8):
    pass
print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("shapes", "most"),
    [
        ("[(1, 6000)]", 60),  # of 144 MB for the product alone
        ("[(1, 600 + 200 * (n % 13)) for n in range(100)]", 250),  # without the arena, 540
    ],
    ids=["one long text", "eight threads"],
)
def test_onnxruntime_keeps_little_memory(shapes, most):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, shapes],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert float(done.stdout) < most


FIRST_AT_ONCE = """
import sys, threading
from pathlib import Path
import numpy as np
from secondpass.scorers.runtimes.runtime import open_runtime

runtime = open_runtime(Path(sys.argv[1]), "openvino", threads=2)
import openvino

inputs = dict.fromkeys(runtime.inputs, np.ones((1, 2), np.int64))
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(4)

def first():
    barrier.wait()
    openvino.Type.i64.to_dtype()  # with which an inference begins
    runtime.run(inputs)

threads = [threading.Thread(target=first) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("processes", [3, pytest.param(40, marks=pytest.mark.long)])
def test_several_threads_infer_for_the_first_time_at_once(path, processes):
    """A freeze ends only by SIGKILL. Before, between a third and four fifths of them froze."""
    for _ in range(processes):
        subprocess.run([sys.executable, "-c", FIRST_AT_ONCE, str(path)], timeout=60, check=True)
