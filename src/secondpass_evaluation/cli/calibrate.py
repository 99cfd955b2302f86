"""``secondpass calibrate``: fit a threshold that keeps a share of the relevant candidates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from secondpass.cli.shared import (
    RerankerOptions,
    grouped,
    info,
    print_json,
    print_yaml,
    progress_bars,
    result_console,
)
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.suite_options import (
    Behind,
    Depth,
    Force,
    OutputOptions,
    QueryOptions,
    Rankings,
    Seed,
    SuiteArgument,
    SuiteOptions,
    VectorOptions,
    open_journal,
)

if TYPE_CHECKING:
    from secondpass_evaluation.calibration.result import Calibration


@grouped
def calibrate(
    *,
    suite: SuiteArgument = None,
    parts: SuiteOptions,
    configured: RerankerOptions,
    keep: Annotated[
        float, typer.Option(help="Share of the relevant candidates to keep, above 0 and below 1.")
    ] = 0.9,
    per: Annotated[
        Literal["query", "document"],
        typer.Option(
            help="What the share is of: each query's relevant documents, on average over queries; "
            "or all relevant documents together."
        ),
    ] = "query",
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Also fit probabilities of relevance to the scores."),
    ] = False,
    relevant: Annotated[
        int, typer.Option(min=1, help="Lowest relevance that counts as relevant.")
    ] = 1,
    depth: Depth = 100,
    behind: Behind = None,
    amount: QueryOptions,
    seed: Seed = 0,
    vectors: VectorOptions,
    rankings: Rankings = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml",
            help="Write the configuration with the threshold to this file, instead of printing "
            "the settings.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    output: OutputOptions,
) -> None:
    """Fit a threshold that keeps a share of what is relevant.

    The threshold (`floor`) is bound to the method, its model and settings, the blend and the
    depth; a configuration in which one of these differs does not load. If the best score finds
    enough lists without a relevant candidate, reports also have `nothing_relevant`. For example:

    `secondpass calibrate suite --keep 0.9 --config rerank.yaml --into calibrated.yaml`
    """
    check_installed("secondpass calibrate")
    from secondpass_evaluation.calibration.calibrating import calibrate as run_calibration
    from secondpass_evaluation.provenance import check_output, tuning_notes, with_provenance

    parts.check(suite)
    reranker = configured.read()
    if into is not None:  # fail before a model is called
        check_output(into, force=force)
        with_provenance(reranker, ())
    searched = parts.open(suite, limit=amount.limit, depth=depth)
    with (
        progress_bars(output.quiet) as progress,
        open_journal(rankings, resume=True, kept=True) as journal,
    ):
        result = run_calibration(
            reranker,
            searched.suite,
            keep=keep,
            per=per,
            probabilities=probabilities,
            relevant=relevant,
            retriever=searched.retriever(vectors, progress),
            behind=behind,
            depth=depth,
            concurrency=amount.concurrency,
            seed=seed,
            progress=progress,
            journal=journal,
        )
    if configured.config is not None:
        result = replace(result, notes=(*result.notes, *tuning_notes(configured.config)))
    if into is not None:
        result.write(into, force=force)
    _show(result, into, as_json=output.as_json)


def _show(result: Calibration, into: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json(result.to_dict())
        return
    lines = "\n".join(result.lines())
    if into is None:
        info(lines)
        assert result.config is not None
        names = [name for name in ("floor", "probabilities") if name in result.config]
        print_yaml({name: result.config[name] for name in names})
    else:
        result_console().print(lines, markup=False, soft_wrap=True)
        info(f"wrote {into}")
