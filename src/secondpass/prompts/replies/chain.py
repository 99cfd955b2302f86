"""The reader of ``[2] > [1] > [3]``, as models trained for listwise reranking reply."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.label_lookup import Labels, plain
from secondpass.prompts.replies.json_text import answer_text
from secondpass.prompts.replies.scores import check_unknown, order_of, read_order
from secondpass.prompts.replies.values import Order

_ITEM = re.compile(r"\[([^\[\]<>\n]{1,200})\]")
_ARROW = re.compile(r"\s*>\s*")
_FRAME = " \t\r\n`*"
# Between a chain and a label that stands right beside it, rather than in a sentence.
_BESIDE = re.compile(r"[\s,;=<>\[\]]*")
_COMPARING = "<>=≥≤≻≺~→"
_ARROW_CUT = re.compile(r"\s*>\s*(?:\[[^\[\]<>\n]{0,200})?")


def read_ranked(completion: Completion, labels: Labels) -> Order:
    """The order that the reply gives as one chain of labels in brackets.

    A reply without such a chain is read as JSON. One that is nothing but labels and ``>`` may leave
    the brackets out.

    Raises:
        ReplyError: it has no chain, more than one, one that is interrupted, or labels in brackets
            that are not in its chain; it counts labels from another number, or has more unknown
            labels than were shown.
    """
    text = answer_text(completion.text)
    chains = _chains(text)
    long = [
        chain
        for chain in chains
        if len(chain) > 1 and any(labels.place(item[1]) is not None for item in chain)
    ]
    if not long:
        return _without_chain(completion, text, chains, labels)
    given = [[item[1] for item in chain] for chain in long]
    if any([plain(one) for one in other] != [plain(one) for one in given[0]] for other in given):
        raise ReplyError("it holds more than one order")
    order = _order(given[0], labels)
    if order is None:
        raise ReplyError("it holds no order of the form that was asked for")
    others = {labels.place(item[1]) for chain in chains for item in chain}
    if others - {None} - set(order.places):
        raise ReplyError("it has documents in brackets that are not in its order")
    whole = {id(chain) for chain in long}
    for one, other in itertools.pairwise(chains):
        gap = text[one[-1].end() : other[0].start()]
        if _BESIDE.fullmatch(gap) and (id(one) in whole) != (id(other) in whole):
            raise ReplyError("its order is interrupted")
    cut = False
    for chain in long:
        before = text[max(0, chain[0].start() - 9) : chain[0].start()].rstrip()
        after = text[chain[-1].end() : chain[-1].end() + 9].lstrip()
        if completion.cut and _ARROW_CUT.fullmatch(text, chain[-1].end()):
            cut = True
        elif before[-1:] in set(_COMPARING) or after[:1] in set(_COMPARING):
            raise ReplyError("its order is interrupted")
    return replace(order, cut=cut)


def _chains(text: str) -> list[list[re.Match[str]]]:
    """All that stands in brackets, parted where there is no arrow between."""
    chains: list[list[re.Match[str]]] = []
    for item in _ITEM.finditer(text):
        if chains and _ARROW.fullmatch(text, chains[-1][-1].end(), item.start()):
            chains[-1].append(item)
        else:
            chains.append([item])
    return chains


def _without_chain(
    completion: Completion, text: str, chains: list[list[re.Match[str]]], labels: Labels
) -> Order:
    bare = text.strip(_FRAME)
    if ">" in bare and "[" not in bare:
        parts = [part.strip() for part in bare.split(">")]
        if all(labels.place(part) is not None for part in parts):
            order = _order(parts, labels)
            if order is not None:
                return order
    if len(labels) == 1 and len(chains) == 1:
        order = _order([item[1] for item in chains[0]], labels)
        if order is not None:
            return order
    return read_order(completion, labels)


def _order(given: list[str], labels: Labels) -> Order | None:
    labels.check_base(given)
    order = order_of(given, labels)
    if order is not None:
        check_unknown(order.unknown, labels)
    return order
