"""What is written and loaded again, copies, and keys, which stand in neither."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract import QUERY, Numbers, first, needs, numbered, places, quiet
from secondpass import Limits, MissingExtraError, NotSerializableError, Reranker
from secondpass.config import preset_names
from secondpass.extend import Cascade, LostInTheMiddle

KEY = "sk-secret-0123456789"
TIERS = {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}

LLM = {"type": "openai", "model": "m"}
MADE: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"preset {name}": (name, {"top_k": 7}) for name in preset_names()},
    "a mapping": (
        {
            "method": {"type": "lexical", "k1": 0.5},
            "order": TIERS,
            "fallback": [{"type": "lexical", "floor": 0.1}],
            "limits": {"deadline": 5},
            "blend": {"original": 0.2, "normalize": "minmax"},
        },
        {"floor": 0.5, "top_k": 3, "depth": 10, "dedupe": False, "prefix": "x_"},
    ),
    "a cascade": (
        {"method": {"type": "cascade", "stages": ["lexical", {"type": "graded", "llm": LLM}]}},
        {"strict": True},
    ),
    "a model": ("default", {"model": "some/model", "batch_size": 3}),
    "an API": ({"method": {"type": "endpoint", "api": "cohere"}}, {"model": "m", "dedupe": True}),
    "ready": (Reranker.from_preset("lexical", floor=0.1, depth=5), {"top_k": 1}),
    "ready, with all": (Reranker("lexical", top_k=2, depth=None, order="lost_in_the_middle"), {}),
    "windows": ({"method": {"type": "lexical"}, "passages": {"size": 20, "overlap": 0}}, {}),
}


def made(adapter: Any, name: str) -> Any:
    try:
        return adapter.make(MADE[name][0], **MADE[name][1])
    except MissingExtraError as error:
        pytest.skip(f"the extra {error.extra!r} is not installed")


@needs("saving")
@pytest.mark.parametrize("name", MADE)
def test_every_way_round_gives_the_same(adapter: Any, name: str) -> None:
    component = made(adapter, name)
    text = adapter.save(component)
    others = {
        "saved": adapter.load(text),
        "pickled": pickle.loads(pickle.dumps(component)),
        "copied": copy.copy(component),
        "copied deeply": copy.deepcopy({"inside": [component]})["inside"][0],
    }
    config = adapter.core(component).to_config()
    for way, other in others.items():
        assert other is not component
        assert adapter.save(other) == text, way
        written = adapter.core(other).to_config()
        if not isinstance(MADE[name][0], Reranker) or adapter.name == "llama_index":
            assert written == config, way
    if name in {"a mapping", "windows", "ready", "ready, with all", "preset lexical"}:
        way = first(adapter)
        results = [
            [adapter.carried(one) for one in adapter.run(each, way, "2", documents(adapter))[0]]
            for each in (component, *others.values())
        ]
        assert all(one == results[0] for one in results)


def documents(adapter: Any) -> list[Any]:
    given = numbered(adapter, 1, 2, 3)
    for document, level in zip(given, ("hard", "easy", "hard"), strict=True):
        adapter.carried(document).metadata["level"] = level
    return given


@needs("saving")
def test_a_configuration_is_not_shared_with_the_caller(adapter: Any) -> None:
    config: dict[str, Any] = {"method": {"type": "lexical", "k1": 0.5}, "depth": 10}
    before = copy.deepcopy(config)
    component = adapter.make(config, top_k=2)
    assert config == before
    text = adapter.save(component)
    copied = copy.deepcopy(component)
    config["depth"] = 20
    config["method"]["k1"] = 0.7
    assert adapter.save(component) == adapter.save(copied) == text


@needs("saving")
@pytest.mark.parametrize("make", [lambda: Reranker(Numbers()), lambda: {"method": Numbers()}])
def test_an_object_without_a_name_is_not_saved_but_copied(
    adapter: Any, make: Callable[[], Any]
) -> None:
    component = adapter.make(make(), top_k=1)
    with pytest.raises(NotSerializableError, match="method: a Numbers has no registered name"):
        adapter.save(component)
    for copied in (copy.copy(component), copy.deepcopy(component)):
        assert copied is not component
        setattr(copied, adapter.names["top_k"], 2)
        way = first(adapter)
        for one, expected in ((component, [2]), (copied, [2, 1])):
            ranked, _ = adapter.run(one, way, QUERY, numbered(adapter, 1, 2, 3))
            assert places(adapter, ranked) == expected


@needs("saving")
def test_copying_and_saving_load_no_model(adapter: Any, tmp_path: Path) -> None:
    component = adapter.make(quiet("cross_encoder"), model=tmp_path / "absent")
    copies = [copy.deepcopy(component), pickle.loads(pickle.dumps(component))]
    for one in (component, *copies, adapter.load(adapter.save(component))):
        assert adapter.core(one).method.scorer.engine is None


@needs("saving")
def test_variables_and_files_are_saved_by_name(
    adapter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("{method: lexical, depth: 4}")
    monkeypatch.setenv("THE_DEPTH", "4")
    variable = {"method": "lexical", "depth": {"env": "THE_DEPTH"}}
    saved = [adapter.save(adapter.make(passed, top_k=2)) for passed in (file, variable)]
    file.write_text("{method: lexical, depth: 5}")
    monkeypatch.setenv("THE_DEPTH", "5")
    for text in saved:
        loaded = adapter.load(text)
        assert adapter.core(loaded).depth == 5
        assert adapter.save(loaded) == text


@needs("saving")
def test_objects_in_a_mapping_are_saved_by_their_names(adapter: Any) -> None:
    config = {
        "method": Cascade(["lexical", {"type": "lexical", "depth": 9}]),
        "order": LostInTheMiddle(),
        "limits": Limits(deadline=5),
        "fallback": [{"type": "lexical"}],
    }
    component = adapter.make(config)
    text = adapter.save(component)
    assert adapter.core(adapter.load(text)).to_config() == adapter.core(component).to_config()
    assert all(f'"{name}"' in text for name in ("cascade", "lost_in_the_middle", "deadline"))


ADDRESS = f"https://host/v1?api_key={KEY}"
ASKS = {"type": "graded"}
IN_A_MAPPING: dict[str, Callable[[], Any]] = {
    "options": lambda: {
        "method": {"type": "graded", "llm": {**LLM, "options": {"extra_headers": {"Token": KEY}}}}
    },
    "an address": lambda: {"method": {"type": "graded", "llm": {**LLM, "base_url": ADDRESS}}},
    "an address, ready": lambda: Reranker({**ASKS, "llm": {**LLM, "base_url": ADDRESS}}),
    "an address by variable": lambda: {
        "method": {**ASKS, "llm": {**LLM, "base_url": {"env": "ADDRESS"}}}
    },
    "an address by variable, ready": lambda: Reranker.from_config(
        {"method": {**ASKS, "llm": {**LLM, "base_url": {"env": "ADDRESS"}}}}
    ),
    "an address by variable, in an object": lambda: {
        "method": Reranker.from_config(
            {"method": {**ASKS, "llm": {**LLM, "base_url": {"env": "ADDRESS"}}}}
        ).method
    },
    "an API": lambda: {
        "method": {"type": "endpoint", "api": "cohere", "model": "m", "api_key": KEY}
    },
    "a fallback": lambda: {
        "method": "lexical",
        "fallback": [{"type": "graded", "llm": {"type": "openai", "model": "m", "api_key": KEY}}],
    },
    "ready": lambda: Reranker({"type": "endpoint", "api": "cohere", "model": "m", "api_key": KEY}),
}


@needs("saving")
@pytest.mark.parametrize("make", IN_A_MAPPING.values(), ids=IN_A_MAPPING)
def test_no_key_is_written_or_shown(
    adapter: Any, make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADDRESS", ADDRESS)
    component = adapter.make(make())
    ways: list[Callable[[Any], Any]] = [adapter.save, pickle.dumps, repr, str, copy.deepcopy]
    for way in ways:
        try:
            shown = repr(way(component))
        except ValueError as error:
            shown = "".join(traceback.format_exception(error))
            assert "key" in shown
        assert KEY not in shown
