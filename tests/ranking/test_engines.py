"""How local models ran, as reports list it."""

from dataclasses import replace

import pytest

from fakes import ByTable
from secondpass import EngineInfo, Report, Reranker
from secondpass.strategies.cascade import Cascade

INFO = EngineInfo("", "openvino", "bfloat16", 2, "up to 1,024 tokens, sorted by length", "fastest")


class Engine:
    """Scores by length; its engine is there once it has scored."""

    def __init__(self, name="engine", engine=INFO, scores=None):
        self.model_name = name
        self.scores = scores
        self.engine = None
        self.loaded = engine

    def score_pairs(self, query, documents):
        self.engine = self.loaded
        return [float(len(text)) for text in documents] if self.scores is None else self.scores


class Raising(Engine):
    @property
    def engine(self):
        raise LookupError

    @engine.setter
    def engine(self, value):
        pass


def named(name):
    return replace(INFO, method=name)


failing = {"scores": "no list"}
CASES = {
    # the method and its fallbacks; the engines
    "one": ([Engine()], [named("engine")]),
    "none": ([ByTable()], []),
    "named before": ([Engine(engine=named("other"))], [named("engine")]),
    "not loaded": ([Engine(engine=None)], []),
    "no EngineInfo": ([Engine(engine={"backend": "torch"})], []),
    "no number of threads": ([Engine(engine=replace(INFO, threads="2"))], []),
    "raises": ([Raising()], []),
    "fails": ([Engine(**failing)], [named("engine")]),
    "fallback": ([Engine("a", **failing), Engine("b")], [named("a"), named("b")]),
    "unused fallback": ([Engine("a"), Engine("b")], [named("a")]),
    "failed stage": ([Cascade([Engine("a"), Engine("b", **failing)])], [named("a"), named("b")]),
    "same twice": ([Cascade([Engine("a"), Engine("a")])], [named("a")]),
}


@pytest.mark.parametrize(("methods", "expected"), CASES.values(), ids=CASES)
def test_reports_list_engines(methods, expected):
    method, *fallback = methods
    report = Reranker(method, fallback=fallback).rerank("q", ["a", "bb", "ccc"]).report
    assert report.engines == tuple(expected)


def test_dict_of_a_report():
    report = Report("ok", engines=(named("engine"),))
    assert report.to_dict()["engines"] == [
        {
            "method": "engine",
            "backend": "openvino",
            "precision": "bfloat16",
            "threads": 2,
            "batch_rule": "up to 1,024 tokens, sorted by length",
            "reason": "fastest",
        }
    ]
