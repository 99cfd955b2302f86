"""What fault tests share: fixtures for all of them, and how the adapters run the core's tables.

Fixtures work in the module or conftest that imports them. An adapter's tests describe the adapter
(`Adapter`), and `survives` plays a case through it: what comes out is put back into the shape of a
ranking, and what the core's own tests demand of a ranking is demanded of it.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import pytest

import fake_provider as fake
import odd_candidates
import rerank_fault_cases
from fault_cases import BEST_FIRST, GROUPS, MARKER, Case, name_of
from framework_models import spoken_cases
from llm_fault_checks import (
    DEADLINE,
    KEY,
    KEY_VARIABLE,
    SLACK,
    codes_of,
    configuration,
    expected,
    has_happened,
    promises,
)
from patience import patiently
from secondpass import Candidate, Ranking, Report, RerankError
from secondpass.types import Ranked

# ---------------------------------------------------------------------- fixtures


@pytest.fixture(scope="session", autouse=True)
def _sdks() -> None:
    """Import the SDKs once, so that no deadline has to include it."""
    for name in ("openai", "anthropic", "google.genai"):
        importlib.import_module(name)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback servers are reached without a proxy, and no key is found by chance."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(name="quick_retries")
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries that need not be waited for."""
    asking = importlib.import_module("secondpass.asking.dispatch")
    monkeypatch.setattr(asking, "_FIRST_PAUSE", 0.01)


@pytest.fixture(scope="module", name="closing")
def _closing() -> Iterator[Callable[[Any], Any]]:
    """Closes what a module makes after its tests, so that no connection stays open."""
    with contextlib.ExitStack() as stack:

        def until_the_end(one: Any) -> Any:
            stack.callback(one.close)
            return one

        yield until_the_end


# ---------------------------------------------------------------------- adapters


QUERY = "zebras at night"
"""Stands in no error, log, report or repr either."""

PROVENANCE = {
    "rerank_score",
    "rerank_final_score",
    "retrieval_score",
    "rerank_rank",
    "rerank_status",
}
LOGGERS = ("secondpass", "haystack_integrations", "llama_index")


@dataclass(frozen=True)
class Carried:
    """A document or node as it came out of an adapter. Its place came along in its metadata."""

    text: Any
    id: Any
    score: Any
    metadata: dict[str, Any]

    @property
    def place(self) -> int:
        """Where it stood in what went in."""
        return int(self.metadata["place"])


class Adapter(Protocol):
    """What an adapter's tests say about the adapter."""

    entries: Mapping[str, Sequence[str]]
    """Names of its entry points by mode: ``sync``, ``async`` and ``strict``."""

    def make(self, config: Mapping[str, Any], strict: bool) -> Any:
        """The component, which is strict by its own parameter."""

    def given(self, candidates: Sequence[Candidate]) -> list[Any]:
        """The framework's own objects; their metadata is that of `metadata_of`."""

    def run(
        self, component: Any, entry: str, query: str, documents: list[Any]
    ) -> tuple[list[Any], Report | None]:
        """What comes out, and the report where this entry point gives one."""

    def carried(self, one: Any) -> Carried:
        """What came out, read."""


def metadata_of(place: int) -> dict[str, Any]:
    """Metadata that tells the place, and can be changed by mistake."""
    return {"place": place, "nested": {"list": [place]}}


def id_of(place: int, candidate: Candidate) -> str:
    """Documents need an id of their own where the candidate has none."""
    return candidate.id or f"d{place}"


def retrieval_score_of(place: int) -> float:
    """The wrong way round, so that an order that sinks is not one that merely came along."""
    return 0.1 + place / 100


def rotation(
    cases: Iterable[tuple[str, Any, Sequence[str], bool]], adapter: Adapter, turn: int
) -> list[Any]:
    """Each case with each flavour in each mode, by one of the mode's entry points in turn.

    The core runs the table too. So of each case one flavour in one mode is usual, and none where
    the last of its four members says so; the others are ``long``. ``turn`` makes each adapter
    begin elsewhere.
    """
    rows = []
    for number, (group, case, flavours, wanted) in enumerate(cases, turn):
        usual = number % len(flavours), number // len(flavours) % len(adapter.entries)
        for place, flavour in enumerate(flavours):
            for index, (mode, entries) in enumerate(adapter.entries.items()):
                entry = entries[(number + place) // 2 % len(entries)]
                marks = () if wanted and (place, index) == usual else (pytest.mark.long,)
                name = name_of(f"{group}-{case.name}-{flavour}-{mode}-{entry}")
                rows.append(pytest.param(case, flavour, mode, entry, id=name, marks=marks))
    return rows


def llm_runs(adapter: Adapter, turn: int) -> list[Any]:
    """The table of language models' faults.

    What a model says is usually said by a model of the framework's (`spoken_runs`), without HTTP.
    """
    spoken = {case.name for group, case in spoken_cases() if group == "payload"}
    cases = [
        (group, case, case.flavours, not (group == "payload" and case.name in spoken))
        for group, cases in GROUPS.items()
        for case in cases
    ]
    return rotation(cases, adapter, turn)


def rerank_runs(adapter: Adapter, turn: int) -> list[Any]:
    """The table of rerank APIs' faults; every other one is usual, by ``turn`` the one or the other.

    Whether a language model or a rerank API is asked is nothing that an adapter could see.
    """
    rows = []
    for number, case in enumerate(rerank_fault_cases.CASES, turn):
        apis = tuple(api for api in case.apis if api != "bedrock")  # which takes no key
        rows.append((case.group, case, apis, number % 2 == 0))
    return rotation(rows, adapter, turn)


def llm_config(provider: fake.FakeProvider, flavour: str, case: Case) -> dict[str, Any]:
    """The configuration of the core's own test, which the adapter makes strict by itself."""
    config = configuration(provider, flavour, case, False)
    del config["strict"]
    return config


def rerank_config(provider: fake.FakeProvider, api: str, case: Any) -> dict[str, Any]:
    """An endpoint of the fake provider."""
    method = {
        "type": "endpoint",
        "api": api,
        "model": "m",
        "base_url": f"http://127.0.0.1:{provider.port}/{api}",
        "api_key_env": KEY_VARIABLE,
        **case.settings,
    }
    limits = {"deadline": rerank_fault_cases.DEADLINE, "retries": 1, "repair": 0, **case.limits}
    return {"method": method, "limits": limits}


class Components:
    """Components by configuration and mode; one of its own for a case that changes it."""

    def __init__(self, adapter: Adapter, closing: Callable[[Any], Any]) -> None:
        self.adapter = adapter
        self.closing = closing
        self.made: dict[str, Any] = {}

    def get(
        self, config: dict[str, Any], strict: bool, provider: fake.FakeProvider, fresh: bool
    ) -> Any:
        known = json.dumps([config, strict])
        if fresh or known not in self.made:
            component = self.adapter.make(config, strict)
            self.closing(_Closable(self.adapter, component))
            if fresh:
                return component
            provider.play()
            self._warm_up(component)
            self.made[known] = component
        return self.made[known]

    def playing(
        self,
        case: Any,
        provider: fake.FakeProvider,
        configured: Callable[[Any], dict[str, Any]],
        *,
        strict: bool,
    ) -> Callable[[Any], tuple[Any, fake.FakeProvider]]:
        """What `survives_llm` and `survives_rerank` take as `make`, for a case of their tables.

        Args:
            case: whose script the provider plays.
            provider: that the component asks.
            configured: the component's configuration, of the case or the case with longer times.
            strict: whether it raises.
        """

        def make(attempt: Any) -> tuple[Any, fake.FakeProvider]:
            component = self.get(configured(attempt), strict, provider, case.fresh)
            provider.play(*case.script)
            return component, provider

        return make

    def _warm_up(self, component: Any) -> None:
        """Open the client, and learn what the server cannot do.

        Once more if the short deadline of a case did not suffice for the first call of an SDK.
        """
        candidates = self.adapter.given([Candidate("1", id="a"), Candidate("2", id="b")])
        for _ in range(5):
            try:
                entry = self.adapter.entries["sync"][0]
                report = self.adapter.run(component, entry, QUERY, candidates)[1]
            except RerankError as error:
                report = error.ranking.report
            codes = {issue.code for issue in report.issues} if report else set()
            if not codes & {"deadline", "timeout"}:
                return


@dataclass(frozen=True)
class _Closable:
    adapter: Any
    component: Any

    def close(self) -> None:
        self.adapter.close(self.component)


@dataclass(frozen=True)
class Outcome:
    """What a case came to.

    Attributes:
        ranking: what came out as a ranking, or what the error carried; None without a report.
        order: the places of what came out.
        seconds: how long it took.
        error: under ``strict``.
    """

    ranking: Ranking | None
    order: tuple[int, ...]
    seconds: float
    error: RerankError | None


def played(
    adapter: Adapter,
    component: Any,
    entry: str,
    candidates: Sequence[Candidate],
    caplog: pytest.LogCaptureFixture,
    strict: bool = False,
) -> Outcome:
    """Run once, and check all that holds whatever the provider did."""
    given = adapter.given(candidates)
    before = copy.deepcopy(given)
    same = [*given]
    caplog.set_level(logging.INFO)
    for name in LOGGERS:
        caplog.set_level(logging.DEBUG, name)
    texts: list[str] = []
    error: RerankError | None = None
    began = time.perf_counter()
    try:
        out, report = adapter.run(component, entry, QUERY, given)
    except Exception as raised:
        took = time.perf_counter() - began
        assert strict
        # A pipeline makes an error of its own of it.
        error = raised if isinstance(raised, RerankError) else raised.__cause__  # type: ignore[assignment]
        assert isinstance(error, RerankError)
        for one in (raised, error):
            texts += [str(one), repr(one), repr(one.args)]
        texts += [repr(one) for one in (error.__cause__, error.__context__) if one is not None]
        items = error.ranking.items
        ranking = _ranking(
            [
                Carried(item.text, item.id, None, {**item.candidate.metadata, **_provenance(item)})
                for item in items
            ],
            candidates,
            error.ranking.report,
        )
        order = error.ranking.order
    else:
        took = time.perf_counter() - began
        carried = [adapter.carried(one) for one in out]
        falling([one.score for one in carried])
        order = tuple(one.place for one in carried)
        ranking = _ranking(carried, candidates, report or Report("ok"))
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


def _provenance(item: Ranked) -> dict[str, Any]:
    return {
        "rerank_score": item.rerank_score,
        "rerank_final_score": item.final_score,
        "retrieval_score": item.candidate.score,
        "rerank_rank": item.rank,
        "rerank_status": item.status,
    }


def _ranking(
    carried: Sequence[Carried], candidates: Sequence[Candidate], report: Report
) -> Ranking:
    """What came out as the ranking that it was made of; each is what stood at its place."""
    items = []
    for rank, one in enumerate(carried, 1):
        place, meta = one.place, one.metadata
        assert one.text == candidates[place].text
        assert one.id == id_of(place, candidates[place])
        span = meta.get("rerank_span")
        stated = PROVENANCE if span is None else {*PROVENANCE, "rerank_span"}
        assert meta.keys() == metadata_of(place).keys() | stated
        assert {name: meta[name] for name in metadata_of(place)} == metadata_of(place)
        assert meta["rerank_rank"] == rank
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
    adapter: Adapter,
    make: Callable[[Case], tuple[Any, Any]],
    entry: str,
    case: Case,
    caplog: pytest.LogCaptureFixture,
    *,
    strict: bool,
) -> None:
    """A case of the table of language models, through the adapter.

    Args:
        make: the component for a case, and what counts as its provider.
    """
    for attempt in patiently(case):
        component, provider = make(attempt)
        outcome = played(adapter, component, entry, case.candidates, caplog, strict)
        ranking = outcome.ranking
        if ranking is None or has_happened(ranking, case, provider):
            break
    assert outcome.seconds <= attempt.limits.get("deadline", DEADLINE) + SLACK
    if ranking is None:
        _order_without_report(outcome, case)
        return
    promises(ranking, case, provider.calls)
    expected(ranking, case, provider)
    assert (outcome.error is not None) == (strict and ranking.report.status != "ok")


def survives_rerank(
    adapter: Adapter,
    make: Callable[[Any], tuple[Any, Any]],
    entry: str,
    case: Any,
    caplog: pytest.LogCaptureFixture,
    *,
    strict: bool,
) -> None:
    """A case of the table of rerank APIs, through the adapter."""
    candidates = rerank_fault_cases.CANDIDATES
    for attempt in patiently(case):
        component, provider = make(attempt)
        outcome = played(adapter, component, entry, candidates, caplog, strict)
        ranking = outcome.ranking
        if ranking is None or case.happened(ranking, len(provider.requests)):
            break
    deadline = attempt.limits.get("deadline", rerank_fault_cases.DEADLINE)
    assert outcome.seconds <= deadline + rerank_fault_cases.SLACK
    if ranking is None:
        _order_without_report(outcome, case)
        return
    report = ranking.report
    rerank_fault_cases.promises(ranking, case, len(provider.requests))
    assert report.status in case.status.split()
    codes = codes_of(report)
    if case.codes != "*":
        assert codes & set(case.codes.split()) or not (case.codes or codes)
    fewest, most = case.requests if isinstance(case.requests, tuple) else (case.requests,) * 2
    assert fewest <= len(provider.requests) <= most
    for item in ranking:
        nothing = report.status == "unchanged" or item.position in case.unscored
        assert (item.rerank_score is None) == nothing
    if case.order is not None:
        assert ranking.order == case.order
    assert (outcome.error is not None) == (strict and report.status != "ok")


def _order_without_report(outcome: Outcome, case: Any) -> None:
    if case.status == "unchanged":
        assert outcome.order == tuple(range(len(outcome.order)))
    elif case.status == "ok" and case.order is None:
        assert outcome.order[0] == BEST_FIRST[0]


# ---------------------------------------------------------------------- odd candidates


def state_of(one: Any, members: Iterable[str]) -> dict[str, Any]:
    """Which objects an object holds, and its metadata: for what cannot be compared otherwise."""
    metadata = one.meta if hasattr(one, "meta") else one.metadata
    held = {name: id(getattr(one, name)) for name in members}
    return held | {"metadata": [(key, id(value)) for key, value in (metadata or {}).items()]}


def odd_lists() -> list[Any]:
    """The core's lists of odd candidates, each with a method and a mode in turn."""
    methods = ("graded", "listwise by id", "graded, pairs by id", "graded, one question")
    rows = []
    for number, name in enumerate(odd_candidates.LISTS):
        for index, method in enumerate(methods):
            for turn in (0, 1):
                marks = () if index == number % len(methods) and turn == 0 else (pytest.mark.long,)
                asynchronous = bool((number // len(methods) + turn) % 2)
                mode = "async" if asynchronous else "sync"
                rows.append(
                    pytest.param(
                        name, method, asynchronous, id=f"{name}-{method}-{mode}", marks=marks
                    )
                )
    return rows


def none_lost(carried: Sequence[Carried], sources: Sequence[Carried], method: str) -> None:
    """Each document of a list of odd ones came out once, as it was, and judged if it has a text."""
    falling([one.score for one in carried])
    assert sorted(one.place for one in carried) == list(range(len(sources)))
    for rank, one in enumerate(carried, 1):
        before = sources[one.place]
        assert one.text is before.text
        assert one.id == before.id
        assert one.metadata is not before.metadata
        mine = PROVENANCE - before.metadata.keys()
        assert one.metadata.keys() == before.metadata.keys() | mine
        assert all(one.metadata[key] is value for key, value in before.metadata.items())
        assert one.metadata.get("rerank_rank", rank) == rank
    head = {one.place for one in sources[:100] if isinstance(one.text, str)}
    scored = [one for one in carried if one.metadata.get("rerank_status") == "scored"]
    if method.startswith("listwise") and len(head) < 2:
        return  # one that only orders need not ask about one
    assert {one.place for one in scored} == head
    if method.startswith("graded"):
        keys = [(-fake.by_number(one.text), one.place) for one in scored]
        assert keys == sorted(keys)
