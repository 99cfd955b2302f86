"""Creates judgements with a language model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from secondpass import Candidate, CandidateLike, InputError, Ranking
from secondpass.asking.expected_use import Expected
from secondpass.formats.errors import check_numbers
from secondpass.formats.lines import AnyPath, write_lines
from secondpass.ranking.rendering import well_formed
from secondpass.settings import counted
from secondpass.settings.arguments import explained
from secondpass.types import Progress, no_progress
from secondpass_evaluation.environment import timestamp
from secondpass_evaluation.errors import check_mapping
from secondpass_evaluation.first_stages import FirstStage, Retriever
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.judging.folder import (
    POOL,
    QRELS,
    QUERIES,
    Pools,
    check_folder,
    check_ids,
    pool_lines,
    pooled,
    sampled,
)
from secondpass_evaluation.judging.grading import TEMPLATE, Grader, grading_reranker
from secondpass_evaluation.judging.judged_texts import hashes_path, text_hashes, write_hashes
from secondpass_evaluation.judging.labels import JudgedBy, judged_by_path, write_judged_by
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.reading import Qrels
from secondpass_evaluation.rerankers import Spec
from secondpass_evaluation.reranking import SystemRun
from secondpass_evaluation.suites import Suite, candidates_with_ids
from secondpass_evaluation.writing import write_qrels, write_queries


@dataclass(frozen=True)
class Judgements:
    """A language model's judgements of pooled documents.

    Attributes:
        queries: query id -> text, of the queries that were judged.
        qrels: query id -> document id -> grade, 0 to 3.
        judged_by: how they were made.
        pools: query id -> the judged documents, in random order.
        cost: cost of the calls at the model's prices; None without prices.
        calls: number of calls of the language model.
        stopped: why fewer queries were judged than were sampled; empty if all were.
    """

    queries: Mapping[str, str] = field(repr=False)
    qrels: Qrels = field(repr=False)
    judged_by: JudgedBy
    pools: Pools = field(repr=False)
    cost: float | None = None
    calls: int = 0
    stopped: str = ""

    def __repr__(self) -> str:
        parts = [repr(self.judged_by), counted(self.calls, "call")]
        parts += [f"stopped: {self.stopped}"] if self.stopped else []
        return f"<Judgements {'; '.join(parts)}>"

    def write(self, folder: AnyPath) -> list[str]:
        """Write the judgements into a folder, which is created if it does not exist.

        The folder is a suite for :func:`~secondpass_evaluation.load_suite` with the corpus that was
        searched. ``pool.jsonl`` holds the texts of the judged documents, so that a person can be
        asked about them later.

        Returns:
            The paths written.

        Raises:
            InputError: the folder has files of these names, or other judgements, without a model's
                mark.
            OSError: a file cannot be written.
        """
        path = Path(folder)
        check_folder(path)
        path.mkdir(parents=True, exist_ok=True)
        # The mark first: judgements without it would count as made by people.
        write_judged_by(path / QRELS, self.judged_by)
        queries = {query: well_formed(text) for query, text in self.queries.items()}
        write_queries(path / QUERIES, queries)
        write_lines(path / POOL, pool_lines(self.queries, self.pools))
        write_hashes(path / QRELS, text_hashes(self.qrels, candidates=self.pools))
        write_qrels(path / QRELS, self.qrels)
        beside = judged_by_path(path / QRELS), hashes_path(path / QRELS)
        return [str(file) for file in (path / QUERIES, path / POOL, *beside, path / QRELS)]


@explained()
def judge(
    queries: Mapping[str, str],
    grader: Grader,
    *,
    corpus: Iterable[CandidateLike] | None = None,
    candidates: Mapping[str, Iterable[CandidateLike]] | None = None,
    pool: Mapping[str, Spec] | Sequence[Spec] | Spec = (),
    retriever: Retriever | None = None,
    first_stages: Sequence[FirstStage] | None = None,
    behind: FirstStage | None = None,
    retrieved: int = 100,
    sample: int | None = None,
    depth: int = 10,
    batch_size: int = 1,
    budget: float | None = None,
    seed: int = 0,
    concurrency: int = 1,
    progress: Progress | None = None,
    journal: Journal | None = None,
    expected: Callable[[Sequence[Expected]], object] | None = None,
) -> Judgements:
    """Have a language model judge the results of first stages and rerankers.

    It gives grades from 0 to 3 by the criteria of UMBRELA
    (:mod:`~secondpass_evaluation.judging.grading` cites it). A query without a graded document is
    left out.

    Args:
        queries: query id -> text, such as those of a log.
        grader: the language model: a mapping with a ``type``, an object or a function; or a
            reranker, a configuration, a path or a preset whose language model is used.
        corpus: the passages that first stages search, each with a unique id.
        candidates: a first stage's results by query id, best first, each with an id.
        pool: rerankers whose results are also judged.
        retriever: as for :func:`~secondpass_evaluation.compare`.
        first_stages: whose results are judged. None: ``given`` with ``candidates``, otherwise all
            three searches that can run.
        behind: the first stage before the rerankers.
        retrieved: number of candidates of each query that rerankers rerank.
        sample: number of queries, drawn at random. None: all.
        depth: number of results of each system that are judged.
        batch_size: documents per question. With 1, as in UMBRELA, no document can influence the
            grade of another; a larger number takes fewer calls.
        budget: cost, at the model's prices, after which no further query is judged. The judged
            queries are then a smaller random sample. If the model does not report its usage, the
            expected cost counts.
        seed: of the sample and of the order of the documents.
        concurrency: number of rankings at a time.
        progress: called after each query.
        journal: receives each finished ranking; rankings that it has are reused.
        expected: called before the language model. An exception that it raises passes through.

    Raises:
        InputError: an argument is wrong, no first stage can run, nothing was found, nothing could
            be graded, or ``budget`` is set for a model without prices.
        FormatError: an id does not fit into TREC's files; raised before any call.
        ConfigurationError: the grader asks no language model, or a reranker cannot be created.
    """
    check_numbers(
        retrieved=(retrieved, 1),
        depth=(depth, 1),
        batch_size=(batch_size, 1),
        seed=(seed, 0),
        concurrency=(concurrency, 1),
        **({} if sample is None else {"sample": (sample, 1)}),
    )
    is_number = isinstance(budget, int | float) and not isinstance(budget, bool)
    if budget is not None and not (is_number and 0 < budget < math.inf):
        raise InputError("budget: must be a number above 0")
    suite = _unjudged(queries, corpus, candidates, sample, seed)
    report = progress or no_progress
    reranker, model, owned = grading_reranker(grader, batch_size=batch_size)
    try:
        if budget is not None and getattr(model, "prices", None) is None:
            raise InputError("budget: the language model has no prices; set `prices`")
        observed = Observations(
            suite,
            retriever=retriever,
            first_stages=first_stages,
            behind=behind,
            depth=max(retrieved, depth),
            concurrency=concurrency,
            progress=report,
            journal=journal,
        )
        pools, systems = pooled(observed, pool, depth=depth, seed=seed)
        pools = {query: items for query, items in pools.items() if items}
        if not pools:
            raise InputError("judge: nothing was found for any query, so there is nothing to judge")
        check_ids(pools)  # before calls whose results could not be written
        system = SystemRun("judge", reranker, suite, pools, concurrency, report, journal)
        if expected is not None:
            expected(reranker.expected_use(system.unfinished(pools)))
        rankings, stopped = _graded(system, pools, budget, concurrency)
    finally:
        if owned:
            reranker.close()
    qrels: Qrels = {}
    for query, ranking in rankings.items():
        grades = {str(item.id): item.rerank_score for item in ranking}
        found = {str(item.id): grades[str(item.id)] for item in pools[query]}
        if judged := {name: round(grade) for name, grade in found.items() if grade is not None}:
            qrels[query] = judged
    if not qrels:
        raise InputError(f"judge: nothing was graded{_reasons(rankings)}")
    usages = [ranking.report.usage for ranking in rankings.values()]
    costs = [usage.cost for usage in usages if usage.cost is not None]
    counts = Counter(grade for judged in qrels.values() for grade in judged.values())
    mark = JudgedBy(
        model=model.name,
        template=TEMPLATE,
        date=timestamp(),
        sampled_from=len(queries),
        queries=len(qrels),
        documents=counts.total(),
        grades=dict(sorted(counts.items())),
        ungraded=sum(len(pools[query]) for query in rankings) - counts.total(),
        pools=systems,
        depth=depth,
        seed=seed,
        order=tuple(qrels),
    )
    return Judgements(
        {query: queries[query] for query in qrels},
        qrels,
        mark,
        {query: pools[query] for query in qrels},
        math.fsum(costs) if len(costs) == len(usages) else None,
        sum(usage.calls or 0 for usage in usages),
        stopped,
    )


def _graded(
    system: SystemRun, pools: Pools, budget: float | None, concurrency: int
) -> tuple[dict[str, Ranking], str]:
    """Rankings of the pools, in order, until the budget is spent; and why it stopped, or ""."""
    if budget is None:
        return system.rankings(pools), ""
    rankings: dict[str, Ranking] = {}
    spent = 0.0
    rest = iter(pools)
    while spent < budget and (batch := list(islice(rest, concurrency))):
        done = system.rankings({query: pools[query] for query in batch})
        rankings |= done
        spent += math.fsum(_cost(system, query, ranking) for query, ranking in done.items())
    if len(rankings) == len(pools):
        return rankings, ""
    counts = f"{len(rankings):,} of {counted(len(pools), 'query', 'queries')}"
    return rankings, f"the budget of {budget:g} was spent after {counts}"


def _cost(system: SystemRun, query: str, ranking: Ranking) -> float:
    """The cost of a ranking; the expected cost if it was not reported."""
    usage = ranking.report.usage
    if usage.cost is not None or not usage.calls:
        return usage.cost or 0.0
    request = (system.suite.queries[query], system.candidates[query])
    return math.fsum(use.cost or 0.0 for use in system.reranker.expected_use([request]))


def _unjudged(
    queries: Mapping[str, str],
    corpus: Iterable[CandidateLike] | None,
    candidates: Mapping[str, Iterable[CandidateLike]] | None,
    sample: int | None,
    seed: int,
) -> Suite:
    """A suite of a sample of the queries, without judgements."""
    if not isinstance(queries, Mapping) or not queries:
        raise InputError("queries: give a mapping of at least one id to its text")
    for query, text in queries.items():
        if not isinstance(query, str) or not isinstance(text, str):
            raise InputError("queries: ids and texts must be strings")
    if corpus is None and candidates is None:
        raise InputError("judge: needs a corpus, or the candidates of a first stage")
    if candidates is not None:
        check_mapping("candidates", candidates)
    passages = None if corpus is None else candidates_with_ids(corpus, "corpus", unique=True)
    chosen = sampled(queries, sample, seed)
    lists: dict[str, Sequence[Candidate]] | None = None
    if candidates is not None:
        lists = {
            query: candidates_with_ids(candidates[query], f"candidates[{query!r}]")
            for query in chosen
            if query in candidates
        }
    return Suite("judge", chosen, {}, passages, lists)


def _reasons(rankings: Mapping[str, Ranking]) -> str:
    issues = [issue for each in rankings.values() for issue in each.report.issues]
    codes = Counter(issue.code for issue in issues)
    messages = {issue.code: issue.message for issue in reversed(issues)}
    listed = "; ".join(f"{code} ({codes[code]:,}): {messages[code]}" for code in sorted(codes))
    return f"; issues: {listed}" if listed else ""
