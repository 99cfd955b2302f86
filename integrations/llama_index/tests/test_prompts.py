"""Prompts by name, and their updates."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from llama_index.core.prompts import PromptTemplate, RichPromptTemplate
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_objects import BEST_FIRST, KEY, LENGTHS, QUERY, asking, lengths, nodes_of, scripted
from secondpass import NotSerializableError

PARTS = ("system_prompt", "user_prompt", "instruction_prompt")
NAMED = [
    ("graded", [""]),
    ("listwise", [""]),
    ({"type": "cascade", "stages": [{"type": "lexical"}, {"type": "listwise", "depth": 5}]},
     ["stage_1_"]),
    ({"type": "cascade", "stages": [{"type": "graded"}, {"type": "listwise", "depth": 5}]},
     ["stage_0_", "stage_1_"]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "prefixes"), NAMED)
@pytest.mark.parametrize("fallback", [[], ["lexical"], ["lexical", "graded"]])
def test_every_prompt_has_a_name(method: Any, prefixes: list[str], fallback: list[str]) -> None:
    llm = scripted()
    reranker = SecondPassRerank({"method": method, "fallback": fallback}, llm=llm)
    if "graded" in fallback:
        prefixes = [*prefixes, "fallback_1_"]
    prompts = reranker.get_prompts()
    assert list(prompts) == [f"{prefix}{part}" for prefix in prefixes for part in PARTS]
    for name, prompt in prompts.items():
        assert isinstance(prompt, PromptTemplate)
        words = {"user": "{documents}", "system": "authority", "instruction": "{count}"}
        assert words[name.rsplit("_", 2)[-2]] in prompt.template


INSTRUCTIONS = [
    PromptTemplate("Grade {count} for the zoo, {lowest} to {highest}."),
    PromptTemplate("Grade {count} for {whom}, {lowest} to {highest}.").partial_format(
        whom="the zoo"
    ),
    PromptTemplate(
        "Grade {n} for the zoo, {lowest} to {best}.",
        template_var_mappings={"count": "n", "highest": "best"},
    ),
    PromptTemplate(
        "Grade {count} for {whom}, {lowest} to {highest}.",
        function_mappings={"whom": lambda **values: "the zoo" if values["count"] == "5" else "?"},
    ),
    RichPromptTemplate("Grade {{ count }} for the zoo, {{ lowest }} to {{ highest }}."),
    RichPromptTemplate(
        "{% if count == '5' %}Grade {{ count }} for {{ whom }}, {{ lowest }} to {{ highest }}."
        "{% endif %}"
    ).partial_format(whom="the zoo"),
]


@pytest.mark.parametrize("prompt", INSTRUCTIONS)
def test_an_instruction_of_every_kind_is_what_is_sent(prompt: Any) -> None:
    llm = scripted()
    reranker = asking("graded", llm)
    reranker.update_prompts({"instruction_prompt": prompt})
    ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    user = llm._asked[0][1].content or ""
    assert "Grade 5 for the zoo, 0 to 10." in user
    assert "Judge each by itself" not in user
    assert user.count("<doc ") == 5


def test_prompts_of_stages_and_fallbacks_are_theirs_alone() -> None:
    stages = [{"type": "graded"}, {"type": "listwise", "depth": 5}]
    config = {"method": {"type": "cascade", "stages": stages}, "fallback": ["lexical", "graded"]}
    reranker = SecondPassRerank(config, llm=scripted())
    before = reranker.get_prompts()
    for name in ("stage_1_system_prompt", "fallback_1_instruction_prompt"):
        reranker.update_prompts({name: PromptTemplate(f"For {name}.")})
        before[name] = PromptTemplate(f"For {name}.")
        assert reranker.get_prompts() == before


def test_passages_are_never_read_as_templates() -> None:
    tricks = ["{query}", "{{ query }}", "{% if 1 %}", "{0.__class__}", "{reply!r}", "}{"]
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in tricks]
    for prompt in (
        PromptTemplate("{query}\n{documents}\n{reply}"),
        PromptTemplate("{query}\n{documents}\n{reply} {more}").partial_format(more=""),
        RichPromptTemplate("{{ query }}\n{{ documents }}\n{{ reply }}"),
    ):
        llm = scripted()
        reranker = asking("listwise", llm)
        reranker.update_prompts({"user_prompt": prompt})
        _, report = reranker.rerank_nodes(nodes, "{documents}")
        assert report.status == "ok"
        words = llm._asked[0][-1].content or ""
        assert words.startswith("<query>{documents}</query>")
        assert all(f">{text}</doc>" in words for text in tricks)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"instruction_promt": PromptTemplate("x")}, "instruction_promt.*'instruction_prompt'"),
        ({"stage_0_user_prompt": PromptTemplate("x")}, "stage_0_user_prompt.*user_prompt"),
        ({"choice_select_prompt": PromptTemplate("x")}, "choice_select_prompt.*user_prompt"),
        ({"user_prompt": PromptTemplate("{querry} {documents}")}, "user.*'query'"),
        ({"user_prompt": PromptTemplate("{documents}")}, r"user.*\{query\}"),
        ({"user_prompt": 3}, "user.*template"),
        ({"zoo:user_prompt": PromptTemplate("x")}, "zoo"),
    ],
)
def test_wrong_prompts_are_refused_and_nothing_changes(prompts: Any, message: str) -> None:
    reranker = asking("graded", scripted())
    before, written = reranker.get_prompts(), reranker.to_json()
    with pytest.raises(ValueError, match=f"(?s){message}"):
        reranker.update_prompts({"system_prompt": PromptTemplate("new"), **prompts})
    if "zoo:user_prompt" not in prompts:  # LlamaIndex updates a module's own prompts first
        assert reranker.get_prompts() == before
        assert reranker.to_json() == written


def test_prompt_objects_are_copied_and_pickled_but_not_json() -> None:
    config = {"method": {"type": "graded", "llm": {"type": "openai", "model": "m"}}}
    reranker = SecondPassRerank(config)
    reranker.update_prompts({"instruction_prompt": RichPromptTemplate("Grade {{ count }}.")})
    for other in (copy.deepcopy(reranker), pickle.loads(pickle.dumps(reranker))):
        assert other.get_prompts() == reranker.get_prompts()
    with pytest.raises(NotSerializableError, match="instruction"):
        reranker.to_json()


def test_a_failing_prompt_loses_no_node() -> None:
    def fail(**_: Any) -> str:
        raise RuntimeError(KEY)

    reranker = asking("graded", scripted())
    prompt = PromptTemplate("{x} {query} {documents}", function_mappings={"x": fail})
    reranker.update_prompts({"user_prompt": prompt})
    ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert lengths(ranked) == list(LENGTHS)
    assert [issue.code for issue in report.issues] == ["prompt_failed"]
    assert KEY not in repr(report)
