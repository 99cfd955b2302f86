"""How ``secondpass rerank`` writes rankings: their forms, and where they go."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.table import Table

from secondpass.cli.requests import Ask
from secondpass.cli.terminal import as_json, for_a_file, one_line, results, write
from secondpass.formats.errors import FormatError
from secondpass.formats.lines import check_field
from secondpass.types import Ranked, Ranking

_SHOWN = 10
"""Items of a table, unless a request or --top-k says how many."""


class Format(StrEnum):
    """Forms of the output."""

    jsonl = "jsonl"
    trec = "trec"
    table = "table"


@dataclass(frozen=True)
class Shape:
    """How a ranking is written."""

    form: Format
    text: bool
    timings: bool
    tag: str
    top_k: int | None
    to_file: bool

    def __post_init__(self) -> None:
        if self.form is Format.trec:
            check_field("--tag", "tag", self.tag)

    def check(self, number: int, ask: Ask) -> None:
        """Refuse what cannot be written so, before anything is spent on ranking it."""
        if self.form is not Format.trec:
            return
        query = _name(number, ask)
        check_field("--format trec", "query id", query)
        for candidate in ask.candidates:
            if candidate.id is None:
                told = f"query {query!r}: a candidate has no id, which a TREC run needs"
                raise FormatError("--format trec", None, told)
            check_field("--format trec", "document id", candidate.id)

    def of(self, number: int, one: tuple[Ask, Ranking]) -> str:
        """A ranking; ``number`` is that of the request, from 1."""
        ask, ranking = one
        if self.form is Format.trec:
            return self._trec(_name(number, ask), ranking)
        if self.form is Format.table:
            return self._table(ask, ranking)
        return self._json(ask, ranking)

    def _json(self, ask: Ask, ranking: Ranking) -> str:
        report = ranking.report.to_dict()
        if not self.timings:
            del report["seconds"]
        told: dict[str, Any] = {} if ask.query_id is None else {"query_id": ask.query_id}
        told["query"] = ask.query
        told["ranking"] = [self._item(item) for item in ranking]
        told["report"] = report
        return as_json(told) + "\n"

    def _item(self, item: Ranked) -> dict[str, Any]:
        told: dict[str, Any] = {
            "rank": item.rank,
            "id": item.id,
            "position": item.position,
            "status": item.status,
            "score": item.score,
            "rerank_score": item.rerank_score,
            "final_score": item.final_score,
        }
        if item.stage_scores:
            told["stage_scores"] = list(item.stage_scores)
        if self.text:
            told["text"] = item.text
            if item.candidate.metadata:
                told["metadata"] = dict(item.candidate.metadata)
        return told

    def _trec(self, query: str, ranking: Ranking) -> str:
        # Scores n - i, as in runs of an evaluation: those of items that were not judged are absent,
        # and those of the tail on another scale. Of an id that repeats the best place counts.
        places: dict[str, int] = {}
        for item in ranking:
            places.setdefault(str(item.id), item.rank)
        count = len(ranking)
        return "".join(
            f"{query} Q0 {document} {rank} {float(count - place + 1)!r} {self.tag}\n"
            for rank, (document, place) in enumerate(places.items(), 1)
        )

    def _table(self, ask: Ask, ranking: Ranking) -> str:
        console = for_a_file() if self.to_file else results()
        name = "" if ask.query_id is None else f"{ask.query_id}: "
        status = "" if ranking.report.status == "ok" else f" ({ranking.report.status})"
        table = Table(box=None, pad_edge=False)
        for heading in ("#", "was", "score"):
            table.add_column(heading, justify="right")
        table.add_column("id", overflow="fold")
        table.add_column("text", no_wrap=True, overflow="ellipsis")
        shown: Sequence[Ranked] = ranking[: ask.settings.get("top_k") or self.top_k or _SHOWN]
        for item in shown:
            score = "" if item.final_score is None else f"{item.final_score:.4f}"
            words = one_line(item.text[:500]) if self.text and isinstance(item.text, str) else ""
            cells = (str(item.rank), str(item.position + 1), score, one_line(item.id or ""), words)
            table.add_row(*map(_escaped, cells))
        with console.capture() as captured:
            console.print(_escaped(one_line(f"{name}{ask.query}{status}")), style="bold")
            console.print(table)
            if hidden := len(ranking) - len(shown):
                console.print(f"and {hidden} more; --top-k shows as many as you like", style="dim")
        return captured.get() + "\n"


def _name(number: int, ask: Ask) -> str:
    """The id of a request in a run; the input may have none."""
    return ask.query_id or f"q{number}"


def _escaped(text: str) -> Any:
    from rich.text import Text

    return Text(text)


class Stream:
    """Standard output, or whatever is no file that could be gone on with."""

    def __init__(self, path: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self._file = None if path is None else open(path, "wb")  # noqa: SIM115 - closed with this

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            self._file.close()

    def new(self, digests: Iterator[bytes]) -> int:  # noqa: ARG002 - nothing is done already
        return 0

    def write(self, text: str, counts: Counter[str]) -> None:
        self.counts.update(counts)
        if self._file is None:
            write(text)
            sys.stdout.flush()
        else:
            self._file.write(text.encode("utf-8", "backslashreplace"))
            self._file.flush()

    def finish(self) -> None:
        """Nothing can be missing."""
