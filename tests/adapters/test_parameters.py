"""Parameters are read from a signature; each stands for one setting. Values are checked."""

import re

import numpy as np
import pytest

from secondpass import ConfigurationError, InputError, Reranker
from secondpass.adapters import Parameters, check_options, checked_list, whole_number
from secondpass.config import resolve


class Component:
    def __init__(
        self,
        reranker,
        *,
        top_n: int | None = None,
        floor: float | None = None,
        depth: int | None = None,
        model: str | None = None,
        document_prefix: str = "",
        dedupe: bool | None = None,
        order: object = None,
        token: object = None,
        label: str = "",
        **fields: object,
    ) -> None:
        self.top_n, self.floor, self.depth = top_n, floor, depth
        self.dedupe, self.order = dedupe, order


PARAMETERS = Parameters(Component.__init__, own_defaults={"dedupe"})


def test_reads_the_signature():
    assert list(PARAMETERS.defaults) == [
        *("reranker", "top_n", "floor", "depth", "model", "document_prefix", "dedupe", "order"),
        *("token", "label"),
    ]  # fmt: skip
    assert PARAMETERS.per_call == {
        **{name: name for name in ("floor", "depth", "dedupe", "order")}, "top_n": "top_k",
    }  # fmt: skip
    assert PARAMETERS.paths["model"] == ("method.model", "method.llm.model")
    assert "label" not in PARAMETERS.paths


def test_overrides_are_what_differs_and_is_not_passed_with_calls():
    values = {**PARAMETERS.defaults, "top_n": 2, "document_prefix": "p: ", "dedupe": False}
    overrides = PARAMETERS.overrides(values)
    assert {name: override.places for name, override in overrides.items()} == {
        "document_prefix": ("render.prefix",)
    }
    assert resolve("lexical", flat=overrides).to_config()["render"] == {"prefix": "p: "}


@pytest.mark.parametrize(
    ("token", "variables", "place", "value"),
    [
        ("a key", {}, "token", "a key"),
        (None, {"token": ["A", "B"]}, "token_env", ["A", "B"]),
        ("a key", {"token": ["A"]}, "token_env", ["A"]),
    ],
)
def test_a_key_or_its_variables(token, variables, place, value):
    override = PARAMETERS.overrides({**PARAMETERS.defaults, "token": token}, variables)["token"]
    assert override.value == value
    assert override.places == (f"method.{place}",)
    assert "a key" not in repr(override)


def test_options_override_parameters():
    component = Component("lexical", top_n=3, floor=0.5)
    settings = PARAMETERS.call_settings(component, top_k=1, order="none", context=None)
    assert settings == {"top_k": 1, "floor": 0.5, "depth": None, "dedupe": None, "order": "none"}


SET = [
    ("lexical", set()),
    ({"method": "lexical", "floor": 0.1}, {"floor"}),
    ({"method": "lexical", "top_k": 1, "dedupe": False}, {"top_n", "dedupe"}),
    (Reranker("lexical"), {"depth"}),
    (Reranker("lexical", depth=None), set()),
    (Reranker("lexical", top_k=3, order="lost_in_the_middle"), {"top_n", "order", "depth"}),
]
VALUES = {"top_n": 1, "floor": 0.5, "depth": 3, "dedupe": True, "order": "lost_in_the_middle"}


@pytest.mark.parametrize(("reranker", "fixed"), SET)
def test_a_parameter_is_refused_where_the_reranker_sets_it(reranker, fixed):
    core = Reranker("lexical")
    for name, value in VALUES.items():
        PARAMETERS.check(name, None, reranker, core)
        if name not in fixed:
            PARAMETERS.check(name, value, reranker, core)
            continue
        owner = "Reranker has its own" if isinstance(reranker, Reranker) else "reranker sets"
        message = f"^{name}: can't be set, because the {owner}"
        with pytest.raises(ConfigurationError, match=message):
            PARAMETERS.check(name, value, reranker, core)


@pytest.mark.parametrize(
    ("name", "value", "core", "message"),
    [
        ("floor", 0.5, Reranker.from_preset("listwise_guided"), "floor: .*are ranks"),
        ("order", {"type": "tires"}, Reranker("lexical"), r"order\.type: .*tiers"),
        ("order", "learn", Reranker("lexical"), "order: "),
    ],
)
def test_a_parameter_is_refused_where_it_has_no_effect(name, value, core, message):
    with pytest.raises(ConfigurationError, match=message):
        PARAMETERS.check(name, value, "preset", core)


REFUSED = {
    "text": ("label", None, "must be a str, not NoneType"),
    "switch": ("dedupe", "no", "must be a bool, not str"),
    "number": ("top_n", 0, "must be 1 or more"),
    "threshold": ("floor", "high", "give a finite number"),
    "nan": ("floor", float("nan"), "give a finite number"),
}


@pytest.mark.parametrize(("name", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_values_of_the_wrong_kind(name, value, message):
    with pytest.raises(ValueError, match=rf"{name}: {re.escape(message)}"):
        PARAMETERS.converted(name, value)


def test_values_are_of_types_that_can_be_saved():
    for name, value, expected in (
        ("top_n", np.int64(3), 3),
        ("top_n", 10**30, 10**30),
        ("floor", np.float32(0.5), 0.5),
        ("floor", -1, -1.0),
        ("dedupe", True, True),
        ("label", "x", "x"),
        ("top_n", None, None),
    ):
        converted = PARAMETERS.converted(name, value)
        assert (converted, type(converted)) == (expected, type(expected))


def test_what_is_said_about_attributes():
    assert PARAMETERS.fixed("model") == (
        "model can't be changed after construction; make a new component"
    )
    assert PARAMETERS.fixed("topn") == "topn is no parameter of Component; did you mean 'top_n'?"


class Strict:
    def __init__(self, reranker, *, top_n=None): ...


class More(Strict):
    def __init__(self, reranker, *, more=None): ...


def test_keyword_arguments_are_those_of_the_class():
    parameters = Parameters(Strict.__init__)
    parameters.check_known(Strict, ["top_n"])
    parameters.check_known(More, ["more"])
    parameters.check_known(Component, ["anything"])
    with pytest.raises(TypeError, match=r"^Strict: topn: unknown argument; did you mean 'top_n'"):
        parameters.check_known(Strict, ["topn"])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("topn", "did you mean 'top_n'?"),
        ("top_k", "did you mean 'top_n'?"),
        ("topk", "did you mean 'top_n'?"),
        ("k", "did you mean 'top_n'?"),
        ("score_threshold", "did you mean 'floor'?"),
        ("model_name", "did you mean 'model'?"),
        ("dedup", "did you mean 'dedupe'?"),
        ("zzz", "known are: dedupe, depth, document_prefix"),
    ],
)
def test_unknown_arguments_get_the_nearest_parameter(name, hint):
    (problem,) = PARAMETERS.unknown(["model", name])
    assert str(problem).startswith(f"{name}: unknown argument; {hint}")


# ---------------------------------------------------------------------- values


def test_numbers():
    assert whole_number("n", None) is None
    for wrong in (0, 1.0, True):
        with pytest.raises(InputError, match=r"^n: "):
            whole_number("n", wrong)


def test_options_of_later_calls():
    reranker = Reranker("lexical", orders={"learn": "lost_in_the_middle"})
    for order in (None, "none", "learn", "lost_in_the_middle"):
        check_options(reranker, order=order, top_k=3)
    for wrong in ({"order": "lear"}, {"instruction": 3}, {"top_k": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            check_options(reranker, **wrong)


@pytest.mark.parametrize("values", [None, 7, "text", b"x", {"a": 1}, (1, 2)])
def test_no_list(values):
    with pytest.raises(InputError, match=r"^pairs: give a list of tuples, not (None|bytes|an? )"):
        checked_list(values, tuple, "pairs", "tuples")


def test_no_item():
    assert checked_list(iter([1, 2]), int, "numbers", "ints") == [1, 2]
    with pytest.raises(InputError, match=r"^numbers\[1\]: give an int, not a str; count it$"):
        checked_list([1, "secret"], int, "numbers", "ints", {str: "; count it"})
