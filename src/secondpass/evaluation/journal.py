"""Finished rankings in a file, so that an interrupted comparison loses none of them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from secondpass import __version__
from secondpass.formats.files import open_locked
from secondpass.formats.lines import AnyPath
from secondpass.types import Candidate, EngineInfo, Issue, Ranked, Ranking, Report, Usage

_FORMAT = 1
_KEPT = frozenset({"ok", "partial"})
"""Statuses of rankings to keep: the others failed, and are tried again."""
_UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Journal:
    """A file of JSON lines, one for each finished ranking, without texts.

    A ranking is found again by a hash of all it depends on: the version of secondpass, the
    system's name and configuration, the query and its candidates. So a journal is never stale:
    what has changed is ranked again. Rankings that are ``unchanged`` or ``degraded`` are not kept.

    A line is passed to the operating system as soon as a ranking is finished, so it survives the
    end of the process. Safe to use from many threads.

    Args:
        path: the file; created with the first ranking. A last line that is incomplete is removed.

    Attributes:
        reused: number of rankings that were found.
        added: number of rankings that were written.

    Raises:
        InputError: another process is writing to it.
        OSError: it cannot be read.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = Path(path)
        self.reused = self.added = 0
        self._lock = threading.Lock()
        self._lines: dict[str, bytes] = {}
        self._file: BinaryIO | None = None
        if self.path.exists():
            self._file = open_locked(self.path, "a+b")
            self._load(self._file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._lines)

    def close(self) -> None:
        """Close the file. What is added later opens it again."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def delete(self) -> None:
        """Close and remove the file."""
        self.close()
        self._lines.clear()
        self.path.unlink(missing_ok=True)

    def find(self, key: str, query: str, candidates: Sequence[Candidate]) -> Ranking | None:
        """The ranking of this key; None if there is none.

        Its items have the metadata of the candidates, without what a ranking adds.
        """
        with self._lock:
            line = self._lines.get(key)
        if line is None:
            return None
        try:
            ranking = _ranking(json.loads(line), query, candidates)
        except _UNREADABLE:
            return None
        with self._lock:
            self.reused += 1
        return ranking

    def add(self, key: str, ranking: Ranking) -> None:
        """Append a finished ranking.

        Raises:
            OSError: the file cannot be written.
        """
        if ranking.report.status not in _KEPT:
            return
        line = json.dumps({"key": key, **_record(ranking)}, separators=(",", ":")).encode()
        with self._lock:
            if self._file is None:
                self._file = open_locked(self.path, "a+b")
                self._file.seek(0, 2)
            self._file.write(line + b"\n")
            self._file.flush()
            self._lines[key] = line
            self.added += 1

    def _load(self, file: BinaryIO) -> None:
        file.seek(0)
        complete = 0
        for line in file:
            if not line.endswith(b"\n"):
                break
            complete += len(line)
            with suppress(*_UNREADABLE):
                self._lines[str(json.loads(line)["key"])] = line
        file.truncate(complete)


def ranking_key(
    system: str, config: Mapping[str, Any], query: str, candidates: Sequence[Candidate]
) -> str:
    """The hash of all that a ranking depends on."""
    digest = hashlib.sha256()
    for part in (_FORMAT, __version__, system, config, query):
        digest.update(_bytes(part))
    for candidate in candidates:
        digest.update(
            _bytes([candidate.id, candidate.text, candidate.score, dict(candidate.metadata)])
        )
    return digest.hexdigest()


def _bytes(value: Any) -> bytes:
    data = json.dumps(value, sort_keys=True, default=str, skipkeys=True).encode()
    return b"%d:" % len(data) + data  # with its length, so that no two sequences hash the same


def _record(ranking: Ranking) -> dict[str, Any]:
    items = [
        [
            item.position,
            item.status,
            item.rerank_score,
            item.final_score,
            list(item.stage_scores),
            item.span,
        ]
        for item in ranking
    ]
    return {"items": items, "report": ranking.report.to_dict()}


def _ranking(record: Mapping[str, Any], query: str, candidates: Sequence[Candidate]) -> Ranking:
    items = []
    for rank, (position, status, rerank_score, final_score, stages, span) in enumerate(
        record["items"], 1
    ):
        candidate = candidates[position]
        items.append(
            Ranked(
                rank,
                position,
                candidate,
                status,
                rerank_score,
                final_score,
                tuple(stages),
                dict(candidate.metadata),
                None if span is None else (span[0], span[1]),
            )
        )
    return Ranking(query, tuple(items), _report(record["report"]))


def _report(record: Mapping[str, Any]) -> Report:
    issues = [
        Issue(**{**issue, "positions": tuple(issue["positions"]), "ids": tuple(issue["ids"])})
        for issue in record["issues"]
    ]
    return Report(
        record["status"],
        record["method"],
        record["score_kind"],
        tuple(issues),
        Usage(**record["usage"]),
        record["seconds"],
        {reason: tuple(positions) for reason, positions in record["left_out"].items()},
        tuple(EngineInfo(**engine) for engine in record["engines"]),
    )
