"""Flat parameters of adapters: each lands where its setting stands, or is refused."""

import pytest

from secondpass import ConfigurationError, Reranker
from secondpass.config import preset_names, resolve
from secondpass.flat import Flat, given, without

LLM = {"type": "openai", "model": "small"}
MODEL = ("method.model", "method.llm.model")
TOKEN = ("method.token_env", "method.api_key_env", "method.llm.api_key_env")


class Asked:
    name = "asked"

    async def complete(self, prompt):
        raise NotImplementedError


class Scorer:
    model_name = "mine"

    def score_pairs(self, query, documents):
        return [0.0] * len(documents)


LANDS = [
    # the configuration; the parameter's places; where the value is afterwards
    ("polymarket", MODEL, ("method", "model")),
    ({"method": "cross_encoder"}, MODEL, ("method", "model")),
    ({"method": {"type": "listwise", "llm": {**LLM, "model": "m"}}}, TOKEN, ("method", "llm")),
    ("tactician", MODEL, ("method", "llm", "model")),
    ("cohere", MODEL, ("method", "model")),
    ("cohere", TOKEN, ("method", "api_key_env")),
    ("lexical", ("render.separator",), ("render", "separator")),
    ("scallop", ("render.separator",), ("render", "separator")),
]


@pytest.mark.parametrize(("config", "places", "path"), LANDS)
def test_a_parameter_lands_where_the_method_has_the_setting(config, places, path):
    flat = {"name": Flat("VALUE", places)}
    reranker = resolve(config, flat=flat)
    written = reranker.to_config()
    for step in path:
        written = written[step]
    assert (written["api_key_env"] if isinstance(written, dict) else written) == "VALUE"
    # Less the parameter it is the configuration that it was given with.
    rest = without(reranker.to_config(), flat)
    assert rest == without(resolve(config).to_config(), flat)
    assert resolve(rest, flat=flat).to_config() == reranker.to_config()


REFUSED = [
    # the configuration; the parameter's places; an LLM is given; what is told
    ("lexical", MODEL, False, "name: the method 'lexical' has no such setting"),
    ("accurate", MODEL, False, "the method 'cascade' has no such setting; its stages do: set it"),
    ({"method": {"type": "listwise", "llm": LLM}}, MODEL, False, "sets 'method.llm.model'"),
    ({"method": "cross_encoder", "floor": 0}, ("floor",), False, "sets 'floor'"),
    ({"method": Scorer()}, MODEL, False, "can't be set on a Scorer"),
    ({}, MODEL, False, "can't be set on nothing"),
    ({"method": "nope"}, MODEL, False, "no kind is named 'nope'"),
    ("tactician", MODEL, True, "language model that is given has settings of its own"),
    ({"method": "listwise"}, TOKEN, True, "language model that is given has settings"),
    (Reranker("lexical"), MODEL, False, "beside a ready Reranker; set 'method.model'"),
]


@pytest.mark.parametrize(("config", "places", "llm", "told"), REFUSED)
def test_a_parameter_that_would_be_lost_is_refused(config, places, llm, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        resolve(config, llm=Asked() if llm else None, flat={"name": Flat("VALUE", places)})
    assert str(caught.value).startswith("name: ")


def test_every_problem_is_told_at_once():
    flat = {"a": Flat(1, ("method.model",)), "b": Flat(2, ("method.device",))}
    for config in ("lexical", Reranker("lexical")):
        with pytest.raises(ConfigurationError) as caught:
            resolve(config, flat=flat)
        assert [problem.path for problem in caught.value.problems] == [("a",), ("b",)]


def test_a_language_model_leaves_the_method_s_own_settings_to_parameters():
    config = {"method": {"type": "graded", "scale": [0, 3]}}
    flat = {"size": Flat(4, ("method.batch_size", "method.window"))}
    assert resolve(config, llm=Asked(), flat=flat).method.batch_size == 4


def test_a_mapping_that_is_given_stays_as_it_is():
    config = {"method": {"type": "cross_encoder"}, "render": {"labels": True}}
    before = repr(config)
    flat = {"model": Flat("x", MODEL), "separator": Flat("-", ("render.separator",))}
    reranker = resolve(config, flat=flat)
    assert repr(config) == before
    assert (reranker.render.labels, reranker.render.separator) == (True, "-")


def test_what_was_not_given_changes_nothing():
    assert given({"a": Flat.at(None, "floor"), "b": Flat.at(0, "floor")}) == {
        "b": Flat(0, ("floor",))
    }
    for name in preset_names():
        assert resolve(name, flat={}).to_config() == resolve(name).to_config()
