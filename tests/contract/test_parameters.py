"""Flat parameters: each reaches its setting, is written, and cannot be set twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from contract import Answers, Numbers, first, needs, numbered, places
from secondpass import ConfigurationError, Reranker
from secondpass.adapters.parameters import PATHS


def config_of(adapter: Any, component: Any) -> dict[str, Any]:
    return adapter.core(component).to_config()


def setting(config: Any, place: str) -> Any:
    for step in place.split("."):
        config = config.get(step) if isinstance(config, dict) else None
    return config


LLM = {"type": "openai", "model": "m"}
CROSS = {"method": {"type": "cross_encoder"}}
REACHED = [
    # the reranker; a parameter; its value; the place of its setting
    (CROSS, "model", "some/model", "method.model"),
    (CROSS, "model", Path("some/model"), "method.model"),
    ("default", "model", "some/model", "method.model"),
    ("default", "batch_size", 4, "method.batch_size"),
    ("graded_passages", "model", "gemini-x", "method.llm.model"),
    ("graded_passages", "batch_size", 5, "method.batch_size"),
    ("listwise_guided", "model", "claude-x", "method.llm.model"),
    ("listwise_guided", "batch_size", 5, "method.window"),
    ("cohere", "model", "rerank-x", "method.model"),
    ("tei", "batch_size", 5, "method.batch_size"),
    (CROSS, "trust_remote_code", True, "method.trust_remote_code"),
    ("default", "strict", True, "strict"),
    ("accurate", "strict", True, "strict"),
    ({"method": {"type": "lexical", "k1": 0.5}}, "strict", True, "strict"),
]


@needs("parameters")
@pytest.mark.parametrize(("reranker", "name", "value", "place"), REACHED)
def test_a_parameter_reaches_its_setting_and_is_written_once(
    adapter: Any, reranker: Any, name: str, value: Any, place: str
) -> None:
    component = adapter.make(reranker, **{name: value})
    own = adapter.names.get(name, name)
    assert place in PATHS[own]
    config = config_of(adapter, component)
    assert setting(config, place) == (str(value) if isinstance(value, Path) else value)
    text = adapter.save(component)
    again = adapter.load(text)
    assert config_of(adapter, again) == config
    assert str(getattr(again, own)) == str(value)
    assert adapter.save(again) == text
    assert config_of(adapter, adapter.make(reranker)) != config


@needs("parameters")
def test_a_preset_with_another_model_has_its_limit(adapter: Any) -> None:
    component = adapter.make("default", model="some/model")
    assert config_of(adapter, component)["method"].keys() == {"type", "model"}
    again = adapter.load(adapter.save(component))
    assert config_of(adapter, again) == config_of(adapter, component)


CALLS = [("top_k", 2), ("depth", 2), ("floor", 0.25), ("dedupe", True), ("dedupe", False)]


@needs("parameters")
@pytest.mark.parametrize(("name", "value"), CALLS)
def test_a_parameter_of_calls_is_written_and_can_be_assigned(
    adapter: Any, name: str, value: Any
) -> None:
    component = adapter.make("lexical", **{name: value})
    own = adapter.names[name]
    assert PATHS[own] == (name,)
    again = adapter.load(adapter.save(component))
    assert getattr(again, own) == value
    assigned = adapter.make("lexical")
    setattr(assigned, own, value)
    assert getattr(adapter.load(adapter.save(assigned)), own) == value
    documents = numbered(adapter, 1, 2, 3, 4, 5, ids="abcda")
    way = first(adapter)
    results = [adapter.run(one, way, "3", documents)[0] for one in (component, again, assigned)]
    plain = [[adapter.carried(one) for one in ranked] for ranked in results]
    assert plain[0] == plain[1] == plain[2]
    assert plain[0] != [
        adapter.carried(one) for one in adapter.run(adapter.make("lexical"), way, "3", documents)[0]
    ] or value is (adapter.name == "haystack")


@needs("parameters")
@pytest.mark.parametrize(("name", "value"), CALLS)
def test_none_leaves_a_parameter_of_calls_to_the_configuration(
    adapter: Any, name: str, value: Any
) -> None:
    component = adapter.make("lexical", **{name: value})
    setattr(component, adapter.names[name], None)
    assert adapter.save(component) == adapter.save(adapter.make("lexical"))
    documents = numbered(adapter, 1, 2, 3, 4, 5, ids="abcda")
    results = [
        adapter.run(one, first(adapter), "3", documents)[0]
        for one in (component, adapter.make("lexical"))
    ]
    plain = [[adapter.carried(one) for one in ranked] for ranked in results]
    assert plain[0] == plain[1]


TWICE = [
    # a parameter, its value, and a mapping that has its setting
    ("top_k", 3, {"top_k": 3}),
    ("depth", 3, {"depth": 3}),
    ("floor", 0.0, {"floor": 0.1}),
    ("dedupe", False, {"dedupe": True}),
    ("strict", True, {"strict": False}),
]


@needs("parameters")
@pytest.mark.parametrize(("name", "value", "mapping"), TWICE)
def test_a_setting_given_twice_is_refused(
    adapter: Any, name: str, value: Any, mapping: dict[str, Any]
) -> None:
    own = adapter.names[name]
    both = rf"(?s){own}.*'?{name}"
    config = {"method": "lexical", **mapping}
    with pytest.raises(ConfigurationError, match=both):
        adapter.make(config, **{name: value})
    if name != "strict":  # which cannot be assigned at all
        component = adapter.make(config)
        with pytest.raises(ValueError, match=both):
            setattr(component, own, value)
    if not (name == "dedupe" and adapter.name == "haystack"):  # where it is passed with each call
        with pytest.raises(ConfigurationError, match=both):
            adapter.make(Reranker("lexical", **mapping), **{name: value})
    adapter.make({"method": "lexical"}, **{name: value})


PLACES = [
    # the reranker; a parameter; what the message names
    ({"method": {"type": "cross_encoder", "model": "m"}}, {"model": "x"}, "'method.model'"),
    ({"method": {**CROSS["method"], "batch_size": 4}}, {"batch_size": 4}, "'method.batch_size'"),
    ({"method": {"type": "graded", "llm": LLM}}, {"model": "x"}, "'method.llm.model'"),
    ({"method": {"type": "listwise", "window": 4, "llm": LLM}}, {"batch_size": 5}, "method.window"),
    (Reranker("lexical"), {"model": "x"}, "ready Reranker"),
    (Reranker("lexical"), {"batch_size": 4}, "ready Reranker"),
    ("lexical", {"model": "x"}, "'lexical' has no such"),
    ("lexical", {"batch_size": 5}, "'lexical' has no such"),
    ("accurate", {"model": "x"}, "cascade.*its stages do"),
    ({"method": Numbers()}, {"model": "x"}, "its own settings"),
]  # fmt: skip


@needs("parameters")
@pytest.mark.parametrize(("reranker", "settings", "message"), PLACES)
def test_a_parameter_without_a_place_is_refused(
    adapter: Any, reranker: Any, settings: dict[str, Any], message: str
) -> None:
    (name,) = settings
    with pytest.raises(ConfigurationError, match=f"(?s){adapter.names[name]}.*{message}"):
        adapter.make(reranker, **settings)


@needs("parameters")
def test_parameters_override_presets_and_files(adapter: Any, tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    config = {"top_k": 1, "floor": 9, "depth": 1, "dedupe": True, "method": "lexical"}
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    component = adapter.make(file, top_k=4, floor=-1.0, depth=5, dedupe=False)
    documents = numbered(adapter, 1, 2, 3, 4, 5, ids="abcaa")
    ranked, _ = adapter.run(component, first(adapter), "5", documents)
    assert places(adapter, ranked) == [4, 0, 1, 2]


WRONG = [
    *[("top_k", value) for value in (0, -1, 1.5, "3", True)],
    *[("depth", value) for value in (0, 1.5, "3", True)],
    *[("floor", value) for value in ("high", float("nan"), True)],
    ("dedupe", "perhaps"),
    ("strict", 5),
    ("batch_size", 0),
    ("model", 3),
    ("trust_remote_code", "yes"),
]


@needs("parameters")
@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_when_it_is_given(adapter: Any, name: str, value: Any) -> None:
    own = adapter.names.get(name, name)
    if (adapter.name, name) != ("llama_index", "model"):  # anything that a path may be
        with pytest.raises(ValueError, match=own):
            adapter.make({"method": "cross_encoder"}, **{name: value})
    if name in {"top_k", "depth", "floor", "dedupe"}:
        component = adapter.make("lexical")
        before = adapter.save(component)
        with pytest.raises(ValueError, match=own):
            setattr(component, own, value)
        assert adapter.save(component) == before


@needs("parameters")
@pytest.mark.parametrize("name", ["reranker", "model", "device", "batch_size", "strict", "llm"])
def test_parameters_of_the_construction_are_frozen(adapter: Any, name: str) -> None:
    component = adapter.make("lexical")
    before = adapter.save(component)
    own = adapter.names.get(name, name)
    with pytest.raises(adapter.frozen, match=own):
        setattr(component, own, "other")
    assert adapter.save(component) == before


@needs("parameters")
@pytest.mark.parametrize(("wrong", "message"), [("lexicla", "lexical"), (42, "preset name")])
def test_a_wrong_reranker_is_refused_at_once(adapter: Any, wrong: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        adapter.make(wrong)


@needs("parameters")
def test_a_misspelt_parameter_gets_the_nearest_one(adapter: Any) -> None:
    kind = type(adapter.make("lexical"))
    meant = adapter.names["top_k"]
    with pytest.raises(adapter.unknown, match=f"topk: unknown argument; did you mean '{meant}'"):
        kind("lexical", topk=1)


@needs("parameters")
def test_without_a_language_model_the_message_names_the_parameter(adapter: Any) -> None:
    own = adapter.names["llm"]
    with pytest.raises(ConfigurationError, match=rf"method\.llm: is required, .*{own}="):
        adapter.make({"method": "graded"})


def test_top_k_is_checked(adapter: Any) -> None:
    with pytest.raises(ValueError, match=r"top_(k|n)"):
        adapter.make(Reranker("lexical"), top_k=0)
    with pytest.raises((ConfigurationError, TypeError, ValueError)):
        adapter.make({"method": Answers([])}, nonsense=1)
