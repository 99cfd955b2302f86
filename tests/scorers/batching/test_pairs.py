"""The engine, with models whose scores are known and whose time is a number."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joined_calls import FakePair, Model, expected
from secondpass.scorers.batching import pairs as engine_module
from secondpass.scorers.batching.batches import by_length
from secondpass.scorers.batching.pairs import PairEngine

PASSAGES = st.lists(st.text("ab ", max_size=40), max_size=30)
REQUESTS = st.lists(st.tuples(st.text("q", max_size=5), PASSAGES), max_size=4)
DISTINCT = [chr(number) for number in range(200, 300)]


@pytest.fixture
def clock(monkeypatch):
    def use(model):
        monkeypatch.setattr(engine_module.time, "monotonic", lambda: model.now)
        monkeypatch.setattr(engine_module.time, "perf_counter", lambda: model.now)
        return model

    return use


@given(REQUESTS, st.integers(1, 3))
def test_every_pair_has_its_score(requests, threads):
    engine = PairEngine(Model(threads))
    lists = [expected(*request) for request in requests]
    assert engine.score(requests) == lists
    scores = [item for batch in engine.score_until(requests, None) for item in batch]
    assert sorted(scores) == [
        (request, place, score)
        for request, one in enumerate(lists)
        for place, score in enumerate(one)
    ]


@pytest.mark.parametrize("deadline", [None, 1e9])
def test_a_repeated_passage_is_scored_once(deadline):
    model = Model(budget=8)
    requests = [("q", ["b", "a", "b", "cc", "a"]), ("r", ["a", "a"])]
    batches = PairEngine(model).score_until(requests, deadline)
    assert sorted(item for batch in batches for item in batch) == [
        (request, place, score)
        for request, one in enumerate(requests)
        for place, score in enumerate(expected(*one))
    ]
    assert sum(map(len, model.batches)) == 4


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.5, 1.5, 3.0])
def test_deadline(clock, seconds):
    """Batches end before the deadline, the best retrieved are scored, little time is left."""
    model = clock(Model(budget=256))
    engine = PairEngine(model)
    list(engine.score_until([("q", ["a" * 40])], model.now + 10))  # learns the rate
    passages = [f"{number:0{20 + 7 * number % 40}}" for number in range(100)]
    model.batches.clear()
    deadline = model.now + seconds
    scored = [item for batch in engine.score_until([("q", passages)], deadline) for item in batch]
    indices = sorted(passage for _, passage, _ in scored)
    assert model.now <= deadline + 0.05
    assert indices == list(range(len(indices)))
    left = deadline - model.now
    assert len(indices) == 100 or left < 0.2 * seconds + 0.08
    known = expected("q", passages)
    assert all(score == known[passage] for _, passage, score in scored)


@pytest.mark.parametrize("seed", range(15, 20))
def test_nearly_all_that_fits_is_scored_in_time(clock, seed):
    """At a steady rate; padding counts as time."""
    model = clock(Model(budget=1024, rate=6e-5))
    draw = random.Random(seed)
    passages = ["a" * round(draw.lognormvariate(4.3, 0.35)) for _ in range(260)]
    engine = PairEngine(model)
    engine.score([("q", passages[:100])])

    def seconds(count):
        lengths = [pair.length for pair in model.prepare("q", passages[:count])]
        batches = by_length(lengths, model.budget)
        return model.rate * sum(len(one) * max(lengths[i] for i in one) for one in batches)

    most = max(count for count in range(260) if seconds(count) <= 0.2)
    deadline = model.now + 0.2
    scored = sum(map(len, engine.score_until([("q", passages)], deadline)))
    assert model.now <= deadline
    assert scored >= 0.9 * most


def test_a_late_batch_does_not_lose_all(clock):
    """Suddenly all is twice as slow, as on a busy machine."""
    model = clock(Model(budget=1000))
    engine = PairEngine(model)
    engine.score([("q", ["a"])])
    model.rate *= 2
    deadline = model.now + 0.4
    in_time = 0
    for batch in engine.score_until([("q", DISTINCT[:99])], deadline):
        in_time += len(batch) * (model.now <= deadline)
    assert 0.5 < in_time * 2 * model.rate / 0.4 <= 1


def test_a_slow_batch_does_not_end_scoring_for_good(clock):
    model = clock(Model(rate=10))
    engine = PairEngine(model)
    list(engine.score_until([("q", ["a"])], model.now + 1))
    model.rate = 0.001
    counts = []
    for _ in range(20):
        batches = engine.score_until([("q", [*"abcdefghi"])], model.now + 1)
        counts.append(sum(len(batch) for batch in batches))
    assert counts[0] >= 1
    assert counts[-1] == 9


def test_no_batch_is_begun_after_the_deadline(clock):
    model = clock(Model())
    assert list(PairEngine(model).score_until([("q", ["a"])], model.now)) == []
    assert model.batches == []


def test_the_first_passages_of_all_requests_are_first(clock):
    model = clock(Model(budget=8))
    requests = [("q", [*"abcde"]), ("r", [*"fghij"])]
    list(PairEngine(model).score_until(requests, model.now + 9))
    order = [text for batch in model.batches for text in batch]
    assert order == ["qa", "rf", "qb", "rg", "qc", "rh", "qd", "ri", "qe", "rj"]
    assert len(model.batches) > 2


def test_a_batch_has_at_most_that_many_pairs():
    model = Model(budget=10_000)
    PairEngine(model, at_most=3).score([("q", [*"abcdefghij"])])
    assert [len(batch) for batch in model.batches] == [3, 3, 3, 1]


def test_known_scores_come_before_the_rest_is_prepared(clock):
    model = clock(Model())

    def prepare(query, passages):
        model.now += 0.1 * len(passages)  # a large list takes longer than the deadline allows
        return [FakePair("known", 0) for _ in passages]

    model.prepare = prepare
    batches = PairEngine(model).score_until([("q", [*map(str, range(1000))])], model.now + 10)
    assert [place for _, place, _ in next(batches)] == list(range(32))
    assert sum(map(len, batches)) < 200  # and it ends at the deadline
