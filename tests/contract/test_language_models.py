"""The framework's own language models: asked, kept, saved and survived."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from contract import QUERY, WAYS, first, needs, numbered, places, quiet, says
from secondpass import ConfigurationError, Reranker


def numbers_in(messages: list[dict[str, Any]]) -> dict[str, float]:
    """The passages that a model was shown: label -> its number."""
    shown = re.findall(r'<doc id="([^"]*)">([^<]*)</doc>', messages[-1]["content"])
    return {label: float(text.rsplit(maxsplit=1)[-1]) for label, text in shown}


class Model:
    """Answers by the numbers of the passages, in the form asked for; notes what it was asked."""

    def __init__(self, **usage: int) -> None:
        self.usage = usage
        self.asked: list[list[dict[str, Any]]] = []
        self.where: list[Any] = []
        self.error: Exception | None = None

    def __call__(self, messages: list[dict[str, Any]]) -> Any:
        self.asked.append(messages)
        try:
            self.where.append(asyncio.get_running_loop())
        except RuntimeError:
            self.where.append(threading.get_ident())
        if self.error is not None:
            raise self.error
        numbers = numbers_in(messages)
        ranking = sorted(numbers, key=lambda label: -numbers[label])
        listwise = '"ranking"' in "".join(one["content"] for one in messages)
        reply = {"ranking": ranking} if listwise else numbers
        return says(json.dumps(reply), **self.usage)


def ranked_by(adapter: Any, kind: str, config: Any, model: Callable[..., Any], **more: Any) -> Any:
    return adapter.make(config, llm=adapter.llm(kind, model), **more)


@needs("language models")
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("method", ["graded", "listwise"])
def test_a_model_of_the_framework_is_asked(adapter: Any, way: str, kind: int, method: str) -> None:
    model = Model(prompt_tokens=11, completion_tokens=7)
    component = ranked_by(adapter, adapter.llms[kind], {"method": method}, model)
    ranked, report = adapter.run(component, way, QUERY, numbered(adapter, 1, 4, 2, 3))
    assert places(adapter, ranked) == [1, 3, 2, 0]
    assert len(model.asked) == 1
    assert "castle garden" in model.asked[0][-1]["content"]
    asynchronous = way in WAYS[adapter.name]["async"]
    assert (type(model.where[0]) is not int) == (asynchronous and kind == 1)
    if report is not None:
        assert (report["status"], report["method"]) == ("ok", f"{method} by scripted")
        usage = report["usage"]
        assert (usage["calls"], usage["input_tokens"], usage["output_tokens"]) == (1, 11, 7)


@needs("language models")
def test_a_reply_that_was_refused_is_shown_to_the_model_again(adapter: Any) -> None:
    model = Model()

    def first_words(messages: list[dict[str, Any]]) -> Any:
        reply = model(messages)
        return says("Well, the second.") if len(model.asked) == 1 else reply

    component = ranked_by(adapter, adapter.llms[1], {"method": "graded"}, first_words)
    ranked, report = adapter.run(component, first(adapter), QUERY, numbered(adapter, 1, 2))
    assert places(adapter, ranked) == [1, 0]
    assert [issue["code"] for issue in report["issues"]] == ["asked_again"]
    roles = [one["role"] for one in model.asked[1]]
    assert roles == ["system", "user", "assistant", "user"]
    assert model.asked[1][2]["content"] == "Well, the second."


@needs("language models")
def test_a_refusal_to_answer_is_no_reply(adapter: Any) -> None:
    def refuse(_: list[dict[str, Any]]) -> Any:
        return says('{"a": 1}', "content_filter")

    component = ranked_by(adapter, adapter.llms[1], quiet("graded"), refuse)
    ranked, report = adapter.run(component, first(adapter), QUERY, numbered(adapter, 1, 2))
    assert places(adapter, ranked) == [0, 1]
    assert {issue["code"] for issue in report["issues"]} == {"content_filter"}


@needs("language models")
def test_the_asynchronous_side_runs_in_the_callers_loop(adapter: Any) -> None:
    model = Model()
    component = ranked_by(adapter, adapter.llms[1], {"method": "listwise"}, model)

    async def inside() -> Any:
        awaited = await adapter.arun(component, QUERY, numbered(adapter, 1, 2))
        # As evaluators do, inside a loop.
        called, _ = adapter.run(component, first(adapter), QUERY, numbered(adapter, 1, 2))
        assert places(adapter, awaited) == places(adapter, called) == [1, 0]
        return asyncio.get_running_loop()

    loop = asyncio.run(inside())
    assert model.where[0] is loop
    assert type(model.where[1]) is int


@needs("language models")
def test_it_stands_in_for_the_model_of_presets_stages_and_fallbacks(adapter: Any) -> None:
    llm = adapter.llm(adapter.llms[0], Model())
    cascade = {
        "method": {"type": "cascade", "stages": ["lexical", {"type": "listwise", "depth": 3}]},
        "fallback": ["graded"],
    }
    core = adapter.core(adapter.make(cascade, llm=llm))
    assert core.method.stages[1].method.llm.name == "scripted"
    assert core.fallback[0].method.llm.name == "scripted"
    preset = adapter.make("blended_scores", llm=llm)
    assert adapter.core(preset).method.name == "graded by scripted"
    with pytest.raises(ConfigurationError, match="no method asks one"):
        adapter.make("lexical", llm=llm)
    with pytest.raises(ConfigurationError, match="create the Reranker that you give with it"):
        adapter.make(Reranker("lexical"), llm=llm)
    with pytest.raises(ConfigurationError, match="model: the language model object has"):
        adapter.make({"method": "listwise"}, llm=llm, model="x")


@needs("language models")
def test_objects_that_are_no_model_are_refused(adapter: Any) -> None:
    kind = type(adapter.llm(adapter.llms[0], Model()))
    own = adapter.names["llm"]
    for wrong in ("gpt-4.1-mini", kind, 5, object(), {"type": "openai"}):
        with pytest.raises(ConfigurationError, match=f"{own}: give an? "):
            adapter.make({"method": "listwise"}, llm=wrong)


@needs("language models")
@pytest.mark.parametrize("option", ["context", "instruction"])
def test_context_and_instruction_of_a_call_reach_the_prompt(
    adapter: Any, way: str, option: str
) -> None:
    model = Model()
    component = ranked_by(adapter, adapter.llms[1], {"method": "listwise"}, model)
    adapter.run(component, way, QUERY, numbered(adapter, 1, 2), **{option: "about owls"})
    adapter.run(component, way, QUERY, numbered(adapter, 1, 2))
    assert [f"<{option}>about owls</{option}>" in one[-1]["content"] for one in model.asked] == [
        True,
        False,
    ]


@needs("language models")
def test_it_is_saved_or_given_again(adapter: Any) -> None:
    for reranker in (
        "listwise_guided",
        {"method": {"type": "graded", "scale": [0, 3]}},
        {"method": {"type": "listwise", "llm": {"timeout": 300}}},
    ):
        llm = adapter.llm(adapter.llms[0], Model())
        component = adapter.make(reranker, llm=llm)
        text = adapter.save(component)
        again = adapter.load(text, llm=llm)
        assert adapter.save(again) == text
        assert adapter.core(again).method.name == adapter.core(component).method.name
        timeout = 300 if "timeout" in str(reranker) else 60.0
        for one in (component, again, copy.copy(component), copy.deepcopy(component)):
            assert adapter.core(one).method.llm.timeout == timeout
            if reranker != "listwise_guided":  # which asks in another form
                ranked, _ = adapter.run(one, first(adapter), QUERY, numbered(adapter, 1, 2))
                assert places(adapter, ranked) == [1, 0]
        assert getattr(copy.deepcopy(component), adapter.names["llm"]) is llm


@needs("language models")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_with_a_key_is_asked_once(adapter: Any, tmp_path: Any, asynchronous: bool) -> None:
    settings = {"method": "listwise", "cache": str(tmp_path / "answers.sqlite")}
    with pytest.raises(ConfigurationError, match=r"cache: cannot be set: .*'cache_key'"):
        ranked_by(adapter, adapter.llms[0], settings, Model())
    way = WAYS[adapter.name]["async" if asynchronous else "sync"][0]
    for version in (1, 2):
        model = Model()
        llm = adapter.llm(adapter.llms[0], model)
        object.__setattr__(llm, "cache_key", {"version": version})
        component = adapter.make(settings, llm=llm)
        results = [adapter.run(component, way, QUERY, numbered(adapter, 1, 2)) for _ in range(2)]
        assert [places(adapter, ranked) for ranked, _ in results] == [[1, 0]] * 2
        assert [report["usage"]["cached"] for _, report in results] == [0, 1]
        assert len(model.asked) == 1
