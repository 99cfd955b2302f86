"""``secondpass judge``: have a language model judge results, and a person some of them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from secondpass.asking.expected_use import Expected
from secondpass.cli.console import (
    USAGE_ERROR,
    escaped,
    fail,
    info,
    message_console,
    one_line,
    print_json,
    warn,
    write,
)
from secondpass.cli.options import DryRun, RerankerOptions, grouped, load_for, new_folder
from secondpass.cli.progress import progress_bars
from secondpass.config import load
from secondpass.ranking.methods import asks
from secondpass.settings import counted
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.dry_run import print_comparison, print_expected
from secondpass_evaluation.cli.suite_options import (
    STAGES,
    Behind,
    Concurrency,
    DocumentOptions,
    OutputOptions,
    Searched,
    Seed,
    Stage,
    VectorOptions,
    configurations,
    is_interrupted,
    report_reused,
    reranker_specs,
    stage_names,
)
from secondpass_evaluation.dry_run import ExpectedComparison

if TYPE_CHECKING:
    from secondpass_evaluation.journal import Journal
    from secondpass_evaluation.judging.folder import Review
    from secondpass_evaluation.judging.judge import Judgements


_JOURNAL = "rankings.jsonl"
"""Name of the file with what is finished, in the folder of the judgements."""
_REVIEWED = 20
"""Number of queries that a person is advised to judge, at most."""
_RETRIEVED = 100
"""Number of candidates to retrieve per query for rerankers."""


@grouped
def judge(
    *,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERIES",
            help="File of queries: JSON lines with `query`, such as a log, or lines of "
            "`id<TAB>text`. Or a folder in BEIR's format.",
        ),
    ] = None,
    into: Annotated[Path, typer.Option(help="Folder for the judgements.")],
    documents: DocumentOptions,
    configured: RerankerOptions,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]WHAT",
            help="Preset or YAML file of a reranker; its first results are judged, too. "
            "Repeatable.",
        ),
    ] = None,
    stage: Annotated[
        list[Stage] | None,
        typer.Option(
            "--mode",
            metavar=STAGES,
            help="Search (first stage) whose results are judged. Repeatable.",
        ),
    ] = None,
    behind: Behind = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Judge only this many queries, drawn at random. Default: all."),
    ] = None,
    depth: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of results to judge, from the first, of each search and each reranker.",
        ),
    ] = 10,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Number of documents that the model grades in one question.")
    ] = 1,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Judge no further query when the cost has reached this. The model's "
            "configuration needs `prices`.",
        ),
    ] = None,
    seed: Seed = 0,
    concurrency: Concurrency = 1,
    vectors: VectorOptions,
    ask: Annotated[
        int | None,
        typer.Option(
            min=1, help="Then ask you in the terminal to judge the results of this many queries."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue an interrupted run in the folder, or judge a larger sample."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the model's judgements in the folder.")
    ] = False,
    dry_run: DryRun = False,
    output: OutputOptions,
) -> None:
    """Let a language model judge results, and check a sample by hand.

    The judge is the language model of the reranker that `--preset` or `--config` describes. It
    grades the first results of each search and each reranker from 0 (not relevant) to 3. You can
    then measure with these judgements: the folder is a suite for `eval`, with the same `--corpus`.
    For example:

    `secondpass judge log.jsonl --corpus docs.index --config judge.yaml --sample 200 --into suite`

    A language model makes errors. If you judge the results of some queries yourself, `eval`
    corrects its figures for these errors:

    `secondpass judge --into suite --ask 20`

    Each of your answers is written at once. If you stop, the same command continues.
    """
    check_installed("secondpass judge")
    if source is None:
        if ask is None:
            fail("missing QUERIES, or --ask for judgements in --into (see --help)", USAGE_ERROR)
        review_folder(into, ask, as_json=output.as_json)
        return
    if configured.config is None and configured.preset is None:
        fail("missing --config or --preset, with the language model that judges", USAGE_ERROR)
    if ask is not None and dry_run:
        fail("--ask, --dry-run: give one of them", USAGE_ERROR)
    from secondpass_evaluation.judging.judge import judge as judge_queries

    def announce(uses: Sequence[Expected]) -> None:
        if dry_run:
            raise _DryRunDoneError(uses)
        print_expected(ExpectedComparison(0, {"judge": [*uses]}))

    grader = load_for(configured.read(), dry_run=dry_run)
    with (
        progress_bars(output.quiet) as progress,
        folder_journal(into, resume=resume, force=force, dry_run=dry_run) as journal,
    ):
        searched = open_inputs(source, documents, max(_RETRIEVED, depth))
        queries = searched.suite.queries
        try:
            judgements = judge_queries(
                queries,
                grader,
                corpus=searched.suite.corpus,
                candidates=searched.suite.candidates,
                pool=pool_rerankers(pool, dry_run=dry_run),
                retriever=searched.retriever(vectors, progress),
                first_stages=stage_names(stage),
                behind=behind,
                retrieved=_RETRIEVED,
                sample=sample,
                depth=depth,
                batch_size=batch_size,
                budget=budget,
                seed=seed,
                concurrency=concurrency,
                progress=progress,
                journal=journal,
                expected=announce,
            )
            written = judgements.write(into)
        except _DryRunDoneError as done:
            uses = done.uses
        finally:
            grader.close()
    if dry_run:  # below the progress bars, not beneath them
        count = min(sample or len(queries), len(queries))
        estimate = ExpectedComparison(count, {"judge": uses})
        print_comparison(estimate, as_json=output.as_json)
        return
    if ask is None or not output.as_json:
        print_judgements(judgements, as_json=output.as_json)
    if ask is None and not output.as_json:
        count = min(_REVIEWED, judgements.judged_by.queries)
        command = f"secondpass judge --into {shlex.quote(str(into))} --ask {count}"
        how_many = counted(count, "query", "queries")
        info(f"next: `{command}` lets you judge {how_many}; `eval` then corrects its figures")
    for path in written:
        info(f"written: {path}")
    if ask is not None:
        review_folder(into, ask, as_json=output.as_json)


class _DryRunDoneError(Exception):
    """Ends a dry run before the language model is asked."""

    def __init__(self, uses: Sequence[Expected]) -> None:
        super().__init__()
        self.uses = list(uses)


def pool_rerankers(pool: Sequence[str] | None, *, dry_run: bool) -> dict[str, Any]:
    """The configurations of ``--pool``, by name; in a dry run, only those that use no service."""
    configs = configurations(reranker_specs(None, None, pool, None))
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
    if (qrels.exists() or is_interrupted(path)) and not (resume or force):
        hint = "use --resume to continue, --force to start again, or --ask alone to ask a person"
        fail(f"{into}: already has judgements; {hint}")
    # Judgements must not change while a person reviews them.
    lock = locked(into) if judged_by_path(qrels).exists() else nullcontext()
    with new_folder(into), lock, Journal(path, partial=False) as journal:
        if not resume:
            journal.clear()
        try:
            yield journal
        except BaseException:
            if len(journal):
                info(f"what is finished is in {path}; continue with --resume")
            raise
        report_reused(journal)


def open_inputs(source: str, documents: DocumentOptions, depth: int) -> Searched:
    """Read the queries and what is searched for them; a suite without judgements."""
    from secondpass.formats.files import find_file
    from secondpass_evaluation.loading import (
        candidates_of_run,
        passages_of,
        read_candidates,
        read_query_log,
    )
    from secondpass_evaluation.suites import Suite

    queries_file, candidates_file = Path(source), None
    if not queries_file.exists():
        fail(f"{source}: there is no such file or folder")
    if queries_file.is_dir():
        folder = queries_file
        file = find_file(folder, ("queries.jsonl", "queries.tsv"))
        if file is None:
            fail(f"{folder}: has no queries (queries.jsonl, queries.tsv)")
        queries_file = file
        corpus = documents.corpus or find_file(folder, ("corpus.jsonl",))
        documents = replace(documents, corpus=corpus)
        candidates_file = find_file(folder, ("candidates.jsonl",))
    if documents.corpus is None and candidates_file is None:
        fail("missing --corpus, or QUERIES as a folder with corpus.jsonl", USAGE_ERROR)
    index, read = documents.read(depth)
    passages = None if read is None else passages_of(read)
    candidates = None
    if documents.run is not None:
        candidates = candidates_of_run(documents.run, passages)
    elif candidates_file is not None:
        candidates = read_candidates(candidates_file, passages)
    suite = Suite("judge", read_query_log(queries_file), {}, passages, candidates)
    return Searched(suite, index, depth)


def print_judgements(judgements: Judgements, *, as_json: bool) -> None:
    """Print the number of judgements by grade, the calls and the cost."""
    mark = judgements.judged_by
    if judgements.stopped:
        warn(judgements.stopped)
    if mark.ungraded:
        documents = counted(mark.ungraded, "document")
        warn(f"{documents} without a grade; --resume asks about them again")
    if as_json:
        names = "model", "template", "sampled_from", "queries", "documents", "ungraded"
        print_json(
            {
                **{name: getattr(mark, name) for name in names},
                "grades": {str(grade): count for grade, count in mark.grades.items()},
                "pools": list(mark.pools),
                "calls": judgements.calls,
                "cost": judgements.cost,
                "stopped": judgements.stopped,
            }
        )
        return
    grades = ", ".join(f"{count:,} of grade {grade}" for grade, count in mark.grades.items())
    cost = "" if judgements.cost is None else f", cost {judgements.cost:.4g}"
    write(
        f"{one_line(mark.model)} judged {counted(mark.documents, 'document')} of "
        f"{mark.queries:,} of {counted(mark.sampled_from, 'query', 'queries')}: {grades}\n"
        f"{counted(judgements.calls, 'call')}{cost}\n"
    )
    if not any(grade for grade in mark.grades):
        warn("no document was judged relevant, so nothing can be measured with these judgements")


def review_folder(folder: Path, count: int, *, as_json: bool) -> None:
    """Ask a person until ``count`` queries are complete, or the person stops.

    Each answer is written before the next question.
    """
    from secondpass_evaluation.judging.folder import Review
    from secondpass_evaluation.judging.labels import locked

    with locked(folder):
        review = Review(folder)
        order = review.order[:count]
        if len(order) < count:
            warn(f"--ask {count}: the folder has {counted(len(review.order), 'query', 'queries')}")
        if any(review.open_documents(query) for query in order):
            try:
                _ask(review, order)
            except KeyboardInterrupt:
                info("")
    _summarize(review, as_json=as_json)


def _ask(review: Review, order: list[str]) -> None:
    from secondpass_evaluation.judging.grading import GRADES

    info("Grade each document by how well it answers the query:")
    for grade, meaning in sorted(GRADES.items(), reverse=True):
        info(f"  {grade}  {meaning}")
    info("  b  back to the previous document   q  stop; the same command continues")
    steps = [(query, document) for query in order for document in review.open_documents(query)]
    position = 0
    while position < len(steps):
        query, document = steps[position]
        _show(review, order, query, document)
        answer = _read_answer(can_go_back=position > 0)
        if answer == "quit":
            return
        if answer != "back":
            review.answer(query, document, answer)
        position += -1 if answer == "back" else 1


def _show(review: Review, order: list[str], query: str, document: str) -> None:
    documents = review.documents(query)
    heading = f"query {order.index(query) + 1} of {len(order)}"
    heading += f", document {[*documents].index(document) + 1} of {len(documents)}"
    console = message_console()
    console.print()
    console.rule(Text(heading), align="left", characters="-")
    console.print(Text(one_line(review.queries[query]), style="bold"))
    console.print()
    console.print(Text(escaped(documents[document])))
    console.print()


def _read_answer(*, can_go_back: bool) -> int | Literal["back", "quit"]:
    from secondpass_evaluation.judging.grading import GRADES

    choices = ", ".join(map(str, GRADES)) + (", b or q" if can_go_back else " or q")
    while True:
        message_console().print(Text(f"Grade ({choices}): "), end="")
        line = b"" if sys.stdin is None else sys.stdin.buffer.readline()
        if not line:  # the end of the input
            info("")
            return "quit"
        text = line.decode("utf-8", "replace").strip().lower()
        if text == "q":
            return "quit"
        if text == "b" and can_go_back:
            return "back"
        if text.isascii() and text.isdigit() and int(text) in GRADES:
            return int(text)
        warn(f"answer one of {choices}")


def _summarize(review: Review, *, as_json: bool) -> None:
    from secondpass_evaluation.significance import fewest_queries

    complete = len(review.complete())
    documents, agreement = review.agreement()
    if as_json:
        record = {"queries": complete, "documents": documents, "kappa": agreement}
        print_json({**record, "of": len(review.order), "needed": fewest_queries()})
        return
    kappa = ""
    if agreement is not None:
        kappa = f"; agreement with the model {agreement:.2f} (1: always, 0: no more than by chance)"
    write(f"a person has judged {counted(documents, 'document')}{kappa}\n")
    queries = counted(len(review.order), "query", "queries")
    write(f"complete: {complete:,} of {queries}\n")
    if complete < fewest_queries():
        write(f"to correct the figures, at least {fewest_queries()} complete queries are needed\n")
