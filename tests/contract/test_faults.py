"""What language models of the frameworks say and do wrong: nothing is lost, whatever happens.

Faults of providers are the core's (`tests/faults`), which no adapter can see. A case is played by a
framework's own model; what comes out is put back into the shape of a ranking, and what the core's
tests demand of a ranking is demanded of it. In `make test` adapters and entry points take turns at
the faults; all of them are met by all in `make test-long`.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import coroutine
from typing import Any, NamedTuple

import pytest

import fake_provider as fake
from contract import CANNOT, WAYS, Adapter, Odd, adapter_of
from fault_cases import CANDIDATES, GROUPS, MARKER, Case
from fault_checks import DEADLINE, KEY, SLACK, expected, has_happened, promises
from fault_fixtures import _quick_retries  # noqa: F401 - a fixture
from patience import patiently
from rotation import rotated
from sampling import sampled
from secondpass import Candidate, EngineInfo, Issue, Ranking, Report, RerankError, Usage
from secondpass.errors import LLMError
from secondpass.types import Ranked

pytestmark = pytest.mark.usefixtures("quick_retries")

QUERY = "zebras at night"
"""Stands in no error, log, report or repr either."""
LANGUAGE_MODELS = [name for name in WAYS if "language models" not in CANNOT[name]]


class How(NamedTuple):
    """An adapter, which of its kinds of model, an entry point, and whether it is strict."""

    adapter: str
    kind: int
    way: str
    strict: bool

    @property
    def name(self) -> str:
        """For the id of a test."""
        return f"{self.adapter}-{self.kind}-{self.way}-{'strict' if self.strict else 'tolerant'}"


HOWS = [
    How(name, kind, WAYS[name][mode][0], strict)
    for strict in (False, True)
    for mode in ("sync", "async")
    for kind in (0, 1)
    for name in LANGUAGE_MODELS
]


# ---------------------------------------------------------------------- playing a case


class Script:
    """A language model that plays the steps of a case as replies, and counts as a provider."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.requests: list[Any] = []

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    def __call__(self, messages: list[dict[str, Any]]) -> Any:
        step = self.case.script[min(len(self.requests), len(self.case.script) - 1)]
        self.requests.append(messages)
        return reply_of(step, messages)


class Returns(Script):
    """One that returns what a function makes of nothing."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__(PLAIN)
        self.make = make

    def __call__(self, messages: list[dict[str, Any]]) -> Any:
        self.requests.append(messages)
        return Odd(self.make())


PLAIN = Case("a model of a framework's", (), "unchanged", "*", (1, 3))
"""For faults that need no script."""


def reply_of(step: fake.Step, messages: list[dict[str, Any]]) -> Any:
    """The reply that a step sends for these messages in OpenAI's dialect; None for no JSON."""
    body = {"messages": messages}
    request = fake.Request(0, "openai", "/openai/v1/chat/completions", {}, body, 0.0)
    wire = b"".join(part for part in step(request) if isinstance(part, bytes))
    head, _, body = wire.partition(b"\r\n\r\n")
    try:
        return json.loads(body) if b" 200 " in head[:13] else None
    except (ValueError, RecursionError):
        return None


def asking(adapter: Adapter, how: How, case: Case, answer: Callable[..., Any]) -> Any:
    """The component of a case, which asks a model of the framework."""
    config = {
        "method": {"type": "graded", **case.method},
        "limits": {"deadline": DEADLINE, "retries": 1, "repair": 1, **case.limits},
    }
    llm = adapter.llm(adapter.llms[how.kind], answer)
    return adapter.make(config, llm=llm, strict=how.strict)


def documents_of(adapter: Adapter, candidates: Sequence[Candidate]) -> list[Any]:
    """Documents whose retrieval scores rise, so that falling ones did not merely come along."""
    return [
        adapter.given(one.text, one.id or f"d{place}", 0.1 + place / 100, {"place": place})
        for place, one in enumerate(candidates)
    ]


def report_of(values: Mapping[str, Any]) -> Report:
    """The report that values were made of; they have to be plain JSON for that."""
    plain = json.loads(json.dumps(values))
    issues = [
        Issue(**{**issue, "positions": tuple(issue["positions"]), "ids": tuple(issue["ids"])})
        for issue in plain["issues"]
    ]
    engines = tuple(EngineInfo(**engine) for engine in plain["engines"])
    usage = Usage(**plain["usage"])
    return Report(**{**plain, "issues": tuple(issues), "usage": usage, "engines": engines})


def ranking_of(
    adapter: Adapter, ranked: Sequence[Any], candidates: Sequence[Candidate], report: Report
) -> Ranking:
    """What came out as the ranking that it was made of; each is what stood at its place."""
    items = []
    for rank, one in enumerate(map(adapter.carried, ranked), 1):
        meta = one.metadata
        assert one.text == candidates[one.place].text
        assert meta["rerank_rank"] == rank
        scores = meta["rerank_score"], meta["rerank_final_score"]
        status = meta["rerank_status"]
        items.append(Ranked(rank, one.place, candidates[one.place], status, *scores, (), meta))
    return Ranking(QUERY, tuple(items), report)


def played(
    adapter: Adapter, component: Any, how: How, candidates: Sequence[Candidate]
) -> tuple[Ranking, list[object]]:
    """The ranking, or that which the error under ``strict`` carried; what was shown of either."""
    given = documents_of(adapter, candidates)
    before, same = copy.deepcopy(given), [*map(id, given)]
    try:
        ranked, values = adapter.run(component, how.way, QUERY, given)
    except RerankError as error:
        assert how.strict
        assert error.ranking.report.status != "ok"
        items = [replace(one, candidate=candidates[one.position]) for one in error.ranking.items]
        ranking = replace(error.ranking, items=tuple(items))
        shown = [error, error.args, error.__cause__, error.__context__, str(error)]
    else:
        assert values is not None
        report = report_of(values)
        assert not how.strict or report.status == "ok"
        ranking = ranking_of(adapter, ranked, candidates, report)
        shown = [report, values]
    assert [*map(id, given)] == same
    assert given == before
    return ranking, shown


def survives(
    how: How,
    make: Callable[[Adapter, Case], tuple[Any, Script]],
    case: Case,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Check a case through an adapter; ``make`` returns the component, and what it asks."""
    adapter = adapter_of(how.adapter)
    caplog.set_level(logging.INFO)
    for name in ("secondpass", "haystack_integrations", "llama_index"):
        caplog.set_level(logging.DEBUG, name)
    for attempt in patiently(case):
        component, provider = make(adapter, attempt)
        began = time.perf_counter()
        ranking, shown = played(adapter, component, how, case.candidates)
        seconds = time.perf_counter() - began
        if has_happened(ranking, case, provider):
            break
    assert seconds <= attempt.limits.get("deadline", DEADLINE) + SLACK
    promises(ranking, case, provider.calls)
    expected(ranking, case, provider)
    logged = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    texts = [*map(repr, shown), *logged]
    secrets = (KEY, MARKER, QUERY, fake.LEAK)
    assert not [secret for secret in secrets for text in texts if secret in text]
    assert KEY not in repr(component)


# ---------------------------------------------------------------------- the tables

PROBE = "".join(f'<doc id="{index}">{index} text</doc>' for index in range(1, 7))


def is_sayable(case: Case) -> bool:
    """Whether the fault is in what a model says, which needs no HTTP to be said."""
    for step in case.script:
        try:
            reply = reply_of(step, [{"role": "user", "content": PROBE}])
            if not isinstance(reply["choices"][0]["message"]["content"], str | None):
                return False
        except (TypeError, LookupError):
            return False
    return True


SAYABLE = [
    case
    for group in ("envelope", "payload")
    for case in GROUPS[group]
    if "openai" in case.flavours and is_sayable(case)
]


@pytest.mark.parametrize(("case", "how"), sampled(rotated(SAYABLE, HOWS), 24))
def test_replies_of_a_frameworks_model(
    case: Case, how: How, caplog: pytest.LogCaptureFixture
) -> None:
    def make(adapter: Adapter, attempt: Case) -> tuple[Any, Script]:
        script = Script(case)
        return asking(adapter, how, attempt, script), script

    survives(how, make, case, caplog)


SECRET = f"{MARKER}, the key {KEY}"
"""What errors of a framework's model may hold, and no report may repeat."""

RAISED = [
    *(RuntimeError, KeyError, ValueError, TimeoutError, ConnectionError, OSError, AssertionError),
    *(NotImplementedError, MemoryError, RecursionError, StopIteration, GeneratorExit, SystemExit),
    asyncio.CancelledError,
]


def raising(kind: Any, *arguments: Any, **named: Any) -> Callable[[], Any]:
    """A function that raises an error of this kind."""

    def raises() -> Any:
        raise kind(*arguments, **named)

    return raises


@coroutine
def a_coroutine(value: object = None) -> Iterator[None]:
    """What an asynchronous function returns, but that Python keeps quiet if it is not awaited.

    It would tell whichever test is under way when the collector finds it.
    """
    yield
    return value


RETURNED: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a string": lambda: "{}",
    "a number": lambda: 5,
    "a list": lambda: ["{}"],
    "nothing": dict,
    "a mapping": lambda: {"message": {"content": "{}"}},
    "replies None": lambda: {"replies": None},
    "replies a string": lambda: {"replies": "5 4 3"},
    "replies a number": lambda: {"replies": 5},
    "replies a mapping": lambda: {"replies": {"a": 1}},
    "replies a set": lambda: {"replies": {"a"}},
    "replies a generator": lambda: {"replies": (one for one in ("a", "b"))},
    "a reply None": lambda: {"replies": [None]},
    "a reply that is a string": lambda: {"replies": ["{}"]},
    "a generator": lambda: (one for one in ("a", "b")),
    "a coroutine": a_coroutine,
    "an object": object,
    **{f"raising {kind.__name__}": raising(kind, SECRET) for kind in RAISED},
    "raising ExceptionGroup": raising(ExceptionGroup, SECRET, [ValueError(SECRET)]),
    "raising LLMError": raising(LLMError, "it is too busy", "rate_limited", retryable=True),
}
"""What is a response of neither framework."""


@pytest.mark.parametrize(("returned", "how"), sampled(rotated(RETURNED, HOWS), 36))
def test_what_a_frameworks_model_may_return_or_raise(
    returned: str, how: How, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Returns(RETURNED[returned])
    survives(how, lambda adapter, _: (asking(adapter, how, PLAIN, odd), odd), PLAIN, caplog)


# ---------------------------------------------------------------------- deadlines and cancellation


@pytest.mark.parametrize(("name", "mode"), rotated(LANGUAGE_MODELS, ["sync", "async"]))
def test_a_model_that_hangs_is_left_at_the_deadline(
    name: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    how = How(name, 0, WAYS[name][mode][0], strict=mode == "async")
    let_go = threading.Event()
    case = Case("", (), "unchanged", "deadline", 1, None, limits={"deadline": 0.15})

    def make(adapter: Adapter, attempt: Case) -> tuple[Any, Script]:
        odd = Returns(lambda: let_go.wait(60))
        return asking(adapter, how, attempt, odd), odd

    survives(how, make, case, caplog)
    let_go.set()


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_cancellation_passes_while_a_model_hangs(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = adapter_of(name)
    let_go, hanging = threading.Event(), threading.Event()
    case = Case("", (fake.good(),), "ok", "", 1, 1)
    script = Script(case)

    def answer(messages: list[dict[str, Any]]) -> Any:
        if not hanging.is_set():
            hanging.set()
            return Odd(let_go.wait(60))
        return script(messages)

    how = How(name, 0, WAYS[name]["async"][0], False)
    component = asking(adapter, how, case, answer)

    async def cancel() -> None:
        documents = documents_of(adapter, CANDIDATES)
        task = asyncio.create_task(adapter.arun(component, QUERY, documents))
        while not hanging.is_set():
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancel(), 60))
    let_go.set()
    survives(how, lambda *_: (component, script), case, caplog)
