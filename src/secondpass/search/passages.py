"""Text of Markdown and HTML documents, cut into passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import NamedTuple


class Block(NamedTuple):
    """A paragraph, or a heading: then ``heading`` is its text without marks."""

    text: str
    heading: str = ""


class Document(NamedTuple):
    """What a file holds; without a title that is empty."""

    title: str
    blocks: list[Block]


def paragraphs(text: str) -> list[str]:
    """The parts of a text between blank lines."""
    return [part.strip("\n") for part in re.split(r"\n(?:[ \t]*\n)+", text) if part.strip()]


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}#{1,6}[ \t](.*)")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")


def from_markdown(text: str) -> Document:
    """Paragraphs and headings as they are written; the title is that of the front matter."""
    blocks: list[Block] = []
    title, lines = "", text.split("\n")
    if lines[0].rstrip() == "---" and "---" in map(str.rstrip, lines[1:]):
        end = [line.rstrip() for line in lines].index("---", 1)
        front = "\n".join(lines[1:end])
        if named := re.search(r"^title:(.*)$", front, re.M):
            title = named[1].strip().strip("'\"")
        if front.strip():
            blocks.append(Block(front))
        lines = lines[end + 1 :]
    paragraph: list[str] = []
    fence = ""

    def end_paragraph(heading: str = "") -> None:
        joined = "\n".join(paragraph).strip("\n")
        if joined.strip():
            blocks.append(Block(joined, heading))
        paragraph.clear()

    for line in lines:
        if fence:
            paragraph.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif opened := _FENCE.match(line):
            fence = opened[1]
            paragraph.append(line)
        elif atx := _ATX.fullmatch(line):
            end_paragraph()
            paragraph.append(line)
            closed = atx[1].rstrip().rstrip("#")  # "# Title #", but not "# C#"
            end_paragraph((atx[1] if closed and not closed[-1].isspace() else closed).strip())
        elif paragraph and len(paragraph) == 1 and _SETEXT.fullmatch(line):
            heading = paragraph[0].strip()
            paragraph.append(line)
            end_paragraph(heading)
        elif not line.strip():
            end_paragraph()
        else:
            paragraph.append(line)
    end_paragraph()
    headings = (block.heading for block in blocks if block.heading)
    return Document(title or next(headings, ""), blocks)


_LEFT_OUT = frozenset({"script", "style", "template"})
_APART = frozenset({"td", "th", "button", "textarea", "iframe"})
"""No blocks, but their text does not run into that of their neighbours."""
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCKS = _HEADINGS | frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body caption center dd details dialog div dl dt "
        "fieldset figcaption figure footer form head header hr html legend li main menu nav ol "
        "option p pre section summary table tbody tfoot thead title tr ul",
    )
)


class _Page(HTMLParser):
    """Blocks of text of an HTML page, scripts and styles left out."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self.title = ""
        self._text: list[str] = []
        self._left_out = ""  # the element that is
        self._in_drawing = False
        self._within = ""  # the heading, or the title
        self._kept_spaces = 0

    def handle_starttag(
        self,
        tag: str,
        attrs: list[tuple[str, str | None]],  # noqa: ARG002
    ) -> None:
        if tag in _LEFT_OUT:
            self._left_out = self._left_out or tag
        elif tag == "svg":
            self._in_drawing = True
        elif tag in _BLOCKS:
            self.end_block()
            if tag in _HEADINGS or (tag == "title" and not self._in_drawing):
                self._within = tag
            self._kept_spaces += tag == "pre"
        elif tag == "br":
            self._text.append("\n" if self._kept_spaces else "\0")
        elif tag in _APART:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._left_out:
            self._left_out = ""
        elif tag == "svg":
            self._in_drawing = False
        elif tag in _APART:
            self._text.append(" ")
        elif tag in _BLOCKS:
            self.end_block()
            if tag == self._within:
                self._within = ""
            self._kept_spaces = max(0, self._kept_spaces - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self._text.append(data if self._kept_spaces else data.replace("\n", " "))

    def end_block(self) -> None:
        text = "".join(self._text)
        if self._kept_spaces:
            text = text.strip("\n")
        else:
            text = "\n".join(" ".join(line.split()) for line in text.split("\0")).strip()
        self._text.clear()
        if not text.strip():
            return
        within, self._within = self._within, ""
        if within == "title":
            self.title = self.title or " ".join(text.split())
        else:
            self.blocks.append(Block(text, " ".join(text.split()) if within else ""))


_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b(?:[^<>]*/>|.*?(?:</\1\s*>|\Z))", re.DOTALL | re.IGNORECASE
)
_UNENDED = re.compile(r"<(?=[^<>]*(?:<|\Z))")


def from_html(text: str) -> Document:
    """What a page says, without its marks; any text will do, however malformed."""
    page = _Page()
    # Python's parser takes time by the square of comments and tags that never end.
    page.feed(_UNENDED.sub("&lt;", _UNSEEN.sub("", text)))
    page.close()
    page.end_block()
    headings = (block.heading for block in page.blocks if block.heading)
    return Document(page.title or next(headings, ""), page.blocks)


# ---------------------------------------------------------------------- passages


def packed(blocks: Iterable[Block], size: int) -> Iterator[tuple[str, str]]:
    """Section and text of passages: as many blocks as fit, and a heading begins a new one."""
    held: list[str] = []
    length, section, body = 0, "", False
    for block in blocks:
        if block.heading and body:
            yield section, "\n\n".join(held)
            held, length, body = [], 0, False
        for piece in _pieces(block.text, size):
            if held and length + 2 + len(piece) > size:
                yield section, "\n\n".join(held)
                held, length = [], 0
            length += len(piece) + (2 if held else 0)
            held.append(piece)
        # Of headings that follow each other the last says what comes below.
        section = block.heading or section
        body = not block.heading
    if held:
        yield section, "\n\n".join(held)


# The last three end sentences in Chinese and Japanese, where no space follows.
_SENTENCE_END = re.compile(r"[.!?][\"')\]\u2019\u201d]*\s|\n|[\u3002\uff01\uff1f]")
_SPACE = re.compile(r"\s")
_SEEN = re.compile(r"\S")


def _pieces(text: str, size: int) -> Iterator[str]:
    """A paragraph that is too long, cut at the ends of sentences, else of words."""
    start = 0
    while start < len(text):
        end = start + size
        for where in (_SENTENCE_END, _SPACE) if end < len(text) else ():
            ends = [match.end() for match in where.finditer(text, start, end)]
            if ends and ends[-1] - start > size // 2:
                end = ends[-1]
                break
        if piece := text[start:end].rstrip():
            yield piece
        # Copies of all that is left would take time by the square of its length.
        begin = _SEEN.search(text, end)
        start = begin.start() if begin else len(text)
