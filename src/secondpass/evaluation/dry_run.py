"""What rankings and comparisons would take, estimated without calling a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Unpack

from secondpass.call_options import CallOptions
from secondpass.candidates import to_requests
from secondpass.errors import SecondPassError
from secondpass.evaluation.first_stages import FirstStage, FirstStages, Retriever, choose_stages
from secondpass.evaluation.journal import Journal
from secondpass.evaluation.rerankers import Spec, create_rerankers
from secondpass.evaluation.reranking import Progress, SystemRun
from secondpass.evaluation.stability import shuffled_candidates
from secondpass.evaluation.suites import Suite
from secondpass.reranker import Reranker
from secondpass.runtime.dry_run import Expected, merged
from secondpass.types import Candidate, RequestLike

_SAMPLE = 100
"""Rankings of a system to estimate what all of them take."""


def expected_use(
    reranker: Reranker, requests: Iterable[RequestLike], **options: Unpack[CallOptions]
) -> list[Expected]:
    """What :meth:`Reranker.rerank_many` would take, per model; nothing is called.

    Retries, repairs and fallbacks are not included: every call is taken to succeed. Limits of
    calls, tokens and cost are kept to, a deadline is not.

    Args:
        reranker: its method is taken, or the first fallback if that lacks packages.
        requests: as for ``rerank_many``.
        options: likewise.

    Raises:
        InputError: a request or an option is wrong.
    """
    uses: list[Expected] = []
    for request in to_requests(requests, text_needed=reranker.render.needs_text):
        uses += reranker._expected(request, options)
    return merged(uses)


@dataclass(frozen=True)
class ExpectedComparison:
    """What a comparison would take.

    Attributes:
        queries: number of queries.
        systems: per reranker behind a first stage, what each model would take.
        not_run: why other systems would not run, by name.
        sampled: number of rankings of a system that the estimate was made of, if not of all.
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
    """What the rerankers of :func:`~secondpass.evaluation.compare` would take.

    The first stages search, because their candidates are what rerankers read; no reranker is
    called. Rankings in the journal are not counted. The arguments and exceptions are those of
    ``compare``.
    """
    report = progress or _no_progress
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
                uses = expected_use(reranker, requests)
                expected.systems[label] = [use.times(repeats) for use in uses]
    finally:
        for reranker, owned in created.values():
            if owned:
                reranker.close()
    return expected


def expected_of_services(
    systems: Sequence[SystemRun], *, shuffles: int, seed: int
) -> ExpectedComparison | None:
    """What those systems would take that ask a language model or a rerank API.

    It is estimated from at most 100 rankings of each system, so that it takes about a second where
    all rankings of a large suite would take minutes. Rankings in the journal are not counted.

    Args:
        systems: with the candidates of every query.
        shuffles: as for ``compare``.
        seed: of the shuffles.

    Returns:
        None if nothing is to be asked. A system whose requests are wrong is left out.
    """
    asking: dict[str, list[Expected]] = {}
    largest = queries = 0
    for system in systems:
        requests, repeats = _requests(system), 1 + shuffles
        with suppress(SecondPassError):  # the result of the system will say it
            uses = _sampled_use(system.reranker, requests)
            begun = system.journal is not None and len(system.journal) > 0
            if begun and any(use.calls for use in uses):
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
    """What the requests would take, estimated from some of them, evenly spaced."""
    count = min(len(requests), _SAMPLE)
    sample = [requests[number * len(requests) // count] for number in range(count)]
    return [use.times(len(requests) / count) for use in expected_use(reranker, sample)]


def _requests(system: SystemRun) -> list[tuple[str, Sequence[Candidate]]]:
    """The queries and candidates of a system, as they are."""
    texts = system.suite.queries
    return [(texts[query], items) for query, items in system.candidates.items()]


def _unfinished(
    system: SystemRun, shuffles: int, seed: int
) -> list[tuple[str, Sequence[Candidate]]]:
    """The queries and candidates, also shuffled ones, whose rankings the journal does not have."""
    shuffled = shuffled_candidates(
        system.candidates, depth=system.reranker.depth, shuffles=shuffles, seed=seed
    )
    passes = chain([("", system.candidates)], shuffled)
    return [
        request for label, candidates in passes for request in system.unfinished(candidates, label)
    ]


def _no_progress(_system: str, _done: int, _count: int) -> None:
    pass
