"""The core's tables of faults through the component: no document is lost, whatever happens.

In `make test` providers and entry points take turns at the faults; all of them are met by all in
`make test-long`. What must hold is in ``tests/support/fault_fixtures.py``.
"""

import asyncio
import json
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage, ToolCall

import fake_provider as fake
import odd_candidates
import rerank_fault_cases
from fake_provider import FakeProvider
from fault_cases import BEST_FIRST, CANDIDATES, FLAVOURS, Case
from fault_fixtures import (  # noqa: F401 - the names with an underscore are fixtures
    KEY,
    KEY_VARIABLE,
    QUERY,
    Carried,
    Components,
    _closing,
    _environment,
    _quick_retries,
    _sdks,
    id_of,
    llm_config,
    llm_runs,
    metadata_of,
    none_lost,
    odd_lists,
    played,
    rerank_config,
    rerank_runs,
    retrieval_score_of,
    state_of,
    survives_llm,
    survives_rerank,
)
from framework_models import (
    PLAIN,
    RAISED,
    SECRET,
    Odd,
    Script,
    a_coroutine,
    in_turn,
    raising,
    spoken_config,
    spoken_runs,
)
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from sampling import sampled
from secondpass import Candidate, EngineInfo, Issue, Report, RerankError, Usage

pytestmark = pytest.mark.usefixtures("quick_retries")


# ---------------------------------------------------------------------- the adapter


def report_of(message: Mapping[str, Any]) -> Report:
    """The report that a dictionary was made of; it has to be plain JSON for that."""
    plain = json.loads(json.dumps(message))
    assert plain == message
    issues = [
        Issue(**{**issue, "positions": tuple(issue["positions"]), "ids": tuple(issue["ids"])})
        for issue in plain["issues"]
    ]
    engines = tuple(EngineInfo(**engine) for engine in plain["engines"])
    usage = Usage(**plain["usage"])
    return Report(**{**plain, "issues": tuple(issues), "usage": usage, "engines": engines})


class Haystack:
    """The component by all of its ways in."""

    entries: Mapping[str, Sequence[str]] = {
        "sync": ("run", "pipeline.run"),
        "async": ("run_async", "pipeline.run_async"),
        "strict": ("run", "pipeline.run", "run_async"),
    }

    def __init__(self) -> None:
        self.pipelines: dict[int, Pipeline] = {}

    def make(
        self, config: Mapping[str, Any], strict: bool = False, **settings: Any
    ) -> SecondPassRanker:
        return SecondPassRanker(config, raise_on_failure=strict, **settings)

    def close(self, ranker: SecondPassRanker) -> None:
        ranker.close()

    def given(self, candidates: Sequence[Candidate]) -> list[Document]:
        return [
            Document(
                content=candidate.text,
                id=id_of(place, candidate),
                score=retrieval_score_of(place),
                meta=metadata_of(place),
            )
            for place, candidate in enumerate(candidates)
        ]

    def result(
        self, ranker: SecondPassRanker, entry: str, query: str, documents: list[Document]
    ) -> dict[str, Any]:
        if entry == "run":
            return ranker.run(query=query, documents=documents)
        if entry == "run_async":
            return asyncio.run(ranker.run_async(query=query, documents=documents))
        pipeline = self._pipeline(ranker)
        inputs = {"ranker": {"query": query, "documents": documents}}
        if entry == "pipeline.run":
            return pipeline.run(inputs)["ranker"]
        return asyncio.run(pipeline.run_async(inputs))["ranker"]

    def run(
        self, ranker: SecondPassRanker, entry: str, query: str, documents: list[Document]
    ) -> tuple[list[Document], Report]:
        try:
            result = self.result(ranker, entry, query, documents)
        except PipelineRuntimeError:
            assert entry.startswith("pipeline")
            raise
        except RerankError:
            assert not entry.startswith("pipeline")
            raise
        return result["documents"], report_of(result["report"])

    def _pipeline(self, ranker: SecondPassRanker) -> Pipeline:
        # A component belongs to one pipeline only.
        if id(ranker) not in self.pipelines:
            self.pipelines[id(ranker)] = Pipeline()
            self.pipelines[id(ranker)].add_component("ranker", ranker)
        return self.pipelines[id(ranker)]

    def carried(self, one: Document) -> Carried:
        return Carried(one.content, one.id, one.score, one.meta)


ADAPTER = Haystack()


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider(schemaless=["compatible"]) as server:
        yield server


@pytest.fixture(scope="module")
def components(closing: Callable[[Any], Any]) -> Components:
    return Components(ADAPTER, closing)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)


# ---------------------------------------------------------------------- the tables


@pytest.mark.parametrize(("case", "flavour", "mode", "entry"), sampled(llm_runs(ADAPTER, 0)))
# What Google's SDK has to say about words that it does not know, to those who want to hear it.
@pytest.mark.filterwarnings("ignore:.*is not a valid:UserWarning")
def test_faults_of_language_models(
    case: Case,
    flavour: str,
    mode: str,
    entry: str,
    provider: FakeProvider,
    components: Components,
    caplog: pytest.LogCaptureFixture,
) -> None:
    strict = mode == "strict"
    configured = partial(llm_config, provider, flavour)
    make = components.playing(case, provider, configured, strict=strict)
    survives_llm(ADAPTER, make, entry, case, caplog, strict=strict)
    assert {request.flavour for request in provider.requests} <= {flavour}


@pytest.mark.parametrize(("case", "api", "mode", "entry"), sampled(rerank_runs(ADAPTER, 0)))
def test_faults_of_rerank_apis(
    case: Any,
    api: str,
    mode: str,
    entry: str,
    provider: FakeProvider,
    components: Components,
    caplog: pytest.LogCaptureFixture,
) -> None:
    strict = mode == "strict"
    configured = partial(rerank_config, provider, api)
    make = components.playing(case, provider, configured, strict=strict)
    survives_rerank(ADAPTER, make, entry, case, caplog, strict=strict)
    assert {request.key for request in provider.requests} == {KEY}


# ---------------------------------------------------------------------- cancellation


def cancelled(ranker: SecondPassRanker, asked: Callable[[], bool]) -> None:
    """Cancel a ranking when the question is out; it has to end so, and at once."""

    async def go() -> None:
        documents = ADAPTER.given(CANDIDATES)
        task = asyncio.create_task(ranker.run_async(query=QUERY, documents=documents))
        while not asked():
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(go(), 60))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("flavour", [*FLAVOURS, *rerank_fault_cases.APIS])
def test_component_after_a_cancelled_call(
    flavour: str,
    strict: bool,
    provider: FakeProvider,
    components: Components,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if flavour in FLAVOURS:
        config = llm_config(provider, flavour, Case("", ()))
    else:
        first = rerank_fault_cases.CASES[0]
        config = rerank_config(provider, flavour, first)
    ranker = components.get(config, strict, provider, fresh=False)
    provider.play(fake.silence())
    cancelled(ranker, lambda: bool(provider.requests))
    for entry in ("run_async", "run"):
        provider.play()
        outcome = played(ADAPTER, ranker, entry, CANDIDATES, caplog)
        assert outcome.order == BEST_FIRST
        assert outcome.ranking is not None
        assert outcome.ranking.report.status == "ok"


# ---------------------------------------------------------------------- odd documents


@pytest.fixture(scope="module")
def rankers(provider: FakeProvider, closing: Callable[[Any], Any]) -> dict[str, SecondPassRanker]:
    return {
        name: closing(
            SecondPassRanker(
                {
                    "method": {**method, "llm": provider.llm("openai")},
                    "limits": {"deadline": 60, "retries": 0, "repair": 0},
                    "log_level": "debug",
                },
                dedupe=False,
            )
        )
        for name, method in odd_candidates.METHODS.items()
    }


def odd_documents(name: str) -> list[Document]:
    """A list of odd candidates as documents, so far as Haystack lets them be."""
    created = []
    for place, one in enumerate(odd_candidates.LISTS[name]):
        candidate = one if isinstance(one, Candidate) else Candidate(one)
        meta = dict(candidate.metadata or {})
        created.append(
            Document(
                content=candidate.text if isinstance(candidate.text, str) else None,
                id=candidate.id or f"d{place}",  # type: ignore[arg-type]  # whatever it is
                score=candidate.score,
                meta={**meta, "place": place},
            )
        )
    return created


MEMBERS = ("id", "content", "score", "meta", "blob", "embedding")


@pytest.mark.parametrize(("name", "method", "asynchronous"), odd_lists())
def test_odd_documents(
    name: str,
    method: str,
    asynchronous: bool,
    provider: FakeProvider,
    rankers: dict[str, SecondPassRanker],
) -> None:
    provider.play()
    given = odd_documents(name)
    before = [state_of(one, MEMBERS) for one in given]
    entry = "run_async" if asynchronous else "run"
    result = ADAPTER.result(rankers[method], entry, QUERY, given)
    report_of(result["report"])
    none_lost([*map(ADAPTER.carried, result["documents"])], [*map(ADAPTER.carried, given)], method)
    assert [state_of(one, MEMBERS) for one in given] == before


METADATA: dict[str, Any] = {
    "that cannot be changed": MappingProxyType({"place": 0}),
    "ordered": OrderedDict(place=0),
    "with defaults": defaultdict(list, place=0),
}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", METADATA)
def test_metadata_of_odd_kinds(
    kind: str, asynchronous: bool, provider: FakeProvider, rankers: dict[str, SecondPassRanker]
) -> None:
    provider.play()
    given = [Document(content="3 a", id="a", meta=METADATA[kind]), Document(content="9 b", id="b")]
    before = [state_of(one, MEMBERS) for one in given]
    entry = "run_async" if asynchronous else "run"
    documents = ADAPTER.result(rankers["graded"], entry, QUERY, given)["documents"]
    assert [document.id for document in documents] == ["b", "a"]
    assert documents[1].meta["rerank_status"] == "scored"
    assert documents[1].meta.get("place", 0) == 0
    assert [state_of(one, MEMBERS) for one in given] == before


@pytest.mark.parametrize("entry", ["run", "run_async"])
def test_a_document_whose_metadata_is_none(
    entry: str, provider: FakeProvider, rankers: dict[str, SecondPassRanker]
) -> None:
    provider.play()
    given = [
        Document(content="3 a", id="a", meta=None),  # type: ignore[arg-type]  # not refused
        Document(content="9 b", id="b"),
    ]
    documents = ADAPTER.result(rankers["graded"], entry, QUERY, given)["documents"]
    assert [document.id for document in documents] == ["b", "a"]
    assert documents[1].meta["rerank_status"] == "scored"
    assert given[0].meta is None


# ---------------------------------------------------------------------- chat generators


class SyncOnly:
    """A chat generator with the one method that is demanded."""

    def __init__(self, script: Script | Odd) -> None:
        self.script = script

    def run(self, messages: list[ChatMessage]) -> Any:
        reply = self.script.next([{"role": m.role.value, "content": m.text} for m in messages])
        return reply if isinstance(self.script, Odd) else {"replies": [message_of(reply)]}


class Both(SyncOnly):
    """One with an asynchronous side."""

    async def run_async(self, messages: list[ChatMessage]) -> Any:
        await asyncio.sleep(0)
        return self.run(messages)


def message_of(reply: Any) -> ChatMessage:
    """A reply in OpenAI's dialect, as Haystack's generator for it would hand it on."""
    choice = reply["choices"][0]
    calls = [
        ToolCall("search", json.loads(call["function"]["arguments"]), call["id"])
        for call in choice["message"].get("tool_calls", ())
    ]
    meta = {"finish_reason": choice.get("finish_reason"), "usage": reply.get("usage")}
    return ChatMessage.from_assistant(choice["message"]["content"], meta, tool_calls=calls)


GENERATORS = (SyncOnly, Both)


def asking(
    generator: SyncOnly, config: Mapping[str, Any], strict: bool = False
) -> SecondPassRanker:
    return ADAPTER.make(config, strict, chat_generator=generator)


@pytest.mark.parametrize(
    ("case", "generator", "entry", "strict"),
    sampled(spoken_runs(GENERATORS, ("run", "run_async"), 0)),
)
def test_chat_generator_replies(
    case: Case, generator: type, entry: str, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def make(attempt: Case) -> tuple[SecondPassRanker, Script]:
        script = Script(case)
        return asking(generator(script), spoken_config(attempt), strict), script

    survives_llm(ADAPTER, make, entry, case, caplog, strict=strict)


RESULTS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a string": lambda: "{}",
    "a list": lambda: [ChatMessage.from_assistant("{}")],
    "a message": lambda: ChatMessage.from_assistant("{}"),
    "nothing": dict,
    "replies None": lambda: {"replies": None},
    "no replies": lambda: {"replies": []},
    "replies a string": lambda: {"replies": "5 4 3"},
    "replies a number": lambda: {"replies": 5},
    "replies a mapping": lambda: {"replies": {"a": ChatMessage.from_assistant("{}")}},
    "replies a set": lambda: {"replies": {"a"}},
    "replies a generator": lambda: {"replies": (one for one in ("a", "b"))},
    "a reply None": lambda: {"replies": [None]},
    "a reply that is a string": lambda: {"replies": ["{}"]},
    "a reply that is a mapping": lambda: {"replies": [{"content": "{}"}]},
    "an empty text": lambda: {"replies": [ChatMessage.from_assistant("")]},
    "no text": lambda: {"replies": [ChatMessage.from_assistant()]},
    "white space": lambda: {"replies": [ChatMessage.from_assistant(" \n")]},
    "a tool call": lambda: {
        "replies": [ChatMessage.from_assistant(tool_calls=[ToolCall("search", {"a": 5})])]
    },
    "the result of a tool": lambda: {
        "replies": [ChatMessage.from_tool("5", ToolCall("search", {"a": 5}))]
    },
    "a refusal": lambda: {
        "replies": [ChatMessage.from_assistant("no", {"finish_reason": "content_filter"})]
    },
    "a finish reason that is a list": lambda: {
        "replies": [ChatMessage.from_assistant("no", {"finish_reason": ["stop"]})]
    },
    "a usage that is a string": lambda: {
        "replies": [ChatMessage.from_assistant("no", {"usage": "5"})]
    },
    "a text with the passages": lambda: {"replies": [ChatMessage.from_assistant(SECRET)]},
    "a coroutine": lambda: a_coroutine({"replies": []}),
    **{f"raising {name}": raising(make) for name, make in RAISED.items()},
}


@pytest.mark.parametrize(
    ("name", "generator", "entry", "strict"),
    sampled(in_turn(RESULTS, GENERATORS, ("run", "run_async"))),
)
def test_chat_generator_behaviours(
    name: str, generator: type, entry: str, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Odd(RESULTS[name])
    ranker = asking(generator(odd), spoken_config(PLAIN), strict)
    survives_llm(ADAPTER, lambda _: (ranker, odd), entry, PLAIN, caplog, strict=strict)


class Hanging(SyncOnly):
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        super().__init__(Odd(lambda: self.let_go.wait(60)))


class HangingBoth(Hanging):
    """The same in an event loop, which it does not hold up."""

    async def run_async(self, messages: list[ChatMessage]) -> Any:
        self.script.requests.append(messages)
        await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("name", "generator", "entry", "strict"),
    in_turn(["hanging"], [Hanging, HangingBoth], ("run", "run_async")),
)
def test_hanging_chat_generator_ends_at_the_deadline(
    name: str, generator: type, entry: str, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case("", (), "unchanged", "deadline", 1, None, limits={"deadline": 0.15})
    generators = []

    def make(attempt: Case) -> tuple[SecondPassRanker, Any]:
        generators.append(generator())
        ranker = asking(generators[-1], spoken_config(attempt), strict)
        return ranker, generators[-1].script

    survives_llm(ADAPTER, make, entry, case, caplog, strict=strict)
    for one in generators:
        one.let_go.set()


@pytest.mark.parametrize("generator", [Hanging, HangingBoth])
def test_cancellation_passes_while_a_chat_generator_hangs(
    generator: type, caplog: pytest.LogCaptureFixture
) -> None:
    one = generator()
    case = Case("", (fake.good(),), "ok", "", 1, 1)
    ranker = asking(one, spoken_config(case))
    cancelled(ranker, lambda: bool(one.script.requests))
    one.let_go.set()
    one.script = Script(case)
    survives_llm(ADAPTER, lambda _: (ranker, one.script), "run", case, caplog, strict=False)
