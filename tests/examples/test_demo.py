"""The demo's parts, without its minute of encoding."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from secondpass import Candidate, Reranker
from secondpass.evaluation import HybridRetriever

EXAMPLES = Path(__file__).parents[2] / "examples"

PASSAGES = {
    "itertools.islice": "Make an iterator that returns selected elements from the iterable.",
    "collections.deque": "A list-like sequence optimized for data accesses near its endpoints.",
    "list.append": "Append object to the end of the list.",
    "dict.setdefault": "Insert key with a value of default if key is not in the dictionary.",
    "str.zfill": "Pad a numeric string with zeros on the left, to fill a field of given width.",
}


class Hashed:
    """Vectors that mean nothing and are the same on every machine."""

    def embed(self, texts):
        rows = np.stack(
            [np.random.default_rng(sum(text.encode())).normal(size=8) for text in texts]
        )
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def retriever():
    corpus = [Candidate(text, id=name, metadata={"title": name}) for name, text in PASSAGES.items()]
    return HybridRetriever(corpus, Hashed())


@pytest.mark.parametrize("question", ["pad a number with zeros", "last elements of an iterator"])
def test_the_three_ways_in_give_the_same_order(retriever, question):
    import frameworks

    found = retriever.retrieve(question, 4)
    order = [
        item.id for item in Reranker.from_config(EXAMPLES / "demo.yaml").rerank(question, found)
    ]
    assert frameworks.haystack_order(question, retriever, 4) == order
    assert frameworks.llama_index_order(question, retriever, 4) == order


def test_the_pipeline_holds_the_configuration_of_the_demo():
    pipeline = yaml.safe_load((EXAMPLES / "haystack_pipeline.yaml").read_text())
    inside = pipeline["components"]["ranker"]["init_parameters"]["reranker"]
    alone = yaml.safe_load((EXAMPLES / "demo.yaml").read_text())
    assert Reranker.from_config(inside).to_config() == Reranker.from_config(alone).to_config()


def test_grades_are_found_by_key(retriever):
    import demo

    found = retriever.retrieve("zeros", 5)
    measured = demo.measured({"q": found}, {"q": {"str.zfill": 3}})
    assert measured.mean["nDCG@10"] > 0
    assert demo.graded("str.zfill#2", {"str.zfill": 3}).plain == "str.zfill#2 ***"


def test_the_vectors_of_the_corpus_are_kept(tmp_path, monkeypatch):
    import demo
    from rich.console import Console

    monkeypatch.setattr(demo, "BUILD", tmp_path)
    embedder = demo.CachedEmbedder(Console(quiet=True))
    monkeypatch.setattr(embedder, "model", Hashed())
    texts = [f"text {number}" for number in range(1000)]
    first = embedder.embed(texts)
    monkeypatch.setattr(embedder, "model", None)
    assert np.array_equal(embedder.embed(texts), first)
    assert len(list(tmp_path.iterdir())) == 1
