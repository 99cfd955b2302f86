"""Paths: which need a key, and which clients and names are answered."""

import asyncio
import re

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from fakes import ByTable
from raw_http import answered, request, until
from secondpass import Reranker
from secondpass_server.http.application import create_app
from secondpass_server.http.settings import ServerSettings
from secondpass_server.http.shapes import COMMON, SHAPES

KEY = "new-key-0002"
BODY = {"query": "q", "documents": ["a"]}


OPEN = ["/health", "/ready", "/cohere/health"]


GUARDED = ["/metrics", "/v1/models", "/jina/v1/models", "/info", "/tei/info"]


def test_paths_that_need_a_key(serving, monkeypatch):
    monkeypatch.setenv("SERVER_KEYS", KEY)
    server = serving(Reranker(ByTable()), api_key_env="SERVER_KEYS")
    until(lambda: server.get("/ready").status_code == 200)
    for path in OPEN:
        assert server.get(path).status_code == 200, path
    for path in GUARDED:
        assert server.get(path).status_code == 401, path
        assert server.get(path, authorization=f"Bearer {KEY}").status_code == 200, path
    for path in ("/v1/rerank", "/rerank", "/cohere/v2/rerank", "/tei/rerank"):
        response = server.post(path, BODY)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert server.post(path, BODY, authorization=KEY).status_code in {200, 422}


HOSTS = {
    200: ["localhost", "localhost:1", "127.8.9.1", "[::1]:80"],
    421: [
        *("evil.example", "10.0.0.1", "0.0.0.0", "[::]", "localhost.example.com"),
        *("[::1].evil.example", "localhost:1@evil.example", "]127.0.0.1["),
    ],
}


def test_names_of_a_local_server(serving):
    server = serving(Reranker(ByTable()), local_names=True)
    for status, hosts in HOSTS.items():
        for host in hosts:
            assert server.post("/v1/rerank", BODY, host=host).status_code == status, host
            assert server.get("/v1/models", host=host).status_code == status, host


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


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/nope",
            "there are /rerank, /v1/rerank, /v2/rerank, /v1/reranking, /reranking, /v1/score",
        ),
        ("/common/rerank", "/health, /info, /ready, /metrics, and more behind /cohere, /jina, "),
        ("/", "there are /rerank, "),
        ("/tei/v1/rerank", "there are /tei/rerank, /tei/v1/models, /tei/health, /tei/info"),
        ("/vllm", "there are /vllm/v1/rerank, /vllm/v2/rerank, /vllm/rerank, "),
    ],
)
def test_an_unknown_path_names_those_that_there_are(path, message, lengths):
    response = lengths.post(path, BODY)
    assert response.status_code == 404
    error = response.json()
    found = error.get("message") or error["error"]
    found = found["message"] if isinstance(found, dict) else found
    assert found.startswith("there is no such path; ")
    assert message in found


def test_the_paths_that_are_named_exist(lengths):
    named = re.findall(r"/[/\w]+", lengths.get("/nope").json()["message"])
    prefixes = named[-len(SHAPES) :]
    assert [prefix[1:] for prefix in prefixes] == [*SHAPES]
    for prefix in prefixes:
        named += re.findall(r"/[/\w]+", lengths.get(f"{prefix}/nope").text)
    for path in set(named) - set(prefixes):
        assert lengths.get(path).status_code in {200, 405}, path


def test_paths_of_a_mounted_application():
    """They are those of the client."""
    inner = create_app({"m": Reranker(ByTable())}, ServerSettings())
    outer = Starlette(routes=[Mount("/search", inner)])

    async def answers():
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            found = [await http.post(f"/search{path}", json=BODY) for path in ("/rerank/", "/x")]
            return [*found, await http.post("http://localhost/search//v1/rerank", json=BODY)]

    good, unknown, doubled = asyncio.run(answers())
    assert (good.status_code, unknown.status_code, doubled.status_code) == (200, 404, 200)
    assert "there are /search/rerank, /search/v1/rerank, " in unknown.json()["message"]


TARGETS = [
    # as clients send it after the method, the status, and that with keys
    ("http://localhost/v1/rerank", 200, 200),
    ("HTTP://LOCALHOST:80/v1/rerank?x=1", 200, 200),
    ("https://127.0.0.1:8443/cohere/v2/rerank/", 200, 200),
    ("http://localhost", 404, 404),
    ("http://localhost/nope", 404, 404),
    ("http://evil.example/v1/rerank", 421, 200),
    ("http://localhost@evil.example/v1/rerank", 421, 200),
    ("http:///v1/rerank", 421, 200),
    ("ftp://localhost/v1/rerank", 404, 404),
    ("/v1/rerank/", 200, 200),
    ("/v1//rerank", 200, 200),
    ("//v1/rerank//", 200, 200),
    ("/tei//rerank", 200, 200),
    ("/%2Fv1/rerank", 200, 200),
    ("/v1/rerank/x", 404, 404),
    ("v1/rerank", 404, 404),
]


@pytest.mark.parametrize(("target", "local", "with_keys"), TARGETS)
def test_targets(target, local, with_keys, serving, monkeypatch):
    """Clients of proxies send a URL, whose host counts; others join a base URL and a path."""
    monkeypatch.setenv("RERANK_KEYS", "a-key-of-mine")
    body = {"query": "q", "documents": ["a"], "texts": ["a"]}
    content = request(body, target, "Authorization: a-key-of-mine")
    for settings, status in (
        ({"local_names": True}, local),
        ({"api_key_env": "RERANK_KEYS"}, with_keys),
    ):
        with serving(Reranker(ByTable()), **settings).connect() as connection:
            connection.sendall(content)
            assert answered(connection).startswith(b"HTTP/1.1 %d " % status), settings


def test_common_is_no_prefix(lengths):
    assert lengths.post("/common/rerank", {}).status_code == 404
    assert COMMON.name not in SHAPES


class Closing(ByTable):
    """Notes that it is closed, and raises if it is told to."""

    def __init__(self, *, fails=False):
        super().__init__()
        self.closed, self.fails = 0, fails

    def close(self):
        self.closed += 1
        if self.fails:
            raise OSError("a passage")


def lived(*rerankers):
    """Start and stop an application with these rerankers."""
    app = create_app({f"m{number}": one for number, one in enumerate(rerankers)})

    async def life():
        async with app.router.lifespan_context(app):
            await asyncio.sleep(0)  # loading begins

    asyncio.run(life())


def test_every_reranker_is_closed_at_the_end(caplog):
    scorers = [Closing(fails=True), Closing(fails=True), Closing()]
    with pytest.raises(OSError, match="a passage"):
        lived(*map(Reranker, scorers))
    assert [scorer.closed for scorer in scorers] == [1, 1, 1]
    assert [record.getMessage() for record in caplog.records] == ["closing also raised OSError"]


def test_rerankers_are_closed_if_loading_ends_with_an_error():
    class Failing(Reranker):
        async def awarm_up(self):
            raise BaseExceptionGroup("", [asyncio.CancelledError()])

    scorer = Closing()
    lived(Failing(scorer))
    assert scorer.closed == 1
