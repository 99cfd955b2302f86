"""What ``secondpass judge`` reads, estimates and prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass.cli.compared import loadable_rerankers, reranker_specs
from secondpass.cli.console import USAGE_ERROR, fail, info, one_line, print_json, warn, write
from secondpass.cli.dry_run import print_comparison, print_expected
from secondpass.cli.suite_options import default_stages
from secondpass.config import load
from secondpass.evaluation.dry_run import ExpectedComparison
from secondpass.runtime.dry_run import Expected
from secondpass.search.documents import Progress
from secondpass.strategies.parts import asks

if TYPE_CHECKING:
    from secondpass.evaluation.first_stages import FirstStage, Retriever
    from secondpass.evaluation.journal import Journal
    from secondpass.evaluation.judging.judge import Judgements

_JOURNAL = "rankings.jsonl"
"""Name of the file with what is finished, in the folder of the judgements."""

MakeRetriever = Callable[[set["FirstStage"], Path | None, Progress], "Retriever | None"]


class DryRunDoneError(Exception):
    """Ends a dry run before the language model is asked."""

    def __init__(self, uses: Sequence[Expected]) -> None:
        super().__init__()
        self.uses = list(uses)

    def show(self, queries: int, *, as_json: bool) -> None:
        """Print the estimate for so many queries."""
        print_comparison(ExpectedComparison(queries, {"judge": self.uses}), {}, as_json=as_json)


def stop_before_asking(uses: Sequence[Expected]) -> None:
    """End a dry run.

    Raises:
        DryRunDoneError: always.
    """
    raise DryRunDoneError(uses)


def print_estimate(uses: Sequence[Expected]) -> None:
    """Say on standard error what the language model is expected to take."""
    print_expected(ExpectedComparison(0, {"judge": list(uses)}))


def pool_rerankers(pool: Sequence[str] | None, *, dry_run: bool) -> dict[str, Any]:
    """The configurations of ``--pool``, by name; for a dry run, of those that ask no service."""
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
    """The journal in the folder of the judgements; None for a dry run.

    It stays there, so that a larger sample asks only about what is new. Exits if the folder has
    judgements that the options say nothing about, or some that no model has made.
    """
    from secondpass.evaluation.journal import Journal
    from secondpass.evaluation.judging.folder import QRELS, check_folder
    from secondpass.evaluation.judging.labels import judged_by_path, locked

    if dry_run:
        yield None
        return
    if resume and force:
        fail("--resume, --force: give one of them", USAGE_ERROR)
    path, qrels = into / _JOURNAL, into / QRELS
    check_folder(into)
    has_some = qrels.exists() or (path.exists() and path.stat().st_size > 0)
    if has_some and not (resume or force):
        hint = "use --resume to continue, --force to start again, or --ask alone to ask a person"
        fail(f"{into}: already has judgements; {hint}")
    into.mkdir(parents=True, exist_ok=True)
    # A person who is being asked meanwhile would answer about judgements that change.
    alone = locked(into) if judged_by_path(qrels).exists() else nullcontext()
    with alone, Journal(path, partial=False) as journal:
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


def inputs(
    source: str,
    corpus: Path | None,
    run: Path | None,
    *,
    passage_size: int,
    stale_ok: bool,
    depth: int,
) -> tuple[dict[str, str], dict[str, Any], MakeRetriever]:
    """The queries, the corpus or candidates, and what makes the retriever."""
    from secondpass.cli.first_stages import (
        IndexStage,
        open_for_search,
        read_passages,
        suite_retriever,
    )
    from secondpass.evaluation.judging.query_log import read_query_log
    from secondpass.evaluation.loading import candidates_of_run, passages_of, read_candidates
    from secondpass.evaluation.suites import Suite
    from secondpass.formats.compression import find_file
    from secondpass.search.index_files import is_index

    place, ready = Path(source), None
    if place.is_dir():
        folder, found = place, find_file(place, ("queries.jsonl", "queries.tsv"))
        if found is None:
            fail(f"{folder}: has no queries (queries.jsonl, queries.tsv)")
        place = found
        corpus = corpus or find_file(folder, ("corpus.jsonl",))
        ready = find_file(folder, ("candidates.jsonl",))
    if corpus is None and ready is None:
        fail("--corpus: name what to search, or a folder with corpus.jsonl", USAGE_ERROR)
    index = None
    if corpus is not None and is_index(corpus):
        index = open_for_search(corpus, depth, stale_ok=stale_ok)
    documents = index.corpus if index else read_passages(corpus, passage_size)
    passages = None if documents is None else passages_of(documents)
    candidates = None
    if run is not None:
        candidates = candidates_of_run(run, passages)
    elif ready is not None:
        candidates = read_candidates(ready, passages)
    queries = read_query_log(place)
    suite = Suite("judge", queries, {}, passages, candidates)

    def retriever(
        stages: set[FirstStage], cache: Path | None, progress: Progress
    ) -> Retriever | None:
        wanted = stages or {*default_stages(suite)}
        if index is not None:
            return IndexStage(index, {*wanted})
        return suite_retriever(suite, {*wanted}, depth, cache, progress)

    return queries, {"corpus": passages, "candidates": candidates}, retriever


def print_judgements(judgements: Judgements, *, as_json: bool) -> None:
    """Print how many judgements there are, and of which grades."""
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
        warn("no document is judged relevant, so nothing can be measured by these judgements")
