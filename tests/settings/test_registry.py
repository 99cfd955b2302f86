"""Kinds by name: built in, and registered by other packages."""

from importlib.metadata import EntryPoint
from typing import Annotated

import pytest
from annotated_types import Ge

from secondpass import ConfigurationError, Reranker, config
from secondpass.settings import configurable, model_of, registry
from secondpass.settings.name_hints import name_hint


@configurable
class Added:
    model_name = "added"

    def __init__(self, *, size: Annotated[int, Ge(1)] = 3) -> None:
        self.size = size

    def score_pairs(self, query, documents):
        return [float(self.size)] * len(documents)


@pytest.fixture
def register(monkeypatch):
    """Registers ``added`` under an import path; what loads is another class if one is given."""

    def register(path, cls=None):
        point = EntryPoint("added", path, "secondpass.methods")
        if cls is not None:
            monkeypatch.setattr(EntryPoint, "load", lambda self: cls)
        monkeypatch.setattr(registry, "_entry_points", lambda family: {"added": point})

    return register


def test_entry_points_add_kinds(register):
    register(f"{Added.__module__}:{Added.__qualname__}", Added)
    reranker = Reranker.from_config({"method": {"type": "added", "size": 4}})
    assert reranker.rerank("q", ["a"])[0].rerank_score == 4.0
    assert reranker.to_config() == {"method": {"type": "added", "size": 4}}
    with pytest.raises(ConfigurationError, match=r"method\.size: must be greater"):
        Reranker.from_config({"method": {"type": "added", "size": 0}})


def test_a_broken_package_is_named(register):
    register("no_such_package:Any")
    with pytest.raises(ConfigurationError, match=r"'added' cannot be loaded \(ModuleNotFound"):
        Reranker("added")
    assert "added" in str(config.json_schema())


@pytest.mark.parametrize("family", ["methods", "llms", "terms", "orderings", "contexts"])
def test_built_in_kinds_are_configurable(family):
    for name in registry.names(family):
        cls = registry.kind(family, name)
        assert model_of(cls).model_json_schema()["additionalProperties"] is False
        assert cls.__module__.startswith("secondpass.")


USED = {
    "hub": (
        "BAAI/bge-reranker-base",
        "{'type': 'cross_encoder', 'model': 'BAAI/bge-reranker-base'}",
    ),
    "openai": ("gpt-4.1-mini", "'llm': {'type': 'openai', 'model': 'gpt-4.1-mini'}"),
    "anthropic": ("claude-haiku-4-5", "'llm': {'type': 'anthropic', 'model': 'claude-haiku-4-5'}"),
    "provider": ("google", "'llm': {'type': 'google', 'model': …}"),
    "cohere": ("rerank-v3.5", "{'type': 'endpoint', 'api': 'cohere', 'model': 'rerank-v3.5'}"),
    "LiteLLM's openai": ("openai/gpt-4o", "'llm': {'type': 'openai', 'model': 'gpt-4o'}"),
    "LiteLLM's azure": (
        "azure/gpt-4o",
        "'llm': {'type': 'openai', 'model': 'gpt-4o', 'base_url': …}",
    ),
    "LiteLLM's anthropic": ("anthropic/claude-3", "{'type': 'anthropic', 'model': 'claude-3'}"),
    "LiteLLM's gemini": ("gemini/gemini-2.5-flash", "{'type': 'google', 'model': 'gemini-2.5-fl"),
    "LiteLLM's cohere": ("cohere/rerank-v3.5", "'api': 'cohere', 'model': 'rerank-v3.5'}"),
    "Ollama": ("qwen3:8b", "'llm': {'type': 'openai', 'model': 'qwen3:8b', 'base_url': …}"),
    "Ollama's gpt": ("gpt-oss:20b", "{'type': 'openai', 'model': 'gpt-oss:20b', 'base_url': …}"),
    "open weights": ("openai/gpt-oss-20b", "'model': 'openai/gpt-oss-20b', 'base_url': …}"),
    "rerank API": ("contextual", "{'type': 'endpoint', 'api': 'contextual', 'model': …}"),
}
UNKNOWN = [
    "some/rerank.yaml",
    "some/rerank.json",
    "./rerank",
    "/models/rerank",
    "~/rerank",
    "openai/",
    "azure/",
    "cohere/",
    "",
    "rerank",
]


@pytest.mark.parametrize(("name", "use"), USED.values(), ids=USED)
def test_a_name_of_another_kind_is_explained(name, use):
    assert "use Reranker({'type'" in name_hint(name)
    assert use in name_hint(name)


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_names_are_not_guessed_at(name):
    assert name_hint(name) == ""


@pytest.mark.parametrize("name", ["./mymodel", "mymodel", "a/b/mymodel"])
@pytest.mark.parametrize("entry", [Reranker, Reranker.from_preset, config.resolve])
def test_the_folder_of_a_model(entry, name, tmp_path, monkeypatch):
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        entry(name)
    assert f"{{'type': 'cross_encoder', 'model': {name!r}}}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("cross-encoder/some-model", "use Ranker(model='cross-encoder/some-model')"),
        ("gpt-4o", "use Ranker({'method': {'type': 'graded', 'llm': {"),
        ("./lexical.yaml", "there is no such file or preset: ./lexical.yaml"),
    ],
)
def test_an_adapter_is_named_in_the_place_of_reranker(name, use):
    with pytest.raises(ConfigurationError) as caught:
        config.resolve(name, caller="Ranker")
    assert use in str(caught.value)
    assert "Reranker(" not in str(caught.value)


def test_a_name_in_the_place_of_a_language_model():
    with pytest.raises(ConfigurationError) as caught:
        Reranker({"type": "graded", "llm": "claude-sonnet-4-5"})
    assert "{'type': 'anthropic', 'model': 'claude-sonnet-4-5'}" in str(caught.value)
