"""Attributes that public objects do not have, or that cannot be set: the error says what to do."""

import copy
import dataclasses
import importlib
import pickle
import re
import types
from collections.abc import Iterable

import pytest

from secondpass import Candidate, Ranking, Reranker
from secondpass.attributes import INSTEAD

MODULES = ("secondpass", "secondpass.llms", "secondpass.extend", "secondpass.adapters")
MODULES += ("secondpass_evaluation",)
RERANKER = Reranker("lexical")
RANKING = RERANKER.rerank("owl", [{"id": "a", "text": "A cat."}, {"id": "b", "text": "An owl."}])
[TITLED] = RERANKER.rerank("owl", [{"text": "An owl.", "title": "Owls"}])
OBJECTS = {"Reranker": RERANKER, "Ranking": RANKING, "Report": RANKING.report, "Ranked": RANKING[0]}
UNKNOWN = [(owner, name) for owner, names in INSTEAD.items() for name in names]


@pytest.mark.parametrize(("owner", "name"), UNKNOWN)
def test_what_an_error_names_is_there(owner, name):
    """The first name that stands for an attribute, of what a hint says, is one of the object."""
    instance, hint = OBJECTS[owner], INSTEAD[owner][name]
    with pytest.raises(AttributeError, match=re.escape(f"{name!r}; {hint}")) as caught:
        getattr(instance, name)
    assert (caught.value.name, caught.value.obj) == (name, instance)  # Python suggests by these
    if code := re.match(r"use (\[.*\])", hint):
        assert len(eval(code[1], {"ranking": instance})) == len(instance)
    elif code := re.match(r"use (?:await )?(\w+)", hint):
        assert code[1] == "ranking" or hasattr(instance, code[1])


@pytest.mark.parametrize(
    ("instance", "name", "message"),
    [
        (
            RANKING,
            "issues",
            "'Ranking' object has no attribute 'issues'; use ranking.report.issues",
        ),
        (RANKING, "text", "'Ranking' object has no attribute 'text'; use item.text, for item in"),
        (RANKING, "zzz", "'Ranking' object has no attribute 'zzz'$"),
        (RANKING, "_zzz", "'Ranking' object has no attribute '_zzz'$"),
        (TITLED, "title", r"'Ranked' object has no attribute 'title'; use metadata\['title'\]"),
        (RANKING[0], "zzz", "'Ranked' object has no attribute 'zzz'$"),
        (RERANKER, "zzz", "'Reranker' object has no attribute 'zzz'$"),
    ],
)
def test_other_attributes(instance, name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(instance, name)
    assert not hasattr(instance, name)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: RANKING[0]["text"], "a Ranked has attributes, not keys: item.text"),
        (lambda: [text for text, score in RANKING], "'Ranked' object is not iterable"),
        (lambda: RANKING["b"], "a Ranking is a sequence of items, not a mapping"),
    ],
)
def test_keys(use, message):
    with pytest.raises(TypeError, match=message):
        use()


@pytest.mark.parametrize("instance", OBJECTS.values(), ids=OBJECTS)
def test_hints_leave_copies_and_protocols_alone(instance):
    for copied in (copy.copy(instance), copy.deepcopy(instance)):
        assert repr(copied) == repr(instance)
    assert repr(pickle.loads(pickle.dumps(instance))) == repr(instance)
    assert isinstance(instance, Iterable) is isinstance(instance, Ranking)
    assert not callable(instance)
    empty = object.__new__(type(instance))
    assert not hasattr(empty, "results")


def frozen_classes():
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in module.__all__:
            cls = getattr(module, attribute)
            parameters = getattr(cls, "__dataclass_params__", None)
            if (
                isinstance(cls, type)
                and parameters
                and parameters.frozen
                and hasattr(cls, "__slots__")
            ):
                yield cls


FROZEN = sorted({*frozen_classes()}, key=lambda cls: cls.__name__)


def test_there_are_frozen_classes():
    assert {"Candidate", "Ranked", "Ranking", "Report", "Task"} <= {cls.__name__ for cls in FROZEN}


@pytest.mark.parametrize("cls", FROZEN, ids=lambda cls: cls.__name__)
def test_a_frozen_object_says_how_to_get_a_changed_one(cls):
    instance = object.__new__(cls)
    field = dataclasses.fields(cls)[0].name
    for name, shown in ((field, f"{field}=…"), ("zzz", "…")):
        expected = f"{cls.__name__} cannot be changed; use dataclasses.replace(it, {shown})"
        for change in (lambda: setattr(instance, name, 1), lambda: delattr(instance, name)):  # noqa: B023
            with pytest.raises(dataclasses.FrozenInstanceError, match=re.escape(expected)):
                change()


def test_a_property_of_a_frozen_object():
    with pytest.raises(AttributeError, match="a Ranked cannot be changed"):
        RANKING[0].score = 1
    assert dataclasses.replace(RANKING[0], rerank_score=1.0).rerank_score == 1.0


def test_a_subclass_may_have_attributes_of_its_own():
    noted = types.new_class("Noted", (Candidate,))("A cat.")
    noted.note = "seen"
    del noted.note
    with pytest.raises(AttributeError, match="cannot be changed"):
        noted.text = "An owl."
