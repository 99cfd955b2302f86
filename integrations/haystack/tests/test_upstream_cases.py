"""The kinds of case that the test suites of Haystack's own rankers have, put to this one.

Each is run by `run` and by `run_async`. Where this ranker answers otherwise on purpose, the name of
the test says so, and `docs/coming-from-haystack.md` says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from haystack import Document, Pipeline, component, default_from_dict, default_to_dict
from haystack.components.builders import PromptBuilder
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage
from haystack.tracing import Span, Tracer, disable_tracing, enable_tracing, tracer
from haystack.utils import ComponentDevice, Secret
from haystack.utils.device import Device, DeviceMap

import tiny_models
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import ConfigurationError, Reranker, RerankError
from secondpass.errors import ModelLoadError

CROSS_ENCODER = {"method": {"type": "cross_encoder"}}
BY_INDEX = {"method": {"type": "listwise", "labels": "index1"}}
QUERY = "cat food"

Call = Callable[..., dict[str, Any]]


@pytest.fixture(params=["run", "run_async"])
def call(request: pytest.FixtureRequest) -> Call:
    """Runs a ranker, synchronously or in an event loop of its own."""

    def called(ranker: SecondPassRanker, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if request.param == "run":
            return ranker.run(*args, **kwargs)
        return asyncio.run(ranker.run_async(*args, **kwargs))

    return called


class Recorder:
    """Scores a document by its length, and keeps what it was shown."""

    model_name = "recorder"

    def __init__(self, make: Callable[[list[float]], Any] = list) -> None:
        self.make = make
        self.queries: list[str] = []
        self.shown: list[str] = []

    def score_pairs(self, query: str, documents: Sequence[str]) -> Any:
        self.queries.append(query)
        self.shown.extend(documents)
        return self.make([float(len(document)) for document in documents])


class Says:
    """A chat generator that gives the same replies whatever it is asked, and counts the calls."""

    def __init__(self, *texts: str | None, error: Exception | None = None) -> None:
        self.replies = [
            ChatMessage.from_assistant(text) if text is not None else ChatMessage.from_assistant()
            for text in texts
        ]
        self.error = error
        self.asked: list[list[ChatMessage]] = []

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.asked.append(messages)
        if self.error is not None:
            raise self.error
        return {"replies": self.replies}


def indices(*numbers: object) -> str:
    """A reply of the form that Haystack's LLMRanker asks for."""
    return json.dumps({"documents": [{"index": number} for number in numbers]})


def lengths(*numbers: int) -> list[Document]:
    """Documents of these lengths, with ids that tell them."""
    return [Document(id=f"d{number}", content="x" * number) for number in numbers]


def ids(result: dict[str, Any]) -> list[str]:
    return [document.id for document in result["documents"]]


def scores(result: dict[str, Any]) -> list[float]:
    return [document.score for document in result["documents"]]


def codes(result: dict[str, Any]) -> list[str]:
    return [issue["code"] for issue in result["report"]["issues"]]


def saved_and_loaded(ranker: SecondPassRanker) -> SecondPassRanker:
    pipeline = Pipeline()
    pipeline.add_component("ranker", ranker)
    back = Pipeline.loads(pipeline.dumps()).get_component("ranker")
    assert isinstance(back, SecondPassRanker)
    assert back.to_dict() == ranker.to_dict()
    return back


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small cross-encoder on disk that knows its words, so that it tells texts apart."""
    from tokenizers import BertWordPieceTokenizer

    folder = tiny_models.write_classifier(tmp_path_factory.mktemp("models") / "model")
    vocabulary = {word: number for number, word in enumerate(tiny_models.WORDS)}
    BertWordPieceTokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    return folder


def sentences() -> list[Document]:
    texts = ["the cat sat on a mat", "no dog", "yes", "food ran", "query a food cat"]
    return [Document(id=str(at), content=text) for at, text in enumerate(texts)]


# ---------------------------------------------------------------------- making one

DEFAULTS: dict[str, Any] = {
    "reranker": "default",
    "model": None,
    "top_k": None,
    "depth": None,
    "score_threshold": None,
    "scale_score": None,
    "meta_fields_to_embed": None,
    "embedding_separator": "\n",
    "query_prefix": "",
    "query_suffix": "",
    "document_prefix": "",
    "document_suffix": "",
    "device": None,
    "token": None,
    "batch_size": None,
    "model_kwargs": None,
    "dedupe": None,
    "meta_prefix": "",
    "raise_on_failure": False,
    "chat_generator": None,
}


def test_what_is_left_out_has_the_defaults_and_is_saved_as_such() -> None:
    ranker = SecondPassRanker()
    assert ranker.to_dict()["init_parameters"] == DEFAULTS
    assert {name: getattr(ranker, name) for name in DEFAULTS if name != "reranker"} == {
        name: value for name, value in DEFAULTS.items() if name != "reranker"
    }


def test_saved_without_any_parameter_it_is_loaded_with_the_defaults() -> None:
    kind = SecondPassRanker().to_dict()["type"]
    loaded = SecondPassRanker.from_dict({"type": kind, "init_parameters": {}})
    assert loaded.to_dict()["init_parameters"] == DEFAULTS


GIVEN: list[tuple[str, Any, Any, tuple[str, ...], Any]] = [
    ("model", "some/model", "some/model", ("method", "model"), "some/model"),
    ("model", Path("some/model"), str(Path("some/model")), ("method", "model"), "some/model"),
    ("top_k", 3, 3, ("top_k",), 3),
    ("top_k", np.int64(3), 3, ("top_k",), 3),
    ("depth", 7, 7, ("depth",), 7),
    ("score_threshold", 0.0, 0.0, ("floor",), 0.0),
    ("score_threshold", np.float32(0.5), 0.5, ("floor",), 0.5),
    ("scale_score", True, True, ("method", "activation"), "sigmoid"),
    ("scale_score", False, False, ("method", "activation"), None),
    (
        "meta_fields_to_embed",
        ["a", "b.c"],
        ["a", "b.c"],
        ("render", "fields"),
        ["a", "b.c", "text"],
    ),
    ("embedding_separator", "", "", ("render", "separator"), ""),
    ("query_prefix", "query: ", "query: ", ("render", "query_prefix"), "query: "),
    ("query_suffix", "\n", "\n", ("render", "query_suffix"), "\n"),
    ("document_prefix", "passage: ", "passage: ", ("render", "prefix"), "passage: "),
    ("document_suffix", "\n", "\n", ("render", "suffix"), "\n"),
    (
        "device",
        ComponentDevice.from_str("cuda:1"),
        {"type": "single", "device": "cuda:1"},
        ("method", "device"),
        "cuda:1",
    ),
    (
        "token",
        Secret.from_env_var("MY_TOKEN", strict=False),
        {"type": "env_var", "env_vars": ["MY_TOKEN"], "strict": False},
        ("method", "token_env"),
        ["MY_TOKEN"],
    ),
    (
        "token",
        Secret.from_env_var(["ONE", "OTHER"]),
        {"type": "env_var", "env_vars": ["ONE", "OTHER"], "strict": True},
        ("method", "token_env"),
        ["ONE", "OTHER"],
    ),
    ("batch_size", 16, 16, ("method", "batch_size"), 16),
    (
        "model_kwargs",
        {"dtype": torch.float16, "attn_implementation": "eager"},
        {"dtype": "float16", "attn_implementation": "eager"},
        ("method", "model_kwargs"),
        {"dtype": "float16", "attn_implementation": "eager"},
    ),
    (
        "model_kwargs",
        {"load_in_4bit": True, "bnb_4bit_compute_dtype": torch.bfloat16},
        {"load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"},
        ("method", "model_kwargs"),
        {"load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"},
    ),
    ("raise_on_failure", True, True, ("strict",), True),
]


@pytest.mark.parametrize(("name", "value", "saved", "place", "setting"), GIVEN)
def test_each_parameter_is_a_setting_and_goes_round_by_itself(
    name: str, value: Any, saved: Any, place: tuple[str, ...], setting: Any
) -> None:
    ranker = SecondPassRanker(CROSS_ENCODER, **{name: value})
    parameters = ranker.to_dict()["init_parameters"]
    assert parameters == {**DEFAULTS, "reranker": CROSS_ENCODER, name: saved}
    assert type(parameters[name]) is type(saved)
    back = saved_and_loaded(ranker)
    for one in (ranker, back):
        inside: Any = one.reranker.to_config()
        for step in place:
            inside = inside.get(step) if isinstance(inside, dict) else None
        assert inside == setting


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 0}, "^top_k must be > 0, but got 0$"),
    ({"top_k": -1}, "^top_k must be > 0, but got -1$"),
    ({"top_k": 1.5}, "top_k: give a whole number"),
    ({"top_k": True}, "top_k: give a whole number"),
    ({"depth": 0}, "depth"),
    ({"score_threshold": "high"}, "must be a valid number"),
    ({"score_threshold": math.nan}, "must be a finite number"),
    ({"meta_fields_to_embed": "title"}, "meta_fields_to_embed.*list of metadata keys"),
    ({"embedding_separator": None}, "embedding_separator: must be a str"),
    ({"query_prefix": 3}, "query_prefix: must be a str"),
    ({"document_suffix": b"x"}, "document_suffix: must be a str"),
    ({"dedupe": "no"}, "dedupe: must be a bool"),
    ({"raise_on_failure": 1}, "raise_on_failure: must be a bool"),
    ({"meta_prefix": None}, "meta_prefix: must be a str"),
    ({"device": "cpu"}, r"device: give a ComponentDevice.*from_str"),
    ({"token": "hf_abc"}, r"token: give a Secret.*from_env_var"),
    ({"batch_size": 0}, "batch_size"),
    ({"model": ""}, "model"),
    ({"model": 3}, "model"),
    ({"model_kwargs": ["dtype"]}, "model_kwargs"),
    ({"model_kwargs": {"token": "hf_abc"}}, "model_kwargs.token.*token_env"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_a_wrong_value_is_refused_when_it_is_given(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        SecondPassRanker(CROSS_ENCODER, **given)
    assert "hf_abc" not in str(raised.value)


@pytest.mark.parametrize("wrong", ["no", 3, []])
def test_a_scale_score_that_is_no_boolean_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="scale_score"):
        SecondPassRanker(CROSS_ENCODER, scale_score=wrong)


def test_several_devices_are_refused_with_the_way_that_is_there() -> None:
    device = ComponentDevice.from_multiple(
        DeviceMap({"layer1": Device.gpu(0), "layer2": Device.gpu(1)})
    )
    with pytest.raises(ConfigurationError, match=r"device: .*single.*model_kwargs.*'device_map'"):
        SecondPassRanker(CROSS_ENCODER, device=device)
    SecondPassRanker(CROSS_ENCODER, model_kwargs={"device_map": device.to_hf()})


@pytest.mark.parametrize("reranker", ["default", CROSS_ENCODER])
def test_a_token_itself_can_be_used_and_says_that_it_cannot_be_saved(reranker: Any) -> None:
    ranker = SecondPassRanker(reranker, token=Secret.from_token("hf_abc"))
    with pytest.raises(ValueError, match="environment variable") as raised:
        ranker.to_dict()
    assert "hf_abc" not in str(raised.value) + repr(ranker.reranker)


@pytest.mark.parametrize(
    ("flat", "own", "place"),
    [
        ({"model": "a"}, {"method": {"type": "cross_encoder", "model": "b"}}, "method.model"),
        ({"top_k": 3}, {"top_k": 3}, "top_k"),
        (
            {"scale_score": True},
            {"method": {"type": "cross_encoder", "activation": "none"}},
            "method.activation",
        ),
        ({"query_prefix": "q: "}, {"render": {"query_prefix": ""}}, "render.query_prefix"),
        ({"query_suffix": "?"}, {"render": {"query_suffix": ""}}, "render.query_suffix"),
        ({"document_prefix": "d: "}, {"render": {"prefix": "p: "}}, "render.prefix"),
        ({"document_suffix": "."}, {"render": {"suffix": "."}}, "render.suffix"),
        (
            {"device": ComponentDevice.from_str("cpu")},
            {"method": {"type": "cross_encoder", "device": "auto"}},
            "method.device",
        ),
        (
            {"token": Secret.from_env_var("A")},
            {"method": {"type": "cross_encoder", "token_env": "B"}},
            "method.token_env",
        ),
        (
            {"batch_size": 4},
            {"method": {"type": "cross_encoder", "batch_size": 4}},
            "method.batch_size",
        ),
        (
            {"model_kwargs": {"a": 1}},
            {"method": {"type": "cross_encoder", "model_kwargs": {"b": 2}}},
            "method.model_kwargs",
        ),
    ],
)
def test_a_parameter_beside_the_same_setting_is_refused_with_both_places(
    flat: dict[str, Any], own: dict[str, Any], place: str
) -> None:
    (name,) = flat
    with pytest.raises(ConfigurationError, match=rf"{name}: .*mapping.*'{place}'.*keep one"):
        SecondPassRanker({**CROSS_ENCODER, **own}, **flat)
    ready = Reranker.from_config({**CROSS_ENCODER, **own})
    with pytest.raises(ConfigurationError, match=rf"{name}: .*ready Reranker.*'{place}'"):
        SecondPassRanker(ready, **flat)


@pytest.mark.parametrize(
    "flat",
    [
        {"model": "a"},
        {"scale_score": False},
        {"device": ComponentDevice.from_str("cpu")},
        {"token": Secret.from_env_var("A")},
        {"batch_size": 4},
        {"model_kwargs": {"a": 1}},
    ],
    ids=lambda flat: next(iter(flat)),
)
def test_a_parameter_that_the_method_has_not_is_refused_with_its_name(flat: dict[str, Any]) -> None:
    (name,) = flat
    with pytest.raises(ConfigurationError, match=rf"{name}: the method 'lexical' has no such"):
        SecondPassRanker("lexical", **flat)
    staged = {"method": {"type": "cascade", "stages": ["lexical", {"type": "cross_encoder"}]}}
    with pytest.raises(ConfigurationError, match=rf"{name}: .*'cascade'.*its stages do"):
        SecondPassRanker(staged, **flat)
    with pytest.raises(ConfigurationError, match=rf"{name}: .*[Rr]ecorder.*its own settings"):
        SecondPassRanker({"method": Recorder()}, **flat)


@pytest.mark.parametrize("flat", [{"model": "a"}, {"token": Secret.from_env_var("A")}])
def test_a_chat_generator_has_model_and_token_of_its_own(flat: dict[str, Any]) -> None:
    (name,) = flat
    with pytest.raises(ConfigurationError, match=rf"{name}: the language model object has"):
        SecondPassRanker({"method": "listwise"}, chat_generator=Says("x"), **flat)


def test_a_chat_generator_beside_a_ready_reranker_is_refused() -> None:
    ready = Reranker.from_config(
        {"method": {"type": "listwise", "llm": {"type": "openai", "model": "m"}}}
    )
    with pytest.raises(ConfigurationError, match="set it on the Reranker"):
        SecondPassRanker(ready, chat_generator=Says("x"))


# ---------------------------------------------------------------------- loading


def test_making_one_reads_no_secret_and_looks_for_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.delenv("NOWHERE_TOKEN", raising=False)
    secret = Secret.from_env_var("NOWHERE_TOKEN", strict=True)
    folder = tmp_path / "later"
    ranker = SecondPassRanker(CROSS_ENCODER, model=folder, token=secret, raise_on_failure=True)
    saved_and_loaded(ranker)
    with pytest.raises(ModelLoadError, match="later"):
        ranker.warm_up()
    tiny_models.write_classifier(folder)
    ranker.warm_up()
    assert call(ranker, QUERY, sentences())["report"]["status"] == "ok"


def test_a_real_model_is_warmed_up_once_and_need_not_be(model: Path, call: Call) -> None:
    warmed = SecondPassRanker(CROSS_ENCODER, model=model)
    for _ in range(2):
        warmed.warm_up()
    asyncio.run(warmed.warm_up_async())
    cold = SecondPassRanker(CROSS_ENCODER, model=model)
    first, second = call(warmed, QUERY, sentences()), call(cold, QUERY, sentences())
    assert scores(first) == scores(second)
    assert ids(first) == ids(second)
    assert len({round(score, 4) for score in scores(first)}) == 5  # it tells all texts apart
    for _ in range(2):
        warmed.close()
    assert scores(call(warmed, QUERY, sentences())) == scores(first)


def test_a_model_s_scores_are_logits_or_scaled(model: Path, call: Call) -> None:
    plain = call(SecondPassRanker(CROSS_ENCODER, model=model), QUERY, sentences())
    logits = call(
        SecondPassRanker(CROSS_ENCODER, model=model, scale_score=False), QUERY, sentences()
    )
    scaled = call(
        SecondPassRanker(CROSS_ENCODER, model=model, scale_score=True), QUERY, sentences()
    )
    assert scores(plain) == scores(logits)
    assert ids(plain) == ids(logits) == ids(scaled)
    assert scores(scaled) == pytest.approx([1 / (1 + math.exp(-score)) for score in scores(logits)])
    assert scores(scaled) != scores(logits)


def test_device_batch_size_and_a_model_by_its_path_change_no_score(model: Path, call: Call) -> None:
    plain = call(SecondPassRanker(CROSS_ENCODER, model=model), QUERY, sentences())
    other = SecondPassRanker(
        "default", model=str(model), device=ComponentDevice.from_str("cpu"), batch_size=1
    )
    result = call(saved_and_loaded(other), QUERY, sentences())
    assert ids(result) == ids(plain)
    assert scores(result) == pytest.approx(scores(plain), abs=1e-4)


def logits_by(model: Path, **model_kwargs: Any) -> list[float]:
    ranker = SecondPassRanker(CROSS_ENCODER, model=model, model_kwargs=model_kwargs)
    return sorted(scores(saved_and_loaded(ranker).run(QUERY, sentences())))


def test_a_dtype_in_model_kwargs_reaches_the_model_before_and_after_saving(model: Path) -> None:
    given = {"dtype": torch.bfloat16}
    before = SecondPassRanker(CROSS_ENCODER, model=model, model_kwargs=given)
    result = before.run(QUERY, sentences())
    assert given == {"dtype": torch.bfloat16}
    assert sorted(scores(result)) == logits_by(model, dtype=torch.bfloat16)
    assert logits_by(model, dtype="bfloat16") != logits_by(model, dtype="float32")


def test_the_older_name_of_dtype_in_model_kwargs_reaches_the_model(model: Path) -> None:
    assert logits_by(model, torch_dtype=torch.bfloat16) == logits_by(model, dtype=torch.bfloat16)


# ---------------------------------------------------------------------- how many come out


@pytest.mark.parametrize("arguments", [{}, {"top_k": 1}, {"score_threshold": 0.5}])
def test_no_documents_in_none_out(call: Call, arguments: dict[str, Any]) -> None:
    recorder, says = Recorder(), Says(indices(1))
    for ranker in (
        SecondPassRanker({"method": recorder}, raise_on_failure=True),
        SecondPassRanker(BY_INDEX, chat_generator=says, raise_on_failure=True),
    ):
        result = call(ranker, QUERY, [], **arguments)
        assert result["documents"] == []
        assert result["report"]["status"] == "ok"
    assert recorder.queries == []
    assert says.asked == []


@pytest.mark.parametrize(
    ("own", "of_the_call", "expected"),
    [
        (None, None, ["d4", "d3", "d2"]),
        (2, None, ["d4", "d3"]),
        (2, 1, ["d4"]),
        (1, 2, ["d4", "d3"]),
        (9, None, ["d4", "d3", "d2"]),
        (1, 9, ["d4", "d3", "d2"]),
    ],
)
def test_top_k_of_the_call_or_else_of_the_component(
    call: Call, own: int | None, of_the_call: int | None, expected: list[str]
) -> None:
    ranker = SecondPassRanker({"method": Recorder()}, top_k=own)
    assert ids(call(ranker, QUERY, lengths(2, 4, 3), top_k=of_the_call)) == expected


@pytest.mark.parametrize("wrong", [0, -1])
@pytest.mark.parametrize("own", [10, 1, None])
def test_a_top_k_below_one_is_refused_before_anything_is_asked(
    call: Call, own: int | None, wrong: int
) -> None:
    says = Says(indices(1))
    ranker = SecondPassRanker(BY_INDEX, chat_generator=says, top_k=own)
    with pytest.raises(ValueError, match=f"^top_k must be > 0, but got {wrong}$"):
        call(ranker, QUERY, lengths(2, 4), top_k=wrong)
    assert says.asked == []


@pytest.mark.parametrize(
    ("own", "of_the_call", "expected"),
    [
        (3.0, None, ["d4", "d3"]),
        (3.1, None, ["d4"]),
        (None, 3.0, ["d4", "d3"]),
        (4.5, 3.0, ["d4", "d3"]),
        (4.5, 0.0, ["d4", "d3", "d2"]),
        (0.0, None, ["d4", "d3", "d2"]),
        (2.0, 5.0, []),
        (5.0, None, []),
    ],
)
def test_a_threshold_keeps_what_reaches_it(
    call: Call, own: float | None, of_the_call: float | None, expected: list[str]
) -> None:
    ranker = SecondPassRanker({"method": Recorder()}, score_threshold=own)
    for _ in range(2):  # a threshold of a call is gone with it
        result = call(ranker, QUERY, lengths(2, 4, 3), score_threshold=of_the_call)
        assert ids(result) == expected
    left_out = result["report"]["left_out"].get("floor", [])
    assert len(left_out) == 3 - len(expected)


def test_a_threshold_on_a_real_model_keeps_equality(model: Path, call: Call) -> None:
    ranker = SecondPassRanker(CROSS_ENCODER, model=model, scale_score=True)
    everything = call(ranker, QUERY, sentences())
    at = scores(everything)[2]
    kept = call(ranker, QUERY, sentences(), score_threshold=at)
    assert scores(kept) == [score for score in scores(everything) if score >= at]
    above = call(ranker, QUERY, sentences(), score_threshold=math.nextafter(at, 2))
    assert scores(above) == [score for score in scores(everything) if score > at]
    assert len(scores(above)) < len(scores(kept)) < len(scores(everything))


def test_threshold_and_top_k_hold_together(call: Call) -> None:
    ranker = SecondPassRanker({"method": Recorder()}, score_threshold=3.0, top_k=2)
    assert ids(call(ranker, QUERY, lengths(2, 4, 3, 6))) == ["d6", "d4"]
    assert ids(call(ranker, QUERY, lengths(2, 4, 1))) == ["d4"]


# ---------------------------------------------------------------------- what the model is shown

META: dict[str, Any] = {
    "title": "Title",
    "zero": 0,
    "no": False,
    "none": None,
    "empty": "",
    "deep": {"name": "Deep"},
    "a.b": "dotted",
}


@pytest.mark.parametrize(
    ("given", "content", "shown"),
    [
        ({}, "text", "text"),
        ({"document_prefix": "passage: "}, "text", "passage: text"),
        ({"document_suffix": "\nend"}, "text", "text\nend"),
        ({"document_prefix": "<", "document_suffix": ">"}, "", "<>"),
        ({"meta_fields_to_embed": ["title"]}, "text", "Title\ntext"),
        ({"meta_fields_to_embed": ["zero", "title"]}, "text", "0\nTitle\ntext"),
        ({"meta_fields_to_embed": ["no"]}, "text", "False\ntext"),
        ({"meta_fields_to_embed": ["none", "missing", "title"]}, "text", "Title\ntext"),
        ({"meta_fields_to_embed": ["none", "missing"]}, "text", "text"),
        ({"meta_fields_to_embed": ["empty", "title"]}, "text", "Title\ntext"),
        ({"meta_fields_to_embed": ["deep.name"]}, "text", "Deep\ntext"),
        ({"meta_fields_to_embed": ["a.b"]}, "text", "dotted\ntext"),
        ({"meta_fields_to_embed": ["title"]}, None, "Title"),
        ({"meta_fields_to_embed": ["title"], "embedding_separator": " - "}, "t", "Title - t"),
        ({"meta_fields_to_embed": ["title"], "embedding_separator": ""}, "text", "Titletext"),
        (
            {
                "meta_fields_to_embed": ["title", "zero"],
                "embedding_separator": "|",
                "document_prefix": "p: ",
                "document_suffix": " :s",
            },
            "text",
            "p: Title|0|text :s",
        ),
    ],
)
def test_a_document_is_shown_as_the_parameters_say(
    call: Call, given: dict[str, Any], content: str | None, shown: str
) -> None:
    recorder = Recorder()
    documents = [Document(content=content, meta=META)]
    call(SecondPassRanker({"method": recorder}, **given), QUERY, documents)
    assert recorder.shown == [shown]
    assert recorder.queries == [QUERY]


@pytest.mark.parametrize(
    ("given", "query"),
    [
        ({"query_prefix": "query: "}, "query: cat food"),
        ({"query_suffix": " ?"}, "cat food ?"),
        ({"query_prefix": "<", "query_suffix": ">", "document_prefix": "d"}, "<cat food>"),
    ],
)
def test_a_query_is_shown_as_the_parameters_say(
    call: Call, given: dict[str, Any], query: str
) -> None:
    recorder = Recorder()
    call(SecondPassRanker({"method": recorder}, **given), QUERY, lengths(1, 2))
    assert recorder.queries == [query]


def test_what_is_shown_to_a_language_model_has_the_metadata_too(call: Call) -> None:
    says = Says(indices(2, 1))
    ranker = SecondPassRanker(BY_INDEX, chat_generator=says, meta_fields_to_embed=["title"])
    documents = [Document(content="a", meta={"title": "First"}), Document(content="b")]
    result = call(ranker, QUERY, documents)
    assert [document.content for document in result["documents"]] == ["b", "a"]
    assert '<doc id="1">First\na</doc>' in (says.asked[0][-1].text or "")


# ---------------------------------------------------------------------- documents and scores


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_scores_of_numpy_become_floats_of_python(call: Call, kind: Any) -> None:
    recorder = Recorder(lambda values: np.array(values, dtype=kind))
    result = call(SecondPassRanker({"method": recorder}), QUERY, lengths(2, 3))
    assert [type(score) for score in scores(result)] == [float, float]
    assert [type(one.meta["rerank_score"]) for one in result["documents"]] == [float, float]


def test_of_duplicates_the_best_scored_is_shown_and_comes_out(call: Call) -> None:
    documents = [
        Document(id="same", content="worse", score=0.1),
        Document(id="same", content="better", score=0.9),
        Document(id="same", content="unscored"),
        Document(id="other", content="other", score=0.2),
    ]
    says = Says(indices(2, 1))
    result = call(SecondPassRanker(BY_INDEX, chat_generator=says), QUERY, documents)
    assert [document.content for document in result["documents"]] == ["other", "better"]
    assert "worse" not in (says.asked[0][-1].text or "")
    assert result["report"]["left_out"] == {"duplicate": [0, 2]}


@pytest.mark.parametrize("reply", [indices(2, 1), indices(2), "nonsense"])
def test_documents_that_came_in_are_left_as_they_were(call: Call, reply: str) -> None:
    documents = [
        Document(id=str(at), content=text, score=at / 4, meta={"tags": [at]}, embedding=[0.5])
        for at, text in enumerate(["a", "b"])
    ]
    before = copy.deepcopy([document.to_dict(flatten=False) for document in documents])
    result = call(SecondPassRanker(BY_INDEX, chat_generator=Says(reply)), QUERY, documents)
    assert [document.to_dict(flatten=False) for document in documents] == before
    assert sorted(ids(result)) == ["0", "1"]
    assert all(document.embedding == [0.5] for document in result["documents"])


# ---------------------------------------------------------------------- a language model's replies

FIRST_TO_FOURTH = ["a", "b", "c", "d"]


def four() -> list[Document]:
    return [Document(id=name, content=f"text {name}") for name in FIRST_TO_FOURTH]


@pytest.mark.parametrize(
    ("reply", "order", "issues"),
    [
        (indices(2, 1, 4, 3), "badc", []),
        (f"```json\n{indices(2, 1, 4, 3)}\n```", "badc", []),
        (indices("2", "1", "4", "3"), "badc", []),
        (indices(2, 2, 1, 4, 3, 3), "badc", ["doubled_label"]),
        (indices(99, 2, 1, 4, 3, -1), "badc", ["unknown_label"]),
        (indices("x", 2, None, 1, 4, 3), "badc", ["unknown_label"]),
        (indices(3), "cabd", ["not_in_reply"]),
        (indices(3, 3, 99), "cabd", ["not_in_reply", "doubled_label", "unknown_label"]),
        ('{"ranking": [2, 1, 4, 3]}', "badc", []),
        ("[2, 1, 4, 3]", "badc", []),
    ],
)
def test_a_reply_by_index_is_read_and_loses_no_document(
    call: Call, reply: str, order: str, issues: list[str]
) -> None:
    says = Says(reply)
    result = call(SecondPassRanker(BY_INDEX, chat_generator=says), QUERY, four())
    assert "".join(ids(result)) == order
    assert codes(result) == issues
    assert result["report"]["status"] == ("partial" if "not_in_reply" in issues else "ok")
    assert len(says.asked) == 1
    assert scores(result) == sorted(scores(result), reverse=True)


def test_only_the_first_of_several_replies_counts(call: Call) -> None:
    says = Says(indices(2, 1, 3, 4), indices(4, 3, 2, 1))
    assert ids(call(SecondPassRanker(BY_INDEX, chat_generator=says), QUERY, four())) == [*"bacd"]


UNUSABLE: dict[str, Says] = {
    "no JSON": Says("The best is the second."),
    "broken JSON": Says('{"documents": [{"index": 2}'),
    "another key": Says('{"thoughts": [{"index": 2}]}'),
    "no list": Says('{"documents": {"index": 2}}'),
    "a list of lists": Says('{"documents": [[2], [1]]}'),
    "an empty list": Says('{"documents": []}'),
    "no index of ours": Says(indices(0, 5)),
    "no number": Says(indices("invalid")),
    "two orders": Says(f"{indices(2, 1, 3, 4)} {indices(1, 2, 3, 4)}"),
    "nothing": Says(""),
    "no text": Says(None),
    "no replies": Says(),
    "an error": Says(error=RuntimeError("generator failed")),
}


@pytest.mark.parametrize("says", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_reply_leaves_the_order_or_raises(call: Call, says: Says) -> None:
    result = call(SecondPassRanker(BY_INDEX, chat_generator=says), QUERY, four())
    assert ids(result) == FIRST_TO_FOURTH
    assert result["report"]["status"] == "unchanged"
    assert len(codes(result)) == 1
    strict = SecondPassRanker(BY_INDEX, chat_generator=says, raise_on_failure=True)
    with pytest.raises(RerankError, match="strict"):
        call(strict, QUERY, four())
    pipeline = Pipeline()
    pipeline.add_component("ranker", strict)
    with pytest.raises(PipelineRuntimeError):
        pipeline.run({"ranker": {"query": QUERY, "documents": four()}})


def test_top_k_cuts_an_order_that_was_left_as_it_was_unlike_llmranker(call: Call) -> None:
    ranker = SecondPassRanker(BY_INDEX, chat_generator=Says("nonsense"), top_k=1)
    result = call(ranker, QUERY, four())
    assert ids(result) == ["a"]
    assert result["report"]["left_out"] == {"top_k": [1, 2, 3]}


@pytest.mark.parametrize("query", ["", "   ", "\n"])
@pytest.mark.parametrize("strict", [False, True])
def test_an_empty_query_is_asked_about_as_any_other(call: Call, query: str, strict: bool) -> None:
    says = Says(indices(2, 1, 3, 4))
    ranker = SecondPassRanker(BY_INDEX, chat_generator=says, raise_on_failure=strict)
    assert ids(call(ranker, query, four())) == [*"bacd"]
    lexical = SecondPassRanker("lexical", raise_on_failure=strict)
    result = call(lexical, query, four())
    assert ids(result) == FIRST_TO_FOURTH
    assert result["report"]["status"] == "ok"


@pytest.mark.parametrize("query", [None, 123])
def test_a_query_that_is_no_string_is_refused_unlike_llmranker(call: Call, query: Any) -> None:
    says = Says(indices(1))
    with pytest.raises(ValueError, match=r"^query: give a string"):
        call(SecondPassRanker(BY_INDEX, chat_generator=says), query, four())
    assert says.asked == []


# ---------------------------------------------------------------------- prompts


def test_a_prompt_of_one_s_own_is_what_the_generator_is_asked(call: Call) -> None:
    prompt = {"user": "Order for {query}:\n\n{documents}\n\n{reply}", "system": "You order."}
    config = {"method": {**BY_INDEX["method"], "prompt": prompt}}
    says = Says(indices(2, 1, 3, 4))
    ranker = SecondPassRanker(config, chat_generator=says)
    assert ids(call(ranker, QUERY, four())) == [*"bacd"]
    system, user = says.asked[0]
    assert system.text == "You order."
    assert (user.text or "").startswith("Order for <query>cat food</query>:\n\n<doc id=")
    assert ranker.reranker.to_config()["method"]["prompt"] == prompt


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("Rank {documents}", r"prompt\.user: has to hold \{query\}"),
        ("Rank for {query}", r"prompt\.user: has to hold \{documents\}"),
        ("Rank {documents} for {query} by {top_k}", r"prompt\.user.*top_k"),
        ("Rank {documents} for {query", r"prompt\.user"),
    ],
)
def test_a_prompt_without_its_parts_is_refused_at_once(user: str, message: str) -> None:
    config = {"method": {"type": "listwise", "prompt": {"user": user}}}
    with pytest.raises(ConfigurationError, match=message):
        SecondPassRanker(config, chat_generator=Says("x"))


def test_a_prompt_builder_of_haystack_may_be_the_prompt(call: Call) -> None:
    template = "{{ documents }} are to be ordered for {{ query }}"
    builder = PromptBuilder(template, required_variables=["documents", "query"])
    says = Says(indices(2, 1, 3, 4))
    config = {"method": {**BY_INDEX["method"], "prompt": {"user": builder}}}
    assert ids(call(SecondPassRanker(config, chat_generator=says), QUERY, four())) == [*"bacd"]
    assert (says.asked[0][-1].text or "").endswith("ordered for <query>cat food</query>")


# ---------------------------------------------------------------------- life of chat generators


class Life(Says):
    """Notes what is called, and in which loop or thread."""

    def __init__(self) -> None:
        super().__init__(indices(2, 1, 3, 4))
        self.events: list[tuple[str, Any]] = []

    def note(self, what: str) -> None:
        try:
            where: Any = asyncio.get_running_loop()
        except RuntimeError:
            where = threading.get_ident()
        self.events.append((what, where))

    @property
    def called(self) -> list[str]:
        return [what for what, _ in self.events]


class SyncLife(Life):
    def warm_up(self) -> None:
        self.note("warm_up")

    def close(self) -> None:
        self.note("close")


class AsyncLife(Life):
    async def warm_up_async(self) -> None:
        self.note("warm_up_async")

    async def close_async(self) -> None:
        self.note("close_async")

    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.note("run_async")
        return self.run(messages)


class BothLife(AsyncLife):
    def warm_up(self) -> None:
        self.note("warm_up")

    def close(self) -> None:
        self.note("close")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (SyncLife, ["warm_up", "close"]),
        (AsyncLife, []),
        (BothLife, ["warm_up", "close"]),
        (Life, []),
    ],
)
def test_synchronous_life_calls_synchronous_methods_only(
    kind: type[Life], expected: list[str]
) -> None:
    generator = kind()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)
    assert generator.events == []
    for _ in range(2):
        ranker.warm_up()
    assert ids(ranker.run(QUERY, four())) == [*"bacd"]
    for _ in range(2):
        ranker.close()
    assert generator.called == expected
    assert all(where == threading.get_ident() for _, where in generator.events)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (SyncLife, ["warm_up", "close"]),
        (AsyncLife, ["warm_up_async", "run_async", "close_async"]),
        (BothLife, ["warm_up_async", "run_async", "close_async"]),
        (Life, []),
    ],
)
def test_asynchronous_methods_run_in_the_serving_loop_and_others_block_no_loop(
    kind: type[Life], expected: list[str]
) -> None:
    generator = kind()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)

    async def life() -> tuple[Any, int]:
        for _ in range(2):
            await ranker.warm_up_async()
        assert ids(await ranker.run_async(QUERY, four())) == [*"bacd"]
        for _ in range(2):
            await ranker.close_async()
        return asyncio.get_running_loop(), threading.get_ident()

    loop, thread = asyncio.run(life())
    assert generator.called == expected
    for what, where in generator.events:
        if what.endswith("_async"):
            assert where is loop
        else:
            assert type(where) is int
            assert where != thread


def test_it_is_warmed_up_anew_after_it_was_closed() -> None:
    generator = BothLife()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)
    for _ in range(2):
        ranker.warm_up()
        ranker.close()
    assert generator.called == ["warm_up", "close"] * 2


def test_a_generator_used_both_ways_is_warmed_up_both_ways() -> None:
    generator = BothLife()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)
    ranker.warm_up()
    asyncio.run(ranker.warm_up_async())
    ranker.warm_up()
    assert generator.called == ["warm_up", "warm_up_async"]


@pytest.mark.parametrize("first", ["close", "close_async"])
def test_a_generator_used_both_ways_is_closed_both_ways(first: str) -> None:
    generator = BothLife()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)

    async def life() -> None:
        ranker.warm_up()
        await ranker.warm_up_async()
        if first == "close":
            ranker.close()
        await ranker.close_async()
        if first != "close":
            ranker.close()

    asyncio.run(life())
    assert {"close", "close_async"} <= set(generator.called)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_pipelines_see_to_the_life_of_the_generator(asynchronous: bool) -> None:
    generator = BothLife()
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker(BY_INDEX, chat_generator=generator))
    data = {"ranker": {"query": QUERY, "documents": four()}}

    async def life() -> None:
        for _ in range(2):
            await pipeline.run_async(data)
        await pipeline.close_async()

    if asynchronous:
        asyncio.run(life())
        assert generator.called == ["warm_up_async", "run_async", "run_async", "close_async"]
    else:
        for _ in range(2):
            pipeline.run(data)
        pipeline.close()
        assert generator.called == ["warm_up", "close"]


@pytest.mark.parametrize("strict", [False, True])
def test_a_generator_that_cannot_be_warmed_up_raises_only_under_raise_on_failure(
    strict: bool,
) -> None:
    class Broken(Says):
        def warm_up(self) -> None:
            raise ValueError("no key")

    ranker = SecondPassRanker(
        BY_INDEX, chat_generator=Broken(error=ValueError("no key")), raise_on_failure=strict
    )
    if strict:
        with pytest.raises(ValueError, match="no key"):
            ranker.warm_up()
        with pytest.raises(ValueError, match="no key"):
            asyncio.run(ranker.warm_up_async())
    else:
        ranker.warm_up()
        asyncio.run(ranker.warm_up_async())
        assert ranker.run(QUERY, four())["report"]["status"] == "unchanged"


# ---------------------------------------------------------------------- tracing


class Recorded(Span):
    """A span with its parent."""

    def __init__(self, name: str, parent: Recorded | None, tags: dict[str, Any] | None) -> None:
        self.name = name
        self.parent = parent
        self.tags = dict(tags or {})

    def set_tag(self, key: str, value: Any) -> None:
        self.tags[key] = value

    def set_content_tag(self, key: str, value: Any) -> None:
        self.tags[key] = value


class Recording(Tracer):
    """Keeps spans. Which one is current is a context variable, as in OpenTelemetry."""

    def __init__(self) -> None:
        self.spans: list[Recorded] = []
        self._current: contextvars.ContextVar[Recorded | None] = contextvars.ContextVar(
            "current", default=None
        )

    @contextlib.contextmanager
    def trace(
        self, operation_name: str, tags: dict[str, Any] | None = None, parent_span: Any = None
    ) -> Iterator[Span]:
        span = Recorded(operation_name, parent_span or self._current.get(), tags)
        self.spans.append(span)
        token = self._current.set(span)
        try:
            yield span
        finally:
            self._current.reset(token)

    def current_span(self) -> Span | None:
        return self._current.get()

    def named(self, name: str) -> list[Recorded]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def recording() -> Iterator[Recording]:
    before = tracer.actual_tracer
    made = Recording()
    enable_tracing(made)
    yield made
    disable_tracing()
    tracer.actual_tracer = before


def graded(messages: list[ChatMessage]) -> dict[str, Any]:
    """A grade for each document shown, and what it cost."""
    shown = (messages[-1].text or "").split('<doc id="')[1:]
    text = json.dumps({one.split('"')[0]: 5 for one in shown})
    usage = {"prompt_tokens": 11, "completion_tokens": len(shown)}
    return {"replies": [ChatMessage.from_assistant(text, meta={"usage": usage})]}


@component
class SyncGrades:
    """Grades in `run` alone, and opens a span of its own there."""

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SyncGrades:
        return default_from_dict(cls, data)

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        with tracer.trace("inside"):
            return graded(messages)


@component
class BothGrades:
    """The same, with an asynchronous side that gives way to others."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        with tracer.trace("inside"):
            return graded(messages)

    @component.output_types(replies=list[ChatMessage])
    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        with tracer.trace("inside"):
            await asyncio.sleep(0)
            return graded(messages)


@pytest.mark.parametrize("generator", [SyncGrades, BothGrades])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_calls_of_the_generator_nest_under_the_component_and_carry_usage(
    recording: Recording, generator: type, asynchronous: bool
) -> None:
    pipeline = Pipeline()
    config = {"method": {"type": "graded", "batch_size": 2}}
    pipeline.add_component("ranker", SecondPassRanker(config, chat_generator=generator()))
    data = {"ranker": {"query": QUERY, "documents": four()}}
    result = asyncio.run(pipeline.run_async(data)) if asynchronous else pipeline.run(data)
    assert result["ranker"]["report"]["status"] == "ok"
    (outer,) = recording.named("haystack.component.run")
    asked = recording.named("haystack.chat_generator.run")
    assert len(asked) == 2
    for span in asked:
        assert span.parent is outer
        assert span.tags["haystack.component.type"] == generator.__name__
        assert span.tags["haystack.component.input"]["messages"][-1].is_from("user")
        (reply,) = span.tags["haystack.component.output"]["replies"]
        assert reply.meta["usage"] == {"prompt_tokens": 11, "completion_tokens": 2}
    # What the generator traces itself belongs to the call that it is part of.
    inside = [span.parent for span in recording.named("inside")]
    assert sorted(map(id, inside)) == sorted(map(id, asked))  # threads come as they like


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_that_fails_is_traced_without_an_output(
    recording: Recording, asynchronous: bool
) -> None:
    generator = Says(error=RuntimeError("generator failed"))
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)
    if asynchronous:
        asyncio.run(ranker.run_async(QUERY, four()))
    else:
        ranker.run(QUERY, four())
    spans = recording.named("haystack.chat_generator.run")
    assert spans
    for span in spans:
        assert "haystack.component.input" in span.tags
        assert "haystack.component.output" not in span.tags
