"""The benchmark of runtimes of `embedded`: batches of the model's file, and how cosines differ."""

import importlib
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def speed(monkeypatch):
    # It is run as a script.
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("embedded_speed")


def test_vectors_are_in_the_order_of_the_texts(speed):
    def run(inputs):
        # A token's state is its id, so the mean of a text is that of its ids without padding.
        return [np.repeat(inputs["input_ids"][:, :, None], 2, axis=2) * np.array([1.0, -3.0])]

    tokens = [np.array([9]), np.array([1, 2, 3, 4]), np.array([-5, -6])]
    for budget in (1, 4, 512):
        vectors = speed.in_batches(run, tokens, budget)
        assert np.sign(vectors).tolist() == [[1, -1], [1, -1], [-1, 1]]
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3))


def test_differences_of_cosines(speed):
    draw = np.random.default_rng(1)
    vectors = speed.unit(draw.normal(size=(40, 5)).astype(np.float32))
    assert speed.differences(vectors, vectors) == (0.0, 1.0)
    moved = speed.unit(vectors + draw.normal(scale=0.3, size=vectors.shape).astype(np.float32))
    largest, overlap = speed.differences(moved, vectors)
    assert 0.1 < largest < 2
    assert 0.3 < overlap < 1
