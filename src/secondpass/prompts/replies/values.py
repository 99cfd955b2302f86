"""What is read from a reply: scores of a batch, or the order of a window."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchScores:
    """The scores that a reply gives the documents of its question.

    Attributes:
        values: one for each document: a finite float, or None where there is no usable score.
        refused: places of documents whose score is in the reply but cannot be used.
        unknown: number of scores for documents that were not shown.
        cut: whether the reply broke off.
        declined: places of documents that the model declined to score.
    """

    values: tuple[float | None, ...]
    refused: tuple[int, ...]
    unknown: int = 0
    cut: bool = False
    declined: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which a reply puts the documents of its question.

    Attributes:
        places: places of documents, best first, each at most once.
        doubled: number of repeated labels; the first occurrence counts.
        unknown: number of labels that were not shown.
        cut: whether the reply broke off.
        refused: places of documents whose rank is in the reply but cannot be used.
    """

    places: tuple[int, ...]
    doubled: int
    unknown: int
    cut: bool = False
    refused: tuple[int, ...] = ()
