"""Any LlamaIndex LLM as the language model: chat or completion, asynchronous or not."""

import copy
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import CompletionResponse
from llama_index.core.llms import CustomLLM, LLMMetadata
from llama_index.core.prompts import PromptTemplate, RichPromptTemplate
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import ValidationError

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import texts
from secondpass import ConfigurationError, InputError, NotSerializableError

NODES = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in ("b", "ccc", "a", "dddd")]


def reply(prompt: str) -> str:
    passages = re.findall(r'<doc id="([^"]*)">([^<]*)</doc>', prompt)
    return json.dumps(
        {"ranking": [label for label, _ in sorted(passages, key=lambda x: -len(x[1]))]}
    )


class Completing(CustomLLM):
    """A completion model, as most that people write themselves; it blocks."""

    error: str = ""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="completing", context_window=8000)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        if self.error:
            raise RuntimeError(self.error)
        return CompletionResponse(text=reply(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


WRONG_PROMPTS = [
    RichPromptTemplate("Rank {{context_str}} for {{query_str}}"),
    PromptTemplate("Rank {context_str} for {query_str}").partial_format(tone="plain"),
    PromptTemplate("Rank {documents}"),
    PromptTemplate("Rank {documents} for {query}, {x}", template_var_mappings={"y": "x"}),
]


@pytest.mark.parametrize("prompt", WRONG_PROMPTS, ids=range(len(WRONG_PROMPTS)))
def test_a_prompt_that_would_ask_nothing_is_refused(prompt: Any) -> None:
    postprocessor = SecondPassRerank({"method": "listwise"}, llm=Completing())
    before = postprocessor.to_json()
    with pytest.raises(ConfigurationError, match=r"user(_prompt)?: has"):
        postprocessor.update_prompts({"user_prompt": prompt})
    assert postprocessor.to_json() == before


def test_a_prompt_of_other_names_is_taken_where_they_are_mapped() -> None:
    prompt = PromptTemplate(
        "Rank {context_str} for {query_str}. {reply}",
        template_var_mappings={"documents": "context_str", "query": "query_str"},
    )
    postprocessor = SecondPassRerank({"method": "listwise"}, llm=Completing())
    postprocessor.update_prompts({"user_prompt": prompt})
    nodes, report = postprocessor.rerank_nodes(NODES, "q")
    assert report.status == "ok"
    assert texts(nodes) == ["dddd", "ccc", "b", "a"]


def test_copies_from_a_file_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("method: lexical\ndepth: 50\n")
    for copied in (
        copy.deepcopy(SecondPassRerank(file)),
        pickle.loads(pickle.dumps(SecondPassRerank(file))),
    ):
        copied.depth = 1
        statuses = [
            node.metadata["rerank_status"] for node in copied.postprocess_nodes(NODES, None, "b")
        ]
        assert statuses == ["scored", "tail", "tail", "tail"]


class WithHeaders(Completing):
    default_headers: dict[str, str] = {}  # noqa: RUF012 - a pydantic field


def test_no_key_under_another_name_is_pickled() -> None:
    headers = {"Authorization": "Bearer sk-SECRET"}
    in_options = {"type": "openai", "model": "m", "options": {"extra_headers": headers}}
    for postprocessor in (
        SecondPassRerank({"method": "graded"}, llm=WithHeaders(default_headers=headers)),
        SecondPassRerank({"method": {"type": "graded", "llm": in_options}}),
    ):
        with pytest.raises(NotSerializableError, match="holds a key"):
            pickle.dumps(postprocessor)
    plain = SecondPassRerank({"method": "graded"}, llm=WithHeaders())
    assert pickle.loads(pickle.dumps(plain)).to_json() == plain.to_json()


def test_wrong_arguments_are_named() -> None:
    postprocessor = SecondPassRerank("lexical")
    with pytest.raises(InputError, match="query: give a string or a QueryBundle, not 5"):
        postprocessor.rerank_nodes(NODES, 5)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="similarity_cutoff"):
        SecondPassRerank("lexical", similarity_cutoff=True)
