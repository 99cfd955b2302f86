"""Chat Completions: log probabilities in the forms that servers report."""

from types import SimpleNamespace

import pytest

from secondpass.llms import openai as module
from secondpass.llms.openai import OpenAIChat


def test_the_older_name_of_the_longest_reply(monkeypatch):
    monkeypatch.setattr(OpenAIChat, "_dropped", {"max_completion_tokens"})
    assert OpenAIChat("m", max_tokens=9)._parameters()["max_tokens"] == 9


def token(text, logprob, *others):
    top = [SimpleNamespace(token=other, logprob=value) for other, value in others]
    return SimpleNamespace(token=text, logprob=logprob, top_logprobs=top)


LOGPROBS = {
    "chat": (
        SimpleNamespace(content=[token("Yes", -0.5, ("Yes", -0.5), ("No", -1.0))]),
        ({"Yes": -0.5, "No": -1.0},),
    ),
    "chat, without alternatives": (
        SimpleNamespace(content=[SimpleNamespace(token="Yes", logprob=-0.5, top_logprobs=None)]),
        ({"Yes": -0.5},),
    ),
    "the older API": (
        SimpleNamespace(
            tokens=["Yes", "."], token_logprobs=[-0.5, -2.0], top_logprobs=[{"No": -1.0}, None]
        ),
        ({"Yes": -0.5, "No": -1.0}, {".": -2.0}),
    ),
    "the older API, incomplete": (SimpleNamespace(tokens=["Yes"], token_logprobs=[-0.5]), None),
    "the older API, in words": (
        SimpleNamespace(tokens=["Yes"], token_logprobs=["x"], top_logprobs=[{}]),
        None,
    ),
    "a number in words": (SimpleNamespace(content=[token("Yes", "low")]), None),
    "a boolean": (SimpleNamespace(content=[token("Yes", -0.5, ("Yes", True))]), None),
    "no objects": (SimpleNamespace(content=["Yes", 7, None]), None),
    "without content": (SimpleNamespace(content=None), None),
    "nothing": (None, None),
    "another type": ("logprobs", None),
}


@pytest.mark.parametrize(("reported", "read"), LOGPROBS.values(), ids=LOGPROBS)
def test_log_probabilities(reported, read):
    result = module._logprobs(reported)
    assert (result if result is None else tuple(map(dict, result))) == read
