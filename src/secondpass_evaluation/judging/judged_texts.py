"""Hashes of judged texts, in ``NAME.texts.json`` beside judgements.

The ids of passages, ``path#number``, shift when a section is inserted. A hash tells that another
text now stands under an id than the one that was judged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from secondpass import Candidate
from secondpass.formats.errors import FormatError
from secondpass.formats.lines import AnyPath, write_lines
from secondpass_evaluation.judging.labels import beside
from secondpass_evaluation.reading import Qrels, file_of

Hashes: TypeAlias = Mapping[str, Mapping[str, str]]
"""Query id -> document id -> hash of the text."""


def text_hashes(
    qrels: Qrels,
    corpus: Sequence[Candidate] = (),
    candidates: Mapping[str, Sequence[Candidate]] = {},
) -> dict[str, dict[str, str]]:
    """The hashes of the judged documents in a corpus, else in the candidates of the query."""
    texts = {str(item.id): item.text for item in corpus}
    hashes = {}
    for query, judged in qrels.items():
        listed = {str(item.id): item.text for item in candidates.get(query, ())}
        found = {document: texts.get(document, listed.get(document)) for document in judged}
        hashes[query] = {
            document: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            for document, text in found.items()
            if isinstance(text, str)
        }
    return hashes


def changed_documents(judged: Hashes, *now: Hashes) -> list[str]:
    """The documents that have texts now, none of which is the one that was judged."""
    changed = {}
    for query, texts in judged.items():
        for document, text in texts.items():
            found = {hashes.get(query, {}).get(document) for hashes in now} - {None}
            if found and text not in found:
                changed[document] = True
    return [*changed]


def read_hashes(judgements: AnyPath) -> dict[str, dict[str, str]]:
    """The hashes beside judgements; empty if there are none."""
    path = hashes_path(judgements)
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {
            query: {document: str(text) for document, text in texts.items()}
            for query, texts in record.items()
        }
    except (AttributeError, RecursionError, ValueError) as error:
        message = f"is not a file of hashes of judged texts ({type(error).__name__})"
        raise FormatError(path, None, message) from None


def write_hashes(judgements: AnyPath, hashes: Hashes) -> None:
    """Write the hashes beside judgements, atomically."""
    text = json.dumps(hashes, ensure_ascii=True, indent=1)
    write_lines(hashes_path(judgements), [text + "\n"])


def keep_hashes(judgements: AnyPath, judged: Hashes, now: Hashes) -> None:
    """Add the hashes of passages that have none yet, if the folder can be written.

    Only those of passages (``path#number``): other ids do not shift.
    """
    kept = {query: dict(texts) for query, texts in judged.items()}
    for query, texts in now.items():
        for document, text in texts.items():
            if file_of(document):
                kept.setdefault(query, {}).setdefault(document, text)
    if kept != judged:
        with suppress(OSError):
            write_hashes(judgements, kept)


def hashes_path(judgements: AnyPath) -> Path:
    """The file beside judgements with the hashes of the judged texts."""
    return beside(judgements, ".texts.json")
