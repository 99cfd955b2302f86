"""The handle of a pass."""

import pytest

from secondpass.effects import Call, Left
from secondpass.errors import MethodError
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger, PassCall


@pytest.mark.parametrize("error", [None, MethodError("down"), GeneratorExit()])
def test_time_is_kept_while_a_method_runs(error):
    ledger = Ledger(Limits(deadline=60))
    call = PassCall(ledger)
    try:
        with call.keeping_time(last=False):
            kept = ledger.kept.seconds > 0
            if error is not None:
                raise error
    except (MethodError, GeneratorExit) as raised:
        assert raised is error
    assert (kept, ledger.kept.seconds) == (True, 0.0)
    with call.keeping_time(last=True):
        assert not ledger.kept.seconds


def test_no_ranking_limits_and_records_nothing():
    call = Call()
    assert (call.rounds_left(), call.limits_left(), call.started(None, 1)) == (None, Left(), None)
    with call.keeping_time(last=False):
        assert list(call.interim(None, None)) == []
