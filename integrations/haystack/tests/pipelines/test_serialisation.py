"""Pipelines that are saved and loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from haystack import Pipeline
from haystack.components.generators.chat import (
    FallbackChatGenerator,
    MockChatGenerator,
    OpenAIChatGenerator,
)
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

import haystack_two
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import MissingExtraError
from secondpass.config import preset_names


def openai_generator(model: str) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(api_key=Secret.from_env_var("A_SECRET_KEY"), model=model)


SAVED: dict[str, Callable[[], SecondPassRanker]] = {
    **{f"preset {name}": partial(SecondPassRanker, name) for name in preset_names()},
    "flat": lambda: SecondPassRanker(
        "lexical",
        top_k=2,
        depth=7,
        score_threshold=-1.0,
        meta_fields_to_embed=["page"],
        embedding_separator=" | ",
        query_prefix="q: ",
        query_suffix="?",
        document_prefix="d: ",
        document_suffix=".",
        dedupe=False,
        meta_prefix="second_",
        raise_on_failure=True,
    ),
    "flat token": lambda: SecondPassRanker(
        "cohere", model="other", token=Secret.from_env_var("A_SECRET_KEY"), top_k=2
    ),
    "openai": lambda: SecondPassRanker("listwise_guided", chat_generator=openai_generator("one")),
    "fallback of two": lambda: SecondPassRanker(
        {"method": "listwise", "depth": 5},
        chat_generator=FallbackChatGenerator([openai_generator("one"), openai_generator("two")]),
    ),
    "mock": lambda: SecondPassRanker(
        {"method": {"type": "graded", "scale": [0, 3]}}, chat_generator=MockChatGenerator("{}")
    ),
    "mock of messages": lambda: SecondPassRanker(
        {"method": "listwise"},
        chat_generator=MockChatGenerator([ChatMessage.from_assistant("{}"), "[]"], model="m"),
    ),
    "cascade": lambda: SecondPassRanker(
        {
            "method": {"type": "cascade", "stages": ["lexical", {"type": "listwise", "depth": 2}]},
            "blend": {"original": 0.2, "normalize": "minmax"},
            "orders": {"learn": {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}},
            "limits": {"deadline": 5},
        },
        chat_generator=MockChatGenerator("{}"),
    ),
}

LOADING = """
import json, sys

sys.modules["torch"] = None  # not needed here, and slow to import
from haystack import Pipeline

results = {}
for name, text in json.load(sys.stdin).items():
    try:
        results[name] = Pipeline.loads(text).dumps()
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"
json.dump(results, sys.stdout)
"""


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, tuple[str, str]]:
    """Each saved pipeline, and what an interpreter that never saw this module makes of it."""
    texts = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A_SECRET_KEY", "sk-very-secret")
        for name, make in SAVED.items():
            pipeline = Pipeline()
            try:
                pipeline.add_component("ranker", make())
            except MissingExtraError:
                continue
            texts[name] = pipeline.dumps()
    done = subprocess.run(
        [sys.executable, "-c", LOADING],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    return {name: (text, loaded[name]) for name, text in texts.items()}


# Haystack 2 makes clients when it loads, which wants keys.
@haystack_two.needs_three
@pytest.mark.parametrize("name", SAVED)
def test_saved_pipelines_load_in_a_new_process(
    name: str, elsewhere: dict[str, tuple[str, str]]
) -> None:
    if name not in elsewhere:
        pytest.skip("an extra is not installed")
    saved, loaded = elsewhere[name]
    assert loaded == saved
    assert "sk-very-secret" not in saved
    assert ("A_SECRET_KEY" in saved) == (name in {"flat token", "openai", "fallback of two"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: SecondPassRanker("cohere", token=Secret.from_token("sk-very-secret")),
        lambda: SecondPassRanker(
            {"method": "listwise"},
            chat_generator=OpenAIChatGenerator(api_key=Secret.from_token("sk-very-secret")),
        ),
    ],
    ids=["token", "chat generator"],
)
def test_saving_a_plain_token_is_refused_with_a_reason(make: Any) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", make())
    with pytest.raises(Exception, match="Cannot serialize token-based secret") as raised:
        pipeline.dumps()
    chain: BaseException | None = raised.value
    while chain is not None:
        assert "sk-very-secret" not in str(chain)
        chain = chain.__cause__ or chain.__context__
