"""Evaluators."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.evaluation import (
    BaseEvaluator,
    BatchEvalRunner,
    EvaluationResult,
    RetrieverEvaluator,
)
from llama_index.core.schema import NodeWithScore, TextNode

from llama_engines import QUERY, TEXTS, Retrieved, by_overlap, engine_of, inside_a_loop, nodes_of
from llama_index.postprocessor.secondpass import SecondPassRerank


def test_a_retriever_evaluator_measures_the_second_pass() -> None:
    def evaluator(*behind: SecondPassRerank) -> RetrieverEvaluator:
        return RetrieverEvaluator.from_metric_names(
            ["mrr", "hit_rate", "precision"],
            retriever=Retrieved(*nodes_of()),
            node_postprocessors=list(behind),
        )

    shared = by_overlap(top_n=1)
    with_pass = evaluator(shared)
    assert with_pass.node_postprocessors is not None
    assert with_pass.node_postprocessors[0] is shared
    before = evaluator().evaluate(QUERY, ["red"]).metric_vals_dict
    after = with_pass.evaluate(QUERY, ["red"]).metric_vals_dict
    assert before["mrr"] == pytest.approx(1 / 5)
    assert after == {"mrr": 1.0, "hit_rate": 1.0, "precision": 1.0}
    # The evaluator calls the synchronous side from within its own asynchronous one.
    assert asyncio.run(with_pass.aevaluate(QUERY, ["red"])).metric_vals_dict == after
    assert inside_a_loop(lambda: with_pass.evaluate(QUERY, ["red"])).metric_vals_dict == after


def test_a_retriever_evaluator_measures_many_side_by_side() -> None:
    evaluator = RetrieverEvaluator.from_metric_names(
        ["mrr"], retriever=Retrieved(*nodes_of()), node_postprocessors=[by_overlap()]
    )

    async def go() -> list[Any]:
        return await asyncio.gather(
            *(evaluator.aevaluate(text, [name]) for name, text in TEXTS.items())
        )

    assert [one.metric_vals_dict["mrr"] for one in asyncio.run(go())] == [1.0] * len(TEXTS)


class BestIs(BaseEvaluator):
    """Reranks by the synchronous side, inside the loop of the runner."""

    postprocessor: Any = None

    def __init__(self, postprocessor: SecondPassRerank) -> None:
        self.postprocessor = postprocessor

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...

    async def aevaluate(
        self, query: Any = None, response: Any = None, contexts: Any = None, **kwargs: Any
    ) -> EvaluationResult:
        asyncio.get_running_loop()
        nodes = [NodeWithScore(node=TextNode(text=one)) for one in contexts]
        best = self.postprocessor.postprocess_nodes(nodes, query_str=query)[0]
        return EvaluationResult(query=query, passing=best.text == contexts[0], score=best.score)


@pytest.mark.filterwarnings("ignore:asyncio_module:DeprecationWarning")
def test_a_batch_of_evaluations_of_an_engine() -> None:
    shared = by_overlap()
    runner = BatchEvalRunner({"best": BestIs(shared)}, workers=4)
    engine = engine_of(Retrieved(*nodes_of()), shared, response_mode="no_text")
    queries = list(TEXTS.values())
    results = runner.evaluate_queries(engine, queries=queries)["best"]
    assert [result.query for result in results] == queries
    # What was best in the engine still is.
    assert [result.passing for result in results] == [True] * len(queries)
