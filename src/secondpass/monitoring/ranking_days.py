"""Statistics of rankings by day and method: sketches and counts, as JSON lines, a file per day.

They contain no text of queries and candidates, no id, no key and no folder of a model. A ranking
counts on the day, in UTC, on which it ends. A cancelled one has no method, and the status
``cancelled``.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple
from uuid import uuid4

from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.files import atomic_write, lock, unlock
from secondpass.formats.lines import AnyPath, Line, read_json_lines
from secondpass.monitoring.sketches import Repeats, Sketch
from secondpass.ranking.diagnostics import log
from secondpass.settings import describe

FORMAT = 1
SUFFIX = ".jsonl"

MOST_LINES = 500
"""Lines of a file. Rankings of all further rerankers and methods share one line more."""
OTHER = "other"
"""The reranker's name in that line."""

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_CODES = 200


class DayKey(NamedTuple):
    """What the rankings of a line have in common.

    Attributes:
        day: in UTC, as ``2026-11-23``.
        reranker: name of the method of the reranker.
        method: name of the method that determined the order; None if none did.
        kind: what its scores mean; None if no method determined the order.
        version: of secondpass.
        engine: backend and precision of local models; None without one.
    """

    day: str
    reranker: str
    method: str | None
    kind: str | None
    version: str
    engine: str | None


@dataclass(slots=True)
class DayCounts:
    """Counts and sketches of rankings.

    Attributes:
        rankings: number of rankings.
        statuses: number of rankings by status; ``cancelled`` are those without a report, and
            ``skipped`` those that the setting ``when`` left out altogether.
        issues: number of rankings with an issue, by its code.
        sketches: of one value per ranking, by the name of the statistic.
        repeats: how often queries are repeated.
    """

    rankings: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    issues: Counter[str] = field(default_factory=Counter)
    sketches: dict[str, Sketch] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=Repeats)

    def add(
        self, query: int, status: str, issues: Iterable[str], statistics: Mapping[str, float]
    ) -> None:
        """Add a ranking. Codes that are no plain identifiers count as ``other``.

        Args:
            query: hash of the query, see :func:`~secondpass.ranking.observers.query_hash`.
            status: of the report.
            issues: their codes.
            statistics: by name.
        """
        self.rankings += 1
        self.repeats.add(query)
        self.statuses[status] += 1
        for code in set(map(_plain, issues)):
            name = code if code in self.issues or len(self.issues) < _MOST_CODES else "other"
            self.issues[name] += 1
        for name, value in statistics.items():
            sketch = self.sketches.get(name)
            if sketch is None:
                sketch = self.sketches[name] = Sketch()
            sketch.add(value)

    def merge(self, other: DayCounts) -> None:
        """Add the rankings of another."""
        self.rankings += other.rankings
        self.statuses.update(other.statuses)
        self.issues.update(other.issues)
        for name, sketch in other.sketches.items():
            self.sketches.setdefault(name, Sketch()).merge(sketch)
        self.repeats.merge(other.repeats)


Days = dict[DayKey, DayCounts]
"""Counts of rankings by what they have in common."""


def line_of(days: Mapping[DayKey, DayCounts], key: DayKey) -> DayKey:
    """The key to add rankings under: that of :data:`OTHER` if the day has no line left."""
    if key in days or sum(item.day == key.day for item in days) < MOST_LINES:
        return key
    return DayKey(key.day, OTHER, None, None, key.version, None)


def merge_days(days: Days, others: Mapping[DayKey, DayCounts]) -> None:
    """Add the rankings of other days; those are not changed."""
    for key, counts in others.items():
        days.setdefault(key, DayCounts()).merge(counts)


def days_to_lines(days: Mapping[DayKey, DayCounts]) -> Iterator[str]:
    """One line of JSON for each key, in a fixed order."""
    for key in sorted(days, key=lambda key: [str(part) for part in key]):
        counts = days[key]
        record = {
            "format": FORMAT,
            **key._asdict(),
            "rankings": counts.rankings,
            "statuses": counts.statuses,
            "issues": counts.issues,
            "sketches": {name: sketch.to_pairs() for name, sketch in counts.sketches.items()},
            "queries": counts.repeats.to_pairs(),
        }
        yield json.dumps(record, separators=(",", ":")) + "\n"


def read_days(path: AnyPath, first: str | None = None, last: str | None = None) -> Days:
    """Read a file of such lines, or all files of a folder.

    Args:
        path: the file, or the folder of a monitor.
        first: the first day to read, such as ``2026-11-23``; None for all.
        last: the last day to read.

    Raises:
        FormatError: a line is not one of these.
        InputError: the folder has no such file, or a day is not one.
        OSError: a file cannot be read.
    """
    for name, day in (("first", first), ("last", last)):
        if day is not None and not is_day(day):
            raise InputError(f"{name}: must be a day such as 2026-11-23, not {describe(day)}")
    folder = Path(path)
    files = [folder]
    if folder.is_dir():
        files = sorted(path for path in folder.glob(f"*{SUFFIX}") if path.name[:1] != ".")
        if not files:
            raise InputError(f"{path}: has no file *{SUFFIX} that a monitor has written")
    days: Days = {}
    for file in files:
        for line, record in read_json_lines(file):
            key, counts = _parse(line, record)
            if (first or key.day) <= key.day <= (last or key.day):
                merge_days(days, {key: counts})
    return days


def _parse(line: Line, record: Mapping[str, Any]) -> tuple[DayKey, DayCounts]:
    if record.get("format") != FORMAT:
        raise line.error(f"is not a line of a monitor: `format` must be {FORMAT}")
    try:
        key = DayKey(*(record[name] for name in DayKey._fields))
        if not is_day(key.day):
            raise ValueError("`day` must be a day such as 2026-11-23")
        if not isinstance(key.reranker, str) or not isinstance(key.version, str):
            raise TypeError
        if not all(part is None or isinstance(part, str) for part in key):
            raise TypeError
        counts = DayCounts(
            _count(record["rankings"]),
            Counter({str(name): _count(number) for name, number in record["statuses"].items()}),
            Counter({str(name): _count(number) for name, number in record["issues"].items()}),
            {str(name): Sketch.from_pairs(pairs) for name, pairs in record["sketches"].items()},
            Repeats.from_pairs(record["queries"]),
        )
        # Shares of more than 1 could not be compared.
        if counts.rankings < max(
            sum(counts.statuses.values()),
            *counts.issues.values(),
            *(sketch.count for sketch in counts.sketches.values()),
            sum(map(abs, counts.repeats.bins.values())),
            0,
        ):
            raise ValueError("it counts more than `rankings`")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise line.error(f"is not a line of a monitor: {_problem(error)}") from None
    return key, counts


def is_day(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _problem(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"`{error.args[0]}` is missing"
    return str(error) if isinstance(error, ValueError) else "a value is of the wrong type"


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a count must be an integer of at least 0")
    return value


def _plain(code: str) -> str:
    """The code if it is a plain identifier, else ``other``: a custom method's may be any text."""
    return code if _CODE.fullmatch(code) else "other"


_LOCK_WITHIN = 5.0
"""Seconds to wait for other processes that write to the folder."""

_NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(\.[0-9a-f]{12})?" + re.escape(SUFFIX))


class DayFiles:
    """Files named by day, or by day and process if the process cannot share the file of the day.

    Args:
        folder: where they are.
        keep: number of days to keep; None keeps all.
    """

    def __init__(self, folder: Path, keep: int | None) -> None:
        self.folder = folder
        self.keep = keep
        self._own_name = _new_name()
        self._foreign: set[Path] = set()

    def add(self, day: str, days: Days) -> None:
        """Add rankings to the file of a day.

        To a separate file, if that cannot be locked or read, or another program has written to it.

        Raises:
            OSError: nothing can be written.
        """
        with open(self.folder / ".lock", "a+b") as file:
            is_locked = _locked(file)
            try:
                if is_locked and self._add_to(f"{day}{SUFFIX}", days):
                    return
                while not self._add_to(f"{day}.{self._own_name}{SUFFIX}", days):
                    self._own_name = _new_name()
            finally:
                if is_locked:
                    unlock(file)

    def delete_old(self) -> None:
        """Delete the files of the oldest days, except those that other programs have written.

        Counts the days that have files, because the clock may be wrong for a while.

        Raises:
            OSError: a file cannot be read or deleted.
        """
        if self.keep is None:
            return
        paths = [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        old = sorted({path.name[:10] for path in paths})[: -self.keep]
        for path in paths:
            if path.name[:10] in old and self._read(path) is not None:
                path.unlink(missing_ok=True)

    def _add_to(self, name: str, days: Days) -> bool:
        """Add rankings to a file; False if it cannot be read, or is of another program."""
        path = self.folder / name
        merged = self._read(path) if path.exists() else {}
        if merged is None:
            return False
        for key, counts in days.items():
            merge_days(merged, {line_of(merged, key): counts})
        # Always the same name, so that killed processes leave at most one such file per day.
        with atomic_write(path, path.with_name(f".{name}.tmp")) as file:
            file.writelines(line.encode() for line in days_to_lines(merged))
        return True

    def _read(self, path: Path) -> Days | None:
        """The content of a file; None, and logged once, if it cannot be read or is another's."""
        try:
            return read_days(path)
        except (FormatError, InputError, OSError) as error:  # InputError: of a folder
            if path not in self._foreign:
                self._foreign.add(path)
                log("warning", "monitoring leaves a file as it is: %s", error)
            return None


def _new_name() -> str:
    return uuid4().hex[:12]


def _locked(file: IO[bytes]) -> bool:
    """Wait for the lock of a file; False if it takes too long or is not supported."""
    until = time.monotonic() + _LOCK_WITHIN
    while True:
        try:
            lock(file)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        except OSError:  # the file system has no locks
            return False
        else:
            return True
