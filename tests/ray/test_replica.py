"""What a replica loads, whom it answers and what it says of errors, without Ray.

``test_serving.py`` deploys it on Ray Serve.
"""

import asyncio
import importlib.util
import sys
import traceback
from types import ModuleType, SimpleNamespace

import pytest

from fakes import raising
from secondpass import (
    ConfigurationError,
    MissingExtraError,
    ModelLoadError,
    Reranker,
    SecondPassError,
)
from secondpass_server.http.settings import ServerSettings

MODELS = {"deep": {"method": "lexical", "depth": 20}, "shallow": {"method": "lexical", "depth": 5}}


def test_all_documents_are_scored_where_no_depth_is_stated(replica):
    models = {name: {"preset": "embedded"} for name in ("stated", "not")}
    rerankers = replica.RerankServer(models, {}, ["not"])._rerankers
    assert {name: reranker.depth for name, reranker in rerankers.items()} == {
        "stated": 50,
        "not": None,
    }


@pytest.fixture
def replica(monkeypatch):
    """The module as it is without Serve, whose decorator makes an actor's class of the class."""
    ray = ModuleType("ray")
    ray.serve = SimpleNamespace(ingress=lambda: lambda kind: kind)
    monkeypatch.setitem(sys.modules, "ray", ray)
    spec = importlib.util.find_spec("secondpass_ray.replica")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("settings", "local_names"),
    [({}, True), ({"max_requests": 3}, True), ({"api_key_env": "REPLICA_KEYS"}, False)],
    ids=["defaults", "limit", "keys"],
)
def test_only_without_keys_clients_must_be_local(replica, monkeypatch, settings, local_names):
    monkeypatch.setenv("REPLICA_KEYS", "key-of-a-client-1")
    service = replica.RerankServer(MODELS, settings)._application.state.service
    assert service.settings == ServerSettings(**settings, local_names=local_names)
    depths = {name: reranker.depth for name, reranker in service.rerankers.items()}
    assert depths == {"deep": 20, "shallow": 5}


def test_variables_are_read_where_the_replica_runs(replica, monkeypatch):
    models = {"m": {"method": "lexical", "depth": {"env": "REPLICA_DEPTH"}}}
    with pytest.raises(ConfigurationError, match="REPLICA_DEPTH is not set"):
        replica.RerankServer(models, {})
    monkeypatch.setenv("REPLICA_DEPTH", "3")
    assert replica.RerankServer(models, {})._rerankers["m"].depth == 3


@pytest.fixture
def loaded(replica, monkeypatch):
    """Have a replica make its application; its rerankers are loaded by a function."""

    def run(load):
        async def awarm_up(reranker):
            return load(reranker)

        monkeypatch.setattr(Reranker, "awarm_up", awarm_up)
        return asyncio.run(replica.RerankServer(MODELS, {}).__serve_build_asgi_app__())

    return run


def test_models_are_loaded_before_requests_are_taken(loaded):
    depths = []
    assert loaded(lambda reranker: depths.append(reranker.depth) or True).state.service
    assert depths == [20, 5]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ModelLoadError("the model 'x' cannot be loaded"), ModelLoadError, "the model 'x'"),
        (MissingExtraError("onnx", "the backend"), MissingExtraError, r"\.\[onnx\]"),
        (
            ValueError("https://user:s3cret@host"),
            SecondPassError,
            "^the model 'deep' could not be loaded: ValueError$",
        ),
    ],
    ids=["model", "package", "any other"],
)
def test_errors_of_models_hold_no_secret(loaded, error, kind, message):
    with pytest.raises(kind, match=message) as caught:
        loaded(raising(error))
    # Serve logs the whole trace.
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_replica_of_a_fallback_takes_no_requests(loaded):
    with pytest.raises(SecondPassError, match="only a fallback of the model 'deep'"):
        loaded(lambda _reranker: False)
