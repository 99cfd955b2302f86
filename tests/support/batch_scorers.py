"""Scorers that return batches, rankings by them, and the scheduler's commands."""

import asyncio
import math
import re

import pytest

from secondpass import Reranker
from secondpass.asking.gate import Gate
from secondpass.asking.scheduler import Pass, schedule
from secondpass.effects import Score
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger

LATE = re.compile(r"the deadline of \S+ s passed before these were scored")


class InBatches:
    """Yields the batches of a function of the documents and the deadline."""

    model_name = "in-batches"

    def __init__(self, generate, **members):
        self.generate = generate
        self.calls = []
        for name, value in members.items():
            setattr(self, name, value)

    def score_pairs(self, query, documents):
        raise AssertionError("score_batches is there")

    def score_batches(self, requests, deadline):
        ((query, documents),) = requests
        self.calls.append((query, list(documents)))
        return self.generate(documents, deadline)


def in_twos(documents, _deadline):
    """Two documents at a time; the score is the position."""
    for start in range(0, len(documents), 2):
        stop = min(start + 2, len(documents))
        yield [(0, index, float(index)) for index in range(start, stop)]


def rerank(asynchronous, scorer, documents="abcd", **options):
    reranker = Reranker(scorer, **{"limits": {"deadline": 60}, **options})
    if asynchronous:
        return asyncio.run(reranker.arerank("q", list(documents)))
    return reranker.rerank("q", list(documents))


def scores_of(ranking):
    """The scores by position."""
    return {item.position: item.rerank_score for item in ranking if item.status == "scored"}


def pass_of(scorer, count=3, at_most=2, overdue=False, **limits):
    """A pass that scores texts."""

    def plan():
        return (yield Score(scorer, "q", [f"d{index}" for index in range(count)], at_most))

    return Pass(plan(), Ledger(Limits(**limits), -math.inf if overdue else math.inf), Gate(1))


def drive(passes, outcome):
    """The results of passes, and the commands on the way, each with an outcome."""
    commands, sent = [], None
    work = schedule(passes)
    while True:
        try:
            commands.append(work.send(sent))
        except StopIteration as stop:
            return stop.value, commands
        sent = outcome(commands[-1])


both = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def ends():
    return ()


def raises(error):
    def act():
        raise error

    return act
