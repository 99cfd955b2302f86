"""Language models, prompts and arguments of frameworks: the message says what to write."""

import re
import sys

import pytest
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.rankers import LLMRanker
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.schema import NodeWithScore, TextNode

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import ConfigurationError, MissingExtraError, Reranker, SecondPassError

LISTWISE = {"method": {"type": "listwise"}}


def hint_of(make):
    with pytest.raises((SecondPassError, TypeError)) as caught:
        make()
    return str(caught.value)


# ---------------------------------------------------------------------- models


@pytest.mark.parametrize("type", ["listwise", "graded"])
def test_an_llm_of_llama_index(type):
    llm = MockLLM()
    message = hint_of(lambda: Reranker({"type": type, "llm": llm}))
    assert "method.llm: is an LLM of LlamaIndex: use " in message
    (code,) = re.findall(r"use (.*?) of llama_index", message)
    code = code.replace("{'method': …}", repr({"method": type})).replace("llm=…", "llm=llm")
    assert eval(code, {"SecondPassRerank": SecondPassRerank, "llm": llm}).llm is llm


def test_a_generator_of_haystack():
    generator = MockChatGenerator("[]")
    message = hint_of(lambda: Reranker({"type": "listwise", "llm": generator}))
    (code,) = re.findall(r"generator of Haystack: use (.*?) of haystack_integrations", message)
    code = code.replace("{'method': …}", repr(LISTWISE)).replace("=…", "=generator")
    made = eval(code, {"SecondPassRanker": SecondPassRanker, "generator": generator})
    assert made.chat_generator is generator


def test_a_model_of_langchain():
    model = FakeListChatModel(responses=["[2, 1]"])
    message = hint_of(lambda: Reranker({"type": "listwise", "llm": model}))
    (code,) = re.findall(r"of LangChain: give a function, (lambda .*)", message)
    llm = eval(code, {"model": model})
    ranking = Reranker({"type": "listwise", "labels": "index1", "llm": llm}).rerank(
        "owl", ["A", "B"]
    )
    assert (ranking.report.status, ranking.order) == ("ok", (1, 0))


class Own:
    name = "own"

    async def complete(self, prompt):
        raise NotImplementedError

    def run(self):
        raise NotImplementedError


def test_an_own_model_is_taken():
    assert Reranker({"type": "graded", "llm": Own()}).method.name == "graded by own"


# ---------------------------------------------------------------------- prompts


def test_the_prompt_of_a_saved_llm_ranker():
    theirs = LLMRanker(chat_generator=MockChatGenerator("[]"), top_k=3).to_dict()
    saved = theirs["init_parameters"]
    message = hint_of(lambda: SecondPassRanker(**saved))
    assert "prompt: unknown argument; leave it out, unless you changed it; then put its" in message
    instruction = {"prompt": {"instruction": saved["prompt"]}}
    method = {"type": "listwise", "llm": "openai", **instruction}
    assert re.search(
        r"prompt\.instruction: is a template of Jinja, as {% shows; write only its rules",
        hint_of(lambda: SecondPassRanker({"method": method})),
    )
    rest = {
        name: value for name, value in saved.items() if name not in ("prompt", "chat_generator")
    }
    SecondPassRanker(LISTWISE, chat_generator=MockChatGenerator("[]"), **rest)
    method["prompt"] = {"instruction": "Write a literal mark as {{% or %}}."}
    method["llm"] = {"type": "openai", "model": "m"}
    SecondPassRanker({"method": method})


def test_the_prompt_of_llm_rerank():
    prompt = LLMRerank(llm=MockLLM()).choice_select_prompt
    message = hint_of(lambda: SecondPassRerank(LISTWISE, choice_select_prompt=prompt))
    assert "choice_select_prompt: unknown argument; leave it out, unless you changed it" in message
    (keyword,) = re.findall(r"into (prompts=\{.*\})", message)
    made = {"llm": MockLLM(), "rules": "Prefer owls."}
    code = keyword.replace("…", "rules")
    ours = eval(f"SecondPassRerank({LISTWISE}, llm=llm, {code})", globals(), made)
    assert ours.get_prompts()["instruction_prompt"].get_template() == "Prefer owls."
    for part in (prompt, prompt.get_template()):
        message = hint_of(lambda part=part: ours.update_prompts({"instruction_prompt": part}))
        assert "the documents are {documents}, in the user prompt; an instruction has" in message
    message = hint_of(lambda: ours.update_prompts({"instruction_prompt": "Of {query_str}"}))
    assert "has no placeholder 'query_str'; the query is {query}" in message


# ---------------------------------------------------------------------- the first argument


@pytest.mark.parametrize("adapter", [SecondPassRanker, SecondPassRerank])
@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("preset", "lexical", "'lexical'"),
        ("preset", "zork", "…"),
        ("config", {"method": "lexical"}, "…"),
        ("config", "rerank.yaml", "'rerank.yaml'"),
    ],
)
def test_the_first_argument_by_another_name(adapter, name, value, written):
    message = hint_of(lambda: adapter(**{name: value}))
    use = f"{name}: unknown argument; use {adapter.__name__}({written}), or 'reranker: "
    assert use + written.strip("'") in message


def test_the_code_for_the_first_argument():
    node = NodeWithScore(node=TextNode(text="An owl."), score=1.0)
    message = hint_of(lambda: SecondPassRerank(preset="lexical"))
    (code,) = re.findall(r"use (SecondPassRerank\(.*?\))", message)
    assert len(eval(code).postprocess_nodes([node], query_str="owl")) == 1
    with pytest.raises(ConfigurationError):
        SecondPassRerank(preset="lexical")


def test_an_api_without_its_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setenv("VLLM_URL", "http://127.0.0.1:9")
    with pytest.raises(MissingExtraError, match=r"the API 'vllm' needs packages"):
        SecondPassRerank("vllm")
