import gc
import os
import subprocess
import sys

import pytest

from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.engines.sharing import shared
from tiny_models import write_classifier, write_onnx

DOCUMENTS = ["the dog ran", "the cat sat on the mat", "cat food"]


def test_released_with_its_last_holder():
    key = ("released",)
    first = shared(key, list)
    first.get().append(1)
    del first
    gc.collect()
    assert shared(key, list).get() == []


def test_rerankers_share_an_engine(folder):
    one, other = (CrossEncoderScorer(folder) for _ in range(2))
    exact = CrossEncoderScorer(folder, precision="exact")
    scores = one.score_pairs("cat", DOCUMENTS)
    assert other.score_pairs("cat", DOCUMENTS) == scores
    exact.warm_up()
    engines = [scorer._shared.get() for scorer in (one, other, exact)]
    assert engines[0] is engines[1] is not engines[2]
    one.close()
    assert other.score_pairs("cat", DOCUMENTS) == scores
    assert other._shared.get() is engines[1]


def test_changed_files_are_another_model(folder, tmp_path):
    path = tmp_path / "model"
    write_onnx(write_classifier(path))
    before = CrossEncoderScorer(str(path), precision="exact")
    scores = before.score_pairs("cat", DOCUMENTS)
    write_onnx(write_classifier(path, seed=1))
    after = CrossEncoderScorer(str(path), precision="exact")
    assert after.score_pairs("cat", DOCUMENTS) != scores
    assert before.score_pairs("cat", DOCUMENTS) == scores


PREFORKING = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from secondpass import Reranker

reranker = Reranker({{"type": "cross_encoder", "model": {folder!r}, "backend": {backend!r},
                     "precision": "exact", "threads": None if {backend!r} == "torch" else 2}})
documents = {documents!r} * 20

def ranked(_=None):
    # Not the order: equal texts have equal scores only in the same batch.
    return [item.text for item in reranker.rerank("cat", documents)]

expected = ranked()
children = []
for _ in range(2):
    pid = os.fork()
    if not pid:
        orders = [ranked()]
        with ThreadPoolExecutor(3) as pool:
            orders += pool.map(ranked, range(5))
        # As multiprocessing ends a child. Otherwise onnxruntime waits there for its own threads.
        os._exit(0 if orders == [expected] * 6 else 3)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
assert ranked() == expected
sys.exit(max(codes))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
# Importing torch takes the process most of ten seconds; test_late_interaction.py forks with it too.
@pytest.mark.parametrize(
    "backend",
    ["openvino", *(pytest.param(one, marks=pytest.mark.long) for one in ("onnx", "torch"))],
)
def test_preforking_server(folder, backend):
    code = PREFORKING.format(folder=folder, backend=backend, documents=DOCUMENTS)
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=120, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
