"""The input of a job: its files, its blocks, and the hash that detects changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from secondpass import InputError
from secondpass.formats.shared import read_queries
from secondpass.types import Progress
from secondpass_ray.blocks import Block
from secondpass_ray.scanning import NOT_A_FILE, PACKED_LINES, InputFile, hash_of, input_files, scan
from secondpass_ray.staging import packed_lines, run_lines, staged
from secondpass_ray.storage import in_parallel, is_within, located, stamp


@dataclass(frozen=True, slots=True)
class JobInput:
    """The input of a job: a path or URI of JSON lines or Parquet, or a TREC run."""

    name: str | None = None
    run: Path | None = None
    queries: Path | None = None
    corpus: Path | None = None

    def prepare(self, folder: str, rows: int, progress: Progress) -> tuple[list[Block], str]:
        """Read the input once; return its blocks, of at most ``rows``, and its hash.

        Files that cannot be read from the middle are copied to the folder of the job. Rows are
        checked in full only when they are ranked.
        """
        if self.run is not None and self.queries is not None and self.corpus is not None:
            lines = run_lines(self.run, read_queries(self.queries), self.corpus, progress)
            return [*staged(folder, self.run.name, lines, 0, rows)], self.hash()
        blocks: list[Block] = []
        hashes: list[str] = []
        total = 0

        def report(count: int) -> None:
            progress("Reading the input", count, None)

        for file in self._files():
            source = self._relative(file.name)
            if file.form == PACKED_LINES:
                blocks += staged(folder, source, packed_lines(file.name), total, rows)
                digest = hash_of(file.name)
            else:
                found, digest = scan(file, source, rows, total, report)
                blocks += found
            hashes.append(_named(file, digest))
            total = blocks[-1].first + blocks[-1].rows if blocks else 0
            report(total)
        return blocks, _combined(hashes)

    def hash(self) -> str:
        """The hash of the names and contents of all files, in order."""
        if self.run is not None:
            return _combined(hash_of(str(path)) for path in (self.run, self.queries, self.corpus))
        return _combined(_named(file, hash_of(file.name)) for file in self._files())

    def stamps(self) -> dict[str, tuple[int, int | None]]:
        """Sizes and times of the files that workers read; empty for a run, which is copied."""
        names = [] if self.run is not None else [file.name for file in self._files()]
        return dict(zip(names, in_parallel(stamp, names), strict=True))

    def names(self) -> list[str]:
        """The absolute paths or URIs of the input."""
        names = (self.name, self.run, self.queries, self.corpus)
        return [located(str(name)) for name in names if name is not None]

    def check(self) -> None:
        """Check that there is an input, without reading it."""
        if self.run is None:
            self._files()
        for path in (self.run, self.queries, self.corpus):
            if path is not None and not path.exists():
                raise InputError(f"{path}: there is no such file")
            if path is not None and not path.is_file():
                raise InputError(f"{path}: {NOT_A_FILE}")

    def _relative(self, name: str) -> str:
        """The name of a file within the input, for messages that are part of the output."""
        root = located(self.name or "").partition("?")[0].rstrip("/")
        path = name.partition("?")[0]
        return path[len(root) + 1 :] if is_within(path, root) else path.rpartition("/")[2]

    def _files(self) -> list[InputFile]:
        return input_files(located(self.name or ""))


def _named(file: InputFile, digest: str) -> str:
    return f"{digest} {file.name}"


def _combined(hashes: Iterator[str] | list[str]) -> str:
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
