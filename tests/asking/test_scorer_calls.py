"""Calls of scorers: what they return, raise and yield."""

import pytest

from fakes import Answering
from secondpass.asking.drivers import score
from secondpass.asking.scheduler import CallScorer
from secondpass.errors import MethodError
from secondpass.ranking.ledger import Ledger


def call(scorer, *requests, kind=CallScorer, ledgers=None, instruction=None):
    requests = requests or (("q", ["a", "bb"]),)
    return kind(scorer, requests, ledgers or [Ledger()] * len(requests), instruction)


def test_an_instruction_is_passed_on():
    class Instructed:
        def score_pairs(self, query, documents, instruction):
            return [instruction] * len(documents)

    assert score(call(Instructed(), instruction="owls")) == [["owls", "owls"]]


@pytest.mark.parametrize("answer", [lambda n: None, lambda n: [0.5] * (n + 1), lambda n: "no"])
def test_answers_that_are_no_list_of_scores(answer):
    assert isinstance(score(call(Answering(answer))), MethodError)
