"""Read HTML pages as blocks of text. lxml parses them."""

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
    """The blocks of a page.

    Args:
        root: the element ``html``.
        navigation: whether to keep navigation, which most pages repeat.
    """
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
