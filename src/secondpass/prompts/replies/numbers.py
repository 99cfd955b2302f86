"""The reply formats ``keyed`` and ``pairs``: a number for each document, a score or a rank."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from secondpass.errors import ReplyError
from secondpass.prompts.labels import LabelKind, Labels, folded
from secondpass.prompts.replies.base import (
    ArrayFormat,
    BatchScores,
    Order,
    ReplyFormat,
    object_schema,
)
from secondpass.prompts.replies.permutation import check_unknown
from secondpass.prompts.replies.selection import number_in, numbers_asked, only_answer, score_pairs
from secondpass.questions import Completion
from secondpass.ranking.scoring import in_range

T = TypeVar("T")

_MAX_ENUM = 20  # the widest range of whole numbers that a schema lists


class Numbers(ABC, Generic[T]):
    """What the numbers of a reply mean."""

    word: ClassVar[str]  # the key of a number
    note: ClassVar[str] = ""  # a sentence for the end of the request

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of one number."""

    @abstractmethod
    def read(self, completion: Completion, labels: Labels) -> T:
        """Read the numbers of a reply."""


@dataclass(frozen=True)
class Scores(Numbers[BatchScores]):
    """Scores from ``low`` to ``high``, the higher the better."""

    word = "score"
    low: float
    high: float
    whole: bool = field(default=False, kw_only=True)

    def schema(self) -> dict[str, Any]:
        if not self.whole:
            return {"type": "number"}
        if self.high - self.low > _MAX_ENUM:
            return {"type": "integer"}
        # Some providers reject "minimum" and "maximum". The reader checks the range in any case.
        allowed = range(math.ceil(self.low), math.floor(self.high) + 1)
        return {"type": "integer", "enum": list(allowed)}

    def read(self, completion: Completion, labels: Labels) -> BatchScores:
        return read_scores(completion, labels, self.low, self.high, whole=self.whole)


@dataclass(frozen=True)
class Ranks(Numbers[Order]):
    """Ranks from 1, which is the best."""

    word = "rank"
    note = " Rank 1 is the best."

    def schema(self) -> dict[str, Any]:
        return {"type": "integer"}

    def read(self, completion: Completion, labels: Labels) -> Order:
        # Some models count from 0; the order is the same.
        ranks = read_scores(completion, labels, 0, len(labels), word=self.word, whole=True)
        known = {place: rank for place, rank in enumerate(ranks.values) if rank is not None}
        if len(known) > 1 and len(set(known.values())) == 1:
            raise ReplyError("it gives all documents the same rank")
        places = sorted(known, key=known.__getitem__)  # ties keep the order that was shown
        return Order(tuple(places), 0, ranks.unknown, ranks.cut, ranks.refused)


class NumberFormat(ReplyFormat[T]):
    """A reply with a number for each document."""

    def __init__(
        self, numbers: Numbers[T], labels: LabelKind = "opaque", bare: bool = False
    ) -> None:
        super().__init__(labels, bare)
        self.numbers = numbers

    def read(self, completion: Completion, labels: Labels) -> T:
        return self.numbers.read(completion, labels)


class Keyed(NumberFormat[T]):
    """``{"<id>": <score>, ...}``."""

    name = "keyed"
    shape = "an object"
    tokens_per_document = 8

    def request(self) -> str:
        word = self.numbers.word
        shape = f'{{"<{self.key}>": <{word}>, ...}}'
        return self._request_each(
            f"one JSON object that maps each {self.key} to its {word}, {shape}", self.numbers.note
        )

    def schema(self, names: Sequence[str]) -> dict[str, Any] | None:
        return object_schema(dict.fromkeys(names, self.numbers.schema()))


class Pairs(NumberFormat[T], ArrayFormat[T]):
    """``{"grades": [{"id": "<id>", "score": <score>}, ...]}``, or the array itself."""

    name = "pairs"
    member = "grades"
    tokens_per_document = 16

    def request(self) -> str:
        word = self.numbers.word
        element = f'{{"{self.key}": {self.placeholder}, "{word}": <{word}>}}'
        return self._request_each(self._request_array(element), self.numbers.note)

    def _element_schema(self, label: dict[str, Any]) -> dict[str, Any]:
        return object_schema({self.key: label, self.numbers.word: self.numbers.schema()})


def read_scores(
    completion: Completion,
    labels: Labels,
    low: float,
    high: float,
    *,
    word: str = "score",
    whole: bool = False,
) -> BatchScores:
    """Read the number, from ``low`` to ``high``, of each document.

    Raises:
        ReplyError: the reply holds no numbers, or more than one set of them; a number is outside
            the range (``score_out_of_range``); it counts indices from another number, or has more
            unknown labels than were shown.
    """

    def parse(value: Any, _in_prose: bool) -> BatchScores | None:
        pairs = score_pairs(value, labels, word)
        labels.check_base([label for label, _ in pairs])
        scores: list[float | None] = [None] * len(labels)
        refused: set[int] = set()
        unknown: set[str] = set()
        others = 0
        for label, value_of_label in pairs:
            number, usable = number_in(value_of_label, word)
            place = labels.place(label)
            if place is None:
                others += 1
                if number is not None:
                    unknown.add(folded(str(label)))
            elif number is None:
                refused.add(place)
            elif (score := in_range(number, (low, high))) is None:
                message = f"it has a {word} outside the range from {low:g} to {high:g}"
                raise ReplyError(message, "score_out_of_range")
            elif not usable:
                raise ReplyError(f"it has a {word} with a unit or a scale of its own")
            elif (whole and number != int(number)) or scores[place] not in {None, score}:
                refused.add(place)
            else:
                scores[place] = float(score)
        if not refused and all(score is None for score in scores):
            return None
        for place in refused:
            scores[place] = None
        check_unknown(len(unknown), labels)
        return BatchScores(tuple(scores), tuple(sorted(refused)), others)

    result = only_answer(completion, parse, numbers_asked(labels, word))
    if all(score is None for score in result.values):
        raise ReplyError(f"none of its numbers is one from {low:g} to {high:g}")
    return replace(result, cut=completion.cut)
