"""Keys: which are accepted, how they are sent, how they are changed."""

import asyncio
import hmac
import os

import httpx
import pytest

from fakes import ByTable
from secondpass import ConfigurationError, Reranker
from secondpass.adapters.http_server.application import create_app
from secondpass.adapters.http_server.errors import RequestError
from secondpass.adapters.http_server.keys import Keys
from secondpass.adapters.http_server.settings import ServerSettings, is_loopback

OLD, NEW = "old-key-0001", "new-key-0002"
BODY = {"query": "q", "documents": ["a"]}


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    monkeypatch.setenv("SERVER_KEYS", f"{OLD}, {NEW}")
    monkeypatch.setenv("SERVER_BLANK", " ")
    monkeypatch.setenv("SERVER_ACCENTS", "clé-des-champs")
    monkeypatch.setenv("SERVER_SHORT", f"{OLD},short")


def accepted(keys, value, name="authorization"):
    try:
        keys.check({name: value})
    except RequestError as error:
        assert error.status == 401
        assert "WWW-Authenticate" in error.headers
        return False
    return True


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("authorization", f"Bearer {OLD}", True),
        ("authorization", f"bearer  {NEW} ", True),
        ("authorization", NEW, True),
        ("x-api-key", NEW, True),
        ("authorization", f"Bearer {NEW}x", False),
        ("authorization", f"Bearer {NEW[:-1]}", False),
        ("authorization", f"Basic {NEW}", False),
        ("authorization", "Bearer", False),
        ("authorization", f"Bearer {OLD}, {NEW}", False),
        ("authorization", "Bearer é\udcff", False),
        ("other", NEW, False),
    ],
)
def test_headers(name, value, expected):
    assert accepted(Keys(ServerSettings(api_key_env="SERVER_KEYS")), value, name) == expected


def test_no_key_is_demanded_without_settings():
    assert accepted(Keys(ServerSettings()), "anything")


def test_every_key_is_compared_in_constant_time(monkeypatch):
    compared = []

    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(b) or compare(a, b))
    assert accepted(Keys(ServerSettings(api_key_env="SERVER_KEYS")), OLD)
    assert compared == [OLD.encode(), NEW.encode()]


def test_a_file_is_read_again_when_it_changes(tmp_path, caplog):
    path = tmp_path / "keys"
    path.write_text(f"# clients\n{OLD}\n")
    now = [0.0]
    keys = Keys(ServerSettings(api_key_file=str(path)), clock=lambda: now[0])

    def change(text):
        path.write_text(text)
        os.utime(path, ns=(0, int(now[0] * 1e9) + 7))
        now[0] += 2

    assert (accepted(keys, OLD), accepted(keys, NEW)) == (True, False)
    change(f"{OLD}\n{NEW}\n")
    assert (accepted(keys, OLD), accepted(keys, NEW)) == (True, True)
    change(f"{NEW}\n")
    assert (accepted(keys, OLD), accepted(keys, NEW)) == (False, True)
    change("")  # being written: the keys that were read last remain
    assert accepted(keys, NEW)
    path.unlink()
    now[0] += 2
    assert accepted(keys, NEW)
    (record,) = caplog.records  # told once
    assert f"the previous keys remain valid: API keys in {path}: has no" in record.getMessage()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"api_key_env": "SERVER_UNSET"}, "the variable SERVER_UNSET: has no key"),
        ({"api_key_env": "SERVER_BLANK"}, "the variable SERVER_BLANK: has no key"),
        ({"api_key_env": "SERVER_SHORT"}, "a key is too short; give each 8 characters or more"),
        ({"api_key_env": "SERVER_ACCENTS"}, "the variable SERVER_ACCENTS: a key is not ASCII"),
        ({"api_key_file": "/nonexistent/keys"}, "API keys in /nonexistent/keys: cannot be read"),
    ],
)
def test_settings_without_a_usable_key(settings, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        Keys(ServerSettings(**settings))
    assert OLD not in str(caught.value)


def test_keys_are_not_shown():
    keys = Keys(ServerSettings(api_key_env="SERVER_KEYS"))
    assert repr(keys) == "<Keys, 2>"


OPEN = ["/health", "/ready", "/cohere/health"]
GUARDED = ["/metrics", "/v1/models", "/jina/v1/models", "/info", "/tei/info"]


def test_paths_that_need_a_key(serving):
    server = serving(Reranker(ByTable()), api_key_env="SERVER_KEYS")
    for path in OPEN:
        assert server.get(path).status_code == 200, path
    for path in GUARDED:
        assert server.get(path).status_code == 401, path
        assert server.get(path, authorization=f"Bearer {NEW}").status_code == 200, path
    for path in ("/v1/rerank", "/rerank", "/cohere/v2/rerank", "/tei/rerank"):
        response = server.post(path, BODY)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert server.post(path, BODY, authorization=NEW).status_code in {200, 422}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_loopback(host, expected):
    assert is_loopback(host) == expected


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("10.0.0.1", 421),
        ("[::1].evil.example", 421),
        ("localhost:1@evil.example", 421),
        ("]127.0.0.1[", 421),
    ],
)
def test_names_of_a_local_server(host, status, serving):
    server = serving(Reranker(ByTable()), local_names=True)
    assert server.post("/v1/rerank", BODY, host=host).status_code == status
    assert server.get("/v1/models", host=host).status_code == status


@pytest.mark.parametrize(
    ("client", "status"), [("127.0.0.1", 200), ("::1", 200), ("192.0.2.7", 403), ("", 403)]
)
def test_clients_of_a_local_server(client, status):
    """As behind a server that listens elsewhere, too: the address decides, whatever the name."""
    application = create_app({"m": Reranker(ByTable())}, ServerSettings(local_names=True))

    async def answer():
        transport = httpx.ASGITransport(application, client=(client, 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.post("/v1/rerank", json=BODY)

    response = asyncio.run(answer())
    assert response.status_code == status
    if status == 403:
        assert "has no keys" in response.json()["message"]
