"""Read HTML pages as blocks of text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from secondpass.search.passages import Block, Document

_LEFT_OUT = frozenset({"script", "style", "template"})
_SEPARATED = frozenset({"td", "th", "button", "textarea", "iframe"})
"""Inline elements whose text is separated from that of their neighbours."""
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCKS = _HEADINGS | frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body caption center dd details dialog div dl dt "
        "fieldset figcaption figure footer form head header hr html legend li main menu nav ol "
        "option p pre section summary table tbody tfoot thead title tr ul",
    )
)
_LINE_BREAK = "\0"
"""Stands for a ``<br>`` until white space is collapsed; no decoded text holds it."""


class _PageParser(HTMLParser):
    """Collects the blocks of a page, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self.title = ""
        self._text: list[str] = []
        self._left_out = ""  # the open element whose text is left out
        self._in_svg = False
        self._open = ""  # the open heading or title
        self._preformatted = 0

    def handle_starttag(
        self,
        tag: str,
        attrs: list[tuple[str, str | None]],  # noqa: ARG002
    ) -> None:
        if tag in _LEFT_OUT:
            self._left_out = self._left_out or tag
        elif tag == "svg":
            self._in_svg = True
        elif tag in _BLOCKS:
            self.end_block()
            if tag in _HEADINGS or (tag == "title" and not self._in_svg):
                self._open = tag
            self._preformatted += tag == "pre"
        elif tag == "br":
            self._text.append("\n" if self._preformatted else _LINE_BREAK)
        elif tag in _SEPARATED:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._left_out:
            self._left_out = ""
        elif tag == "svg":
            self._in_svg = False
        elif tag in _SEPARATED:
            self._text.append(" ")
        elif tag in _BLOCKS:
            self.end_block()
            if tag == self._open:
                self._open = ""
            self._preformatted = max(0, self._preformatted - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self._text.append(data if self._preformatted else data.replace("\n", " "))

    def end_block(self) -> None:
        text = "".join(self._text)
        if self._preformatted:
            text = text.strip("\n")
        else:
            lines = text.split(_LINE_BREAK)
            text = "\n".join(" ".join(line.split()) for line in lines).strip()
        self._text.clear()
        if not text.strip():
            return
        element, self._open = self._open, ""
        if element == "title":
            self.title = self.title or " ".join(text.split())
        else:
            self.blocks.append(Block(text, " ".join(text.split()) if element else ""))


_INVISIBLE = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b(?:[^<>]*/>|.*?(?:</\1\s*>|\Z))", re.DOTALL | re.IGNORECASE
)
_UNCLOSED_TAG = re.compile(r"<(?=[^<>]*(?:<|\Z))")


def parse_html(text: str) -> Document:
    """Parse a page; malformed markup is accepted."""
    parser = _PageParser()
    # Python's parser takes quadratic time for comments and tags that never end.
    parser.feed(_UNCLOSED_TAG.sub("&lt;", _INVISIBLE.sub("", text)))
    parser.close()
    parser.end_block()
    headings = (block.heading for block in parser.blocks if block.heading)
    return Document(parser.title or next(headings, ""), parser.blocks)
