"""The contract beyond the basics: settings, secrets, prompts, language models, reports.

Named after the items of the contract, as in ``test_base.py``; an LLM whose keys,
tools, events and spans are LlamaIndex's own stands in for a provider.
"""

from __future__ import annotations

import asyncio
import copy
import importlib.metadata
import json
import logging
import pickle
import re
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import CustomLLM, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate, RichPromptTemplate
from llama_index.core.schema import ImageNode, MetadataMode, NodeWithScore, TextNode
from pydantic import BaseModel, Field, PrivateAttr, SecretStr, ValidationError

from fake_provider import FakeProvider
from llama_index.postprocessor.secondpass import SecondPassReportEvent, SecondPassRerank
from secondpass import ConfigurationError, NotSerializableError, Reranker, RerankError

KEY = "sk-secret-0123456789"
QUERY = "wombats"
KEYS = {
    "rerank_score",
    "rerank_final_score",
    "retrieval_score",
    "rerank_rank",
    "rerank_status",
}
LENGTHS = (3, 7, 1, 9, 5)
BEST_FIRST = [9, 7, 5, 3, 1]


def nodes_of(lengths: Sequence[int] = LENGTHS, **metadata: Any) -> list[NodeWithScore]:
    """Nodes that are the better the longer they are."""
    return [
        NodeWithScore(
            node=TextNode(text="x" * length, id_=f"n{at}", metadata={"at": at, **metadata}),
            score=1 - at / 100,
        )
        for at, length in enumerate(lengths)
    ]


def lengths(nodes: Sequence[NodeWithScore]) -> list[int]:
    return [len(one.node.get_content()) for one in nodes]


def plain(nodes: Sequence[NodeWithScore]) -> list[dict[str, Any]]:
    return [one.to_dict() for one in nodes]


Said = dict[str, Any] | str | Exception | ChatResponse


def honest(shown: dict[str, str], words: str) -> dict[str, Any]:
    """Grades by length, or the order by it, as the prompt asks for."""
    if '"ranking"' in words:
        return {"ranking": sorted(shown, key=lambda label: -len(shown[label]))}
    return {label: min(10, len(text)) for label, text in shown.items()}


class Scripted(FunctionCallingLLM):
    """A function calling LLM that says what a function makes of the passages it is shown."""

    api_key: str = KEY
    calls_tools: bool = True
    usage: dict[str, int] | None = None
    finish_reason: str | None = None
    by_tool: bool = True
    """Whether it answers by the tool that it is offered, or in words."""

    # In a list, for pydantic would bind a function.
    _says: list[Callable[[dict[str, str], str], Said]] = PrivateAttr(default=[honest])
    _asked: list[list[ChatMessage]] = PrivateAttr(default_factory=list)
    _offered: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _required: list[bool] = PrivateAttr(default_factory=list)
    _loops: list[Any] = PrivateAttr(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="scripted", is_chat_model=True, is_function_calling_model=self.calls_tools
        )

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[Any],
        user_msg: Any = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        self._required.append(tool_required)
        return {"messages": chat_history, "tools": [one.metadata.to_openai_tool() for one in tools]}

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self._asked.append(list(messages))
        self._offered.extend(kwargs.get("tools", ()))
        words = "\n".join(message.content or "" for message in messages)
        shown = dict(re.findall(r'<doc id="([^"]*)">(.*?)</doc>', words, re.DOTALL))
        said = self._says[0](shown, words)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, ChatResponse):
            return said
        extra: dict[str, Any] = {}
        if isinstance(said, dict) and kwargs.get("tools") and self.by_tool:
            extra, said = {"tool_calls": [said]}, ""
        text = said if isinstance(said, str) else json.dumps(said)
        message = ChatMessage(role="assistant", content=text, additional_kwargs=extra)
        raw = {"usage": self.usage, "choices": [{"finish_reason": self.finish_reason}]}
        return ChatResponse(message=message, raw=raw)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self._loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return self.chat(messages, **kwargs)

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        calls = response.message.additional_kwargs.get("tool_calls", [])
        return [ToolSelection(tool_id="1", tool_name="answer", tool_kwargs=one) for one in calls]

    def _not_here(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    complete = stream_chat = stream_complete = _not_here
    acomplete = astream_chat = astream_complete = _not_here


def scripted(says: Callable[[dict[str, str], str], Said] = honest, **fields: Any) -> Scripted:
    llm = Scripted(**fields)
    llm._says = [says]
    return llm


def asking(kind: str, llm: Any, **settings: Any) -> SecondPassRerank:
    """A postprocessor that asks an LLM; its faults are not logged."""
    return SecondPassRerank({"method": {"type": kind}, "log_level": "debug"}, llm=llm, **settings)


def core(reranker: SecondPassRerank) -> dict[str, Any]:
    """The whole configuration, as the core writes it."""
    return reranker._reranker.to_config()


class Listening(BaseEventHandler):
    """Keeps events of reranking, and everything in words."""

    seen: list[Any] = Field(default_factory=list)
    told: list[str] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Listening"

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.told.append(repr(event))
        if isinstance(event, ReRankStartEvent | ReRankEndEvent | SecondPassReportEvent):
            self.seen.append(event)


class Callbacks(BaseCallbackHandler):
    def __init__(self) -> None:
        super().__init__([], [])
        self.payloads: list[Any] = []

    def on_event_start(self, event_type: Any, payload: Any = None, **kwargs: Any) -> str:
        if event_type == CBEventType.RERANKING:
            self.payloads.append(payload)
        return ""

    on_event_end = on_event_start  # type: ignore[assignment]

    def start_trace(self, trace_id: str | None = None) -> None: ...

    def end_trace(self, trace_id: Any = None, trace_map: Any = None) -> None: ...


@pytest.fixture
def listening() -> Iterator[Listening]:
    root, handler = get_dispatcher(), Listening()
    root.event_handlers.append(handler)
    yield handler
    root.event_handlers.remove(handler)


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    root, handler = get_dispatcher(), SimpleSpanHandler()
    root.span_handlers.append(handler)
    yield handler
    root.span_handlers.remove(handler)


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as served:
        yield served


# ---------------------------------------------------------------- 1: flat parameters

LANDS = [
    # the reranker; a parameter; where the setting stands
    ("default", "model", "some/model", "method.model"),
    ("default", "device", "cpu", "method.device"),
    ("default", "choice_batch_size", 4, "method.batch_size"),
    ({"method": "cross_encoder"}, "model", "some/model", "method.model"),
    ("objlib", "model", "gemini-x", "method.llm.model"),
    ("objlib", "choice_batch_size", 5, "method.batch_size"),
    ("attune", "model", "claude-x", "method.llm.model"),
    ("attune", "choice_batch_size", 5, "method.window"),
    ("cohere", "model", "rerank-x", "method.model"),
    ("cohere", "choice_batch_size", 5, "method.batch_size"),
    ("tei", "choice_batch_size", 5, "method.batch_size"),
    ("default", "strict", True, "strict"),
    ("accurate", "strict", True, "strict"),
    ({"method": {"type": "lexical", "k1": 0.5}}, "strict", True, "strict"),
]


@pytest.mark.parametrize(("reranker", "name", "value", "place"), LANDS)
def test_item_01_a_parameter_lands_in_the_configuration(
    reranker: Any, name: str, value: Any, place: str
) -> None:
    made = SecondPassRerank(reranker, **{name: value})
    found: Any = core(made)
    for step in place.split("."):
        found = found[step]
    assert found == value
    assert getattr(made, name) == value
    # Nothing else has changed, and what is written has the setting once.
    again = SecondPassRerank.from_json(made.to_json())
    assert core(again) == core(made)
    assert getattr(again, name) == value
    assert core(SecondPassRerank(reranker)) != core(made)


def test_item_01_a_model_may_be_a_path(tmp_path: Path) -> None:
    reranker = SecondPassRerank(model=tmp_path)
    assert reranker.model == str(tmp_path)
    assert core(reranker)["method"]["model"] == str(tmp_path)


@pytest.mark.parametrize(
    ("method", "asks"),
    [
        ({"type": "endpoint", "api": "jina", "model": "m"}, "jina"),
        ({"type": "endpoint", "api": "tei"}, "tei"),
        ({"type": "graded"}, "openai"),
        ({"type": "listwise"}, "openai"),
    ],
)
@pytest.mark.parametrize("wrapped", [str, SecretStr])
def test_item_01_an_api_key_reaches_the_provider(
    method: dict[str, Any], asks: str, wrapped: Any, provider: FakeProvider
) -> None:
    provider.play()
    url = provider.base_url(asks)
    if method["type"] == "endpoint":
        method = {**method, "base_url": url}
    else:
        method = {**method, "llm": {"type": "openai", "model": "m", "base_url": url}}
    reranker = SecondPassRerank({"method": method}, api_key=wrapped(KEY))
    _, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert report.status == "ok"
    assert {request.key for request in provider.requests} == {KEY}
    reranker._reranker.close()


def test_item_01_an_api_key_of_a_cross_encoder_is_its_hub_token() -> None:
    reranker = SecondPassRerank(api_key=KEY)
    assert reranker._reranker.method.scorer.token.reveal() == KEY  # type: ignore[attr-defined]


CONFLICTS = [
    # the reranker; a parameter; both names
    ({"method": "lexical", "floor": 0.1}, {"similarity_cutoff": 0.5}, "floor"),
    ({"method": {"type": "cross_encoder", "model": "m"}}, {"model": "x"}, "method.model"),
    ({"method": {"type": "cross_encoder", "device": "cpu"}}, {"device": "cpu"}, "method.device"),
    ({"method": {"type": "graded", "llm": {"type": "openai", "model": "m"}}}, {"model": "x"},
     "method.llm.model"),
    ({"method": {"type": "listwise", "window": 4, "llm": {"type": "openai", "model": "m"}}},
     {"choice_batch_size": 5}, "method.window"),
    ({"method": {"type": "graded", "batch_size": 4, "llm": {"type": "openai", "model": "m"}}},
     {"choice_batch_size": 5}, "method.batch_size"),
    ({"method": {"type": "endpoint", "api": "cohere", "model": "m", "api_key": "k"}},
     {"api_key": KEY}, "method.api_key"),
    (Reranker({"type": "lexical"}), {"model": "x"}, "method.model"),
    (Reranker({"type": "lexical"}), {"device": "cpu"}, "method.device"),
    (Reranker({"type": "lexical"}), {"choice_batch_size": 5}, "method.batch_size"),
    (Reranker({"type": "lexical"}), {"api_key": KEY}, "ready Reranker"),
    (Reranker({"type": "lexical"}, floor=0.0), {"similarity_cutoff": 0.0}, "floor"),
    ("lexical", {"model": "x"}, "lexical"),
    ("lexical", {"device": "cpu"}, "lexical"),
    ("lexical", {"choice_batch_size": 5}, "lexical"),
    ("lexical", {"api_key": KEY}, "lexical"),
    ("cohere", {"device": "cpu"}, "endpoint"),
    ("objlib", {"device": "cpu"}, "graded"),
    ("accurate", {"model": "x"}, "cascade.*its stages do"),
    ({"method": object()}, {"model": "x"}, "its own settings"),
]  # fmt: skip


@pytest.mark.parametrize(("reranker", "given", "other"), CONFLICTS)
def test_item_01_a_setting_without_a_place_of_its_own_is_refused(
    reranker: Any, given: dict[str, Any], other: str
) -> None:
    (name,) = given
    with pytest.raises(ConfigurationError, match=f"(?s){name}.*{other}") as caught:
        SecondPassRerank(reranker, **given)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", ["model", "api_key"])
def test_item_01_a_given_llm_has_its_own_model_and_key(name: str) -> None:
    for reranker in ("objlib", {"method": "listwise"}):
        with pytest.raises(
            ConfigurationError, match=f"{name}: the language model object has its own settings"
        ):
            SecondPassRerank(reranker, llm=scripted(), **{name: "x"})
    assert SecondPassRerank("objlib", llm=scripted(), choice_batch_size=2).choice_batch_size == 2


def test_item_01_all_conflicts_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SecondPassRerank("lexical", model="x", device="cpu", api_key=KEY, choice_batch_size=2)
    places = [problem.path for problem in caught.value.problems]
    assert places == [("model",), ("device",), ("choice_batch_size",), ("api_key",)]


def test_item_01_settings_of_the_call_do_what_they_say() -> None:
    graded = asking("graded", scripted())
    assert lengths(graded.postprocess_nodes(nodes_of(), None, QUERY)) == BEST_FIRST
    graded.top_n = 2
    assert lengths(graded.postprocess_nodes(nodes_of(), None, QUERY)) == [9, 7]
    graded.top_n = None
    graded.similarity_cutoff = 5
    assert lengths(graded.postprocess_nodes(nodes_of(), None, QUERY)) == [9, 7, 5]
    graded.similarity_cutoff = None
    graded.depth = 2
    assert lengths(graded.postprocess_nodes(nodes_of(), None, QUERY)) == [7, 3, 1, 9, 5]
    graded.depth = None
    twice = nodes_of()
    twice[1].node.id_ = "n0"
    graded.dedupe = True
    assert lengths(graded.postprocess_nodes(twice, None, QUERY)) == [9, 5, 3, 1]
    graded.dedupe = None
    assert lengths(graded.postprocess_nodes(twice, None, QUERY)) == BEST_FIRST


def test_item_01_settings_of_the_call_stand_over_a_preset_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("{method: graded, top_k: 1, floor: 9, depth: 1, dedupe: true}")
    made = SecondPassRerank(
        file, llm=scripted(), top_n=4, similarity_cutoff=2, depth=5, dedupe=False
    )
    assert lengths(made.postprocess_nodes(nodes_of(), None, QUERY)) == [9, 7, 5, 3]


def test_item_01_assignments_are_checked_as_constructions_are() -> None:
    made = SecondPassRerank({"method": "lexical", "floor": 0.1, "dedupe": True})
    for name, value, other in [("similarity_cutoff", 0.5, "floor"), ("dedupe", False, "dedupe")]:
        with pytest.raises(ValueError, match=f"(?s){name}.*{other}"):
            setattr(made, name, value)
        assert getattr(made, name) is None
    for wrong in ("high", float("nan"), float("inf")):
        with pytest.raises(ValueError, match="similarity_cutoff"):
            made.similarity_cutoff = wrong  # type: ignore[assignment]


@pytest.mark.parametrize(
    "name", ["reranker", "model", "device", "choice_batch_size", "api_key", "strict", "llm"]
)
def test_item_01_what_models_are_made_of_is_frozen(name: str) -> None:
    made = SecondPassRerank("lexical")
    before = getattr(made, name)
    with pytest.raises(ValidationError, match=rf"(?s){name}.*frozen"):
        setattr(made, name, None)
    assert getattr(made, name) == before


@pytest.mark.parametrize("name", ["choice_select_prompt", "verbose", "trust_remote_code"])
def test_item_01_a_parameter_of_another_reranker_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValidationError, match=name) as caught:
        SecondPassRerank("lexical", **{name: KEY})
    assert KEY not in str(caught.value)


def test_item_01_its_schema_tells_every_setting_that_is_serialised() -> None:
    schema = json.loads(json.dumps(SecondPassRerank.model_json_schema()))
    told = set(schema["properties"])
    assert told >= set(SecondPassRerank("lexical").to_dict())
    assert schema["additionalProperties"] is False
    assert all("description" in one for name, one in schema["properties"].items()
               if name not in {"callback_manager", "class_name"})  # fmt: skip


def test_item_01_it_can_be_a_field_of_another_model() -> None:
    class Pipeline(BaseModel):
        behind: SecondPassRerank
        others: list[BaseNodePostprocessor] = []

    one = SecondPassRerank("lexical", top_n=2, similarity_cutoff=0.0)
    pipeline = Pipeline(behind=one, others=[one])
    assert pipeline.behind is one
    assert pipeline.model_dump()["behind"] == one.to_dict()
    again = Pipeline.model_validate_json(pipeline.model_dump_json(include={"behind"}))
    assert again.behind.to_dict() == one.to_dict()
    assert lengths(again.behind.postprocess_nodes(nodes_of(), None, QUERY)) == [3, 7]
    assert "behind" in Pipeline.model_json_schema()["properties"]


# ---------------------------------------------------------------- 2: serialisation and copies


def with_prompts(reranker: SecondPassRerank) -> SecondPassRerank:
    reranker.update_prompts({"instruction_prompt": PromptTemplate("Order {count} of them.")})
    return reranker


MADE: dict[str, Callable[[], SecondPassRerank]] = {
    "model": lambda: SecondPassRerank(model="some/model", device="cpu", choice_batch_size=3),
    "of a preset's LLM": lambda: SecondPassRerank("attune", model="m", choice_batch_size=3),
    "remote": lambda: SecondPassRerank("cohere", model="m", strict=True, top_n=3),
    "a mapping": lambda: SecondPassRerank(
        {"method": {"type": "endpoint", "api": "cohere"}}, model="m", dedupe=True, depth=7
    ),
    "scores": lambda: SecondPassRerank("lexical", similarity_cutoff=0.25, top_n=1),
    "metadata": lambda: SecondPassRerank(
        "lexical", keep_retrieval_score=False, metadata_mode=MetadataMode.EMBED, metadata_prefix="x"
    ),
    "not deduped": lambda: SecondPassRerank("lexical", dedupe=False, strict=False),
    "prompts": lambda: with_prompts(SecondPassRerank("attune", choice_batch_size=3)),
    "prompts of a mapping": lambda: with_prompts(
        SecondPassRerank(
            {"method": {"type": "graded", "llm": {"type": "openai", "model": "m"}}}, top_n=2
        )
    ),
    "prompts beside a key": lambda: with_prompts(SecondPassRerank("attune", api_key=KEY)),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_item_02_every_way_round_gives_the_same(made: Callable[[], SecondPassRerank]) -> None:
    reranker = made()
    written = reranker.to_json()
    others = {
        "json": SecondPassRerank.from_json(written),
        "dict": SecondPassRerank.from_dict(reranker.to_dict()),
        "validated": SecondPassRerank.model_validate_json(reranker.model_dump_json()),
        "pickle": pickle.loads(pickle.dumps(reranker)),
        "deepcopy": copy.deepcopy(reranker),
        "copy": copy.copy(reranker),
        "model_copy": reranker.model_copy(),
        "deep model_copy": reranker.model_copy(deep=True),
    }
    keyless = reranker._reranker if reranker.api_key is None else others["pickle"]._reranker
    for way, other in others.items():
        assert other.to_json() == written, way
        assert other.get_prompts() == reranker.get_prompts(), way
        if other.api_key is None:
            assert other._reranker.to_config() == keyless.to_config(), way
    assert KEY not in written


@pytest.mark.parametrize("kind", ["graded", "listwise"])
def test_item_02_an_llm_is_given_again_or_shared(kind: str) -> None:
    llm = scripted()
    reranker = with_prompts(asking(kind, llm, choice_batch_size=3))
    expected = plain(reranker.postprocess_nodes(nodes_of(), None, QUERY))
    written = reranker.to_json()
    others = [
        SecondPassRerank.from_json(written, llm=llm),
        SecondPassRerank.from_dict(reranker.to_dict(), llm=llm),
        copy.deepcopy(reranker),
        copy.copy(reranker),
        reranker.model_copy(update={"top_n": None}),
    ]
    for other in others:
        assert other.llm is llm
        llm._asked.clear()
        assert plain(other.postprocess_nodes(nodes_of(), None, QUERY)) == expected
        assert "of them." in (llm._asked[0][-1].content or "")
    with pytest.raises(ConfigurationError, match="llm"):
        SecondPassRerank.from_json(written)


def test_item_02_a_changed_copy_is_made_of_its_settings() -> None:
    llm, other = scripted(), scripted(lambda shown, _: dict.fromkeys(shown, 5))
    reranker = with_prompts(asking("graded", llm))
    copied = reranker.model_copy(update={"llm": other, "choice_batch_size": 2})
    assert lengths(copied.postprocess_nodes(nodes_of(), None, QUERY)) == list(LENGTHS)
    assert len(other._asked) == 3
    assert "of them." in (other._asked[0][-1].content or "")
    assert not llm._asked
    assert lengths(reranker.postprocess_nodes(nodes_of(), None, QUERY)) == BEST_FIRST


def test_item_02_models_are_not_loaded_by_making_copying_or_writing(tmp_path: Path) -> None:
    reranker = SecondPassRerank(
        {"method": "cross_encoder", "log_level": "debug"}, model=tmp_path / "absent"
    )
    copies = [copy.deepcopy(reranker), pickle.loads(pickle.dumps(reranker))]
    copies.append(SecondPassRerank.from_json(reranker.to_json()))
    for one in copies:
        assert one._reranker.method.scorer.engine is None


HOLDING: dict[str, Callable[[], SecondPassRerank]] = {
    "flat": lambda: SecondPassRerank("cohere", api_key=KEY),
    "flat secret": lambda: SecondPassRerank("attune", api_key=SecretStr(KEY)),
    "flat token": lambda: SecondPassRerank("default", api_key=KEY, top_n=2),
    "flat beside a mapping": lambda: SecondPassRerank(
        {"method": {"type": "endpoint", "api": "jina", "model": "m"}}, api_key=KEY
    ),
    "a changed copy": lambda: SecondPassRerank("cohere").model_copy(update={"api_key": KEY}),
    "mapping": lambda: SecondPassRerank(
        {"method": {"type": "endpoint", "api": "cohere", "model": "m", "api_key": KEY}}
    ),
    "secret in a mapping": lambda: SecondPassRerank(
        {"method": {"type": "cross_encoder", "model": "m", "token": SecretStr(KEY)}}
    ),
    "deep in a mapping": lambda: SecondPassRerank(
        {
            "method": "lexical",
            "fallback": [
                {"type": "graded", "llm": {"type": "openai", "model": "m", "api_key": KEY}}
            ],
        }
    ),
    "ready": lambda: SecondPassRerank(
        Reranker({"type": "endpoint", "api": "cohere", "model": "m", "api_key": KEY})
    ),
    "llm": lambda: asking("graded", scripted()),
    "llm of a preset": lambda: SecondPassRerank("scallop", llm=scripted(), top_n=2),
}


@pytest.mark.parametrize("made", HOLDING.values(), ids=HOLDING)
def test_item_02_no_key_is_written_or_shown(made: Callable[[], SecondPassRerank]) -> None:
    reranker = made()
    if reranker.llm is not None:
        assert KEY in repr(reranker.llm)  # or this would show nothing
    ways: list[Callable[[], Any]] = [
        reranker.to_json,
        reranker.to_dict,
        reranker.model_dump,
        reranker.model_dump_json,
        lambda: reranker.model_dump(mode="json"),
        lambda: repr(reranker),
        lambda: str(reranker),
        lambda: repr(copy.deepcopy(reranker)),
        lambda: list(reranker.__repr_args__()),
    ]
    for way in ways:
        try:
            told = str(way())
        except (NotSerializableError, ValueError) as error:
            told = "".join(traceback.format_exception(error))
            assert "key" in told
        assert KEY not in told


@pytest.mark.parametrize(
    "name", ["flat", "flat secret", "flat token", "flat beside a mapping"]
)  # fmt: skip
def test_item_02_a_flat_key_is_left_out_of_pickles(name: str) -> None:
    pickled = pickle.dumps(HOLDING[name]())
    assert KEY.encode() not in pickled
    assert pickle.loads(pickled).api_key is None
    # Within a process it stays with its copies.
    assert copy.deepcopy(HOLDING[name]()).api_key.get_secret_value() == KEY


@pytest.mark.parametrize("name", ["mapping", "secret in a mapping", "deep in a mapping", "ready"])
def test_item_02_what_holds_a_key_in_a_mapping_is_not_pickled(name: str) -> None:
    with pytest.raises(NotSerializableError, match="environment variable") as caught:
        pickle.dumps(HOLDING[name]())
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_item_02_a_key_of_an_llm_is_not_pickled() -> None:
    for name in ("llm", "llm of a preset"):
        with pytest.raises(NotSerializableError, match="from_json") as caught:
            pickle.dumps(HOLDING[name]())
        assert KEY not in "".join(traceback.format_exception(caught.value))


KEYLESS = [
    lambda: SecondPassRerank({"method": {"type": "cross_encoder", "token_env": "HUB"}}),
    pytest.param(
        lambda: SecondPassRerank(
            {"method": {"type": "endpoint", "api": "jina", "model": "m", "api_key_env": "JINA"}}
        ),
    ),
    lambda: asking("graded", Scripted(api_key="")),
]


@pytest.mark.parametrize("make", KEYLESS)
def test_item_02_the_name_of_a_keys_variable_is_no_key(
    make: Callable[[], SecondPassRerank],
) -> None:
    reranker = make()
    assert pickle.loads(pickle.dumps(reranker)).to_json() == reranker.to_json()


@pytest.mark.parametrize(
    "make",
    [
        lambda: SecondPassRerank("lexical", api_key=KEY),
        lambda: SecondPassRerank({"method": "graded", "top": KEY}, api_key=KEY),
        lambda: SecondPassRerank("cohere", api_key=KEY, top_n=0),
        lambda: SecondPassRerank("cohere", api_key=KEY, nonsense=KEY),
        lambda: SecondPassRerank("lexical", llm=scripted()),
        lambda: SecondPassRerank("lexical", llm=KEY),
        lambda: SecondPassRerank({"method": "graded"}, llm=scripted(), api_key=KEY),
        lambda: SecondPassRerank({"method": {"type": "endpoint", "api": "nope", "api_key": KEY}}),
        lambda: SecondPassRerank({"method": {"type": "cross_encoder", "token": [KEY]}}),
        lambda: SecondPassRerank("cohere", api_key=[KEY]),
        lambda: SecondPassRerank({"method": "lexical", "api_key": KEY}),
        lambda: SecondPassRerank("lexical", metadata_mode=KEY),
        lambda: SecondPassRerank("lexical", keep_retrieval_score={"api_key": KEY}),
    ],
)
def test_item_02_no_error_of_the_construction_tells_a_key(make: Callable[[], Any]) -> None:
    with pytest.raises((ConfigurationError, ValidationError)) as caught:
        make()
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_n", {"api_key": KEY}), ("similarity_cutoff", KEY), ("metadata_mode", KEY)],
)
def test_item_02_no_error_of_an_assignment_tells_a_value(name: str, value: Any) -> None:
    made = SecondPassRerank("lexical")
    with pytest.raises(ValidationError) as caught:
        setattr(made, name, value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("api_key", KEY), ("reranker", {"api_key": KEY})])
def test_item_02_no_error_of_a_refused_assignment_tells_a_key(name: str, value: Any) -> None:
    made = SecondPassRerank("lexical")
    with pytest.raises(ValidationError) as caught:
        setattr(made, name, value)
    assert KEY not in str(caught.value)


def test_item_02_no_key_in_logs_events_or_payloads_when_the_llm_fails(
    listening: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    callbacks = Callbacks()
    manager = CallbackManager([callbacks])
    error = RuntimeError(f"401: Authorization: Bearer {KEY}, for {'x' * 9}")
    for strict in (False, True):
        reranker = SecondPassRerank(
            {"method": "graded"}, llm=scripted(lambda *_: error), strict=strict,
            callback_manager=manager,
        )  # fmt: skip
        try:
            _, report = reranker.rerank_nodes(nodes_of(), QUERY)
            told = [repr(report), json.dumps(report.to_dict())]
        except RerankError as raised:
            told = ["".join(traceback.format_exception(raised)), repr(raised.ranking.report)]
        assert all(KEY not in one for one in told)
    ours = [one.getMessage() for one in caplog.records if one.name.startswith("secondpass")]
    assert ours
    assert all(KEY not in one for one in ours)
    assert len(listening.seen) == 5  # the second has no end
    assert all(KEY not in repr(event) for event in listening.seen)
    assert len(callbacks.payloads) == 4
    assert all(KEY not in repr(payload) for payload in callbacks.payloads)


# ---------------------------------------------------------------- 3: side by side, and spans


@pytest.mark.parametrize("kind", ["graded", "listwise"])
def test_item_03_thirty_two_tasks_are_as_thirty_two_runs(kind: str) -> None:
    def says(shown: dict[str, str], words: str) -> Said:
        # One fault in some, so that reports differ.
        return RuntimeError("down") if f"{QUERY} 5" in words else honest(shown, words)

    reranker = asking(kind, scripted(says, usage={"prompt_tokens": 11}), choice_batch_size=4)

    def of(number: int) -> list[NodeWithScore]:
        return nodes_of([1 + (at * 7 + number) % 10 for at in range(1 + number % 11)])

    async def one(number: int) -> Any:
        return await reranker.arerank_nodes(of(number), f"{QUERY} {number}")

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(one(number) for number in range(32)))

    for number, (nodes, report) in enumerate(asyncio.run(all_of_them())):
        expected, alone = reranker.rerank_nodes(of(number), f"{QUERY} {number}")
        assert plain(nodes) == plain(expected)
        assert {**report.to_dict(), "seconds": 0} == {**alone.to_dict(), "seconds": 0}
        ids = {id_ for issue in report.issues for id_ in issue.ids}
        assert ids <= {node.node_id for node in nodes}


def test_item_03_threads_may_share_one() -> None:
    reranker = asking("listwise", scripted(), choice_batch_size=3)
    found: dict[int, list[int]] = {}

    def go(number: int) -> None:
        mixed = [1 + (at * 3 + number) % 8 for at in range(8)]
        found[number] = lengths(reranker.postprocess_nodes(nodes_of(mixed), None, str(number)))

    threads = [threading.Thread(target=go, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Windows of three carry the best to the top; the rest may lag behind.
    assert [found[number][0] for number in range(8)] == [8] * 8
    assert all(sorted(one) == [*range(1, 9)] for one in found.values())


def test_item_03_the_async_side_is_in_the_callers_loop_and_sync_calls_work_there() -> None:
    llm = scripted()
    reranker = asking("graded", llm)

    async def inside() -> Any:
        first = await reranker.apostprocess_nodes(nodes_of(), query_str=QUERY)
        second = reranker.postprocess_nodes(nodes_of(), query_str=QUERY)  # as evaluators do
        assert plain(first) == plain(second)
        return asyncio.get_running_loop()

    loop = asyncio.run(inside())
    assert llm._loops == [loop]
    assert llm._required == [True, True]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_item_03_spans_of_the_llm_are_inside_ours(
    asynchronous: bool, spans: SimpleSpanHandler
) -> None:
    reranker = asking("graded", scripted(), choice_batch_size=2)
    if asynchronous:
        asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=QUERY))
    else:
        reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    by_id = {span.id_: span for span in spans.completed_spans}
    outer = [id_ for id_ in by_id if id_.startswith("SecondPassRerank.")]
    assert len(outer) == 1
    assert by_id[outer[0]].parent_id is None
    inner = [span for span in by_id.values() if span.id_.startswith("Scripted.chat")]
    assert len(inner) == 3
    for span in inner:
        while span.parent_id in by_id and span.id_ != outer[0]:
            span = by_id[span.parent_id]  # noqa: PLW2901 - up to the root
        assert span.id_ == outer[0]


# ---------------------------------------------------------------- 4: the report as an event


def broken(*_: Any) -> Said:
    return RuntimeError("down")


REPORTED = [
    # what is asked; the nodes; the status
    (lambda: asking("graded", scripted()), nodes_of(), "ok"),
    (lambda: asking("graded", scripted()), [], "ok"),
    (lambda: asking("graded", scripted(broken)), nodes_of(), "unchanged"),
    (lambda: SecondPassRerank("lexical", top_n=1), nodes_of(), "ok"),
    (
        lambda: SecondPassRerank(
            {"method": "graded", "fallback": ["lexical"], "log_level": "debug"},
            llm=scripted(broken),
        ),
        nodes_of(),
        "degraded",
    ),
]


@pytest.mark.parametrize(("make", "nodes", "status"), REPORTED)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_item_04_the_report_is_an_event_between_start_and_end(
    make: Any, nodes: list[NodeWithScore], status: str, asynchronous: bool, listening: Listening
) -> None:
    reranker = make()
    if asynchronous:
        _, report = asyncio.run(reranker.arerank_nodes(nodes, QUERY))
    else:
        _, report = reranker.rerank_nodes(nodes, QUERY)
    start, told, end = listening.seen
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(told, SecondPassReportEvent)
    assert isinstance(end, ReRankEndEvent)
    assert report.status == status
    assert told.report == report.to_dict()
    assert json.loads(json.dumps(told.report)) == told.report
    assert json.loads(told.model_dump_json())["report"] == told.report
    assert told.class_name() == told.model_dump()["class_name"] == "SecondPassReportEvent"


def test_item_04_under_strict_the_report_is_told_before_the_error(listening: Listening) -> None:
    reranker = asking("listwise", scripted(broken), strict=True)
    for call in (
        lambda: reranker.postprocess_nodes(nodes_of(), query_str=QUERY),
        lambda: asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=QUERY)),
    ):
        listening.seen.clear()
        with pytest.raises(RerankError) as caught:
            call()
        start, told = listening.seen
        assert isinstance(start, ReRankStartEvent)
        assert told.report == caught.value.ranking.report.to_dict()


def test_item_04_handlers_and_callers_do_not_write_to_each_other(listening: Listening) -> None:
    class Meddling(BaseEventHandler):
        @classmethod
        def class_name(cls) -> str:
            return "Meddling"

        def handle(self, event: Any, **kwargs: Any) -> None:
            if isinstance(event, SecondPassReportEvent):
                event.report.clear()
            elif isinstance(event, ReRankStartEvent | ReRankEndEvent):
                for one in event.nodes:
                    one.score = -1.0
                    one.node.metadata["meddled"] = True
                    one.node.set_content("meddled")
                event.nodes.clear()

    expected = plain(SecondPassRerank("lexical").postprocess_nodes(nodes_of(), None, QUERY))
    root, meddling = get_dispatcher(), Meddling()
    root.event_handlers.append(meddling)
    try:
        nodes = nodes_of()
        ranked, report = SecondPassRerank("lexical").rerank_nodes(nodes, QUERY)
    finally:
        root.event_handlers.remove(meddling)
    assert plain(ranked) == expected
    assert plain(nodes) == plain(nodes_of())
    assert report.to_dict()["status"] == "ok"


def test_item_04_events_name_the_model_that_is_asked(listening: Listening) -> None:
    callbacks = Callbacks()
    reranker = asking("listwise", scripted(), callback_manager=CallbackManager([callbacks]))
    reranker.rerank_nodes(nodes_of(), QUERY, top_n=3)
    start = listening.seen[0]
    assert (start.model_name, start.top_n, start.query) == ("listwise by scripted", 3, QUERY)
    assert callbacks.payloads[0][EventPayload.MODEL_NAME] == "listwise by scripted"
    assert callbacks.payloads[0][EventPayload.TOP_K] == 3
    assert len(callbacks.payloads[1][EventPayload.NODES]) == 3


# ---------------------------------------------------------------- 5: one call, its own settings


def test_item_05_no_nodes_and_no_query_ask_nobody() -> None:
    llm = scripted()
    reranker = asking("graded", llm)
    assert reranker.rerank_nodes([], QUERY)[0] == []
    for nodes in ([], nodes_of()):
        with pytest.raises(ValueError, match="query"):
            reranker.rerank_nodes(nodes, None)
    assert llm._asked == []


def test_settings_of_one_call_are_for_that_call() -> None:
    llm = scripted()
    config = {
        "method": {"type": "graded", "prompt": {"context": None}},
        "orders": {"by_place": {"type": "lost_in_the_middle"}},
        "order": "lost_in_the_middle",
    }
    reranker = SecondPassRerank(config, llm=llm, top_n=4)
    usual = lengths(reranker.rerank_nodes(nodes_of(), QUERY)[0])
    assert (usual[0], usual[-1]) == (9, 7)
    found, report = reranker.rerank_nodes(nodes_of(), QUERY, top_n=2, order="none")
    assert lengths(found) == [9, 7]
    assert report.left_out == {"top_k": (0, 2, 4)}
    named = reranker.rerank_nodes(nodes_of(), QUERY, order="by_place")[0]
    mapping = reranker.rerank_nodes(nodes_of(), QUERY, order={"type": "lost_in_the_middle"})[0]
    assert lengths(named) == lengths(mapping) == usual
    llm._asked.clear()
    asyncio.run(reranker.arerank_nodes(nodes_of(), QUERY, context="the garden of the zoo"))
    assert "the garden of the zoo" in (llm._asked[0][-1].content or "")
    assert lengths(reranker.rerank_nodes(nodes_of(), QUERY)[0]) == usual
    assert "the garden of the zoo" not in (llm._asked[1][-1].content or "")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"order": "by_plaec"}, "(?s)order.*by_place"),
        ({"order": {"type": "tires"}}, "(?s)order.*tiers"),
        ({"order": 7}, "order"),
        ({"top_n": 0}, "1 or more"),
    ],
)
def test_wrong_settings_of_a_call_are_refused_by_name(given: dict[str, Any], told: str) -> None:
    llm = scripted()
    config = {"method": "graded", "orders": {"by_place": "lost_in_the_middle"}}
    reranker = SecondPassRerank(config, llm=llm)
    with pytest.raises(ValueError, match=told):
        reranker.rerank_nodes(nodes_of(), QUERY, **given)
    with pytest.raises(ValueError, match=told):
        asyncio.run(reranker.arerank_nodes(nodes_of(), QUERY, **given))
    assert llm._asked == []


@pytest.mark.parametrize("wrong", [0, -1, "two", 1.5, True])
def test_a_wrong_top_n_of_a_call_is_refused_before_anybody_is_told(
    wrong: Any, listening: Listening
) -> None:
    with pytest.raises(ValueError, match=r"^top_n: "):
        SecondPassRerank("lexical").rerank_nodes(nodes_of(), QUERY, top_n=wrong)
    assert listening.seen == []


# ---------------------------------------------------------------- 6: nodes


@pytest.mark.parametrize("kind", ["graded", "listwise"])
@pytest.mark.parametrize("labels", ["opaque", "id", "index0", "index1"])
def test_item_06_nodes_of_one_id_are_kept_apart_by_an_llm(kind: str, labels: str) -> None:
    llm = scripted(calls_tools=False)
    config = {"method": {"type": kind, "labels": labels}}
    nodes = nodes_of()
    for one in nodes:
        one.node.id_ = "same"
    ranked, report = SecondPassRerank(config, llm=llm).rerank_nodes(nodes, QUERY)
    assert report.status == "ok"
    assert lengths(ranked) == BEST_FIRST
    assert [one.metadata["at"] for one in ranked] == [3, 1, 4, 0, 2]
    assert {one.node_id for one in ranked} == {"same"}


@pytest.mark.parametrize("prefix", ["", "secondpass_"])
def test_item_06_what_is_added_is_in_no_text_but_that_of_all(prefix: str) -> None:
    reranker = SecondPassRerank("lexical", metadata_prefix=prefix)
    nodes = nodes_of(title="Wombats")
    before = {one.node_id: one.node for one in nodes}
    added = {f"{prefix}{name}" for name in KEYS}
    for one in reranker.postprocess_nodes(nodes, query_str=QUERY):
        assert set(one.metadata) - set(before[one.node_id].metadata) == added
        for mode in (MetadataMode.LLM, MetadataMode.EMBED, MetadataMode.NONE):
            assert one.node.get_content(mode) == before[one.node_id].get_content(mode)
        assert f"{prefix}rerank_rank" in one.node.get_content(MetadataMode.ALL)


def test_item_06_the_blended_score_is_kept_beside_a_tail() -> None:
    blend = {"original": 0.5, "normalize": "none"}
    config = {"method": "graded", "depth": 2, "blend": blend}
    reranker = SecondPassRerank(config, llm=Scripted())
    ranked = reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    assert [one.score for one in ranked] == [1.0, 0.8, 0.6, 0.4, 0.2]
    finals = [one.metadata["rerank_final_score"] for one in ranked]
    assert finals[:2] == [pytest.approx(0.5 * 0.99 + 0.5 * 0.7), pytest.approx(0.5 + 0.5 * 0.3)]
    assert finals[2:] == [None, None, None]


@pytest.mark.parametrize("prefix", ["", "x_"])
def test_item_06_the_retrieval_score_is_kept_or_not(prefix: str) -> None:
    name = f"{prefix}retrieval_score"
    kept = SecondPassRerank("lexical", metadata_prefix=prefix)
    left = SecondPassRerank("lexical", metadata_prefix=prefix, keep_retrieval_score=False)
    for one in kept.postprocess_nodes(nodes_of(), query_str=QUERY):
        assert one.metadata[name] == 1 - one.metadata["at"] / 100
        assert name in one.node.excluded_llm_metadata_keys
    for one in left.postprocess_nodes(nodes_of(), query_str=QUERY):
        assert name not in one.metadata
        assert name not in one.node.excluded_llm_metadata_keys
    # What an earlier pass or something else has kept stays, whichever comes behind.
    first = kept.postprocess_nodes(nodes_of(), query_str=QUERY)
    for one in left.postprocess_nodes(first, query_str=QUERY):
        assert one.metadata[name] == 1 - one.metadata["at"] / 100
    left.keep_retrieval_score = True
    assert name in left.postprocess_nodes(nodes_of(), query_str=QUERY)[0].metadata


# ---------------------------------------------------------------- 7: the text that is judged


@pytest.mark.parametrize("mode", list(MetadataMode))
def test_item_07_an_llm_is_shown_the_text_of_the_mode(mode: MetadataMode) -> None:
    llm = scripted()
    nodes = nodes_of((3, 5), title="Wombats", path="/secret")
    for one in nodes:
        one.node.excluded_llm_metadata_keys = ["path"]
    asking("graded", llm, metadata_mode=mode).postprocess_nodes(nodes, query_str=QUERY)
    words = llm._asked[0][-1].content or ""
    for one in nodes:
        assert f">{one.node.get_content(mode)}</doc>" in words
    assert ("/secret" in words) is (mode in {MetadataMode.ALL, MetadataMode.EMBED})


def test_item_07_an_image_without_text_is_not_shown_to_an_llm() -> None:
    llm = scripted()
    image = NodeWithScore(node=ImageNode(image_path="wombat.png"), score=2.0)
    ranked, report = asking("graded", llm).rerank_nodes([image, *nodes_of()], QUERY)
    assert lengths(ranked) == [*BEST_FIRST, 0]
    assert ranked[-1].metadata["rerank_status"] == "unjudged"
    assert report.status == "partial"
    assert (llm._asked[0][-1].content or "").count("<doc ") == 5


# ---------------------------------------------------------------- 8: prompts

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
def test_item_08_every_prompt_has_a_name(
    method: Any, prefixes: list[str], fallback: list[str]
) -> None:
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


def test_item_08_what_asks_no_llm_has_no_prompts() -> None:
    assert SecondPassRerank("lexical").get_prompts() == {}
    with pytest.raises(ConfigurationError, match="user_prompt"):
        SecondPassRerank("lexical").update_prompts({"user_prompt": PromptTemplate("x")})


def test_item_08_prompts_that_are_given_back_ask_the_same() -> None:
    llm = scripted()
    reranker = asking("graded", llm)
    first = reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    reranker.update_prompts(reranker.get_prompts())
    second = reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    assert plain(first) == plain(second)
    assert llm._asked[0] == llm._asked[1]


def sent(prompts: dict[str, Any], **says: Any) -> tuple[str, str]:
    """The system prompt and the user's message that the LLM is then sent."""
    llm = scripted(**says)
    reranker = asking("graded", llm)
    reranker.update_prompts(prompts)
    ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    system, user = llm._asked[0]
    assert (system.role.value, user.role.value) == ("system", "user")
    return system.content or "", user.content or ""


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
def test_item_08_an_instruction_of_every_kind_is_what_is_sent(prompt: Any) -> None:
    _, user = sent({"instruction_prompt": prompt})
    assert "Grade 5 for the zoo, 0 to 10." in user
    assert "Judge each by itself" not in user
    assert user.count("<doc ") == 5


def test_item_08_a_chat_template_is_sent_as_one_text() -> None:
    template = ChatPromptTemplate.from_messages(
        [("system", "You know {query}."), ("user", "{documents}\n{reply}")]
    )
    _, user = sent({"user_prompt": template})
    assert user.startswith("system: You know <query>wombats</query>.")
    assert "user: <doc " in user
    rich = RichPromptTemplate(
        '{% chat role="user" %}Know {{ query }}.\n{{ documents }}\n{{ reply }}{% endchat %}'
    )
    _, user = sent({"user_prompt": rich})
    assert user.startswith("user: Know <query>wombats</query>.")


def test_item_08_the_system_prompt_is_its_own_message() -> None:
    system, user = sent({"system_prompt": PromptTemplate("You know zoos. {reply}")})
    assert system.startswith("You know zoos. Reply with ONLY")
    assert "You know zoos" not in user


def test_item_08_passages_are_never_read_as_templates() -> None:
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
    ("prompts", "told"),
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
def test_item_08_wrong_prompts_are_refused_and_nothing_changes(prompts: Any, told: str) -> None:
    reranker = asking("graded", scripted())
    before, written = reranker.get_prompts(), reranker.to_json()
    with pytest.raises(ValueError, match=f"(?s){told}"):
        reranker.update_prompts({"system_prompt": PromptTemplate("new"), **prompts})
    if "zoo:user_prompt" not in prompts:  # LlamaIndex updates a module's own prompts first
        assert reranker.get_prompts() == before
        assert reranker.to_json() == written


def test_item_08_an_update_leaves_other_prompts_and_copies_alone() -> None:
    config = {
        "method": {"type": "cascade", "stages": [{"type": "graded"}, {"type": "listwise"}]},
        "fallback": ["graded"],
    }
    llm = scripted()
    reranker = SecondPassRerank(config, llm=llm)
    before = reranker.get_prompts()
    copies = [copy.copy(reranker), copy.deepcopy(reranker), reranker.model_copy()]
    new = PromptTemplate("New: {count}.")
    reranker.update_prompts({"stage_1_instruction_prompt": new})
    reranker.update_prompts({"fallback_0_system_prompt": new})
    changed = {"stage_1_instruction_prompt", "fallback_0_system_prompt"}
    after = reranker.get_prompts()
    assert {name for name in after if after[name] != before[name]} == changed
    for one in copies:
        assert one.get_prompts() == before
    copies[0].update_prompts({"stage_0_system_prompt": new})
    assert reranker.get_prompts() == after
    assert copies[1].get_prompts() == before
    reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    assert ["New: 5." in (asked[-1].content or "") for asked in llm._asked] == [False, True]


def test_item_08_a_prompt_that_is_an_object_survives_copies_and_pickles_but_no_json() -> None:
    config = {"method": {"type": "graded", "llm": {"type": "openai", "model": "m"}}}
    reranker = SecondPassRerank(config)
    reranker.update_prompts({"instruction_prompt": RichPromptTemplate("Grade {{ count }}.")})
    for other in (copy.deepcopy(reranker), pickle.loads(pickle.dumps(reranker))):
        assert other.get_prompts() == reranker.get_prompts()
    with pytest.raises(NotSerializableError, match="instruction"):
        reranker.to_json()


def test_item_08_a_failing_prompt_loses_no_node() -> None:
    def fail(**_: Any) -> str:
        raise RuntimeError(KEY)

    reranker = asking("graded", scripted())
    prompt = PromptTemplate("{x} {query} {documents}", function_mappings={"x": fail})
    reranker.update_prompts({"user_prompt": prompt})
    ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert lengths(ranked) == list(LENGTHS)
    assert [issue.code for issue in report.issues] == ["prompt_failed"]
    assert KEY not in repr(report)


def test_item_08_rerankings_under_way_have_one_prompt_or_the_other() -> None:
    llm = scripted()
    reranker = asking("graded", llm, choice_batch_size=1)
    ready = threading.Barrier(2)

    def update() -> None:
        ready.wait()
        for number in range(100):
            text = "Odd {count}." if number % 2 else "Even {count}."
            reranker.update_prompts(
                {"system_prompt": PromptTemplate(text), "instruction_prompt": PromptTemplate(text)}
            )

    reranker.update_prompts(
        {"system_prompt": PromptTemplate("Even"), "instruction_prompt": PromptTemplate("Even")}
    )
    thread = threading.Thread(target=update)
    thread.start()
    ready.wait()
    for _ in range(10):
        llm._asked.clear()
        ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
        assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
        kinds = {
            word for asked in llm._asked for message in asked
            for word in ("Odd", "Even") if word in (message.content or "")
        }  # fmt: skip
        assert len(kinds) == 1
        assert len(llm._asked) == 5
    thread.join()


# ---------------------------------------------------------------- 9: any LLM


@pytest.mark.parametrize("kind", ["graded", "listwise"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_item_09_the_tool_is_the_form_of_the_reply(kind: str, asynchronous: bool) -> None:
    llm = scripted(usage={"prompt_tokens": 11, "completion_tokens": 7})
    reranker = asking(kind, llm)
    if asynchronous:
        ranked, report = asyncio.run(reranker.arerank_nodes(nodes_of(), QUERY))
    else:
        ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    assert llm._required == [True]
    (tool,) = llm._offered
    schema = tool["function"]["parameters"]
    labels = re.findall(r'<doc id="([^"]*)">', llm._asked[0][-1].content or "")
    assert len(labels) == 5
    if kind == "graded":
        assert list(schema["properties"]) == schema["required"] == labels
    else:
        array = schema["properties"]["ranking"]
        assert array["items"]["enum"] == labels
        assert (array["minItems"], array["maxItems"]) == (5, 5)
    usage = report.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 11, 7)


def test_item_09_tokens_of_every_batch_are_added_up() -> None:
    llm = scripted(usage={"input_tokens": 10, "output_tokens": 3})
    _, report = asking("graded", llm, choice_batch_size=2).rerank_nodes(nodes_of(), QUERY)
    usage = report.usage
    assert (usage.calls, usage.rounds, usage.pairs) == (3, 1, 5)
    assert (usage.input_tokens, usage.output_tokens) == (30, 9)


@pytest.mark.parametrize("calls_tools", [False, True])
def test_item_09_an_answer_in_words_is_read_as_well(calls_tools: bool) -> None:
    llm = scripted(calls_tools=calls_tools, by_tool=False)
    ranked, report = asking("graded", llm).rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    assert len(llm._offered) == calls_tools


@pytest.mark.parametrize(
    "refusal",
    [
        NotImplementedError(),
        TypeError("unexpected keyword argument 'tools'"),
        AttributeError("tools"),
    ],
)
def test_item_09_an_llm_that_takes_no_tools_is_asked_in_words_from_then_on(
    refusal: Exception,
) -> None:
    llm = scripted()
    offered = []

    class Refusing(Scripted):
        def chat_with_tools(self, *args: Any, **kwargs: Any) -> ChatResponse:
            offered.append(kwargs["tools"])
            raise refusal

        async def achat_with_tools(self, *args: Any, **kwargs: Any) -> ChatResponse:
            return self.chat_with_tools(*args, **kwargs)

    llm = Refusing()
    reranker = asking("graded", llm)
    for _ in range(2):
        ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
        assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    assert len(offered) == 1
    assert len(llm._asked) == 2


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_item_09_a_reply_that_was_cut_counts_as_far_as_it_goes(reason: str) -> None:
    def says(shown: dict[str, str], words: str) -> Said:
        whole = json.dumps(honest(shown, words))
        return whole[: whole.rindex(",") + 3]

    llm = scripted(says, calls_tools=False, finish_reason=reason)
    ranked, report = asking("graded", llm).rerank_nodes(nodes_of(), QUERY)
    assert lengths(ranked) == [9, 7, 3, 1, 5]
    assert report.status == "partial"
    assert [issue.code for issue in report.issues] == ["not_in_reply"]
    assert [one.metadata["rerank_status"] for one in ranked] == ["scored"] * 4 + ["backfilled"]


def test_item_09_a_reply_that_breaks_off_for_no_reason_is_refused() -> None:
    def says(shown: dict[str, str], words: str) -> Said:
        return json.dumps(honest(shown, words))[:-4]

    llm = scripted(says, calls_tools=False, finish_reason="stop")
    ranked, report = asking("graded", llm).rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == ("unchanged", list(LENGTHS))


@pytest.mark.parametrize("reason", ["content_filter", "refusal", "SAFETY"])
@pytest.mark.parametrize("calls_tools", [False, True])
def test_item_09_a_refusal_loses_no_node_and_is_told(reason: str, calls_tools: bool) -> None:
    llm = scripted(calls_tools=calls_tools, finish_reason=reason)
    ranked, report = asking("listwise", llm).rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == ("unchanged", list(LENGTHS))
    assert [issue.code for issue in report.issues] == ["content_filter"]


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ([{}], "unchanged"),
        ([{"x": 1}, {"y": 2}], "unchanged"),
        ([{"ranking": ["n/a"]}], "unchanged"),
        (None, "unchanged"),
    ],
)
def test_item_09_odd_tool_calls_lose_no_node(calls: Any, status: str) -> None:
    extra = {} if calls is None else {"tool_calls": calls}
    message = ChatMessage(role="assistant", content=None, additional_kwargs=extra)
    llm = scripted(lambda *_: ChatResponse(message=message))
    ranked, report = asking("graded", llm).rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == (status, list(LENGTHS))
    assert sorted(one.metadata["at"] for one in ranked) == [0, 1, 2, 3, 4]


def test_item_09_one_failing_batch_costs_its_nodes_only() -> None:
    def says(shown: dict[str, str], words: str) -> Said:
        return RuntimeError("down") if "x" * 9 in shown.values() else honest(shown, words)

    reranker = asking("graded", scripted(says), choice_batch_size=2)
    ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert report.status == "partial"
    assert sorted(lengths(ranked)) == sorted(LENGTHS)
    statuses = {len(one.text): one.metadata["rerank_status"] for one in ranked}
    assert statuses[9] == "unjudged"
    assert statuses[3] == "scored"


class Completing(CustomLLM):
    """A completion model as people write them: it knows neither chat nor tools."""

    _asked: list[str] = PrivateAttr(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self._asked.append(prompt)
        shown = dict(re.findall(r'<doc id="([^"]*)">(.*?)</doc>', prompt, re.DOTALL))
        return CompletionResponse(text=f"Here:\n```json\n{json.dumps(honest(shown, prompt))}\n```")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("asynchronous", [False, True])
def test_item_09_a_completion_model_is_sent_one_prompt(asynchronous: bool) -> None:
    llm = Completing()
    reranker = asking("listwise", llm)
    if asynchronous:
        ranked = asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=QUERY))
    else:
        ranked = reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    assert lengths(ranked) == BEST_FIRST
    assert "You order documents" in llm._asked[0]


def test_item_09_a_model_without_a_name_is_called_by_its_class() -> None:
    reranker = asking("listwise", Completing())
    assert reranker._reranker.method.name == "listwise by Completing"


# ---------------------------------------------------------------- 10: the distribution


def test_item_10_what_is_installed_says_what_it_needs() -> None:
    name = "llama-index-postprocessor-secondpass"
    needed = importlib.metadata.requires(name) or []
    core_needed = next(one for one in needed if one.startswith("llama-index-core"))
    assert ">=0.13" in core_needed
    assert "<0.15" in core_needed
    assert any(one.startswith("secondpass") for one in needed)


def test_item_10_what_the_package_offers() -> None:
    import llama_index.postprocessor.secondpass as package

    assert sorted(package.__all__) == ["LlamaIndexLLM", "SecondPassReportEvent", "SecondPassRerank"]
    assert all(hasattr(package, one) for one in package.__all__)
