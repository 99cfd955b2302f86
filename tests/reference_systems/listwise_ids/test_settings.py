"""Settings from variables and arguments; clients and frameworks."""

from __future__ import annotations

import os

import pytest

from secondpass import Candidate, ConfigurationError, Reranker, config
from tactic_candidates import KEY, QUERY, backwards, ids, nodes, tactics

# ---------------------------------------------------------------------- settings


def test_the_defaults(provider):
    reranker = Reranker.from_preset("listwise_ids")
    assert reranker.depth == 10
    assert reranker.tail == "keep"
    assert reranker.log_level == "warning"
    assert not reranker.strict
    llm = reranker.method.llm
    assert (llm.model, llm.base_url) == ("gpt-4.1-mini", None)
    assert llm.key_variables == ("OPENAI_API_KEY",)


@pytest.mark.parametrize(
    ("name", "value", "depth", "model"),
    [
        ("TACTICIAN_RERANK_LIMIT", "3", 3, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", " 25 ", 25, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", "012", 12, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", "", 10, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", "  ", 10, "gpt-4.1-mini"),
        ("TACTICIAN_LLM_MODEL", "qwen3:8b", 10, "qwen3:8b"),
        ("TACTICIAN_LLM_MODEL", "4", 10, "4"),
        ("TACTICIAN_LLM_MODEL", "", 10, "gpt-4.1-mini"),
    ],
)
def test_the_variables(provider, listwise_ids, rank, monkeypatch, name, value, depth, model):
    monkeypatch.setenv(name, value)
    provider.play(backwards)
    rank(listwise_ids(), QUERY, tactics(30))
    [request] = provider.requests
    assert len(request.labels) == depth
    assert request.body["model"] == model


@pytest.mark.parametrize("value", ["many", "7.5", "1e1", "null", "[3]", "1:30", "0", "-3"])
def test_a_limit_that_is_none_is_refused(provider, monkeypatch, value):
    monkeypatch.setenv("TACTICIAN_RERANK_LIMIT", value)
    with pytest.raises(ConfigurationError, match="TACTICIAN_RERANK_LIMIT") as caught:
        Reranker.from_preset("listwise_ids")
    assert "depth" in str(caught.value)


def test_arguments_stand_over_the_variables(provider, listwise_ids, monkeypatch):
    monkeypatch.setenv("TACTICIAN_RERANK_LIMIT", "many")
    monkeypatch.setenv("TACTICIAN_LLM_MODEL", "another")
    reranker = listwise_ids({"model": "mine"}, depth=4)
    assert (reranker.depth, reranker.method.llm.model) == (4, "mine")


def test_what_is_sent(provider, listwise_ids, rank):
    provider.play(backwards)
    rank(listwise_ids(), QUERY, tactics())
    [request] = provider.requests
    assert request.path == "/openai/v1/chat/completions"
    assert request.key == KEY
    assert request.body["model"] == "gpt-4.1-mini"
    # No schema: those are for objects, and what is asked for is an array.
    assert request.body.keys() == {"model", "messages", "temperature"}


def test_a_compatible_server_needs_no_key(provider, listwise_ids, rank, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    provider.play(backwards)
    ranking = rank(
        listwise_ids({"base_url": provider.base_url("compatible"), "model": "local"}),
        QUERY,
        tactics(),
    )
    assert ids(ranking) == ["t3", "t2", "t1", "t0"]
    assert provider.requests[0].flavour == "compatible"


# ---------------------------------------------------------------------- clients and frameworks


def test_a_fake_client_sees_the_messages(rank):
    seen = []

    def client(messages):
        seen.append(messages)
        return '["t1", "t0"]'

    reranker = Reranker.from_preset("listwise_ids", method={"llm": client})
    assert ids(rank(reranker, QUERY, tactics(2), context=nodes())) == ["t1", "t0"]
    [[system, user]] = seen
    assert (system["role"], user["role"]) == ("system", "user")
    assert "goal 0" in user["content"]


def of_the_preset(provider, **prompt):
    method = {"llm": {"base_url": provider.base_url("openai")}, "prompt": prompt}
    return config.preset("listwise_ids", method=method)


def test_adapters_show_a_description_once(provider):
    haystack = pytest.importorskip("haystack")
    rankers = pytest.importorskip("haystack_integrations.components.rankers.secondpass")
    schema = pytest.importorskip("llama_index.core.schema")
    postprocessor = pytest.importorskip("llama_index.postprocessor.secondpass")
    provider.play(backwards)
    given = [(one.pop("id"), one["description"], one) for one in tactics(2)]
    ranker = rankers.SecondPassRanker(of_the_preset(provider))
    documents = [haystack.Document(id=name, content=text, meta=one) for name, text, one in given]
    ranker.run(query=QUERY, documents=documents)
    ranker.close()
    rerank = postprocessor.SecondPassRerank(of_the_preset(provider))
    found = [schema.TextNode(id_=name, text=text, metadata=one) for name, text, one in given]
    rerank.rerank_nodes([schema.NodeWithScore(node=node) for node in found], QUERY)
    rerank.close()
    for request in provider.requests:
        assert request.documents["t0"].count("how to t0") == 1


@pytest.mark.integration
@pytest.mark.skipif(not os.environ.get("OPENAI_API_KEY"), reason="needs OPENAI_API_KEY")
def test_live():
    reranker = Reranker.from_preset("listwise_ids", strict=True)
    given = [
        Candidate("", "paint-the-office", metadata={"description": "choose colours, buy paint"}),
        Candidate("", "choose-database", metadata={"description": "compare databases, pick one"}),
    ]
    ranking = reranker.rerank("database", given, context=nodes())
    reranker.close()
    assert ids(ranking)[0] == "choose-database"
