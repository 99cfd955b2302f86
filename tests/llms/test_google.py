"""Gemini: log probabilities."""

from types import SimpleNamespace

import pytest

from secondpass.llms import google as module


def entry(text, logprob):
    return SimpleNamespace(token=text, log_probability=logprob)


def reported(chosen, *top):
    alternatives = [
        SimpleNamespace(candidates=items and [entry(*item) for item in items]) for items in top
    ]
    return SimpleNamespace(
        chosen_candidates=[entry(*item) for item in chosen], top_candidates=alternatives
    )


LOGPROBS = {
    "one token": (
        reported([("Yes", -0.5)], [("Yes", -0.5), ("No", -1.0)]),
        ({"Yes": -0.5, "No": -1.0},),
    ),
    "without alternatives": (reported([("Yes", -0.5)], None), ({"Yes": -0.5},)),
    "other lengths": (reported([("Yes", -0.5), (".", -0.1)], [("No", -1.0)]), None),
    "no tokens": (reported([]), None),
    "nothing": (None, None),
}


@pytest.mark.parametrize(("result", "read"), LOGPROBS.values(), ids=LOGPROBS)
def test_log_probabilities(result, read):
    found = module._logprobs(result)
    assert (found if found is None else tuple(map(dict, found))) == read
