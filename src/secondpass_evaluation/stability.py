"""Measures how much a reranker depends on the order of its input, by shuffling it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from secondpass import Candidate
from secondpass.formats.shared import Run
from secondpass_evaluation.distinct import measured
from secondpass_evaluation.results import Stability
from secondpass_evaluation.suites import Suite

_TOP = 10


def measure_stability(
    rerank: Callable[[Mapping[str, Sequence[Candidate]], str], Run],
    candidates: Mapping[str, Sequence[Candidate]],
    unshuffled: Run,
    suite: Suite,
    *,
    depth: int | None,
    measure: str,
    shuffles: int,
    seed: int,
) -> Stability:
    """Shuffle each query's candidates and compare the rankings with the unshuffled ones."""
    from scipy.stats import kendalltau

    heads = {query: {str(item.id) for item in items[:depth]} for query, items in candidates.items()}
    taus: list[float] = []
    overlaps: list[float] = []
    means = []
    for label, shuffled in shuffled_candidates(
        candidates, depth=depth, shuffles=shuffles, seed=seed
    ):
        run = rerank(shuffled, label)
        for query, scores in run.items():
            ranks = {document: rank for rank, document in enumerate(scores)}
            # Not the tail, which never moves and would raise the correlation.
            common = [doc for doc in unshuffled[query] if doc in ranks and doc in heads[query]]
            if len(common) > 1:
                tau, _ = kendalltau(range(len(common)), [ranks[document] for document in common])
                taus.append(float(tau))
            if top := list(unshuffled[query])[:_TOP]:
                overlaps.append(len(set(top).intersection(list(scores)[:_TOP])) / len(top))
        means.append(measured(run, suite, [measure]).mean[measure])
    return Stability(shuffles, _mean(taus), _mean(overlaps), measure, tuple(means))


def shuffled_candidates(
    candidates: Mapping[str, Sequence[Candidate]], *, depth: int | None, shuffles: int, seed: int
) -> Iterator[tuple[str, dict[str, list[Candidate]]]]:
    """Yield the label and the candidates of each shuffle; see :func:`measure_stability`."""
    rng = random.Random(seed)
    for number in range(1, shuffles + 1):
        shuffled = {}
        for query, items in candidates.items():
            # The tail stays in place, so that the same candidates are judged.
            head = list(items[:depth])
            rng.shuffle(head)
            shuffled[query] = [*head, *items[len(head) :]]
        yield f", shuffle {number} of {shuffles}", shuffled


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0
