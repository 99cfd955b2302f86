"""Keys and settings."""

from __future__ import annotations

import logging
import pickle

import pytest

import fake_provider as fake
from decision_answers import KEY, NUMBERS, SHAPES, answer, each_answer, with_probability
from fake_provider import http, status
from rankings import shown
from rotation import rotated
from secondpass import ConfigurationError, Reranker
from secondpass.apis.decision_descriptions import DECISION_APIS
from secondpass.apis.decisions import Decisions

USUAL = [
    ("openai", "OPENAI_API_KEY"),
    ("systemone", "TYPESAFE_API_KEY"),
    ("google", "GOOGLE_API_KEY"),
    ("google", "GEMINI_API_KEY"),
]


@pytest.mark.parametrize(("shape", "variable"), USUAL, indirect=["shape"])
def test_the_usual_keys(variable, shape, monkeypatch):
    monkeypatch.setenv(variable, " sk-environment\n")
    method = Decisions(shape, model="m")
    assert method._key().reveal() == "sk-environment"


def test_the_usual_key_goes_to_no_other_address(make, shape, provider, monkeypatch):
    for name in DECISION_APIS[shape].key_variables:
        monkeypatch.setenv(name, "sk-environment")
    assert make(api_key=None).rerank("q", NUMBERS).report.status == "ok"
    assert provider.requests[0].key == ""
    monkeypatch.setenv("MY_KEY", "sk-mine")
    make(api_key=None, api_key_env="MY_KEY").rerank("q", NUMBERS)
    assert provider.requests[1].key == "sk-mine"
    monkeypatch.setenv("DECISIONS_API_KEY", "sk-local")
    make(api_key=None).rerank("q", NUMBERS)
    assert provider.requests[2].key == "sk-local"


SECRETS = (KEY, "wombats", "burrow", fake.LEAK)


@pytest.mark.parametrize(("shape", "rank"), rotated(SHAPES, ("sync", "async")), indirect=True)
@pytest.mark.parametrize("step", [answer(), status(400), each_answer(with_probability(7))])
def test_no_secret_leaves(step, make, rank, provider, caplog):
    provider.play(step)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "secondpass")
    reranker = make(limits={"retries": 1})
    ranking = rank(reranker, "burrow", [f"{number} wombats" for number in (3, 9)])
    text = shown(reranker, ranking, caplog) + repr(vars(reranker.method))
    assert not [secret for secret in SECRETS if secret in text]


QUESTION = {"type": "noul", "instructions": "$instructions"}
OWN = {
    "path": "/decisions",
    "request": {"state": "$state", "questions": {"$id": "$question"}},
    "yes_no": {"question": QUESTION, "probability": "noul"},
    "each": {"query": "$query", "document": "$document"},
}
WRONG = [
    ({"api": "anthropic"}, "api"),
    ({"api": None}, "api"),
    ({"model": None}, "model: is required"),
    ({"batch_size": 401}, "batch_size: must be 400 at most"),
    ({"api": "systemone", "layout": "together", "batch_size": 129}, "batch_size: must be 128"),
    ({"layout": "each", "batch_size": 2}, "batch_size: must be 1 in the layout 'each'"),
    ({"instructions": "It answers the query."}, r"instructions: must contain \{document\}"),
    ({"levels": ["only one"]}, "levels"),
    ({"levels": [str(n) for n in range(11)]}, "levels: this API takes 10 at most"),
    ({"question": "yes_no", "levels": ["no", "yes"]}, "levels: what a no and a yes mean is not"),
    ({"api": "systemone", "question": "yes_no", "levels": ["a", "b", "c"]}, "levels: give two"),
    ({"rename": {"stat": "input"}}, "rename.stat: is no field of this API"),
    ({"rename": {"input": "model"}}, "rename: 'model' is already the name"),
    ({"rename": {"input": "x", "questions": "x"}}, "rename: 'x' is already the name"),
    ({"rename": {"a": "b", "c": "d", "e": "f", "g": "h"}}, "rename"),
    ({"path": "/a b"}, "path"),
    ({"options": {"input": "x"}}, "options: 'input' cannot be set"),
    ({"options": {"questions": []}}, "options: 'questions' cannot be set"),
    ({"options": {"model": "x"}}, "options: 'model' cannot be set"),
    ({"options": {"n": "$query"}}, "options.n: '.query' is no placeholder"),
    ({"temperature": 0}, "temperature"),
    ({"api": OWN, "base_url": "http://h"}, "question: 'graded' is not supported"),
    (
        {"api": OWN, "base_url": "http://h", "question": "yes_no", "layout": "together"},
        "layout: 'together' is not supported",
    ),
]


@pytest.mark.parametrize(("settings", "named"), WRONG)
def test_wrong_settings(settings, named):
    method = {"type": "decisions", "api": "openai", "model": "m", **settings}
    with pytest.raises(ConfigurationError, match=named):
        Reranker.from_config({"method": method})


WRONG_DESCRIPTIONS = [
    ({"request": {}}, "request: must contain the placeholder '$question'"),
    ({"request": {"q": ["$question"]}}, "request: must contain '$state' or '$state_text'"),
    ({"request": {"s": "$state", "q": "$question"}}, "request.q: the placeholder '$question' must"),
    ({"request": {**OWN["request"], "x": "$query"}}, "request.x: '$query' is no placeholder"),
    ({"yes_no": None}, "yes_no, graded: give at least one of them"),
    ({"yes_no": {"question": {"type": "x"}, "probability": "p"}}, "yes_no.question: must contai"),
    ({"yes_no": {"question": QUESTION}}, "yes_no.probability: is required"),
    ({"graded": {"question": QUESTION, "probabilities": "p"}}, "must contain the placeholder '$l"),
    ({"each": None}, "each, together: give at least one of them"),
    ({"each": {"query": "$query"}}, "each: must contain the placeholder '$document'"),
    ({"each": {"q": "$query", "d": ["$document"], "i": "$id"}}, "each.i: '$id' is no placeholder"),
    ({"together": {"q": "$query", "d": ["$document"]}}, "together: must contain the placeholder"),
    ({"together": {"q": "$query", "d": "$document"}}, "together.d: the placeholder '$document'"),
    ({"optional": "state"}, "optional: cannot be set for 'state'"),
    ({"max_questions": 0}, "max_questions"),
    ({"key_variables": "sk-1"}, "give the name of a variable, not the key"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG_DESCRIPTIONS)
def test_wrong_descriptions(changes, message):
    method = {"type": "decisions", "base_url": "http://h", "api": {**OWN, **changes}}
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"method": method})
    assert message in str(caught.value)


def test_an_api_of_ones_own(make, provider, monkeypatch):
    monkeypatch.setenv("OWN_KEY", "sk-own")
    reply = {"answers": {"document": {"type": "noul", "noul": 1}}}
    provider.play(lambda _request: [http(200, reply)])
    own = {**OWN, "key_variables": "OWN_KEY"}
    ranking = make(api=own, api_key=None, model=None, layout=None).rerank("q", NUMBERS[:1])
    assert (ranking.report.status, ranking.report.method) == ("ok", "this API")
    assert provider.requests[0].key == "sk-own"
    assert provider.requests[0].body == {
        "state": {"query": "q", "document": "3 a"},
        "questions": {
            "document": {"type": "noul", "instructions": "The query is answered by the document."}
        },
    }


def test_round_trip(shape):
    method = {
        "type": "decisions",
        "api": shape,
        "model": "m",
        "base_url": "http://localhost:1",
        "path": "/v2/decide",
        "rename": {"questions": "tests"},
        "api_key_env": "SOME_KEY",
        "levels": ["no", "somewhat", "yes"],
        "instructions": "Is {document} good?",
        "layout": "together",
        "batch_size": 100,
        "timeout": 5.0,
        "prices": {"input": 1.0, "output": 2.0},
        "options": {"x": 1},
    }
    own = {"type": "decisions", "api": OWN, "base_url": "http://h", "question": "yes_no"}
    for config in ({"method": method, "depth": 50}, {"method": own}):
        reranker = Reranker.from_config(config)
        assert reranker.to_config() == config
        assert pickle.loads(pickle.dumps(reranker)).to_config() == config
