"""Keeps finished rankings in a file, so that an interrupted comparison can be continued."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from secondpass import (
    Candidate,
    EngineInfo,
    InputError,
    Issue,
    Ranked,
    Ranking,
    Report,
    Skipped,
    Threshold,
    Usage,
    __version__,
)
from secondpass.asking.response_cache import ResponseCache
from secondpass.formats.files import naming, open_locked
from secondpass.formats.lines import AnyPath

_FORMAT = 2
_START = b'{"key":"'
_UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Journal:
    """A file of JSON lines, one for each finished ranking, without texts.

    The key of a ranking is a hash of everything that it depends on: the version of secondpass, the
    system's name and configuration, the query with its id, and its candidates. So a journal is
    never stale: after a change there is another key. Rankings that are ``unchanged`` are not kept,
    nor are those that are ``degraded`` by more than a doubtful model.

    Answers of rankings that are not finished are in a response cache beside it
    (:meth:`stored_answers`), which is removed with it.

    A line is passed to the operating system as soon as a ranking is finished, so it survives the
    end of the process. Safe to use from many threads. One process at a time can use the file.

    Args:
        path: the file; created if there is none, and removed when it is closed without a line. An
            incomplete last line is removed.
        partial: whether to keep rankings that are ``partial``. Otherwise they are repeated, with
            the stored answers.

    Attributes:
        reused: number of rankings that were found.
        added: number of rankings that were written.

    Raises:
        InputError: another process is writing to the file, or it is not a journal.
        OSError: it cannot be opened, read or written.
    """

    def __init__(self, path: AnyPath, *, partial: bool = True) -> None:
        self.path = Path(path)
        self._kept = {"ok", "partial"} if partial else {"ok"}
        self.reused = self.added = 0
        self._opened = time.time()
        self._lock = threading.Lock()
        self._lines: dict[str, bytes] = {}
        # Locked from the start: a second process must not begin, or remove the file later.
        self._file: BinaryIO | None = open_locked(self.path, "a+b")
        try:
            self._load(self._file)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, key: str) -> bool:
        with self._lock:
            return key in self._lines

    def close(self) -> None:
        """Close the file, and remove it if it is empty. Adding a ranking opens it again."""
        with self._lock:
            file, self._file = self._file, None
            if file is None:
                return
            is_empty = not os.fstat(file.fileno()).st_size
            if sys.platform == "win32":  # an open file cannot be removed there
                file.close()
            # Elsewhere, removed while it is locked: afterwards it may belong to another process.
            if is_empty:
                self.path.unlink(missing_ok=True)
            with suppress(OSError):  # a failed write raises again here, and was reported
                file.close()

    def clear(self) -> None:
        """Remove all rankings and stored answers.

        Raises:
            InputError: another process is writing to it.
            OSError: the file cannot be written.
        """
        with self._lock:
            self._open().truncate(0)
            self._lines.clear()
        self.stored_answers("").delete()

    def delete(self) -> None:
        """Close and remove the file and the stored answers; errors as of :meth:`clear`."""
        self.clear()
        self.close()

    def stored_answers(self, system: str) -> ResponseCache:
        """The response cache of a system, which has the answers of interrupted runs only.

        So each system, and each repetition, is measured with its own calls.
        """
        return ResponseCache.of_run(self.answers_path, system, before=self._opened)

    @property
    def answers_path(self) -> Path:
        """The file of the answers of services, until the run is complete."""
        return self.path.with_name(f"{self.path.name}.answers.sqlite")

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
        if not self._is_kept(ranking.report):
            return
        line = json.dumps({"key": key, **_record(ranking)}, separators=(",", ":")).encode()
        with self._lock:
            file = self._open()
            with naming(self.path):
                file.write(line + b"\n")
                file.flush()
            self._lines[key] = line
            self.added += 1

    def _is_kept(self, report: Report) -> bool:
        if report.degraded_by == ("doubtful",):  # it would be in another attempt, too
            return "partial" in self._kept or report.depth_done == report.depth_asked
        return report.status in self._kept

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._file = open_locked(self.path, "a+b")
        return self._file

    def _load(self, file: BinaryIO) -> None:
        file.seek(0)
        complete = 0
        is_foreign = False
        for line in file:
            if not line.endswith(b"\n"):
                is_foreign |= not line.startswith(_START) and not _START.startswith(line)
                break
            complete += len(line)
            try:
                row = json.loads(line)
                if row.keys() >= {"key", "items", "report"}:
                    self._lines[str(row["key"])] = line
                else:
                    is_foreign = True
            except _UNREADABLE:
                is_foreign = True
        if is_foreign and not self._lines:  # do not cut or remove a file that is not a journal
            raise InputError(f"{self.path}: is not a file of finished rankings; move it away")
        file.truncate(complete)


def ranking_key(
    system: str,
    config: Mapping[str, Any],
    query_id: str,
    query: str,
    candidates: Sequence[Candidate],
) -> str:
    """The hash of everything that a ranking depends on, and of the query id.

    Without the id, a query that is twice in a suite would be ranked and timed once.
    """
    digest = hashlib.sha256()
    for part in (_FORMAT, __version__, system, config, query_id, query):
        digest.update(_bytes(part))
    for candidate in candidates:
        known = [candidate.id, candidate.text, candidate.score, candidate.metadata]
        digest.update(_bytes(known))
    return digest.hexdigest()


def _bytes(value: Any) -> bytes:
    try:
        data = json.dumps(_sorted(value), default=str).encode()
    except (RecursionError, ValueError):  # metadata that contains itself
        data = repr(value).encode("utf-8", "backslashreplace")
    return b"%d:" % len(data) + data  # with its length, so that no two sequences hash the same


def _sorted(value: Any) -> Any:
    """The value with mappings as sorted lists: keys of metadata can be anything."""
    if isinstance(value, Mapping):
        pairs = [[repr(key), _sorted(item)] for key, item in value.items()]
        return {"": sorted(pairs, key=lambda pair: str(pair[0]))}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value


_ITEM = (
    "position",
    "status",
    "rerank_score",
    "final_score",
    "stage_scores",
    "span",
    "probability",
)
"""What is kept of an item: the values of these attributes, in this order."""


def _record(ranking: Ranking) -> dict[str, Any]:
    items = [[getattr(item, name) for name in _ITEM] for item in ranking]
    return {"items": items, "report": ranking.report.to_dict()}


def _ranking(record: Mapping[str, Any], query: str, candidates: Sequence[Candidate]) -> Ranking:
    items = []
    for rank, values in enumerate(record["items"], 1):
        item = dict(zip(_ITEM, values, strict=True))
        item["stage_scores"] = tuple(item["stage_scores"])
        item["span"] = None if item["span"] is None else tuple(item["span"])
        candidate = candidates[item["position"]]
        metadata = dict(candidate.metadata)
        items.append(Ranked(rank=rank, candidate=candidate, metadata=metadata, **item))
    return Ranking(query, tuple(items), _report(record["report"]))


def _report(record: Mapping[str, Any]) -> Report:
    skipped, threshold = record["skipped"], record["threshold"]
    parts = {
        "issues": tuple(
            Issue(**{**issue, "positions": tuple(issue["positions"]), "ids": tuple(issue["ids"])})
            for issue in record["issues"]
        ),
        "usage": Usage(**record["usage"]),
        "degraded_by": tuple(record["degraded_by"]),
        "left_out": {reason: tuple(places) for reason, places in record["left_out"].items()},
        "engines": tuple(EngineInfo(**engine) for engine in record["engines"]),
        "skipped": None if skipped is None else Skipped(**skipped),
        "threshold": None if threshold is None else Threshold(**threshold),
    }
    return Report(**{**record, **parts})
