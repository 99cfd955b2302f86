"""Keys of answers: equal for the same question, different for any other."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass.asking.answer_keys import NotStorableError, answer_key, service_key
from secondpass.effects import Task
from secondpass.llms.anthropic import AnthropicMessages
from secondpass.llms.function import CallableLLM
from secondpass.llms.openai import OpenAIChat
from secondpass.prompts.labels import replace_secret
from secondpass.questions import Completion, Estimate, Prompt, Question, Recall, Turn
from secondpass.ranking.methods import to_method
from secondpass.settings import changed
from secondpass.types import Candidate

LLM = {"type": "openai", "model": "m"}
METHODS = {
    "graded": {"type": "graded", "llm": LLM},
    "listwise": {"type": "listwise", "llm": LLM},
    "blocks": {"type": "blocks", "llm": LLM},
    "endpoint": {"type": "endpoint", "api": "cohere", "model": "m"},
    "decisions": {"type": "decisions", "api": "openai", "model": "m"},
    "pointwise": {"type": "pointwise", "llm": LLM},
}


def keys(settings, texts=("a", "b", "c"), query="q", context=None, ids=None, instruction=None):
    """The keys of the first round of questions that a method asks."""
    candidates = [Candidate(text, id=one) for text, one in zip(texts, ids or texts, strict=True)]
    method = to_method(settings)
    task = Task(query, list(texts), candidates, context, instruction=instruction)
    effect = next(method.judge(task))
    start = service_key(effect.service)
    return [answer_key(start, question) for question in effect.questions]


def with_llm(**llm):
    return {"llm": {**LLM, **llm}}


GRADED, LISTWISE, POINTWISE = METHODS["graded"], METHODS["listwise"], METHODS["pointwise"]
ENDPOINT, DECISIONS = METHODS["endpoint"], METHODS["decisions"]
VLLM = {**ENDPOINT, "api": "vllm", "base_url": "http://localhost"}
UNSCALED = {**GRADED, "prompt": {"instruction": "Grade."}}
WORDLESS = {**POINTWISE, "prompt": {"user": "{query} {documents} {reply}"}}

DIFFERENT = {
    # a method; what of its settings, or of the call, is another
    "query": (GRADED, {}, {"query": "Q"}),
    "a text": (GRADED, {}, {"texts": ("a", "b", "C")}),
    "order of texts": (GRADED, {}, {"texts": ("b", "a", "c")}),
    "what fencing removes": (GRADED, {}, {"texts": ("a", "b", "c\u200b")}),
    "context": (GRADED, {}, {"context": "x"}),
    "model": (GRADED, with_llm(model="n"), {}),
    "address": (GRADED, with_llm(base_url="http://localhost/v1"), {}),
    "provider": (GRADED, with_llm(type="anthropic"), {}),
    "temperature": (GRADED, with_llm(temperature=0.5), {}),
    "structured": (GRADED, with_llm(structured="text"), {}),
    "options": (GRADED, with_llm(options={"seed": 1}), {}),
    "method": (GRADED, {"type": "listwise"}, {}),
    "scale": (GRADED, {"scale": [0, 5]}, {}),
    "scale that the prompt leaves out": (UNSCALED, {"scale": [0, 5]}, {}),
    "whole": (GRADED, {"whole": True}, {}),
    "reply": (GRADED, {"reply": "pairs"}, {}),
    "bare": ({**GRADED, "reply": "pairs"}, {"bare": True}, {}),
    "labels": (GRADED, {"labels": "index0"}, {}),
    "base of indices": ({**GRADED, "labels": "index0"}, {"labels": "index1"}, {}),
    "ids": ({**GRADED, "labels": "id"}, {}, {"ids": ("x", "y", "z")}),
    "instruction": (GRADED, {"prompt": {"instruction": "Grade well."}}, {}),
    "system": (GRADED, {"prompt": {"system": "Grade."}}, {}),
    "user": (GRADED, {"prompt": {"user": "{query} {documents} {reply}"}}, {}),
    "instruction of a call": (GRADED, {}, {"instruction": "new"}),
    "instruction of a call to an api": (VLLM, {}, {"instruction": "new"}),
    "instruction of a call to decisions": (DECISIONS, {}, {"instruction": "new"}),
    "words": (POINTWISE, {"words": ["True", "False"]}, {}),
    "words in the other order": (WORDLESS, {"words": ["No", "Yes"]}, {}),
    "api": (ENDPOINT, {"api": "jina"}, {}),
    "model of an api": (ENDPOINT, {"model": "n"}, {}),
    "path": (ENDPOINT, {"path": "v9"}, {}),
    "scores": (ENDPOINT, {"scores": "logit"}, {}),
    "options of an api": (ENDPOINT, {"options": {"truncate": True}}, {}),
    "text of an api": (ENDPOINT, {}, {"texts": ("a", "c", "b")}),
    "instructions": (DECISIONS, {"instructions": "Is {document} good?"}, {}),
    "api of decisions": (DECISIONS, {"api": "google"}, {}),
    "question": (DECISIONS, {"question": "yes_no"}, {}),
    "levels": (DECISIONS, {"levels": ["no", "yes"]}, {}),
    "layout": ({**DECISIONS, "batch_size": 1}, {"layout": "each"}, {}),
    "names of fields": (DECISIONS, {"rename": {"input": "state"}}, {}),
    "options of decisions": (DECISIONS, {"options": {"x": 1}}, {}),
    "query of decisions": (DECISIONS, {}, {"query": "Q"}),
}


@pytest.mark.parametrize(("settings", "other", "call"), DIFFERENT.values(), ids=DIFFERENT)
def test_another_question_has_another_key(settings, other, call):
    assert set(keys({**settings, **other}, **call)).isdisjoint(keys(settings))


SAME = {
    "key": {"api_key_env": "ANOTHER_KEY"},
    "timeout": {"timeout": 5.0},
    "prices": {"prices": {"input": 1, "output": 2}},
}


@pytest.mark.parametrize("settings", SAME.values(), ids=SAME)
def test_the_same_question_has_the_same_key(settings):
    assert keys({**GRADED, **with_llm(**settings)}) == keys(GRADED)


def test_the_value_of_a_key_is_no_part(monkeypatch):
    before = keys(GRADED)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    assert keys(GRADED) == before
    secret = OpenAIChat("m", api_key="sk-secret")
    assert service_key(secret) == service_key(OpenAIChat("m"))


@pytest.mark.parametrize(
    ("llm", "name"),
    [(OpenAIChat("m"), "OPENAI_BASE_URL"), (AnthropicMessages("m"), "ANTHROPIC_BASE_URL")],
)
def test_an_address_in_the_environment_is_a_part(monkeypatch, llm, name):
    before = service_key(llm)
    monkeypatch.setenv(name, "http://localhost:1/v1")
    assert service_key(llm) != before
    fixed = changed(llm, base_url="http://localhost:2/v1")
    before = service_key(fixed)
    monkeypatch.delenv(name)
    assert service_key(fixed) == before


@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
def test_labels_are_no_part(settings):
    texts = [f"text {number}" for number in range(30)]
    first = keys(settings, texts)
    before = replace_secret(b"another process")
    try:
        assert keys(settings, texts) == first
    finally:
        replace_secret(before)
    assert len(set(first)) == len(first)


def test_the_version_is_a_part(monkeypatch):
    before = keys(GRADED)
    monkeypatch.setattr("secondpass.__version__", "0.0.0")
    assert set(keys(GRADED)).isdisjoint(before)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-3, 3)
    | st.text("ab\ud800", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=6,
)


def exactly(value):
    """A value with its types: 1, 1.0 and True are equal, and are not the same."""
    if isinstance(value, dict):
        return ("dict", *sorted((key, exactly(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", *map(exactly, value))
    return (type(value).__name__, repr(value))


class Keyed:
    def __init__(self, cache_key):
        self.cache_key = cache_key


@examples(25)
@given(plain, plain)
def test_keys_are_equal_if_and_only_if_values_are(first, second):
    if first is None or second is None:
        return
    same = exactly(first) == exactly(second)
    assert (service_key(Keyed(first)) == service_key(Keyed(second))) == same


def asking(key):
    prompt = Prompt("", (Turn("user", ""),))
    recall = Recall(key, lambda value: value, lambda data: data)
    return Question(prompt, Completion, None, lambda: None, Estimate(1, 1), 1, recall=recall)


@dataclass
class One:
    a: Any


@dataclass
class Two:
    a: Any


def key_of(value):
    return answer_key(b"", asking(lambda: value))


def test_objects_are_told_apart_by_class_and_members():
    values = [One(1), Two(1), One(2), One(One(1)), [1], {"a": 1}, {"mapping": [["a", 1]]}, Keyed(1)]
    assert len(set(map(key_of, values))) == len(values)
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})


class Unnamed:
    name = "unnamed"


class Raising:
    @property
    def cache_key(self):
        raise RuntimeError("sk-secret passage")


def circle():
    value = []
    value.append(value)
    return value


UNSTORABLE = {
    "no key": (Unnamed(), "has no cache_key"),
    "None": (Keyed(None), "has no cache_key"),
    "a function": (CallableLLM(len), "has no cache_key"),
    "an object": (Keyed(object()), "not of plain values"),
    "a method": (Keyed(len), "not of plain values"),
    "bytes": (Keyed(b"a"), "not of plain values"),
    "a class": (Keyed(One), "not of plain values"),
    "a circle": (Keyed(circle()), "not of plain values"),
    "an error": (Raising(), "raised RuntimeError"),
}


@pytest.mark.parametrize(("service", "message"), UNSTORABLE.values(), ids=UNSTORABLE)
def test_services_without_a_key(service, message):
    with pytest.raises(NotStorableError, match=message) as caught:
        service_key(service)
    assert "sk-secret" not in str(caught.value)


def test_questions_without_a_key():
    question = Question("", str, None, lambda: None, Estimate(1, 1), 1)
    with pytest.raises(NotStorableError, match="does not say"):
        answer_key(b"", question)
    with pytest.raises(NotStorableError, match="raised ZeroDivisionError"):
        answer_key(b"", asking(lambda: 1 / 0))


def test_a_template_is_known_by_what_it_says():
    def template(values):
        return f"{greeting} {values['query']} {values['documents']} {values['reply']}"

    greeting = "Hello."
    settings = {**GRADED, "prompt": {"user": template}}
    first = keys(settings)
    assert keys({**GRADED, "prompt": {"user": "Hello. {query} {documents} {reply}"}}) == first
    greeting = "Goodbye."
    assert set(keys(settings)).isdisjoint(first)
