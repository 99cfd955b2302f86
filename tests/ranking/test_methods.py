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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("name", None, "a method needs a 'name'"),
        ("score_kind", None, "score_kind: nothing is not a score kind"),
        ("scale", ..., "a method needs a 'scale'"),
        *(("windows", value, "must be 'one', 'each' or 'task'") for value in ("all", None, 3)),
    ],
)
def test_a_method_with_a_wrong_member_is_refused(name, value, message):
    members = {"name": "own", "score_kind": "logit", "scale": None, "judge": lambda self, task: 0}
    own = {key: item for key, item in {**members, name: value}.items() if item is not ...}
    with pytest.raises(ConfigurationError, match=message):
        Reranker(type("Own", (), own)())


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
