"""The deployment on Ray Serve answers as ``secondpass serve`` does, and outlives its replicas."""

import inspect
import os
import re
import socket
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from load_clients import Load
from loopback_server import LoopbackServer
from secondpass import ConfigurationError, Reranker
from served_clients import KEY, check_clients

pytest.importorskip("ray.serve")  # the folder of this file may be found as `ray`
import ray
from ray import cloudpickle, serve
from ray.serve.schema import ServeDeploySchema

from secondpass_ray import app_builder, deployment

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).resolve().parents[2]
SECRET = "sk-of-the-provider-1"
BODY = {
    "query": "cat food",
    "documents": ["owls " * (n * 7 % 11) + f"and cat food {n}" for n in range(40)],
}
SMALL = {"num_cpus": 0.1}


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """A cluster of this module, with the port of its proxy."""
    folder = tmp_path_factory.mktemp("methods")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    paths = [folder, ROOT / "tests" / "support", *filter(None, sys.path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("CLIENT_KEYS", KEY)
        patch.setenv("PROVIDER_KEY", SECRET)
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 * 2**20)
        try:
            serve.start(http_options={"host": "0.0.0.0", "port": number})
            yield number
        finally:
            serve.shutdown()
            ray.shutdown()


@pytest.fixture
def deployed(port):
    """Deploy an application; its URL."""
    names = set()

    def deploy(*arguments, name="tested", prefix=None, **options):
        names.add(name)
        options = {"ray_actor_options": SMALL, **options}
        prefix = f"/{name}" if prefix is None else prefix
        serve.run(deployment(*arguments, **options), name=name, route_prefix=prefix)
        return f"http://127.0.0.1:{port}{prefix.rstrip('/')}"

    yield deploy
    for name in names:
        serve.delete(name)


def post(url, body=BODY, **headers):
    return httpx.post(url + "/v1/rerank", json=body, headers=headers, timeout=60, trust_env=False)


def order(response):
    assert response.status_code == 200, response.text
    return [row["index"] for row in response.json()["results"]]


def expected(config):
    return list(Reranker.from_config(config).rerank(BODY["query"], BODY["documents"]).order)


DEEP, SHALLOW = {"preset": "lexical"}, {"preset": "lexical", "depth": 5}
"""Configurations of which the orders differ."""


def replica():
    """The actor of one of the application's replicas."""
    names = [row["name"] for row in ray.util.list_named_actors(all_namespaces=True)]
    name = next(name for name in names if name.startswith("SERVE_REPLICA::tested#"))
    return ray.get_actor(name, namespace="serve")


# ---------------------------------------------------------------------- answers


@pytest.mark.parametrize("preset", ["embedded", "lexical"])
def test_clients(preset, deployed):
    url = deployed(preset, settings={"api_key_env": "CLIENT_KEYS"}, name="clients", prefix="/")
    check_clients(url, preset)


def test_models(deployed):
    url = deployed(models={"deep": DEEP, "shallow": SHALLOW})
    for model, config in (("deep", DEEP), ("shallow", SHALLOW), ("?", DEEP)):
        assert order(post(url, {**BODY, "model": model})) == expected(config)
    rows = httpx.get(url + "/v1/models", trust_env=False).json()["data"]
    assert [row["id"] for row in rows] == ["deep", "shallow"]
    assert httpx.get(url + "/ready", trust_env=False).status_code == 200


# ---------------------------------------------------------------------- keys


def test_without_keys_only_this_machine_is_answered(deployed, port):
    url = deployed("lexical")
    assert post(url).status_code == 200
    address = ray.util.get_node_ip_address()
    if address.startswith("127."):
        pytest.skip("this machine has no other address")
    elsewhere = url.replace("127.0.0.1", address)
    assert post(elsewhere).status_code == 421
    response = post(elsewhere, host=f"localhost:{port}")
    assert response.status_code == 403
    assert "has no keys" in response.json()["message"]


def test_keys_are_read_on_the_replica(deployed):
    provider = LoopbackServer(Reranker.from_preset("lexical"), api_key_env="PROVIDER_KEY")
    method = {"type": "endpoint", "api": "jina", "model": "m", "base_url": provider.url + "/jina"}
    config = {"method": {**method, "api_key_env": "PROVIDER_KEY"}}
    application = deployment(config, settings={"api_key_env": "CLIENT_KEYS"})
    carried = cloudpickle.dumps(application._bound_deployment)
    url = deployed(config, settings={"api_key_env": "CLIENT_KEYS"})
    assert post(url).status_code == 401
    with provider:
        response = post(url, authorization=f"Bearer {KEY}")
    assert order(response) == expected(DEEP)
    assert response.headers["secondpass-status"] == "ok"
    for text in (carried, str(serve.status()).encode()):
        assert KEY.encode() not in text
        assert SECRET.encode() not in text


# ---------------------------------------------------------------------- load


def test_a_killed_replica(deployed):
    url = deployed(DEEP, num_replicas=2)
    with Load(url, BODY, 6) as load:
        load.until(50)
        ray.kill(replica())
        load.until(300)
    assert load.orders == [expected(DEEP)] * len(load.orders)
    assert len(load.errors) <= 6  # no more than were under way
    assert set(load.errors) <= {500, 503}


@pytest.mark.parametrize("count", [1, 2])
def test_an_update_under_load(count, deployed):
    url = deployed(DEEP, num_replicas=count)
    before, after = expected(DEEP), expected(SHALLOW)
    assert before != after
    with Load(url, BODY, 6) as load:
        load.until(50)
        deployed(SHALLOW, num_replicas=count)
        load.until(50)
    assert load.errors == []
    assert all(found in (before, after) for found in load.orders)
    assert load.orders[-20:] == [after] * 20


# ---------------------------------------------------------------------- arguments


def test_the_configuration_file_of_the_reference(port):
    (file,) = re.findall(r"^::\n\n(.*?)^\S", inspect.getdoc(app_builder), re.DOTALL | re.MULTILINE)
    (described,) = ServeDeploySchema.model_validate(yaml.safe_load(file)).applications
    assert described.import_path == "secondpass_ray:app_builder"
    application = app_builder({**described.args, "settings": {"max_candidates": 3}})
    assert application._bound_deployment.name == "secondpass"
    serve.run(application, name="built", route_prefix="/built")
    url = f"http://127.0.0.1:{port}/built"
    assert post(url).status_code == 400
    assert post(url, {"query": "a", "documents": ["a"]}).json()["model"] == "embedded"
    serve.delete("built")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either a configuration or models"),
        ({"config": "lexical", "models": {"a": "lexical"}}, "give either"),
        ({"models": {}}, "models: give at least one"),
        ({"config": "lexcal"}, "did you mean 'lexical'"),
        ({"config": {"method": {"type": "endpoint", "api_key": "sk-1234"}}}, "cannot hold a key"),
        ({"config": "lexical", "settings": {"max_request": 1}}, "did you mean 'max_requests'"),
        ({"config": "lexical", "settings": 1}, "settings: give a mapping"),
        ({"confg": "lexical"}, "did you mean 'config'"),
    ],
    ids=["nothing", "both", "no models", "preset", "key", "setting", "settings", "argument"],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        app_builder(arguments)
    assert "sk-1234" not in str(caught.value)
