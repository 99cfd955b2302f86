"""A program of a user: each setting as a mapping and as an object, and each way to make a reranker.

`test_programs.py` runs it, and has type checkers read it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from haystack import Document
from llama_index.core.schema import NodeWithScore, TextNode

import secondpass
from haystack_integrations.components.rankers.secondpass import SecondPassRanker, SecondPassStorer
from llama_index.postprocessor.secondpass import SecondPassRerank, SecondPassStore
from secondpass import Candidate, Limits, Ranked, Ranking, Report, Reranker
from secondpass.extend import (
    Agreement,
    Blend,
    CallableLLM,
    Cascade,
    Floor,
    Graded,
    Listwise,
    LostInTheMiddle,
    Passages,
    Prices,
    Probabilities,
    Prompting,
    Range,
    Rendering,
    ResponseCache,
    Tiers,
    When,
)
from secondpass_evaluation import Comparison, compare, make_suite

QUERY = "red panda"
TEXTS = ["a red car", "the red panda eats bamboo", "a train"]
TIERS: dict[str, Any] = {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}


class WordCount:
    """A scorer without a base class."""

    model_name = "word-count"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        return [float(sum(word in text for word in query.split())) for text in documents]


class Unnamed:
    """A scorer with nothing but its scores."""

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [0.0 for _ in documents]


class ListScorer:
    """A scorer whose parameters have other names, and that takes lists alone."""

    model_name = "list-scorer"
    score_kind = "similarity"

    def score_pairs(self, question: str, texts: list[str]) -> tuple[float, ...]:
        return tuple(0.5 for _ in texts)


class Chunk:
    """A document of another package."""

    def __init__(self, page_content: str) -> None:
        self.page_content = page_content


class Grades:
    """A language model as a function, whose answers can be stored."""

    cache_key = "grades"

    def __call__(self, messages: list[dict[str, str]]) -> str:
        return "{}"


def backwards(items: Sequence[Ranked]) -> Sequence[Ranked]:
    return items[::-1]


# ---------------------------------------------------------------------- settings

in_variable = {"original": 0.2, "normalize": "minmax"}
limits: Mapping[str, float] = {"deadline": 5.0}

by_mappings = [
    Reranker("lexical", blend={"original": 0.2, "normalize": "minmax"}),
    Reranker("lexical", blend=in_variable),
    Reranker("lexical", floor={"at": 0.1, "on": "rerank"}),
    Reranker("lexical", floor=0.1),
    Reranker("lexical", floor=1),
    Reranker("lexical", probabilities={"slope": 1.0, "intercept": -2}),
    Reranker("lexical", order=TIERS),
    Reranker("lexical", order="lost_in_the_middle"),
    Reranker("lexical", order="learn", orders={"learn": TIERS, "middle": "lost_in_the_middle"}),
    Reranker("lexical", when={"margin": {"below": 0.5}, "words": {"at_least": 1}}),
    Reranker("lexical", fallback=["embedded", {"type": "lexical", "floor": 0.1}]),
    Reranker("lexical", fallback="embedded"),
    Reranker("lexical", render={"fields": ["title?", "text"], "labels": True}),
    Reranker("lexical", passages={"size": 200}),
    Reranker("lexical", limits={"deadline": 5, "concurrency": 2}),
    Reranker("lexical", limits=limits),
    Reranker({"type": "lexical", "k1": 1.0}),
]

by_objects = [
    Reranker(WordCount()),
    Reranker(Unnamed()),
    Reranker(ListScorer()),
    Reranker(Graded(Grades()), limits={"retries": 0}),
    Reranker("lexical", blend=Blend(0.2, "minmax")),
    Reranker("lexical", floor=Floor(0.1, on="rerank")),
    Reranker("lexical", probabilities=Probabilities(slope=1.0, intercept=-2)),
    Reranker("lexical", order=Tiers(field="level", tiers=["easy", "hard"])),
    Reranker("lexical", order=LostInTheMiddle()),
    Reranker("lexical", order=backwards),
    Reranker("lexical", orders={"learn": Tiers(field="level", tiers=["easy"]), "none": None}),
    Reranker("lexical", when=When(margin=Range(below=0.5))),
    Reranker("lexical", when=When(agreement=Agreement(["bm25", "vector"], at_least=0.1))),
    Reranker("lexical", fallback=[WordCount(), {"type": "lexical"}, "embedded"]),
    Reranker("lexical", render=Rendering(fields=["title?", "text"], labels=True)),
    Reranker("lexical", passages=Passages(size=200)),
    Reranker("lexical", limits=Limits(deadline=5)),
    Reranker(Cascade([{"type": "lexical", "depth": 100}, {"type": "embedded", "depth": 9}])),
]

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "answers.sqlite")
    cached = [
        Reranker({"type": "graded", "llm": Grades()}, cache=path),
        Reranker({"type": "graded", "llm": Grades()}, cache=str(path)),
        Reranker({"type": "graded", "llm": Grades()}, cache={"path": str(path), "max_mb": 8}),
        Reranker({"type": "graded", "llm": Grades()}, cache=ResponseCache(str(path))),
    ]
    for reranker in cached:
        reranker.close()

# ---------------------------------------------------------------------- language models

for model in (
    CallableLLM(Grades(), prices={"input": 0.4, "output": 1.6}),
    CallableLLM(Grades(), prices=Prices(0.4, 1.6)),
):
    Graded(model, prompt={"criteria": ["It answers the question."]})
    Graded(model, prompt=Prompting(criteria=["It answers the question."]))
    Listwise(model, prompt={"passage_characters": 500})
    Listwise(model, prompt=Prompting(passage_characters=500))

# ---------------------------------------------------------------------- ways to make one

preset = Reranker.from_preset("lexical", depth=20, limits={"deadline": 2}, blend=Blend(0.1, "rrf"))
stored = Reranker.from_preset("embedded", method={"memory_mb": 1}, fallback=["lexical"], top_k=1)
options: dict[str, Any] = {"depth": 20}
unpacked = Reranker.from_preset("lexical", **options)
brief = preset.changed(top_k=1, floor={"at": -1.0}, when=None, passages={"size": 100})
written = Reranker.from_config(brief.to_config())
presets: dict[str, str] = secondpass.config.presets()
weight: float = 0.0 if preset.blend is None else preset.blend.original
deadline: float | None = brief.limits.deadline
assert (weight, deadline) == (0.1, 2)


def mistakes() -> None:
    """Errors for type checkers: with `--strict`, one that is none would be an unused ignore."""
    Reranker(5)  # type: ignore[arg-type]
    Reranker(WordCount)  # type: ignore[arg-type]
    Reranker("lexical", fallback=[5])  # type: ignore[list-item]
    Reranker.from_preset("lexical", method=5)  # type: ignore[arg-type]
    Cascade(["lexical", 5])  # type: ignore[list-item]
    preset.depth = 3  # type: ignore[misc]
    preset.top_k = None  # type: ignore[misc]
    preset.rerank(QUERY, [5])  # type: ignore[list-item]
    preset.rerank(QUERY, [object()])  # type: ignore[list-item]
    Reranker("lexical", limits=3)  # type: ignore[arg-type]
    Reranker("lexical", when="always")  # type: ignore[arg-type]
    Reranker("lexical", tail="cut")  # type: ignore[arg-type]
    Reranker("lexical", dept=3)  # type: ignore[call-arg]
    Reranker.from_preset("lexical", dept=3)  # type: ignore[call-arg]
    Reranker.from_preset("lexical", blend=0.5)  # type: ignore[arg-type]
    preset.changed(method="lexical")  # type: ignore[call-arg]
    preset.rerank(QUERY, TEXTS, top_k="3")  # type: ignore[arg-type]
    Graded(Grades(), prompt="Be brief.")  # type: ignore[arg-type]
    Graded("gpt-4o")  # type: ignore[arg-type]
    Listwise(5)  # type: ignore[arg-type]
    SecondPassRanker(3)  # type: ignore[arg-type]
    SecondPassRerank("lexical", top_n="3")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- calls

candidates: list[Candidate | str | dict[str, Any]] = [
    Candidate(TEXTS[0], id="a", score=0.5),
    {"id": "b", "text": TEXTS[1], "score": 0.4},
    TEXTS[2],
]
for reranker in [*by_mappings, *by_objects, unpacked, written]:
    reranker.rerank(QUERY, TEXTS)
ranking: Ranking = preset.rerank(QUERY, candidates, top_k=1, order=TIERS, instruction="be brief")
report: Report = ranking.report
assert (ranking[0].id, report.status) == ("b", "ok")
for objects in (
    [Chunk(text) for text in TEXTS],
    [Document(content=text) for text in TEXTS],
    [NodeWithScore(node=TextNode(text=text)) for text in TEXTS],
    [TextNode(text=text) for text in TEXTS],
):
    assert preset.rerank(QUERY, objects)[0].text == TEXTS[1]
with Reranker("lexical") as closed:
    assert closed.rerank_many([(QUERY, [Chunk(TEXTS[0])])])[0][0].text == TEXTS[0]
many = preset.rerank_many([(QUERY, TEXTS), (QUERY, candidates)], floor=None, deadline=2)
assert [ranking[0].position for ranking in many] == [1, 1]


if TYPE_CHECKING:  # names that only an error knows are wrong for type checkers, too
    preset.rank(QUERY, TEXTS)  # type: ignore[attr-defined]
    _ = ranking.results, ranking[0].doc_id  # type: ignore[attr-defined]
    _ = ranking[0]["text"]  # type: ignore[index]
    from secondpass.extend import Embedded  # type: ignore[attr-defined]  # noqa: F401


async def calls() -> tuple[Ranking, list[bool]]:
    async with preset as reranker:
        await reranker.awarm_up()
    finals = [interim.report.final async for interim in preset.astream(QUERY, TEXTS, strict=True)]
    return await preset.arerank(QUERY, TEXTS, depth=2, dedupe=True), finals


last, finals = asyncio.run(calls())
assert (last.order, finals[-1]) == ((1, 0, 2), True)

# ---------------------------------------------------------------------- evaluation

corpus = [{"id": str(place), "text": text} for place, text in enumerate(TEXTS)]
suite = make_suite("pandas", {"q": QUERY}, {"q": {"1": 1}}, corpus=corpus)
systems = {"preset": "lexical", "mapping": {"method": "lexical"}, "object": Reranker("lexical")}
comparison: Comparison = compare(systems, suite, first_stages=["lexical"], depth=3)
means: dict[str, float] = comparison.means("nDCG@10")
assert sorted(means) == ["lexical", *(f"lexical+{name}" for name in sorted(systems))]

# ---------------------------------------------------------------------- Haystack and LlamaIndex

config: Mapping[str, Any] = {"method": "lexical", "orders": {"learn": TIERS}}
documents = [Document(content=text) for text in TEXTS]
nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in TEXTS]
for ranker in (
    SecondPassRanker("lexical", top_k=1, score_threshold=0.1),
    SecondPassRanker({"method": "lexical", "limits": {"deadline": 5}}, depth=20),
    SecondPassRanker(config),
    SecondPassRanker(Reranker("lexical", blend=Blend(0.2, "minmax"))),
):
    first: Document = ranker.run(query=QUERY, documents=documents, order=TIERS)["documents"][0]
    assert first.content == TEXTS[1]
for rerank in (
    SecondPassRerank("lexical", top_n=1, similarity_cutoff=0.1, order=LostInTheMiddle()),
    SecondPassRerank({"method": "lexical", "limits": {"deadline": 5}}, order=TIERS),
    SecondPassRerank(config, order="learn"),
    SecondPassRerank(Reranker("lexical", blend={"original": 0.2, "normalize": "minmax"})),
):
    ranked, report = rerank.rerank_nodes(nodes, QUERY, order=TIERS, instruction="be brief")
    assert (ranked[0].text, report.status) == (TEXTS[1], "ok")
    with rerank.query_settings(order=TIERS):
        assert rerank.postprocess_nodes(nodes, query_str=QUERY)[0].text == TEXTS[1]

keeping: dict[str, Any] = {"preset": "embedded", "method": {"store": "passages.store"}}
SecondPassStorer(SecondPassRanker(keeping))
SecondPassStore(rerank=SecondPassRerank(keeping))
