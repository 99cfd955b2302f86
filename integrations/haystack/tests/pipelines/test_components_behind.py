"""Before other components, in branches and loops."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import BranchJoiner, DocumentJoiner
from haystack.components.joiners.document_joiner import JoinMode
from haystack.components.rankers import LostInTheMiddleRanker, MetaFieldRanker
from haystack.components.routers import ConditionalRouter
from haystack.dataclasses import ChatMessage

from haystack_documents import Numbers, contents, ids
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_pipelines import (
    QUERY,
    WAYS,
    Broken,
    ByWorth,
    Result,
    Way,
    asking,
    every_way,
    falls,
    numbered,
    retrieving,
)
from rankings import KEYS
from sampling import rotating

# ---------------------------------------------------------------------- before other components


@rotating(joined=list(JoinMode), way=WAYS, method=[ByWorth, Broken])
def test_a_joiner_behind_it_keeps_its_order(way: Way, joined: JoinMode, method: Any) -> None:
    # Broken leaves the order that came in, whose scores may be anything.
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": method()}))
    pipeline.add_component("joiner", DocumentJoiner(joined))
    pipeline.connect("ranker.documents", "joiner.documents")
    documents = [Document(id=name, content=name, score=score) for name, score in UNSORTED]
    data = {"ranker": {"query": QUERY, "documents": documents}}
    result = way(pipeline, data, include_outputs_from={"ranker"})
    ranked = result["ranker"]["documents"]
    assert falls(ranked)
    assert ids(result["joiner"]["documents"]) == ids(ranked)
    if method is Broken:
        assert ids(ranked) == [name for name, _ in UNSORTED]


UNSORTED = [("a", 0.2), ("b", None), ("c", 0.9), ("d", 0.4), ("e", 0.4)]


@every_way
def test_builders_behind_it_get_its_order(way: Way) -> None:
    listing = "{% for one in documents %}{{ one.content }}|{% endfor %}"
    pipeline = retrieving(SecondPassRanker({"method": ByWorth()}, top_k=3))
    pipeline.add_component("prompt", PromptBuilder(listing, required_variables="*"))
    chat = ChatPromptBuilder([ChatMessage.from_user(listing)], required_variables="*")
    pipeline.add_component("chat", chat)
    pipeline.add_component("llm", MockChatGenerator("It opens at nine [2]."))
    referring: Result = {
        "reference_pattern": r"\[(\d+)\]",
        "return_only_referenced_documents": False,
    }
    pipeline.add_component("answers", AnswerBuilder(**referring))
    for name in ("prompt", "chat", "answers"):
        pipeline.connect("ranker.documents", f"{name}.documents")
    pipeline.connect("chat.prompt", "llm.messages")
    pipeline.connect("llm.replies", "answers.replies")
    data = asking("retriever", "ranker", "answers")
    result = way(pipeline, data, include_outputs_from={"ranker", "chat"})
    ranked = result["ranker"]["documents"]
    expected = "".join(f"{text}|" for text in contents(ranked))
    assert len(ranked) == 3
    assert result["prompt"]["prompt"] == expected
    assert result["chat"]["prompt"][0].text == expected
    (answer,) = result["answers"]["answers"]
    assert [document.id for document in answer.documents if document.meta["referenced"]] == [
        ranked[1].id
    ]
    assert ids(answer.documents) == ids(ranked)
    assert answer.documents[0].meta.keys() >= KEYS


@every_way
def test_other_rankers_behind_it_start_from_its_order(way: Way) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": Numbers()}))
    pipeline.add_component("middle", LostInTheMiddleRanker())
    pipeline.add_component("same", MetaFieldRanker("year"))
    linear = MetaFieldRanker("weight", weight=0.25, ranking_mode="linear_score")
    pipeline.add_component("weighed", linear)
    for name in ("middle", "same", "weighed"):
        pipeline.connect("ranker.documents", f"{name}.documents")
    documents = [
        Document(id=f"d{index}", content=f"number {score}", meta={"year": 1386, "weight": weight})
        for index, (score, weight) in enumerate([(0.2, 3), (0.9, 0), (0.5, 1), (0.7, 0)])
    ]
    result = way(
        pipeline,
        {"ranker": {"query": QUERY, "documents": documents}},
        include_outputs_from={"ranker"},
    )
    assert ids(result["ranker"]["documents"]) == ["d1", "d3", "d2", "d0"]
    assert ids(result["middle"]["documents"]) == ["d1", "d2", "d0", "d3"]
    assert ids(result["same"]["documents"]) == ["d1", "d3", "d2", "d0"]
    # Our scores are what it weighs: 0.9 * 0.75 + a share of 0.25 for the place by weight.
    assert ids(result["weighed"]["documents"])[0] == "d1"
    assert falls(result["weighed"]["documents"])


# ---------------------------------------------------------------------- branches and loops


@every_way
@pytest.mark.parametrize(("method", "branch"), [(ByWorth, "good"), (Broken, "bad")])
def test_a_router_branches_on_the_report(way: Way, method: Any, branch: str) -> None:
    routes: Any = [
        {
            "condition": "{{ report['status'] == 'ok' }}",
            "output": "{{ documents }}",
            "output_name": "good",
            "output_type": list[Document],
        },
        {
            "condition": "{{ report['status'] != 'ok' }}",
            "output": "{{ report['issues'][0]['code'] }}",
            "output_name": "bad",
            "output_type": str,
        },
    ]
    pipeline = retrieving(SecondPassRanker({"method": method()}))
    pipeline.add_component("router", ConditionalRouter(routes, unsafe=True))
    pipeline.connect("ranker.documents", "router.documents")
    pipeline.connect("ranker.report", "router.report")
    data = asking("retriever", "ranker")
    result = way(pipeline, data, include_outputs_from={"ranker"})
    assert set(result["router"]) == {branch}
    if branch == "good":
        assert ids(result["router"]["good"]) == ids(result["ranker"]["documents"])
    else:
        assert result["router"]["bad"] == "scorer_raised"
    assert set(result["ranker"]) == {"documents", "report"}


@component
class Widen:
    """Sends documents back to be judged twice as deep, until the best is good enough."""

    @component.output_types(done=list[Document], again=list[Document], depth=int)
    def run(self, documents: list[Document], report: dict[str, Any]) -> Result:
        if documents[0].meta["rerank_score"] >= 9:
            return {"done": documents}
        return {"again": documents, "depth": 2 * report["usage"]["pairs"]}


@every_way
def test_in_a_loop_it_judges_deeper_until_it_is_good(way: Way) -> None:
    pipeline = Pipeline()
    pipeline.add_component("start", BranchJoiner(list[Document]))
    pipeline.add_component("ranker", SecondPassRanker({"method": Numbers()}, depth=1))
    pipeline.add_component("widen", Widen())
    pipeline.connect("start.value", "ranker.documents")
    pipeline.connect("ranker.documents", "widen.documents")
    pipeline.connect("ranker.report", "widen.report")
    pipeline.connect("widen.again", "start.value")
    pipeline.connect("widen.depth", "ranker.depth")
    documents = numbered(1, 2, 3, 9, 5, 6)
    data = {"start": {"value": documents}, "ranker": {"query": QUERY}}
    result = way(pipeline, data, include_outputs_from={"ranker"})
    # 1, then 2 of 6, then 4: the order of each round is where the next one starts.
    assert result["ranker"]["report"]["usage"]["pairs"] == 4
    done = result["widen"]["done"]
    assert ids(done) == ["d3", "d2", "d1", "d0", "d4", "d5"]
    # What the first retriever said stays, however often it was ranked.
    came = {one.id: one.meta["retrieval_score"] for one in done}
    assert came == {document.id: document.score for document in documents}
    assert [one.meta["rerank_status"] for one in done] == ["scored"] * 4 + ["tail"] * 2
