"""Mutated replies: none gives a wrong order, and most of what is plainly said is read."""

import asyncio

import pytest

from fakes import shown_in
from mutated_replies import (
    ALL,
    BEST,
    GRADED_FORMS,
    GRADES,
    LISTED_FORMS,
    MUTATIONS,
    REFUSE,
    Answer,
    concerns,
    order_of,
)
from rotation import rotated
from secondpass import Reranker
from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies import json_text as lenient
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

KINDS = {
    "opaque": Labels(["k4t", "b2c", "z9x", "d7f", "m3p"], None),
    "id": Labels(["doc-7", "report_b", "x1", "ünï", "a/b.txt"], None),
    "index0": Labels(["0", "1", "2", "3", "4"], 0),
    "index1": Labels(["1", "2", "3", "4", "5"], 1),
}
# These ids are no bare words.
NOT_BY_ID = {"no quotes", "smart quotes"}
# What such replies say is another thing, or nothing, where labels are numbers.
NOT_BY_INDEX = {
    "ranks for labels",
    "labels cut short",
    "labels in arrays",
    "a missing quote",
    "JSON in a string in a string",
}


def cases(every=1):
    """Each mutation in each format; all kinds of labels in turn, the rest in long runs.

    Only one of ``every`` such pairs is not left to long runs.
    """
    for number, (mutation, form) in enumerate(
        (mutation, form)
        for mutation in MUTATIONS
        for form in (*GRADED_FORMS, *LISTED_FORMS)
        if concerns(mutation, form)
    ):
        kinds = [
            kind
            for kind in KINDS
            if not (kind == "id" and mutation.name in NOT_BY_ID)
            and not (kind.startswith("index") and mutation.name in NOT_BY_INDEX)
        ]
        for kind in kinds:
            usual = number % every == 0 and kind == kinds[number // every % len(kinds)]
            marks = [] if usual else [pytest.mark.long]
            name = f"{mutation.name}, {form}, {kind}"
            yield pytest.param(mutation, form, kind, id=name, marks=marks)


def answer_of(form, names, first=None):
    labels = [int(name) for name in names] if first is not None else names
    rows = [(labels[at], grade) for at, grade in zip(BEST, GRADES, strict=True)]
    return Answer(form, rows, "id" if first is None else "index")


def order_read(form, reply, labels):
    """The ranking that a reply gives; the order that was shown where it is refused."""
    try:
        if form in GRADED_FORMS:
            values = read_scores(Completion(reply), labels, 0, 10).values
            known = [at for at, value in enumerate(values) if value is not None]
            places = sorted(known, key=lambda at: -values[at])
        else:
            places = list(read_order(Completion(reply), labels).places)
    except ReplyError:
        return REFUSE
    return (*places, *(at for at in range(len(labels)) if at not in places))


@pytest.mark.parametrize(("mutation", "form", "kind"), list(cases()))
def test_no_wrong_order(mutation, form, kind):
    labels = KINDS[kind]
    reply = mutation.write(answer_of(form, labels.names, labels.first))
    expected = mutation.expected(form)
    assert order_read(form, reply, labels) == (REFUSE if expected == REFUSE else order_of(expected))


@pytest.mark.parametrize(("mutation", "form", "kind"), list(cases(every=3)))
def test_no_wrong_order_without_the_extra(mutation, form, kind, monkeypatch):
    monkeypatch.setattr(lenient, "_repair", lambda: None)
    labels = KINDS[kind]
    reply = mutation.write(answer_of(form, labels.names, labels.first))
    expected = mutation.expected(form)
    allowed = {REFUSE} if expected == REFUSE else {REFUSE, order_of(expected)}
    if mutation.name == "a correction in quotes" or mutation.name == "a draft, almost JSON":
        allowed = {REFUSE}
    assert order_read(form, reply, labels) in allowed


@pytest.mark.parametrize("form", [*GRADED_FORMS, *LISTED_FORMS])
def test_enough_is_recovered(form):
    labels = KINDS["opaque"]
    cases = [mutation for mutation in MUTATIONS if concerns(mutation, form)]
    whole = [
        mutation
        for mutation in cases
        if order_read(form, mutation.write(answer_of(form, labels.names)), labels) == order_of(ALL)
    ]
    assert len(cases) > 85
    assert len(whole) >= 46


@pytest.mark.parametrize(
    ("form", "asynchronous"), rotated(["keyed", "pairs", "permutation"], [False, True])
)
def test_through_the_reranker(form, asynchronous):
    method = Graded if form in GRADED_FORMS else Listwise
    texts = [f"passage {at}" for at in range(5)]
    for mutation in MUTATIONS:
        if not concerns(mutation, form):
            continue

        def reply(messages, mutation=mutation):
            return mutation.write(answer_of(form, list(shown_in(messages))))

        reranker = Reranker(method(reply, reply=form), limits={"repair": 0}, log_level="debug")
        if asynchronous:
            ranking = asyncio.run(reranker.arerank("q", texts))
        else:
            ranking = reranker.rerank("q", texts)
        expected = mutation.expected(form)
        assert ranking.order == order_of(expected), mutation.name
        status = "unchanged" if expected == REFUSE else "ok" if expected == ALL else "partial"
        assert ranking.report.status == status, mutation.name
