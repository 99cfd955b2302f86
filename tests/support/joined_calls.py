"""A model with known scores, whose batches can be delayed, and calls that wait for it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from secondpass.scorers.batching.pairs import PairEngine

SECONDS = 60


class FakePair(NamedTuple):
    text: str
    length: int


class Model:
    """Scores a pair by its text.

    A batch waits until the event ``hold`` is set; it takes ``rate`` seconds of the clock ``now``
    per padded token.
    """

    backend, precision = "onnx", "float32"

    def __init__(self, threads=1, budget=64, rate=0.001):
        self.threads, self.budget, self.rate = threads, budget, rate
        self.batches = []
        self.now = 100.0
        self.hold = None
        self.begun = threading.Semaphore(0)

    def identity(self):
        return {"model": "fake"}

    def prepare(self, query, passages, *, instruction=""):
        start = query + instruction
        return [FakePair(start + passage, 1 + len(passage)) for passage in passages]

    def run(self, pairs):
        self.batches.append([pair.text for pair in pairs])
        self.begun.release()
        if self.hold is not None:
            assert self.hold.wait(SECONDS)
        self.now += self.rate * len(pairs) * max(pair.length for pair in pairs)
        for pair in pairs:
            if "!" in pair.text:
                raise LookupError(pair.text)
        return [score_of(pair.text) for pair in pairs]


def score_of(text):
    return float(sum(map(ord, text)))


def expected(query, passages):
    return [score_of(query + passage) for passage in passages]


class Calls:
    """Calls that all wait while a first one holds the threads of a model."""

    def __init__(self, model):
        self.model = model
        self.engine = PairEngine(model)
        self._pool = ThreadPoolExecutor(33)

    def __enter__(self):
        self.model.hold = threading.Event()
        for _ in range(self.model.threads):
            self._pool.submit(self.engine.score, [("first", ["x"])])
            assert self.model.begun.acquire(timeout=SECONDS)
        return self

    def submit(self, function, *arguments):
        """Start a call, and return when it waits."""
        joined = self.engine._joined
        lines = joined._rounds._waiting, joined._deadlines._waiting
        before = sum(map(len, lines))
        future = self._pool.submit(function, *arguments)
        wait_until(lambda: sum(map(len, lines)) > before)
        return future

    def score(self, query, passages):
        return self.submit(lambda: self.engine.score([(query, passages)])[0])

    def go(self):
        self.model.batches.clear()
        self.model.hold.set()

    def __exit__(self, *_error):
        self.model.hold.set()
        self._pool.shutdown()


def wait_until(condition):
    deadline = threading.Event()
    for _ in range(SECONDS * 1000):
        if condition():
            return
        deadline.wait(0.001)
    raise AssertionError("waited for too long")
