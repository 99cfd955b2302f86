"""LlamaIndex's own rerankers as they are saved, loaded as a SecondPassRerank."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import LLMRerank, SentenceTransformerRerank, StructuredLLMRerank
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank

from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import ConfigurationError
from tiny_models import write_classifier


def of_package(package: str, name: str, **arguments: Any) -> Callable[[], Any]:
    """A reranker of an integration, whose package need not be installed."""

    def create() -> Any:
        pytest.importorskip(f"llama_index.postprocessor.{package}")
        module = importlib.import_module(f"llama_index.postprocessor.{package}")
        return getattr(module, name)(**arguments)

    return create


class Settings:
    """A peer with the saved fields of one, without the model that its constructor loads."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        return self.fields


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_classifier(tmp_path_factory.mktemp("model")))


@pytest.mark.parametrize("trust", [False, True])
def test_a_saved_cross_encoder_is_taken_as_it_is(model: str, trust: bool) -> None:
    theirs = SentenceTransformerRerank(model=model, device="cpu", top_n=3)
    theirs.trust_remote_code = trust
    ours = SecondPassRerank.from_dict(theirs.to_dict())
    method: Any = ours._reranker.to_config()["method"]
    assert (method["model"], method["device"]) == (model, "cpu")
    assert method.get("trust_remote_code", False) is trust
    assert (ours.top_n, ours.keep_retrieval_score) == (3, False)
    assert SecondPassRerank.from_dict(ours.to_dict()).to_dict() == ours.to_dict()


KWARGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"max_length": 64, "revision": None}, {"max_length": 64}),
    ({"backend": "onnx", "local_files_only": True}, {"backend": "onnx", "local_files_only": True}),
    ({"trust_remote_code": True}, {"trust_remote_code": True}),
    ({"processor_kwargs": {"a": 1}}, {"tokenizer_kwargs": {"a": 1}}),
    ({"tokenizer_kwargs": {"a": 1}}, {"tokenizer_kwargs": {"a": 1}}),
    ({"default_prompt_name": "web"}, {"prompt_name": "web"}),
]


@pytest.mark.parametrize(("arguments", "settings"), KWARGS)
def test_cross_encoder_kwargs_are_settings_of_the_method(
    arguments: dict[str, Any], settings: dict[str, Any]
) -> None:
    ours = SecondPassRerank(model="m", cross_encoder_kwargs=arguments)
    own: Any = SecondPassRerank(
        {"method": {"type": "cross_encoder", **settings}, "depth": 100}, model="m"
    )
    assert ours._reranker.to_config()["method"] == own._reranker.to_config()["method"]
    again = SecondPassRerank.from_json(ours.to_json())
    assert again.to_dict() == ours.to_dict()
    assert again._reranker.to_config() == ours._reranker.to_config()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation_fn": torch.nn.Sigmoid()}, r"activation_fn: .*'activation': 'sigmoid'"),
        ({"num_labels": 1}, r"num_labels: .*leave it out"),
        ({"device": "cpu"}, r"device: .*device="),
        ({"token": "hf_abc"}, r"token: .*'token_env'"),
        ({"prompts": {}}, r"prompts: .*'prompt'"),
        ({"nonsense": 1}, r"cross_encoder_kwargs\.nonsense: .*no such setting"),
        ({"max_length": "x"}, r"cross_encoder_kwargs\.max_length: must be"),
        ([1], r"cross_encoder_kwargs: give a mapping"),
    ],
)
def test_cross_encoder_kwargs_that_are_not_taken_are_named(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        SecondPassRerank(cross_encoder_kwargs=arguments)
    assert "hf_abc" not in str(raised.value)


MESSAGE = r"; (write|use|call|leave|there is no equivalent|it is a setting|did you mean)"
NAMED: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "LLMRerank": (lambda: LLMRerank(llm=MockLLM()), {"choice_select_prompt"}),
    "StructuredLLMRerank": (
        lambda: StructuredLLMRerank(llm=_CallsTools()),
        {"choice_select_prompt"},
    ),
    "RankGPTRerank": (lambda: RankGPTRerank(llm=MockLLM()), {"rankgpt_rerank_prompt", "verbose"}),
    "CohereRerank": (
        of_package("cohere_rerank", "CohereRerank", api_key="k"),
        {"base_url", "max_retries"},
    ),
    "JinaRerank": (of_package("jinaai_rerank", "JinaRerank", api_key="k"), {"api_url"}),
    "TextEmbeddingInference": (
        of_package("tei_rerank", "TextEmbeddingInference"),
        {"base_url", "timeout", "truncate_text", "auth_token", "model_name", "mode"},
    ),
    # Constructors of the following load a model or need an SDK: their fields as declared.
    "VoyageAIRerank": (lambda: Settings(model="m", top_n=2, truncation=True), {"truncation"}),
    "FlagEmbeddingReranker": (lambda: Settings(model="m", top_n=2, use_fp16=False), {"use_fp16"}),
    "FlashRankRerank": (lambda: Settings(model="m", top_n=2, max_length=512), {"max_length"}),
    "RankLLMRerank": (
        lambda: Settings(
            **{"model": "m", "top_n": 2, "window_size": 20, "batch_size": 1, "context_size": 1},
            **{"prompt_mode": "x", "num_gpus": 1, "num_few_shot_examples": 0, "stride": 10},
            **{"few_shot_file": None, "use_logits": False, "use_alpha": False},
            **{"variable_passages": False, "use_azure_openai": False},
        ),
        {
            *("window_size", "batch_size", "context_size", "prompt_mode", "num_gpus", "stride"),
            *("num_few_shot_examples", "few_shot_file", "use_logits", "use_alpha"),
            *("variable_passages", "use_azure_openai"),
        },
    ),
}


@pytest.mark.parametrize(("create", "names"), NAMED.values(), ids=NAMED)
def test_parameters_of_other_rerankers_are_refused_with_what_to_write(
    create: Callable[[], Any], names: set[str]
) -> None:
    saved = create().to_dict()
    with pytest.raises(ConfigurationError) as raised:
        SecondPassRerank.from_dict(dict(saved))
    text = str(raised.value)
    assert names == {
        name for name in names if re.search(f"{name}: unknown argument{MESSAGE}", text)
    }
    assert text.count("unknown argument") == len(names)
    rest = {name: value for name, value in saved.items() if name not in names}
    if "llm" in rest:
        with pytest.raises(ConfigurationError, match=r"llm: .*from_dict\(…, llm=\)"):
            SecondPassRerank.from_dict(dict(rest))
        rest |= {"llm": MockLLM(), "reranker": {"method": "graded"}}
    assert SecondPassRerank.from_dict(rest).top_n == saved["top_n"]


class _CallsTools(MockLLM):
    @property
    def metadata(self) -> Any:
        return super().metadata.model_copy(update={"is_function_calling_model": True})
