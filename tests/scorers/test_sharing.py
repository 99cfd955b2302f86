import gc
import json
import os
import subprocess
import sys

import pytest

from secondpass.concurrency.sharing import shared
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from tiny_models import write_classifier, write_onnx

DOCUMENTS = ["the dog ran", "the cat sat on the mat", "cat food"]


def test_released_with_its_last_holder():
    key = ("released",)
    first = shared(key)
    first.get(list).append(1)
    del first
    gc.collect()
    assert shared(key).get(list) == []


def test_rerankers_share_an_engine(folder):
    one, other = (CrossEncoderScorer(folder) for _ in range(2))
    exact = CrossEncoderScorer(folder, precision="exact")
    scores = one.score_pairs("cat", DOCUMENTS)
    assert other.score_pairs("cat", DOCUMENTS) == scores
    exact.warm_up()
    engines = [scorer._shared.loaded for scorer in (one, other, exact)]
    assert engines[0] is engines[1] is not engines[2]
    one.close()
    assert other.score_pairs("cat", DOCUMENTS) == scores
    assert other._shared.loaded is engines[1]


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
import gc, json, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from secondpass import Reranker

reranker = Reranker(json.loads(sys.argv[1]))
documents = json.loads(sys.argv[2]) * 20
state, ending = sys.argv[3:]

def ranked(_=None):
    # Not the order: equal texts have equal scores only in the same batch.
    return [item.text for item in reranker.rerank("cat", documents)]

expected = ranked()
if state == "closed":
    reranker.close()
    gc.collect()
children = []
for _ in range(2):
    pid = os.fork()
    if not pid:
        signal.alarm(60)
        orders = [ranked()]
        with ThreadPoolExecutor(3) as pool:
            orders += pool.map(ranked, range(5))
        reranker.close()
        gc.collect()
        orders.append(ranked())
        code = 0 if orders == [expected] * 7 else 3
        if ending == "sys.exit":
            sys.exit(code)
        os._exit(code)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
assert ranked() == expected
sys.exit(max(codes))
"""
CROSS_ENCODER = {"type": "cross_encoder", "precision": "exact", "known_answers": False}
FORKED = {
    "openvino": {**CROSS_ENCODER, "backend": "openvino", "threads": 2},
    "onnx": {**CROSS_ENCODER, "backend": "onnx", "threads": 2},
    "torch": {**CROSS_ENCODER, "backend": "torch"},
    "embedded": {"type": "embedded", "threads": 1},
}
# Importing torch takes the process most of ten seconds; test_colbert.py forks with it too.
USUAL = {"openvino", "embedded"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("state", ["loaded", "closed"])
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in USUAL else pytest.mark.long) for one in FORKED]
)
def test_preforking_server(folder, name, state):
    """In a process of its own: one with the threads of other tests is not safe to fork.

    gunicorn ends a child by ``sys.exit``, multiprocessing by ``os._exit``. With onnxruntime only
    the second one does not wait for threads of the parent.
    """
    method = FORKED[name]
    if method["type"] == "cross_encoder":
        method = {**method, "model": folder}
    ending = "os._exit" if name == "onnx" else "sys.exit"
    arguments = [json.dumps(method), json.dumps(DOCUMENTS), state, ending]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PREFORKING, *arguments],
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
