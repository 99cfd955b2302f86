"""Read passages from a folder of text, Markdown and HTML files, or from a corpus in JSON lines.

Files that are not text are skipped and reported.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from secondpass import Candidate, InputError
from secondpass.formats.files import find_file
from secondpass.formats.lines import AnyPath, conversion
from secondpass.settings import describe
from secondpass.types import Progress, no_progress
from secondpass_evaluation.reading import read_corpus
from secondpass_evaluation.search.html_blocks import parse_html
from secondpass_evaluation.search.markdown_blocks import parse_markdown
from secondpass_evaluation.search.passages import (
    PASSAGE_SIZE,
    SMALLEST_PASSAGE,
    Block,
    Document,
    pack,
    paragraphs,
)
from secondpass_evaluation.search.selection import ALL, Entry, Selection, entries_of, is_index

READER_VERSION = 8
"""Version of how files become passages. A build replaces an index of another version."""

CORPUS_NAME = "corpus.jsonl"
"""Name of a corpus in BEIR's format, which may be compressed: ``corpus.jsonl.gz``."""
_HTML = frozenset({".html", ".htm", ".xhtml"})
_MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd"})
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class SourceFile(NamedTuple):
    """A file at the time it was read.

    Attributes:
        size: in bytes.
        sha256: hash of the content; empty if it could not be read.
        skipped: why the file is not in the corpus; empty if it is.
    """

    size: int
    sha256: str
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder or a file; ``files`` are by their path relative to it."""

    path: Path
    files: dict[str, SourceFile] = field(default_factory=dict)
    corpus: list[Candidate] = field(default_factory=list, repr=False)

    @property
    def skipped(self) -> dict[str, str]:
        """The files that are not in the corpus, and why."""
        return {name: file.skipped for name, file in self.files.items() if file.skipped}


def read_source(
    path: AnyPath,
    *,
    passage_size: int = PASSAGE_SIZE,
    selection: Selection = ALL,
    progress: Progress | None = None,
) -> Source:
    """Read a folder of text, Markdown and HTML files, one such file, or a corpus in BEIR's format.

    Folders are read recursively, except hidden files and folders (names that begin with a dot) and
    indexes. A folder with a ``corpus.jsonl`` or ``corpus.jsonl.gz`` is read as that corpus.
    Passages have the id ``path#number`` and the metadata ``title``, ``path`` and ``passage``. Of a
    website (a folder with an ``index.html``, and what is in it), only the pages are read, not its
    scripts, styles, pictures and search index.
    """
    if type(passage_size) is not int or passage_size < SMALLEST_PASSAGE:
        raise InputError(
            f"passage_size: must be an integer of {SMALLEST_PASSAGE} or more, "
            f"not {describe(passage_size)}"
        )
    path = Path(path)
    if any(map(is_index, (path, *path.resolve().parents))):
        raise InputError(f"{path}: is an index; name the documents that it was built from")
    report = progress or no_progress
    corpus = corpus_file(path)
    if corpus is None and path.is_file() and (convert := conversion(path)):
        raise InputError(f"{path}: is neither text nor JSON lines{convert}")
    if corpus is None:
        return _read_files(path, passage_size, selection, report)
    if selection != ALL:
        raise InputError(f"include, exclude: {corpus} is a corpus; they select files")
    return _read_corpus(path, corpus, report)


def _read_corpus(path: Path, corpus: Path, report: Progress) -> Source:
    source = Source(path)
    report("reading passages", 0, None)  # before the file is hashed
    with open(corpus, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    source.files[corpus.name] = SourceFile(size, digest)
    for candidate in read_corpus(corpus):
        source.corpus.append(candidate)
        if len(source.corpus) % 1000 == 0:
            report("reading passages", len(source.corpus), None)
    report("reading passages", len(source.corpus), len(source.corpus))
    return source


def _read_files(path: Path, passage_size: int, selection: Selection, report: Progress) -> Source:
    source = Source(path)
    report("reading files", 0, None)  # before the folders are listed
    entries = list(entries_of(path, selection))
    for done, (name, file_path, problem) in enumerate(entries):
        report("reading files", done, len(entries))
        if problem or file_path is None:
            source.files[name] = SourceFile(0, "", problem)
            continue
        source.files[name], document = _read(file_path)
        if document is not None:
            source.corpus.extend(_candidates(name, document, passage_size))
    report("reading files", len(entries), len(entries))
    return source


def corpus_file(path: Path) -> Path | None:
    """The corpus in BEIR's format at a path; None if the path holds documents."""
    if path.is_dir():
        return find_file(path, [CORPUS_NAME])
    return path if path.name.lower().endswith((".jsonl", ".jsonl.gz")) else None


def changes(
    path: Path,
    known: Mapping[str, SourceFile],
    selection: Selection = ALL,
) -> Iterator[str]:
    """Describe each file that has changed since it was read.

    A file of the same size is read. Its time proves nothing: copies and archives keep or set it.
    """
    if not path.exists():
        yield f"{path} no longer exists"
        return
    corpus = corpus_file(path)
    entries: list[Entry]
    if corpus is not None:
        entries = [(corpus.name, corpus, "")]
    else:
        entries = list(entries_of(path, selection))
    for name, file, problem in entries:
        old = known.get(name)
        if old is None:
            yield f"{name} is new"
        elif _differs(old, file, problem):
            yield f"{name} has changed"
    names = {name for name, _, _ in entries}
    for name in known:
        if name not in names:
            yield f"{name} no longer exists"


def _differs(old: SourceFile, path: Path | None, problem: str) -> bool:
    if path is None or problem:
        return old.skipped != problem
    try:
        if old.sha256 and path.stat().st_size != old.size:  # no hash if it could not be read
            return True
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() != old.sha256
    except OSError:
        return bool(old.sha256)


def _read(path: Path) -> tuple[SourceFile, Document | None]:
    """Read a file; there is no document if it is skipped."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(8192)
            is_binary = b"\0" in data and _encoding_by_mark(data) is None
            if is_binary:  # which may be large
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            else:
                data += file.read()
                digest = hashlib.sha256(data).hexdigest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return SourceFile(0, "", f"cannot be read: {reason}"), None
    document, skipped = (None, "is not text") if is_binary else _parse(path, data)
    return SourceFile(size, digest, skipped), document


def _parse(path: Path, data: bytes) -> tuple[Document | None, str]:
    """The document in a file, or None and why there is none."""
    suffix = path.suffix.lower()
    text = _decode(data, html=suffix in _HTML)
    if text is None:
        return None, "is not text, or not UTF-8 (`iconv -f latin1 -t utf-8` converts Latin-1)"
    document: Document | None
    if suffix in _HTML:
        document = parse_html(text)
    elif suffix in _MARKDOWN:
        document = parse_markdown(text)
    else:
        document = Document("", [Block(part) for part in paragraphs(text)])
    if document is None:
        return None, "is nested too deeply"
    if not document.blocks:
        return None, "has no text"
    return document._replace(title=document.title or path.stem), ""


def _encoding_by_mark(data: bytes) -> str | None:
    """The encoding that a byte order mark at the start of a file states; None without one."""
    for mark, name in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return name
    return None


def _decode(data: bytes, html: bool) -> str | None:
    """The text with line feeds as line ends; None if it cannot be decoded."""
    encoding = _encoding_by_mark(data)
    encodings = [encoding or "utf-8"]
    # A declaration that can be read byte by byte cannot mean UTF-16 or UTF-32.
    declared = re.search(
        rb"<meta[^>]{0,200}charset=[\"' ]?(?!utf-?(?:16|32))([\w-]+)", data[:2048], re.I
    )
    if html and declared and encoding is None:
        encodings.append(declared[1].decode("ascii", "replace"))
    for name in encodings:
        try:
            text = data.decode(name)
        except (UnicodeError, LookupError):
            continue
        if "\0" not in text:
            return text.replace("\r\n", "\n").replace("\r", "\n")
    return None


def _candidates(name: str, document: Document, size: int) -> Iterator[Candidate]:
    for number, (section, text) in enumerate(pack(document.blocks, size), 1):
        title = document.title
        if section and section != title:
            title = f"{title} > {section}"
        metadata = {"title": title, "path": name, "passage": number}
        yield Candidate(text, f"{name}#{number}", metadata=metadata)
