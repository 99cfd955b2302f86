"""``secondpass doctor --network``: variables and addresses."""

import json
import socket

import pytest

from terminals import on_a_terminal

httpx = pytest.importorskip("httpx")


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


NO_SERVER = "no server answers at http://127.0.0.1:9; start it, or set `base_url`"
READS_FILE = not httpx.__version__.startswith("0.27.")  # 0.27 ignores a file that is missing

ENVIRONMENTS = [
    # variables, what is listed of them, what the ranking says
    (
        {"HTTP_PROXY": "http://user:word@127.0.0.1:9"},
        {"HTTP_PROXY": "http://127.0.0.1:9"},
        "the proxy cannot be reached",
    ),
    (
        {"all_proxy": "socks://user:word@127.0.0.1:9"},
        {"all_proxy": "socks://127.0.0.1:9"},
        "all_proxy: socks://127.0.0.1:9",
    ),
    (
        {"NO_PROXY": "[::1]"},
        {"NO_PROXY": "[::1]; write addresses without brackets"},
        "NO_PROXY: [::1]; write addresses without brackets",
    ),
    (
        {"SSL_CERT_FILE": "/no/such/file.pem"},
        {"SSL_CERT_FILE": "'/no/such/file.pem' cannot be read: No such file or directory"},
        "SSL_CERT_FILE: '/no/such/file.pem' cannot be read" if READS_FILE else NO_SERVER,
    ),
    (
        {"CURL_CA_BUNDLE": "/no/such/file.pem"},
        {"CURL_CA_BUNDLE": "is not read; set SSL_CERT_FILE"},
        NO_SERVER,
    ),
]


@pytest.mark.parametrize(("variables", "listed", "reason"), ENVIRONMENTS)
def test_proxies_and_certificates_in_use(secondpass, write, monkeypatch, variables, listed, reason):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = write(
        "c.yaml",
        "method: {type: endpoint, api: tei, base_url: 'http://127.0.0.1:9'}\nlimits: {retries: 0}",
    )
    call = ["doctor", "--config", config, "--network"]
    told = secondpass(*call, "--json")
    shown = on_a_terminal(*call, env={"COLUMNS": "300"})
    found = json.loads(told.out)
    assert found["network"]["environment"] == listed
    for name, status in listed.items():
        assert f"{name}: {status}" in shown
    assert reason in found["reranker"]["reason"]
    through = "HTTP_PROXY" in variables or "all_proxy" in variables
    status = found["network"]["addresses"]["http://127.0.0.1:9"]
    assert status.startswith("through the proxy" if through else "not reached")
    assert "word" not in told.out + told.err + shown
