"""What rankings and comparisons would take, estimated without calling a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Unpack

from secondpass import methods
from secondpass.call_options import CallOptions
from secondpass.candidates import to_requests
from secondpass.errors import MissingExtraError
from secondpass.evaluation.first_stages import FirstStage, FirstStages, Retriever, choose_stages
from secondpass.evaluation.rerankers import Spec, create_rerankers
from secondpass.evaluation.reranking import Progress
from secondpass.evaluation.suites import Suite
from secondpass.methods import Stage
from secondpass.ranking_pass import RankingPass
from secondpass.reranker import Reranker
from secondpass.runtime.dry_run import Expected, dry_run, merged
from secondpass.runtime.ledger import Ledger
from secondpass.types import RequestLike


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
    settings = reranker._settings(options)
    settings = settings._replace(stages=(_runnable(settings.stages),), order=None, strict=False)
    uses: list[Expected] = []
    for request in to_requests(requests, text_needed=reranker.render.needs_text):
        ledger = Ledger(reranker.limits)
        uses += dry_run(RankingPass(settings, ledger, *request).plan(), ledger)
    return merged(uses)


@dataclass(frozen=True)
class ExpectedComparison:
    """What a comparison would take.

    Attributes:
        queries: number of queries.
        systems: per reranker behind a first stage, what each model would take.
        skipped: why other systems would not run, by name.
    """

    queries: int
    systems: dict[str, list[Expected]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def expected_comparison(
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec,
    suite: Suite,
    *,
    retriever: Retriever | None = None,
    first_stages: Sequence[FirstStage] | None = None,
    behind: FirstStage | Sequence[FirstStage] | None = None,
    depth: int = 100,
    shuffles: int = 0,
    progress: Progress | None = None,
) -> ExpectedComparison:
    """What the rerankers of :func:`~secondpass.evaluation.compare` would take.

    The first stages search, because their candidates are what rerankers read; no reranker is
    called. The arguments and exceptions are those of ``compare``.
    """
    stages, behinds = choose_stages(suite, first_stages, behind)
    search = FirstStages(suite, retriever, depth, progress or _no_progress)
    behinds = behinds or (search.preferred(stages),)
    created, missing = create_rerankers(rerankers)
    expected = ExpectedComparison(len(suite.queries))
    try:
        for stage in behinds:
            for name, reason in missing.items():
                expected.skipped[f"{stage}+{name}"] = reason
            retrieved = search.retrieved(stage)
            for name, (reranker, _) in created.items():
                label = f"{stage}+{name}"
                if retrieved.reason:
                    expected.skipped[label] = f"{stage}: {retrieved.reason}"
                    continue
                uses = expected_use(
                    reranker,
                    [
                        (suite.queries[query], candidates)
                        for query, candidates in retrieved.candidates.items()
                    ],
                )
                expected.systems[label] = [use.times(1 + shuffles) for use in uses]
    finally:
        for reranker, owned in created.values():
            if owned:
                reranker.close()
    return expected


def _runnable(stages: Sequence[Stage]) -> Stage:
    """The first stage whose packages are installed."""
    for stage in stages:
        try:
            methods.check_installed([stage.method])
        except MissingExtraError:
            continue
        return stage
    return stages[0]


def _no_progress(_system: str, _done: int, _count: int) -> None:
    pass
