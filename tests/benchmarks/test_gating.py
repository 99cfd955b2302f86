"""The benchmark of gates, on made-up queries."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from secondpass.evaluation.gates.regrets import Regrets


@pytest.fixture
def gating(monkeypatch):
    # It imports other benchmarks as a script does.
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("gating")


def regrets(loss: float) -> Regrets:
    """Of 1,200 queries half are certain; the pass gains on the others, and ``loss`` on these."""
    random = np.random.default_rng(0)
    margin = random.random(1_200)
    gain = np.where(margin >= 0.5, loss, random.random(1_200) / 2)
    pairs = np.full(1_200, 100)
    return Regrets("RR", {"margin": margin}, {0: gain}, pairs, True, None)


@pytest.mark.parametrize(("loss", "gates"), [(0.0, 1), (0.1, 0)])
def test_gates_are_tried_on_other_queries(gating, loss, gates):
    tried = gating.held_out(regrets(loss), splits=5, seed=1)
    assert tried.on.mean() == gates
    assert tried.skipped == pytest.approx(np.full(5, 0.5 * gates), abs=0.07)
    assert tried.regret == pytest.approx(np.zeros(5), abs=0.01)
    assert tried.row("made", "up").startswith(f"| made | up | 600 | {gates:.0%} |")


def test_splits_depend_on_the_seed_alone(gating):
    first, same, other = (gating.held_out(regrets(0.0), splits=2, seed=seed) for seed in (1, 1, 2))
    assert first.skipped.tolist() == same.skipped.tolist() != other.skipped.tolist()
