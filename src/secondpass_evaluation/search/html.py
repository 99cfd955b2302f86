"""Read HTML pages as blocks of text. lxml parses them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from secondpass.errors import MissingExtraError
from secondpass_evaluation.search.passages import Block, Document

_LEFT_OUT = ("script", "style", "template", "symbol")
"""Elements that are not shown; ``symbol`` is of icons."""
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
"""Replaces a ``<br>`` until white space is collapsed; parsed text never contains it."""


def parse_html(text: str) -> Document | None:
    """Parse a page, without navigation unless there is nothing else.

    Malformed markup is accepted, except more than 2,000 elements within each other: None.

    Raises:
        MissingExtraError: lxml is not installed.
    """
    try:
        from lxml import etree, html
    except ImportError:
        raise MissingExtraError("evaluation", "reading HTML") from None
    parser = html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    try:
        root = html.document_fromstring(text.encode(errors="replace"), parser)
    except etree.ParserError:  # there is no element
        return Document("", [])
    if any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log):
        return None
    root.extend([*root.itersiblings()])  # what follows behind </html>
    etree.strip_elements(root, *_LEFT_OUT, with_tail=False)
    for link in root.xpath("//a[starts-with(@href, '#')]"):
        if _is_sign(link.text_content()):
            link.drop_tree()
    titles = root.xpath("//title[not(ancestor::svg)]")
    title = next(filter(None, (" ".join(each.text_content().split()) for each in titles)), "")
    for each in titles:
        each.drop_tree()
    blocks = [*_blocks(root, navigation=False)] or [*_blocks(root, navigation=True)]
    headings = (block.heading for block in blocks if block.heading)
    return Document(title or next(headings, ""), blocks)


def _blocks(root: Any, *, navigation: bool) -> Iterator[Block]:
    """The blocks of a page.

    Args:
        root: the element ``html``.
        navigation: whether to keep navigation, which most pages repeat.
    """
    from lxml import etree

    parts: list[str] = []
    preformatted, is_heading = 0, False
    skipped: Any = None  # the open element of navigation that is left out
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag, starts = element.tag, event == "start"
        if element is skipped or (starts and tag in _CONTENT):
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
        if starts and not navigation and _is_navigation(element):
            skipped = element
        elif text := element.text if starts else element.tail:
            parts.append(text if preformatted else text.replace("\n", " "))


def _joined(parts: list[str], preformatted: int) -> str:
    """The text of a block; empty if it has only white space."""
    text = "".join(parts)
    if preformatted:
        return text.strip("\n") if text.strip() else ""
    return "\n".join(" ".join(line.split()) for line in text.split(_LINE_BREAK)).strip()


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
