"""What the handle of a pass says is what its ledger knows, and what it is told is kept there."""

import logging

import pytest

from secondpass.effects import Call, Left
from secondpass.errors import MethodError
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger, PassCall
from secondpass.types import EngineInfo


def test_what_is_left_is_told():
    call = PassCall(Ledger(Limits(calls=5, tokens=100, cost=2.0, concurrency=4, repair=0)))
    assert [call.rounds_left(), call.rounds_left(2), call.rounds_left(repairs=True)] == [5, 2, 0]
    assert call.limits_left() == Left(5, 100.0, 2.0, None, 4)
    assert PassCall(Ledger()).rounds_left() is None


def test_what_happened_is_kept(caplog):
    caplog.set_level(logging.DEBUG, "secondpass.diagnostics")
    ledger, errors = Ledger(), [ValueError("first"), KeyError("second")]
    engine = EngineInfo("m", "onnx", "float32", 1, "all", "only one")
    call = PassCall(ledger)
    for error in errors:
        call.raised(error, "the reader")
    call.ran(engine)
    assert (ledger.error, ledger.engines) == (errors[0], [engine])
    assert [record.getMessage() for record in caplog.records] == [
        "the reader raised ValueError",
        "the reader raised KeyError",
    ]


@pytest.mark.parametrize("error", [None, MethodError("down"), GeneratorExit()])
def test_time_is_kept_while_a_method_runs(error):
    ledger = Ledger(Limits(deadline=60))
    call = PassCall(ledger)
    try:
        with call.keeping_time(last=False):
            kept = ledger.keeps_time
            if error is not None:
                raise error
    except (MethodError, GeneratorExit) as raised:
        assert raised is error
    assert (kept, ledger.keeps_time) == (True, False)
    with call.keeping_time(last=True):
        assert not ledger.keeps_time


def test_no_ranking_limits_and_records_nothing():
    call = Call()
    assert (call.rounds_left(), call.limits_left(), call.started(None, 1)) == (None, Left(), None)
    with call.keeping_time(last=False):
        assert list(call.interim(None, None)) == []
