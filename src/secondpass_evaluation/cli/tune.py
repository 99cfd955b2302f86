"""``secondpass tune``: choose a reranker with its settings, or none, on judged queries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secondpass.cli.console import USAGE_ERROR, check_usage, fail, info, print_json
from secondpass.cli.options import grouped, note_new_stores
from secondpass.cli.progress import progress_bars
from secondpass.settings.messages import ALIKE, most_similar
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.suite_options import (
    Behind,
    Depth,
    Force,
    Now,
    OutputOptions,
    QueryOptions,
    Rankings,
    Resume,
    Seed,
    SuiteArgument,
    SuiteOptions,
    VectorOptions,
    check_reranker,
    journal_path,
    named_value,
    open_journal,
    print_markdown,
)
from secondpass_evaluation.environment import masked

if TYPE_CHECKING:
    from secondpass_evaluation.tuning.result import Tuning


@grouped
def tune(
    *,
    suite: SuiteArgument = None,
    parts: SuiteOptions,
    tried: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="[NAME=]WHAT",
            help="Reranker to try: a preset, a YAML file, or the name of a cross-encoder. "
            "Repeatable. Default: the presets lexical, embedded and default.",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="YAML file for the configuration of the adopted reranker. If none is adopted, "
            "it is not written."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML file for the report.")] = None,
    latency: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Reject rerankers that take longer than this for more than 5 % of the queries.",
        ),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Reject rerankers that cost more than this per query, at the configured prices.",
        ),
    ] = None,
    smallest_gain: Annotated[
        float | None,
        typer.Option(min=0, help="Reject rerankers that gain less than this. Default: 0.01."),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            "--measure", "-m", help="Measure of quality, as ir_measures names it, such as nDCG@10."
        ),
    ] = "nDCG@10",
    depth: Depth = 100,
    depths: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of candidates to rerank that is tried. Repeatable. Default: 20, 50, "
            "100 and the configuration's `depth`; for language models and rerank APIs, "
            "only the configuration's `depth`.",
        ),
    ] = None,
    behind: Behind = None,
    seed: Seed = 0,
    now: Now = None,
    amount: QueryOptions,
    vectors: VectorOptions,
    rankings: Rankings = None,
    resume: Resume = False,
    force: Force = False,
    output: OutputOptions,
) -> None:
    """Choose a reranker with its depth and blend, or none.

    The command tries rerankers on judged queries, with several depths (how many candidates are
    reranked) and blends (how much the score of the search counts). It chooses these on some of the
    queries and measures the gain on the others, which are held out. A reranker is adopted only if
    two things are true:

    - Its gain on the held-out queries is significant. The test is corrected for everything that was
    tried.

    - Its gain is at least the smallest gain (`--smallest-gain`).

    Otherwise nothing is written, and the output estimates how many more judged queries a decision
    needs. At least 30 are required. For example:

    `secondpass tune suite --try embedded --try mine.yaml --latency 0.5 --into rerank.yaml`

    A language model or a rerank API is called only if `--try` names it. Its expected calls, tokens
    and cost are printed first. With `--rankings FILE`, a second run repeats no call, for example a
    run with another `--cost`, or one after an interruption.
    """
    check_installed("secondpass tune")
    from secondpass_evaluation.cli.dry_run import print_expected
    from secondpass_evaluation.tuning.tuning import SMALLEST_GAIN, too_few
    from secondpass_evaluation.tuning.tuning import tune as run_tuning

    parts.check(suite)
    check_usage({"--latency: must be more than 0": latency == 0})
    _check_files(into, report, force=force)
    if rankings is not None and resume:
        fail("--rankings, --resume: give one of them", USAGE_ERROR)
    kept, journal_file = rankings is not None, rankings
    if not kept:
        journal_file = journal_path(
            into, lambda it: it.with_name(f"{it.name}.rankings.jsonl"), resume=resume, force=force
        )
    specs = _specs(tried)
    searched = parts.open(suite, limit=amount.limit, depth=depth)
    if missing := too_few(searched.suite):
        fail(f"{suite or parts.queries}: {missing}")
    with (
        progress_bars(output.quiet) as progress,
        open_journal(journal_file, resume=resume, kept=kept) as journal,
    ):
        tuning = run_tuning(
            searched.suite,
            specs,
            retriever=searched.retriever(vectors, progress),
            behind=behind,
            depth=depth,
            depths=depths or None,
            latency=latency,
            cost=cost,
            measure=measure,
            smallest_gain=SMALLEST_GAIN if smallest_gain is None else smallest_gain,
            seed=seed,
            concurrency=amount.concurrency,
            now=now,
            progress=progress,
            journal=journal,
            expected=print_expected,
        )
        settings = {**tuning.settings, "command": masked(sys.argv[1:])}
        tuning = replace(tuning, settings=settings)
        written = _written(tuning, into, report, force=force)
        if journal is not None and not kept:
            journal.delete()
    if output.as_json:
        print_json(tuning.to_dict())
    else:
        print_markdown(tuning.to_markdown())
    for path in written:
        info(f"written: {path}")
    if into is not None and tuning.config is None:
        info(f"{into} is not written: nothing is adopted")
    if tuning.nothing_tried:
        fail("no reranker could be tried")


def _check_files(into: Path | None, report: Path | None, *, force: bool) -> None:
    """Check the paths before anything runs."""
    from secondpass_evaluation.provenance import check_free, check_output

    if into is not None:
        check_output(into, force=force)
    if report is not None:
        if report.suffix != ".html":
            fail(f"--report {report}: must end in .html", USAGE_ERROR)
        check_free(report, force=force)


def _specs(tried: list[str] | None) -> dict[str, Any]:
    """The rerankers to try, by name."""
    from secondpass.config import preset_names, read_yaml
    from secondpass_evaluation.rerankers import unique_name
    from secondpass_evaluation.tuning.trials import INSTALLED, named

    specs: dict[str, Any] = {}
    files: list[Mapping[str, Any]] = []
    given: set[str] = set()
    for argument in tried or INSTALLED:
        label, what = named_value("--try", argument, USAGE_ERROR, given)
        similar = most_similar(what, preset_names(), ALIKE)
        if similar and what not in preset_names() and not Path(what).exists():
            fail(f"--try {argument}: no preset is named {what!r}; did you mean {similar!r}?")
        ((default, spec),) = named([what]).items()
        specs[unique_name(label or default, specs)] = spec
        check_reranker(spec, f"--try {argument}")
        if not isinstance(spec, Mapping) and spec not in preset_names():
            files.append(read_yaml(Path(spec)))
    note_new_stores(*files)
    return specs


def _written(tuning: Tuning, into: Path | None, report: Path | None, *, force: bool) -> list[Path]:
    from secondpass.formats.lines import write_lines
    from secondpass.ranking.rendering import well_formed

    written = []
    if into is not None and tuning.config is not None:
        tuning.write(into, force=force)
        written.append(into)
    if report is not None:
        write_lines(report, [well_formed(tuning.to_html())])
        written.append(report)
    return written
