"""The documents to judge: the first results of several systems on a random sample of queries.

Pools as in TREC (Spärck Jones and van Rijsbergen, "Report on the need for and provision of an
'ideal' information retrieval test collection", 1975). Their order is random, so that it does not
show a judge which system found a document, or at what rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from secondpass import Candidate, ConfigurationError, InputError
from secondpass.types import Progress
from secondpass_evaluation.first_stages import FirstStage, FirstStages, Retriever, choose_stages
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.rerankers import Spec, create_rerankers
from secondpass_evaluation.reranking import SystemRun
from secondpass_evaluation.suites import Suite

Pools: TypeAlias = dict[str, tuple[Candidate, ...]]
"""query id -> documents to judge, in random order."""


def sampled(queries: Mapping[str, str], count: int | None, seed: int) -> dict[str, str]:
    """A random sample of queries, in random order.

    The order is that of hashes, so a smaller sample with the same seed is the beginning of a larger
    one, and queries that are added later do not change the order of the others.

    Args:
        queries: query id -> text.
        count: size of the sample; None: all.
        seed: of the order.
    """
    order = sorted(queries, key=lambda query: _hash(seed, query, queries[query]))
    return {query: queries[query] for query in order[:count]}


def pooled(
    suite: Suite,
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec,
    *,
    retriever: Retriever | None,
    first_stages: Sequence[FirstStage] | None,
    behind: FirstStage | None,
    retrieved: int,
    depth: int,
    seed: int,
    concurrency: int,
    progress: Progress,
    journal: Journal | None,
) -> tuple[Pools, tuple[str, ...]]:
    """The first ``depth`` results of every system, and the names of the systems.

    Raises:
        InputError: no first stage can run, or one in ``first_stages`` or ``behind`` cannot.
        ConfigurationError: a reranker cannot be created.
    """
    stages, behinds = choose_stages(suite, first_stages, behind)
    search = FirstStages(suite, retriever, retrieved, progress)
    results: dict[str, Mapping[str, Sequence[Candidate]]] = {}
    reasons = {}
    for stage in stages:
        outcome = search.retrieved(stage)
        if outcome.reason:
            reasons[stage] = outcome.reason
        else:
            results[stage] = outcome.candidates
    # A default first stage may lack a package; a requested one must run.
    failed = {*(first_stages or ()), *behinds} & reasons.keys()
    if failed or not results:
        raise InputError("; ".join(f"{stage}: {reason}" for stage, reason in reasons.items()))
    base = behinds[0] if behinds else search.preferred(stages)
    created, missing = create_rerankers(rerankers)
    for name, reason in missing.items():
        raise ConfigurationError(f"{name}: {reason}")
    try:
        for name, (reranker, _) in created.items():
            candidates = search.retrieved(base).candidates
            label = f"{base}+{name}"
            system = SystemRun(label, reranker, suite, candidates, concurrency, progress, journal)
            rankings = system.rankings(candidates)
            results[label] = {
                query: [candidates[query][item.position] for item in ranking[:depth]]
                for query, ranking in rankings.items()
            }
    finally:
        for reranker, owned in created.values():
            if owned:
                reranker.close()
    pools: Pools = {}
    for query, text in suite.queries.items():
        documents = {
            str(item.id): item for lists in results.values() for item in lists[query][:depth]
        }
        order = sorted(documents, key=lambda document: _hash(seed, text, document))
        pools[query] = tuple(documents[document] for document in order)
    return pools, tuple(results)


def _hash(seed: int, *parts: str) -> bytes:
    text = "\0".join((str(seed), *parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
