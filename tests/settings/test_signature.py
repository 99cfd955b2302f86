"""The check of settings that constructor signatures state."""

import copy
import inspect
import pickle
from dataclasses import dataclass
from typing import Annotated
from unittest import mock

import pytest
from annotated_types import Ge
from pydantic import ValidationError

import secondpass.built_in
import secondpass.reranker
from fakes import ByTable
from secondpass import ConfigurationError, Reranker
from secondpass.reranker_settings import ChangeableSettings, RerankerSettings
from secondpass.settings import (
    Nested,
    changed,
    configurable,
    model_of,
    nested,
    parameters_of,
    registry,
)


@configurable
class Inner:
    def __init__(self, size: Annotated[int, Ge(1)] = 1) -> None:
        self.size = size


@configurable
class Outer:
    def __init__(self, inner: Annotated[Inner, nested(Inner)], *, name: str = "outer") -> None:
        self.inner = inner
        self.name = name


def test_mappings_become_objects():
    outer = Outer({"size": 2})
    assert isinstance(outer.inner, Inner)
    assert outer.inner.size == 2
    assert Outer(outer.inner).inner is outer.inner


def test_keyword_arguments_for_type_checkers_are_those_of_the_constructor():
    shown = {name: p.annotation for name, p in inspect.signature(Reranker).parameters.items()}
    typed = {name: hint.__forward_arg__ for name, hint in RerankerSettings.__annotations__.items()}
    assert typed == shown
    kept = typed.keys() - ChangeableSettings.__annotations__.keys()
    assert kept == secondpass.reranker._METHODS


def test_lists_every_problem():
    with pytest.raises(ConfigurationError) as caught:
        Outer({"size": 0, "sice": 1}, nane="x")
    assert str(caught.value) == (
        "Outer: 3 problems\n"
        "  inner.size: must be greater than or equal to 1, not 0\n"
        "  inner.sice: unknown key; did you mean 'size'?\n"
        "  nane: unknown key; did you mean 'name'?"
    )


def test_python_is_checked_like_files():
    with pytest.raises(ConfigurationError, match=r"Reranker: blend\.original: must be less"):
        Reranker(ByTable(), blend={"original": 3})
    with pytest.raises(ConfigurationError, match="Reranker: depht: unknown key"):
        Reranker(ByTable(), depht=3)  # type: ignore[call-arg]


CALLS = {
    "keyword-only": (lambda: Outer(Inner(), "x"), "only inner by position"),
    "twice": (lambda: Outer(Inner(), inner=Inner()), "got 'inner' twice"),
}


@pytest.mark.parametrize(("call", "message"), CALLS.values(), ids=CALLS)
def test_wrong_calls_are_type_errors(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@configurable
class AllNested:
    def __init__(
        self,
        first: Annotated[Inner, nested(Inner)],
        second: Annotated[Inner | None, nested(Inner, optional=True)] = None,
    ) -> None:
        self.first, self.second = first, second


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"second": {"size": 2}},
        {"first": {"size": 0}},
        {"first": {"size": "x"}, "second": 3},
        {"first": None},
        {"first": {}, "third": {}},
        {"first": {1: 2}},
    ],
    ids=str,
)
def test_errors_of_nested_settings_are_those_of_pydantic(settings):
    model = model_of(AllNested)
    with pytest.raises(ValidationError) as expected:
        model.model_validate(settings)
    with pytest.raises(ConfigurationError) as actual:
        AllNested(**settings)
    expected_paths = {detail["loc"][0] for detail in expected.value.errors()}
    assert {problem.path[0] for problem in actual.value.problems} == expected_paths


def test_nested_settings_are_objects():
    inner = Inner(3)
    nested_only = AllNested(inner, {"size": 2})
    assert nested_only.first is inner
    assert nested_only.second.size == 2
    assert AllNested(first={}).second is None


def test_only_the_constraints_of_a_type_are_left_out():
    @configurable
    class Some:
        def __init__(
            self,
            pair: "tuple[Annotated[list[Annotated[int, Ge(1)]], Nested(*[])], str] | None" = None,
            *,
            plain: "dict[str, int]",
        ) -> None:
            self.pair, self.plain = pair, plain

    parameters = inspect.signature(Some).parameters
    assert parameters["pair"].annotation == "tuple[list[int], str] | None"
    assert parameters["plain"].annotation == "dict[str, int]"


# ---------------------------------------------------------------------- fixed settings

LLM = {"type": "openai", "model": "m"}
MINIMAL = {
    **dict.fromkeys(("cross_encoder", "openai", "anthropic", "google"), "m"),
    "decisions": {"api": "openai", "model": "m"},
    "endpoint": {"api": "tei", "base_url": "http://h"},
    **{name: {"llm": LLM} for name in ("graded", "pointwise", "listwise", "blocks")},
    "cascade": {"stages": ["lexical", {"type": "lexical", "depth": 2}]},
    "tiers": {"field": "f", "tiers": ["a"]},
    "recency": {"field": "f", "weight": 0.1, "half_life_days": 1},
    "number": {"field": "f", "weight": 0.1, "high": 1},
    "value": {"field": "f", "weight": 0.1, "values": {"a": 1}},
}
"""The settings that a kind requires: those of a mapping, or the name of a model."""


def built(family, name):
    required = MINIMAL.get(name, {})
    required = {"model": required} if isinstance(required, str) else required
    return registry.build(family, {"type": name, **required})


KINDS = [(family, name) for family, names in secondpass.built_in.KINDS.items() for name in names]


@pytest.mark.parametrize(("family", "name"), KINDS)
def test_no_setting_of_a_kind_can_be_set(family, name):
    instance = built(family, name)
    for one in (instance, copy.copy(instance)):
        before = vars(one).copy()
        for setting in parameters_of(type(one)):
            with pytest.raises(AttributeError, match=setting):
                setattr(one, setting, None)
            with pytest.raises(AttributeError, match=setting):
                delattr(one, setting)
        assert vars(one) == before


class Plain(Inner):
    """Not configurable itself, with settings of its own."""

    def __init__(self, extra: int) -> None:
        self.size = 7  # before the constructor that fixes it
        super().__init__(size=2)
        self.extra = extra
        self.extra = extra + 1


@configurable
class Further(Inner):
    def __init__(self, size: int = 1, *, colour: str = "red") -> None:
        super().__init__(size)
        self.colour = colour.upper()
        self.colour = colour


@configurable
@dataclass
class Normalised:
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name.strip()


@configurable
class Slotted:
    __slots__ = ("size",)

    def __init__(self, *, size: int = 1) -> None:
        self.size = size


def test_settings_are_fixed_after_the_constructor_and_other_attributes_are_free():
    plain, further, normalised = Plain(5), Further(3, colour="blue"), Normalised(" a ")
    assert (plain.size, plain.extra, further.colour, normalised.name) == (2, 6, "blue", "a")
    plain.extra, further.note = 9, 1
    assert changed(further, size=4).colour == "blue"
    wrong = [(plain, "size", "Plain"), (further, "colour", "Further"), (further, "size", "Further")]
    for instance, name, cls in [*wrong, (normalised, "name", "Normalised")]:
        message = f"^{name} cannot be changed after construction; create another {cls}$"
        with pytest.raises(AttributeError, match=message):
            setattr(instance, name, getattr(instance, name))
    with mock.patch.object(further, "method", create=True) as patched:
        assert further.method is patched
    loaded = pickle.loads(pickle.dumps(further))
    assert vars(loaded) == vars(further)
    with pytest.raises(AttributeError, match=r"^size cannot be changed"):
        loaded.size = 1
    slotted = Slotted(size=2)
    slotted.size = 3  # an instance without a dictionary remembers nothing about itself
