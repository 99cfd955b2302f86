"""What a replica loads, whom it answers and what it says of errors, without Ray.

``test_serving.py`` deploys it on Ray Serve.
"""

import asyncio
import importlib.util
import sys
import traceback
from types import ModuleType, SimpleNamespace

import pytest

from secondpass import (
    ConfigurationError,
    MissingExtraError,
    ModelLoadError,
    Reranker,
    SecondPassError,
)
from secondpass_server.http.settings import ServerSettings

MODELS = {"deep": {"method": "lexical", "depth": 20}, "shallow": {"method": "lexical", "depth": 5}}


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


@pytest.fixture
def created(replica, monkeypatch):
    """The arguments with which replicas created their applications."""
    arguments = []
    monkeypatch.setattr(replica, "create_app", lambda *values: arguments.append(values) or "app")
    return arguments


@pytest.mark.parametrize(
    ("settings", "local_names"),
    [({}, True), ({"max_requests": 3}, True), ({"api_key_env": "REPLICA_KEYS"}, False)],
    ids=["defaults", "limit", "keys"],
)
def test_only_without_keys_clients_must_be_local(
    replica, created, monkeypatch, settings, local_names
):
    monkeypatch.setenv("REPLICA_KEYS", "key-of-a-client-1")
    replica.RerankServer(MODELS, settings)
    ((rerankers, known),) = created
    assert known == ServerSettings(**settings, local_names=local_names)
    depths = {name: reranker.depth for name, reranker in rerankers.items()}
    assert depths == {"deep": 20, "shallow": 5}


def test_variables_are_read_where_the_replica_runs(replica, monkeypatch):
    models = {"m": {"method": "lexical", "depth": {"env": "REPLICA_DEPTH"}}}
    with pytest.raises(ConfigurationError, match="REPLICA_DEPTH is not set"):
        replica.RerankServer(models, {})
    monkeypatch.setenv("REPLICA_DEPTH", "3")
    assert replica.RerankServer(models, {})._rerankers["m"].depth == 3


def test_models_are_loaded_before_requests_are_taken(replica, created, monkeypatch):
    loaded = []

    async def load(reranker):
        loaded.append(reranker.depth)
        return True

    monkeypatch.setattr(Reranker, "awarm_up", load)
    server = replica.RerankServer(MODELS, {})
    assert loaded == []
    assert asyncio.run(server.__serve_build_asgi_app__()) == "app"
    assert loaded == [20, 5]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ModelLoadError("the model 'x' cannot be loaded"), ModelLoadError, "the model 'x'"),
        (MissingExtraError("onnx", "the backend"), MissingExtraError, r"secondpass\[onnx\]"),
        (
            ValueError("https://user:s3cret@host"),
            SecondPassError,
            "^the model 'deep' could not be loaded: ValueError$",
        ),
        (None, SecondPassError, "only a fallback of the model 'deep'"),
    ],
    ids=["model", "package", "any other", "fallback"],
)
def test_errors_of_models_hold_no_secret(replica, monkeypatch, error, kind, message):
    async def load(_reranker):
        if error is not None:
            raise error
        return False

    monkeypatch.setattr(Reranker, "awarm_up", load)
    server = replica.RerankServer(MODELS, {})
    with pytest.raises(kind, match=message) as caught:
        asyncio.run(server.__serve_build_asgi_app__())
    # Serve logs the whole trace.
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
