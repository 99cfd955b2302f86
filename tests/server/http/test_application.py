"""Paths: which need a key, and which clients and names are answered."""

import asyncio

import httpx
import pytest

from fakes import ByTable
from raw_http import until
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
