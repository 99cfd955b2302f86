"""Read passages from a folder of text, Markdown and HTML files, or from a corpus in JSON lines.

Files that are not text are skipped and reported.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass import Candidate, InputError
from secondpass.formats.files import find_file
from secondpass.formats.lines import AnyPath
from secondpass.ranking.windows import split
from secondpass.settings import describe
from secondpass.types import Progress, no_progress
from secondpass_evaluation.reading import read_corpus
from secondpass_evaluation.search.selection import ALL, Entry, Selection, entries_of, is_index

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


class Block(NamedTuple):
    """A paragraph, or a heading, whose text without markup is in ``heading``."""

    text: str
    heading: str = ""


class Document(NamedTuple):
    """The blocks of a file, and its title; empty if it has none."""

    title: str
    blocks: list[Block]


def paragraphs(text: str) -> list[str]:
    """Split a text at blank lines."""
    return [part.strip("\n") for part in re.split(r"\n(?:[ \t]*\n)+", text) if part.strip()]


def pack(blocks: Iterable[Block], size: int) -> Iterator[tuple[str, str]]:
    """Pack blocks into passages of at most ``size`` characters; a heading begins a new passage."""
    parts: list[str] = []
    length, section, has_body = 0, "", False
    for block in blocks:
        if block.heading and has_body:
            yield section, "\n\n".join(parts)
            parts, length, has_body = [], 0, False
        for start, stop in split(block.text, size, overlap=0):
            piece = block.text[start:stop].rstrip()  # to a sentence's end, a word's, or within one
            if not piece:
                continue
            if parts and length + 2 + len(piece) > size:
                yield section, "\n\n".join(parts)
                parts, length = [], 0
            length += len(piece) + (2 if parts else 0)
            parts.append(piece)
        # The last of consecutive headings is the section.
        section = block.heading or section
        has_body = not block.heading
    if parts:
        yield section, "\n\n".join(parts)


_TITLE = re.compile(r"^title *[:=](.*)$", re.M)
_FRONT_MATTER = {
    "---": re.compile(r"[ \t].*|-( .*)?|#.*|[\w.\"'-]+ *:( .*)?|[\]}].*|"),
    "+++": re.compile(r"[ \t].*|#.*|\[.*|[\w.\"'-]+ *=.*|[\]}].*|"),
}
"""The line around front matter, in YAML or TOML, and what each of its lines looks like. If one
between two rules looks otherwise, all are text."""


def parse_markdown(text: str) -> Document:
    """Split a file at headings and blank lines, except in code. The markup stays in the blocks.

    Front matter (YAML or TOML) is left out, as it describes the file and is not shown. The title is
    that of the front matter, else the first heading.
    """
    lines = text.split("\n")
    front_matter, lines = _without_front_matter(lines)
    match = _TITLE.search("\n".join(front_matter))
    title = match[1].strip().strip("'\"") if match else ""
    blocks = _markdown_blocks(lines)
    headings = (block.heading for block in blocks if block.heading)
    return Document(title or next(headings, ""), blocks)


def _without_front_matter(lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines of the front matter, without those around it, and the other lines."""
    mark = lines[0].rstrip()
    if mark in _FRONT_MATTER:
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() in {mark, "..." if mark == "---" else mark}:
                return lines[1:number], lines[number + 1 :]
            if not _FRONT_MATTER[mark].fullmatch(line):
                break
    return [], lines


def _markdown_blocks(lines: list[str]) -> list[Block]:
    headings: dict[int, tuple[int, str]] = {}  # first line -> line after the last, text
    code: set[int] = set()
    tokens = _parser().parse("\n".join(lines))
    for position, token in enumerate(tokens):
        if token.map is None:
            continue
        start, end = token.map
        if token.type == "heading_open" and token.level == 0:
            headings[start] = end, " ".join(tokens[position + 1].content.split())
        elif token.type in {"fence", "code_block"}:
            code.update(range(start, end))
    blocks: list[Block] = []
    paragraph: list[str] = []

    def end_paragraph() -> None:
        joined = "\n".join(paragraph).strip("\n")
        if joined.strip():
            blocks.append(Block(joined))
        paragraph.clear()

    heading_end = 0
    for number, line in enumerate(lines):
        if number in headings:
            end_paragraph()
            heading_end, heading = headings[number]
            blocks.append(Block("\n".join(lines[number:heading_end]), heading))
        elif number < heading_end:
            continue
        elif line.strip() or number in code:
            paragraph.append(line)
        else:
            end_paragraph()
    end_paragraph()
    return blocks


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Inline markup stays as it is; link definitions are paragraphs.
    return MarkdownIt("commonmark").disable(["inline", "reference"])


_LEFT_OUT = ("script", "style", "template", "symbol")
"""Elements that are not shown; ``symbol`` is of icons."""
_SEPARATED = frozenset({"td", "th", "button", "textarea", "iframe"})
"""Inline elements whose text is separated from that of their neighbours."""
_NOT_SHOWN = frozenset({"noscript", "datalist", "iframe", "canvas", "video", "audio", "title"})
"""Elements whose content browsers do not show; ``title`` is of pictures."""
_DISPLAY_NONE = re.compile(r"(?:^|;)\s*display\s*:\s*none", re.IGNORECASE)
_FORMATTING = re.compile(
    r"</?(?:b|big|code|em|font|i|s|small|span|strike|strong|sub|sup|tt|u)(?:\s[^<>]*)?>",
    re.IGNORECASE,
)
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCKS = _HEADINGS | frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body caption center dd details dialog div dl dt "
        "fieldset figcaption figure footer form head header hr html legend li main menu nav ol "
        "option p pre section summary table tbody tfoot thead title tr ul",
    )
)
_NAVIGATION_ROLES = frozenset({"navigation", "search", "contentinfo"})
_NAVIGATION_CLASSES = frozenset(
    {"sphinxsidebar", "toctree-wrapper", "sidebar-drawer", "toc-drawer"}
)
"""Classes of tables of contents, which Sphinx and its themes repeat on each page."""
_NAVIGATION_ELEMENTS = frozenset({"nav", "div", "aside", "section", "header", "footer", "form",
                                  "ul", "ol"})  # fmt: skip
_CONTENT = frozenset({"main", "article"})
"""Elements that end unclosed navigation."""
_TITLED = _HEADINGS | {"dt", "caption", "figcaption"}
"""Elements that may have a link to themselves."""
_LINK_SIGNS = frozenset("\N{PILCROW SIGN}\N{SECTION SIGN}#\N{LINK SYMBOL}\N{UPWARDS ARROW}")
"""Texts of links from a heading to itself, or to the top."""
_LINE_BREAK = "\0"
"""Replaces a ``<br>`` until white space is collapsed; parsed text never contains it."""


def parse_html(text: str) -> Document | None:
    """Parse a page, without navigation unless there is nothing else.

    Malformed markup is accepted, except more than 2,000 elements within each other that are not
    for formatting only: None.
    """
    from lxml import etree, html

    for part in (text, _FORMATTING.sub("", text)):
        parser = html.HTMLParser(
            encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
        )
        try:
            root = html.document_fromstring(part.encode(errors="replace"), parser)
        except etree.ParserError:  # there is no element
            return Document("", [])
        if all(error.type != etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log):
            break
    else:
        return None
    root.extend([*root.itersiblings()])  # what follows behind </html>
    etree.strip_elements(root, *_LEFT_OUT, with_tail=False)
    for link in root.xpath("//a[starts-with(@href, '#')]"):
        if _is_sign(link.text_content()) and _is_apart(link):
            link.drop_tree()
    titles = root.xpath("//title[not(ancestor::svg)]")
    title = next(filter(None, (" ".join(each.text_content().split()) for each in titles)), "")
    for each in titles:
        each.drop_tree()
    blocks = [*_blocks(root, navigation=False)] or [*_blocks(root, navigation=True)]
    headings = (block.heading for block in blocks if block.heading)
    return Document(title or next(headings, ""), blocks)


def _blocks(root: Any, *, navigation: bool) -> Iterator[Block]:
    """The blocks of a page."""
    from lxml import etree

    parts: list[str] = []
    preformatted, is_heading = 0, False
    skipped: Any = None  # the open element that is left out
    hidden = False  # whether that is not shown, rather than navigation
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag, starts = element.tag, event == "start"
        if element is skipped or (starts and tag in _CONTENT and not hidden):
            skipped = None
        if skipped is not None:
            continue
        if tag in _BLOCKS:
            if text := _joined(parts, preformatted):
                yield Block(text, " ".join(text.split()) if is_heading else "")
                is_heading = False
            parts.clear()
            if tag in _HEADINGS:
                is_heading = starts
            elif tag == "pre":
                preformatted = max(0, preformatted + (1 if starts else -1))
        elif tag == "br" and starts:
            parts.append("\n" if preformatted else _LINE_BREAK)
        elif tag in _SEPARATED:
            parts.append(" ")
        hidden = starts and _is_hidden(element)
        if hidden or (starts and not navigation and _is_navigation(element)):
            skipped = element
        elif text := element.text if starts else element.tail:
            parts.append(text if preformatted else text.replace("\n", " "))


def _joined(parts: list[str], preformatted: int) -> str:
    """The text of a block; empty if it has only white space."""
    text = "".join(parts)
    if preformatted:
        return text.strip("\n") if text.strip() else ""
    return "\n".join(" ".join(line.split()) for line in text.split(_LINE_BREAK)).strip()


def _is_hidden(element: Any) -> bool:
    """Whether browsers do not show an element; pages show their body by scripts."""
    if element.tag in _NOT_SHOWN or (element.tag == "dialog" and element.get("open") is None):
        return True
    if element.tag in {"html", "body"}:
        return False
    return (
        element.get("hidden", "until-found").lower() != "until-found"
        or _DISPLAY_NONE.search(element.get("style", "")) is not None
    )


def _is_apart(link: Any) -> bool:
    """Whether a link is not part of a running text: in a heading, or alone."""
    if "headerlink" in link.get("class", "").split():
        return True
    if any(element.tag in _TITLED for element in link.iterancestors()):
        return True
    before = None if link.getprevious() is not None else link.getparent().text or ""
    return before is not None and not before.strip() and not (link.tail or "").strip()


def _is_navigation(element: Any) -> bool:
    if element.tag not in _NAVIGATION_ELEMENTS:
        return False
    classes = set(element.get("class", "").split())
    return (
        element.tag == "nav"
        or element.get("role", "").lower() in _NAVIGATION_ROLES
        or not classes.isdisjoint(_NAVIGATION_CLASSES)
        or {"contents", "topic"} <= classes
    )


def _is_sign(text: str) -> bool:
    """Whether a text is a sign, perhaps of an icon font, which uses private characters."""
    text = text.strip().removesuffix("\N{VARIATION SELECTOR-16}")
    return len(text) == 1 and (text in _LINK_SIGNS or unicodedata.category(text) == "Co")


PASSAGE_SIZE = 1000
"""Default length of a passage in characters: about 220 tokens of English, which the embedded model
reads in full."""
SMALLEST_PASSAGE = 50

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
        modified: modification time in nanoseconds.
        sha256: hash of the content; empty if it could not be read.
        skipped: why the file is not in the corpus; empty if it is.
    """

    size: int
    modified: int
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
    source = Source(path)
    report = progress or no_progress
    if (corpus := corpus_file(path)) is not None:
        if selection != ALL:
            raise InputError(f"include, exclude: {corpus} is a corpus; they select files")
        report("reading passages", 0, None)  # before the file is hashed
        with open(corpus, "rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        source.files[corpus.name] = SourceFile(status.st_size, status.st_mtime_ns, digest)
        for candidate in read_corpus(corpus):
            source.corpus.append(candidate)
            if len(source.corpus) % 1000 == 0:
                report("reading passages", len(source.corpus), None)
        report("reading passages", len(source.corpus), len(source.corpus))
        return source
    report("reading files", 0, None)  # before the folders are listed
    entries = list(entries_of(path, selection))
    for done, (name, file_path, problem) in enumerate(entries):
        report("reading files", done, len(entries))
        if problem or file_path is None:
            source.files[name] = SourceFile(0, 0, "", problem)
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

    A file of the same size and modification time counts as unchanged; one of the same size and
    another time is hashed.
    """
    if not path.exists():
        yield f"{path} no longer exists"
        return
    corpus = corpus_file(path)
    entries: list[Entry] = [(corpus.name, corpus, "")] if corpus is not None else []
    if corpus is None:
        entries += entries_of(path, selection)
    for name, file, problem in entries:
        old = known.get(name)
        if old is None:
            yield f"{name} is new"
        elif _differs(old, file, problem):
            yield f"{name} has changed"
    names = {name for name, _, _ in entries}
    yield from (f"{name} no longer exists" for name in known if name not in names)


def _differs(old: SourceFile, path: Path | None, problem: str) -> bool:
    if path is None or problem:
        return old.skipped != problem
    try:
        status = path.stat()
        if old.sha256:  # empty if it could not be read
            if status.st_size != old.size:
                return True
            if status.st_mtime_ns == old.modified:
                return False
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() != old.sha256
    except OSError:
        return bool(old.sha256)


def _read(path: Path) -> tuple[SourceFile, Document | None]:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(8192)
            is_binary = b"\0" in data and not any(map(data.startswith, _BYTE_ORDER_MARKS))
            if is_binary:  # which may be large
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            else:
                data += file.read()
                digest = hashlib.sha256(data).hexdigest()
    except OSError as error:
        return SourceFile(
            0, 0, "", f"cannot be read: {error.strerror or type(error).__name__}"
        ), None
    parsed = "is not text" if is_binary else _parse(path, data)
    read = SourceFile(status.st_size, status.st_mtime_ns, digest)
    return (read._replace(skipped=parsed), None) if isinstance(parsed, str) else (read, parsed)


def _parse(path: Path, data: bytes) -> Document | str:
    """The document in a file, or why there is none."""
    suffix = path.suffix.lower()
    text = _decode(data, html=suffix in _HTML)
    if text is None:
        return "is not text, or not UTF-8"
    if suffix in _HTML:
        document = parse_html(text)
    elif suffix in _MARKDOWN:
        document = parse_markdown(text)
    else:
        document = Document("", [Block(part) for part in paragraphs(text)])
    if document is None:
        return "is nested too deeply"
    return (
        document._replace(title=document.title or path.stem) if document.blocks else "has no text"
    )


def _decode(data: bytes, html: bool) -> str | None:
    """The text with line feeds as line ends; None if it cannot be decoded."""
    marks = (name for mark, name in _BYTE_ORDER_MARKS.items() if data.startswith(mark))
    encoding = next(marks, None)
    # A declaration that can be read byte by byte cannot mean UTF-16 or UTF-32.
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
    for number, (section, text) in enumerate(pack(document.blocks, size), 1):
        title = document.title
        if section and section != title:
            title = f"{title} > {section}"
        metadata = {"title": title, "path": name, "passage": number}
        yield Candidate(text, f"{name}#{number}", metadata=metadata)
