"""The check of settings that constructor signatures state."""

import inspect
from typing import Annotated

import pytest
from annotated_types import Ge
from pydantic import ValidationError

from fakes import ByTable
from secondpass import ConfigurationError, Reranker
from secondpass.settings import Nested, configurable, model_of, nested


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
    "keyword-only": (lambda: Outer(Inner(), "x"), "at most 1 positional"),
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
