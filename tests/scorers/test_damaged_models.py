"""Damaged folders of a model whose order is known: none ranks otherwise and says ``ok``.

What is damaged is in :mod:`damaged_folders`. A damage after which the model still answers obvious
questions, and ranks less obvious ones otherwise, is found by no rule without the author's scores.
"""

import pytest

from damaged_folders import DAMAGES, write_damaged
from overlap_model import QUERIES, right_orders
from secondpass import Reranker, RerankError
from secondpass.scorers.checks import known_answers

DOUBT = known_answers.doubt  # as tests find it, it has no doubts: see conftest.py

RIGHT = {
    "nothing",
    "right ONNX file",
    "no inner layers",  # which are zero
    "old names of norms",
    "half precision",
    "other numbers of words",
}
"""Damages that do no harm, and must not be refused on any engine."""


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(known_answers, "doubt", DOUBT)


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    return right_orders(tmp_path_factory.mktemp("right") / "model")


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_no_other_order_is_ok(tmp_path, orders, name, backend):
    folder = write_damaged(tmp_path / "model", name)
    reranker = Reranker({"type": "cross_encoder", "model": str(folder), "backend": backend})
    found = []
    for strict in (False, True):
        for query, texts in QUERIES.items():
            try:
                ranking = reranker.rerank(query, texts, strict=strict)
            except RerankError:
                assert strict
                continue
            if strict:
                assert ranking.report.status == "ok"
            if ranking.report.status == "ok":
                order = [item.position for item in ranking]
                assert order == orders[query]
                found.append(query)
    if name in RIGHT:
        assert len(found) == 2 * len(QUERIES)
