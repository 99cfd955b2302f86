"""Passages from a folder of files, or from a corpus in JSON lines.

Text, Markdown and HTML are read; what is no text is passed over, and named.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from secondpass.errors import InputError
from secondpass.formats.lines import AnyPath
from secondpass.formats.reading import read_corpus
from secondpass.search.passages import (
    Block,
    Document,
    from_html,
    from_markdown,
    packed,
    paragraphs,
)
from secondpass.settings import describe
from secondpass.types import Candidate

PASSAGE_SIZE = 1000
"""Characters of a passage, at most. About 220 tokens of English, which the embedded model reads."""
SMALLEST_PASSAGE = 50

CORPUS_NAME = "corpus.jsonl"
_HTML = frozenset({".html", ".htm", ".xhtml"})
_MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd"})
_NOT_FOLLOWED = "is a link to a folder, or no file"
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"),
          (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Told a label, how much is done and of how much."""


class SourceFile(NamedTuple):
    """One file as it was when it was read.

    Attributes:
        size: in bytes.
        modified: in nanoseconds.
        sha256: of its content; empty where it could not be read.
        skipped: why nothing of it is in the corpus; empty where it is.
    """

    size: int
    modified: int
    sha256: str
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What was read.

    Attributes:
        path: the folder or the file.
        files: by their paths under the folder.
        corpus: the passages.
    """

    path: Path
    files: dict[str, SourceFile] = field(default_factory=dict)
    corpus: list[Candidate] = field(default_factory=list, repr=False)

    @property
    def skipped(self) -> dict[str, str]:
        """The files of which nothing is in the corpus, and why."""
        return {name: file.skipped for name, file in self.files.items() if file.skipped}


def read_source(
    path: AnyPath,
    *,
    passage_size: int = PASSAGE_SIZE,
    without: Path | None = None,
    progress: Progress | None = None,
) -> Source:
    """Read a folder of text, Markdown and HTML files, one such file, or a BEIR-style corpus.

    A folder is read with all folders in it, but for hidden files and folders (whose names begin
    with a dot). One that holds a ``corpus.jsonl`` is that corpus. Passages have the id
    ``path#number`` and the metadata ``title``, ``path`` and ``passage``.

    Args:
        path: the folder, or a ``.jsonl`` in BEIR's form, or one file.
        passage_size: characters of a passage, at most.
        without: a folder that is passed over.
        progress: told how many files, or passages of a corpus, are done.

    Raises:
        FormatError: a line of a ``.jsonl`` is malformed.
        InputError: the passage size is too small.
        OSError: there is no such file or folder, or it cannot be read.
    """
    if type(passage_size) is not int or passage_size < SMALLEST_PASSAGE:
        raise InputError(
            f"passage_size: must be an integer of {SMALLEST_PASSAGE} or more, "
            f"not {describe(passage_size)}"
        )
    path = Path(path)
    source = Source(path)
    if (corpus := corpus_file(path)) is not None:
        with open(corpus, "rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        source.files[corpus.name] = SourceFile(status.st_size, status.st_mtime_ns, digest)
        for candidate in read_corpus(corpus):
            source.corpus.append(candidate)
            if progress is not None and len(source.corpus) % 1000 == 0:
                progress("reading passages", len(source.corpus), None)
        if progress is not None:
            progress("reading passages", len(source.corpus), len(source.corpus))
        return source
    found = list(_found(path, without))
    for done, (name, file_path, problem) in enumerate(found):
        if progress is not None:
            progress("reading files", done, len(found))
        if problem or file_path is None:
            source.files[name] = SourceFile(0, 0, "", problem)
            continue
        file_read, document = _read(file_path)
        source.files[name] = file_read
        if document is not None:
            source.corpus.extend(_candidates(name, document, passage_size))
    if progress is not None:
        progress("reading files", len(found), len(found))
    return source


def corpus_file(path: Path) -> Path | None:
    """The file in BEIR's form that a path stands for; None where it stands for documents."""
    if path.is_dir():
        path = path / CORPUS_NAME
        return path if path.is_file() else None
    return path if path.suffix.lower() == ".jsonl" else None


def changes(
    path: Path, known: Mapping[str, SourceFile], without: Path | None = None
) -> Iterator[str]:
    """What is no longer as it was read, one file after the other.

    A file with its size and time as they were is taken to be the same; one with another time is
    read again.
    """
    if not path.exists():
        yield f"{path} is not there any more"
        return
    corpus = corpus_file(path)
    found = [(corpus.name, corpus, "")] if corpus is not None else [*_found(path, without)]
    for name, file, problem in found:
        old = known.get(name)
        if old is None:
            yield f"{name} is new"
        elif _differs(old, file, problem):
            yield f"{name} has changed"
    here = {name for name, _, _ in found}
    yield from (f"{name} is not there any more" for name in known if name not in here)


# ---------------------------------------------------------------------- files


def _found(path: Path, without: Path | None) -> Iterator[tuple[str, Path | None, str]]:
    """Name, place and what is wrong with it, of every file, in the order of their names."""
    if not path.is_dir():
        os.stat(path)  # raises where there is nothing
        yield path.name, path, "" if path.is_file() else _NOT_FOLLOWED
        return
    os.listdir(path)  # raises where the folder itself cannot be read
    closed: list[OSError] = []
    for folder, folders, files in os.walk(path, onerror=closed.append):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in links
            and (without is None or (here / name).resolve() != without.resolve())
        )
        for name in sorted([*files, *links]):
            if name.startswith("."):
                continue
            place = here / name
            shown = place.relative_to(path).as_posix()
            plain = shown.encode("utf-8", "backslashreplace").decode()
            if plain != shown:
                yield plain, None, "has a name that is not UTF-8"
            elif not place.is_file():
                yield shown, None, _NOT_FOLLOWED
            else:
                yield shown, place, ""
    for error in closed:
        shown = Path(str(error.filename)).relative_to(path).as_posix()
        shown = shown.encode("utf-8", "backslashreplace").decode()
        yield f"{shown}/", None, f"cannot be read: {error.strerror}"


def _differs(old: SourceFile, path: Path | None, problem: str) -> bool:
    if path is None or problem:
        return old.skipped != problem
    try:
        status = path.stat()
        if old.sha256:  # else it could not be read
            if status.st_size != old.size:
                return True
            if status.st_mtime_ns == old.modified:
                return False
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() != old.sha256
    except OSError:
        return bool(old.sha256)


def _read(path: Path) -> tuple[SourceFile, Document | None]:
    size, modified = 0, 0
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            size, modified = status.st_size, status.st_mtime_ns
            start = file.read(8192)
            marked = any(start.startswith(mark) for mark, _ in _MARKS)
            if b"\0" in start and not marked:
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                return SourceFile(size, modified, digest, "is no text"), None
            data = start + file.read()
    except OSError as error:
        told = f"cannot be read: {error.strerror or type(error).__name__}"
        return SourceFile(size, modified, "", told), None
    digest = hashlib.sha256(data).hexdigest()
    suffix = path.suffix.lower()
    text = _decoded(data, html=suffix in _HTML)
    if text is None:
        return SourceFile(size, modified, digest, "is no text, or not in UTF-8"), None
    if suffix in _HTML:
        document = from_html(text)
    elif suffix in _MARKDOWN:
        document = from_markdown(text)
    else:
        document = Document("", [Block(part) for part in paragraphs(text)])
    if not document.blocks:
        return SourceFile(size, modified, digest, "holds no text"), None
    document = document._replace(title=document.title or path.stem)
    return SourceFile(size, modified, digest), document


def _decoded(data: bytes, html: bool) -> str | None:
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    # A declaration that can be read as bytes is wrong if it says that characters have more.
    declared = re.search(
        rb"<meta[^>]{0,200}charset=[\"' ]?(?!utf-?(?:16|32))([\w-]+)", data[:2048], re.I
    )
    names = [encoding] if encoding else ["utf-8"]
    if html and declared and not encoding:
        names.append(declared[1].decode("ascii", "replace"))
    for name in names:
        try:
            text = data.decode(name)
        except (UnicodeError, LookupError):
            continue
        if "\0" not in text:
            return text.replace("\r\n", "\n").replace("\r", "\n")
    return None


def _candidates(name: str, document: Document, size: int) -> Iterator[Candidate]:
    for number, (section, text) in enumerate(packed(document.blocks, size), 1):
        title = document.title
        if section and section != title:
            title = f"{title} > {section}"
        metadata = {"title": title, "path": name, "passage": number}
        yield Candidate(text, f"{name}#{number}", metadata=metadata)
