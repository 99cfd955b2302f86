"""What a Haystack 3 ranker owes its pipelines, item by item, with real pipelines and scorers."""

from __future__ import annotations

import asyncio
import copy
import importlib.metadata
import inspect
import math
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ByteStream
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import ComponentDevice, Secret

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import (
    Candidate,
    ConfigurationError,
    InputError,
    MissingExtraError,
    NotSerializableError,
    Reranker,
    RerankError,
)
from secondpass.config import preset_names
from secondpass.effects import ListScores

PROJECT = Path(__file__).resolve().parents[1]
QUERY = "castle garden"
KEYS = {
    "rerank_score",
    "rerank_final_score",
    "retrieval_score",
    "rerank_rank",
    "rerank_status",
}


class Numbers:
    """Scores a document by the number that it consists of; counts what is asked of it."""

    model_name = "numbers"

    def __init__(self) -> None:
        self.seen: list[list[str]] = []
        self.warmed = 0
        self.closed = 0

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        self.seen.append(list(documents))
        return [float(document.rsplit(maxsplit=1)[-1]) for document in documents]

    def warm_up(self) -> None:
        self.warmed += 1

    def close(self) -> None:
        self.closed += 1


class Answers:
    """Gives the same answer, true or not, whatever it is asked."""

    model_name = "answers"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def score_pairs(self, query: str, documents: Sequence[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Unloadable(Answers):
    """Has a model that is not there."""

    def __init__(self) -> None:
        super().__init__(OSError("no such model"))

    def warm_up(self) -> None:
        raise OSError("no such model")


def numbered(*numbers: float, **fields: Any) -> list[Document]:
    """Documents whose content is a number, retrieved in this order."""
    count = len(numbers)
    return [
        Document(id=f"d{at}", content=str(number), score=1 - at / count, meta={"at": at}, **fields)
        for at, number in enumerate(numbers)
    ]


def castles() -> list[Document]:
    return [
        Document(id="built", content="The castle was built in 1386.", meta={"page": 0}),
        Document(id="garden", content="The castle garden opens at nine.", meta={"page": 1}),
        Document(id="market", content="The market is on Monday.", meta={"page": None}),
    ]


def store_of(documents: list[Document]) -> InMemoryDocumentStore:
    store = InMemoryDocumentStore()
    store.write_documents(documents)
    return store


def contents(documents: list[Document]) -> list[str | None]:
    return [document.content for document in documents]


def ids(documents: list[Document]) -> list[str]:
    return [document.id for document in documents]


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    """A result without the time that it took."""
    report = {key: value for key, value in result["report"].items() if key != "seconds"}
    return {"documents": result["documents"], "report": report}


def snapshot(documents: list[Document]) -> list[Any]:
    return [copy.deepcopy(document.to_dict(flatten=False)) for document in documents]


# ---------------------------------------------------------------------- 1: the distribution


def test_item_01_only_the_leaf_of_the_namespace_is_a_package_of_ours() -> None:
    root = PROJECT / "src"
    leaf = root / "haystack_integrations/components/rankers/secondpass"
    assert (leaf / "py.typed").is_file()
    files = {path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.parent for path in files} == {leaf}


def test_item_01_the_distribution_is_the_core_s_twin() -> None:
    found = importlib.metadata.metadata("secondpass-haystack")
    core = importlib.metadata.version("secondpass")
    assert found["Version"] == core
    assert found["Requires-Python"] == ">=3.11"
    needed = {line for line in found.get_all("Requires-Dist") or () if "extra ==" not in line}
    assert needed == {"haystack-ai>=3.0", f"secondpass=={core}"}


# ---------------------------------------------------------------------- 2: where it is defined


def test_item_02_the_class_is_defined_in_the_namespace_of_integrations() -> None:
    module = "haystack_integrations.components.rankers.secondpass.ranker"
    assert SecondPassRanker.__module__ == module
    assert SecondPassRanker("lexical").to_dict()["type"] == f"{module}.SecondPassRanker"


def test_item_02_a_fresh_interpreter_loads_the_pipeline_without_an_allow_list() -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker("lexical", top_k=1))
    program = (
        "import sys; from haystack import Document, Pipeline\n"
        "pipeline = Pipeline.loads(sys.stdin.read())\n"
        "documents = [Document(content='market'), Document(content='castle')]\n"
        "result = pipeline.run({'ranker': {'query': 'castle', 'documents': documents}})\n"
        "print(*(document.content for document in result['ranker']['documents']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pipeline.dumps(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["castle"], done.stderr


# ---------------------------------------------------------------------- 3: sockets


def test_item_03_run_and_run_async_have_the_same_parameters_and_outputs() -> None:
    ranker: Any = SecondPassRanker("lexical")
    assert inspect.signature(ranker.run) == inspect.signature(ranker.run_async)
    sockets = ranker.__haystack_input__._sockets_dict
    assert {name: socket.is_mandatory for name, socket in sockets.items()} == {
        "query": True,
        "documents": True,
        "top_k": False,
        "score_threshold": False,
        "depth": False,
        "order": False,
        "context": False,
    }
    outputs = ranker.__haystack_output__._sockets_dict
    assert {name: socket.type for name, socket in outputs.items()} == {
        "documents": list[Document],
        "report": dict[str, Any],
    }


@pytest.mark.parametrize("documents", [[], castles()])
def test_item_03_every_output_is_always_returned(documents: list[Document]) -> None:
    for scorer in (Numbers(), Answers(OSError()), Answers([])):
        ranker = SecondPassRanker(Reranker(scorer))
        for result in (
            ranker.run(QUERY, documents),
            asyncio.run(ranker.run_async(QUERY, documents)),
        ):
            assert set(result) == {"documents", "report"}
            assert len(result["documents"]) == len(documents)


def test_item_03_it_connects_to_its_neighbours_without_naming_sockets() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store_of(castles())))
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.add_component("again", SecondPassRanker("lexical", top_k=1))
    template = "{% for document in documents %}{{ document.content }}{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("retriever", "joiner")
    pipeline.connect("joiner", "ranker")
    pipeline.connect("ranker", "again")
    pipeline.connect("again", "prompt")
    asked = {name: {"query": QUERY} for name in ("retriever", "ranker", "again")}
    result = pipeline.run(asked, include_outputs_from={"again"})
    assert result["prompt"] == {"prompt": "The castle garden opens at nine."}
    assert result["again"]["report"]["status"] == "ok"


# ---------------------------------------------------------------------- 4: run


@pytest.mark.parametrize("top_k", [0, -3])
def test_item_04_top_k_is_checked_as_haystack_does(top_k: int) -> None:
    message = f"^top_k must be > 0, but got {top_k}$"
    with pytest.raises(ValueError, match=message):
        SecondPassRanker("lexical", top_k=top_k)
    ranker = SecondPassRanker("lexical")
    for documents in ([], castles()):
        with pytest.raises(ValueError, match=message):
            ranker.run(QUERY, documents, top_k)
        with pytest.raises(ValueError, match=message):
            asyncio.run(ranker.run_async(QUERY, documents, top_k))


def test_item_04_top_k_of_the_call_stands_over_that_of_the_component() -> None:
    scorer = Numbers()
    documents = numbered(1, 3, 2)
    ranker = SecondPassRanker(Reranker(scorer), top_k=2)
    assert contents(ranker.run(QUERY, documents)["documents"]) == ["3", "2"]
    result = ranker.run(QUERY, documents, top_k=1)
    assert contents(result["documents"]) == ["3"]
    assert sorted(result["report"]["left_out"]["top_k"]) == [0, 2]
    assert len(ranker.run(QUERY, documents, top_k=9)["documents"]) == 3
    configured = SecondPassRanker(Reranker(scorer, top_k=1))
    assert contents(configured.run(QUERY, documents)["documents"]) == ["3"]


def test_item_04_no_documents_ask_no_model() -> None:
    scorer = Numbers()
    ranker = SecondPassRanker(Reranker(scorer))
    for result in (ranker.run(QUERY, []), asyncio.run(ranker.run_async(QUERY, []))):
        assert result["documents"] == []
        assert result["report"]["status"] == "ok"
        assert result["report"]["usage"]["calls"] == 0
    assert scorer.seen == []
    assert scorer.warmed == 0


def test_item_04_wrong_arguments_of_a_call_are_named() -> None:
    ranker = SecondPassRanker("lexical")
    with pytest.raises(InputError, match=r"^query: "):
        ranker.run(None, castles())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^depth: "):
        ranker.run(QUERY, castles(), depth=0)
    with pytest.raises(InputError, match=r"^order: "):
        ranker.run(QUERY, castles(), order="sideways")


# ---------------------------------------------------------------------- 5: duplicates


def test_item_05_duplicates_are_removed_and_the_highest_score_is_kept() -> None:
    documents = [
        Document(id="a", content="1", score=0.2, meta={"from": "first"}),
        Document(id="b", content="2"),
        Document(id="a", content="1", score=0.9, meta={"from": "second"}),
        Document(id="b", content="2", score=0.1, meta={"from": "second"}),
    ]
    scorer = Numbers()
    result = SecondPassRanker(Reranker(scorer)).run(QUERY, documents)
    assert ids(result["documents"]) == ["b", "a"]
    assert [document.meta["from"] for document in result["documents"]] == ["second", "second"]
    assert [document.meta["retrieval_score"] for document in result["documents"]] == [0.1, 0.9]
    assert scorer.seen == [["1", "2"]]
    assert result["report"]["left_out"] == {"duplicate": [0, 1]}
    kept = SecondPassRanker(Reranker(scorer), dedupe=False).run(QUERY, documents)
    assert ids(kept["documents"]) == ["b", "b", "a", "a"]


def test_item_05_several_retrievers_connect_straight_into_documents() -> None:
    first, second = castles(), [*castles()[:1], Document(id="tower", content="A castle garden.")]
    pipeline = Pipeline()
    pipeline.add_component("first", InMemoryBM25Retriever(store_of(first)))
    pipeline.add_component("second", InMemoryBM25Retriever(store_of(second)))
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.connect("first.documents", "ranker.documents")
    pipeline.connect("second.documents", "ranker.documents")
    asked = {name: {"query": QUERY} for name in ("first", "second", "ranker")}
    result = pipeline.run(asked)["ranker"]
    assert sorted(ids(result["documents"])) == ["built", "garden", "tower"]
    assert ids(result["documents"])[0] == "tower"
    assert len(result["report"]["left_out"]["duplicate"]) == 1


# ---------------------------------------------------------------------- 6: documents


def test_item_06_documents_are_never_mutated() -> None:
    nested = {"tags": ["a", {"b": 1}], "page": 0}
    documents = [
        Document(id="x", content="1", score=0.5, meta=nested, embedding=[0.1, 0.2]),
        Document(id="y", content="2", meta={}),
        Document(id="z", blob=ByteStream(b"png", mime_type="image/png")),
    ]
    before = snapshot(documents)
    metas = [document.meta for document in documents]
    ranker = SecondPassRanker(Reranker(Numbers()))
    for result in (ranker.run(QUERY, documents), asyncio.run(ranker.run_async(QUERY, documents))):
        assert snapshot(documents) == before
        assert all(document.meta is meta for document, meta in zip(documents, metas, strict=True))
        assert not {id(document) for document in documents} & set(map(id, result["documents"]))
        result["documents"][0].meta["changed"] = True
        assert snapshot(documents) == before


def test_item_06_ids_and_all_other_fields_stay() -> None:
    documents = [
        Document(content="1", meta={"n": 1}, embedding=[0.1], score=0.2),
        Document(content="2", blob=ByteStream(b"x", meta={"k": "v"}, mime_type="text/plain")),
    ]
    result = SecondPassRanker(Reranker(Numbers())).run(QUERY, documents)
    for before, after in zip(reversed(documents), result["documents"], strict=True):
        assert after.id == before.id
        assert (after.content, after.embedding) == (before.content, before.embedding)
        assert after.blob is before.blob


def test_item_06_falsy_metadata_is_kept() -> None:
    falsy: dict[str, Any] = {
        "zero": 0,
        "no": False,
        "none": None,
        "empty": "",
        "list": [],
        "map": {},
    }
    documents = [Document(id="a", content="1", meta=falsy)]
    meta = SecondPassRanker(Reranker(Numbers())).run(QUERY, documents)["documents"][0].meta
    assert {name: meta[name] for name in falsy} == falsy
    assert set(meta) == {*falsy, *KEYS}


def test_item_06_scores_are_python_floats_and_provenance_tells_the_rest() -> None:
    class Real(float):
        """A float of another library."""

    ranker = SecondPassRanker(Reranker(Answers([Real(0.25), 1, None])))
    documents = numbered(0, 1, 2)
    result = ranker.run(QUERY, documents)
    assert all(type(document.score) is float for document in result["documents"])
    told = [{key: document.meta[key] for key in KEYS} for document in result["documents"]]
    assert told == [
        {
            "rerank_score": score,
            "rerank_final_score": score,
            "retrieval_score": documents[at].score,
            "rerank_rank": rank,
            "rerank_status": status,
        }
        for rank, (at, score, status) in enumerate(
            [(1, 1.0, "scored"), (0, 0.25, "scored"), (2, None, "backfilled")], start=1
        )
    ]


def test_item_06_the_span_that_matches_best() -> None:
    class Spans(Numbers):
        """The first character of each text but the first matches best."""

        def score_lists(self, requests: Any, deadline: float | None) -> Any:
            ((_, texts),) = requests
            spans = [None, *[(0, 1)] * (len(texts) - 1)]
            yield [ListScores([1.0] * len(texts), spans=spans)]

    documents = SecondPassRanker(Reranker(Spans())).run(QUERY, numbered(1, 2))["documents"]
    assert "rerank_span" not in documents[0].meta
    assert documents[1].meta["rerank_span"] == [0, 1]
    assert Document.from_dict(documents[1].to_dict()).meta == documents[1].meta


def test_item_06_the_best_window_of_a_long_text() -> None:
    config = {"method": {"type": "lexical"}, "passages": {"size": 20, "overlap": 0}}
    ranker = SecondPassRanker.from_dict(SecondPassRanker(config).to_dict())
    documents = [
        Document(content="Cats sleep here. Dogs bark there. Birds sing."),
        Document(content="Dogs"),
    ]
    first, second = ranker.run("bark", documents)["documents"]
    assert first.content[slice(*first.meta["rerank_span"])] == "Dogs bark there."
    assert second.meta["rerank_span"] == [0, 4]


def test_item_06_keys_of_others_are_left_alone_and_ours_are_renewed() -> None:
    ranker = SecondPassRanker(Reranker(Numbers()))
    others = [Document(id="a", content="1", meta={"rerank_score": "theirs"})]
    assert ranker.run(QUERY, others)["documents"][0].meta["rerank_score"] == "theirs"
    once = ranker.run(QUERY, numbered(1, 2))["documents"]
    lowered = SecondPassRanker(Reranker(Answers([0.1, 0.9])))
    twice = lowered.run(QUERY, once)["documents"]
    assert [document.meta["rerank_score"] for document in twice] == [0.9, 0.1]
    assert [document.meta["retrieval_score"] for document in twice] == [1.0, 0.5]
    prefixed = SecondPassRanker(Reranker(Numbers()), meta_prefix="second_")
    meta = prefixed.run(QUERY, others)["documents"][0].meta
    assert set(meta) == {"rerank_score", *(f"second_{key}" for key in KEYS)}


def test_item_06_documents_without_text_pass_through() -> None:
    image = Document(id="image", blob=ByteStream(b"png", mime_type="image/png"), score=0.9)
    documents = [image, *numbered(1, 2)]
    result = SecondPassRanker(Reranker(Numbers())).run(QUERY, documents)
    assert ids(result["documents"]) == ["d1", "d0", "image"]
    assert result["documents"][2].blob is image.blob
    assert result["documents"][2].meta["rerank_status"] == "unjudged"
    assert result["report"]["status"] == "partial"
    assert [issue["code"] for issue in result["report"]["issues"]] == ["no_text"]
    titled = Document(id="image", blob=image.blob, meta={"title": "7"})
    shown = SecondPassRanker({"method": Numbers()}, meta_fields_to_embed=["title"])
    assert ids(shown.run(QUERY, [*numbered(1), titled])["documents"]) == ["image", "d0"]


# ---------------------------------------------------------------------- 7: parameter names


def test_item_07_the_standard_parameters_do_what_they_do_elsewhere() -> None:
    documents = [
        Document(id="a", content="0.1", meta={"title": "A", "year": 0}),
        Document(id="b", content="0.9", meta={"title": "B"}),
    ]
    scorer = Numbers()
    ranker = SecondPassRanker(
        {"method": scorer},
        score_threshold=0.5,
        meta_fields_to_embed=["title", "year"],
        embedding_separator=" | ",
    )
    result = ranker.run(QUERY, documents)
    assert scorer.seen == [["A | 0 | 0.1", "B | 0.9"]]
    assert ids(result["documents"]) == ["b"]
    assert result["report"]["left_out"] == {"floor": [0]}


def test_item_07_depth_bounds_what_is_judged() -> None:
    scorer = Numbers()
    documents = numbered(1, 2, 3)
    ranker = SecondPassRanker({"method": scorer}, depth=2)
    result = ranker.run(QUERY, documents)
    assert contents(result["documents"]) == ["2", "1", "3"]
    assert result["documents"][2].meta["rerank_status"] == "tail"
    assert contents(ranker.run(QUERY, documents, depth=3)["documents"]) == ["3", "2", "1"]
    assert [len(seen) for seen in scorer.seen] == [2, 3]


@pytest.mark.parametrize(
    "answer",
    [OSError("gone"), [], [1.0], [math.nan] * 3, "abc", None, [1.0] * 4],
    ids=["raises", "empty", "short", "nan", "text", "nothing", "long"],
)
def test_item_07_raise_on_failure_decides_whether_a_fault_is_raised(answer: object) -> None:
    documents = numbered(1, 2, 3)
    result = SecondPassRanker({"method": Answers(answer)}).run(QUERY, documents)
    assert ids(result["documents"]) == ids(documents)
    assert result["report"]["status"] == "unchanged"
    assert result["report"]["issues"]
    strict = SecondPassRanker({"method": Answers(answer)}, raise_on_failure=True)
    with pytest.raises(RerankError):
        strict.run(QUERY, documents)
    with pytest.raises(RerankError):
        asyncio.run(strict.run_async(QUERY, documents))


def test_item_07_a_fault_fails_the_pipeline_only_under_raise_on_failure() -> None:
    for raising in (False, True):
        pipeline = Pipeline()
        ranker = SecondPassRanker({"method": Answers(OSError())}, raise_on_failure=raising)
        pipeline.add_component("ranker", ranker)
        data = {"ranker": {"query": QUERY, "documents": castles()}}
        if raising:
            with pytest.raises(PipelineRuntimeError, match="strict"):
                pipeline.run(data)
        else:
            assert ids(pipeline.run(data)["ranker"]["documents"]) == ids(castles())


@pytest.mark.parametrize(
    ("flat", "mapping", "setting"),
    [
        ({"score_threshold": 0.0}, {"floor": 0.1}, "floor"),
        ({"depth": 3}, {"depth": 3}, "depth"),
        ({"raise_on_failure": True}, {"strict": False}, "strict"),
        ({"meta_fields_to_embed": ["title"]}, {"render": {"fields": ["text"]}}, "render.fields"),
        ({"embedding_separator": " "}, {"render": {"separator": "-"}}, "render.separator"),
    ],
)
def test_item_07_a_setting_given_twice_is_refused(
    flat: dict[str, Any], mapping: dict[str, Any], setting: str
) -> None:
    (name,) = flat
    with pytest.raises(ConfigurationError, match=rf"{name}.*'{setting}'"):
        SecondPassRanker({"method": "lexical", **mapping}, **flat)
    with pytest.raises(ConfigurationError, match=rf"{name}.*ready Reranker.*'{setting}'"):
        SecondPassRanker(Reranker.from_preset("lexical"), **flat)


def test_item_07_every_conflict_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SecondPassRanker(
            {"method": "lexical", "floor": 0.1, "depth": 5}, score_threshold=0.2, depth=4
        )
    assert [problem.path for problem in caught.value.problems] == [("depth",), ("score_threshold",)]


def test_item_07_settings_that_do_not_meet_are_joined(tmp_path: Path) -> None:
    config = {"method": "lexical", "render": {"separator": " "}, "floor": 0.1}
    mapped = SecondPassRanker(config, meta_fields_to_embed=["title"])
    assert mapped.reranker.render.separator == " "
    assert tuple(mapped.reranker.render.fields) == ("title", "text")
    file = tmp_path / "ranker.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert SecondPassRanker(file, score_threshold=0.2).reranker.floor == 0.2
    assert SecondPassRanker("lexical", score_threshold=0.2).reranker.floor == 0.2
    assert SecondPassRanker("lexical", meta_fields_to_embed=[]).reranker.render.fields == ("text",)


@pytest.mark.parametrize("names", ["title", ["title", "text"], ["id"], ["score"]])
def test_item_07_fields_that_would_mean_something_else_are_refused(names: Any) -> None:
    with pytest.raises(ConfigurationError, match="meta_fields_to_embed"):
        SecondPassRanker("lexical", meta_fields_to_embed=names)


@pytest.mark.parametrize("wrong", ["lexicall", {"method": "lexicall"}, {"methods": 1}, 7, None])
def test_item_07_a_wrong_configuration_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        SecondPassRanker(wrong)


# ---------------------------------------------------------------------- 8: life


def test_item_08_construction_loads_nothing() -> None:
    scorer = Numbers()
    SecondPassRanker({"method": scorer}, depth=2).close()
    assert (scorer.warmed, scorer.closed, scorer.seen) == (0, 0, [])


def test_item_08_warm_up_and_close_are_passed_on_and_idempotent() -> None:
    scorer = Numbers()
    ranker = SecondPassRanker(Reranker(scorer))

    async def life() -> None:
        ranker.warm_up()
        await ranker.warm_up_async()
        ranker.warm_up()
        assert scorer.warmed == 1
        await ranker.close_async()
        ranker.close()
        await ranker.close_async()
        assert scorer.closed == 1

    asyncio.run(life())
    ranker.run(QUERY, numbered(1))
    ranker.close()
    assert (scorer.warmed, scorer.closed) == (1, 2)
    ranker.warm_up()
    assert scorer.warmed == 2


def test_item_08_pipelines_warm_up_and_close_it() -> None:
    scorer = Numbers()
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker(Reranker(scorer)))
    data = {"ranker": {"query": QUERY, "documents": numbered(1, 2)}}
    pipeline.run(data)
    pipeline.run(data)
    asyncio.run(pipeline.run_async(data))
    assert scorer.warmed == 1
    pipeline.close()
    asyncio.run(pipeline.close_async())
    assert scorer.closed == 1


def test_item_08_a_model_that_cannot_be_loaded_fails_no_pipeline() -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": Unloadable()}))
    result = pipeline.run({"ranker": {"query": QUERY, "documents": castles()}})["ranker"]
    assert ids(result["documents"]) == ids(castles())
    assert result["report"]["status"] == "unchanged"
    strict = SecondPassRanker({"method": Unloadable()}, raise_on_failure=True)
    for _ in range(2):
        with pytest.raises(OSError, match="no such model"):
            strict.warm_up()
    with pytest.raises(OSError, match="no such model"):
        asyncio.run(strict.warm_up_async())


# ---------------------------------------------------------------------- 9: saving and loading


def round_trip(ranker: SecondPassRanker) -> SecondPassRanker:
    """The ranker as it comes back from the YAML of a pipeline; asserts that nothing changed."""
    pipeline = Pipeline()
    pipeline.add_component("ranker", ranker)
    loaded = Pipeline.loads(pipeline.dumps())
    assert loaded.to_dict() == pipeline.to_dict()
    back = loaded.get_component("ranker")
    assert isinstance(back, SecondPassRanker)
    # A ready Reranker is given these with each call.
    configs = [
        {**one.reranker.to_config(), "top_k": one.top_k, "dedupe": one.dedupe}
        for one in (back, ranker)
    ]
    assert configs[0] == configs[1]
    direct = SecondPassRanker.from_dict(ranker.to_dict())
    assert direct.to_dict() == ranker.to_dict()
    return back


@pytest.mark.parametrize("name", preset_names())
def test_item_09_every_preset_goes_round(name: str) -> None:
    try:
        ranker = SecondPassRanker(name, depth=7, score_threshold=0.5)
    except MissingExtraError as error:
        pytest.skip(f"the extra {error.extra!r} is not installed")
    assert ranker.to_dict()["init_parameters"]["reranker"] == name
    assert round_trip(ranker).reranker.floor == 0.5


def test_item_09_the_default_is_the_preset_of_that_name() -> None:
    assert inspect.signature(SecondPassRanker.__init__).parameters["reranker"].default == "default"
    assert "default" in preset_names()


def test_item_09_every_parameter_goes_round() -> None:
    device, token = ComponentDevice.from_str("cpu"), Secret.from_env_var(["ONE", "TWO"])
    given: dict[str, Any] = {
        "reranker": {"method": {"type": "cross_encoder"}},
        "model": "some/model",
        "top_k": 3,
        "depth": 50,
        "score_threshold": 0.25,
        "scale_score": True,
        "meta_fields_to_embed": ["title", "source.name"],
        "embedding_separator": " | ",
        "query_prefix": "query: ",
        "query_suffix": " ?",
        "document_prefix": "passage: ",
        "document_suffix": " .",
        "device": device,
        "token": token,
        "batch_size": 4,
        "model_kwargs": {"attn_implementation": "eager"},
        "dedupe": False,
        "meta_prefix": "second_",
        "raise_on_failure": True,
        "chat_generator": None,
    }
    ranker = SecondPassRanker(**given)
    saved = {**given, "device": device.to_dict(), "token": token.to_dict()}
    assert ranker.to_dict()["init_parameters"] == saved
    assert set(given) == set(inspect.signature(SecondPassRanker.__init__).parameters) - {"self"}
    round_trip(ranker)


def test_item_09_a_mapping_goes_round_as_it_was_given() -> None:
    config = {
        "method": {"type": "lexical", "k1": 0.5},
        "order": {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]},
        "fallback": [{"type": "lexical", "floor": 0.1}],
        "depth": 10,
    }
    before = copy.deepcopy(config)
    ranker = SecondPassRanker(config, score_threshold=0.5)
    assert config == before
    assert ranker.to_dict()["init_parameters"]["reranker"] == before
    config["depth"] = 20
    config["method"]["k1"] = 0.7  # type: ignore[index]
    assert ranker.to_dict()["init_parameters"]["reranker"] == before
    back = round_trip(ranker)
    assert back.reranker.floor == 0.5
    documents = [
        Document(id="hard", content="castle garden", meta={"level": "hard"}),
        Document(id="easy", content="castle wall wall", meta={"level": "easy"}),
    ]
    assert timeless(back.run(QUERY, documents)) == timeless(ranker.run(QUERY, documents))


@pytest.mark.parametrize("kind", [str, Path])
def test_item_09_a_yaml_file_goes_round_by_its_path(kind: Any, tmp_path: Path) -> None:
    file = tmp_path / "reranker.yaml"
    file.write_text("method: {type: lexical, b: 0.1}\ntop_k: 2\n", encoding="utf-8")
    ranker = SecondPassRanker(kind(file))
    assert ranker.to_dict()["init_parameters"]["reranker"] == str(file)
    assert len(round_trip(ranker).run(QUERY, castles())["documents"]) == 2


def test_item_09_a_ready_reranker_goes_round_as_its_configuration() -> None:
    ready = Reranker.from_preset("lexical", floor=0.1, depth=5, dedupe=True)
    ranker = SecondPassRanker(ready, top_k=1, dedupe=False)
    assert ranker.reranker is ready
    written = ranker.to_dict()["init_parameters"]["reranker"]
    assert {**written, "dedupe": True} == ready.to_config()  # which stands beside it
    round_trip(ranker)


def test_item_05_a_configuration_may_keep_duplicates(tmp_path: Path) -> None:
    twice = [Document(id="a", content="1"), Document(id="a", content="1")]
    file = tmp_path / "keep.yaml"
    file.write_text("method: lexical\ndedupe: false\n", encoding="utf-8")
    for reranker in ({"method": "lexical", "dedupe": False}, file):
        ranker = SecondPassRanker(reranker)
        assert len(ranker.run(QUERY, twice)["documents"]) == 2
        assert len(round_trip(ranker).run(QUERY, twice)["documents"]) == 2
    assert len(SecondPassRanker(file, dedupe=True).run(QUERY, twice)["documents"]) == 1
    with pytest.raises(ConfigurationError, match="dedupe"):
        SecondPassRanker({"method": "lexical", "dedupe": False}, dedupe=True)
    for ready in (Reranker("lexical"), Reranker("lexical", dedupe=True)):
        assert len(round_trip(SecondPassRanker(ready)).run(QUERY, twice)["documents"]) == 1
        ranker = SecondPassRanker(ready, dedupe=False)
        assert len(round_trip(ranker).run(QUERY, twice)["documents"]) == 2


def test_item_09_an_object_of_the_user_s_is_refused_with_its_place() -> None:
    scorer = Numbers()
    for reranker in (Reranker(scorer), {"method": scorer}, {"method": scorer, "depth": 5}):
        with pytest.raises(NotSerializableError, match="method: a Numbers has no registered name"):
            SecondPassRanker(reranker).to_dict()
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker(Reranker(scorer)))
    with pytest.raises(NotSerializableError, match="method"):
        pipeline.dumps()


def test_item_09_no_saved_key_looks_like_a_class_to_import() -> None:
    def types(value: object) -> list[object]:
        if isinstance(value, dict):
            own = [value["type"]] if "type" in value else []
            return own + [found for item in value.values() for found in types(item)]
        return [found for item in value for found in types(item)] if isinstance(value, list) else []

    reranker = Reranker.from_config({"method": "lexical", "order": "lost_in_the_middle"})
    saved = SecondPassRanker(reranker).to_dict()["init_parameters"]
    assert types(saved) == ["lexical", "lost_in_the_middle"]


# ---------------------------------------------------------------------- async


def test_item_03_run_async_gives_what_run_gives() -> None:
    ranker = SecondPassRanker("lexical", score_threshold=0.1)
    for documents in (castles(), castles() * 2, []):
        waited = asyncio.run(ranker.run_async(QUERY, documents, 2, order="lost_in_the_middle"))
        assert timeless(waited) == timeless(
            ranker.run(QUERY, documents, 2, order="lost_in_the_middle")
        )


def test_item_03_run_async_blocks_no_event_loop() -> None:
    threads: list[int] = []

    class Threads(Numbers):
        def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
            threads.append(threading.get_ident())
            return super().score_pairs(query, documents)

        def warm_up(self) -> None:
            threads.append(threading.get_ident())

        close = warm_up

    async def life() -> int:
        ranker = SecondPassRanker(Reranker(Threads()))
        await ranker.warm_up_async()
        await ranker.run_async(QUERY, numbered(1, 2))
        await ranker.close_async()
        return threading.get_ident()

    loop = asyncio.run(life())
    assert len(threads) == 3
    assert loop not in threads


def test_item_03_sixteen_at_once_give_what_one_after_the_other_gives() -> None:
    ranker = SecondPassRanker("lexical")
    queries = [" ".join(["castle", "garden", "market", "nine"][at % 4 :]) for at in range(16)]
    documents = [castles()[at % 3 :] + castles()[: at % 3] for at in range(16)]
    alone = [ranker.run(*pair) for pair in zip(queries, documents, strict=True)]

    async def together() -> list[dict[str, Any]]:
        calls = (ranker.run_async(*pair) for pair in zip(queries, documents, strict=True))
        return list(await asyncio.gather(*calls))

    assert [*map(timeless, asyncio.run(together()))] == [*map(timeless, alone)]


def test_item_03_an_asynchronous_pipeline_gives_what_a_synchronous_one_gives() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store_of(castles())))
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.connect("retriever", "ranker")
    data = {"retriever": {"query": QUERY}, "ranker": {"query": QUERY}}
    waited = asyncio.run(pipeline.run_async(data))
    assert timeless(waited["ranker"]) == timeless(pipeline.run(data)["ranker"])


# ---------------------------------------------------------------------- 11, 12


def test_item_11_every_parameter_is_documented_in_haystack_s_form() -> None:
    for method in (SecondPassRanker.__init__, SecondPassRanker.run, SecondPassRanker.from_dict):
        told = inspect.getdoc(method) or ""
        for name in inspect.signature(method).parameters:
            assert name == "self" or f":param {name}:" in told


def test_item_11_the_code_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = (PROJECT / "README.md").read_text(encoding="utf-8").split("```python\n")[1:]
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.split("```")[0], names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("The castle garden opens at nine. scored")
    assert lines[2] == "ok"


def test_item_11_the_code_of_the_docstring_runs(capsys: pytest.CaptureFixture[str]) -> None:
    told = inspect.getdoc(SecondPassRanker) or ""
    exec(told.split("```python\n")[1].split("```")[0], {})
    assert capsys.readouterr().out == "Paris is in France. ok\n"


def test_item_12_ranking_blend_and_order_happen_in_one_component() -> None:
    documents = [
        Document(id=f"d{at}", content=str(number), score=score, meta={"level": level})
        for at, (number, score, level) in enumerate(
            [(0.1, 0.9, "hard"), (0.9, 0.1, "hard"), (0.8, 0.8, "easy")]
        )
    ]
    order = {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}
    config = {"method": Numbers(), "blend": {"original": 0.9, "normalize": "minmax"}}
    ranker = SecondPassRanker(config)
    assert ids(ranker.run(QUERY, documents)["documents"]) == ["d0", "d2", "d1"]
    moved = ranker.run(QUERY, documents, order=order)["documents"]
    assert ids(moved) == ["d2", "d0", "d1"]
    # What stands behind may sort by score, so an order that moved documents is in the scores.
    assert ids(sorted(moved, key=lambda document: -(document.score or 0))) == ids(moved)
    ordered = SecondPassRanker({**config, "order": order})
    assert ids(ordered.run(QUERY, documents, order="none")["documents"]) == ["d0", "d2", "d1"]


def test_item_12_the_report_holds_plain_values_that_pipelines_can_copy() -> None:
    result = SecondPassRanker({"method": Answers([1.0, None, math.nan])}).run(
        QUERY, numbered(1, 2, 3)
    )
    assert copy.deepcopy(result["report"]) == result["report"]
    assert yaml.safe_load(yaml.safe_dump(result["report"])) == result["report"]


def test_copies_of_a_subclass_with_a_lock() -> None:
    class Locked(SecondPassRanker):
        pass

    ranker = Locked("lexical", top_k=1)
    ranker._lock = threading.Lock()
    copied = copy.copy(ranker)
    copied.top_k = 2
    assert (ranker.top_k, copied.top_k) == (1, 2)
    assert copied.reranker is ranker.reranker


def test_item_12_the_context_of_a_call_reaches_the_method() -> None:
    seen: list[object] = []

    class Listens:
        name = "listens"
        score_kind = "unbounded"
        scale = None

        def judge(self, task: Any) -> Any:
            seen.append(task.context)
            assert all(isinstance(candidate, Candidate) for candidate in task.candidates)
            yield from ()
            raise OSError

    ranker = SecondPassRanker(Reranker(Listens()))
    ranker.run(QUERY, castles(), context={"user": 7})
    asyncio.run(ranker.run_async(QUERY, castles(), context=None))
    assert seen == [{"user": 7}, None]
