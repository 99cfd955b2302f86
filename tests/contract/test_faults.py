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
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import coroutine
from typing import Any, NamedTuple

import pytest

import fake_provider as fake
from contract import CANNOT, WAYS, Adapter, Carried, Odd, adapter_of
from fault_cases import BEST_FIRST, CANDIDATES, GROUPS, MARKER, Case
from fault_checks import DEADLINE, KEY, SLACK, expected, has_happened, promises
from fault_fixtures import _quick_retries  # noqa: F401 - a fixture
from patience import patiently
from rankings import KEYS
from rotation import rotated
from sampling import sampled
from secondpass import Candidate, EngineInfo, Issue, Ranking, Report, RerankError, Usage
from secondpass.errors import LLMError
from secondpass.types import Ranked

pytestmark = pytest.mark.usefixtures("quick_retries")

QUERY = "zebras at night"
"""Stands in no error, log, report or repr either."""
LOGGERS = ("secondpass", "haystack_integrations", "llama_index")
LANGUAGE_MODELS = [name for name in WAYS if "language models" not in CANNOT[name]]


# ---------------------------------------------------------------------- playing a case


def metadata_of(place: int) -> dict[str, Any]:
    """Metadata that tells the place, and can be changed by mistake."""
    return {"place": place, "nested": {"list": [place]}}


def id_of(place: int, candidate: Candidate) -> str:
    """Documents need an id of their own where the candidate has none."""
    return candidate.id or f"d{place}"


def retrieval_score_of(place: int) -> float:
    """The wrong way round, so that an order that sinks is not one that merely came along."""
    return 0.1 + place / 100


def documents_of(adapter: Adapter, candidates: Sequence[Candidate]) -> list[Any]:
    return [
        adapter.given(one.text, id_of(place, one), retrieval_score_of(place), metadata_of(place))
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


@dataclass(frozen=True)
class Outcome:
    """What came out, or what the error under ``strict`` carried; None without a report."""

    ranking: Ranking | None
    order: tuple[int, ...]
    seconds: float
    error: RerankError | None


def played(
    adapter: Adapter,
    component: Any,
    way: str,
    candidates: Sequence[Candidate],
    caplog: pytest.LogCaptureFixture,
    strict: bool = False,
) -> Outcome:
    """Run once, and check all that holds whatever the provider did."""
    given = documents_of(adapter, candidates)
    before = copy.deepcopy(given)
    same = [*given]
    caplog.set_level(logging.INFO)
    for name in LOGGERS:
        caplog.set_level(logging.DEBUG, name)
    has_scores = "score" not in CANNOT[adapter.name]
    texts: list[str] = []
    error: RerankError | None = None
    began = time.perf_counter()
    try:
        out, values = adapter.run(component, way, QUERY, given)
        report = None if values is None else report_of(values)
    except Exception as raised:
        took = time.perf_counter() - began
        assert strict
        # A pipeline makes an error of its own of it.
        assert isinstance(raised, RerankError) != way.startswith("pipeline")
        error = raised if isinstance(raised, RerankError) else raised.__cause__  # type: ignore[assignment]
        assert isinstance(error, RerankError)
        for one in (raised, error):
            texts += [str(one), repr(one), repr(one.args)]
        texts += [repr(one) for one in (error.__cause__, error.__context__) if one is not None]
        items = error.ranking.items
        ranking = ranking_of(
            [
                Carried(
                    item.text, item.id, None, {**item.candidate.metadata, **provenance_of(item)}
                )
                for item in items
            ],
            candidates,
            error.ranking.report,
            has_scores,
        )
        order = error.ranking.order
    else:
        took = time.perf_counter() - began
        carried = [adapter.carried(one) for one in out]
        if has_scores:
            falling([one.score for one in carried])
        order = tuple(one.place for one in carried)
        ranking = ranking_of(carried, candidates, report or Report("ok"), has_scores)
        assert not {id(one.metadata) for one in carried} & {
            id(adapter.carried(one).metadata) for one in given
        }
        texts += [] if report is None else [repr(report), json.dumps(report.to_dict())]
    assert sorted(order) == list(range(len(candidates)))
    # By identity, and by all that is in them.
    assert [id(one) for one in given] == [id(one) for one in same]
    assert given == before
    texts += [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    secrets = (KEY, MARKER, QUERY, fake.LEAK)
    assert not [secret for secret in secrets for text in texts if secret in text]
    assert KEY not in repr(component)
    without_report = error is None and report is None
    return Outcome(None if without_report else ranking, order, took, error)


def provenance_of(item: Ranked) -> dict[str, Any]:
    return {
        "rerank_score": item.rerank_score,
        "rerank_final_score": item.final_score,
        "retrieval_score": item.candidate.score,
        "rerank_rank": item.rank,
        "rerank_status": item.status,
    }


def ranking_of(
    carried: Sequence[Carried], candidates: Sequence[Candidate], report: Report, has_scores: bool
) -> Ranking:
    """What came out as the ranking that it was made of; each is what stood at its place."""
    items = []
    for rank, one in enumerate(carried, 1):
        place, meta = one.place, one.metadata
        assert one.text == candidates[place].text
        assert one.id == id_of(place, candidates[place])
        span = meta.get("rerank_span")
        stated = KEYS if span is None else {*KEYS, "rerank_span"}
        assert meta.keys() == metadata_of(place).keys() | stated
        assert {name: meta[name] for name in metadata_of(place)} == metadata_of(place)
        assert meta["rerank_rank"] == rank
        if has_scores:
            assert meta["retrieval_score"] == retrieval_score_of(place)
        assert (meta["rerank_score"] is None) == (meta["rerank_status"] != "scored")
        items.append(
            Ranked(
                rank,
                place,
                candidates[place],
                meta["rerank_status"],
                meta["rerank_score"],
                one.score,
                (),
                meta,
                None if span is None else tuple(span),
            )
        )
    return Ranking(QUERY, tuple(items), report)


def falling(scores: Sequence[Any]) -> None:
    """Finite floats of Python's own, none above the one before."""
    assert all(type(score) is float and math.isfinite(score) for score in scores)
    assert all(one >= following for one, following in pairwise(scores))


def survives_llm(
    how: How,
    make: Callable[[Adapter, Case], tuple[Any, Any]],
    case: Case,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A case of the table of language models, through the adapter.

    ``make`` returns the component for a case, and what counts as its provider.
    """
    adapter = adapter_of(how.adapter)
    for attempt in patiently(case):
        component, provider = make(adapter, attempt)
        outcome = played(adapter, component, how.way, case.candidates, caplog, how.strict)
        ranking = outcome.ranking
        if ranking is None or has_happened(ranking, case, provider):
            break
    assert outcome.seconds <= attempt.limits.get("deadline", DEADLINE) + SLACK
    if ranking is None:
        order_without_report(outcome, case)
        return
    promises(ranking, case, provider.calls)
    expected(ranking, case, provider)
    assert (outcome.error is not None) == (how.strict and ranking.report.status != "ok")


def order_without_report(outcome: Outcome, case: Any) -> None:
    if case.status == "unchanged":
        assert outcome.order == tuple(range(len(outcome.order)))
    elif case.status == "ok" and case.order is None:
        assert outcome.order[0] == BEST_FIRST[0]


# ---------------------------------------------------------------------- the tables


def spoken_cases() -> list[Case]:
    """The cases that a framework's own model object can play."""
    return [
        case
        for group in ("envelope", "payload")
        for case in GROUPS[group]
        if "openai" in case.flavours and is_sayable(case)
    ]


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


def asking(adapter: Adapter, how: How, case: Case, answer: Callable[..., Any]) -> Any:
    """The component of a case, which asks a model of the framework."""
    config = {
        "method": {"type": "graded", **case.method},
        "limits": {"deadline": DEADLINE, "retries": 1, "repair": 1, **case.limits},
    }
    llm = adapter.llm(adapter.llms[how.kind], answer)
    return adapter.make(config, llm=llm, strict=how.strict)


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


@pytest.mark.parametrize(("case", "how"), sampled(rotated(spoken_cases(), HOWS), 24))
def test_replies_of_a_frameworks_model(
    case: Case, how: How, caplog: pytest.LogCaptureFixture
) -> None:
    def make(adapter: Adapter, attempt: Case) -> tuple[Any, Script]:
        script = Script(case)
        return asking(adapter, how, attempt, script), script

    survives_llm(how, make, case, caplog)


SECRET = f"{MARKER}, the key {KEY}"
"""What errors of a framework's model may hold, and no report may repeat."""

RAISED: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError(SECRET),
    "KeyError": lambda: KeyError(SECRET),
    "ValueError": lambda: ValueError(SECRET),
    "TimeoutError": lambda: TimeoutError(SECRET),
    "ConnectionError": lambda: ConnectionError(SECRET),
    "OSError": lambda: OSError(5, SECRET),
    "AssertionError": lambda: AssertionError(SECRET),
    "NotImplementedError": NotImplementedError,
    "MemoryError": MemoryError,
    "RecursionError": lambda: RecursionError(SECRET),
    "StopIteration": lambda: StopIteration(SECRET),
    "GeneratorExit": lambda: GeneratorExit(SECRET),
    "CancelledError": lambda: asyncio.CancelledError(SECRET),
    "SystemExit": lambda: SystemExit(SECRET),
    "ExceptionGroup": lambda: ExceptionGroup(SECRET, [ValueError(SECRET)]),
    "LLMError": lambda: LLMError("it is too busy", "rate_limited", retryable=True),
}


def raising(make: Callable[[], BaseException]) -> Callable[[], Any]:
    """A function that raises what another makes."""

    def raises() -> Any:
        raise make()

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
    **{f"raising {name}": raising(make) for name, make in RAISED.items()},
}
"""What is a response of neither framework."""


@pytest.mark.parametrize(("returned", "how"), sampled(rotated(RETURNED, HOWS), 36))
def test_what_a_frameworks_model_may_return_or_raise(
    returned: str, how: How, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Returns(RETURNED[returned])
    survives_llm(how, lambda adapter, _: (asking(adapter, how, PLAIN, odd), odd), PLAIN, caplog)


# ---------------------------------------------------------------------- deadlines and cancellation


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, id=how.name, marks=() if how in {HOWS[0], HOWS[-1]} else pytest.mark.long)
        for how in HOWS
    ],
)
def test_a_model_that_hangs_is_left_at_the_deadline(
    how: How, caplog: pytest.LogCaptureFixture
) -> None:
    let_go = threading.Event()
    case = Case("", (), "unchanged", "deadline", 1, None, limits={"deadline": 0.15})

    def make(adapter: Adapter, attempt: Case) -> tuple[Any, Script]:
        odd = Returns(lambda: let_go.wait(60))
        return asking(adapter, how._replace(kind=0), attempt, odd), odd

    survives_llm(how, make, case, caplog)
    let_go.set()


def cancelled(adapter: Adapter, component: Any, asked: Callable[[], bool]) -> None:
    """Cancel a ranking when the question is out; it has to end so, and at once."""

    async def go() -> None:
        documents = documents_of(adapter, CANDIDATES)
        task = asyncio.create_task(adapter.arun(component, QUERY, documents))
        while not asked():
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(go(), 60))


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_cancellation_passes_while_a_model_hangs(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = adapter_of(name)
    let_go = threading.Event()
    case = Case("", (fake.good(),), "ok", "", 1, 1)
    script, hanging = Script(case), threading.Event()

    def answer(messages: list[dict[str, Any]]) -> Any:
        if not hanging.is_set():
            hanging.set()
            return Odd(let_go.wait(60))
        return script(messages)

    how = How(name, 0, WAYS[name]["async"][0], False)
    component = asking(adapter, how, case, answer)
    cancelled(adapter, component, hanging.is_set)
    let_go.set()
    survives_llm(how, lambda *_: (component, script), case, caplog)
