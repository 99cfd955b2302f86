"""What an adapter was constructed with: apart from the caller's, and as plain values."""

import os
from pathlib import Path
from types import MappingProxyType

import pytest

from secondpass import Limits, NotSerializableError, Reranker
from secondpass.adapters import detached, saved
from secondpass.extend import Cascade, LostInTheMiddle

KEY = "sk-secret-0123456789"


def test_a_detached_argument_does_not_change_with_the_caller_s():
    method = Cascade(["lexical", "lexical"])
    given = {"method": {"stages": ["lexical", {"k1": 1}]}, "fallback": (method,)}
    own = detached(given)
    assert own == given
    given["method"]["stages"][1]["k1"] = 2
    given["method"]["stages"].append("more")
    assert own["method"] == {"stages": ["lexical", {"k1": 1}]}
    assert own["fallback"][0] is method
    assert type(detached(MappingProxyType({"a": 1}))) is dict
    reranker = Reranker("lexical")
    assert detached(reranker) is reranker


SAVED = [
    # what was passed; how it is saved
    ("lexical", "lexical"),
    ("here/ours.yaml", "here/ours.yaml"),
    (Path("here/ours.yaml"), os.path.join("here", "ours.yaml")),
    (Path("ours"), os.path.join(".", "ours")),
    (Reranker("lexical", depth=3), {"method": {"type": "lexical"}, "depth": 3}),
    ({"method": "lexical", "depth": 100}, {"method": "lexical", "depth": 100}),
    ({"depth": {"env": "NAME", "default": 3}}, {"depth": {"env": "NAME", "default": 3}}),
    ({"fallback": ("lexical",)}, {"fallback": ["lexical"]}),
    ({"method": {"model": Path("a") / "b"}}, {"method": {"model": os.path.join("a", "b")}}),
    ({"limits": Limits(deadline=3)}, {"limits": {"deadline": 3}}),
    ({"orders": {"x": LostInTheMiddle()}}, {"orders": {"x": {"type": "lost_in_the_middle"}}}),
    (LostInTheMiddle(), {"type": "lost_in_the_middle"}),
    (None, None),
]


@pytest.mark.parametrize(("passed", "written"), SAVED, ids=repr)
def test_what_was_passed_is_saved(passed, written):
    assert saved(passed, "reranker") == written


def function(*_):
    return ""


LLM = {"type": "openai", "model": "m", "api_key": KEY}
REFUSED = [
    ({"method": {"type": "graded", "llm": LLM}}, r"^method\.llm\.api_key: holds a key"),
    ({"fallback": [{"llm": LLM}]}, r"^fallback\[0\]\.llm\.api_key: holds a key"),
    ({"fallback": ({"llm": LLM},)}, r"^fallback\[0\]\.llm\.api_key: holds a key"),
    ({"method": {"options": {"headers": {"Authorization": KEY}}}}, "headers.*: holds a key"),
    (
        {"method": {"type": "graded", "llm": function}},
        r"^method\.llm: a function has no registered",
    ),
    (Reranker({"type": "graded", "llm": function}), "function: a function has no registered"),
    (function, "^order: a function has no registered name"),
]


@pytest.mark.parametrize(("passed", "message"), REFUSED)
def test_keys_and_objects_without_a_name_are_refused(passed, message):
    with pytest.raises(NotSerializableError, match=message) as raised:
        saved(passed, "order")
    assert KEY not in str(raised.value)
