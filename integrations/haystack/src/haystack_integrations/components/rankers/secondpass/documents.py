"""Documents as candidates, and copies of documents in the order of a ranking."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from haystack import Document

from secondpass import Candidate, Ranking
from secondpass.adapters.scores import falling_scores, provenance
from secondpass.candidates import kind_of
from secondpass.errors import InputError


def checked_documents(documents: object) -> list[Document]:
    """The documents as a list.

    :raises secondpass.InputError:
        If they are no documents. It is a `ValueError` and names the wrong one.
    """
    wrong = isinstance(documents, str | bytes | Mapping | Document)
    if wrong or not isinstance(documents, Iterable):
        raise InputError(f"documents: give a list of Documents, not {kind_of(documents)}")
    checked = list(documents)
    for index, document in enumerate(checked):
        if not isinstance(document, Document):
            told = f"give a Document, not {kind_of(document)}"
            raise InputError(f"documents[{index}]: {told}")
        if document.meta is not None and not isinstance(document.meta, Mapping):
            told = f"give a dictionary, not {kind_of(document.meta)}"
            raise InputError(f"documents[{index}].meta: {told}")
    return checked


def candidates(documents: Sequence[Document]) -> list[Candidate]:
    """The documents as the core takes them.

    Those without a text, such as images, are carried along by the core and not read.
    """
    return [
        Candidate(document.content, document.id, document.score, document.meta)  # type: ignore[arg-type]
        for document in documents
    ]


def ranked(documents: Sequence[Document], ranking: Ranking, prefix: str) -> list[Document]:
    """Copies of the documents in the order of the ranking, with its scores.

    :param documents:
        What was ranked.
    :param ranking:
        The ranking of them.
    :param prefix:
        Stands before the names of the metadata keys that are added.
    """
    copies = []
    for item, score in zip(ranking.items, falling_scores(ranking), strict=True):
        document = documents[item.position]
        meta = document.meta or {}  # a Document takes None as well
        meta = {**meta, **provenance(item, meta, prefix)}
        copies.append(replace(document, score=score, meta=meta))
    return copies
