"""Decision models behind real servers: one that is a decision model, and one that is none."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from fake_provider import unused_port
from llama_server import missing_packages, serve, write_tiny_cross_encoder
from rankings import codes
from secondpass import Reranker

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing_packages("httpx")), reason="not installed: httpx"),
]

QUERY = "How do I get my money back?"
DOCUMENTS = [
    "Our office is closed on public holidays.",
    "You can get a refund of your money within 30 days: write to billing.",
    "Wombats are marsupials that dig.",
]
_SERVE = """
import sys
from importlib.metadata import distribution
sys.argv = ["sparrow-decider", "serve", "--port", sys.argv[1]]
(start,) = distribution("sparrow-decider").entry_points.select(group="console_scripts")
start.load()()
"""


@pytest.fixture(scope="module")
def sparrow() -> Iterator[str]:
    """The base URL of ``sparrow-decider serve``."""
    pytest.importorskip("sparrow_decider")
    port = unused_port()
    with subprocess.Popen([sys.executable, "-c", _SERVE, str(port)]) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(url, timeout=5).close()
                    break
                except urllib.error.HTTPError:
                    break
                except OSError:
                    assert process.poll() is None
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def method(url: str, **settings: str) -> dict[str, str]:
    return {"type": "decisions", "api": "systemone", "model": "any", "base_url": url, **settings}


@pytest.mark.parametrize("layout", ["each", "together"])
@pytest.mark.parametrize("question", ["graded", "yes_no"])
def test_a_decision_model(layout: str, question: str, sparrow: str) -> None:
    reranker = Reranker(method(sparrow, layout=layout, question=question, model="jev-latest"))
    ranking = reranker.rerank(QUERY, DOCUMENTS)
    reranker.close()
    assert (ranking.report.status, codes(ranking)) == ("ok", set())
    scores = [item.rerank_score for item in ranking]
    assert all(score is not None and 0 <= score <= 1 for score in scores)
    assert ranking.report.usage.calls == (3 if layout == "each" else 1)
    if (layout, question) == ("each", "graded"):  # in the others, this small model prefers others
        assert ranking[0].position == 1


@pytest.mark.skipif(
    bool(missing_packages("xllamacpp", "gguf")), reason="not installed: xllamacpp, gguf"
)
@pytest.mark.parametrize("layout", ["each", "together"])
def test_a_model_that_makes_no_decisions(
    layout: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = write_tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny.gguf")
    with serve(model, context=512, rerank=True) as url:
        reranker = Reranker(method(url.removesuffix("/v1"), layout=layout))
        ranking = reranker.rerank(QUERY, DOCUMENTS)
        reranker.close()
    assert ranking.order == (0, 1, 2)
    errors = [issue for issue in ranking.report.issues if issue.code != "asked_again"]
    assert [issue.code for issue in errors] == ["bad_request"]
    assert "decision model" in errors[0].message
