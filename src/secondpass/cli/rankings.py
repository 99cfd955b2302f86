"""Write the rankings of ``secondpass rerank``: formats and output streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from rich.text import Text

from secondpass.cli.console import (
    USAGE_ERROR,
    check_usage,
    excerpt,
    fail,
    file_console,
    flush_results,
    one_line,
    print_error,
    print_text,
    result_console,
    write,
)
from secondpass.cli.tables import FittedTable
from secondpass.errors import InputError
from secondpass.formats import to_json
from secondpass.formats.errors import FormatError
from secondpass.formats.files import compressed, is_gzip, naming
from secondpass.formats.lines import check_field
from secondpass.formats.requests import InputRequest, ranking_record
from secondpass.ranking.explanations import Explanation
from secondpass.ranking.result import Ranking
from secondpass.settings import counted, suggestion
from secondpass.types import Ranked, Report

_TABLE_ROWS = 10
"""Rows of a table without ``top_k``."""


EXPLANATION_INDENT = 13
"""Column at which the values of an explanation begin."""


class Format(StrEnum):
    """Formats of the rankings of many queries."""

    jsonl = "jsonl"
    trec = "trec"
    table = "table"


class ResultFormat(StrEnum):
    """Formats of the results of one query."""

    json = "json"
    table = "table"


F = TypeVar("F", Format, ResultFormat)


def chosen_format(form: F | None, json_format: F, *, as_json: bool, to_terminal: bool) -> F:
    """The format of ``--format`` or ``--json``; without them, a table for a terminal only."""
    check_usage({"--json, --format: give one of them": as_json and form not in {None, json_format}})
    if form is not None:
        return form
    return type(json_format)("table") if to_terminal and not as_json else json_format


@dataclass(frozen=True)
class Formatter:
    """Formats rankings; the attributes are options of the command.

    ``to_file`` states that the output is not the terminal. Candidates are explained where a ranking
    has them.
    """

    format: Format
    text: bool
    timings: bool
    tag: str
    top_k: int | None
    to_file: bool
    explain: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.format is Format.trec:
            check_field("--tag", "tag", self.tag)
            if self.explain:
                fail("--explain: a TREC run has no place for it; use jsonl or table", USAGE_ERROR)

    def check(self, number: int, request: InputRequest) -> None:
        """Check that the ranking of a request can be written, before it is computed."""
        if self.format is not Format.trec:
            return
        query = _query_id(number, request)
        check_field("--format trec", "query id", query)
        for candidate in request.candidates:
            if candidate.id is None:
                problem = f"query {query!r}: a candidate has no id, which a TREC run needs"
                raise FormatError("--format trec", None, problem)
            check_field("--format trec", "document id", str(candidate.id))

    def format_ranking(self, number: int, request: InputRequest, ranking: Ranking) -> str:
        """Format a ranking; ``number`` is the 1-based number of the request."""
        if self.format is Format.trec:
            return self._trec(_query_id(number, request), ranking)
        if self.format is Format.table:
            return self._table(request, ranking)
        return self._json(request, ranking)

    def _json(self, request: InputRequest, ranking: Ranking) -> str:
        record = ranking_record(request, ranking, text=self.text, timings=self.timings)
        if self.explain:
            explanations = explained(ranking, self.explain)
            record["explanations"] = [explanation.to_dict() for explanation in explanations]
        return to_json(record) + "\n"

    def _trec(self, query: str, ranking: Ranking) -> str:
        # The scores are n - i, as in runs of an evaluation: unjudged items have no final score, and
        # the tail's is on another scale. A repeated id keeps its best rank.
        ranks: dict[str, int] = {}
        for item in ranking:
            ranks.setdefault(str(item.id), item.rank)
        count = len(ranking)
        return "".join(
            f"{query} Q0 {document} {number} {float(count - rank + 1)!r} {self.tag}\n"
            for number, (document, rank) in enumerate(ranks.items(), 1)
        )

    def _table(self, request: InputRequest, ranking: Ranking) -> str:
        console = file_console() if self.to_file else result_console()
        prefix = "" if request.query_id is None else f"{request.query_id}: "
        status = "" if ranking.report.status == "ok" else f" ({ranking.report.status_text})"
        if ranking.report.skipped is not None:
            status += f" (skipped: {ranking.report.skipped.reason})"
        if ranking.report.nothing_relevant:
            status += " (nothing relevant)"
        table = FittedTable()
        for heading in ("#", "was", "final"):
            table.add_column(heading, number=True)
        table.add_column("id")
        if self.text:
            table.add_column("text")
        limit = request.options.get("top_k") or self.top_k or _TABLE_ROWS
        items: Sequence[Ranked] = ranking[:limit]
        for item in items:
            score = "" if item.final_score is None else f"{item.final_score:.4f}"
            name = "" if item.id is None else one_line(str(item.id))
            cells = [str(item.rank), str(item.position + 1), score, name]
            if self.text:
                cells.append(excerpt(item.text, item.span) if isinstance(item.text, str) else "")
            table.add_row(*cells)
        with console.capture() as captured:
            console.print(Text(one_line(f"{prefix}{request.query}{status}")), style="bold")
            console.print(table)
            if hidden := len(ranking) - len(items):
                console.print(f"and {hidden} more; --top-k sets the number of rows", style="dim")
            is_asked = bool(request.options.get("top_k") or self.top_k)
            for line in notes_below(ranking, except_top_k=is_asked):
                print_text(console, line)
            for explanation in explained(ranking, self.explain):
                print_text(console, f"\n{explanation}", indent=EXPLANATION_INDENT)
        return captured.get() + "\n"


def explained(ranking: Ranking, ids: Sequence[str]) -> list[Explanation]:
    """The explanations of the candidates that the ranking has."""
    explanations = []
    for identifier in ids:
        with suppress(InputError):
            explanations.append(ranking.explain(identifier))
    return explanations


def notes_below(ranking: Ranking, *, except_top_k: bool) -> list[str]:
    """Lines below the table of a ranking: what decides its order, and what it lacks, and why."""
    return [
        *_order_lines(ranking),
        *_depth_lines(ranking.report),
        *_left_out_lines(ranking, except_top_k),
    ]


def _depth_lines(report: Report) -> list[str]:
    """A line that says how many candidates were scored, if some stand beyond the depth."""
    if not report.beyond_depth:
        return []
    follow = "" if "tail" in report.left_out else "; the others follow in their order"
    return [f"{report.scored_text}{follow}"]


def _left_out_lines(ranking: Ranking, except_top_k: bool) -> list[str]:
    """What the table of a ranking lacks, and why: a line for each reason."""
    report, lines = ranking.report, []
    total = len(ranking) + sum(map(len, report.left_out.values()))
    for reason, positions in report.left_out.items():
        if reason not in _WHY_LEFT_OUT or (except_top_k and reason == "top_k"):
            continue
        is_one = len(positions) == 1
        at = "" if report.threshold is None else f"{report.threshold.at:g}"
        why = _WHY_LEFT_OUT[reason].format(is_="is" if is_one else "are", at=at)
        hint = f"; --explain ID shows {'its score' if is_one else 'their scores'}"
        count = f"{len(positions):,} of {counted(total, 'candidate')}"
        lines.append(f"{count} {why} and left out{hint}")
    return lines


def _order_lines(ranking: Ranking) -> list[str]:
    """A line where the rerank scores of a table do not give its order by the method."""
    order = ranking.trace.order_scores if ranking.trace else None
    pairs = [
        (score, item.rerank_score)
        for item in ranking
        if order is not None
        and (score := order[item.position]) is not None
        and item.rerank_score is not None
    ]
    in_order = [rerank_score for _, rerank_score in sorted(pairs, reverse=True)]
    if in_order == sorted(in_order, reverse=True):
        return []
    return [
        "final uses the score in this list, which also depends on the other results; "
        "--explain ID shows it"
    ]


_WHY_LEFT_OUT = {
    "floor": "{is_} below the threshold {at}",
    "duplicate": "{is_} repeated with a lower retrieval score",
    "tail": "{is_} beyond the depth",
    "top_k": "{is_} beyond top_k",
}


def report_unexplained(identifiers: Iterable[str], ids: Sequence[str], problem: str) -> None:
    """Print an error for each id, with a similar one of ``ids`` or some of them."""
    for identifier in sorted(identifiers):
        hint = suggestion(identifier, ids)
        if "did you mean" not in hint:
            hint = f"; ids are, for example: {', '.join(ids[:5])}" if ids else "; they have no ids"
        print_error(f"--explain {identifier}: {problem}{hint}")


def _query_id(number: int, request: InputRequest) -> str:
    """The query id in a run; the input may have none."""
    return f"q{number}" if request.query_id is None else str(request.query_id)


class Stream:
    """Standard output, or an output that is not a regular file and cannot be resumed.

    It counts what :meth:`write` is called with.
    """

    def __init__(self, path: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self.done = 0
        self.path = path
        self._file = None if path is None else open(path, "wb")  # noqa: SIM115 - see __exit__

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # a failed write raises again here, and was reported
                self._file.close()

    def count_done(self, digests: Iterator[bytes]) -> int:  # noqa: ARG002 - as in Resumable
        """Number of the next requests that are done already: none."""
        return 0

    def write(self, text: str, counts: Counter[str]) -> None:
        self.counts.update(counts)
        if self._file is None or self.path is None:
            write(text)
            flush_results()
        else:
            data = text.encode("utf-8", "backslashreplace")
            with naming(self.path):
                self._file.write(compressed(data) if is_gzip(self.path) else data)
                self._file.flush()

    def finish(self) -> None:
        """Do nothing: all requests were written."""
