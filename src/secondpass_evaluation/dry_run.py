"""Estimates calls, tokens and cost of rankings and comparisons, without calling a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from secondpass import SecondPassError
from secondpass.asking.expected_use import Expected
from secondpass.types import Progress
from secondpass_evaluation.first_stages import FirstStage, Retriever
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.rerankers import Spec, close_created, create_rerankers
from secondpass_evaluation.reranking import SystemRun, shuffled_candidates
from secondpass_evaluation.suites import Suite

_SAMPLE = 100
"""Number of rankings from which those of a system are estimated."""


@dataclass(frozen=True)
class ExpectedComparison:
    """The expected use of models by a comparison.

    Attributes:
        systems: name of a reranker behind a first stage -> expected use of each model.
        not_run: name of a system that would not run -> reason.
        sampled: number of rankings of a system that the estimate is based on; None: all.
    """

    queries: int
    systems: dict[str, list[Expected]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    sampled: int | None = None


def expected_comparison(
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec,
    suite: Suite,
    *,
    retriever: Retriever | None = None,
    first_stages: Sequence[FirstStage] | None = None,
    behind: FirstStage | Sequence[FirstStage] | None = None,
    depth: int = 100,
    shuffles: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
    journal: Journal | None = None,
    now: str | None = None,
) -> ExpectedComparison:
    """Estimate the use of models by the rerankers of :func:`~secondpass_evaluation.compare`.

    The first stages search, as the estimate depends on their candidates; no reranker is called.
    Rankings in the journal are not counted. The arguments and exceptions are those of ``compare``.
    """
    observed = Observations(
        suite,
        retriever=retriever,
        first_stages=first_stages,
        behind=behind,
        depth=depth,
        progress=progress,
        journal=journal,
        now=now,
    )
    created, missing = create_rerankers(rerankers)
    expected = ExpectedComparison(len(suite.queries))
    try:
        for stage in observed.behind:
            expected.not_run.update({f"{stage}+{name}": missing[name] for name in missing})
            for name, (reranker, _) in created.items():
                system = observed.system(name, reranker, stage)
                if reason := observed.retrieved(stage).reason:
                    expected.not_run[system.name] = f"{stage}: {reason}"
                else:
                    expected.systems[system.name], _ = _expected_use(system, shuffles, seed)
    finally:
        close_created(created)
    return expected


def expected_of_services(
    systems: Sequence[SystemRun], *, shuffles: int, seed: int
) -> ExpectedComparison | None:
    """Estimate the use of models by those systems that ask a language model or a rerank API.

    At most 100 rankings of each system are estimated, which takes about a second; all rankings of a
    large suite would take minutes. None if no service is asked; a system whose requests are wrong
    is left out.
    """
    asking: dict[str, list[Expected]] = {}
    largest = queries = 0
    for system in systems:
        with suppress(SecondPassError):  # running the system raises it again
            uses, count = _expected_use(system, shuffles, seed, _SAMPLE)
            if any(use.calls for use in uses):
                asking[system.name] = uses
                largest = max(largest, count)
                queries = max(queries, len(system.candidates))
    if not asking:
        return None
    return ExpectedComparison(queries, asking, sampled=_SAMPLE if largest > _SAMPLE else None)


def _expected_use(
    system: SystemRun, shuffles: int, seed: int, most: int | None = None
) -> tuple[list[Expected], int]:
    """The expected use of models by rankings that the journal does not have, and their number.

    It is estimated from an evenly spaced sample of at most ``most`` of them.
    """
    reranker, candidates = system.reranker, system.candidates
    requests, repeats = system.unfinished(candidates), 1 + shuffles
    if system.journal is not None and len(system.journal):
        repeats = 1
        shuffled = shuffled_candidates(
            candidates, depth=reranker.depth, shuffles=shuffles, seed=seed
        )
        for label, lists in shuffled:
            requests += system.unfinished(lists, label)
    count = min(len(requests), most or len(requests))
    sample = [requests[number * len(requests) // count] for number in range(count)]
    factor = repeats * len(requests) / count if count else 1
    return [use.times(factor) for use in reranker.expected_use(sample)], len(requests)
