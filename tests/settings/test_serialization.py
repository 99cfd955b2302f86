"""Configurable objects as plain mappings."""

import pytest

from fakes import ByTable
from secondpass import NotSerializableError, Reranker

UNNAMED = {
    "scorer": (lambda: Reranker(ByTable()), "method: a ByTable has no registered name"),
    "function": (
        lambda: Reranker("lexical", order=lambda items: items),
        "order: a function has no registered name",
    ),
    "fallback": (
        lambda: Reranker("lexical", fallback=[ByTable()]),
        "fallback.method: a ByTable has no registered name",
    ),
}


@pytest.mark.parametrize(("make", "message"), UNNAMED.values(), ids=UNNAMED)
def test_unregistered_objects_are_refused(make, message):
    with pytest.raises(NotSerializableError, match=message):
        make().to_config()


def test_a_key_is_refused():
    reranker = Reranker({"type": "cross_encoder", "model": "m", "token": "hf-SECRET"})
    message = "a key cannot be written out; name its environment variable instead"
    with pytest.raises(NotSerializableError) as caught:
        reranker.to_config()
    assert str(caught.value) == f"to_config: method.token: {message}"


def test_an_explicitly_empty_mapping_is_kept():
    reranker = Reranker({"type": "cross_encoder", "model": "m", "model_kwargs": {}})
    assert reranker.to_config()["method"]["model_kwargs"] == {}


def test_nested_defaults_are_left_out():
    assert Reranker("lexical", limits={}, render={}).to_config() == {"method": {"type": "lexical"}}
