"""Damaged folders of a model whose order is known: none ranks otherwise and says ``ok``.

What is damaged is in :mod:`damaged_folders`. A damage after which the model still answers obvious
questions, and ranks less obvious ones otherwise, is found by no rule without the author's scores.
"""

import shutil

import pytest

from checkpoint_folders import embedder, modular, sparse
from damaged_folders import DAMAGES, write_damaged
from family_models import write_causal_family
from overlap_model import QUERIES, right_orders
from secondpass import Reranker, RerankError
from secondpass.scorers import choice
from secondpass.scorers.checks import known_answers
from static_models import write_static, write_trained
from tiny_models import write_classifier, write_late_interaction, write_onnx

LONG = pytest.mark.long
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


def light(folder):
    return write_onnx(write_classifier(folder))


KINDS = {
    "static": write_static,
    "static, trained": write_trained,
    "classifier": write_classifier,
    "classifier with a file": light,
    "modules": modular,
    "bi-encoder": embedder,
    "sparse vectors": sparse,
    "late interaction": write_late_interaction,
    "language model": lambda folder: write_causal_family(folder, "Qwen3"),
}
CONTENTS = {
    "half": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "zeros": lambda content: bytes(len(content)),
    "a list": lambda _: b"[1]",
    "a number": lambda _: b"1",
    "an object": lambda _: b"{}",
    "no UTF-8": lambda _: b"\xff\xfe{}",
    "nothing": None,
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in {"static", "classifier with a file"} else LONG)
        for kind in KINDS
    ],
)
def test_a_damaged_file_is_a_model_that_is_not_loaded(tmp_path, monkeypatch, kind):
    """Whichever it is, in models of all kinds: one attempt for both rankings, and one code."""
    loads = []
    load = choice.load
    monkeypatch.setattr(choice, "load", lambda settings: loads.append(1) or load(settings))
    (tmp_path / "right").mkdir()
    right = KINDS[kind](tmp_path / "right" / "Qwen3-Reranker-0.6B")  # the name of that family
    names = [path.relative_to(right) for path in right.rglob("*") if path.is_file()]
    refused = 0
    for number, name in enumerate(names):
        for place, content in enumerate(CONTENTS.values()):
            folder = tmp_path / f"{number} {place}" / right.name
            shutil.copytree(right, folder)
            if content is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(content((right / name).read_bytes()))
            reranker = Reranker({"type": "cross_encoder", "model": str(folder), "device": "cpu"})
            loads.clear()
            reports = [reranker.rerank("cat", ["dog", "the cat"]).report for _ in range(2)]
            codes = {issue.code for report in reports for issue in report.issues}
            assert codes <= {"model_not_loaded", "text_truncated"}, (name, place, reports)
            assert len(loads) == 1
            refused += "model_not_loaded" in codes
            shutil.rmtree(folder)
    assert refused > len(names)
