"""``secondpass calibrate``: fit a threshold that keeps a share of the relevant candidates."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from secondpass.cli.console import info, print_json, print_text, print_yaml, result_console
from secondpass.cli.options import RerankerOptions, grouped, note_new_stores
from secondpass.cli.progress import progress_bars
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


def _share(text: str | float) -> float:
    """A share above 0 and below 1; the message for a percentage has the share."""
    number = str(text).strip().removesuffix("%").strip()
    try:
        share = float(number)
    except ValueError:
        share = math.nan
    if 0 < share < 1 and number == str(text).strip():
        return share
    percent = f" ({share:g} % is {share / 100:g})" if 1 <= share < 100 else ""
    raise typer.BadParameter(f"must be a number above 0 and below 1{percent}")


@grouped
def calibrate(
    *,
    suite: SuiteArgument = None,
    parts: SuiteOptions,
    configured: RerankerOptions,
    keep: Annotated[
        float,
        typer.Option(
            parser=_share,
            metavar="SHARE",
            help="Share of the relevant candidates that the threshold must keep, above 0 and "
            "below 1: 0.9 is 90 %.",
        ),
    ] = 0.9,
    per: Annotated[
        Literal["query", "document"],
        typer.Option(
            help="How the share is counted. `query`: for each query, and then the mean over "
            "queries. `document`: over the relevant candidates of all queries together."
        ),
    ] = "query",
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities", help="Also fit a mapping from scores to probabilities of relevance."
        ),
    ] = False,
    relevant: Annotated[
        int, typer.Option(min=1, help="Lowest grade of a judgement that counts as relevant.")
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
            help="File for the configuration with the threshold. Without it, the settings are "
            "printed.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    output: OutputOptions,
) -> None:
    """Fit a score threshold that keeps most relevant candidates.

    Candidates that score below the threshold are dropped; `--keep` says which share of the relevant
    ones must stay. The threshold (the setting `floor`) is stored with the method, model, settings,
    blend and depth that it was fitted for. If you change one of them, loading the configuration
    fails with an error; calibrate again.

    A low best score can also mean that nothing relevant was found. If it does so reliably enough,
    reports then have `nothing_relevant`. For example:

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
    note_new_stores(reranker)
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
        print_text(result_console(), lines)
        info(f"wrote {into}")
