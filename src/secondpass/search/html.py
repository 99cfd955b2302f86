"""Read HTML pages as blocks of text."""

from __future__ import annotations

import re
import unicodedata
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
_NAVIGATION_ROLES = frozenset({"navigation", "search", "contentinfo"})
_NAVIGATION_CLASSES = frozenset(
    {"sphinxsidebar", "toctree-wrapper", "sidebar-drawer", "toc-drawer"}
)
"""Classes of tables of contents, which Sphinx and its themes repeat on each page."""
_NAVIGATION_ELEMENTS = frozenset({"nav", "div", "aside", "section", "header", "footer", "form",
                                  "ul", "ol"})  # fmt: skip
_CONTENT = frozenset({"main", "article"})
"""Elements that end unclosed navigation."""
_LINK_SIGNS = frozenset("\N{PILCROW SIGN}\N{SECTION SIGN}#\N{LINK SYMBOL}\N{UPWARDS ARROW}")
"""Texts of links from a heading to itself, or to the top."""
_LINE_BREAK = "\0"
"""Replaces a ``<br>`` until white space is collapsed; decoded text never contains it."""


class _PageParser(HTMLParser):
    """Collects the blocks of a page, without scripts and styles.

    Args:
        navigation: whether to keep navigation, which most pages repeat.
    """

    def __init__(self, *, navigation: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._keeps_navigation = navigation
        self._navigation = ""  # the open element of navigation that is left out
        self._depth = 0  # open elements of the same name in it, including itself
        self._link: int | None = None  # where the text of the open link within the page begins
        self.blocks: list[Block] = []
        self.title = ""
        self._text: list[str] = []
        self._left_out = ""  # the open element whose text is left out
        self._in_svg = False
        self._open = ""  # the open heading or title
        self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._navigation:
            self._depth += tag == self._navigation
            if tag not in _CONTENT:
                return
            self._navigation = ""
        if not self._keeps_navigation and _is_navigation(tag, attrs):
            self.end_block()
            self._navigation, self._depth = tag, 1
        elif tag in _LEFT_OUT:
            self._left_out = self._left_out or tag
        elif tag == "svg":
            self._in_svg = True
        elif tag in _BLOCKS:
            self.end_block()
            if tag in _HEADINGS or (tag == "title" and not self._in_svg):
                self._open = tag
            self._preformatted += tag == "pre"
        elif tag == "a":
            self._link = len(self._text) if _is_within_page(attrs) else None
        elif tag == "br":
            self._text.append("\n" if self._preformatted else _LINE_BREAK)
        elif tag in _SEPARATED:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if self._navigation:
            self._depth -= tag == self._navigation
            if not self._depth:
                self._navigation = ""
        elif tag == "a":
            self._end_link()
        elif tag == self._left_out:
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
        if not self._left_out and not self._navigation:
            self._text.append(data if self._preformatted else data.replace("\n", " "))

    def _end_link(self) -> None:
        """Remove the text of a link that is only a sign."""
        if self._link is not None and _is_sign("".join(self._text[self._link :])):
            del self._text[self._link :]
        self._link = None

    def end_block(self) -> None:
        self._link = None
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


def _is_navigation(tag: str, attrs: list[tuple[str, str | None]]) -> bool:
    if tag not in _NAVIGATION_ELEMENTS:
        return False
    values = dict(attrs)
    classes = set((values.get("class") or "").split())
    return (
        tag == "nav"
        or (values.get("role") or "").lower() in _NAVIGATION_ROLES
        or not classes.isdisjoint(_NAVIGATION_CLASSES)
        or {"contents", "topic"} <= classes
    )


def _is_within_page(attrs: list[tuple[str, str | None]]) -> bool:
    values = dict(attrs)
    return (values.get("href") or "").startswith("#")


def _is_sign(text: str) -> bool:
    """Whether a text is a sign, perhaps of an icon font, which uses private characters."""
    text = text.strip().removesuffix("\N{VARIATION SELECTOR-16}")
    return len(text) == 1 and (text in _LINK_SIGNS or unicodedata.category(text) == "Co")


_INVISIBLE = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b(?:[^<>]*/>|.*?(?:</\1\s*>|\Z))", re.DOTALL | re.IGNORECASE
)
_UNCLOSED_TAG = re.compile(r"<(?=[^<>]*(?:<|\Z))")


def parse_html(text: str) -> Document:
    """Parse a page, without navigation unless there is nothing else.

    Malformed markup is accepted.
    """
    # Python's parser takes quadratic time for comments and tags that never end.
    text = _UNCLOSED_TAG.sub("&lt;", _INVISIBLE.sub("", text))
    for navigation in (False, True):
        parser = _PageParser(navigation=navigation)
        parser.feed(text)
        parser.close()
        parser.end_block()
        if parser.blocks:
            break
    headings = (block.heading for block in parser.blocks if block.heading)
    return Document(parser.title or next(headings, ""), parser.blocks)
