"""Ranks rows: converts JSON texts of requests to lines of rankings, one line per row."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from secondpass import Ranking, Request, Reranker, RerankError, SecondPassError, Usage
from secondpass.adapters.grouping import rerank_grouped
from secondpass.concurrency.processor import limit_cpus
from secondpass.formats import to_json
from secondpass.formats.errors import FormatError
from secondpass.formats.lines import decode_line
from secondpass.formats.requests import InputRequest, UnknownKeys, parse_request, ranking_record
from secondpass.formats.totals import count
from secondpass.ranking.options import validate

NOT_A_REQUEST, STRICT = "not_a_request", "not_complete"
"""Codes of errors of rows."""


@dataclass(frozen=True)
class Choices:
    """The options of all rows, besides the configuration; a request may have its own."""

    options: Mapping[str, Any]
    context: Any = None
    text: bool = True
    timings: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the input.

    Attributes:
        source: name of its file in messages.
        line: number of the line or row in the file, from 1.
        content: the JSON text, or the error if there is none.
        identity: what its line of output begins with.
    """

    source: str
    line: int
    content: bytes | FormatError
    identity: Mapping[str, Any] = field(default_factory=dict)


class RankedRows(NamedTuple):
    """Lines of rows, their counts for the summary, and the usage of each ranking."""

    lines: list[str]
    counts: Counter[str]
    usages: list[Usage]


class RowRanker:
    """Ranks rows with one reranker; ``warnings`` are about unknown keys of requests."""

    def __init__(self, reranker: Reranker, choices: Choices) -> None:
        self.reranker, self.choices = reranker, choices
        self.warnings: list[str] = []
        self._unknown = UnknownKeys(self.warnings.append)

    def parse(self, row: Row) -> InputRequest | FormatError:
        """The request of a row, or the error if it is not a request."""
        if isinstance(row.content, FormatError):
            return row.content
        try:
            line = decode_line(row.source, row.line, row.content)
            return parse_request(
                line,
                row.content.rstrip(b"\r\n"),
                text_needed=self.reranker.render.needs_text,
                check_options=partial(validate, orders=self.reranker.orders),
                unknown=self._unknown,
            )
        except FormatError as error:
            return error

    def lines(
        self,
        rows: Sequence[Row],
        parsed: Sequence[InputRequest | FormatError],
        reranker: Reranker | None = None,
    ) -> RankedRows:
        """Rank rows; ``parsed`` has the request or error of each row.

        ``reranker`` takes the place of the own one, to rank within other limits.
        """
        requests = [item for item in parsed if isinstance(item, InputRequest)]
        rankings = iter(self._rank(requests, reranker or self.reranker))
        ranked = RankedRows([], Counter(), [])
        counts = ranked.counts
        for row, item in zip(rows, parsed, strict=True):
            record = dict(row.identity)
            if isinstance(item, FormatError):
                counts[NOT_A_REQUEST] += 1
                record["error"] = {"code": NOT_A_REQUEST, "message": str(item)}
            else:
                ranking, error = next(rankings)
                counts.update(count([ranking]))
                ranked.usages.append(ranking.report.usage)
                record |= ranking_record(
                    item, ranking, text=self.choices.text, timings=self.choices.timings
                )
                if error:
                    counts[STRICT] += 1
                    record["error"] = {"code": STRICT, "message": error}
            ranked.lines.append(to_json(record) + "\n")
        return ranked

    def _rank(
        self, requests: Sequence[InputRequest], reranker: Reranker
    ) -> Iterator[tuple[Ranking, str]]:
        """The ranking of each request, and under ``strict`` the error if it is not complete."""
        try:
            for ranking in self._ranked(requests, reranker):
                yield ranking, ""
        except RerankError as error:
            if len(requests) == 1:
                yield error.ranking, str(error)
                return
            for request in requests:  # one by one, to find the incomplete rankings
                yield from self._rank([request], reranker)

    def _ranked(self, requests: Sequence[InputRequest], reranker: Reranker) -> list[Ranking]:
        default = self.choices.context
        return rerank_grouped(
            reranker,
            [
                Request(
                    item.query, item.candidates, default if item.context is None else item.context
                )
                for item in requests
            ],
            [{**self.choices.options, **item.options} for item in requests],
        )


def use_cpus(count: int) -> None:
    """Set the number of threads of models and tokenizers that are loaded afterwards."""
    limit_cpus(count)
    for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[variable] = str(count)


def describe_error(error: BaseException) -> str:
    """A message without text of rows: errors of other packages are described by their type."""
    if isinstance(error, SecondPassError):
        return str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or type(error).__name__}"
    return f"internal error: {type(error).__name__}"
