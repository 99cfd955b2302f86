"""Methods: what is taken for one, warmed up and closed."""

import asyncio

import pytest

from fakes import ByTable, Model
from secondpass import ConfigurationError, MethodError, Reranker
from secondpass.ranking.methods import asks, to_method
from secondpass.settings import registry
from secondpass.strategies.base import LLMStrategy
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded


@pytest.mark.parametrize("name", registry.names("methods"))
def test_every_kind_of_method_says_whether_it_takes_an_instruction(name):
    """Whether by a member of the class, or by its settings."""
    kind = registry.kind("methods", name)
    takes = getattr(kind, "takes_instruction", False)
    if issubclass(kind, LLMStrategy) or name == "cascade":
        assert takes is True
    else:
        assert isinstance(takes, property) == (name in {"endpoint", "decisions", "cross_encoder"})
        assert takes is not True


@pytest.mark.parametrize("method", [ByTable, 5, None, object(), lambda query, documents: []])
def test_what_is_no_method_is_refused(method):
    with pytest.raises(ConfigurationError, match="method: give a"):
        Reranker(method)


@pytest.mark.parametrize("missing", ["name", "score_kind", "scale"])
def test_a_method_that_says_too_little_is_refused(missing):
    members = {"name": "own", "score_kind": "logit", "scale": None, "judge": lambda self, task: 0}
    del members[missing]
    with pytest.raises(ConfigurationError, match=missing):
        Reranker(type("Own", (), members)())


@pytest.mark.parametrize("windows", ["all", None, 3])
def test_a_method_that_wants_unknown_windows_is_refused(windows):
    members = {"name": "own", "score_kind": "logit", "scale": None, "judge": lambda self, task: 0}
    with pytest.raises(ConfigurationError, match="must be 'one', 'each' or 'task', not"):
        Reranker(type("Own", (), {**members, "windows": windows})())


def test_warm_up_and_close_reach_the_scorer_and_a_fallback_only_if_need_be():
    told: list[str] = []

    class Warm(ByTable):
        def __init__(self, name, error=None):
            super().__init__()
            self.name, self.error = name, error

        def warm_up(self):
            told.append(self.name)
            if self.error:
                raise self.error

        def close(self):
            told.append("close " + self.name)

    reranker = Reranker(Warm("a"), fallback=[Warm("b")])
    reranker.warm_up()
    reranker.close()
    assert told == ["a", "close a", "close b"]
    told.clear()
    asyncio.run(Reranker(Warm("a", MethodError("no")), fallback=[Warm("b")]).awarm_up())
    assert told == ["a", "b"]
    with pytest.raises(MethodError, match="no"):
        Reranker(Warm("a", MethodError("no"))).warm_up()


def test_what_asks_a_language_model():
    llm = Model()
    asking = Cascade([{"method": to_method(ByTable())}, {"method": Graded(llm)}])
    assert asking.language_models == [llm]
    assert asks(asking)
    assert not any(map(asks, (to_method(ByTable()), object())))
