"""The inputs, estimates and output of ``secondpass judge``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass.cli.console import USAGE_ERROR, fail, info, one_line, print_json, warn, write
from secondpass.config import load
from secondpass.runtime.dry_run import Expected
from secondpass.strategies.parts import asks
from secondpass.types import Progress
from secondpass_evaluation.cli.compared import loadable_rerankers, reranker_specs
from secondpass_evaluation.cli.dry_run import print_comparison, print_expected
from secondpass_evaluation.cli.suite_options import default_stages
from secondpass_evaluation.dry_run import ExpectedComparison

if TYPE_CHECKING:
    from secondpass_evaluation.first_stages import FirstStage, Retriever
    from secondpass_evaluation.journal import Journal
    from secondpass_evaluation.judging.judge import Judgements

_JOURNAL = "rankings.jsonl"
"""Name of the file with what is finished, in the folder of the judgements."""

MakeRetriever = Callable[[set["FirstStage"], Path | None, Progress], "Retriever | None"]


class DryRunDoneError(Exception):
    """Ends a dry run before the language model is asked."""

    def __init__(self, uses: Sequence[Expected]) -> None:
        super().__init__()
        self.uses = list(uses)

    def show(self, queries: int, *, as_json: bool) -> None:
        """Print the estimate for this number of queries."""
        print_comparison(ExpectedComparison(queries, {"judge": self.uses}), {}, as_json=as_json)


def stop_before_asking(uses: Sequence[Expected]) -> None:
    """End a dry run.

    Raises:
        DryRunDoneError: always.
    """
    raise DryRunDoneError(uses)


def print_estimate(uses: Sequence[Expected]) -> None:
    """Print to standard error the expected calls, tokens and cost of the language model."""
    print_expected(ExpectedComparison(0, {"judge": list(uses)}))


def pool_rerankers(pool: Sequence[str] | None, *, dry_run: bool) -> dict[str, Any]:
    """The configurations of ``--pool``, by name; in a dry run, only those that use no service."""
    if not pool:
        return {}
    configs, skipped = loadable_rerankers(reranker_specs(None, None, pool, None), None, None)
    for name, reason in skipped.items():
        fail(f"--pool {name}: {reason}")
    if not dry_run:
        return configs
    local = {}
    for name, config in configs.items():
        reranker = load(config)
        fallbacks = (stage.method for stage in reranker.fallback)
        if any(asks(method) for method in (reranker.method, *fallbacks)):
            warn(f"--pool {name}: asks a service, so its results are not in this estimate")
        else:
            local[name] = config
    return local


@contextmanager
def folder_journal(
    into: Path, *, resume: bool, force: bool, dry_run: bool
) -> Iterator[Journal | None]:
    """The journal in the folder of the judgements; in a dry run, None without one to resume.

    It is kept, so that a larger sample asks only about new queries. Exits if the folder has
    judgements and neither option is set, or judgements that no model has made.
    """
    from secondpass_evaluation.journal import Journal
    from secondpass_evaluation.judging.folder import QRELS, check_folder
    from secondpass_evaluation.judging.labels import judged_by_path, locked

    path, qrels = into / _JOURNAL, into / QRELS
    if resume and force:
        fail("--resume, --force: give one of them", USAGE_ERROR)
    if dry_run:
        with Journal(path, partial=False) if resume and path.exists() else nullcontext() as journal:
            yield journal
        return
    check_folder(into)
    has_some = qrels.exists() or (path.exists() and path.stat().st_size > 0)
    if has_some and not (resume or force):
        hint = "use --resume to continue, --force to start again, or --ask alone to ask a person"
        fail(f"{into}: already has judgements; {hint}")
    into.mkdir(parents=True, exist_ok=True)
    # Judgements must not change while a person reviews them.
    lock = locked(into) if judged_by_path(qrels).exists() else nullcontext()
    with lock, Journal(path, partial=False) as journal:
        if not resume:
            journal.clear()
        try:
            yield journal
        except BaseException:
            if len(journal):
                info(f"what is finished is in {path}; continue with --resume")
            raise
        if journal.reused:
            info(f"{journal.reused:,} finished rankings were read from {path}")


def open_inputs(
    source: str,
    corpus: Path | None,
    run: Path | None,
    *,
    passage_size: int,
    stale_ok: bool,
    depth: int,
) -> tuple[dict[str, str], dict[str, Any], MakeRetriever]:
    """Read the inputs.

    Returns:
        The queries; ``corpus`` and ``candidates`` of :func:`~secondpass_evaluation.judge`; and a
        function that creates the retriever, as of
        :func:`~secondpass_evaluation.cli.suite_options.open_suite`.
    """
    from secondpass.formats.compression import find_file
    from secondpass_evaluation.candidate_lists import candidates_of_run, read_candidates
    from secondpass_evaluation.cli.first_stages import (
        IndexStage,
        open_for_search,
        read_passages,
        suite_retriever,
    )
    from secondpass_evaluation.loading import passages_of, read_query_log
    from secondpass_evaluation.search.selection import is_index
    from secondpass_evaluation.suites import Suite

    queries_file, candidates_file = Path(source), None
    if queries_file.is_dir():
        folder = queries_file
        file = find_file(folder, ("queries.jsonl", "queries.tsv"))
        if file is None:
            fail(f"{folder}: has no queries (queries.jsonl, queries.tsv)")
        queries_file = file
        corpus = corpus or find_file(folder, ("corpus.jsonl",))
        candidates_file = find_file(folder, ("candidates.jsonl",))
    if corpus is None and candidates_file is None:
        fail("missing --corpus, or QUERIES as a folder with corpus.jsonl", USAGE_ERROR)
    index = None
    if corpus is not None and is_index(corpus):
        index = open_for_search(corpus, depth, stale_ok=stale_ok)
    documents = index.corpus if index else read_passages(corpus, passage_size)
    passages = None if documents is None else passages_of(documents)
    candidates = None
    if run is not None:
        candidates = candidates_of_run(run, passages)
    elif candidates_file is not None:
        candidates = read_candidates(candidates_file, passages)
    queries = read_query_log(queries_file)
    suite = Suite("judge", queries, {}, passages, candidates)

    def retriever(
        stages: set[FirstStage], cache: Path | None, progress: Progress
    ) -> Retriever | None:
        names: set[str] = {*(stages or default_stages(suite))}
        if index is not None:
            return IndexStage(index, names)
        return suite_retriever(suite, names, depth, cache, progress)

    return queries, {"corpus": passages, "candidates": candidates}, retriever


def print_judgements(judgements: Judgements, *, as_json: bool) -> None:
    """Print the number of judgements by grade, the calls and the cost."""
    mark = judgements.judged_by
    if judgements.stopped:
        warn(judgements.stopped)
    if mark.ungraded:
        warn(f"{mark.ungraded:,} documents have no grade; --resume asks again about them")
    record = {
        "model": mark.model,
        "template": mark.template,
        "sampled_from": mark.sampled_from,
        "queries": mark.queries,
        "documents": mark.documents,
        "grades": {str(grade): count for grade, count in mark.grades.items()},
        "ungraded": mark.ungraded,
        "pools": list(mark.pools),
        "calls": judgements.calls,
        "cost": judgements.cost,
        "stopped": judgements.stopped,
    }
    if as_json:
        print_json(record)
        return
    grades = ", ".join(f"{count:,} of grade {grade}" for grade, count in mark.grades.items())
    cost = "" if judgements.cost is None else f", cost {judgements.cost:.4g}"
    write(
        f"{one_line(mark.model)} judged {mark.documents:,} documents of {mark.queries:,} of "
        f"{mark.sampled_from:,} queries: {grades}\n{judgements.calls:,} calls{cost}\n"
    )
    if not any(grade for grade in mark.grades):
        warn("no document is judged relevant, so these judgements cannot measure anything")
