"""Parameters under the names of Haystack's rankers, and what they show the model."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch
from haystack import Pipeline
from haystack.components.builders import PromptBuilder
from haystack.utils import ComponentDevice, Secret
from haystack.utils.device import Device, DeviceMap

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import BY_INDEX, CROSS_ENCODER, QUERY, Says, both, four, ids, indices
from secondpass import ConfigurationError

DEFAULTS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(SecondPassRanker.__init__).parameters.items()
    if name != "self"
}
"""What the guide says of them is compared in `test_gallery.py`."""


def test_omitted_parameters_have_saved_defaults() -> None:
    ranker = SecondPassRanker()
    assert ranker.to_dict()["init_parameters"] == DEFAULTS
    assert {name: getattr(ranker, name) for name in DEFAULTS if name != "reranker"} == {
        name: value for name, value in DEFAULTS.items() if name != "reranker"
    }


HALF = {"dtype": "float16", "a": "b"}
CUDA = {"type": "single", "device": "cuda:1"}
TOKEN = {"type": "env_var", "env_vars": ["MY_TOKEN"], "strict": False}
TOKENS = {"type": "env_var", "env_vars": ["ONE", "OTHER"], "strict": True}
LIMIT = {"model_max_length": 128}
GIVEN: list[tuple[str, Any, Any, str, Any]] = [
    # a parameter, its value, how it is saved, its setting
    ("top_k", np.int64(3), 3, "top_k", 3),
    ("score_threshold", np.float32(0.5), 0.5, "floor", 0.5),
    ("scale_score", True, True, "method.activation", "sigmoid"),
    ("scale_score", False, False, "method.activation", None),
    ("meta_fields_to_embed", ["a", "b.c"], ["a", "b.c"], "render.fields", ["a", "b.c", "text"]),
    ("embedding_separator", "", "", "render.separator", ""),
    ("query_prefix", "query: ", "query: ", "render.query_prefix", "query: "),
    ("query_suffix", "\n", "\n", "render.query_suffix", "\n"),
    ("document_prefix", "passage: ", "passage: ", "render.prefix", "passage: "),
    ("document_suffix", "\n", "\n", "render.suffix", "\n"),
    ("device", ComponentDevice.from_str("cuda:1"), CUDA, "method.device", "cuda:1"),
    ("token", Secret.from_dict(TOKEN), TOKEN, "method.token_env", ["MY_TOKEN"]),
    ("token", Secret.from_dict(TOKENS), TOKENS, "method.token_env", ["ONE", "OTHER"]),
    ("model_kwargs", {"dtype": torch.float16, "a": "b"}, HALF, "method.model_kwargs", HALF),
    ("backend", "torch", "torch", "method.backend", "torch"),
    ("tokenizer_kwargs", LIMIT, LIMIT, "method.tokenizer_kwargs", LIMIT),
    ("config_kwargs", {"dtype": torch.float16, "a": "b"}, HALF, "method.config_kwargs", HALF),
]


@pytest.mark.parametrize(("name", "value", "saved", "place", "setting"), GIVEN)
def test_each_parameter_is_a_setting_and_is_saved(
    name: str, value: Any, saved: Any, place: str, setting: Any
) -> None:
    ranker = SecondPassRanker(CROSS_ENCODER, **{name: value})
    parameters = ranker.to_dict()["init_parameters"]
    assert parameters == {**DEFAULTS, "reranker": CROSS_ENCODER, name: saved}
    assert type(parameters[name]) is type(saved)
    pipeline = Pipeline()
    pipeline.add_component("ranker", ranker)
    back: Any = Pipeline.loads(pipeline.dumps()).get_component("ranker")
    assert back.to_dict() == ranker.to_dict()
    for one in (ranker, back):
        if name in ranker.PARAMETERS.per_call:  # it is passed with each call
            assert one.PARAMETERS.call_settings(one)[place] == setting
            continue
        inside: Any = one._reranker.to_config()
        for step in place.split("."):
            inside = inside.get(step) if isinstance(inside, dict) else None
        assert inside == setting


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"meta_fields_to_embed": "title"}, "meta_fields_to_embed.*list of metadata keys"),
    *[
        ({"meta_fields_to_embed": ["title", name]}, f"'{name}' is the document's own")
        for name in ("text", "id", "score")
    ],
    ({"embedding_separator": None}, "embedding_separator: must be a str"),
    ({"meta_prefix": None}, "meta_prefix: must be a str"),
    ({"device": "cpu"}, r"device: give a ComponentDevice.*from_str"),
    ({"token": "hf_abc"}, r"token: give a Secret.*from_env_var"),
    ({"api_key": "hf_abc"}, r"api_key: give a Secret.*from_env_var"),
    ({"model_kwargs": ["dtype"]}, "model_kwargs"),
    ({"depth": 1.5}, "SecondPassRanker: depth: give a whole number"),
    ({"score_threshold": float("nan")}, "SecondPassRanker: score_threshold"),
    ({"model_kwargs": {"token": "hf_abc"}}, "model_kwargs.token.*token_env"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG)
def test_a_wrong_value_is_refused_when_it_is_given(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        SecondPassRanker(CROSS_ENCODER, **settings)
    assert "hf_abc" not in str(raised.value)


@pytest.mark.parametrize("name", ["api_key", "token"])
@pytest.mark.parametrize(
    "secret", [Secret.from_env_var("MY_KEY"), Secret.from_token("hf_abc")], ids=["name", "text"]
)
def test_a_secret_in_a_mapping_is_refused_with_a_hint(name: str, secret: Secret) -> None:
    method = (
        {"type": "endpoint", "api": "cohere"} if name == "api_key" else {"type": "cross_encoder"}
    )
    with pytest.raises(ConfigurationError, match=rf"method\.{name}: .*{name}_env") as raised:
        SecondPassRanker({"method": {**method, "model": "m", name: secret}})
    assert "hf_abc" not in str(raised.value)


def test_several_devices_are_refused_with_a_hint() -> None:
    device = ComponentDevice.from_multiple(
        DeviceMap({"layer1": Device.gpu(0), "layer2": Device.gpu(1)})
    )
    with pytest.raises(ConfigurationError, match=r"device: .*single.*model_kwargs.*'device_map'"):
        SecondPassRanker(CROSS_ENCODER, device=device)
    SecondPassRanker(CROSS_ENCODER, model_kwargs={"device_map": device.to_hf()})


@pytest.mark.parametrize("reranker", ["default", CROSS_ENCODER])
def test_plain_token_works_but_is_not_saved(reranker: Any) -> None:
    ranker = SecondPassRanker(reranker, token=Secret.from_token("hf_abc"))
    for write in (ranker.to_dict, lambda: pickle.dumps(ranker)):
        with pytest.raises(ValueError, match="environment variable") as raised:
            write()
        assert "hf_abc" not in str(raised.value) + repr(vars(ranker))


# ---------------------------------------------------------------------- prompts


def test_a_prompt_builder_of_haystack_may_be_the_prompt() -> None:
    template = "{{ documents }} are to be ordered. {{ reply }} For {{ query }}"
    builder = PromptBuilder(template, required_variables=["documents", "query"])
    says = Says(indices(2, 1, 3, 4))
    config = {"method": {**BY_INDEX["method"], "prompt": {"user": builder}}}
    assert ids(both(SecondPassRanker(config, chat_generator=says), QUERY, four())) == [*"bacd"]
    assert (says.asked[0][-1].text or "").endswith("For <query>cat food</query>")


def test_a_model_in_the_place_of_a_preset_is_a_parameter() -> None:
    with pytest.raises(
        ValueError, match=r"use SecondPassRanker\(model='cross-encoder/some-model'\)"
    ):
        SecondPassRanker("cross-encoder/some-model")


IN_RUN = {
    "top_n": "did you mean 'top_k'?",
    "nodes": "did you mean 'documents'?",
    "threshold": "did you mean 'score_threshold'?",
    "strict": "it is a parameter of the component: SecondPassRanker(raise_on_failure=…)",
    "batch_size": "it is a parameter of the component: SecondPassRanker(batch_size=…)",
    "render": "it is a setting of the configuration: {'render': …}",
}


@pytest.mark.parametrize("name", IN_RUN)
def test_a_keyword_that_a_run_does_not_take(name: str) -> None:
    message = re.escape(f"got an unexpected keyword argument {name!r}; {IN_RUN[name]}")
    ranker: Any = SecondPassRanker("lexical")
    with pytest.raises(TypeError, match=message):
        ranker.run(query=QUERY, documents=four(), **{name: 2})
    with pytest.raises(TypeError, match=message):
        asyncio.run(ranker.run_async(query=QUERY, documents=four(), **{name: 2}))


def test_arguments_of_a_run_by_position() -> None:
    ranker: Any = SecondPassRanker("lexical")
    with pytest.raises(TypeError, match="top_k by position; name the others, as in score_thresh"):
        ranker.run(QUERY, four(), 2, 0.5)
