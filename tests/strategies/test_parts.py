"""Which methods ask a language model."""

from fakes import ByTable, Model
from secondpass.methods import to_method
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded
from secondpass.strategies.parts import asks


def test_what_asks_a_language_model():
    llm = Model()
    asking = Cascade([{"method": to_method(ByTable())}, {"method": Graded(llm)}])
    assert asking.language_models == [llm]
    assert [asks(method) for method in (asking, to_method(ByTable()), object())] == [
        True,
        False,
        False,
    ]
