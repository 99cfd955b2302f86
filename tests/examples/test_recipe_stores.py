"""The stores and the service, for real; `make test-long` installs them."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import handbook
import pytest

from example_commands import EXAMPLES, commands, run
from secondpass import Reranker

pytestmark = pytest.mark.long

RECIPES = EXAMPLES / "recipes"
STORES = {"qdrant_store": "qdrant_client", "lancedb_store": "lancedb", "pgvector_store": "psycopg"}


@pytest.fixture(autouse=True)
def _runtime_folder(monkeypatch, tmp_path_factory):
    """Where pgserver keeps its locks; it warns if the machine has no such folder."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    monkeypatch.delenv("DATABASE_URL", raising=False)


@pytest.mark.parametrize(("module", "package"), STORES.items(), ids=str)
class TestStores:
    def test_commands_run(self, module, package, monkeypatch, capsys):
        pytest.importorskip(package)
        lines = commands(RECIPES / f"{module}.py")
        for command in lines[1:]:
            assert run(command, monkeypatch) == 0
            assert "ok, by" in capsys.readouterr().out
        assert len(lines) == 3

    def test_results_become_candidates(self, module, package, tmp_path):
        pytest.importorskip(package)
        found = FOUND[module](tmp_path)
        assert len(found) == 5
        scores = [one["score"] for one in found]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == pytest.approx(similarity(found[0]["id"]), abs=1e-4)
        ranking = Reranker.from_preset("embedded").rerank(QUESTION, found)
        assert sorted(item.position for item in ranking) == list(range(5))
        assert ranking[0].metadata["title"] == titles()[ranking[0].id]
        assert ranking.report.status == "ok"


QUESTION = "The motor got hot and the display shows E71"


def titles():
    return {one.id: one.metadata["title"] for one in handbook.passages()}


def similarity(identifier):
    """The cosine of the question and a passage, without a store."""
    [passage] = [one for one in handbook.passages() if one.id == identifier]
    one, other = handbook.embed([QUESTION, handbook.full_text(passage)])
    return sum(a * b for a, b in zip(one, other, strict=True))


def from_qdrant(folder):
    import qdrant_store
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(folder))
    try:
        qdrant_store.fill(client)
        return qdrant_store.candidates(qdrant_store.search(client, QUESTION, 5))
    finally:
        client.close()


def from_lancedb(folder):
    import lancedb_store

    table = lancedb_store.fill(str(folder))
    return lancedb_store.candidates(lancedb_store.search(table, QUESTION, 5))


def from_pgvector(folder):
    import pgvector_store
    import psycopg

    with pgvector_store.database() as address, psycopg.connect(address) as connection:
        pgvector_store.fill(connection)
        return pgvector_store.search(connection, QUESTION, 5)


FOUND = {
    "qdrant_store": from_qdrant,
    "lancedb_store": from_lancedb,
    "pgvector_store": from_pgvector,
}


@pytest.fixture
def search_server():
    """A server that answers every request with the documented response of a search."""
    import elasticsearch_hits

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            content = json.dumps(elasticsearch_hits.RESPONSE).encode()
            self.send_response(200)
            asked = self.headers.get("accept", "")  # Elasticsearch names the version in it
            self.send_header("content-type", asked if "vnd" in asked else "application/json")
            self.send_header("x-elastic-product", "Elasticsearch")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def elasticsearch_client(address):
    client = pytest.importorskip("elasticsearch").Elasticsearch(address, request_timeout=60)
    return client, client.search


def opensearch_client(address):
    client = pytest.importorskip("opensearchpy").OpenSearch(address, timeout=60)
    return client, lambda **query: client.search(index=query.pop("index"), body=query)


@pytest.mark.parametrize("connect", [elasticsearch_client, opensearch_client])
def test_hits_of_the_real_clients(connect, search_server):
    import elasticsearch_hits

    client, search = connect(search_server)
    try:
        response = search(index="handbook", query={"match": {"text": "E71"}}, size=50)
    finally:
        client.close()
    found = elasticsearch_hits.candidates(response)
    assert found == elasticsearch_hits.candidates(elasticsearch_hits.RESPONSE)


PASSAGES = [
    {"id": "bus", "text": "A bus has wheels.", "score": 0.9, "page": 4},
    {"id": "panda", "text": "The red panda eats bamboo.", "score": 0.8},
]


@pytest.fixture
def service(monkeypatch):
    """Sends requests to the application, in a loop of their own, within its lifespan."""
    pytest.importorskip("fastapi")
    import asyncio

    import httpx
    from fastapi_app import app

    def send(*bodies):
        async def exchange():
            transport = httpx.ASGITransport(app)
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://test") as client,
            ):
                requests = [client.post("/rerank", json=body) for body in bodies]
                return await asyncio.wait_for(asyncio.gather(*requests), 60)

        return asyncio.run(exchange())

    return send


class TestService:
    def test_an_infinite_score_is_refused(self, service):
        passage = {**PASSAGES[0], "score": "inf"}
        (response,) = service({"query": "pandas", "passages": [passage]})
        assert response.status_code == 422
        assert response.json()["detail"][0]["loc"] == ["body", "passages", 0, "score"]

    def test_concurrent_requests(self, service):
        body = {"query": "What do red pandas eat?", "passages": PASSAGES}
        responses = service(*[body] * 20, {**body, "top_k": 1}, {**body, "passages": []})
        *full, one, none = [response.json() for response in responses]
        for answer in full:
            assert [item["id"] for item in answer["items"]] == ["panda", "bus"]
            assert (answer["status"], answer["issues"]) == ("ok", [])
            assert answer["items"][1]["metadata"]["page"] == 4
        assert [item["id"] for item in one["items"]] == ["panda"]
        assert none["items"] == []

    @pytest.mark.parametrize(
        "change",
        [{"query": ""}, {"top_k": 0}, {"passages": [{"id": "a"}]}, {"passages": PASSAGES * 101}],
    )
    def test_wrong_requests_are_refused(self, service, change):
        [response] = service({"query": "q", "passages": PASSAGES, **change})
        assert response.status_code == 422

    def test_a_model_that_fails_does_not_fail_the_service(self, service, monkeypatch):
        monkeypatch.setenv("RERANK_PRESET", "tei")
        monkeypatch.setenv("TEI_URL", "http://127.0.0.1:9")
        [response] = service({"query": "red panda", "passages": PASSAGES})
        answer = response.json()
        assert (response.status_code, answer["status"]) == (200, "degraded")
        assert [item["id"] for item in answer["items"]] == ["panda", "bus"]
        assert "connection" in answer["issues"]
