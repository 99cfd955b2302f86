"""The node postprocessor beside real LlamaIndex components; one test or more per contract item."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import pickle
import re
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.indices import VectorStoreIndex
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import (
    Document,
    ImageNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from pydantic import Field, ValidationError

from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import (
    Candidate,
    ConfigurationError,
    MissingExtraError,
    NotSerializableError,
    Reranker,
    RerankError,
)
from secondpass.effects import ListScores

QUERY = "red panda"
KEYS = {
    "rerank_score",
    "rerank_final_score",
    "retrieval_score",
    "rerank_rank",
    "rerank_status",
}


class Fixed:
    """Returns the scores that it was given, whatever the documents."""

    model_name = "fixed"

    def __init__(self, *scores: Any) -> None:
        self.scores = list(scores)
        self.seen: list[list[str]] = []

    def score_pairs(self, query: str, documents: list[str]) -> list[Any]:
        self.seen.append(documents)
        return self.scores[: len(documents)]


class ByLength:
    """The longer the text, the higher the score."""

    model_name = "by-length"

    def __init__(self) -> None:
        self.calls = 0
        self.threads: set[int] = set()

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.calls += 1
        self.threads.add(threading.get_ident())
        return [float(len(document)) for document in documents]


class Failing:
    model_name = "failing"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        raise RuntimeError("the service is down")


class Answer:
    """Returns one object, whatever it is asked."""

    model_name = "answer"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def score_pairs(self, query: str, documents: list[str]) -> Any:
        return self.answer


class Given(BaseRetriever):
    """Retrieves the nodes that it was given."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(self.nodes)


class Events(BaseEventHandler):
    seen: list[Any] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **kwargs: Any) -> None:
        if isinstance(event, ReRankStartEvent | ReRankEndEvent):
            self.seen.append(event)


class Callbacks(BaseCallbackHandler):
    def __init__(self) -> None:
        super().__init__([], [])
        self.seen: list[tuple[str, CBEventType, dict[str, Any]]] = []

    def on_event_start(self, event_type: Any, payload: Any = None, **kwargs: Any) -> str:
        self.seen.append(("start", event_type, payload))
        return ""

    def on_event_end(self, event_type: Any, payload: Any = None, **kwargs: Any) -> None:
        self.seen.append(("end", event_type, payload))

    def start_trace(self, trace_id: str | None = None) -> None: ...

    def end_trace(self, trace_id: Any = None, trace_map: Any = None) -> None: ...


@pytest.fixture
def events() -> Iterator[list[Any]]:
    root = get_dispatcher()
    handler = Events()
    root.event_handlers.append(handler)
    yield handler.seen
    root.event_handlers.remove(handler)


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    root = get_dispatcher()
    handler = SimpleSpanHandler()
    root.span_handlers.append(handler)
    yield handler
    root.span_handlers.remove(handler)


def node(text: str, score: float | None = None, **kwargs: Any) -> NodeWithScore:
    return NodeWithScore(node=TextNode(text=text, **kwargs), score=score)


def pandas() -> list[NodeWithScore]:
    return [
        node("A car has four wheels.", 0.9, id_="car", metadata={"page": 0, "tags": ["a"]}),
        node("The red panda eats bamboo.", 0.8, id_="panda", metadata={"page": 1}),
        node("A panda is a bear.", 0.7, id_="bear"),
    ]


def with_scorer(scorer: object, **settings: Any) -> SecondPassRerank:
    return SecondPassRerank(Reranker(scorer, log_level="debug", **settings))


def texts(nodes: list[NodeWithScore]) -> list[str]:
    return [one.node.get_content() for one in nodes]


def plain(nodes: list[NodeWithScore]) -> list[dict[str, Any]]:
    return [one.to_dict() for one in nodes]


# ---------------------------------------------------------------- 1: the class and its settings


def test_item_01_is_a_node_postprocessor_with_a_stable_name() -> None:
    assert issubclass(SecondPassRerank, BaseNodePostprocessor)
    assert SecondPassRerank.class_name() == "SecondPassRerank"
    assert SecondPassRerank.model_json_schema()["properties"]["class_name"]["default"] == (
        "SecondPassRerank"
    )


def test_item_01_unknown_arguments_are_refused() -> None:
    with pytest.raises(ValidationError, match="top_k"):
        SecondPassRerank("lexical", top_k=3)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "3", True])
@pytest.mark.parametrize("name", ["top_n", "depth"])
def test_item_01_numbers_are_checked(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=name):
        SecondPassRerank("lexical", **{name: wrong})
    reranker = SecondPassRerank("lexical")
    with pytest.raises(ValueError, match=name):
        setattr(reranker, name, wrong)
    assert getattr(reranker, name) is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("lexicla", "lexical"),
        ({"method": "lexical", "deepth": 3}, "depth"),
        (Path("absent.yaml"), "no such file"),
        (42, "preset name"),
        (None, "preset name"),
    ],
)
def test_item_01_a_wrong_reranker_is_refused_at_construction(wrong: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        SecondPassRerank(wrong)


def test_item_01_top_n_limits_and_can_be_assigned() -> None:
    reranker = SecondPassRerank("lexical", top_n=2)
    assert len(reranker.postprocess_nodes(pandas(), query_str=QUERY)) == 2
    reranker.top_n = 1
    assert len(reranker.postprocess_nodes(pandas(), query_str=QUERY)) == 1
    reranker.top_n = None
    assert len(reranker.postprocess_nodes(pandas(), query_str=QUERY)) == 3


def test_item_01_depth_leaves_a_tail() -> None:
    ranked = SecondPassRerank("lexical", depth=1).postprocess_nodes(pandas(), query_str=QUERY)
    assert [one.metadata["rerank_status"] for one in ranked] == ["scored", "tail", "tail"]


@pytest.mark.parametrize(
    ("name", "core_name", "value"),
    [("top_n", "top_k", 2), ("depth", "depth", 2), ("dedupe", "dedupe", False),
     ("strict", "strict", False)],
)  # fmt: skip
def test_conflicts_are_refused_and_named(name: str, core_name: str, value: Any) -> None:
    both = f"(?si){name}.*{core_name}.*"
    given = {core_name: value, "depth": 3} if core_name == "top_k" else {}
    with pytest.raises(ConfigurationError, match=both):
        SecondPassRerank(Reranker("lexical", **given), **{name: value})
    with pytest.raises(ConfigurationError, match=both):
        SecondPassRerank({"method": "lexical", core_name: value}, **{name: value})
    SecondPassRerank({"method": "lexical"}, **{name: value})


def test_the_default_is_the_preset_default() -> None:
    assert SecondPassRerank.model_fields["reranker"].default == "default"
    try:
        reranker = SecondPassRerank()
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert reranker.to_dict()["reranker"] == "default"


def test_conflicts_are_refused_on_assignment_too() -> None:
    reranker = SecondPassRerank(Reranker("lexical", top_k=2))
    with pytest.raises(ValueError, match="top_k"):
        reranker.top_n = 3
    with pytest.raises(ValueError, match="frozen"):
        reranker.reranker = "lexical"


def test_preset_mapping_yaml_and_object_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("method: {type: lexical}\n")
    sources: list[Any] = [
        "lexical", {"method": "lexical"}, file, str(file), Reranker("lexical"),
    ]  # fmt: skip
    ranked = [SecondPassRerank(one).postprocess_nodes(pandas(), query_str=QUERY) for one in sources]
    assert texts(ranked[0])[0] == "The red panda eats bamboo."
    assert all(plain(one) == plain(ranked[0]) for one in ranked)


def test_dedupe_keeps_the_best_of_each_id_only_when_asked_for() -> None:
    nodes = [node("panda", 0.1, id_="a"), node("red panda", 0.9, id_="a"), node("x", 0.5, id_="b")]
    assert len(SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)) == 3
    ranked, report = SecondPassRerank("lexical", dedupe=True).rerank_nodes(nodes, QUERY)
    assert texts(ranked) == ["red panda", "x"]
    assert report.left_out == {"duplicate": (0,)}


# ---------------------------------------------------------------- 2: models, copies, serialisation


def test_item_02_nothing_is_scored_at_construction_and_the_scorer_is_kept() -> None:
    scorer = ByLength()
    reranker = with_scorer(scorer)
    assert scorer.calls == 0
    for _ in range(2):
        reranker.postprocess_nodes(pandas(), query_str=QUERY)
    assert scorer.calls == 2


@pytest.mark.parametrize(
    "made",
    [
        lambda: SecondPassRerank("lexical", top_n=2, metadata_prefix="x_"),
        lambda: SecondPassRerank({"method": {"type": "lexical", "k1": 0.5}, "depth": 2}),
        lambda: SecondPassRerank(
            {"method": "lexical"}, depth=2, strict=True, dedupe=True, metadata_mode="all"
        ),
        lambda: SecondPassRerank(Reranker("lexical", top_k=2, depth=None)),
    ],
)
def test_item_02_json_dict_pickle_and_deepcopy_round_trip(made: Any) -> None:
    reranker = made()
    expected = reranker.to_dict()
    assert expected["class_name"] == "SecondPassRerank"
    assert "callback_manager" not in expected
    others = [
        SecondPassRerank.from_json(reranker.to_json()),
        SecondPassRerank.from_dict(reranker.to_dict()),
        SecondPassRerank.model_validate(json.loads(reranker.model_dump_json())),
        pickle.loads(pickle.dumps(reranker)),
        copy.deepcopy(reranker),
        copy.copy(reranker),
        reranker.model_copy(deep=True),
    ]
    ranked = plain(reranker.postprocess_nodes(pandas(), query_str=QUERY))
    for other in others:
        assert other.to_dict() == expected
        assert plain(other.postprocess_nodes(pandas(), query_str=QUERY)) == ranked


def test_item_02_a_file_is_serialised_by_what_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("{method: lexical, depth: 9, top_k: 2}")
    reranker = SecondPassRerank(file, depth=1)
    file.unlink()
    again = SecondPassRerank.from_json(reranker.to_json())
    assert again.reranker == {"method": {"type": "lexical"}, "top_k": 2}
    assert again.depth == 1


def test_item_02_from_json_takes_replacements() -> None:
    data = SecondPassRerank("lexical", top_n=3).to_json()
    assert SecondPassRerank.from_json(data, top_n=1).top_n == 1


@pytest.mark.parametrize("given", [Reranker(ByLength()), {"method": ByLength()}])
def test_item_02_an_object_without_a_name_is_not_serialised_but_shared(given: Any) -> None:
    reranker = SecondPassRerank(given)
    for write in (reranker.to_json, reranker.to_dict, reranker.model_dump):
        with pytest.raises(NotSerializableError, match="ByLength"):
            write()
    copied = copy.deepcopy({"inside": [reranker]})["inside"][0]
    assert copied is not reranker
    if isinstance(given, Reranker):
        assert copied.reranker is given
    assert plain(copied.postprocess_nodes(pandas(), query_str=QUERY)) == plain(
        reranker.postprocess_nodes(pandas(), query_str=QUERY)
    )


def test_item_02_a_changed_copy_does_what_it_says() -> None:
    reranker = SecondPassRerank("lexical")
    assert len(reranker.model_copy(update={"top_n": 1}).postprocess_nodes(pandas(), None, "a")) == 1
    other = reranker.model_copy(update={"reranker": {"method": ByLength()}})
    assert texts(other.postprocess_nodes(pandas(), query_str=QUERY))[0].startswith("The red")
    failing = SecondPassRerank({"method": Failing(), "log_level": "debug"})
    deep = failing.model_copy(update={"strict": True}, deep=True)
    with pytest.raises(RerankError):
        deep.postprocess_nodes(pandas(), query_str=QUERY)
    assert len(failing.postprocess_nodes(pandas(), query_str=QUERY)) == 3


def test_item_02_a_deep_copy_shares_no_configuration() -> None:
    reranker = SecondPassRerank({"method": {"type": "lexical"}, "top_k": 2})
    for copied in (reranker.model_copy(deep=True), reranker.model_copy(update={}, deep=True)):
        copied.reranker["method"]["type"] = "other"
        assert reranker.reranker["method"] == {"type": "lexical"}


def test_item_02_no_handler_is_serialised() -> None:
    manager = CallbackManager([Callbacks()])
    reranker = SecondPassRerank("lexical", callback_manager=manager)
    assert "callback" not in reranker.to_json()
    assert copy.deepcopy(reranker).callback_manager is manager
    assert pickle.loads(pickle.dumps(reranker)).callback_manager is not manager


# ---------------------------------------------------------------- 3: sync and async


def test_item_03_sync_and_async_give_the_same() -> None:
    for scorer in (ByLength(), Failing(), Fixed(0.2, math.nan, 0.9)):
        reranker = with_scorer(scorer)
        sync = reranker.postprocess_nodes(pandas(), query_str=QUERY)
        again = asyncio.run(reranker.apostprocess_nodes(pandas(), query_str=QUERY))
        assert plain(sync) == plain(again)
        first, report = reranker.rerank_nodes(pandas(), QUERY)
        second, other = asyncio.run(reranker.arerank_nodes(pandas(), QueryBundle(QUERY)))
        assert plain(first) == plain(second) == plain(sync)
        assert (report.status, report.issues) == (other.status, other.issues)


def test_item_03_sync_works_inside_a_running_loop() -> None:
    async def inside() -> list[NodeWithScore]:
        return SecondPassRerank("lexical").postprocess_nodes(pandas(), query_str=QUERY)

    assert len(asyncio.run(inside())) == 3


def test_item_03_async_does_not_hold_the_loop() -> None:
    scorer = ByLength()
    asyncio.run(with_scorer(scorer).apostprocess_nodes(pandas(), query_str=QUERY))
    assert threading.get_ident() not in scorer.threads


def test_item_03_both_have_a_span(spans: SimpleSpanHandler) -> None:
    reranker = SecondPassRerank("lexical")
    reranker.postprocess_nodes(pandas(), query_str=QUERY)
    asyncio.run(reranker.apostprocess_nodes(pandas(), query_str=QUERY))
    names = [span.id_.split("-")[0] for span in spans.completed_spans]
    assert names == ["SecondPassRerank._postprocess_nodes", "SecondPassRerank._apostprocess_nodes"]


def test_item_03_sixteen_tasks_at_once() -> None:
    reranker = with_scorer(ByLength())

    async def one(number: int) -> list[str]:
        nodes = [node("x" * (1 + (at * 7 + number) % 11), 0.5) for at in range(11)]
        return texts(await reranker.apostprocess_nodes(nodes, query_str=str(number)))

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(one(number) for number in range(16)))

    expected = ["x" * length for length in range(11, 0, -1)]
    assert asyncio.run(all_of_them()) == [expected] * 16


# ---------------------------------------------------------------- 4: events


def test_item_04_start_and_end_events(events: list[Any]) -> None:
    reranker = with_scorer(ByLength())
    bundle = QueryBundle(QUERY)
    ranked = reranker.postprocess_nodes(pandas(), bundle)
    start, end = events
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(end, ReRankEndEvent)
    assert (start.query, start.top_n, start.model_name) == (bundle, 3, "by-length")
    assert plain(start.nodes) == plain(pandas_like(start.nodes))
    assert plain(end.nodes) == plain(ranked)


def pandas_like(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
    fresh = pandas()
    assert [one.node_id for one in nodes] == [one.node_id for one in fresh]
    return fresh


def test_item_04_events_hold_snapshots(events: list[Any]) -> None:
    nodes = pandas()
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    start, end = events
    before, after = plain(start.nodes), plain(end.nodes)
    for one in nodes + ranked:
        one.score = -1.0
        one.node.metadata["new"] = "value"
        one.node.set_content("another text")
    nodes.clear()
    ranked.clear()
    assert plain(start.nodes) == before
    assert plain(end.nodes) == after


@pytest.mark.parametrize(
    ("reranker", "nodes", "top_n"),
    [
        (SecondPassRerank("lexical", top_n=2), pandas(), 2),
        (SecondPassRerank({"method": "lexical", "top_k": 1}), pandas(), 1),
        (SecondPassRerank("lexical"), [], 0),
        (with_scorer(Failing()), pandas(), 3),
    ],
)
def test_item_04_events_also_when_empty_or_failing(
    reranker: SecondPassRerank, nodes: list[NodeWithScore], top_n: int, events: list[Any]
) -> None:
    ranked = reranker.postprocess_nodes(nodes, query_str=QUERY)
    ranked += asyncio.run(reranker.apostprocess_nodes(nodes, query_str=QUERY))
    assert [type(event) for event in events] == [ReRankStartEvent, ReRankEndEvent] * 2
    assert events[0].top_n == top_n
    assert plain(events[1].nodes) + plain(events[3].nodes) == plain(ranked)


def test_item_04_callbacks_through_whatever_manager_is_set() -> None:
    reranker = SecondPassRerank("lexical", top_n=2)
    handler = Callbacks()
    reranker.callback_manager = CallbackManager([handler])
    ranked = reranker.postprocess_nodes(pandas(), query_str=QUERY)
    (start, kind, told), (end, _, result) = handler.seen
    assert (start, end, kind) == ("start", "end", CBEventType.RERANKING)
    assert told[EventPayload.QUERY_STR] == QUERY
    assert told[EventPayload.TOP_K] == 2
    assert told[EventPayload.MODEL_NAME] == Reranker("lexical").method.name
    assert len(told[EventPayload.NODES]) == 3
    kept = plain(result[EventPayload.NODES])
    assert kept == plain(ranked)
    ranked[0].node.set_content("another text")
    assert plain(result[EventPayload.NODES]) == kept


def test_item_04_under_strict_the_callback_ends_with_the_error() -> None:
    handler = Callbacks()
    reranker = SecondPassRerank(
        Reranker(Failing(), strict=True, log_level="debug"),
        callback_manager=CallbackManager([handler]),
    )
    with pytest.raises(RerankError) as caught:
        reranker.postprocess_nodes(pandas(), query_str=QUERY)
    assert handler.seen[-1][2][EventPayload.EXCEPTION] is caught.value


# ---------------------------------------------------------------- 5: no query, no nodes


def test_item_05_a_missing_query_is_an_error() -> None:
    reranker = SecondPassRerank("lexical")
    for nodes in (pandas(), []):
        with pytest.raises(ValueError, match="query"):
            reranker.postprocess_nodes(nodes)
        with pytest.raises(ValueError, match="query"):
            asyncio.run(reranker.apostprocess_nodes(nodes))


def test_item_05_no_nodes_no_call() -> None:
    scorer = ByLength()
    reranker = with_scorer(scorer)
    assert reranker.postprocess_nodes([], query_str=QUERY) == []
    assert asyncio.run(reranker.apostprocess_nodes([], query_str=QUERY)) == []
    assert reranker.rerank_nodes([], QUERY)[1].status == "ok"
    assert scorer.calls == 0


# ---------------------------------------------------------------- 6: what goes in and comes out


def test_item_06_inputs_are_never_mutated() -> None:
    nodes = pandas()
    before = plain(nodes)
    same = [one.node for one in nodes]
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    for one in ranked:
        one.score = -1.0
        one.node.metadata["new"] = 1
        one.node.excluded_llm_metadata_keys.append("new")
        one.node.excluded_embed_metadata_keys.append("new")
        one.node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="other")
        one.node.set_content("another text")
    assert plain(nodes) == before
    assert all(one.node is node for one, node in zip(nodes, same, strict=True))


def test_item_06_id_relationships_metadata_and_type_are_kept() -> None:
    related = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")}
    tags = ["a", "b"]
    metadata = {"page": 0, "empty": "", "none": None, "tags": tags}
    given = node("red panda", 0.5, id_="n", relationships=related, embedding=[1.0, 2.0])
    given.node.metadata = metadata
    given.node.excluded_llm_metadata_keys = ["page"]
    (ranked,) = SecondPassRerank("lexical").postprocess_nodes([given], query_str=QUERY)
    out = ranked.node
    assert type(out) is TextNode
    assert (out.node_id, out.relationships, out.embedding) == ("n", related, [1.0, 2.0])
    assert {key: out.metadata[key] for key in metadata} == metadata
    assert out.metadata["tags"] is given.node.metadata["tags"]
    assert out.excluded_llm_metadata_keys[0] == "page"


class Found(NodeWithScore):
    """What a retriever of one's own may return."""

    shard: str


def test_item_06_a_scored_node_stays_of_its_class(events: list[Any]) -> None:
    given = [Found(node=one.node, score=one.score, shard=one.node_id) for one in pandas()]
    ranked = SecondPassRerank("lexical").postprocess_nodes(given, query_str=QUERY)
    for told in (ranked, events[0].nodes, events[-1].nodes):
        assert {(type(one), one.shard) for one in told} == {(Found, one.node_id) for one in given}
        assert all(one.shard == one.node_id for one in told)
    assert not any(one is other for one in ranked for other in given)


def test_item_06_what_is_added_is_kept_out_of_prompts_and_embeddings() -> None:
    nodes = pandas()
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    by_id = {one.node_id: one.node for one in nodes}
    for one in ranked:
        assert one.node.metadata.keys() >= KEYS
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert one.node.get_content(mode) == by_id[one.node_id].get_content(mode)


def test_item_06_a_second_pass_keeps_the_first_retrieval_score() -> None:
    reranker = SecondPassRerank("lexical")
    first = reranker.postprocess_nodes(pandas(), query_str=QUERY)
    second = reranker.postprocess_nodes(first, query_str="bear")
    assert second[0].node_id == "bear"
    assert [one.metadata["rerank_rank"] for one in second] == [1, 2, 3]
    retrieved = {one.node_id: one.score for one in pandas()}
    for one in second:
        assert one.metadata["retrieval_score"] == retrieved[one.node_id]
        assert sorted(one.node.excluded_llm_metadata_keys) == sorted(KEYS)


def test_item_06_foreign_keys_are_left_alone_and_a_prefix_makes_room() -> None:
    given = node("red panda", 0.5, metadata={"rerank_score": "theirs", "retrieval_score": 7})
    (out,) = SecondPassRerank("lexical").postprocess_nodes([given], query_str=QUERY)
    assert (out.metadata["rerank_score"], out.metadata["retrieval_score"]) == ("theirs", 7)
    prefixed = SecondPassRerank("lexical", metadata_prefix="secondpass_")
    (out,) = prefixed.postprocess_nodes([given], query_str=QUERY)
    assert out.metadata["rerank_score"] == "theirs"
    assert out.metadata["secondpass_retrieval_score"] == 0.5
    assert "secondpass_rerank_score" in out.node.excluded_embed_metadata_keys


def test_item_06_repeated_ids_and_texts_stay_apart() -> None:
    nodes = [node("same", at / 10, id_="same", metadata={"at": at}) for at in range(5)]
    scorer = Fixed(1.0, 5.0, 3.0, 2.0, 4.0)
    ranked = with_scorer(scorer).postprocess_nodes(nodes, query_str=QUERY)
    assert [one.metadata["at"] for one in ranked] == [1, 4, 2, 3, 0]
    assert [one.score for one in ranked] == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert [one.metadata["retrieval_score"] for one in ranked] == [0.1, 0.4, 0.2, 0.3, 0.0]


def test_item_06_the_order_is_the_cores() -> None:
    nodes = pandas()
    ranking = Reranker("lexical").rerank(QUERY, [Candidate(one.text) for one in nodes])
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    assert [one.node_id for one in ranked] == [nodes[at].node_id for at in ranking.order]
    assert [one.metadata["rerank_score"] for one in ranked] == [i.rerank_score for i in ranking]


@pytest.mark.parametrize("scorer", [Failing(), Answer("5"), Answer([0.1]), Answer(None)])
def test_a_scorer_that_fails_leaves_the_order_that_came_in(scorer: Any) -> None:
    ranked, report = with_scorer(scorer).rerank_nodes(pandas(), QUERY)
    assert texts(ranked) == texts(pandas())
    assert report.status == "unchanged"
    assert report.issues
    assert [one.metadata["rerank_status"] for one in ranked] == ["unjudged"] * 3
    assert [one.score for one in ranked] == [0.9, 0.8, 0.7]


def test_strict_raises() -> None:
    reranker = SecondPassRerank({"method": Failing(), "log_level": "debug"}, strict=True)
    with pytest.raises(RerankError):
        reranker.postprocess_nodes(pandas(), query_str=QUERY)


lies = st.one_of(
    st.floats(),
    st.floats(0, 1),
    st.integers(-(10**400), 10**400),
    st.none(),
    st.booleans(),
    st.text(max_size=3),
)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_property_no_node_is_lost_doubled_or_misassigned(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 8))
    answered = data.draw(st.one_of(st.just(count), st.integers(0, 9)))
    scores = data.draw(st.lists(lies, min_size=answered, max_size=answered))
    retrieved = data.draw(
        st.lists(st.none() | st.floats(), min_size=count, max_size=count), label="retrieved"
    )
    depth = data.draw(st.none() | st.integers(1, 9))
    nodes = [
        node(
            data.draw(st.sampled_from(["", "a", "b"])),
            score,
            id_=f"id{at % 3}",
            metadata={"at": at},
        )
        for at, score in enumerate(retrieved)
    ]
    reranker = with_scorer(Answer(scores), depth=depth)
    ranked, _ = reranker.rerank_nodes(nodes, QUERY)

    assert sorted(one.metadata["at"] for one in ranked) == list(range(count))
    given_scores = [one.score for one in ranked]
    assert all(type(score) is float and math.isfinite(score) for score in given_scores)
    assert given_scores == sorted(given_scores, reverse=True)
    assert [one.metadata["rerank_rank"] for one in ranked] == list(range(1, count + 1))
    for one in ranked:
        source = nodes[one.metadata["at"]]
        assert (one.node_id, one.text) == (source.node_id, source.text)
        score = source.score
        kept = score if score is not None and math.isfinite(score) else None
        assert one.metadata["retrieval_score"] == kept
    again = asyncio.run(reranker.apostprocess_nodes(nodes, query_str=QUERY))
    assert plain(again) == plain(ranked)


# ---------------------------------------------------------------- 7: nodes of every kind


def test_item_07_every_kind_of_node_comes_back() -> None:
    nodes = [
        NodeWithScore(node=ImageNode(image_path="panda.png"), score=0.9),
        NodeWithScore(node=Document(text="A red panda.")),
        NodeWithScore(node=TextNode(text="A car."), score=None),
        NodeWithScore(node=Document(text=""), score=0.1),
        NodeWithScore(node=ImageNode(text="A red panda, sleeping.", image_path="p.png")),
    ]
    scorer = ByLength()
    ranked, report = with_scorer(scorer).rerank_nodes(nodes, QUERY)
    assert [type(one.node) for one in ranked] == [
        ImageNode,
        Document,
        TextNode,
        ImageNode,
        Document,
    ]
    assert [one.metadata["rerank_status"] for one in ranked] == ["scored"] * 3 + ["unjudged"] * 2
    assert [issue.code for issue in report.issues] == ["no_text"]
    assert ranked[3].node.image_path == "panda.png"


@pytest.mark.parametrize(
    ("resource", "status"),
    [
        (MediaResource(text="red panda"), "scored"),
        (MediaResource(text=""), "scored"),
        (MediaResource(data=b"eA=="), "unjudged"),
        (None, "unjudged"),
    ],
)
def test_item_07_a_resource_is_judged_where_it_has_a_text(
    resource: MediaResource | None, status: str
) -> None:
    nodes = [*pandas(), NodeWithScore(node=Node(id_="odd", text_resource=resource))]
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    (odd,) = [one for one in ranked if one.node_id == "odd"]
    assert odd.metadata["rerank_status"] == status


def test_item_07_the_metadata_mode_chooses_the_text() -> None:
    given = node(
        "text", metadata={"title": "red", "path": "x"}, excluded_embed_metadata_keys=["path"]
    )
    seen = {}
    for mode in MetadataMode:
        scorer = Fixed(1.0)
        SecondPassRerank(Reranker(scorer), metadata_mode=mode).postprocess_nodes([given], None, "q")
        seen[mode] = scorer.seen[0][0]
    assert seen[MetadataMode.NONE] == "text"
    assert seen[MetadataMode.EMBED] == "title: red\n\ntext"
    assert seen[MetadataMode.ALL] == "title: red\npath: x\n\ntext"


class Spans:
    """Says that the last three characters of each text match best."""

    model_name = "spans"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        raise AssertionError("score_lists is there")

    def score_lists(self, requests: Any, deadline: float | None) -> Any:
        yield [
            ListScores([1.0] * len(texts), spans=[(len(text) - 3, len(text)) for text in texts])
            for _, texts in requests
        ]


@pytest.mark.parametrize("mode", list(MetadataMode))
@pytest.mark.parametrize(
    ("text", "span"), [("a text", [3, 6]), ("", None), ("ext", [0, 3]), (" \n", None)]
)
def test_item_07_spans_are_those_of_the_text_without_metadata(
    mode: MetadataMode, text: str, span: list[int] | None
) -> None:
    given = node(text, metadata={"title": "red"})
    rerank = SecondPassRerank(Reranker(Spans()), metadata_mode=mode)
    (found,) = rerank.postprocess_nodes([given], None, "q")
    assert found.metadata.get("rerank_span") == span
    assert ("rerank_span" in found.node.excluded_llm_metadata_keys) == (span is not None)


@pytest.mark.parametrize("mode", list(MetadataMode))
def test_item_07_the_best_window_of_a_long_text(mode: MetadataMode) -> None:
    text = "Cats sleep here. Dogs bark there. Birds sing."
    given = [node(text, metadata={"a": "b"}), node("Dogs", metadata={"a": "b"})]
    config = {"method": {"type": "lexical"}, "passages": {"size": 20, "overlap": 0}}
    rerank = SecondPassRerank(config, metadata_mode=mode)
    found = SecondPassRerank.from_json(rerank.to_json()).postprocess_nodes(given, None, "bark")
    assert "Dogs bark" in text[slice(*found[0].metadata["rerank_span"])]
    assert found[1].metadata["rerank_span"] == [0, 4]


@pytest.mark.parametrize("mode", list(MetadataMode))
@pytest.mark.parametrize("template", ["{metadata_str}\n\n{content}", "{content}\n{metadata_str}"])
def test_item_07_spans_of_texts_with_white_space_around(mode: MetadataMode, template: str) -> None:
    text = "\n  Cats sleep here. Dogs bark there.\n"
    given = [node(text, metadata={"a": "b"}, text_template=template)]
    config = {"method": {"type": "lexical"}, "passages": {"size": 24, "overlap": 0}}
    rerank = SecondPassRerank(config, metadata_mode=mode)
    (found,) = rerank.postprocess_nodes(given, None, "bark")
    part = text[slice(*found.metadata["rerank_span"])]
    assert "bark" in part
    assert part.strip() == part


def test_item_07_a_configuration_can_show_metadata_fields() -> None:
    scorer = Fixed(1.0)
    config = {"method": scorer, "render": {"fields": ["title", "text"]}}
    given = node("text", metadata={"title": "red", "path": "x"})
    SecondPassRerank(config).postprocess_nodes([given], query_str=QUERY)
    assert scorer.seen == [["red\ntext"]]


# ---------------------------------------------------------------- among other components


@pytest.fixture
def llm() -> MockLLM:
    return MockLLM(max_tokens=16)


def engine(retriever: BaseRetriever, llm: MockLLM, *behind: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(
        retriever,
        llm=llm,
        node_postprocessors=list(behind),
        callback_manager=CallbackManager([]),
    )


def test_in_a_query_engine_sync_and_async(llm: MockLLM, events: list[Any]) -> None:
    query_engine = engine(Given(pandas()), llm, SecondPassRerank("lexical", top_n=2))
    response = query_engine.query(QUERY)
    assert [one.node_id for one in response.source_nodes] == ["panda", "bear"]
    again = asyncio.run(query_engine.aquery(QUERY))
    assert plain(again.source_nodes) == plain(response.source_nodes)
    assert len(events) == 4


def test_behind_a_vector_index(llm: MockLLM) -> None:
    nodes = [one.node for one in pandas()]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    query_engine = index.as_query_engine(
        llm=llm, similarity_top_k=3, node_postprocessors=[SecondPassRerank("lexical")]
    )
    first = query_engine.query(QUERY).source_nodes
    second = query_engine.query(QUERY).source_nodes
    assert texts(first)[0] == "The red panda eats bamboo."
    assert plain(first) == plain(second)


def test_components_behind_keep_the_order(llm: MockLLM) -> None:
    nodes = [node("x" * length, 0.5, id_=str(length)) for length in (3, 5, 1, 4, 2)]
    reranker = with_scorer(ByLength())
    kept = engine(Given(nodes), llm, reranker, SimilarityPostprocessor(similarity_cutoff=3.0))
    assert [one.node_id for one in kept.retrieve(QueryBundle(QUERY))] == ["5", "4", "3"]
    reordered = engine(Given(nodes), llm, reranker, LongContextReorder())
    ends = [one.node_id for one in reordered.retrieve(QueryBundle(QUERY))]
    assert {ends[0], ends[-1]} == {"5", "4"}
    assert ends[2] == "1"


def test_behind_a_fusion_of_retrievers(llm: MockLLM) -> None:
    retrievers = [Given(pandas()), Given(pandas()[::-1])]
    fusion = QueryFusionRetriever(
        retrievers, llm=llm, num_queries=1, mode="reciprocal_rerank", use_async=False,
        similarity_top_k=3,
    )  # fmt: skip
    ranked = engine(fusion, llm, SecondPassRerank("lexical")).retrieve(QueryBundle(QUERY))
    assert [one.node_id for one in ranked] == ["panda", "bear", "car"]


# ---------------------------------------------------------------- 10: the distribution


def test_item_10_the_distribution_is_laid_out_as_llamahub_wants() -> None:
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert project["project"]["name"] == "llama-index-postprocessor-secondpass"
    hub = project["tool"]["llamahub"]
    assert hub["import_path"] == SecondPassRerank.__module__.removesuffix(".base")
    assert list(hub["class_authors"]) == ["SecondPassRerank"]
    leaf = root / "src" / "llama_index" / "postprocessor" / "secondpass"
    assert (leaf / "py.typed").exists()
    for parent in (leaf.parent, leaf.parent.parent):
        assert [one.name for one in parent.iterdir() if one.is_file()] == []


def test_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec("\n".join(blocks), {})
    promised = re.findall(r"^print\(.*\)  # (.*)$", readme, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == promised


def test_equal_settings_are_equal() -> None:
    reranker, manager = Reranker("lexical"), CallbackManager()
    first = SecondPassRerank(reranker, callback_manager=manager)
    assert first == SecondPassRerank(reranker, callback_manager=manager)
    assert first != SecondPassRerank(reranker, callback_manager=manager, top_n=1)
