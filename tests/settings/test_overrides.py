"""Override parameters of adapters: each lands where its setting stands, or is refused."""

import pytest

from fakes import ByTable, Model
from secondpass import ConfigurationError, Reranker, config
from secondpass.config import resolve
from secondpass.ranking.rendering import Rendering
from secondpass.settings.overrides import Override

LLM = {"type": "openai", "model": "small"}
LISTWISE = {"type": "listwise", "llm": LLM}
MODEL = ("method.model", "method.llm.model")
TOKEN = ("method.token_env", "method.api_key_env", "method.llm.api_key_env")


LANDS = [
    # the configuration; the parameter's places; where the value is afterwards
    ("cross_encoder_hybrid", MODEL, ("method", "model")),
    ({"method": "cross_encoder"}, MODEL, ("method", "model")),
    ({"method": {"type": "listwise", "llm": {**LLM, "model": "m"}}}, TOKEN, ("method", "llm")),
    ("listwise_ids", MODEL, ("method", "llm", "model")),
    ("cohere", MODEL, ("method", "model")),
    ("cohere", TOKEN, ("method", "api_key_env")),
    ("lexical", ("render.separator",), ("render", "separator")),
    ("blended_scores", ("render.separator",), ("render", "separator")),
]


@pytest.mark.parametrize(("config", "places", "path"), LANDS)
def test_a_parameter_lands_where_the_method_has_the_setting(config, places, path):
    flat = {"name": Override("VALUE", places)}
    reranker = resolve(config, flat=flat)
    written = reranker.to_config()
    for step in path:
        written = written[step]
    assert (written["api_key_env"] if isinstance(written, dict) else written) == "VALUE"
    others = [{**made.to_config(), path[0]: None} for made in (reranker, resolve(config))]
    assert others[0] == others[1]  # nothing else has changed


RENDERED = {"method": "lexical", "render": Rendering(prefix="p")}
REFUSED = [
    # the configuration; the parameter's places; an LLM is given; what is told
    (
        "lexical",
        MODEL,
        False,
        "name: the method 'lexical' has no such setting; one that has it is {'method': {'type': "
        "'cross_encoder', 'model': …}}",
    ),
    ("accurate", MODEL, False, "the method 'cascade' has no such setting; its stages do: set it"),
    ({"method": LISTWISE}, MODEL, False, "sets 'method.llm.model'"),
    ({"method": "cross_encoder", "floor": 0}, ("floor",), False, "sets 'floor'"),
    ({"method": ByTable()}, MODEL, False, "can't be set on a ByTable"),
    (
        RENDERED,
        ("render.suffix",),
        False,
        "a Rendering that is ready; create that with 'suffix'",
    ),
    ({"method": {"type": "cross_encoder", "token": "t"}}, TOKEN, False, "sets 'method.token', wh"),
    ("listwise_ids", MODEL, True, "language model object has its own settings"),
    ({"method": "listwise"}, TOKEN, True, "language model object has its own settings"),
    (Reranker("lexical"), MODEL, False, "beside a ready Reranker; create that with 'method.model'"),
]


@pytest.mark.parametrize(("config", "places", "llm", "told"), REFUSED)
def test_a_parameter_that_would_be_lost_is_refused(config, places, llm, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        resolve(config, llm=Model() if llm else None, flat={"name": Override("VALUE", places)})
    assert str(caught.value).startswith("name: ")


@pytest.mark.parametrize("method", [{}, {"method": "nope"}, {"method": {"type": "nope"}}])
def test_a_method_that_there_is_not_is_told_once_and_as_such(method):
    flat = {"a": Override("x", MODEL), "b": Override("cpu", ("method.device",))}
    with pytest.raises(ConfigurationError) as caught:
        resolve(method, flat=flat)
    assert [problem.path[0] for problem in caught.value.problems] == ["method"]


def test_a_key_takes_the_place_of_the_variable_that_a_preset_names():
    places = ("method.token", "method.api_key", "method.llm.api_key")
    reranker = resolve("blended_scores", flat={"api_key": Override("k", places)})
    assert reranker.method.llm.api_key.reveal() == "k"
    assert reranker.method.llm.api_key_env is None


def test_a_configuration_without_end_is_refused_before_it_is_walked():
    method = {"type": "cascade"}
    method["stages"] = [method, method]
    with pytest.raises(ConfigurationError, match="refers to itself"):
        resolve({"method": method}, llm=Model(), flat={"model": Override("x", MODEL)})


def test_a_language_model_leaves_the_method_s_own_settings_to_parameters():
    config = {"method": {"type": "graded", "scale": [0, 3]}}
    flat = {"size": Override(4, ("method.batch_size", "method.window"))}
    assert resolve(config, llm=Model(), flat=flat).method.batch_size == 4


# ---------------------------------------------------------------------- a given language model


REPLACED = {
    "bare method": {"method": "graded"},
    "method": {"method": {"type": "graded", "llm": LLM, "scale": [0, 3]}},
    "stage": {"method": {"type": "cascade", "stages": ["lexical", "listwise"]}},
    "method beside settings": {"method": {"type": "cascade", "stages": [{"method": "graded"}]}},
    "fallbacks": {"method": "lexical", "fallback": ["lexical", {"type": "graded", "llm": LLM}]},
    "bare fallback": {"method": "lexical", "fallback": "listwise"},
}


@pytest.mark.parametrize("described", REPLACED.values(), ids=REPLACED)
def test_asks_the_given_model(described):
    before = repr(described)
    changed = config.with_llm(described, "MODEL")
    assert repr(changed).count("'llm': 'MODEL'") == 1
    assert repr(LLM) not in repr(changed)
    assert repr(described) == before


@pytest.mark.parametrize("method", ["lexical", {"type": "lexical"}, "zork", None, object()])
def test_something_must_ask_it(method):
    with pytest.raises(
        ConfigurationError, match=r"no method asks one; these do: graded, pointwise, listwise"
    ):
        config.with_llm({"method": method}, Model())


VARIABLES = {
    "method": {"method": {"env": "M"}},
    "type": {"method": {"type": {"env": "M"}}},
    "fallback": {"method": "lexical", "fallback": {"env": "M"}},
    "listed fallback": {"method": "lexical", "fallback": [{"env": "M"}]},
    "default": {"method": {"env": "UNSET", "default": "listwise"}},
}


@pytest.mark.parametrize("described", VARIABLES.values(), ids=VARIABLES)
def test_reads_variables(described, monkeypatch):
    monkeypatch.setenv("M", "listwise")
    monkeypatch.delenv("UNSET", raising=False)
    result = config.with_llm(described, Model())
    assert "Model object" in str(result)
    assert "'env'" in str(result)


def test_the_timeout_is_that_of_the_model_it_replaces(monkeypatch):
    monkeypatch.setenv("T", "5")
    described = {"method": {"type": "listwise", "llm": {**LLM, "timeout": {"env": "T"}}}}
    assert config.with_llm(described, Model(timeout=1.0))["method"]["llm"].timeout == 5
