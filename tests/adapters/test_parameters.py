"""Parameters are read from a signature; each stands for one setting. Values are checked."""

import re

import numpy as np
import pytest

from secondpass import ConfigurationError, InputError, Reranker
from secondpass.adapters.parameters import (
    Parameters,
    check_order,
    checked_list,
    finite_number,
    whole_number,
)
from secondpass.config import resolve


class Component:
    def __init__(
        self,
        reranker,
        *,
        top_n: int | None = None,
        floor: float | None = None,
        model: str | None = None,
        document_prefix: str = "",
        dedupe: bool | None = None,
        label: str = "",
        **fields: object,
    ) -> None:
        vars(self).update(PARAMETERS.arguments(locals()))


PARAMETERS = Parameters(Component.__init__, assignable={"label"}, beside_ready={"top_n"})


def test_reads_the_signature():
    assert list(PARAMETERS.defaults) == [
        "reranker", "top_n", "floor", "model", "document_prefix", "dedupe", "label",
    ]  # fmt: skip
    assert PARAMETERS.per_call == {"top_n": "top_k", "floor": "floor", "dedupe": "dedupe"}
    assert PARAMETERS.paths == {
        "top_n": ("top_k",), "floor": ("floor",), "dedupe": ("dedupe",),
        "model": ("method.model", "method.llm.model"), "document_prefix": ("render.prefix",),
    }  # fmt: skip


def test_overrides_are_what_differs():
    values = {**PARAMETERS.defaults, "top_n": 2, "document_prefix": "p: ", "dedupe": False}
    overrides = PARAMETERS.overrides(values)
    assert {name: override.places for name, override in overrides.items()} == {
        "top_n": ("top_k",), "document_prefix": ("render.prefix",), "dedupe": ("dedupe",),
    }  # fmt: skip
    assert list(PARAMETERS.overrides(values, per_call=False)) == ["document_prefix"]
    config = resolve("lexical", flat=overrides).to_config()
    assert (config["top_k"], config["render"]) == (2, {"prefix": "p: "})


def test_options_override_parameters():
    component = Component("lexical", top_n=3, floor=0.5)
    values = {"reranker": "lexical", "top_n": 3, "floor": 0.5}
    assert PARAMETERS.values(component) == PARAMETERS.defaults | values
    settings = PARAMETERS.call_settings(component, top_k=1, order="none", context=None)
    assert settings == {"top_k": 1, "floor": 0.5, "dedupe": None, "order": "none"}


@pytest.mark.parametrize(
    ("reranker", "fixed"),
    [
        ("lexical", set()),
        ({"method": "lexical", "floor": 0.1}, {"floor"}),
        ({"method": "lexical", "top_k": 1, "dedupe": False}, {"top_n", "dedupe"}),
        (Reranker("lexical"), {"floor", "dedupe"}),
        (Reranker("lexical", top_k=3), {"top_n", "floor", "dedupe"}),
    ],
)
def test_fixed_by_the_reranker(reranker, fixed):
    assert PARAMETERS.fixed_by(reranker) == fixed
    for name in fixed:
        PARAMETERS.check_free(name, None, fixed)
        with pytest.raises(ConfigurationError, match=f"^{name}: can't be set, because"):
            PARAMETERS.check_free(name, 1, fixed)


REFUSED = {
    "fixed at construction": ("model", "x", "can't be changed after construction"),
    "unknown": ("topn", 1, "is no parameter of Component; did you mean 'top_n'?"),
    "text": ("label", None, "must be a str, not NoneType"),
    "switch": ("dedupe", "no", "must be a bool, not str"),
    "number": ("top_n", 0, "must be 1 or more"),
    "threshold": ("floor", "high", "can't be set, because the reranker sets 'floor'"),
    "none": ("dedupe", None, "can't be set to None, because the component was made with a value"),
}


@pytest.mark.parametrize(("name", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_assignments(name, value, message):
    with pytest.raises((ValueError, AttributeError), match=rf"{name}.*{re.escape(message)}"):
        PARAMETERS.assigned(name, value, {"dedupe"}, {"floor"})
    for right in ({"top_n": 3}, {"floor": 0.5}, {"dedupe": True}, {"label": "x"}):
        ((own, assigned),) = right.items()
        assert PARAMETERS.assigned(own, assigned, {}, set()) == assigned


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
        ("zzz", "known are: dedupe, document_prefix"),
    ],
)
def test_unknown_arguments_get_the_nearest_parameter(name, hint):
    (problem,) = PARAMETERS.unknown(["model", name])
    assert str(problem).startswith(f"{name}: unknown argument; {hint}")


# ---------------------------------------------------------------------- values


def test_numbers():
    assert whole_number("n", None) is finite_number("n", None) is None
    assert (type(whole_number("n", np.int64(3))), whole_number("n", 10**30)) == (int, 10**30)
    assert (type(finite_number("n", np.float32(0.5))), finite_number("n", -1)) == (float, -1.0)
    for check, wrong in ((whole_number, 0), (whole_number, 1.0), (finite_number, float("nan"))):
        with pytest.raises(InputError, match=r"^n: "):
            check("n", wrong)


def test_orders():
    reranker = Reranker("lexical", orders={"learn": "lost_in_the_middle"})
    for order in (None, "none", "learn", "lost_in_the_middle"):
        check_order(order, reranker)
    with pytest.raises(ConfigurationError, match=r"^order"):
        check_order({"type": "tires"}, reranker)


@pytest.mark.parametrize("values", [None, 7, "text", b"x", {"a": 1}, (1, 2)])
def test_no_list(values):
    with pytest.raises(InputError, match=r"^pairs: give a list of tuples, not (nothing|an? )"):
        checked_list(values, tuple, "pairs", "tuples")


def test_no_item():
    assert checked_list(iter([1, 2]), int, "numbers", "ints") == [1, 2]
    with pytest.raises(InputError, match=r"^numbers\[1\]: give an int, not a str; count it$"):
        checked_list([1, "secret"], int, "numbers", "ints", {str: "; count it"})
