"""A model with known scores and a simulated clock."""

from typing import NamedTuple

from hypothesis import strategies as st


class FakePair(NamedTuple):
    score: float
    length: int


class FakeModel:
    """Scores a pair by its texts; a batch takes ``rate`` seconds per padded token of the clock."""

    backend, precision = "onnx", "float32"

    def __init__(self, threads=1, budget=64, rate=0.001):
        self.threads, self.budget, self.rate = threads, budget, rate
        self.batches = []
        self.now = 100.0

    def identity(self):
        return {"model": "fake"}

    def prepare(self, query, passages):
        return [FakePair(score_of(query, passage), 3 + len(passage)) for passage in passages]

    def run(self, pairs):
        self.batches.append(pairs)
        self.now += self.rate * len(pairs) * max(pair.length for pair in pairs)
        return [pair.score for pair in pairs]


def score_of(query, passage):
    return len(query) * 1000.0 + len(passage) + sum(map(ord, passage)) / 1e6


PASSAGES = st.lists(st.text("ab ", max_size=40), max_size=30)


REQUESTS = st.lists(st.tuples(st.text("q", max_size=5), PASSAGES), max_size=4)


class InstructedModel(FakeModel):
    def prepare(self, query, passages, *, instruction=""):
        return super().prepare(query + instruction, passages)
