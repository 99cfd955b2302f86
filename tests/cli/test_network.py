"""``secondpass doctor --network``: variables and addresses."""

import json
import socket

import pytest

from terminals import on_a_terminal


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_addresses_are_tried_and_keys_are_not_shown(secondpass, write, monkeypatch, listening):
    monkeypatch.setenv("MY_RERANK_KEY", "sk-very-secret")
    monkeypatch.delenv("MY_OTHER_KEY", raising=False)
    address = listening.replace("http://", "http://user:sk-very-secret@")
    fallback = "{type: endpoint, api: vllm, model: m, base_url: 'http://127.0.0.1:9'}"
    config = write(
        "c.yaml",
        f"method: {{type: endpoint, api: tei, base_url: '{address}/v1', timeout: 0.2,"
        " api_key_env: [MY_RERANK_KEY, MY_OTHER_KEY]}\n"
        f"fallback: [{fallback}]\nlimits: {{retries: 0, deadline: 1}}",
    )
    call = ["doctor", "--config", config, "--network"]
    told = secondpass(*call)
    assert told.code == 1
    network = json.loads(told.out)["network"]
    assert network["variables"] == {"MY_OTHER_KEY": False, "MY_RERANK_KEY": True}
    assert network["addresses"][listening] == "reached"
    assert network["addresses"]["http://127.0.0.1:9"].startswith("not reached")
    shown = on_a_terminal(*call, env={"COLUMNS": "300"})
    assert f"{listening}: reached" in shown
    assert "sk-very-secret" not in told.out + told.err + shown


@pytest.mark.parametrize(
    "content",
    [
        "method: {type: endpoint, api: tei, api_key_env: 3}",
        "method: {type: endpoint, api: tei, base_url: x, api_key_env: [3, A]}",
        "method: {type: endpoint, api: {env: []}}",
        "method: {type: endpoint, api: {env: 3}, base_url: {env: {}}}",
        "method: &a [*a]",
        "method: &a {type: graded, llm: *a, more: [*a, *a]}",
    ],
)
def test_a_wrong_configuration_is_reported_with_network(secondpass, write, content):
    told = secondpass("doctor", "--config", write("c.yaml", content), "--network")
    assert (told.code, json.loads(told.out)["reranker"]["runs"]) == (1, False), told.err


def test_without_a_configuration_the_usual_variables_are_told(secondpass, monkeypatch, listening):
    for name in ("CO_API_KEY", "COHERE_API_KEY", "JINA_API_KEY", "VOYAGE_API_KEY", "MXBAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)  # or their addresses would be tried
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("TEI_URL", listening)
    monkeypatch.setenv("VLLM_URL", "nonsense\x1b[2J")
    told = secondpass("doctor", "--network", "--json")
    found = json.loads(told.out)["network"]
    assert found["variables"]["OPENAI_API_KEY"] is True
    assert found["variables"]["JINA_API_KEY"] is False
    assert found["addresses"][listening] == "reached"
    assert "not an address of http or https" in found["addresses"].values()
    assert "secret" not in told.out
