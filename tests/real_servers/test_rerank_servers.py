"""A cross-encoder behind a real server: what llama.cpp's ``/v1/rerank`` says to whom asks it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

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


@pytest.mark.skipif(bool(missing_packages("httpx")), reason="not installed: httpx")
@pytest.mark.parametrize("api", ["llama_cpp", "jina"])
def test_a_ranking_has_the_order_of_the_server(url: str, api: str) -> None:
    documents = ["the cat sat on a mat", "a dog ran", "yes", "cat food"]
    body = json.dumps({"query": "cat food", "documents": documents}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/rerank", body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        told = json.load(response)
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
