"""Simulates stragglers and failures of ``secondpass job`` on many nodes, by block size.

    python -m benchmarks.scale_simulation                       # tables and build/scale-blocks.png
    python -m benchmarks.scale_simulation --plot docs/scale-blocks.svg

A discrete-event simulation of the job: the driver assigns numbered blocks of rows to
single-threaded workers, each with a short queue; blocks of a node that fails are assigned again;
after the driver has failed, a new one begins all blocks without output again. Times of blocks are
log-normal. Tests compare the simulation with closed forms where there are some
(``tests/benchmarks/test_scale_simulation.py``).
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.speed.plots import COLOURS, LIGHT, figure

HOUR = 3600.0
BLOCK_ROWS = (10, 20, 50, 100, 200, 500, 1_000, 2_000)


@dataclass(frozen=True)
class Cluster:
    """Nodes and their failures; times in seconds.

    Attributes:
        nodes: Number of nodes, which fail independently.
        workers: Workers of a node.
        in_flight: Maximum number of blocks assigned to a worker, including the current one.
        start: From the start of a node to its first block: process, imports, model.
        node_spread: Standard deviation of the logarithm of a node's speed.
        slow_nodes: Number of nodes that need ``slow_factor`` times as long.
        slow_factor: Factor of their times.
        dispatch: Time of the driver to assign a block; blocks are assigned one after the other.
        node_mtbf: Mean time between failures of a node.
        node_restart: From the failure of a node until another one replaces it.
        driver_mtbf: Mean time between failures of the driver.
        driver_restart: From its failure until it assigns blocks again.
    """

    nodes: int = 100
    workers: int = 16
    in_flight: int = 2
    start: float = 0.0
    node_spread: float = 0.0
    slow_nodes: int = 0
    slow_factor: float = 1.0
    dispatch: float = 0.0
    node_mtbf: float = math.inf
    node_restart: float = 0.0
    driver_mtbf: float = math.inf
    driver_restart: float = 0.0

    @property
    def size(self) -> int:
        """Number of workers."""
        return self.nodes * self.workers


@dataclass(frozen=True)
class Work:
    """Rows to rank; times in seconds.

    Attributes:
        rows: Number of rows (queries with their candidates).
        block_rows: Rows of a block.
        row_seconds: Mean time of a row on one worker.
        row_variation: Standard deviation of a row's time as a share of the mean.
        block_spread: Standard deviation of the logarithm of a block's time, for what slows all rows
            of a block (other work on the machine).
        block_overhead: Time for a block besides its rows: reading, opening and renaming a file.
    """

    rows: int
    block_rows: int
    row_seconds: float
    row_variation: float = 0.0
    block_spread: float = 0.0
    block_overhead: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """Times in seconds; those of workers are sums over all of them.

    Attributes:
        makespan: From the start of the job to the end of the last block.
        ideal: The makespan if all workers, at their speeds, ranked rows until the end.
        useful: Time of workers on blocks that they finished, without the overhead.
        overhead: Overhead of these blocks.
        wasted: Time of workers on blocks that they lost.
        lost_blocks: Number of blocks that were lost while a worker ranked them.
        node_failures: Number of failures of nodes.
        driver_failures: Number of failures of the driver.
    """

    makespan: float
    ideal: float
    useful: float
    overhead: float
    wasted: float
    lost_blocks: int
    node_failures: int
    driver_failures: int

    @property
    def wasted_share(self) -> float:
        """Lost work as a share of all work."""
        return self.wasted / (self.useful + self.overhead + self.wasted)


@dataclass
class _Worker:
    slowness: float
    is_up: bool = False
    life: int = 0
    """Number of failures so far; events of an earlier life are ignored."""
    blocks: list[int] = field(default_factory=list)
    """Blocks that were assigned to it and are not finished, including those in transit."""
    arrived: deque[int] = field(default_factory=deque)
    began: float | None = None


class Simulation:
    """One run of a job on a cluster."""

    def __init__(self, cluster: Cluster, work: Work, seed: int = 0) -> None:
        self._cluster, self._work = cluster, work
        self._random = random.Random(seed)
        self._todo = deque(range(math.ceil(work.rows / work.block_rows)))
        self._left = len(self._todo)
        slowness = [self._lognormal(cluster.node_spread) for _ in range(cluster.nodes)]
        for node in range(cluster.slow_nodes):
            slowness[node] *= cluster.slow_factor
        self._workers = [_Worker(one) for one in slowness for _ in range(cluster.workers)]
        self._events: list[tuple[float, int, Callable[..., None], tuple[int, ...]]] = []
        self._now = self._dispatched = 0.0
        self._driver_is_up = True
        self._useful = self._overhead = self._wasted = 0.0
        self._lost = self._node_failures = self._driver_failures = self._scheduled = 0

    def run(self) -> Outcome:
        """Run it to the end of the last block."""
        for node in range(self._cluster.nodes):
            self._schedule(self._cluster.start, self._begin_node, node)
        self._schedule(self._exponential(self._cluster.driver_mtbf), self._fail_driver)
        while self._left:
            self._now, _, happen, arguments = heapq.heappop(self._events)
            happen(*arguments)
        speed = sum(1 / worker.slowness for worker in self._workers)
        ideal = self._work.rows * self._work.row_seconds / speed
        failures = self._lost, self._node_failures, self._driver_failures
        return Outcome(self._now, ideal, self._useful, self._overhead, self._wasted, *failures)

    def _schedule(self, seconds: float, happen: Callable[..., None], *arguments: int) -> None:
        if seconds < math.inf:
            self._scheduled += 1  # events at the same time are in the order of their scheduling
            heapq.heappush(self._events, (self._now + seconds, self._scheduled, happen, arguments))

    # ------------------------------------------------------------------ blocks

    def _assign(self, index: int) -> None:
        """Assign a block to a worker, if one is left and its queue has room."""
        worker = self._workers[index]
        is_ready = self._driver_is_up and worker.is_up
        if is_ready and self._todo and len(worker.blocks) < self._cluster.in_flight:
            block = self._todo.popleft()
            worker.blocks.append(block)
            self._dispatched = max(self._dispatched, self._now) + self._cluster.dispatch
            self._schedule(self._dispatched - self._now, self._arrive, index, worker.life, block)

    def _assign_to_all(self, indices: Sequence[int]) -> None:
        for _ in range(self._cluster.in_flight):
            for index in sorted(indices, key=lambda index: len(self._workers[index].blocks)):
                self._assign(index)

    def _arrive(self, index: int, life: int, block: int) -> None:
        worker = self._workers[index]
        if life == worker.life:
            worker.arrived.append(block)
            if worker.began is None:
                self._begin_block(index)

    def _begin_block(self, index: int) -> None:
        worker, work = self._workers[index], self._work
        worker.began = self._now
        block = worker.arrived.popleft()
        rows = min(work.block_rows, work.rows - block * work.block_rows)
        mean = rows * work.row_seconds * worker.slowness
        variance = math.log1p(work.row_variation**2 / rows) + work.block_spread**2
        seconds = mean * self._lognormal(math.sqrt(variance))
        whole = work.block_overhead + seconds
        self._schedule(whole, self._finish_block, index, worker.life, block)

    def _finish_block(self, index: int, life: int, block: int) -> None:
        worker = self._workers[index]
        if life != worker.life:
            return
        assert worker.began is not None
        self._overhead += self._work.block_overhead
        self._useful += self._now - worker.began - self._work.block_overhead
        self._left -= 1
        worker.blocks.remove(block)
        worker.began = None
        if worker.arrived:
            self._begin_block(index)
        self._assign(index)

    # ------------------------------------------------------------------ nodes and driver

    def _workers_of(self, node: int) -> range:
        return range(node * self._cluster.workers, (node + 1) * self._cluster.workers)

    def _begin_node(self, node: int) -> None:
        for index in self._workers_of(node):
            self._workers[index].is_up = True
        self._assign_to_all(self._workers_of(node))
        self._schedule(self._exponential(self._cluster.node_mtbf), self._fail_node, node)

    def _fail_node(self, node: int) -> None:
        self._node_failures += 1
        for index in self._workers_of(node):
            self._stop(index)
            self._workers[index].is_up = False
        self._assign_to_all(range(self._cluster.size))
        self._schedule(self._cluster.node_restart + self._cluster.start, self._begin_node, node)

    def _fail_driver(self) -> None:
        """Lose all blocks in progress; nodes and written blocks remain."""
        self._driver_failures += 1
        self._driver_is_up = False
        for index in range(self._cluster.size):
            self._stop(index)
        self._schedule(self._cluster.driver_restart + self._cluster.start, self._begin_driver)

    def _begin_driver(self) -> None:
        self._driver_is_up = True
        self._assign_to_all(range(self._cluster.size))
        self._schedule(self._exponential(self._cluster.driver_mtbf), self._fail_driver)

    def _stop(self, index: int) -> None:
        """Take all blocks from a worker; they are assigned next."""
        worker = self._workers[index]
        if worker.began is not None:
            self._wasted += self._now - worker.began
            self._lost += 1
        self._todo.extendleft(reversed(worker.blocks))
        worker.life += 1
        worker.blocks.clear()
        worker.arrived.clear()
        worker.began = None

    # ------------------------------------------------------------------ chance

    def _exponential(self, mean: float) -> float:
        return self._random.expovariate(1 / mean) if 0 < mean < math.inf else mean

    def _lognormal(self, spread: float) -> float:
        """A factor with the mean 1."""
        return self._random.lognormvariate(-(spread**2) / 2, spread) if spread else 1.0


def simulate(cluster: Cluster, work: Work, seed: int = 0) -> Outcome:
    """Simulate a job once; equal for equal seeds."""
    return Simulation(cluster, work, seed).run()


# ---------------------------------------------------------------------- output

DIFFERENT: dict[str, Any] = {"node_spread": 0.1}
CONDITIONS: dict[str, dict[str, Any]] = {
    "equal nodes": {},
    "nodes and blocks differ": DIFFERENT,
    "two nodes at a third of their speed": {**DIFFERENT, "slow_nodes": 2, "slow_factor": 3.0},
    "a node is lost every 1,000 h": {**DIFFERENT, "node_mtbf": 1_000 * HOUR},
    "every 24 h": {**DIFFERENT, "node_mtbf": 24 * HOUR, "driver_mtbf": 24 * HOUR},
    "every 4 h": {**DIFFERENT, "node_mtbf": 4 * HOUR, "driver_mtbf": 4 * HOUR},
}
"""Failures are per node; in the last two the driver fails as often as a node."""
PAIRS, CANDIDATES = 1_000_000_000, 100
PAIRS_PER_SECOND = 85.0  # of a worker
SEEDS = 3
CLUSTER = Cluster(
    nodes=100,
    workers=16,
    in_flight=2,
    start=10.0,
    dispatch=0.008,
    node_restart=180.0,
    driver_restart=120.0,
)


def median_outcome(cluster: Cluster, work: Work, seeds: int) -> Outcome:
    """The outcome with the median makespan."""
    outcomes = [simulate(cluster, work, seed) for seed in range(seeds)]
    return sorted(outcomes, key=lambda outcome: outcome.makespan)[seeds // 2]


def sweep(pairs: int, seeds: int) -> dict[str, list[tuple[Work, Outcome]]]:
    """Outcomes by condition, for each block size."""
    found: dict[str, list[tuple[Work, Outcome]]] = {}
    for name, changes in CONDITIONS.items():
        found[name] = []
        for block_rows in BLOCK_ROWS:
            differs = {"row_variation": 1.0, "block_spread": 0.15} if changes else {}
            row_seconds = CANDIDATES / PAIRS_PER_SECOND
            work = Work(
                pairs // CANDIDATES, block_rows, row_seconds, block_overhead=0.02, **differs
            )
            found[name].append((work, median_outcome(replace(CLUSTER, **changes), work, seeds)))
    return found


def print_tables(found: dict[str, list[tuple[Work, Outcome]]]) -> None:
    works = [work for work, _ in next(iter(found.values()))]
    ideal = next(iter(found.values()))[0][1].ideal
    print(f"ideal makespan {ideal / 60:.1f} min\n")
    print(f"| rows per block | {' | '.join(f'{work.block_rows:,}' for work in works)} |")
    print(f"| --- |{' ---: |' * len(works)}")
    seconds = [f"{work.block_rows * work.row_seconds:,.0f} s" for work in works]
    print(f"| time per block | {' | '.join(seconds)} |")
    for name, outcomes in found.items():
        shares = [f"{outcome.makespan / outcome.ideal:.2f}" for _, outcome in outcomes]
        print(f"| makespan / ideal: {name} | {' | '.join(shares)} |")
    for name, outcomes in found.items():
        if any(outcome.wasted for _, outcome in outcomes):
            shares = [f"{outcome.wasted_share:.2%}" for _, outcome in outcomes]
            print(f"| lost work: {name} | {' | '.join(shares)} |")


def draw(found: dict[str, list[tuple[Work, Outcome]]], path: Path) -> None:
    """Makespan and lost work against the time of a block."""
    with figure(path, 8.4, 3.4, columns=2) as (left, right):
        for colour, (name, outcomes) in zip(COLOURS, found.items(), strict=True):
            seconds = [work.block_rows * work.row_seconds for work, _ in outcomes]
            ratios = [outcome.makespan / outcome.ideal for _, outcome in outcomes]
            wasted = [100 * outcome.wasted_share for _, outcome in outcomes]
            left.plot(seconds, ratios, marker="o", markersize=3, color=colour, label=name)
            if any(wasted):
                right.plot(seconds, wasted, marker="o", markersize=3, color=colour, label=name)
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xlabel("time per block in s")
            axes.grid(color=LIGHT, linewidth=0.5)
        left.set_ylim(0.98, 2)
        left.set_ylabel("makespan, ideal = 1")
        left.legend(frameon=False, fontsize=7.5)
        right.set_ylabel("lost work in %")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--plot", type=Path, default=Path("build/scale-blocks.png"), help="file of the plot"
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of the job")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="medians are over them")
    options = parser.parse_args()
    found = sweep(options.pairs, options.seeds)
    print_tables(found)
    options.plot.parent.mkdir(parents=True, exist_ok=True)
    draw(found, options.plot)


if __name__ == "__main__":
    main()
