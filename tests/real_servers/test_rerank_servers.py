"""A cross-encoder behind a real server: what llama.cpp's ``/v1/rerank`` says to whom asks it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from llama_server import missing_packages, serve, write_tiny_cross_encoder
from secondpass import Reranker

MISSING = missing_packages("xllamacpp", "gguf")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = write_tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny.gguf")
    with serve(model, context=512, rerank=True) as address:
        yield address


def post(url: str, **body: Any) -> tuple[int, dict[str, Any]]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/rerank", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.skipif(bool(missing_packages("httpx")), reason="not installed: httpx")
@pytest.mark.parametrize("api", ["llama_cpp", "jina"])
def test_a_ranking_has_the_order_of_the_server(url: str, api: str) -> None:
    documents = ["the cat sat on a mat", "a dog ran", "yes", "cat food"]
    _, told = post(url, query="cat food", documents=documents)
    method = {
        "type": "endpoint",
        "api": api,
        "model": "any",
        "base_url": url.removesuffix("/v1"),
        "batch_size": 3,
    }
    made = Reranker.from_config({"method": method})
    ranking = made.rerank("cat food", documents)
    made.close()
    assert ranking.report.status == "ok"
    assert ranking.order == tuple(result["index"] for result in told["results"])
    assert ranking.report.usage.calls == 2
    assert type(ranking.report.usage.input_tokens) is int


def test_a_score_does_not_depend_on_what_else_is_scored(url: str) -> None:
    _, alone = post(url, query="cat", documents=["a dog ran"])
    _, among = post(url, query="cat", documents=["the cat", "a dog ran", "yes"])
    (score,) = [one["relevance_score"] for one in among["results"] if one["index"] == 1]
    assert score == pytest.approx(alone["results"][0]["relevance_score"], abs=1e-5)


def test_what_it_refuses(url: str) -> None:
    assert post(url, query="cat", documents=[])[0] == 400
    assert post(url, documents=["cat"])[0] == 400
    status, told = post(url, query="cat", documents=["cat " * 600])
    assert status == 500  # not 400 or 413, as other servers say
    assert "too large to process" in told["error"]["message"]
