"""The measurements of ``speed.json``, with the ratios and rates that tables and plots show."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

BASELINE = "sentence-transformers"

Record = dict[str, Any]


class Speed:
    """The content of ``speed.json``, and figures derived from it."""

    def __init__(self, data: Record) -> None:
        self.data = data
        self.rows: list[Record] = data["rows"]
        self.workloads: Record = data["workloads"]

    def row(self, name: str) -> Record | None:
        """A row that ran, or None."""
        for record in self.rows:
            if record["name"] == name and record["runs"]:
                return record
        return None

    def ratio(self, name: str, workload: str, other: str = BASELINE) -> float:
        """How many times faster a row is than another in CPU time, the median over the rounds."""
        row, reference = self.row(name), self.row(other)
        return median(ratios(reference, row, workload)) if row and reference else math.nan

    def loops(self, *runtimes: str) -> list[Record]:
        return [
            row
            for row in self.rows
            if row["group"] == "loop" and row["runs"] and row["settings"]["runtime"] in runtimes
        ]

    def best_loop(self, workload: str, *runtimes: str) -> str | None:
        """Name of the loop with the least CPU time."""
        found = [row for row in self.loops(*runtimes) if workload in row["runs"]]
        if not found:
            return None
        best: Record = min(found, key=lambda row: median(row["runs"][workload]["cpu"]))
        return str(best["name"])

    def share_of_peak(self, row: Record, workload: str) -> tuple[float, str]:
        """Share of the machine's peak that a row reached, and the peak's data type."""
        dtype = data_type(row)
        peak = self.data["peaks"].get(dtype)
        if not isinstance(peak, float):
            return math.nan, dtype
        described = self.workloads[workload]
        flop = rate(row, workload, described["pairs"]) * described["flop"]
        return flop / peak, dtype


def data_type(row: Record) -> str:
    """The data type of a row's matrix products, from its report or its settings."""
    for engine in row.get("engines") or []:
        return "bfloat16" if engine["precision"] == "bfloat16" else "float32"
    settings = row["settings"]
    if settings.get("dtype") == "bfloat16":
        return "bfloat16"
    uses_default = settings.get("runtime") == "openvino" or (
        row["engine"] == "SentenceTransformers" and settings.get("backend") == "openvino"
    )
    # OpenVINO's default precision; agreement tells whether it was reduced.
    differs = row.get("agreement", {}).get("max", 0.0) > 1e-3
    return "bfloat16" if uses_default and differs else "float32"


def ratios(first: Record, second: Record, workload: str) -> list[float]:
    """CPU time of ``first`` over that of ``second``, for the requests that both scored."""
    of_first, of_second = _cpu_by_request(first, workload), _cpu_by_request(second, workload)
    return [of_first[index] / of_second[index] for index in sorted(of_first.keys() & of_second)]


def _cpu_by_request(record: Record, workload: str) -> dict[int, float]:
    run = record["runs"].get(workload)
    return {} if run is None else dict(zip(run["index"], run["cpu"], strict=True))


def median(values: Sequence[float]) -> float:
    """The median; NaN without values."""
    return statistics.median(values) if values else math.nan


def rate(record: Record, workload: str, pairs: int, clock: str = "cpu") -> float:
    """Pairs per second, the median over the runs."""
    run = record["runs"].get(workload)
    return median([pairs / seconds for seconds in run[clock]]) if run else math.nan
