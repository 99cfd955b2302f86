"""Gemini: log probabilities, and the end of a connection."""

import asyncio
from types import SimpleNamespace
from unittest import mock

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


def test_the_http_client_is_closed_also_if_the_other_raises(monkeypatch):
    pytest.importorskip("google.genai")
    bounded, http_clients = module.bounded, []

    def noted(*arguments, **keywords):
        http_clients.append(bounded(*arguments, **keywords))
        return http_clients[-1]

    monkeypatch.setattr(module, "bounded", noted)
    connection = module.GoogleGenAI("m", api_key="key")._connect("key")
    with (
        mock.patch.object(connection.client, "close", side_effect=OSError("a port")),
        pytest.raises(OSError, match="a port"),
    ):
        asyncio.run(connection.close())
    assert [client.is_closed for client in http_clients] == [True]
