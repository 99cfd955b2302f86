"""Effects that call nothing, and what the ledger knows."""

import pytest

from secondpass.effects import LimitsLeft, Raised, Ran, RoundsLeft
from secondpass.errors import MethodError
from secondpass.limits import Left, Limits
from secondpass.runtime.immediate import carry_out
from secondpass.runtime.ledger import Ledger
from secondpass.types import EngineInfo


def test_what_is_left_is_told():
    ledger = Ledger(Limits(calls=3, tokens=100, cost=2.0, concurrency=4))
    assert carry_out(RoundsLeft(), ledger) == 3
    assert carry_out(LimitsLeft(), ledger) == Left(3, 100.0, 2.0, None, 4)


def test_what_happened_is_kept():
    ledger, error = Ledger(), ValueError("mine")
    engine = EngineInfo("m", "onnx", "float32", 1, "all", "only one")
    for effect in (Raised(error, "a test"), Ran(engine)):
        assert carry_out(effect, ledger) is None
    assert (ledger.error, ledger.engines) == (error, [engine])


@pytest.mark.parametrize("effect", [None, "nonsense", object()])
def test_what_is_no_effect_is_an_error_of_the_method(effect):
    with pytest.raises(MethodError, match="not an effect") as raised:
        carry_out(effect, Ledger())
    assert raised.value.code == "unknown_effect"
