"""Splits an HTML page into blocks, without what browsers do not show, and without navigation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from secondpass_evaluation.search.passages import Block, Document

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
    from lxml import etree

    try:
        root = _parsed(text)
        if root is None:
            root = _parsed(_FORMATTING.sub("", text))
    except etree.ParserError:  # there is no element
        return Document("", [])
    if root is None:
        return None
    root.extend([*root.itersiblings()])  # what follows behind </html>
    etree.strip_elements(root, *_LEFT_OUT, with_tail=False)
    for link in root.xpath("//a[starts-with(@href, '#')]"):
        if _is_sign(link.text_content()) and _is_apart(link):
            link.drop_tree()
    title = _removed_title(root)
    blocks = [*_blocks(root, navigation=False)] or [*_blocks(root, navigation=True)]
    headings = (block.heading for block in blocks if block.heading)
    return Document(title or next(headings, ""), blocks)


def _parsed(text: str) -> Any | None:
    """The element of a page; None if elements are nested too deeply for the parser.

    Raises:
        lxml.etree.ParserError: there is no element.
    """
    from lxml import etree, html

    parser = html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    root = html.document_fromstring(text.encode(errors="replace"), parser)
    too_deep = any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log)
    return None if too_deep else root


def _removed_title(root: Any) -> str:
    """The first title of a page that is not empty; all are removed, except titles of pictures."""
    title = ""
    for element in root.xpath("//title[not(ancestor::svg)]"):
        title = title or " ".join(element.text_content().split())
        element.drop_tree()
    return title


def _blocks(root: Any, *, navigation: bool) -> Iterator[Block]:
    """The blocks of a page, with navigation or without."""
    parts: list[str] = []  # of the text since the last block
    is_heading = False
    preformatted = 0  # how many <pre> are open
    for element, starts, is_left_out in _events(root, navigation=navigation):
        tag = element.tag
        if tag in _BLOCKS:
            if text := _joined(parts, preformatted):
                yield Block(text, " ".join(text.split()) if is_heading else "")
                is_heading = False
            parts.clear()
            if tag in _HEADINGS:
                is_heading = starts
            elif tag == "pre":
                preformatted = preformatted + 1 if starts else max(0, preformatted - 1)
        elif tag == "br" and starts:
            parts.append("\n" if preformatted else _LINE_BREAK)
        elif tag in _SEPARATED:
            parts.append(" ")
        text = element.text if starts else element.tail
        if text and not is_left_out:
            parts.append(text if preformatted else text.replace("\n", " "))


def _events(root: Any, *, navigation: bool) -> Iterator[tuple[Any, bool, bool]]:
    """Each start and each end of an element, but of what is within those that are left out.

    That is what browsers do not show, and navigation unless ``navigation`` is true. Content ends
    navigation that was not closed.

    Returns:
        The element, whether it starts, and whether what is within is left out.
    """
    from lxml import etree

    left_out: Any = None  # the open element that is left out
    is_hidden = False  # whether it is not shown, rather than navigation
    for event, element in etree.iterwalk(root, events=("start", "end")):
        starts = event == "start"
        is_content = starts and element.tag in _CONTENT
        if element is left_out or (is_content and not is_hidden):
            left_out = None
        if left_out is not None:
            continue
        is_hidden = starts and _is_hidden(element)
        if is_hidden or (starts and not navigation and _is_navigation(element)):
            left_out = element
        yield element, starts, left_out is not None


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
    if link.getprevious() is not None:
        return False
    before, after = link.getparent().text or "", link.tail or ""
    return not before.strip() and not after.strip()


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
