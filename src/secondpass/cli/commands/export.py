"""``secondpass export``: make the file of a cross-encoder that runs without torch."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from secondpass.cli.console import one_line, print_json, result_console, warn, write
from secondpass.cli.options import AsJson
from secondpass.cli.progress import progress_bars
from secondpass.cli.tables import FittedTable, plain_table
from secondpass.formats.pairs import read_pairs

if TYPE_CHECKING:
    from secondpass.exporting.agreement import ScoreAgreement
    from secondpass.exporting.export import Exported


class _Backend(StrEnum):
    onnx = "onnx"
    openvino = "openvino"


def export(
    *,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The cross-encoder to convert: a folder, or a name on the Hugging Face Hub.",
        ),
    ],
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            help="Folder for the new file, the configuration and the tokenizer. Required for a "
            "model from Hugging Face. Default: the folder of the model.",
        ),
    ] = None,
    backend: Annotated[
        _Backend, typer.Option("--backend", help="Runtime that will load the file.")
    ] = _Backend.onnx,
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs",
            help="JSON lines with `query` and `text`, on which the two are compared. Default: "
            "200 pairs that are part of secondpass.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace existing files, and keep a file that ranks differently. Also convert a "
            "model that ranks obvious answers last.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Convert a cross-encoder to ONNX or OpenVINO.

    A cross-encoder is a model that reads query and passage together and returns one score. The file
    is written to `onnx/` or `openvino/`, in the folder of the model or in the folder of `--into`.
    It is then compared with the original on sample pairs. If fewer than 98 % of the ten best
    passages of the queries are the same, the file is rejected. For example:

    `secondpass export cross-encoder/ms-marco-MiniLM-L6-v2 --into models/minilm`
    """
    from secondpass.exporting.conversion import ExportError
    from secondpass.exporting.export import LEAST_OVERLAP, export

    sample = None if pairs is None else read_pairs(pairs)
    try:
        with progress_bars(as_json) as progress:
            exported = export(
                model,
                into=into,
                backend=backend.value,
                pairs=sample,
                force=force,
                progress=lambda _label, done, total: progress("Exporting", done, total),
            )
    except ExportError as error:
        if as_json:
            print_json({"status": "refused", "agreement": _records(error.agreements)})
        elif error.agreements:
            result_console().print(_table(error.agreements))
        raise
    next_step = _next_step(exported)
    if as_json:
        print_json(
            {
                "status": "written",
                "folder": str(exported.folder),
                "file": exported.file,
                "bytes": exported.size,
                "agreement": _records(exported.agreements),
                "doubt": exported.doubt,
                "next": next_step,
            }
        )
    else:
        path = exported.folder / exported.file
        write(one_line(f"{path}: {exported.size / 1e6:,.1f} MB") + "\n\n")
        console = result_console()
        console.print(_table(exported.agreements))
        console.print(Text("\n" + one_line(next_step)))
    if exported.doubt is not None:
        warn(f"the model is doubtful: {exported.doubt}")
    for precision, measured in exported.agreements.items():
        if measured.overlap is not None and measured.overlap < LEAST_OVERLAP:
            hint = "" if precision == "float32" else "; set `precision: exact`"
            warn(f"in {precision}, the ranking differs from the original's{hint}")


def _records(agreements: Mapping[str, ScoreAgreement]) -> dict[str, Any]:
    return {
        precision: {
            "pairs": measured.pairs,
            "queries": measured.queries,
            "largest_difference": measured.largest,
            "mean_difference": measured.mean,
            "standard_deviation": measured.deviation,
            "kendall_tau": measured.tau,
            "top_10_overlap": measured.overlap,
        }
        for precision, measured in agreements.items()
    }


def _table(agreements: Mapping[str, ScoreAgreement]) -> FittedTable:
    """The agreement in each precision; differences also in standard deviations of the scores."""
    numbers = ("pairs", "largest difference", "mean difference", "Kendall's tau", "top-10")
    table = plain_table("against the original", numbers=numbers)
    for precision, measured in agreements.items():
        table.add_row(
            precision,
            f"{measured.pairs:,}",
            _difference(measured.largest, measured.largest_in_deviations),
            _difference(measured.mean, measured.mean_in_deviations),
            _number(measured.tau),
            _number(measured.overlap),
        )
    return table


def _difference(value: float, deviations: float | None) -> str:
    return f"{value:.2g}" if deviations is None else f"{value:.2g} ({deviations:.2g} sd)"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _next_step(exported: Exported) -> str:
    package = "openvino" if exported.file.startswith("openvino") else "onnx"
    return (
        f"next: set `model: {exported.folder}` of cross_encoder; `backend: auto` uses the file "
        f"where secondpass[{package}] is installed"
    )
