"""Estimates calls, tokens and cost of rankings and comparisons, without calling a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from secondpass import Candidate, Reranker, SecondPassError
from secondpass.asking.shared import Expected
from secondpass.types import Progress, no_progress
from secondpass_evaluation.first_stages import FirstStage, FirstStages, Retriever, choose_stages
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.rerankers import Spec, close_created, create_rerankers
from secondpass_evaluation.reranking import SystemRun
from secondpass_evaluation.stability import shuffled_candidates
from secondpass_evaluation.suites import Suite

_SAMPLE = 100
"""Number of rankings from which those of a system are estimated."""


@dataclass(frozen=True)
class ExpectedComparison:
    """The expected use of models by a comparison.

    Attributes:
        queries: number of queries.
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
) -> ExpectedComparison:
    """Estimate the use of models by the rerankers of :func:`~secondpass_evaluation.compare`.

    The first stages search, as the estimate depends on their candidates; no reranker is called.
    Rankings in the journal are not counted. The arguments and exceptions are those of ``compare``.
    """
    report = progress or no_progress
    stages, behinds = choose_stages(suite, first_stages, behind)
    search = FirstStages(suite, retriever, depth, report)
    behinds = behinds or (search.preferred(stages),)
    created, missing = create_rerankers(rerankers)
    expected = ExpectedComparison(len(suite.queries))
    try:
        for stage in behinds:
            for name, reason in missing.items():
                expected.not_run[f"{stage}+{name}"] = reason
            retrieved = search.retrieved(stage)
            for name, (reranker, _) in created.items():
                label = f"{stage}+{name}"
                if retrieved.reason:
                    expected.not_run[label] = f"{stage}: {retrieved.reason}"
                    continue
                system = SystemRun(label, reranker, suite, retrieved.candidates, 1, report, journal)
                requests, repeats = _requests(system), 1 + shuffles
                if journal is not None and len(journal):
                    requests, repeats = _unfinished(system, shuffles, seed), 1
                uses = reranker.expected_use(requests)
                expected.systems[label] = [use.times(repeats) for use in uses]
    finally:
        close_created(created)
    return expected


def expected_of_services(
    systems: Sequence[SystemRun], *, shuffles: int, seed: int
) -> ExpectedComparison | None:
    """Estimate the use of models by those systems that ask a language model or a rerank API.

    At most 100 rankings of each system are estimated, which takes about a second; all rankings of a
    large suite would take minutes. Rankings in the journal are not counted.
    """
    asking: dict[str, list[Expected]] = {}
    largest = queries = 0
    for system in systems:
        requests, repeats = _requests(system), 1 + shuffles
        with suppress(SecondPassError):  # running the system raises it again
            uses = _sampled_use(system.reranker, requests)
            is_resumed = system.journal is not None and len(system.journal) > 0
            if is_resumed and any(use.calls for use in uses):
                requests, repeats = _unfinished(system, shuffles, seed), 1
                uses = _sampled_use(system.reranker, requests)
            if any(use.calls for use in uses):
                asking[system.name] = [use.times(repeats) for use in uses]
                largest = max(largest, len(requests))
                queries = max(queries, len(system.candidates))
    if not asking:
        return None
    return ExpectedComparison(queries, asking, sampled=_SAMPLE if largest > _SAMPLE else None)


def _sampled_use(
    reranker: Reranker, requests: Sequence[tuple[str, Sequence[Candidate]]]
) -> list[Expected]:
    """The expected use of models by all requests, estimated from an evenly spaced sample."""
    count = min(len(requests), _SAMPLE)
    sample = [requests[number * len(requests) // count] for number in range(count)]
    return [use.times(len(requests) / count) for use in reranker.expected_use(sample)]


def _requests(system: SystemRun) -> list[tuple[str, Sequence[Candidate]]]:
    """The query and the candidates of each request of a system."""
    texts = system.suite.queries
    return [(texts[query], items) for query, items in system.candidates.items()]


def _unfinished(
    system: SystemRun, shuffles: int, seed: int
) -> list[tuple[str, Sequence[Candidate]]]:
    """The requests, including shuffled ones, whose rankings the journal does not have."""
    shuffled = shuffled_candidates(
        system.candidates, depth=system.reranker.depth, shuffles=shuffles, seed=seed
    )
    passes = chain([("", system.candidates)], shuffled)
    return [
        request for label, candidates in passes for request in system.unfinished(candidates, label)
    ]
