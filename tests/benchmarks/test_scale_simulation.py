"""The simulation of a job on a cluster against closed forms."""

import math
import statistics

import pytest
from benchmarks.scale_simulation import Cluster, Work, simulate


def mean_makespan(cluster, work, runs):
    return statistics.fmean(simulate(cluster, work, seed).makespan for seed in range(runs))


@pytest.mark.parametrize("in_flight", [1, 2, 5])
@pytest.mark.parametrize(("nodes", "workers", "rows"), [(1, 1, 100), (3, 4, 1000), (5, 2, 999)])
def test_equal_blocks_are_rounds(nodes, workers, rows, in_flight):
    cluster = Cluster(nodes, workers, in_flight, start=7)
    work = Work(rows, 10, 0.5, block_overhead=0.25)
    outcome = simulate(cluster, work)
    rounds = math.ceil(rows / 10 / cluster.size)
    cut = 1 if rows % 10 and math.ceil(rows / 10) % cluster.size == 1 else 0
    assert outcome.makespan == pytest.approx(7 + rounds * 5.25 - cut * 0.5 * (10 - rows % 10))
    assert outcome.useful == pytest.approx(rows * 0.5)
    assert outcome.overhead == pytest.approx(math.ceil(rows / 10) * 0.25)
    assert outcome.ideal == pytest.approx(rows * 0.5 / cluster.size)
    assert (outcome.wasted, outcome.lost_blocks) == (0, 0)


@pytest.mark.parametrize("fails", ["node", "driver"])
@pytest.mark.parametrize(("mtbf", "restart"), [(10, 0), (3, 1), (1, 0.5)])
def test_a_block_that_begins_again_after_each_failure(fails, mtbf, restart):
    """The expected time of unit work with failures at a rate, each with a wait and a new begin."""
    failures = {f"{fails}_mtbf": mtbf, f"{fails}_restart": restart}
    expected = math.expm1(1 / mtbf) * (mtbf + restart)
    measured = mean_makespan(Cluster(1, 1, **failures), Work(1, 1, 1.0), 2500)
    assert measured == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_each_row_is_done_once_in_spite_of_failures(seed):
    cluster = Cluster(
        4, 3, 2, 0.5, dispatch=0.01, node_mtbf=9, node_restart=3, driver_mtbf=9, driver_restart=2
    )
    work = Work(995, 10, 0.1, block_overhead=0.05)
    outcome = simulate(cluster, work, seed)
    assert outcome.node_failures + outcome.driver_failures > 0
    assert (outcome.useful, outcome.overhead) == pytest.approx((995 * 0.1, 100 * 0.05))
    assert outcome.makespan * 12 >= outcome.useful + outcome.overhead + outcome.wasted
    assert outcome == simulate(cluster, work, seed)
