"""Puts untrusted text into prompts between tags, and escapes it.

Passages, queries and contexts are put between tags. Every ``<`` in them is escaped, so that none
can close its tag, open another, or spell a special token such as ``<|im_start|>`` that a server's
chat template would interpret. Bracketed tokens (``[INST]``) are broken up. Characters that are
invisible to people but not to models are removed, such as tag characters, which spell hidden ASCII.
"""

from __future__ import annotations

import re

# Unicode tags and variation selectors, either of which can spell hidden text; zero-width space,
# word joiner, invisible operators and byte order mark; marks, overrides and isolates of direction.
# Zero-width (non-)joiners stay: several scripts need them.
_INVISIBLE = re.compile(
    "[\U000e0000-\U000e01ef\ufe00-\ufe0f\u200b\u2060-\u206f\ufeff"
    "\u200e\u200f\u061c\u202a-\u202e\u00ad\u180b-\u180f\ufff9-\ufffb]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_ANGLE = re.compile("[<\uff1c\ufe64]")
# Repetitions are bounded, for passages that are one long bracket. Special tokens are short.
_BRACKETED = re.compile(
    r"[\[\uff3b](?=\s{0,3}/?\s{0,3}[A-Za-z_]{0,20}[A-Z]{2}[A-Za-z_]{0,20}\s{0,3}[\]\uff3d])"
)


def as_text(text: str) -> str:
    """Escape what could end, open or imitate a part of the prompt."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # The shortcuts matter: strategies show each text several times, and most need no escape.
    text = _CONTROL.sub(" ", text if text.isascii() else _INVISIBLE.sub("", text))
    if not text.isascii() or "<" in text:
        text = _ANGLE.sub("&lt;", text)
    return _BRACKETED.sub("[ ", text) if not text.isascii() or "[" in text else text


def as_attribute(text: str) -> str:
    """Escape a text for an attribute: also ``>``, quotation marks and line breaks."""
    if text.isascii() and text.isalnum():  # as most labels are
        return text
    return re.sub(r"\s+", " ", as_text(text)).strip().replace('"', "&quot;").replace(">", "&gt;")


def fenced(tag: str, text: str, label: str | None = None) -> str:
    """Put a text between tags; ``label`` becomes the attribute ``id``."""
    return between_tags(tag, as_text(text), label)


def between_tags(tag: str, escaped: str, label: str | None = None) -> str:
    """:func:`fenced` for a text that :func:`as_text` has escaped."""
    opening = tag if label is None else f'{tag} id="{as_attribute(label)}"'
    return f"<{opening}>{escaped}</{tag}>"
