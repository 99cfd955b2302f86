"""Prompts of methods by name, wherever the methods stand."""

import pytest

from secondpass import ConfigurationError, Reranker
from secondpass.adapters import prompts_of, with_prompts


def model(_messages):
    return ""


STAGES = ["lexical", {"type": "graded", "llm": model, "depth": 5}]
RERANKER = Reranker(
    {"type": "cascade", "stages": STAGES}, fallback=[{"type": "listwise", "llm": model}]
)
NAMES = [
    f"{method}_{part}_prompt"
    for method in ("stage_1", "fallback_0")
    for part in ("system", "user", "instruction")
]


def test_every_prompt_has_a_name():
    assert list(prompts_of(RERANKER)) == NAMES
    assert all(isinstance(prompt, str) for prompt in prompts_of(RERANKER).values())
    assert prompts_of(Reranker("lexical")) == {}


@pytest.mark.parametrize("name", NAMES)
def test_one_is_changed_alone(name):
    text = "{query} {documents} {reply} {instruction}" if "user" in name else "As asked."
    changed = prompts_of(with_prompts(RERANKER, {name: text}))
    assert changed == {**prompts_of(RERANKER), name: text}
    function = prompts_of(with_prompts(RERANKER, {name: model}))[name]
    assert function is model


def test_without_prompts_it_is_the_same_reranker():
    assert with_prompts(RERANKER, {}) is RERANKER


@pytest.mark.parametrize(
    ("name", "prompt", "message"),
    [
        ("system_prompt", "x", "system_prompt: no prompt has this name; did you mean"),
        ("stage_1_user_prompt", "{querry}", "user: .*'query'"),
        ("fallback_0_user_prompt", 3, "user: .*template"),
    ],
)
def test_wrong_prompts_are_refused(name, prompt, message):
    with pytest.raises(ConfigurationError, match=f"(?s){message}"):
        with_prompts(RERANKER, {name: prompt})
