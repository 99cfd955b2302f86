"""Compares the descriptions of rerank and decision APIs with the clients of their providers.

    python tools/verify_rerank_apis.py            # prints a table; fails on a difference
    python tools/verify_rerank_apis.py --record   # also writes tests/support/rerank_clients.json
                                                  # and tests/support/decision_clients.json

Each installed client sends a request to a loopback server, which responds as the API's
documentation says (``tests/support/rerank_dialects.py``). ``endpoint`` then sends the same request.
The client must read the ranking, and both must have sent the same texts to the same path, in the
same fields, with the key in the same header. Fields that only one of them sends are listed.
Requests of ``decisions`` must be equal to the client's in all fields.

    pip install boto3 cohere contextual-client dashscope elasticsearch litellm mixedbread \\
        google-cloud-discoveryengine openrouter pinecone voyageai zeroentropy \\
        google-genai openai typesafe-sdk
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

import decision_answers  # noqa: E402
from rerank_dialects import DIALECTS, NUMBERS  # noqa: E402
from secondpass.prompts.labels import label_all, replace_secret  # noqa: E402

KEY = "sk-verification"
RECORD = ROOT / "tests" / "support" / "rerank_clients.json"
DECISIONS_RECORD = ROOT / "tests" / "support" / "decision_clients.json"
SECRET = b"verification"
"""Of the opaque labels, so that recorded requests have those of the tests."""
LEVELS = ["none of it", "some of it", "all of it"]
EXPECTED = [(1, 0.9), (2, 0.5), (0, 0.3)]
SPAN = (2, 3, 0.9)
AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Server:
    """Responds like one API, and keeps the last request."""

    def __init__(self) -> None:
        self.api = ""
        self.last: dict[str, Any] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.last = {"path": self.path, "headers": headers, "body": body}
                self._send(outer.reply(body))

            def _send(self, reply: Any) -> None:
                data = json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("x-elastic-product", "Elasticsearch")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reply(self, body: Any) -> Any:
        """What the API responds."""
        if "questions" in body:
            return decision_answers.right(SimpleNamespace(body=body, flavour=self.api))
        dialect = DIALECTS[self.api]
        rows = dialect.rows_of(EXPECTED)
        if dialect.spans and dialect.asks_for_spans.items() <= body.items():
            span = dict(zip(("start", "end", "score"), SPAN, strict=True))
            rows = [{**row, dialect.spans: [span]} for row in rows]
        if self.api == "openrouter":  # its client requires them
            rows = [{**row, "document": {"text": NUMBERS[row["index"]]}} for row in rows]
        return dialect.reply(rows)


def _rows(results: Any, score: str = "relevance_score", index: str = "index") -> Any:
    return [(int(getattr(row, index)), float(getattr(row, score))) for row in results]


def cohere(url: str) -> Any:
    import cohere as sdk

    client = sdk.ClientV2(KEY, base_url=url)
    spans = sdk.RerankRelevantSpans(mode="enabled", max_spans=1)
    reply = client.rerank(model="m", query="q", documents=NUMBERS, relevant_spans=spans)
    (first, *_) = [row.relevant_spans[0] for row in reply.results]
    if (first.start, first.end, first.score) != SPAN:
        raise ValueError(f"the client reads the span {first}")
    return _rows(reply.results)


def voyage(url: str) -> Any:
    import voyageai as sdk

    client = sdk.Client(api_key=KEY, base_url=f"{url}/v1")
    return _rows(client.rerank("q", NUMBERS, model="m").results)


def mixedbread(url: str) -> Any:
    from mixedbread import Mixedbread

    client = Mixedbread(api_key=KEY, base_url=url)
    return _rows(client.rerank(model="m", query="q", input=NUMBERS).data, "score")


def pinecone(url: str) -> Any:
    from pinecone import Pinecone

    client = Pinecone(api_key=KEY, host=url)
    reply = client.inference.rerank(model="m", query="q", documents=NUMBERS, return_documents=False)
    return _rows(reply.data, "score")


def zeroentropy(url: str) -> Any:
    from zeroentropy import ZeroEntropy

    client = ZeroEntropy(api_key=KEY, base_url=f"{url}/v1")
    return _rows(client.models.rerank(model="m", query="q", documents=NUMBERS).results)


def contextual(url: str) -> Any:
    from contextual import ContextualAI

    client = ContextualAI(api_key=KEY, base_url=f"{url}/v1")
    return _rows(client.rerank.create(model="m", query="q", documents=NUMBERS).results)


def dashscope(url: str) -> Any:
    import dashscope as sdk

    sdk.base_http_api_url = f"{url}/api/v1"
    reply = sdk.TextReRank.call("m", "q", NUMBERS, api_key=KEY, return_documents=False, top_n=3)
    return _rows(reply.output.results)


def elastic(url: str) -> Any:
    from elasticsearch import Elasticsearch

    reply = Elasticsearch(url, api_key=KEY).inference.rerank(
        inference_id="m", query="q", input=NUMBERS
    )
    return [(row["index"], row["relevance_score"]) for row in reply["rerank"]]


def openrouter(url: str) -> Any:
    from openrouter import OpenRouter

    client = OpenRouter(api_key=KEY, server_url=f"{url}/v1")
    return _rows(client.rerank.rerank(model="m", query="q", documents=NUMBERS).results)


def bedrock(url: str) -> Any:
    import boto3

    client = boto3.client("bedrock-agent-runtime", endpoint_url=url)
    sources = [
        {"type": "INLINE", "inlineDocumentSource": {"type": "TEXT", "textDocument": {"text": text}}}
        for text in NUMBERS
    ]
    model = {"modelConfiguration": {"modelArn": "m"}, "numberOfResults": 3}
    reply = client.rerank(
        queries=[{"type": "TEXT", "textQuery": {"text": "q"}}],
        sources=sources,
        rerankingConfiguration={
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": model,
        },
    )
    return [(row["index"], row["relevanceScore"]) for row in reply["results"]]


def vertex(url: str) -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import discoveryengine_v1 as sdk
    from google.cloud.discoveryengine_v1.services.rank_service.transports import (
        RankServiceRestTransport,
    )

    class Token(AnonymousCredentials):
        token = KEY

        def before_request(self, _request: Any, _method: str, _url: str, headers: Any) -> None:
            headers["authorization"] = f"Bearer {KEY}"

    transport = RankServiceRestTransport(
        host=urlsplit(url).netloc, url_scheme="http", credentials=Token()
    )
    client = sdk.RankServiceClient(transport=transport)
    records = [sdk.RankingRecord(id=str(n), content=text) for n, text in enumerate(NUMBERS)]
    request = sdk.RankRequest(
        ranking_config="projects/p/locations/global/rankingConfigs/default_ranking_config",
        model="m",
        query="q",
        records=records,
        top_n=3,
        ignore_record_details_in_response=True,
    )
    return [(int(row.id), round(row.score, 6)) for row in client.rank(request).records]


def litellm(provider: str, path: str = "", **settings: Any) -> Callable[[str], Any]:
    def ask(url: str) -> Any:
        import litellm as sdk

        reply = sdk.rerank(
            model=f"{provider}/m", query="q", documents=NUMBERS, api_key=KEY,
            api_base=f"{url}{path}", **settings,
        )  # fmt: skip
        return [(row["index"], row["relevance_score"]) for row in reply.results]

    return ask


CLIENTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "cohere": ("cohere", cohere),
    "jina": ("litellm", litellm("jina_ai", "/v1/rerank", return_documents=False)),
    "voyage": ("voyageai", voyage),
    "mixedbread": ("mixedbread", mixedbread),
    "tei": ("litellm", litellm("huggingface")),
    "vllm": ("litellm", litellm("hosted_vllm")),
    "infinity": ("litellm", litellm("infinity", return_documents=False)),
    "nvidia": ("litellm", litellm("nvidia_nim")),
    "nvidia_nim": ("litellm", litellm("nvidia_nim/ranking")),
    "deepinfra": ("litellm", litellm("deepinfra", "/v1")),
    "elastic": ("elasticsearch", elastic),
    "pinecone": ("pinecone", pinecone),
    "dashscope": ("dashscope", dashscope),
    "contextual": ("contextual-client", contextual),
    "zeroentropy": ("zeroentropy", zeroentropy),
    "litellm": ("litellm", litellm("litellm_proxy", return_documents=False)),
    "openrouter": ("openrouter", openrouter),
    "azure": ("litellm", litellm("azure_ai", "/v2/rerank")),
    "bedrock": ("boto3", bedrock),
    "vertex": ("google-cloud-discoveryengine", vertex),
}
"""The package, and a function that requests a ranking."""


def own(api: str, url: str) -> Any:
    """The ranking of ``endpoint``."""
    from secondpass import Reranker

    if api == "vertex":
        url += "/v1/projects/p/locations/global"
    key = {} if api == "bedrock" else {"api_key": KEY}
    method = {"type": "endpoint", "api": api, "model": "m", "base_url": url, **key}
    spans = bool(DIALECTS[api].spans)
    ranking = Reranker.from_config({"method": {**method, "spans": spans}}).rerank("q", NUMBERS)
    if spans and {item.span for item in ranking} != {SPAN[:2]}:
        raise ValueError("endpoint reads another span")
    return [(item.position, item.rerank_score) for item in ranking]


def scheme(headers: dict[str, str]) -> str:
    """The header with the key, and the text before the key in it."""
    name = next(name for name in ("authorization", "api-key", "x-goog-api-key") if name in headers)
    return f"{name}: {headers[name].partition(KEY)[0].partition(' ')[0]}".strip(": ")


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """The differences between two requests."""
    wrong = []
    if urlsplit(theirs["path"]).path.removeprefix("/v1") != ours["path"].removeprefix("/v1"):
        wrong.append(f"path {theirs['path']} / {ours['path']}")
    if scheme(theirs["headers"]) != scheme(ours["headers"]):
        wrong.append(f"{scheme(theirs['headers'])} / {scheme(ours['headers'])}")
    for name in (theirs["body"].keys() & ours["body"].keys()) - {"truncate"}:
        if theirs["body"][name] != ours["body"][name]:
            wrong.append(f"{name}: {theirs['body'][name]} / {ours['body'][name]}")
    texts = json.dumps(NUMBERS[0])
    for name, value in ours["body"].items():
        if texts in json.dumps(value) and name not in theirs["body"]:
            wrong.append(f"only endpoint sends {name}")
    return wrong


# ---------------------------------------------------------------------- decision APIs


def openai_decisions(url: str, case: Case) -> Any:
    import openai as sdk

    client = sdk.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)
    levels = [{"label": str(n), "description": text} for n, text in enumerate(LEVELS)]
    kind = {"type": "score", "levels": levels} if case.graded else {"type": "predicate"}
    questions: Any = [
        {**kind, "name": name, "instructions": text} for name, text in case.questions.items()
    ]
    reply = client.decisions.create(model="m", input=case.text, questions=questions)
    if not case.graded:
        return [answer.probability for answer in reply.answers]
    numbers = [[row.probability for row in answer.probabilities] for answer in reply.answers]
    return [expected_share(row) for row in numbers]


def systemone(url: str, case: Case) -> Any:
    from typesafe_sdk import Noul, Score, TypeSafeClient

    client = TypeSafeClient(api_key=KEY, base_url=url)
    questions: Any = {
        name: Score(instructions=text, criteria=LEVELS) if case.graded else Noul(instructions=text)
        for name, text in case.questions.items()
    }
    reply = client.system_one(state=case.state, questions=questions, model="m")
    if not case.graded:
        return [reply.answers[name].noul for name in case.questions]
    numbers = [[*reply.answers[name].probabilities.values()] for name in case.questions]
    return [expected_share(row) for row in numbers]


def google_decisions(url: str, case: Case) -> Any:
    from google import genai as sdk

    client = sdk.Client(api_key=KEY, http_options=sdk.types.HttpOptions(base_url=url))
    kind = {"type": "score", "criteria": LEVELS} if case.graded else {"type": "noul"}
    questions: Any = {name: {**kind, "instructions": text} for name, text in case.questions.items()}
    reply = client.decisions.create(model="models/m", input=case.text, questions=questions)
    if not case.graded:
        return [reply.answers[name].noul for name in case.questions]
    numbers = [[*reply.answers[name].probabilities.values()] for name in case.questions]
    return [expected_share(row) for row in numbers]


DECISION_CLIENTS = {
    "openai": ("openai", openai_decisions, "m"),
    "systemone": ("typesafe-sdk", systemone, "m"),
    "google": ("google-genai", google_decisions, "models/m"),
}
"""The package, a function that asks about each document, and the model's name."""


def expected_share(probabilities: list[float]) -> float:
    """The expected level, as a share of the highest."""
    return sum(n * p for n, p in enumerate(probabilities)) / (len(probabilities) - 1)


class Case:
    """What one request asks, written out by hand.

    Args:
        layout: of ``decisions``.
        graded: whether levels are asked for.
    """

    def __init__(self, layout: str, graded: bool) -> None:
        self.name = f"{layout} {'graded' if graded else 'yes_no'}"
        self.layout, self.graded = layout, graded
        verb = "Rate {}." if graded else "{} answers it."
        if layout == "each":
            self.questions = {"document": verb.format("the document")}
            self.state: Any = {"query": "q", "document": NUMBERS[0]}
            documents = f"<document>{NUMBERS[0]}</document>"
        else:
            labels = label_all("opaque", "q", NUMBERS, ())
            self.questions = {
                label: verb.format(f"the document with the id {label}") for label in labels
            }
            named = dict(zip(labels, NUMBERS, strict=True))
            self.state = {"query": "q", "documents": named}
            tagged = [f'<document id="{label}">{text}</document>' for label, text in named.items()]
            documents = "\n".join(tagged)
        self.text = f"<query>q</query>\n{documents}"
        self.texts = NUMBERS[:1] if layout == "each" else NUMBERS
        self.settings = {
            "layout": layout,
            "question": "graded" if graded else "yes_no",
            "instructions": verb.replace("{}", "{document}"),
            **({"levels": LEVELS} if graded else {}),
        }


CASES = [(layout, graded) for layout in ("each", "together") for graded in (True, False)]


def verify_decisions(server: Server) -> tuple[int, dict[str, Any]]:
    """The number of APIs that differ from their clients, and the requests of the clients."""
    from secondpass import Reranker

    failed, recorded = 0, {}
    replace_secret(SECRET)
    for api, (package, ask, model) in DECISION_CLIENTS.items():
        server.api = api
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"{api:12} {package} is not installed")
            continue
        wrong, bodies, theirs = [], {}, {}
        for case in (Case(*settings) for settings in CASES):
            found = ask(server.url, case)
            theirs = server.last
            bodies[case.name] = theirs["body"]
            method = {
                "type": "decisions", "api": api, "model": model, "base_url": server.url,
                "api_key": KEY, **case.settings,
            }  # fmt: skip
            ranking = Reranker.from_config({"method": method}).rerank("q", case.texts)
            mine = {item.position: item.rerank_score for item in ranking}
            close = [abs(mine[n] - number) < 1e-6 for n, number in enumerate(found)]
            if theirs["body"] != server.last["body"] or theirs["path"] != server.last["path"]:
                wrong.append(f"{case.name}: {theirs} / {server.last}")
            if scheme(theirs["headers"]) != scheme(server.last["headers"]):
                wrong.append(f"{scheme(theirs['headers'])} / {scheme(server.last['headers'])}")
            if len(close) != len(case.texts) or not all(close):
                wrong.append(f"{case.name}: scores {found} / {mine}")
        failed += bool(wrong)
        print(f"{api:12} {package} {version}: {'; '.join(wrong) or 'agrees'}")
        recorded[api] = {
            "package": package, "version": version, "path": theirs["path"],
            "key": scheme(theirs["headers"]), "bodies": bodies,
        }  # fmt: skip
    return failed, recorded


def record(path: Path, requests: dict[str, Any]) -> None:
    """Write requests of clients; those of clients that are not installed stay."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, **requests}, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="write the requests of the clients")
    arguments = parser.parse_args()
    server, failed, recorded = Server(), 0, {}
    for api, (package, ask) in CLIENTS.items():
        server.api = api
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"{api:12} {package} is not installed")
            continue
        with mock.patch.dict(os.environ, AWS):
            try:
                found = ask(server.url)
                theirs = server.last
                mine = own(api, server.url)
            except Exception as error:
                failed += 1
                print(f"{api:12} {package} {version}: {type(error).__name__}: {error}"[:400])
                continue
        wrong = differences(theirs, server.last)
        if sorted(found) != sorted(EXPECTED) or sorted(mine) != sorted(EXPECTED):
            wrong.append(f"rankings {found} / {mine}")
        failed += bool(wrong)
        alone = sorted(theirs["body"].keys() ^ server.last["body"].keys())
        note = f"; only one sends {', '.join(alone)}" if alone else ""
        print(f"{api:12} {package} {version}: {'; '.join(wrong) or 'agrees'}{note}")
        recorded[api] = {
            "package": package, "version": version, "path": theirs["path"],
            "key": scheme(theirs["headers"]), "body": theirs["body"],
        }  # fmt: skip
    wrong_decisions, decisions = verify_decisions(server)
    if arguments.record:
        record(RECORD, recorded)
        record(DECISIONS_RECORD, decisions)
    return failed + wrong_decisions


if __name__ == "__main__":
    sys.exit(main())
