"""The reply format ``permutation``: an array of labels, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels, plain
from secondpass.prompts.replies.base import ArrayFormat
from secondpass.prompts.replies.selection import falling, only_answer, order_rows
from secondpass.prompts.replies.values import Order


class Permutation(ArrayFormat[Order]):
    """``{"ranking": ["<id>", "<id>", ...]}``, or the array itself."""

    name = "permutation"
    member = "ranking"
    tokens_per_document = 5

    def request(self) -> str:
        elements = f"{self.placeholder}, {self.placeholder}"
        return self._request_each(self._request_array(elements, ", best first"))

    def read(self, completion: Completion, labels: Labels) -> Order:
        return read_order(completion, labels)


def read_order(completion: Completion, labels: Labels) -> Order:
    """Read an order in JSON.

    Raises:
        ReplyError: the reply holds no order, or more than one; its rows have numbers that do not
            fall along the list; it counts indices from another number, or has more unknown labels
            than were shown.
    """

    def parse(value: Any, in_prose: bool) -> Order | None:
        rows = order_rows(value, labels)
        order = order_of([row.label for row in rows], labels)
        if order is None:
            return None
        unknown = {
            plain(str(row.label))
            for row in rows
            if type(row.label) in {str, int, float} and labels.place(row.label) is None
        }
        # A few labels in brackets within a sentence ("see [3]", "from [0, 1]") are no order.
        count = len(order.places)
        if in_prose and count < len(labels) and count < max(3, len(labels) / 2):
            return None
        if any(row.members for row in rows) and (order.doubled or not falling(rows)):
            raise ReplyError("its rows have numbers that do not fall along the list")
        labels.check_base([row.label for row in rows])
        check_unknown(len(unknown), labels)
        return order

    order, cut = only_answer(completion, parse, "ranking", labels, None)
    return replace(order, cut=cut)


def order_of(names: Sequence[Any], labels: Labels) -> Order | None:
    """The order of these labels, as a reply has them; None if none of them was shown."""
    places: dict[int, None] = {}
    doubled = unknown = 0
    for name in names:
        place = labels.place(name)
        if place is None:
            unknown += 1
        elif place in places:
            doubled += 1
        else:
            places[place] = None
    return Order(tuple(places), doubled, unknown) if places else None


def check_unknown(unknown: int, labels: Labels) -> None:
    """Reject a reply that guesses labels.

    Raises:
        ReplyError: more labels are unknown than were shown.
    """
    if unknown > len(labels):
        raise ReplyError("it has more labels that were not shown than were shown")
