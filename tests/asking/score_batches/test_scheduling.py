"""Which calls the scheduler makes for scorers with ``score_batches``."""

import pytest

from batch_scorers import InBatches, drive, in_twos, pass_of
from secondpass.asking.scheduler import CallBatches, CallScorer, PartialScores
from secondpass.errors import MethodError


class Raising:
    @property
    def score_batches(self):
        raise LookupError


def every_score(command):
    if isinstance(command, CallBatches):
        ((_, documents),) = command.requests
        return PartialScores(dict.fromkeys(range(len(documents)), 1.0), MethodError("?"))
    return [[1.0] * len(documents) for _, documents in command.requests]


batched = InBatches(in_twos)

COMMANDS = {
    # scorer, texts per call at most, deadline; the command
    "deadline": (batched, 32, 60, CallBatches),
    "no deadline": (batched, 32, None, CallScorer),
    "not pointwise": (batched, None, 60, CallScorer),
    "no such method": (Raising(), 32, 60, CallScorer),
}


@pytest.mark.parametrize(("scorer", "most", "deadline", "kind"), COMMANDS.values(), ids=COMMANDS)
def test_used_with_a_deadline(scorer, most, deadline, kind):
    item = pass_of(scorer, at_most=most, deadline=deadline)
    (raw,), (command,) = drive([item], every_score)
    assert type(command) is kind
    assert (raw.values, raw.failures, raw.called) == ([1.0] * 3, [], True)
    assert (item.ledger.calls, item.ledger.rounds, item.ledger.pairs) == (1, 1, 3)
    if kind is CallBatches:
        assert command.requests == [("q", ["d0", "d1", "d2"])]
        assert command.ledgers == [item.ledger]


def test_each_pass_has_its_own_call_and_clock():
    scorer = InBatches(in_twos, score_many=list)
    passes = [pass_of(scorer, overdue=True, deadline=60) for _ in range(2)]
    waiting = []

    def outcome(command):
        waiting.append([item.ledger.waiting for item in passes])
        assert command.ledgers[0] is passes[len(waiting) - 1].ledger
        assert 30 < command.seconds_left <= 60
        return every_score(command)

    results, _ = drive(passes, outcome)
    assert waiting == [[False, True], [False, False]]
    assert [raw.failures for raw in results] == [[], []]
