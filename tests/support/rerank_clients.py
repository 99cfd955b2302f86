"""Asks a server with the clients of other packages, in an environment that has them.

    python rerank_clients.py URL KEY < request.json > orders.json

The request has a query, documents and the number of results. Prints, for each client and each
address that it is given, the indices of the documents in the order of its results, or the class of
the error. Nothing of the clients is changed: they get an address and a key.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

warnings.simplefilter("ignore")
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

Client: TypeAlias = Callable[..., list[int]]
"""The indices of results, by base URL, key, query, documents and number of results."""
CLIENTS: dict[str, Client] = {}


def _register(name: str, ask: Client, *prefixes: str) -> None:
    """Register a client with the prefixes of its base URL."""
    for prefix in prefixes:
        CLIENTS[f"{name} {prefix}".strip()] = lambda url, *rest, prefix=prefix: ask(
            url + prefix, *rest
        )


def client(*prefixes: str) -> Callable[[Client], Client]:
    """Register a function as a client."""

    def register(function: Client) -> Client:
        _register(function.__name__, function, *prefixes)
        return function

    return register


@client("", "/cohere")
def cohere_v2(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    import cohere

    found = cohere.ClientV2(key, base_url=url).rerank(
        model="rerank-v3.5", query=query, documents=documents, top_n=top
    )
    assert found.id
    assert all(0 <= row.relevance_score <= 1 for row in found.results)
    return [row.index for row in found.results]


@client("", "/cohere")
def cohere_v1(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    import cohere

    found = cohere.Client(key, base_url=url).rerank(
        model="rerank-v3.5",
        query=query,
        documents=[{"text": document} for document in documents],
        top_n=top,
        return_documents=True,
    )
    assert all(row.document.text == documents[row.index] for row in found.results)
    return [row.index for row in found.results]


@client("/v1", "/voyage/v1")
def voyage(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    import voyageai

    found = voyageai.Client(key, base_url=url).rerank(query, documents, "rerank-2", top_k=top)
    assert all(row.document == documents[row.index] for row in found.results)
    return [row.index for row in found.results]


@client("", "/infinity")
def infinity(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    from infinity_client import AuthenticatedClient
    from infinity_client.api.default import rerank
    from infinity_client.models import RerankInput

    with AuthenticatedClient(base_url=url, token=key, raise_on_unexpected_status=True) as client:
        body = RerankInput(query=query, documents=documents, top_n=top, return_documents=True)
        found = rerank.sync(client=client, body=body)
        if url.endswith("/infinity"):  # it reads the errors of invalid requests, too
            refused = rerank.sync(client=client, body=RerankInput(query="", documents=documents))
            assert "query" in refused.detail[0].msg
    assert found.usage.total_tokens >= 0
    return [row.index for row in found.results]


def _litellm(provider: str, url: str, key: str, query: str, documents: Any, top: int) -> list[int]:
    import litellm

    found = litellm.rerank(
        model=f"{provider}/some-model",
        query=query,
        documents=documents,
        top_n=top,
        api_base=url,
        api_key=key,
    )
    return [row["index"] for row in found.results]


for _name, _provider, _prefixes in (
    ("cohere", "cohere", ("", "/cohere")),
    ("jina", "jina_ai", ("",)),
    ("infinity", "infinity", ("/infinity",)),
    ("vllm", "hosted_vllm", ("", "/vllm")),
    ("huggingface", "huggingface", ("", "/tei")),
    ("voyage", "voyage", ("/voyage",)),
):
    _register(f"litellm_{_name}", partial(_litellm, _provider), *_prefixes)


def _haystack(ranker: Any, query: str, documents: list[str]) -> list[int]:
    from haystack import Document

    given = [Document(id=str(index), content=text) for index, text in enumerate(documents)]
    if hasattr(ranker, "warm_up"):
        ranker.warm_up()
    return [int(one.id) for one in ranker.run(query=query, documents=given)["documents"]]


@client("", "/cohere")
def haystack_cohere(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    from haystack.utils import Secret
    from haystack_integrations.components.rankers.cohere import CohereRanker

    ranker = CohereRanker(api_key=Secret.from_token(key), api_base_url=url, top_k=top)
    return _haystack(ranker, query, documents)


@client("/v1/rerank", "/jina/v1/rerank")
def haystack_jina(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    from haystack.utils import Secret
    from haystack_integrations.components.rankers.jina import JinaRanker

    ranker = JinaRanker(api_key=Secret.from_token(key), base_url=url, top_k=top)
    return _haystack(ranker, query, documents)


@client("")
def haystack_tei(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    from haystack.utils import Secret
    from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker

    ranker = HuggingFaceTEIRanker(url=url, token=Secret.from_token(key), top_k=top)
    return _haystack(ranker, query, documents)


def _llama_index(postprocessor: Any, query: str, documents: list[str]) -> list[int]:
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [
        NodeWithScore(node=TextNode(id_=str(index), text=text), score=0.5)
        for index, text in enumerate(documents)
    ]
    found = postprocessor.postprocess_nodes(nodes, query_str=query)
    return [int(one.node.node_id) for one in found]


@client("", "/cohere")
def llama_index_cohere(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    from llama_index.postprocessor.cohere_rerank import CohereRerank

    return _llama_index(CohereRerank(top_n=top, api_key=key, base_url=url), query, documents)


@client("/v1", "/jina/v1")
def llama_index_jina(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    from llama_index.postprocessor.jinaai_rerank import JinaRerank

    return _llama_index(JinaRerank(top_n=top, api_key=key, base_url=url), query, documents)


@client("", "/tei")
def llama_index_tei(url: str, key: str, query: str, documents: list[str], top: int) -> list[int]:
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

    postprocessor = TextEmbeddingInference(top_n=top, base_url=url, auth_token=f"Bearer {key}")
    return _llama_index(postprocessor, query, documents)


def main() -> None:
    """Ask all clients."""
    url, key = sys.argv[1:]
    request = json.load(sys.stdin)
    orders: dict[str, Any] = {}
    for name, ask in CLIENTS.items():
        try:
            orders[name] = ask(url, key, request["query"], request["documents"], request["top"])
        except Exception as error:
            orders[name] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(orders))


if __name__ == "__main__":
    main()
