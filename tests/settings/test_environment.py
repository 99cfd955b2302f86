"""Settings from environment variables."""

import copy
import json
import pickle

import pytest

from fakes import Model
from secondpass import ConfigurationError, NotSerializableError, Reranker, config
from secondpass.adapters import saved
from secondpass.ranking.fits import identity
from secondpass.settings import OptionalVariables, environment, model_of, registry
from secondpass.settings.overrides import Override

SECRET = "sk-live-SECRET"


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    monkeypatch.delenv("ABSENT", raising=False)
    monkeypatch.setenv("EMPTY", " ")
    monkeypatch.setenv("SOME_VARIABLE", SECRET)


def fill(setting):
    return environment.fill({"key": setting})[0]["key"]


READ = {
    # the variable's text; the default, if any; the setting
    "text": ("5", "a", "5"),
    "whole number": ("5", 1, 5),
    "number": ("5", 1.0, 5.0),
    "boolean": ("True", False, True),
    "YAML number": ("0.5", ..., 0.5),
    "YAML null": ("null", None, None),
    "no YAML": ("a: [", ..., "a: ["),
    "surrounding space": (" a ", ..., "a"),
    "empty": ("", 7, 7),
}


@pytest.mark.parametrize(("text", "default", "value"), READ.values(), ids=READ)
def test_reads_as_the_default_s_type(monkeypatch, text, default, value):
    monkeypatch.setenv("FUZZED", text)
    setting = {"env": "FUZZED"} | ({} if default is ... else {"default": default})
    assert fill([{"inside": setting}]) == [{"inside": value}]
    assert type(fill(setting)) is type(value)


UNFILLED = {
    "absent": ({"env": "ABSENT"}, "key: the environment variable ABSENT is not set, and there"),
    "empty": ({"env": "EMPTY"}, "key: the environment variable EMPTY is not set"),
    "impossible name": ({"env": "A\0B"}, "key: the environment variable"),
    "surrogate": ({"env": "A\ud800"}, "key: the environment variable"),
    "no name": ({"env": 5}, "key.env: must be the name of a variable, not 5"),
    "list as default": ({"env": "A", "default": []}, "key.default: must be a plain value"),
    "another type": ({"env": "SOME_VARIABLE", "default": 1}, "does not hold a whole number"),
    "no boolean": ({"env": "SOME_VARIABLE", "default": True}, "does not hold true or false"),
}


@pytest.mark.parametrize(("setting", "message"), UNFILLED.values(), ids=UNFILLED)
def test_an_unfilled_setting_has_a_problem(setting, message):
    others = [{"env": "ABSENT", "default": 1}]
    values, variables = environment.fill({"key": setting, "other": others})
    assert values["other"] == [1]
    assert [*variables] == [("other", 0)]
    (problem,) = environment.unfilled(values)
    assert message in str(problem)


@pytest.mark.parametrize("text", ["[1]", "{a: b}", "{<<: {a: b}}"])
def test_lists_and_mappings_are_no_values(monkeypatch, text):
    monkeypatch.setenv("FUZZED", text)
    with pytest.raises(ConfigurationError, match="FUZZED does not hold a plain value"):
        Reranker.from_config({"method": "lexical", "depth": {"env": "FUZZED"}})


def test_every_absent_variable_is_listed():
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"method": {"env": "ABSENT"}, "render": {"prefix": {"env": "EMPTY"}}})
    paths = [problem.path for problem in caught.value.problems]
    assert paths == [("method",), ("render", "prefix")]


ASKED = {"llm": Model(timeout=1.0)}
MODEL = {"flat": {"model": Override("m", ("method.model", "method.llm.model"))}}
GRADED = {"type": "graded", "llm": {"type": "openai", "timeout": {"env": "ABSENT"}}}
TAKEN = {
    # a configuration and other arguments of resolve; the place of the absent variable
    "method": ({"method": {"env": "ABSENT"}}, MODEL, "method.type"),
    "type": ({"method": {"type": {"env": "ABSENT"}}}, MODEL, "method.type"),
    "type beside a model": ({"method": {"type": {"env": "ABSENT"}}}, ASKED, "method.type"),
    "timeout of a replaced model": ({"method": GRADED}, ASKED, "method.llm.timeout"),
    "preset": ({"preset": {"env": "ABSENT"}}, MODEL, "preset"),
}


@pytest.mark.parametrize(("described", "others", "place"), TAKEN.values(), ids=TAKEN)
def test_an_absent_variable_is_named_where_used(described, others, place):
    with pytest.raises(ConfigurationError) as caught:
        config.resolve(described, **others)
    message = f"configuration: {place}: the environment variable ABSENT is not set"
    assert str(caught.value).startswith(message)


def test_an_absent_variable_may_be_replaced(tmp_path):
    path = tmp_path / "rerank.yaml"
    path.write_text(
        "method: {type: graded, llm: {type: openai, model: {env: ABSENT}}}\ntop_k: {env: ABSENT}"
    )
    flat = {"top_n": Override(3, ("top_k",))}
    reranker = config.resolve(path, **ASKED, flat=flat)
    assert (reranker.top_k, reranker.method.llm.name) == (3, "model")


HELD = {"env": "SOME_VARIABLE"}
HIDDEN = {
    "depth": ({"method": "lexical", "depth": HELD}, {}),
    "order": ({"method": "lexical", "order": HELD}, {}),
    "fallback": ({"method": "lexical", "fallback": HELD}, {}),
    "type": ({"method": {"type": HELD}}, {}),
    "method": ({"method": HELD}, {}),
    "method under a parameter": ({"method": HELD}, MODEL),
    "fallback beside a model": ({"method": "graded", "fallback": HELD}, ASKED),
    "with a default": ({"method": {"type": "lexical", "k1": {**HELD, "default": 1.2}}}, {}),
    "preset": ({"preset": HELD}, {}),
}


@pytest.mark.parametrize(("described", "others"), HIDDEN.values(), ids=HIDDEN)
def test_wrong_values_are_not_shown(described, others):
    with pytest.raises(ConfigurationError, match="SOME_VARIABLE") as caught:
        config.resolve(described, **others)
    assert "SECRET" not in str(caught.value)


def test_numbers_are_not_shown(monkeypatch):
    monkeypatch.setenv("DEPTH", "-54321")
    with pytest.raises(ConfigurationError, match="variable DEPTH") as caught:
        Reranker.from_config({"method": "lexical", "depth": {"env": "DEPTH"}})
    assert "54321" not in str(caught.value)


@pytest.mark.parametrize("value", ["x", "a", "lexcial-preset"])
def test_hiding_a_value_keeps_the_message(monkeypatch, value):
    monkeypatch.setenv("PRESET", value)
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"preset": {"env": "PRESET"}})
    message = str(caught.value)
    assert message.startswith("configuration: preset: no preset is named what it holds; ")
    assert ", ".join(sorted(config.preset_names())) in message
    assert "lexcial" not in message


def test_a_wrong_default_is_named_as_such():
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"method": "lexical", "depth": {"env": "ABSENT", "default": 0}})
    assert str(caught.value) == (
        "configuration: depth: must be greater than or equal to 1, not 0 "
        "(the default of the environment variable ABSENT)"
    )


def test_foreign_settings_are_complete():
    """Every setting that takes any mapping is listed."""
    for family in ("methods", "llms", "terms", "orderings", "contexts"):
        for name in registry.names(family):
            properties = model_of(registry.kind(family, name)).model_json_schema()["properties"]
            for key, part in properties.items():
                options = part.get("anyOf", [part])
                if any(option.get("additionalProperties") is True for option in options):
                    assert key in environment.FOREIGN


def test_optional_variables_stay_optional():
    names = OptionalVariables(["NO_SUCH_KEY"])
    values, _ = environment.fill({"method": {"api_key_env": names}})
    assert values["method"]["api_key_env"] is names


ADDRESS = "https://host.example/v1?key=sk-live-0123456789"
ASKS = {"type": "graded", "llm": {"type": "openai", "model": "m", "base_url": {"env": "ADDRESS"}}}
API = {"type": "endpoint", "api": "cohere", "model": "m", "base_url": {"env": "ADDRESS"}}
WITH_ADDRESS = {
    "a language model": {"method": ASKS},
    "an API": {"method": API},
    "a fallback": {"method": {"type": "lexical"}, "fallback": [{**API, "floor": 0.1}]},
    "a stage": {"method": {"type": "cascade", "stages": [{"type": "lexical"}, ASKS]}},
}


@pytest.mark.parametrize("described", WITH_ADDRESS.values(), ids=WITH_ADDRESS)
def test_an_address_with_a_key_is_written_by_name(monkeypatch, described):
    monkeypatch.setenv("ADDRESS", ADDRESS)
    reranker = Reranker.from_config(described)
    moved = Reranker(reranker.method, fallback=reranker.fallback)
    copies = [copy.copy(reranker), copy.deepcopy(reranker), reranker.changed(), moved]
    for each in (reranker, *copies, pickle.loads(pickle.dumps(reranker))):
        assert each.to_config() == described
    objects = {"method": reranker.method, "fallback": reranker.fallback}
    assert saved(objects, "reranker") == {"fallback": [], **described}
    assert "0123456789" not in repr(vars(reranker))


@pytest.mark.parametrize("described", WITH_ADDRESS.values(), ids=WITH_ADDRESS)
def test_an_address_with_a_key_of_python_is_not_written(described):
    literal = json.loads(json.dumps(described).replace('{"env": "ADDRESS"}', f'"{ADDRESS}"'))
    reranker = Reranker.from_config(literal)
    objects = {"method": reranker.method, "fallback": reranker.fallback}
    for write in (Reranker.to_config, pickle.dumps, lambda _: saved(objects, "reranker")):
        with pytest.raises(NotSerializableError, match=r"base_url: holds a key") as caught:
            write(reranker)
        assert "0123456789" not in str(caught.value)


WITH_ORDERS = {
    "method": {"type": "lexical"},
    "orders": {"a": {"type": "lost_in_the_middle"}, "b": {"type": "lost_in_the_middle"}},
}


def test_a_changed_setting_is_written_with_its_value(monkeypatch):
    monkeypatch.setenv("SIZE", "7")
    named = {"top_k": {"env": "SIZE"}, "order": {"env": "ABSENT", "default": "a"}}
    reranker = Reranker.from_config({**WITH_ORDERS, **named, "depth": {"env": "SIZE"}})
    assert reranker.changed(depth=7).to_config() == {**WITH_ORDERS, **named, "depth": 7}
    expected = {**WITH_ORDERS, "top_k": 5, "order": "b", "depth": {"env": "SIZE"}}
    assert reranker.changed(top_k=5, order="b").to_config() == expected


def test_a_fit_is_compared_with_the_values_of_variables(monkeypatch):
    monkeypatch.setenv("K1", "0.5")
    named = {"type": "lexical", "k1": {"env": "K1"}}, {"prefix": {"env": "SOME_VARIABLE"}}
    plain = {"type": "lexical", "k1": 0.5}, {"prefix": SECRET}
    parts = []
    for method, render in (named, plain):
        reranker = Reranker.from_config({"method": method, "render": render})
        parts.append(identity(reranker.method, None, 1, reranker.render, None))
    assert parts[0] == parts[1]


NAMED = {"method": {"env": "M"}}


@pytest.mark.parametrize(
    "config",
    [
        {"method": {"type": "cascade", "stages": ["lexical", NAMED]}},
        {"method": "lexical", "fallback": [NAMED]},
    ],
    ids=["a stage", "a fallback"],
)
def test_a_variable_in_place_of_a_method_is_written_by_name(monkeypatch, config):
    monkeypatch.setenv("M", "lexical")
    written = Reranker.from_config(config).to_config()
    assert '{"env": "M"}' in json.dumps(written)
    assert Reranker.from_config(written).to_config() == written
