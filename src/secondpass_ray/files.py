"""What Ray Data reads and writes for a job: requests, and part files of rankings.

A row of the Dataset of requests is a batch: consecutive rows of a file, which are ranked together
and written to one part file. So batches are the same in each run, whatever Ray does with blocks.

The output is the only record of what is done. Each line of a part has the ``file`` and the number
(``row``) of its request, or also its ``id``, and the ``digest`` of the request's text, by which a
row that has changed is noticed.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy
import pyarrow
import pyarrow.parquet
import ray
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink, FileBasedDatasource, WriteResult

from secondpass import InputError
from secondpass.formats.errors import FormatError
from secondpass_ray.budget import Amounts
from secondpass_ray.ranking import Row
from secondpass_ray.records import record_texts
from secondpass_ray.storage import files_in, opened, write_whole

EXTENSIONS = [
    *(f"{kind}{packed}" for kind in ("jsonl", "ndjson", "json") for packed in ("", ".gz")),
    "parquet",
]
_MOST_BYTES = 32_000_000
"""Bytes of rows after which a batch ends, which bounds the memory."""
_PARQUET_ROWS = 64
"""Rows of Parquet to hold in memory at a time."""

FREE = {"num_cpus": 0}
"""Resources of tasks beside the workers, for which all CPUs are."""

ROWS = pyarrow.list_(
    pyarrow.struct(
        {
            "row": pyarrow.int64(),
            "text": pyarrow.large_binary(),
            "problem": pyarrow.string(),
            "id": pyarrow.string(),
            "digest": pyarrow.string(),
        }
    )
)
BATCH = pyarrow.schema({"file": pyarrow.string(), "rows": ROWS})
"""A row of the Dataset of requests. An ``id`` is JSON."""

PART = pyarrow.schema(
    {"name": pyarrow.string(), "lines": pyarrow.large_binary(), "outcome": pyarrow.string()}
)
"""A row of the Dataset of rankings: a part file; ``outcome`` is JSON, for the summary."""


# ---------------------------------------------------------------------- rows


def identity_of(record: Mapping[str, Any]) -> bytes:
    """What a row of the input, or a line of the output, is known by."""
    key = [record["file"], record["row"]] if record.get("id") is None else [record["id"]]
    return blake2b(json.dumps(key).encode(), digest_size=16).digest()


class Known(NamedTuple):
    """The rows that an output has: their sorted identities, and a digest of each."""

    keys: Any
    digests: Any

    def missing(self, records: Sequence[Mapping[str, Any]]) -> list[bool]:
        """Which of these rows the output does not have.

        Raises:
            FormatError: it has another row in the place of one.
        """
        if not len(self.keys):
            return [True] * len(records)
        keys = numpy.array([identity_of(record) for record in records], self.keys.dtype)
        places = numpy.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        found = self.keys[places] == keys
        digests = numpy.array([record["digest"] for record in records], self.digests.dtype)
        for index in numpy.flatnonzero(found & (self.digests[places] != digests)):
            record = records[int(index)]
            problem = "has changed since it was ranked; name another output"
            raise FormatError(record["file"], record["row"], problem)
        return [not one for one in found]


class Done(NamedTuple):
    """What an output has: names of part files, rows, counts for the summary, and what they took."""

    parts: list[str]
    known: Known
    counts: Counter[str]
    spent: Amounts


def read_output(folder: str, tasks: int) -> Done:
    """Read the part files of a folder in at most so many tasks, on all nodes."""
    parts = [name for name in files_in(folder) if name.startswith("part-")]
    keys, digests, counts, spent = [b""] * 0, [""] * 0, Counter[str](), Amounts()
    if parts:
        with opened(folder) as (system, path):
            files = ray.data.read_binary_files(
                [f"{path}/{name}" for name in parts],
                filesystem=system,
                include_paths=True,
                override_num_blocks=min(tasks, len(parts)),
            )
        read = files.map_batches(_contents, batch_size=None, batch_format="pyarrow")
        for table in read.iter_batches(batch_size=None, batch_format="pyarrow"):
            keys += table["key"].to_pylist()
            digests += table["digest"].to_pylist()
            for column in ("status", "error"):
                counts.update(filter(None, table[column].to_pylist()))
            totals = (sum(table[name].to_pylist()) for name in ("tokens", "cost"))
            spent += Amounts(*totals)
    known = Known(numpy.array(keys, "S16"), numpy.array(digests, "U16"))
    order = numpy.argsort(known.keys)
    known = Known(known.keys[order], known.digests[order])
    if (known.keys[1:] == known.keys[:-1]).any():
        raise InputError(f"{folder}: has a row twice; the ids of --id must be unique")
    return Done(parts, known, counts, spent)


def _contents(files: Any) -> Any:
    """The rows of part files, without texts."""
    found = []
    for file in files.to_pylist():
        name = file["path"].rpartition("/")[2]
        for line in file["bytes"].splitlines():
            try:
                record = json.loads(line)
                report = record.get("report", {"status": None, "usage": {}})
                usage = report["usage"]
                found.append(
                    {
                        "key": identity_of(record),
                        "digest": record["digest"],
                        "status": report["status"],
                        "error": record.get("error", {}).get("code"),
                        "tokens": sum(
                            usage.get(f"{kind}_tokens") or 0 for kind in ("input", "output")
                        ),
                        "cost": float(usage.get("cost") or 0),
                    }
                )
            except (AttributeError, LookupError, TypeError, ValueError):
                problem = "is not a part file of a job; delete it to rank its rows again"
                raise InputError(f"{name}: {problem}") from None
    return pyarrow.Table.from_pylist(found, _KNOWN)


_KNOWN = pyarrow.schema(
    {
        "key": pyarrow.binary(),
        "digest": pyarrow.string(),
        "status": pyarrow.string(),
        "error": pyarrow.string(),
        "tokens": pyarrow.int64(),
        "cost": pyarrow.float64(),
    }
)


# ---------------------------------------------------------------------- reading


class Requests(FileBasedDatasource):  # type: ignore[misc]
    """Batches of the requests in JSON lines and Parquet that an output does not have.

    ``known`` is a reference to :class:`Known`, and ``id_key`` a key of requests, or None.
    """

    def __init__(self, name: str, batch: int, id_key: str | None, known: Any) -> None:
        super().__init__(name, file_extensions=EXTENSIONS)
        self._root = name.partition("://")[2].partition("?")[0] or name
        self._batch, self._id_key, self._known = batch, id_key, known

    def files(self) -> int:
        """The number of files."""
        return len(self._paths())

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        if _is_parquet(path):
            return filesystem.open_input_file(path)
        return super()._open_input_source(filesystem, path, **open_args)

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        file = _relative(path, self._root)
        known: Known = ray.get(self._known)
        try:
            rows = _parquet_rows(f, file) if _is_parquet(path) else _lines(f)
            for batch in _batches(rows, self._batch):
                records = [self._record(file, row, text) for row, text in batch]
                missing = known.missing(records)
                if any(missing):
                    left = [one for one, wanted in zip(records, missing, strict=True) if wanted]
                    for record in left:
                        record["id"] = json.dumps(record["id"])  # a string or an integer
                    yield pyarrow.Table.from_pylist([{"file": file, "rows": left}], BATCH)
        except (OSError, pyarrow.ArrowException) as error:
            # With its text, by which Ray Data knows what to try again; Arrow's could quote a row.
            reason = error if isinstance(error, OSError) else type(error).__name__
            problem = f"is damaged, or not of the format of its name ({reason})"
            raise FormatError(file, None, problem) from None

    def _record(self, file: str, row: int, text: bytes | FormatError) -> dict[str, Any]:
        record: dict[str, Any] = {"file": file, "row": row, "id": None}
        if isinstance(text, FormatError):
            return {**record, "text": b"", "problem": text.problem, "digest": ""}
        if self._id_key is not None:
            record["id"] = _id_in(text, self._id_key)
        return {**record, "text": text, "digest": blake2b(text, digest_size=8).hexdigest()}


def _relative(path: str, root: str) -> str:
    """The name of a file within the input, for messages that are part of the output."""
    root = root.rstrip("/")
    if path == root:
        return path.rpartition("/")[2]
    return path.removeprefix(f"{root}/")


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _lines(file: Any) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    for number, raw in enumerate(io.BufferedReader(file, 1 << 20), 1):
        text = raw.rstrip(b"\r\n")
        if text.startswith(b"{") or text.decode("utf-8-sig", "replace").strip():
            yield number, text


def _parquet_rows(file: Any, name: str) -> Iterator[tuple[int, bytes | FormatError]]:
    number = 1
    with pyarrow.parquet.ParquetFile(file) as table:
        for batch in table.iter_batches(batch_size=_PARQUET_ROWS):
            for text in record_texts(batch, name, number):
                yield number, text
                number += 1


def _batches(
    rows: Iterable[tuple[int, bytes | FormatError]], count: int
) -> Iterator[list[tuple[int, bytes | FormatError]]]:
    batch: list[tuple[int, bytes | FormatError]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row[1]) if isinstance(row[1], bytes) else 0
        if len(batch) >= count or size >= _MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _id_in(text: bytes, key: str) -> str | int | None:
    """The id in the JSON text of a request; None if it has none."""
    try:
        value = json.loads(text)[key]
    except (LookupError, RecursionError, TypeError, ValueError):
        return None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


# ---------------------------------------------------------------------- batches and parts


def rows_of(batch: Mapping[str, Any]) -> list[Row]:
    """The rows of a batch, each with the beginning of its line of output."""
    file = batch["file"]
    rows = []
    for record in batch["rows"]:
        identity = {"file": file, "row": record["row"]}
        if (key := json.loads(record["id"])) is not None:
            identity["id"] = key
        identity["digest"] = record["digest"]
        problem = record["problem"]
        content = record["text"] if problem is None else FormatError(file, record["row"], problem)
        rows.append(Row(file, record["row"], content, identity))
    return rows


def part_name(rows: Sequence[Row]) -> str:
    """The name of the part file of these rows: the same whoever writes them, and no other's."""
    file = quote(rows[0].source, safe=" ")
    if len(file) > 120:  # a name has 255 bytes at most
        file = f"{file[:80]}-{blake2b(file.encode(), digest_size=8).hexdigest()}"
    # Where rows are known by ids, others can take their places in the file.
    identities = b"".join(identity_of(row.identity) for row in rows)
    which = blake2b(identities, digest_size=4).hexdigest()
    return f"part-{file}-{rows[0].line:012d}-{rows[-1].line:012d}-{which}.jsonl"


class Parts(Datasink):  # type: ignore[misc]
    """Writes each row of a Dataset of parts to a file of its own, whole or not at all.

    ``outcomes`` are those of all parts, after they were written.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.outcomes: list[dict[str, Any]] = []

    def write(self, blocks: Iterable[Any], _ctx: Any) -> str:
        """Write the parts of blocks; the outcomes as JSON lines."""
        outcomes = []
        for block in blocks:
            for part in BlockAccessor.for_block(block).to_arrow().to_pylist():
                if part["lines"]:
                    write_whole(self.folder, part["name"], part["lines"])
                outcomes.append(part["outcome"])
        return "\n".join(outcomes)

    def on_write_complete(self, write_result: WriteResult) -> None:
        """Keep the outcomes."""
        texts = "\n".join(write_result.write_returns)
        self.outcomes = [json.loads(line) for line in texts.splitlines()]
