"""Orders of labels: an array (``permutation``), or arrows (``ranked``): ``[2] > [1] > [3]``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels, folded
from secondpass.prompts.replies.base import ArrayFormat, Order, ReplyFormat
from secondpass.prompts.replies.selection import (
    check_cut,
    falling,
    only_answer,
    order_asked,
    order_rows,
)
from secondpass.prompts.replies.thinking import ReplyParts, split_reply
from secondpass.questions import Completion


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
            folded(str(row.label))
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

    order = only_answer(completion, parse, order_asked(labels))
    return replace(order, cut=completion.cut)


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
    """Raise ReplyError if a reply guesses labels: more are unknown than were shown."""
    if unknown > len(labels):
        raise ReplyError("it has more labels that were not shown than were shown")


Chain: TypeAlias = list[re.Match[str]]
"""Labels in brackets with arrows between them."""

_ITEM = re.compile(r"\[([^\[\]\n]{1,300})\]")
_ARROW = re.compile(r"\s*>\s*")
_FRAME = " \t\r\n`*"
# Between a chain and a label next to it, which is then not in a sentence.
_BESIDE = re.compile(r"[\s,;=<>\[\]]*")
_COMPARING = frozenset("<>=≥≤≻≺~→")
_CUT_ITEM = re.compile(r"\s*>\s*(?:\[[^\[\]<>\n]{0,200})?")
_AROUND = 9  # characters before and after a chain that are searched for a comparison


class Ranked(ReplyFormat[Order]):
    """``[<id>] > ... > [<id>]``."""

    name = "ranked"
    shape = "a line of text"
    tokens_per_document = 6

    def request(self) -> str:
        label = f"<{self.key}>"
        return self._request_each(f"one line of this form, best first: [{label}] > ... > [{label}]")

    def read(self, completion: Completion, labels: Labels) -> Order:
        return read_ranked(completion, labels)


def read_ranked(completion: Completion, labels: Labels) -> Order:
    """Read the order of one chain of labels in brackets.

    A reply without a chain is read as JSON. A reply of only labels and ``>`` needs no brackets.

    Raises:
        ReplyError: the reply holds no chain, several, one that is interrupted, or labels in
            brackets that are not in its chain; it counts indices from another number, or has more
            unknown labels than were shown.
    """
    parts = split_reply(completion.text)
    order = _read_chain(parts, labels, cut=completion.cut)
    parts.check_doubtful(order, lambda text: _read_chain(ReplyParts(text), labels))
    return read_order(completion, labels) if order is None else replace(order, cut=completion.cut)


def _read_chain(parts: ReplyParts, labels: Labels, *, cut: bool = False) -> Order | None:
    """The order of the only chain in a reply; None if there is none."""
    text = parts.answer
    chains = _chains(text, labels)
    orders = [chain for chain in chains if len(chain) > 1 and _has_label(chain, labels)]
    if not orders:
        return _read_without_chain(text, chains, labels, cut=cut)
    if len({tuple(map(folded, _names(chain))) for chain in orders}) > 1:
        raise ReplyError("it holds more than one order")
    order = _order(_names(orders[0]), labels)
    if order is None:
        raise ReplyError("it holds no order of the form that was asked for")
    allowed = {None, *order.places}
    for chain in chains:
        if any(labels.place(name) not in allowed for name in _names(chain)):
            raise ReplyError("it has documents in brackets that are not in its order")
    goes_on = cut and _CUT_ITEM.fullmatch(text, orders[-1][-1].end()) is not None
    _check_whole(text, chains, orders, goes_on=goes_on)
    if cut and not goes_on:
        places = [(chain[0].start(), chain[-1].end()) for chain in orders]
        is_open = text.rfind("[") > text.rfind("]")
        check_cut(parts, places, is_open=is_open)
    return order


def _names(chain: Chain) -> list[str]:
    return [item[1] for item in chain]


def _has_label(chain: Chain, labels: Labels) -> bool:
    return any(labels.place(name) is not None for name in _names(chain))


def _check_whole(
    text: str, chains: Sequence[Chain], orders: Sequence[Chain], *, goes_on: bool
) -> None:
    """Raise ReplyError if an order may go on beside it: by a label, or a sign that compares.

    ``goes_on`` says that the last one does, where the reply broke off.
    """
    starts = {chain[0].start() for chain in orders}
    for chain, following in itertools.pairwise(chains):
        gap = text[chain[-1].end() : following[0].start()]
        is_order = chain[0].start() in starts
        is_followed_by_order = following[0].start() in starts
        if is_order != is_followed_by_order and _BESIDE.fullmatch(gap):
            raise ReplyError("its order is interrupted")
    for chain in orders[:-1] if goes_on else orders:
        start, end = chain[0].start(), chain[-1].end()
        before = text[max(0, start - _AROUND) : start].rstrip()
        after = text[end : end + _AROUND].lstrip()
        if before[-1:] in _COMPARING or after[:1] in _COMPARING:
            raise ReplyError("its order is interrupted")


def _chains(text: str, labels: Labels) -> list[Chain]:
    """All items in brackets, split where there is no arrow between two."""
    chains: list[Chain] = []
    for item in _ITEM.finditer(text):
        # Of texts with an arrow or a comparison in them, only labels are items.
        if {*"<>"}.intersection(item[1]) and labels.place(item[1]) is None:
            continue
        if chains and _ARROW.fullmatch(text, chains[-1][-1].end(), item.start()):
            chains[-1].append(item)
        else:
            chains.append([item])
    return chains


def _read_without_chain(
    text: str, chains: Sequence[Chain], labels: Labels, *, cut: bool
) -> Order | None:
    bare = text.strip(_FRAME)
    names: list[str] = []
    if ">" in bare and "[" not in bare:
        names = [name.strip() for name in bare.split(">")]
        if cut:
            names.pop()  # it may be the beginning of another label
        if any(labels.place(name) is None for name in names):
            names = []
    elif len(labels) == 1 and len(chains) == 1:
        names = [item[1] for item in chains[0]]
    return _order(names, labels) if names else None


def _order(names: Sequence[str], labels: Labels) -> Order | None:
    labels.check_base(names)
    order = order_of(names, labels)
    if order is not None:
        check_unknown(order.unknown, labels)
    return order
