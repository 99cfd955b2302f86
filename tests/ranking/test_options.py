"""Options of one call: validation, overriding, signatures."""

import asyncio
import inspect
import math
import re
import threading

import numpy as np
import pytest

from fakes import Answering, ByTable
from secondpass import InputError, Reranker, RerankError
from secondpass.ranking.options import CallOptions, validate

ENTRY_POINTS = ("rerank", "arerank", "rerank_many", "arerank_many", "astream")

VALID = {
    "top_k": (3, 3),
    "numpy top_k": (np.int64(3), 3),
    "depth": (7, 7),
    "floor": (2, 2.0),
    "dedupe": (False, False),
    "order": ("none", None),
    "deadline": (2, 2.0),
    "numpy deadline": (np.float32(0.5), 0.5),
    "strict": (True, True),
    "instruction": (" prefer recent documents\n", "prefer recent documents"),
    "instruction with a lone surrogate": ("a\ud800b", "a?b"),
    "instruction of white space": (" \n", None),
    "instruction empty": ("", None),
}

INVALID = {
    "top_k zero": (0, "top_k: must be 1 or more, not 0"),
    "top_k negative": (-3, "top_k: must be 1 or more, not -3"),
    "top_k of many digits": (-(10**5000), "top_k: must be 1 or more"),
    "top_k bool": (True, "top_k: give a whole number, not True"),
    "top_k string": ("3", "top_k: give a whole number, not '3'"),
    "top_k array": (np.array([1, 2]), "top_k: give a whole number"),
    "depth float": (2.5, "depth: give a whole number, not 2.5"),
    "floor string": ("0.5", "floor: give a finite number, not '0.5'"),
    "floor bool": (True, "floor: give a finite number, not True"),
    "floor nan": (math.nan, "floor: give a finite number"),
    "floor too large": (10**400, "floor: is too large for a float"),
    "floor array": (np.array([1.0, 2.0]), "floor: give a finite number"),
    "dedupe string": ("no", "dedupe: give True or False, not 'no'"),
    "dedupe integer": (1, "dedupe: give True or False, not 1"),
    "deadline zero": (0, "deadline: must be greater than 0"),
    "deadline negative": (-1.5, "deadline: must be greater than 0"),
    "deadline nan": (math.nan, "deadline: give a finite number"),
    "strict string": ("yes", "strict: give True or False, not 'yes'"),
    "order unknown": ("teirs", "order: no ordering is named 'teirs'; did you mean 'tiers'?"),
    "order incomplete": ({"type": "tiers"}, "order: 2 problems"),
    "order integer": (7, "order: give a name, a mapping or a function, not 7"),
    "order array": (np.array(["none", "none"]), "order: give a name"),
    "instruction bytes": (b"recent", "instruction: give a string, not bytes"),
}


def option(case):
    return next(name for name in CallOptions.__annotations__ if name in case.split())


@pytest.mark.parametrize("case", VALID)
def test_valid_values_are_converted(case):
    value, expected = VALID[case]
    converted = validate({option(case): value})[option(case)]
    assert (converted, type(converted)) == (expected, type(expected))


@pytest.mark.parametrize("case", INVALID)
def test_invalid_values_are_named(case):
    value, message = INVALID[case]
    with pytest.raises(InputError) as caught:
        Reranker(ByTable()).rerank("q", ["a"], **{option(case): value})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_signatures_list_all_options(name):
    parameters = inspect.signature(getattr(Reranker(ByTable()), name)).parameters
    assert [*CallOptions.__annotations__] == [*parameters][-len(CallOptions.__annotations__) :]
    assert all(parameters[option].default is None for option in CallOptions.__annotations__)


@pytest.mark.parametrize("name", [*ENTRY_POINTS, "expected_use"])
def test_help_explains_each_option_once(name):
    docs = inspect.getdoc(getattr(Reranker, name))
    explained = [option for option in CallOptions.__annotations__ if f"\n    {option}: " in docs]
    assert explained == ([*CallOptions.__annotations__] if name == "rerank" else [])
    refers = re.search(r"options: as (in :meth:`rerank`|there)\.", docs)
    assert bool(refers) == (name != "rerank")


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_unknown_option_is_a_type_error(name):
    async def call():
        arguments = ([],) if name.endswith("many") else ("q", [])
        result = getattr(Reranker(ByTable()), name)(*arguments, topk=3)
        return await result if name.startswith("a") else result

    with pytest.raises(TypeError, match="'topk'; did you mean 'top_k'"):
        asyncio.run(call())


def test_options_override_settings():
    reranker = Reranker(ByTable(), depth=1, top_k=1, order="lost_in_the_middle")
    ranking = reranker.rerank("q", ["a", "bb", "ccc"], depth=3, top_k=3, order="none")
    assert ranking.order == (2, 1, 0)


def test_order_by_name_of_the_reranker():
    reranker = Reranker(ByTable(), orders={"backwards": lambda items: items[::-1]})
    assert reranker.rerank("q", ["a", "bb"], order="backwards").order == (0, 1)
    with pytest.raises(InputError, match="order: no ordering is named 'sideways'"):
        reranker.rerank("q", ["a"], order="sideways")


def test_every_option_has_a_validation():
    for name in CallOptions.__annotations__:
        with pytest.raises(InputError, match=f"{name}: "):
            validate({name: object()})


@pytest.mark.parametrize("limit", [None, 1000.0])
def test_a_deadline_of_the_call_replaces_that_of_the_limits(limit):
    left = threading.Event()
    scorer = Answering(lambda _count: left.wait(60))
    reranker = Reranker(scorer, limits={"deadline": limit})
    try:
        ranking = reranker.rerank("q", ["a"], deadline=0.05)
    finally:
        left.set()
    assert [issue.code for issue in ranking.report.issues] == ["deadline"]
    assert reranker.limits.deadline == limit


@pytest.mark.parametrize("setting", [True, False])
def test_strict_of_the_call_replaces_the_setting(setting):
    reranker = Reranker(Answering(lambda _count: [math.nan]), strict=setting)
    with pytest.raises(RerankError):
        reranker.rerank("q", ["a"], strict=True)
    assert reranker.rerank("q", ["a"], strict=False).report.status == "unchanged"
