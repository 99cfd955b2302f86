"""Settings, presets, and the frameworks."""

from __future__ import annotations

import importlib
import pickle

import pytest

from rerank_dialects import DIALECTS, NUMBERS
from secondpass import ConfigurationError, MissingExtraError, Reranker

HERE = {"base_url": "http://localhost"}
WRONG = [
    ({"api": "azure", "model": "m"}, "base_url: is required for 'azure', such as http"),
    ({"api": "tei"}, "base_url: is required for 'tei', which is self-hosted"),
    ({"api": "voyage", **HERE}, "model: is required for 'voyage'"),
    ({"api": "tei", **HERE, "path": "/$model"}, "model: is required"),
    ({"api": "tei", **HERE, "path": "/a b"}, "path: must not contain spaces or '#'"),
    ({"api": "tei", **HERE, "path": "/$query"}, "path: '.query' is no placeholder"),
    ({"api": "vllm", **HERE, "raw_scores": True}, "raw_scores: is not supported by 'vllm'"),
    ({"api": "tei", **HERE, "spans": True}, "spans: is not supported by 'tei'"),
    ({"api": "tei", **HERE, "options": {"texts": []}}, "options: 'texts' cannot be set in options"),
    ({"api": "tei", **HERE, "options": {"query": ""}}, "options: 'query' cannot be set in options"),
    ({"api": "tei", **HERE, "options": {"model": ""}}, "options: 'model' cannot be set in options"),
    (
        {"api": "tei", **HERE, "options": {"n": "$cuont"}},
        "options.n: '.cuont' is no placeholder; d",
    ),
    ({"api": "tei", **HERE, "options": {"n": ["$index"]}}, r"options.n\[0\]: '.index' is no place"),
    ({"api": "Cohere", "model": "m"}, "api"),
    ({"model": "m"}, "api"),
    ({"api": "cohere", "model": "m", "top_n": 5}, "top_n"),
]


@pytest.mark.parametrize(("settings", "named"), WRONG)
def test_wrong_settings(settings, named):
    with pytest.raises(ConfigurationError, match=named) as caught:
        Reranker.from_config({"method": {"type": "endpoint", **settings}})
    assert "method" in str(caught.value)


FULL = {
    "type": "endpoint",
    "api": "infinity",
    "model": "BAAI/bge-reranker-v2-m3",
    "base_url": "http://localhost:7997",
    "path": "/v2/rerank",
    "api_key_env": "INFINITY_KEY",
    "batch_size": 64,
    "raw_scores": True,
    "scores": "unbounded",
    "timeout": 5.0,
    "prices": {"input": 0.02, "output": 0.0},
    "options": {"truncate": True},
}


@pytest.mark.parametrize(
    "method",
    [
        FULL,
        {"type": "endpoint", "api": "tei", "base_url": "http://localhost:8080"},
        {"type": "endpoint", "api": "cohere", "model": "rerank-v3.5"},
    ],
)
def test_round_trip(method):
    config = {"method": method, "depth": 50}
    reranker = Reranker.from_config(config)
    assert reranker.to_config() == config
    assert Reranker.from_config(reranker.to_config()).to_config() == config
    assert pickle.loads(pickle.dumps(reranker)).to_config() == config


def test_a_missing_package_is_named(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "httpx" else find(name)
    )
    config = {"type": "endpoint", "api": "tei", "base_url": "http://localhost"}
    with pytest.raises(MissingExtraError, match=r"\.\[remote\]"):
        Reranker.from_config({"method": config})


PRESETS = {
    # the preset: its API, its model, the kind of its scores, the variable of its address
    "cohere": ("rerank-v3.5", "probability", None),
    "jina": ("jina-reranker-v2-base-multilingual", "probability", None),
    "voyage": ("rerank-2.5-lite", "probability", None),
    "mixedbread": ("mixedbread-ai/mxbai-rerank-large-v2", "unbounded", None),
    "tei": (None, "logit", "TEI_URL"),
    "vllm": ("default", "probability", "VLLM_URL"),
    "infinity": ("default", "logit", "INFINITY_URL"),
    "llama_cpp": (None, "logit", "LLAMA_CPP_URL"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name, provider, monkeypatch):
    model, kind, variable = PRESETS[name]
    url = f"http://127.0.0.1:{provider.port}/{name}"
    monkeypatch.delenv("RERANK_MODEL", raising=False)
    if variable is None:
        reranker = Reranker.from_preset(name, method={"base_url": url})
    else:
        monkeypatch.delenv(variable, raising=False)
        assert Reranker.from_preset(name).method.base_url.startswith("http://localhost:")
        monkeypatch.setenv(variable, url)
        reranker = Reranker.from_preset(name)
    ranking = reranker.rerank("q", NUMBERS)
    reranker.close()
    assert ranking.order == (1, 2, 0)
    assert ranking.report.score_kind == kind
    (request,) = provider.requests
    assert request.path == f"/{name}{DIALECTS[name].path}"
    assert request.body.get("model") == model
    assert reranker.limits.deadline == 10
    assert reranker.depth == 100


@pytest.mark.parametrize("name", ["vllm", "infinity"])
def test_preset_model_from_environment(name, monkeypatch):
    monkeypatch.setenv("RERANK_MODEL", "BAAI/bge-reranker-v2-m3")
    assert Reranker.from_preset(name).method.model == "BAAI/bge-reranker-v2-m3"
