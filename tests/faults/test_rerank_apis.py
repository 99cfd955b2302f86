"""Every error of transport, status and payload, against the clients of rerank APIs.

One table, run through one of the 23 APIs in turn, synchronously or asynchronously; the rest of
the product is ``long``. What must hold of all cases is in `check`; what each API sends and reads
is in ``tests/apis``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import fake_provider as fake
import fault_cases
from fake_provider import RERANK_FAULTS, Step, rerank_answers
from fault_cases import BEST_FIRST, CANDIDATES, MARKER
from fault_checks import (
    DEADLINE,
    KEY,
    KEY_VARIABLE,
    SLACK,
    codes_of,
    hygiene,
    in_turns,
    promises,
    requests_of,
)
from patience import is_timed, patiently
from rerank_dialects import DIALECTS
from secondpass import Ranking, Reranker

APIS = ("cohere", "jina", "tei")
SCALED = ("tei", "infinity")
"""Those that send probabilities or logits, by a setting."""
BY_PLACE = tuple(api for api, dialect in DIALECTS.items() if not dialect.index)
"""Those that send a score for each document, in their order."""
UNBOUNDED = tuple(api for api, dialect in DIALECTS.items() if dialect.kind != "probability")
BOUNDED = tuple(api for api in DIALECTS if api not in (*UNBOUNDED, *SCALED, *BY_PLACE))
"""Those whose scores are probabilities, and nothing else."""
FURTHER = tuple(api for api in DIALECTS if api not in APIS)


@dataclass(frozen=True)
class Case(fault_cases.Case):
    """A fault of a rerank API; its codes may be none, where nothing may be reported.

    Attributes:
        settings: of the method.
        memory: the ranking may take so many megabytes at most.
        range: of the scores.
    """

    codes: str = "*"
    settings: dict[str, Any] = field(default_factory=dict)
    memory: int | None = None
    apis: tuple[str, ...] = (*APIS, *FURTHER)
    range: tuple[float, float] = (0.0, 1.0)

    def config(self, api: str, base_url: str) -> dict[str, Any]:
        """A reranker that asks this API."""
        method = {"type": "endpoint", "api": api, "model": "m", "base_url": base_url}
        key = {} if api == "bedrock" else {"api_key_env": KEY_VARIABLE}
        return {
            "method": {**method, **key, **self.settings},
            # Without repairs, so that a refused request is not asked again in halves.
            "limits": {"deadline": DEADLINE, "retries": 1, "repair": 0, **self.limits},
        }

    def happened(self, ranking: Any, count: int) -> bool:
        """Whether the machine was fast enough for so many requests before the wait was over."""
        fewest, most = requests_of(self)
        usage = ranking.report.usage
        return (
            fewest <= count <= most
            and (usage.calls, usage.pairs) == (count, len(CANDIDATES))
            and ranking.report.status in self.status.split()
        )


def body(value: bytes, kind: str = "application/json") -> Step:
    return fake.raw(fake.http(200, value, kind=kind))


def derived(cases: Sequence[fault_cases.Case]) -> Iterator[Case]:
    """The cases of language models that hold of any service."""
    for case in cases:
        yield Case(
            case.name,
            case.script,
            case.status,
            case.codes,
            case.requests,
            fresh=case.fresh,
            limits=case.limits,
            settings=dict(case.llm),
            order=BEST_FIRST if case.status == "ok" else None,
        )


def of_type(kind: str) -> Step:
    return fake.good_but(lambda _, one: [fake.http(200, one, kind=kind)])


BROKEN = "connection bad_response response_too_long"
OF_THEIR_OWN = {"gzip bomb", "forty megabytes", "not modified"}

TRANSPORT = [
    *derived(
        [
            case
            for case in fault_cases.TRANSPORT
            if case.status in {"ok", "unchanged"} and case.name not in OF_THEIR_OWN
        ],
    ),
    *[
        Case(name, (of_type(kind),), "ok", "", order=BEST_FIRST)
        for name, kind in {
            "another content type": "text/plain",
            "no content type": "",
            "another character set": "application/json; charset=utf-16",
        }.items()
    ],
    *[
        Case(name, (step,), codes=BROKEN, requests=(1, 2))
        for name, step in {
            "brotli, not asked for": fake.encoded("br"),
            "huge header": fake.many_headers(1, 2**18),
        }.items()
    ],
    Case("gzip bomb", (fake.gzip_bomb(),), codes="response_too_long", memory=120),
    Case(
        "forty megabytes",
        (fake.raw(fake.http(200, b" " * (40 * 2**20))),),
        codes="response_too_long",
        memory=120,
    ),
    Case("not modified", (fake.raw(fake.http(304)),), codes="redirected"),
    Case(
        "redirect with a gzip bomb",
        (fake.raw(fake.http(302, fake.bomb(256), {"Content-Encoding": "gzip", "Location": "/"})),),
        codes="redirected response_too_long",
        memory=120,
        apis=("tei",),
    ),
]

STATUS = [
    *derived(
        [
            case
            for case in fault_cases.STATUS
            if re.match(r"\d{3}(, (always|once|Retry-After.*))?$", case.name)
        ],
    ),
    *[
        Case(name, (fake.status(code, message),), codes=codes)
        for name, code, message, codes in (
            ("400", 400, "it cannot be done", "bad_request"),
            # Passages this short cannot be cut, so it is asked once.
            ("413", 413, "it cannot be done", "too_long"),
            ("422", 422, "it cannot be done", "bad_request"),
            ("424", 424, "it cannot be done", "bad_request"),
            ("no credit", 429, "insufficient_quota: buy more", "quota"),
            ("no balance left", 402, "Insufficient balance", "payment quota"),
            ("content filter", 400, "the request was blocked by our content policy",
             "content_filter"),
        )
    ],
    *[
        Case(f"success {code}", (fake.raw(fake.http(code, b"{}")),), codes="bad_response")
        for code in (201, 202, 206)
    ],
    Case("success without a body", (fake.raw(fake.http(204)),), codes="bad_response"),
    *[
        Case(
            f"400 with {name}", (fake.raw(fake.http(400, message)),), codes="bad_request"
        )
        for name, message in fault_cases.BODIES.items()
    ],
    *[
        Case(
                f"500 with {name}",
            (fake.raw(fake.http(500, message)), fake.good()),
            "ok",
            "server_error",
            2,
            order=BEST_FIRST,
        )
        for name, message in fault_cases.SOME_BODIES.items()
    ],
    Case(
        "error of forty megabytes",
        (fake.raw(fake.http(500, b"x" * (40 * 2**20))),),
        codes="response_too_long server_error",
        requests=(1, 2),
        memory=120,
    ),
]  # fmt: skip

# What is promised for each answer of RERANK_FAULTS: the report's status, codes, and who has no
# score. The best candidate, at position 1, is the first row of a right answer.
FIRST = (1,)
READ = {
    "index out of range": ("partial", "unknown_label not_in_reply", FIRST),
    "index doubled with another score": ("partial", "score_refused", FIRST),
    "index a string": ("unchanged", "reply_refused", ()),
    "score not a number": ("partial", "score_refused", FIRST),
    "score missing": ("partial", "score_refused", FIRST),
    "scores unsorted": ("ok", "", ()),
    "fewer results than asked": ("partial", "not_in_reply", (3,)),
    "more results than asked": ("ok", "unknown_label", ()),
    "no results": ("unchanged", "reply_refused", ()),
    "results a mapping": ("unchanged", "reply_refused", ()),
    "rows are lists": ("unchanged", "reply_refused", ()),
}

ODD_BODIES = {
    "nothing": (b"", "bad_response"),
    "prose": (b"the best is 5, then 3", "bad_response"),
    "half of it": (b'{"results": [{"index": 0, "relevance_score": 0.', "bad_response"),
    "null": (b"null", "reply_refused"),
    "an error": (b'{"error": {"code": 503, "message": "5 of 9"}}', "reply_refused"),
    "deep nesting": (b"[" * 100_000, "bad_response"),
    "invalid UTF-8": (b"\xff\xfe\xfa" * 9, "bad_response"),
    "a number of five thousand digits": (b'{"results": ' + b"9" * 5000 + b"}", "bad_response"),
    "megabytes of brackets": (b"{[" * 10**6, "response_too_long"),
}


def rescaled(rows: list[dict[str, Any]], factor: float, shift: float) -> list[dict[str, Any]]:
    return [{**row, "score": row["score"] * factor + shift} for row in rows]


def scaled(factor: float, shift: float) -> Step:
    """A good answer whose scores are on another scale."""
    return rerank_answers(lambda rows: rescaled(rows, factor, shift))


def scored(value: str, factor: float = 1, shift: float = 0) -> Step:
    """A good answer in which the best has this for a score, as it stands."""

    def step(request: fake.Request) -> Any:
        rows = rescaled(fake.rerank_rows(request), factor, shift)
        rows[0]["score"] = "@@"
        text = json.dumps(fake.rerank_envelope(request, rows)).replace('"@@"', value)
        yield fake.http(200, text.encode())

    return step


WITH_ROWS = tuple(api for api in (*APIS, *FURTHER) if api not in BY_PLACE)
WITH_NUMBERS = tuple(api for api in WITH_ROWS if api != "vertex")
"""Those whose indices are numbers."""


def by_place(change: Callable[[list[Any]], Any]) -> Step:
    """A good answer of an API without indices, whose list of scores a function has changed."""

    def step(request: fake.Request) -> Any:
        rows = sorted(fake.rerank_rows(request), key=lambda row: row["index"])
        yield fake.http(200, {"scores": change([row["score"] for row in rows])})

    return step


PLACED = {
    # the status, codes, and who has no score
    "one too few": (lambda scores: scores[:-1], "unchanged", "reply_refused", ()),
    "nested": (lambda scores: [scores], "unchanged", "reply_refused", ()),
    "a string": (lambda scores: ["0.9", *scores[1:]], "partial", "score_refused", (0,)),
    "rows": (lambda scores: [{"index": 0, "score": one} for one in scores], "unchanged",
             "reply_refused", ()),
    "logits": (lambda scores: [one * 14 - 7 for one in scores], "unchanged",
               "score_out_of_range", ()),
}  # fmt: skip

PAYLOAD = [
    *[
        Case(f"scores by place: {name}", (by_place(change),), status, code,
             unscored=unscored, apis=BY_PLACE)
        for name, (change, status, code, unscored) in PLACED.items()
    ],
    *[
        Case(
                name,
            (rerank_answers(change),),
            *READ.get(name, ("ok partial unchanged", "*"))[:2],
            unscored=READ[name][2] if name in READ else (),
            apis=WITH_NUMBERS if name == "index a string" else WITH_ROWS,
        )
        for name, change in RERANK_FAULTS.items()
    ],
    *[
        Case(f"score {value[:9]}", (scored(value),), "partial", "score_refused",
             unscored=FIRST)
        for value in ("1e400", "9" * 400, '"high"')
    ],
    # A whole number of so many digits is none that Python's parser reads.
    Case("score of five thousand digits", (scored("9" * 5000),),
         codes="bad_response"),
    Case("all scores NaN",
         (rerank_answers(lambda rows: [{**row, "score": float("nan")} for row in rows]),),
         codes="reply_refused"),
    Case("all scores strings",
         (rerank_answers(lambda rows: [{**row, "score": str(row["score"])} for row in rows]),),
         codes="reply_refused"),
    Case("all indices from one",
         (rerank_answers(lambda rows: [{**row, "index": row["index"] + 1} for row in rows]),),
         codes="reply_refused"),
    *[
        case
        for name, factor, shift in (("scores of logits", 14, -7), ("one score too high", 1.5, 0))
        for case in (
            Case(name, (scaled(factor, shift),), codes="score_out_of_range",
                 apis=BOUNDED),
            Case(name, (scaled(factor, shift),), "ok", "scores_read_as_logits",
                 order=BEST_FIRST, apis=("tei", "infinity"), range=(-20, 20)),
            Case(name, (scaled(factor, shift),), "ok", "", order=BEST_FIRST,
                 apis=UNBOUNDED, range=(-20, 20)),
        )
    ],
    Case("scores of percentages", (scaled(100, 0),), codes="score_out_of_range",
         apis=(*BOUNDED, "tei", "infinity")),
    *[
        Case(f"scores of logits, and one {name}", (scored(value, 14, -7),),
             codes="score_out_of_range", apis=(*BOUNDED, "tei", "infinity"))
        for name, value in {"none": "null", "a string": '"0.9"'}.items()
    ],
    Case("thousands of rows about nothing",
         (rerank_answers(lambda rows: [*rows, *({"index": 99 + n, "score": 1} for n in range(5000))]
                         ),), "ok", "unknown_label", order=BEST_FIRST),
    Case("rows with members of all kinds",
         (rerank_answers(lambda rows: [
             {**row, "document": {"text": MARKER}, "x": [None] * 5} for row in rows]),),
         "ok", "", order=BEST_FIRST),
    *[
        Case(f"body: {name}", (body(value),), codes=f"{code} bad_response")
        for name, (value, code) in ODD_BODIES.items()
    ],
]  # fmt: skip

PAYLOAD = [
    replace(case, apis=tuple(api for api in case.apis if api not in BY_PLACE))
    if case.apis == (*APIS, *FURTHER) and not case.name.startswith("body")
    else case
    for case in PAYLOAD
]
WITH_SPANS = [
    replace(case, name=f"{case.name}, with spans", settings={"spans": True}, apis=("cohere",))
    for case in PAYLOAD
    if "cohere" in case.apis
]
GROUPS = {
    "transport": TRANSPORT,
    "status": STATUS,
    "payload": [*PAYLOAD, *WITH_SPANS],
}


def check(ranking: Ranking, case: Case, count: int) -> None:
    """What holds of every ranking, whatever the server did, and what is promised for this case."""
    promises(ranking, case, count)
    report = ranking.report
    low, high = case.range
    assert all(low <= item.rerank_score <= high for item in ranking if item.status == "scored")
    for item in ranking:
        assert item.span is None or (case.settings.get("spans") and item.status == "scored")
        start, stop = item.span or (0, len(item.text))
        assert 0 <= start < stop <= len(item.text)
        unscored = report.status == "unchanged" or item.position in case.unscored
        assert (item.rerank_score is None) == unscored
    assert report.usage.pairs == len(CANDIDATES)
    assert report.usage.input_tokens in {None, 77}
    assert report.status in case.status.split()
    codes = codes_of(report)
    if case.codes != "*":
        assert codes & set(case.codes.split()) or not (case.codes or codes)
    fewest, most = requests_of(case)
    assert fewest <= count <= most
    if case.order is not None:
        assert ranking.order == case.order


AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": KEY,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture(scope="module")
def scorers(provider, closing):
    """Rerankers by their settings; fresh ones for cases that change them."""
    rerankers: dict[str, Reranker] = {}

    def scorer(api: str, case: Case) -> Reranker:
        config = case.config(api, f"http://127.0.0.1:{provider.port}/{api}")
        known = json.dumps(config)
        if known not in rerankers or case.fresh:
            reranker = closing(Reranker.from_config(config))
            provider.play()
            first = reranker.rerank("query", ["1", "2"], deadline=DEADLINE)  # opens the client
            assert first.report.status == "ok" or is_timed(case)
            if case.fresh:
                return reranker
            rerankers[known] = reranker
        return rerankers[known]

    return scorer


def ranked(reranker: Reranker, mode: str, *, measured: bool) -> tuple[Ranking, float, int]:
    """A ranking, its seconds, and the most memory that it took, in bytes."""
    if measured:
        tracemalloc.start()
    began = time.perf_counter()
    try:
        if mode == "sync":
            ranking = reranker.rerank("query", CANDIDATES)
        else:
            ranking = asyncio.run(reranker.arerank("query", CANDIDATES))
        return ranking, time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


RUNS = in_turns(
    [(group, case) for group, cases in GROUPS.items() for case in cases],
    lambda case: [(api, mode) for api in case.apis for mode in ("sync", "async")],
)


@pytest.mark.parametrize(("case", "api", "mode"), RUNS)
def test_fault(case, api, mode, provider, scorers, caplog, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "secondpass")
    for attempt in patiently(case):
        reranker = scorers(api, attempt)
        provider.play(*case.script)
        ranking, took, peak = ranked(reranker, mode, measured=case.memory is not None)
        if case.happened(ranking, len(provider.requests)):
            break
    assert took <= reranker.limits.deadline + SLACK
    assert case.memory is None or peak < case.memory * 2**20
    check(ranking, case, len(provider.requests))
    hygiene(ranking, caplog, repr(reranker), repr(reranker.method))
    # Every request shows the key to the server that was meant, and to no other.
    assert {request.flavour for request in provider.requests} == {api}
    if api == "bedrock":
        signed = {request.key.partition("/")[0] for request in provider.requests}
        assert signed == {f"AWS4-HMAC-SHA256 Credential={AWS['AWS_ACCESS_KEY_ID']}"}
    else:
        assert {request.key for request in provider.requests} == {KEY}


def test_every_case_has_a_promise():
    assert set(READ) == set(RERANK_FAULTS)
