"""Converts documents to candidates, and rankings to documents."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from haystack import Document

from secondpass import Candidate, Ranking
from secondpass.adapters.options import checked_list
from secondpass.adapters.scores import results
from secondpass.candidates import kind_of
from secondpass.errors import InputError


def checked_documents(documents: object) -> list[Document]:
    """The documents as a list.

    :raises secondpass.InputError:
        If one is not a Document; the message has its index. It is a `ValueError`.
    """
    checked = checked_list(documents, Document, "documents", "Documents")
    for index, document in enumerate(checked):
        if document.meta is not None and not isinstance(document.meta, Mapping):
            message = f"give a dictionary, not {kind_of(document.meta)}"
            raise InputError(f"documents[{index}].meta: {message}")
    return checked


def candidates(documents: Sequence[Document]) -> list[Candidate]:
    """The documents as candidates.

    Those without a text, such as images, are kept by the core and not scored.
    """
    return [
        Candidate(document.content, document.id, document.score, document.meta)  # type: ignore[arg-type]
        for document in documents
    ]


def ranked(documents: Sequence[Document], ranking: Ranking, prefix: str) -> list[Document]:
    """Copies of the documents in the order of the ranking, with its scores.

    :param documents:
        The documents that were ranked.
    :param ranking:
        Their ranking.
    :param prefix:
        The prefix of the metadata keys that are added.
    """
    return [
        replace(document, score=score, meta={**(document.meta or {}), **added})
        for document, score, added in results(documents, ranking, attrgetter("meta"), prefix)
    ]
