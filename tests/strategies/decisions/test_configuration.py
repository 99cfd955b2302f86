"""Keys and settings."""

from __future__ import annotations

import importlib
import json
import logging
import pickle

import pytest

import fake_provider as fake
from decision_answers import KEY, NUMBERS, PROVIDERS, answer, probability
from fake_provider import status
from rankings import codes
from rotation import rotated
from secondpass import (
    Candidate,
    ConfigurationError,
    MissingExtraError,
    NotSerializableError,
    Reranker,
    RerankError,
)

openai = pytest.importorskip("openai")

pytestmark = pytest.mark.skipif(
    not hasattr(openai.AsyncOpenAI, "decisions"), reason="this SDK has no scoring calls yet"
)


@pytest.mark.parametrize(
    ("whose", "variable"),
    [("openai", "OPENAI_API_KEY"), ("google", "GOOGLE_API_KEY"), ("google", "GEMINI_API_KEY")],
    indirect=["whose"],
)
def test_the_usual_keys(variable, make, provider, monkeypatch):
    monkeypatch.setenv(variable, " sk-environment\n")
    assert make(api_key=None).rerank("q", NUMBERS).report.status == "ok"
    assert provider.requests[0].key == "sk-environment"


def test_no_key(make, whose, provider):
    ranking = make(api_key=None, base_url=None).rerank("q", NUMBERS)
    assert codes(ranking) == {"no_key"}
    assert ranking.report.usage.calls == 0
    ranking = make(api_key=None, api_key_env="NO_SUCH_VARIABLE").rerank("q", NUMBERS)
    assert "NO_SUCH_VARIABLE" in ranking.report.issues[0].message
    assert not provider.requests


SECRETS = (KEY, "wombats", "burrow", fake.LEAK)


@pytest.mark.parametrize(("whose", "rank"), rotated(PROVIDERS, ("sync", "async")), indirect=True)
@pytest.mark.parametrize(
    "step", [answer(), status(400), status(401), status(500), fake.page(), probability(7)]
)
def test_no_secret_leaves(step, make, rank, provider, caplog):
    provider.play(step)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "secondpass")
    reranker = make(limits={"retries": 1})
    ranking = rank(reranker, "burrow", [f"{number} wombats" for number in (3, 9)])
    report = ranking.report
    texts = [
        repr(reranker),
        repr(reranker.method),
        repr(vars(reranker.method)),
        repr(ranking),
        repr(report),
    ]
    texts += [json.dumps(report.to_dict()), repr(pickle.dumps(report))]
    texts += [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    assert not [secret for secret in SECRETS for text in texts if secret in text]


def test_no_secret_in_an_error(make, provider):
    provider.play(status(400))
    with pytest.raises(RerankError) as caught:
        make(whole={"strict": True}).rerank("burrow", ["3 wombats", "9 wombats"])
    texts = [str(caught.value), repr(caught.value), repr(caught.value.args)]
    assert not [secret for secret in SECRETS for text in texts if secret in text]
    assert caught.value.__cause__ is None


def test_an_explicit_key_is_not_written_out(make):
    reranker = make()
    for write in (reranker.to_config, lambda: pickle.dumps(reranker)):
        with pytest.raises(NotSerializableError) as caught:
            write()
        assert KEY not in str(caught.value)


WRONG = [
    ({"provider": "anthropic"}, "provider"),
    ({"provider": None}, "provider"),
    ({"model": ""}, "model"),
    ({"model": None}, "model"),
    ({"batch_size": 0}, "batch_size"),
    ({"batch_size": 401}, "batch_size"),
    ({"batch_size": True}, "batch_size"),
    ({"timeout": 0}, "timeout"),
    ({"statement": "It answers the query."}, "statement"),
    ({"statement": ""}, "statement"),
    ({"base_url": "localhost"}, "base_url"),
    ({"api_key": "k", "api_key_env": "K"}, "api_key"),
    ({"prices": {"input": 1}}, "prices"),
    ({"temperature": 0}, "temperature"),
]


@pytest.mark.parametrize(("settings", "named"), WRONG)
def test_wrong_settings(settings, named):
    method = {"type": "decisions", "provider": "openai", "model": "m", **settings}
    with pytest.raises(ConfigurationError, match=named):
        Reranker.from_config({"method": method})


def test_round_trip(whose):
    method = {
        "type": "decisions",
        "provider": whose,
        "model": "m",
        "base_url": "http://localhost:1",
        "api_key_env": "SOME_KEY",
        "statement": "{id} fits.",
        "batch_size": 400,
        "timeout": 5.0,
        "prices": {"input": 1.0, "output": 2.0},
    }
    config = {"method": method, "depth": 50}
    reranker = Reranker.from_config(config)
    assert reranker.to_config() == config
    assert pickle.loads(pickle.dumps(reranker)).to_config() == config


def test_a_missing_package_is_named(whose, monkeypatch):
    find = importlib.util.find_spec
    absent = {"openai", "google.genai"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name in absent else find(name)
    )
    config = {"type": "decisions", "provider": whose, "model": "m"}
    with pytest.raises(MissingExtraError, match=rf"secondpass\[{whose}\]"):
        Reranker.from_config({"method": config})


@pytest.mark.parametrize("whose", ["openai"], indirect=True)
def test_old_sdk_is_reported(make, monkeypatch):
    """The scoring calls came late in the range of versions that the extra allows."""
    monkeypatch.delattr(openai.AsyncOpenAI, "decisions")
    ranking = make().rerank("q", NUMBERS)
    assert codes(ranking) == {"missing_extra"}
    assert ranking.order == (0, 1, 2)


def test_blend_and_floor(make):
    candidates = [
        Candidate(text, score=score) for text, score in zip(NUMBERS, (1, 0, 0.4), strict=True)
    ]
    blend = {"original": 0.5, "normalize": "none"}
    ranking = make(whole={"blend": blend, "floor": 0.46}).rerank("q", candidates)
    assert [item.position for item in ranking] == [0]
    assert ranking.report.left_out == {"floor": (1, 2)}
    with pytest.raises(ConfigurationError, match="blend"):
        make(whole={"blend": {"original": 0.5, "normalize": "sigmoid"}})
