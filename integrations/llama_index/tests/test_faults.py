"""The core's tables of faults through the postprocessor: no node is lost, whatever happens.

In `make test` providers and entry points take turns at the faults; all of them are met by all in
`make test-long`. What must hold is in ``tests/support/fault_fixtures.py``.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ImageBlock,
    MessageRole,
)
from llama_index.core.llms import LLM, CustomLLM, LLMMetadata
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeWithScore,
    TextNode,
)
from pydantic import PrivateAttr, ValidationError

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
from llama_index.postprocessor.secondpass import SecondPassRerank
from rotation import rotated
from sampling import sampled
from secondpass import Candidate, Report

pytestmark = pytest.mark.usefixtures("quick_retries")


# ---------------------------------------------------------------------- the adapter


class LlamaIndex:
    """The postprocessor by all of its ways in."""

    entries: Mapping[str, Sequence[str]] = {
        "sync": ("rerank_nodes", "postprocess_nodes"),
        "async": ("arerank_nodes", "apostprocess_nodes"),
        "strict": ("rerank_nodes", "apostprocess_nodes", "postprocess_nodes", "arerank_nodes"),
    }

    def make(
        self, config: Mapping[str, Any], strict: bool = False, **settings: Any
    ) -> SecondPassRerank:
        return SecondPassRerank(config, strict=strict, **settings)

    def close(self, postprocessor: SecondPassRerank) -> None:
        postprocessor._reranker.close()

    def given(self, candidates: Sequence[Candidate]) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    text=candidate.text, id_=id_of(place, candidate), metadata=metadata_of(place)
                ),
                score=retrieval_score_of(place),
            )
            for place, candidate in enumerate(candidates)
        ]

    def run(
        self, postprocessor: SecondPassRerank, entry: str, query: str, nodes: list[NodeWithScore]
    ) -> tuple[list[NodeWithScore], Report | None]:
        if entry == "rerank_nodes":
            return postprocessor.rerank_nodes(nodes, query)
        if entry == "arerank_nodes":
            return asyncio.run(postprocessor.arerank_nodes(nodes, query))
        if entry == "postprocess_nodes":
            return postprocessor.postprocess_nodes(nodes, query_str=query), None
        return asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str=query)), None

    def carried(self, one: NodeWithScore) -> Carried:
        node = one.node
        # What is added is neither shown to models nor embedded.
        if "rerank_status" in node.metadata:
            assert "rerank_status" in node.excluded_llm_metadata_keys
            assert "rerank_status" in node.excluded_embed_metadata_keys
        return Carried(text_of(node), node.node_id, one.score, node.metadata)


def text_of(node: BaseNode) -> str | None:
    """None where there is no text to judge: an image's is empty unless it was given one."""
    if isinstance(node, ImageNode):
        return node.text or None
    if isinstance(node, TextNode):
        return node.text
    return node.text_resource.text if isinstance(node, Node) and node.text_resource else None


ADAPTER = LlamaIndex()
ENTRIES = ("rerank_nodes", "arerank_nodes")


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


@pytest.mark.parametrize(("case", "flavour", "mode", "entry"), sampled(llm_runs(ADAPTER, 5)))
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


@pytest.mark.parametrize(("case", "api", "mode", "entry"), sampled(rerank_runs(ADAPTER, 5)))
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


def cancelled(postprocessor: SecondPassRerank, asked: Callable[[], bool]) -> None:
    """Cancel a ranking when the question is out; it has to end so, and at once."""

    async def go() -> None:
        nodes = ADAPTER.given(CANDIDATES)
        task = asyncio.create_task(postprocessor.apostprocess_nodes(nodes, query_str=QUERY))
        while not asked():
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(go(), 60))


@pytest.mark.parametrize(
    ("flavour", "strict"), rotated([*FLAVOURS, *rerank_fault_cases.APIS], [False, True])
)
def test_postprocessor_after_a_cancelled_call(
    flavour: str,
    strict: bool,
    provider: FakeProvider,
    components: Components,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if flavour in FLAVOURS:
        config = llm_config(provider, flavour, Case("", ()))
    else:
        config = rerank_config(provider, flavour, rerank_fault_cases.CASES[0])
    one = components.get(config, strict, provider, fresh=False)
    provider.play(fake.silence())
    cancelled(one, lambda: bool(provider.requests))
    for entry in ENTRIES:
        provider.play()
        outcome = played(ADAPTER, one, entry, CANDIDATES, caplog)
        assert outcome.order == BEST_FIRST
        assert outcome.ranking is not None
        assert outcome.ranking.report.status == "ok"


# ---------------------------------------------------------------------- odd nodes


@pytest.fixture(scope="module")
def rerankers(provider: FakeProvider) -> Iterator[dict[str, SecondPassRerank]]:
    created = {
        name: SecondPassRerank(
            {
                "method": {**method, "llm": provider.llm("openai")},
                "limits": {"deadline": 60, "retries": 0, "repair": 0},
                "log_level": "debug",
            }
        )
        for name, method in odd_candidates.METHODS.items()
    }
    yield created
    for one in created.values():
        ADAPTER.close(one)


WITHOUT_TEXT = (Node, ImageNode, lambda: Node(text_resource=MediaResource()))


def odd_nodes(name: str) -> list[NodeWithScore]:
    """A list of odd candidates as nodes, so far as LlamaIndex lets them be."""
    created = []
    for place, one in enumerate(odd_candidates.LISTS[name]):
        candidate = one if isinstance(one, Candidate) else Candidate(one)
        textual = isinstance(candidate.text, str)
        node: BaseNode = TextNode(text=candidate.text) if textual else WITHOUT_TEXT[place % 3]()
        node.id_ = candidate.id if isinstance(candidate.id, str) else f"d{place}"
        named = {
            key: value for key, value in (candidate.metadata or {}).items() if type(key) is str
        }
        node.metadata = {**named, "place": place}
        try:
            created.append(NodeWithScore(node=node, score=candidate.score))
        except ValidationError:  # which who builds nodes without validation passes by
            created.append(NodeWithScore.model_construct(node=node, score=candidate.score))
    return created


MEMBERS = (
    *("__dict__", "id_", "metadata", "relationships", "embedding"),
    *("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"),
)


def states_of(nodes: Sequence[NodeWithScore]) -> list[Any]:
    return [
        (
            id(one.node),
            id(one.score),
            state_of(one.node, MEMBERS),
            [*one.node.excluded_llm_metadata_keys],
            [*one.node.excluded_embed_metadata_keys],
            {**one.node.relationships},
        )
        for one in nodes
    ]


@pytest.mark.parametrize(("name", "method", "asynchronous"), odd_lists())
def test_odd_nodes(
    name: str,
    method: str,
    asynchronous: bool,
    provider: FakeProvider,
    rerankers: dict[str, SecondPassRerank],
) -> None:
    provider.play()
    given = odd_nodes(name)
    before = states_of(given)
    nodes, _ = ADAPTER.run(rerankers[method], ENTRIES[asynchronous], QUERY, given)
    assert [type(node.node) for node in nodes] == [
        type(given[node.node.metadata["place"]].node) for node in nodes
    ]
    none_lost([*map(ADAPTER.carried, nodes)], [*map(ADAPTER.carried, given)], method)
    assert states_of(given) == before


KINDS: dict[str, Callable[[], BaseNode]] = {
    "a text": lambda: TextNode(text="3 a"),
    "an index": lambda: IndexNode(text="3 a", index_id="x"),
    "an image with a text": lambda: ImageNode(text="3 a"),
    "a document": lambda: Document(text="3 a"),
    "a node": lambda: Node(text_resource=MediaResource(text="3 a")),
    "a node without a text": Node,
    "an image": lambda: ImageNode(image_url="http://127.0.0.1/x.png"),
    "a node with an image": lambda: Node(image_resource=MediaResource(data=b"eA==")),
}


@pytest.mark.parametrize("entry", ["postprocess_nodes", "apostprocess_nodes"])
@pytest.mark.parametrize("kind", KINDS)
def test_nodes_of_every_kind(
    kind: str, entry: str, provider: FakeProvider, rerankers: dict[str, SecondPassRerank]
) -> None:
    provider.play()
    given = [NodeWithScore(node=KINDS[kind]()), NodeWithScore(node=TextNode(text="9 b"))]
    before = states_of(given)
    nodes, _ = ADAPTER.run(rerankers["graded"], entry, QUERY, given)
    assert [node.node.node_id for node in nodes] == [one.node.node_id for one in given[::-1]]
    assert type(nodes[1].node) is type(given[0].node)
    status = nodes[1].node.metadata["rerank_status"]
    assert status == ("scored" if text_of(given[0].node) == "3 a" else "unjudged")
    assert states_of(given) == before


# ---------------------------------------------------------------------- LLMs


class Scripted:
    """What both have in common."""

    _script: Any = PrivateAttr()

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", is_chat_model=not isinstance(self, CustomLLM))

    def plays(self, script: Script | Odd) -> Any:
        self._script = script
        return self

    def next(self, messages: Sequence[ChatMessage]) -> Any:
        return self._script.next([{"role": m.role.value, "content": m.content} for m in messages])

    def _not_here(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    stream_complete = stream_chat = astream_chat = acomplete = astream_complete = _not_here


class Completing(Scripted, CustomLLM):
    """A completion model, as most that people write themselves; it blocks."""

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        reply = self.next([ChatMessage(role="user", content=prompt)])
        if isinstance(self._script, Odd):
            return reply
        return CompletionResponse(text=reply["choices"][0]["message"]["content"] or "", raw=reply)


class Chatting(Scripted, LLM):
    """A chat model with an asynchronous side."""

    complete = Scripted._not_here

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        reply = self.next(messages)
        if isinstance(self._script, Odd):
            return reply
        message = reply["choices"][0]["message"]
        told = {"tool_calls": message["tool_calls"]} if "tool_calls" in message else {}
        return ChatResponse(
            message=ChatMessage(
                role=MessageRole.ASSISTANT, content=message["content"], additional_kwargs=told
            ),
            raw=reply,
        )

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return self.chat(messages)


LLMS = (Completing, Chatting)


def asking(llm: LLM, config: Mapping[str, Any], strict: bool = False) -> SecondPassRerank:
    return ADAPTER.make(config, strict, llm=llm)


@pytest.mark.parametrize(("case", "llm", "entry", "strict"), sampled(spoken_runs(LLMS, ENTRIES, 3)))
def test_llm_replies(
    case: Case, llm: type, entry: str, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def make(attempt: Case) -> tuple[SecondPassRerank, Script]:
        script = Script(case)
        return asking(llm().plays(script), spoken_config(attempt), strict), script

    survives_llm(ADAPTER, make, entry, case, caplog, strict=strict)


def said(content: Any = "no", raw: Any = None, **more: Any) -> Callable[[], ChatResponse]:
    """A function that makes a response of a chat."""
    return lambda: ChatResponse(
        message=ChatMessage(role="assistant", content=content, **more), raw=raw
    )


RESPONSES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a string": lambda: "{}",
    "a number": lambda: 5,
    "a mapping": lambda: {"message": {"content": "{}"}},
    "a message": lambda: ChatMessage(role="assistant", content="{}"),
    "a completion": lambda: CompletionResponse(text="no"),
    "a completion that is empty": lambda: CompletionResponse(text=""),
    "a generator": lambda: (one for one in ("a", "b")),
    "a coroutine": a_coroutine,
    "a response without a message": ChatResponse.model_construct,
    "a message None": lambda: ChatResponse.model_construct(message=None, raw=None),
    "a message that is a string": lambda: ChatResponse.model_construct(message="5", raw=None),
    "no text": said(None),
    "an empty text": said(""),
    "white space": said(" \n"),
    "no blocks": said([]),
    "an image": said([ImageBlock(image=b"eA==")]),
    "a tool call": said(None, additional_kwargs={"tool_calls": [{"id": "c1", "name": "search"}]}),
    "the result of a tool": lambda: ChatResponse(message=ChatMessage(role="tool", content="5")),
    "usage a string": said(raw={"usage": "5"}),
    "usage a list": said(raw={"usage": [5]}),
    "usage of booleans": said(raw={"usage": {"prompt_tokens": True, "completion_tokens": -1}}),
    "raw a string": said(raw="usage"),
    "raw a number": said(raw=5),
    "raw a list": said(raw=[{"usage": 5}]),
    "a text with the passages": said(SECRET),
    **{f"raising {name}": raising(make) for name, make in RAISED.items()},
}


@pytest.mark.parametrize(
    ("name", "llm", "entry", "strict"), sampled(in_turn(RESPONSES, LLMS, ENTRIES))
)
def test_llm_behaviours(
    name: str, llm: type, entry: str, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Odd(RESPONSES[name])
    one = asking(llm().plays(odd), spoken_config(PLAIN), strict)
    survives_llm(ADAPTER, lambda _: (one, odd), entry, PLAIN, caplog, strict=strict)


class HangingChat(Chatting):
    """Hangs in its event loop, which it does not hold up."""

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        if isinstance(self._script, Odd):
            self._script.requests.append(messages)
            await asyncio.sleep(60)
        return self.chat(messages)


HANGING = (Completing, HangingChat)


@pytest.mark.parametrize(("name", "llm", "entry", "strict"), in_turn(["hanging"], HANGING, ENTRIES))
def test_an_llm_that_hangs_is_left_at_the_deadline(
    name: str, llm: type, entry: str, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    let_go = threading.Event()
    case = Case("", (), "unchanged", "deadline", 1, None, limits={"deadline": 0.15})

    def make(attempt: Case) -> tuple[SecondPassRerank, Odd]:
        odd = Odd(lambda: let_go.wait(60))
        return asking(llm().plays(odd), spoken_config(attempt), strict), odd

    survives_llm(ADAPTER, make, entry, case, caplog, strict=strict)
    let_go.set()


@pytest.mark.parametrize("llm", HANGING)
def test_cancellation_passes_while_an_llm_hangs(
    llm: type, caplog: pytest.LogCaptureFixture
) -> None:
    let_go = threading.Event()
    odd = Odd(lambda: let_go.wait(60))
    case = Case("", (fake.good(),), "ok", "", 1, 1)
    model = llm().plays(odd)
    one = asking(model, spoken_config(case))
    cancelled(one, lambda: bool(odd.requests))
    let_go.set()
    model.plays(script := Script(case))
    survives_llm(ADAPTER, lambda _: (one, script), "arerank_nodes", case, caplog, strict=False)
