"""Damaged folders by every way in: both frameworks, and three commands.

As :mod:`test_damaged_models`, which ranks by Python alone: nothing that says ``ok`` has another
order than the undamaged model. Usually with a folder of each kind of damage, in long tests with
all of them.
"""

import json

import pytest
from haystack.dataclasses import Document
from llama_index.core.schema import NodeWithScore, TextNode

from command_calls import called
from damaged_folders import DAMAGES, write_damaged
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from llama_index.postprocessor.secondpass import SecondPassRerank
from overlap_model import QUERIES, right_orders
from secondpass import Reranker, SecondPassError
from secondpass.scorers.checks import known_answers

DOUBT = known_answers.doubt  # as tests find it, it has no doubts: see conftest.py
SAMPLE = {"nothing", "random head", "shifted numbers", "ONNX negated"}
"""Undamaged, doubtful or refused by weights, tokenizer and file."""


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(known_answers, "doubt", DOUBT)


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    return right_orders(tmp_path_factory.mktemp("right") / "model")


def by_haystack(method, strict):
    ranker = SecondPassRanker(Reranker(method, strict=strict))
    for query, texts in QUERIES.items():
        documents = [Document(id=str(index), content=text) for index, text in enumerate(texts)]
        try:
            result = ranker.run(query=query, documents=documents)
        except SecondPassError:
            assert strict
            continue
        yield query, [int(it.id) for it in result["documents"]], result["report"]["status"]


def by_llama_index(method, strict):
    ranker = SecondPassRerank(Reranker(method, strict=strict))
    for query, texts in QUERIES.items():
        nodes = [
            NodeWithScore(node=TextNode(id_=str(index), text=text))
            for index, text in enumerate(texts)
        ]
        try:
            ranked, report = ranker.rerank_nodes(nodes, query)
        except SecondPassError:
            assert strict
            continue
        yield query, [int(it.node.node_id) for it in ranked], report.status


def by_command(method, strict):
    lines = [
        json.dumps({"query": query, "candidates": [{"id": str(i), "text": it} for i, it in all_]})
        for query, all_ in ((query, enumerate(texts)) for query, texts in QUERIES.items())
    ]
    options = ["--set", f"method={json.dumps(method)}", *(["--strict"] if strict else [])]
    told = called("rerank", *options, stdin="\n".join(lines).encode())
    rankings = told.lines()
    if told.code:
        assert strict
        return
    assert len(rankings) == len(QUERIES)
    for query, ranking in zip(QUERIES, rankings, strict=True):
        order = [int(item["id"]) for item in ranking["ranking"]]
        yield query, order, ranking["report"]["status"]


WAYS = {"haystack": by_haystack, "llama_index": by_llama_index, "command": by_command}


KINDS = [pytest.param(name, marks=[] if name in SAMPLE else [pytest.mark.long]) for name in DAMAGES]


@pytest.mark.parametrize("name", KINDS)
def test_no_other_order_is_ok_by_any_way_in(tmp_path, orders, name):
    folder = str(write_damaged(tmp_path / "model", name))
    for backend in ("auto", "torch"):
        method = {"type": "cross_encoder", "model": folder, "backend": backend}
        first = Reranker(method)  # keeps the model loaded for the others
        first.rerank(*next(iter(QUERIES.items())))
        said = []
        for rank in WAYS.values():
            for strict in (False, True):
                rankings = list(rank(method, strict))
                right = [query for query, _, status in rankings if status == "ok"]
                for query, order, status in rankings:
                    assert status == "ok" or not strict
                    assert status != "ok" or order == orders[query]
                said.append(right)
        if name == "nothing":
            assert said == [[*QUERIES]] * 2 * len(WAYS)


@pytest.mark.parametrize("name", KINDS)
def test_doctor_and_export_call_no_other_order_right(tmp_path, orders, name):
    folder = str(write_damaged(tmp_path / "model", name))
    told = called("doctor", folder, "--json")
    if told.code == 0:
        assert orders_by(folder) in (orders, {})
    into = str(tmp_path / "exported")
    done = called("export", folder, "--into", into, "--json")
    if done.code == 0:
        assert orders_by(into) in (orders, {})
    if name == "nothing":
        assert (told.code, done.code, orders_by(folder), orders_by(into)) == (0, 0, orders, orders)


def orders_by(folder):
    """The orders of a folder's model that are ``ok``."""
    reranker = Reranker({"type": "cross_encoder", "model": folder})
    rankings = {query: reranker.rerank(query, texts) for query, texts in QUERIES.items()}
    return {
        query: [item.position for item in ranking]
        for query, ranking in rankings.items()
        if ranking.report.status == "ok"
    }
