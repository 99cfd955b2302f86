"""What is listened on, and what of it is refused before that."""

import socket

import pytest

from fake_provider import FakeProvider
from fakes import ByTable
from loopback_server import LoopbackServer
from raw_http import head, until
from secondpass import ConfigurationError, Reranker
from secondpass_server.http.server import Plan
from secondpass_server.http.settings import ServerSettings

BODY = {"query": "q", "documents": ["a", "bb"]}
MODELS = {"m": {"method": "lexical"}}
WITH_KEY = ServerSettings(api_key_env="SERVER_KEYS")


def test_small_parts_are_sent_at_once(serving):
    """The body of a response would wait 40 ms, until the client confirms the head."""
    server = serving(Reranker(ByTable()))
    with server.connect() as connection:
        connection.sendall(head("/health", method="GET"))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        (transport,) = server.transports()
        accepted = transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("damage", ["the first bytes", "a folder"])
def test_a_damaged_cache_stops_no_server(tmp_path, serving, damage):
    """Neither of answers nor of scores; it is not touched, and each response says so."""
    answers, scores = tmp_path / "answers", tmp_path / "scores"
    if damage == "a folder":
        answers.mkdir()
        scores.mkdir()
    else:
        answers.write_bytes(b"\0" * 8192)
        scores.write_bytes(b"\0" * 8192)
    with FakeProvider() as provider:
        method = {"type": "graded", "llm": provider.llm("openai", api_key="k")}
        config = {"method": method, "cache": str(answers)}
        cross_encoder = {"type": "cross_encoder", "model": "m", "score_cache": str(scores)}
        models = {"m": config, "c": {"method": cross_encoder}}
        Plan(models, ServerSettings()).checked()  # as the command makes the rerankers
        response = serving(Reranker.from_config(config)).post("/v1/rerank", BODY)
    assert response.status_code == 200
    (issue,) = response.json()["secondpass"]["issues"]
    assert issue["code"] == "cache_failed"
    if damage != "a folder":
        assert answers.read_bytes() == scores.read_bytes() == b"\0" * 8192
    assert {*tmp_path.iterdir()} == {answers, scores}


def test_draining_is_not_ready():
    with LoopbackServer(Reranker(ByTable()), drain=1.0) as server:
        until(lambda: server.get("/ready").status_code == 200)
        server.stop()
        until(lambda: server.get("/ready").status_code == 503)
        response = server.get("/ready")
        assert response.json() == {"status": "draining"}
        assert response.headers["connection"] == "close"
        assert server.post("/v1/rerank", BODY).status_code == 200


@pytest.mark.parametrize(
    ("host", "settings", "local_names"),
    [
        ("127.0.0.1", ServerSettings(), True),
        ("localhost", WITH_KEY, False),
        ("0.0.0.0", WITH_KEY, False),
    ],
    ids=["local", "local with keys", "network with keys"],
)
def test_only_without_keys_clients_must_be_local(host, settings, local_names, monkeypatch):
    monkeypatch.setenv("SERVER_KEYS", "key-of-a-client")
    checked = Plan(MODELS, settings, host=host).checked()
    assert checked.settings.local_names == local_names


def test_an_address_in_use():
    with Plan({}, port=0).bind() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1, port {port}"):
            Plan({}, port=port).bind()


@pytest.mark.parametrize(
    ("plan", "start"),
    [
        (Plan({}, port=0), "http://127.0.0.1:"),
        (Plan({}, port=0, tls_certificate="a", tls_key="b"), "https://127.0.0.1:"),
        (Plan({}, port=0, host="::1"), "http://[::1]:"),
    ],
    ids=["http", "https", "IPv6"],
)
def test_urls(plan, start):
    with Plan({}, port=0).bind() as listening:
        assert plan.url(listening) == f"{start}{listening.getsockname()[1]}"
