"""Pairs of the embedded model: what is encoded, what is kept, and where spans are."""

import numpy as np
import pytest

from secondpass.scorers.embedding import packing
from secondpass.scorers.embedding.encoder import DIMENSIONS, Encoding, Tokens
from secondpass.scorers.embedding.passage_store import KnownPassages
from secondpass.scorers.embedding.scorer import EmbeddedPairs
from secondpass.scorers.embedding.similarity import encoded_text
from secondpass.scorers.tokens.shortener import pieces_before

LONGEST = 30
"""Tokens that are read of a text."""
VECTORS = np.random.default_rng(5).normal(size=(300, DIMENSIONS)).astype(np.float32)


class Letters:
    """An encoder whose tokens are characters, and which drops spaces at the beginning."""

    name = "letters"
    backend, precision, threads, budget, version = "onnx", "float32", 2, 64, "1.0"

    def __init__(self):
        self.batches = []

    def shortened(self, text):
        return text.lstrip(" ")[: LONGEST + 1]

    def pieces_before(self, text, pieces):
        return pieces_before(text, self.shortened(text), pieces)

    def tokens(self, text, kind):
        read = text[:LONGEST]
        ids = np.array([ord(one) % 300 for one in read])
        return Tokens(ids, [*range(len(read))], read, read != text)

    def encode_batch(self, tokens):
        self.batches.append([text.text for text in tokens])
        return [self._encoded(text.ids) for text in tokens]

    def encode(self, text):
        return self.encode_batch([self.tokens(text, "passage")])[0]

    def _encoded(self, ids):
        everything = np.ones(len(ids), dtype=bool)
        return Encoding(VECTORS[ids], everything, ids, everything)


@pytest.fixture
def model():
    return Letters()


def same(one, other):
    return one.cosine == pytest.approx(other.cosine, abs=1e-6)


def test_settings_are_those_of_the_model(model):
    pairs = EmbeddedPairs(model)
    assert (pairs.backend, pairs.threads, pairs.budget) == ("onnx", 2, 64)
    assert pairs.identity() == {
        "model": "letters",
        "backend": "onnx",
        "version": "1.0",
        "precision": "float32",
    }


def test_passages_that_are_not_read_whole(model):
    pairs = EmbeddedPairs(model)
    passages = ["a dog", "a dog ran far " * 3, "cats"]
    pairs.prepare("cat", passages)
    assert pairs.truncated.passages("cat", passages) == [1]
    assert pairs.truncated.queries("cat", passages) == []
    long = "which of these cats sat on the mat"
    pairs.prepare(long, ["a"])
    assert pairs.truncated.passages(long, passages) == [1]
    assert pairs.truncated.queries(long, passages) == [0, 1, 2]


def test_texts_that_are_read_alike_are_each_reported(model):
    """They have one encoding, which is kept, and other ends, which are not read."""
    pairs = EmbeddedPairs(model, known())
    texts = [f"a dog ran far and a cat sat on the mat, {end}" for end in ("fast", "slowly")]
    for text in texts:
        if not pairs.recall(text, [text]):
            pairs.run(pairs.prepare(text, [text]))
        assert pairs.truncated.passages(text, [text]) == [0]
        assert pairs.truncated.queries(text, [text]) == [0]


def test_a_passage_of_several_pairs_is_encoded_once(model):
    pairs = EmbeddedPairs(model)
    prepared = [*pairs.prepare("cat", ["mat", "dog", " mat"]), *pairs.prepare("dog", ["mat"])]
    model.batches.clear()
    matches = pairs.run(prepared)
    assert model.batches == [["mat", "dog"]]
    assert same(matches[0], matches[2])
    assert not same(matches[0], matches[3])
    pairs.run(prepared[:1])
    assert model.batches[1:] == [["mat"]]  # nothing is kept


def known():
    return KnownPassages({}, 1_000_000, None)


def test_known_passages_are_not_encoded(model):
    pairs = EmbeddedPairs(model, known())
    first = pairs.run(pairs.prepare("cat", ["mat", "dog"]))
    model.batches.clear()
    matches = pairs.recall("cat", ["mat", "owl", "dog"])
    assert {index: found.known for index, found in matches.items()} == {0: True, 2: True}
    assert model.batches == []
    assert [matches[0].cosine, matches[2].cosine] == [found.cosine for found in first]


def test_a_passage_that_another_batch_has_encoded_since_it_was_prepared(model):
    pairs = EmbeddedPairs(model, known())
    early, late = (pairs.prepare("cat", ["mat"]) for _ in range(2))
    model.batches.clear()
    assert same(*pairs.run(early), *pairs.run(late))
    assert model.batches == [["mat"]]


def test_the_first_record_of_a_passage_is_used_by_all(model):
    """Two threads may encode a passage at once, with different rounding errors."""
    kept = known()
    first = packing.pack(encoded_text(model.encode("mat")), "mat")
    second = packing.pack(encoded_text(model.encode("map")), "mat")
    assert kept.put_many({"mat": first}) == {"mat": first}
    assert kept.put_many({"mat": second}) == {"mat": first}


@pytest.mark.parametrize("kept", [False, True])
def test_spans_are_of_the_passage(model, kept):
    pairs = EmbeddedPairs(model, known() if kept else None)
    text = "Mice run. A cat sat. Owls fly."
    for _ in range(2):
        for passage in (text, "   " + text):
            (match,) = pairs.recall("A cat sat.", [passage]).values() or pairs.run(
                pairs.prepare("A cat sat.", [passage])
            )
            assert passage[slice(*match.span)] == "A cat sat."
