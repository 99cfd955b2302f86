"""``secondpass rerank --batch 1`` as a process that stays open, from Python and from Node."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import memory_recall.recall
import pytest
from coprocess import Coprocess

from secondpass import Reranker

CANDIDATES = [
    {"id": "a", "text": "dogs and cars", "score": 0.9},
    {"id": "b", "content": "cats and dogs", "score": 0.8},
    {"id": "c", "text": "cats, cats, “cats”\n", "score": 0.7},
]
CLIENT = Path(memory_recall.recall.__file__).parent / "client.mjs"


@pytest.fixture(scope="module")
def coprocess():
    with Coprocess("--preset", "lexical") as coprocess:
        yield coprocess


def test_the_same_as_in_this_process(coprocess):
    with_reranker = Reranker.from_preset("lexical")
    for query in ("cats", "dogs", "cars", "żółw"):
        ranking = with_reranker.rerank(query, CANDIDATES)
        answer = coprocess.rerank(query, CANDIDATES)
        assert answer["query"] == query
        assert [item["id"] for item in answer["ranking"]] == [item.id for item in ranking]
        assert [item["rerank_score"] for item in answer["ranking"]] == [
            item.rerank_score for item in ranking
        ]
        assert answer["report"]["status"] == ranking.report.status


def test_threads_get_their_own_answers(coprocess):
    answers = {}

    def ask(query):
        answers[query] = coprocess.rerank(query, CANDIDATES)["query"]

    threads = [threading.Thread(target=ask, args=(f"cats {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == {f"cats {n}": f"cats {n}" for n in range(8)}


def test_a_malformed_request_ends_the_process(capfd):
    coprocess = Coprocess("--preset", "lexical")
    with pytest.raises(RuntimeError, match="has ended"):
        coprocess.rerank("cats", [{"id": "a"}])
    with pytest.raises(RuntimeError, match="has ended"):
        coprocess.rerank("cats", CANDIDATES)
    assert coprocess.close() == 1
    assert "candidate 1" in capfd.readouterr().err


# ---------------------------------------------------------------------- Node

SCRIPT = """
import { Reranker } from "%s";
const reranker = new Reranker(...%s);
const candidates = %s;
const queries = ["cats", "dogs", "cars"];
const answers = await Promise.all(queries.map((query) => reranker.rerank(query, candidates)));
console.log(JSON.stringify(answers.map(({ ranking }) => ranking.map(({ id }) => id))));
const [{ text }] = (await reranker.rerank("a", [{ text: "a\\u2028b\\u2029c\\u0085d" }])).ranking;
console.log(text.length);
const failed = await reranker.rerank("cats", [{}]).catch((error) => error.message);
console.log(failed);
reranker.close();
process.env.PATH = %s;
const without = new Reranker();
console.log(await without.rerank("cats", []).catch((error) => error.message));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_from_node(tmp_path):
    script = SCRIPT % (
        CLIENT.as_uri(),
        json.dumps(["--preset", "lexical"]),
        json.dumps(CANDIDATES),
        json.dumps(str(tmp_path)),  # without the command
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    orders, length, failed, without_the_command = done.stdout.splitlines()
    assert length == "7"
    assert json.loads(orders)[0][0] == "c"
    assert [sorted(order) for order in json.loads(orders)] == [["a", "b", "c"]] * 3
    assert failed == "secondpass rerank has ended; its standard error says why"
    assert without_the_command == "spawn secondpass ENOENT"
