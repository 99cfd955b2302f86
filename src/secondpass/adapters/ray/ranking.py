"""Rank rows: JSON text of requests to lines of rankings, one line for one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from secondpass.adapters.ray.blocks import Row
from secondpass.adapters.request_batches import rerank_grouped
from secondpass.call_options import validate
from secondpass.errors import RerankError
from secondpass.formats.errors import FormatError
from secondpass.formats.json_text import to_json
from secondpass.formats.lines import decode_line
from secondpass.formats.ranking_lines import ranking_record
from secondpass.formats.requests import InputRequest, UnknownKeys, parse_request
from secondpass.formats.summary import count
from secondpass.reranker import Reranker
from secondpass.types import Ranking, Request, Usage

NOT_A_REQUEST, STRICT = "not_a_request", "not_complete"
"""Codes of the errors of rows."""

_MOST_BYTES = 32_000_000
"""Bytes of rows after which a batch ends; it bounds the memory."""


@dataclass(frozen=True)
class Choices:
    """What is the same for all rows, besides the configuration.

    Attributes:
        options: call options, where a request has none of its own.
        context: of every query, where a request has none of its own.
        text: whether rankings have texts and metadata.
        timings: whether reports have durations.
        batch: number of rows that are ranked together.
    """

    options: Mapping[str, Any]
    context: Any = None
    text: bool = True
    timings: bool = False
    batch: int = 64


class RankedRows(NamedTuple):
    """Lines of rows, what the summary counts of them, and what each ranking took."""

    lines: list[str]
    counts: Counter[str]
    usages: list[Usage]


class RowRanker:
    """Ranks rows with one reranker.

    Args:
        reranker: that ranks them.
        choices: what is the same for all.

    Attributes:
        warnings: about keys of requests that are ignored.
    """

    def __init__(self, reranker: Reranker, choices: Choices) -> None:
        self.reranker, self.choices = reranker, choices
        self.warnings: list[str] = []
        self._unknown = UnknownKeys(self.warnings.append)

    def parse(self, row: Row) -> InputRequest | FormatError:
        """The request of a row, or why it is none."""
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
        self, rows: Sequence[Row], parsed: Sequence[InputRequest | FormatError]
    ) -> RankedRows:
        """The lines of rows, and what they took."""
        requests = [item for item in parsed if isinstance(item, InputRequest)]
        rankings = iter(self._rank(requests))
        ranked = RankedRows([], Counter(), [])
        counts = ranked.counts
        for row, item in zip(rows, parsed, strict=True):
            record: dict[str, Any] = {} if row.number is None else {"row": row.number}
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

    def _rank(self, requests: Sequence[InputRequest]) -> Iterator[tuple[Ranking, str]]:
        """The ranking of each request, and why it is not complete, where it must be."""
        try:
            for ranking in self._ranked(requests):
                yield ranking, ""
        except RerankError as error:
            if len(requests) == 1:
                yield error.ranking, str(error)
                return
            for request in requests:  # by itself: the others are complete, or have errors, too
                yield from self._rank([request])

    def _ranked(self, requests: Sequence[InputRequest]) -> list[Ranking]:
        default = self.choices.context
        contexts = [default if item.context is None else item.context for item in requests]
        return rerank_grouped(
            self.reranker,
            [
                Request(item.query, item.candidates, context)
                for item, context in zip(requests, contexts, strict=True)
            ],
            [{**self.choices.options, **item.options} for item in requests],
        )


def in_batches(rows: Iterable[Row], count: int) -> Iterator[list[Row]]:
    """Group rows: a batch ends at ``count`` rows, or when it has many bytes."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.content) if isinstance(row.content, bytes) else 0
        if len(batch) >= count or size >= _MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
