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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import fake_provider as fake
import fault_cases
from fake_provider import Step, rerank_answers
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

SCALED = ("tei", "infinity")
"""APIs that send probabilities or logits, by a setting."""
BY_PLACE = tuple(api for api, dialect in DIALECTS.items() if not dialect.index)
"""Those that send a score for each document, in their order."""
WITH_ROWS = tuple(api for api in DIALECTS if api not in BY_PLACE)
WITH_NUMBERS = tuple(api for api in WITH_ROWS if api != "vertex")
"""Those whose indices are numbers."""
UNBOUNDED = tuple(api for api in WITH_ROWS if DIALECTS[api].kind != "probability")
BOUNDED = tuple(api for api in WITH_ROWS if api not in (*UNBOUNDED, *SCALED))
"""Those whose scores are probabilities, and nothing else."""


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
    apis: tuple[str, ...] = tuple(DIALECTS)
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


def right(name: str, step: Step, codes: str = "", requests: int = 1, **more: Any) -> Case:
    """An answer that is used as it should be, perhaps after a retry."""
    script = (step,) if requests == 1 else (step, fake.good())
    return Case(name, script, "ok", codes, requests, order=BEST_FIRST, **more)


def derived(cases: Iterable[fault_cases.Case]) -> Iterator[Case]:
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


BROKEN = "connection bad_response response_too_long"
OF_THEIR_OWN = {"gzip bomb", "forty megabytes", "not modified"}
FORTY_MEGABYTES = b" " * (40 * 2**20)
REDIRECTED_BOMB = fake.raw(
    fake.http(302, fake.bomb(256), {"Content-Encoding": "gzip", "Location": "/"})
)

TRANSPORT = [
    *derived(
        case
        for case in fault_cases.TRANSPORT
        if case.status in {"ok", "unchanged"} and case.name not in OF_THEIR_OWN
    ),
    right("another content type", fake.typed("text/plain")),
    right("no content type", fake.typed("")),
    right("another character set", fake.typed("application/json; charset=utf-16")),
    Case("brotli, not asked for", (fake.encoded("br"),), codes=BROKEN, requests=(1, 2)),
    Case("huge header", (fake.many_headers(1, 2**18),), codes=BROKEN, requests=(1, 2)),
    Case("gzip bomb", (fake.gzip_bomb(),), codes="response_too_long", memory=120),
    Case("forty megabytes", (fake.body(FORTY_MEGABYTES),), codes="response_too_long", memory=120),
    Case("not modified", (fake.raw(fake.http(304)),), codes="redirected"),
    Case(
        "redirect with a gzip bomb",
        (REDIRECTED_BOMB,),
        codes="redirected response_too_long",
        memory=120,
        apis=("tei",),
    ),
]

REFUSED = {
    "400": (400, "it cannot be done", "bad_request"),
    # Passages this short cannot be cut, so it is asked once.
    "413": (413, "it cannot be done", "too_long"),
    "422": (422, "it cannot be done", "bad_request"),
    "424": (424, "it cannot be done", "bad_request"),
    "no credit": (429, "insufficient_quota: buy more", "quota"),
    "no balance left": (402, "Insufficient balance", "payment quota"),
    "content filter": (400, "the request was blocked by our content policy", "content_filter"),
}

STATUS = [
    *derived(
        case
        for case in fault_cases.STATUS
        if re.match(r"\d{3}(, (always|once|Retry-After.*))?$", case.name)
    ),
    *[
        Case(name, (fake.status(code, message),), codes=codes)
        for name, (code, message, codes) in REFUSED.items()
    ],
    *[
        Case(f"success {code}", (fake.raw(fake.http(code, b"{}")),), codes="bad_response")
        for code in (201, 202, 206)
    ],
    Case("success without a body", (fake.raw(fake.http(204)),), codes="bad_response"),
    *[
        Case(f"400 with {name}", (fake.raw(fake.http(400, message)),), codes="bad_request")
        for name, message in fault_cases.BODIES.items()
    ],
    *[
        right(f"500 with {name}", fake.raw(fake.http(500, message)), "server_error", 2)
        for name, message in fault_cases.SOME_BODIES.items()
    ],
    Case(
        "error of forty megabytes",
        (fake.raw(fake.http(500, FORTY_MEGABYTES)),),
        codes="response_too_long server_error",
        requests=(1, 2),
        memory=120,
    ),
]

# What a rerank API may answer, by the report's status, its codes, and who has no score: functions
# of the right rows of `index` and `score`; the first is the best candidate's, at position 1.
FIRST = (1,)
Answers = dict[str, Callable[[list[Any]], Any]]
ROWS: dict[tuple[str, str, tuple[int, ...]], Answers] = {
    ("ok", "", ()): {
        "scores unsorted": lambda rows: sorted(rows, key=lambda row: row["index"]),
        "members of all kinds": lambda rows: [
            {**row, "document": {"text": MARKER}, "x": [None] * 5} for row in rows
        ],
    },
    ("ok", "unknown_label", ()): {
        "more results than asked": lambda rows: [*rows, *({**row, "index": 99} for row in rows)],
        "thousands of rows about nothing": lambda rows: [
            *rows,
            *({"index": 99 + number, "score": 1} for number in range(5000)),
        ],
    },
    ("partial", "score_refused", FIRST): {
        "index doubled with another score": lambda rows: [*rows, {**rows[0], "score": 0.001}],
        "score not a number": lambda rows: [{**rows[0], "score": float("nan")}, *rows[1:]],
        "score missing": lambda rows: [{"index": rows[0]["index"]}, *rows[1:]],
    },
    ("partial", "unknown_label not_in_reply", FIRST): {
        "index out of range": lambda rows: [{**rows[0], "index": len(rows)}, *rows[1:]],
    },
    ("partial", "not_in_reply", (3,)): {"fewer results than asked": lambda rows: rows[:-1]},
    ("unchanged", "reply_refused", ()): {
        "all indices from one": lambda rows: [{**row, "index": row["index"] + 1} for row in rows],
        "all scores NaN": lambda rows: [{**row, "score": float("nan")} for row in rows],
        "all scores strings": lambda rows: [{**row, "score": str(row["score"])} for row in rows],
        "no results": lambda rows: [],
        "results a mapping": lambda rows: {str(row["index"]): row["score"] for row in rows},
        "rows are lists": lambda rows: [[row["index"], row["score"]] for row in rows],
    },
}
PLACED: dict[tuple[str, str, tuple[int, ...]], Answers] = {
    ("partial", "score_refused", (0,)): {"a string": lambda scores: ["0.9", *scores[1:]]},
    ("unchanged", "score_out_of_range", ()): {
        "logits": lambda scores: [score * 14 - 7 for score in scores]
    },
    ("unchanged", "reply_refused", ()): {
        "one too few": lambda scores: scores[:-1],
        "nested": lambda scores: [scores],
        "rows": lambda scores: [{"index": 0, "score": score} for score in scores],
    },
}
"""The same for APIs without indices, by functions of the list of scores."""

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


def by_place(change: Callable[[list[Any]], Any]) -> Step:
    """A good answer of an API without indices, whose list of scores a function has changed."""

    def make(request: fake.Request) -> Any:
        rows = sorted(fake.rerank_rows(request), key=lambda row: row["index"])
        return {"scores": change([row["score"] for row in rows])}

    return fake.answered(make)


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


def answers(
    table: dict[tuple[str, str, tuple[int, ...]], Answers],
    step: Callable[[Any], Step],
    apis: tuple[str, ...],
) -> Iterator[Case]:
    """The cases of a table, by a step of what its functions make."""
    for (status, codes, unscored), changes in table.items():
        for name, change in changes.items():
            yield Case(name, (step(change),), status, codes, unscored=unscored, apis=apis)


SCORES = {
    ("partial", "score_refused", FIRST): {
        f"score {value[:9]}": value for value in ("1e400", "9" * 400, '"high"')
    },
    # A whole number of so many digits is none that Python's parser reads.
    ("unchanged", "bad_response", ()): {"score of five thousand digits": "9" * 5000},
}
OUT_OF_RANGE = {"codes": "score_out_of_range", "apis": (*BOUNDED, *SCALED)}

PAYLOAD = [
    *answers(PLACED, by_place, BY_PLACE),
    *answers(ROWS, rerank_answers, WITH_ROWS),
    Case(
        "index a string",
        (rerank_answers(lambda rows: [{**row, "index": str(row["index"])} for row in rows]),),
        codes="reply_refused",
        apis=WITH_NUMBERS,
    ),
    *answers(SCORES, scored, WITH_ROWS),
    *[
        case
        for name, step in {
            "scores of logits": scaled(14, -7),
            "one score too high": scaled(1.5, 0),
        }.items()
        for case in (
            Case(name, (step,), codes="score_out_of_range", apis=BOUNDED),
            right(name, step, "scores_read_as_logits", apis=SCALED, range=(-20, 20)),
            right(name, step, apis=UNBOUNDED, range=(-20, 20)),
        )
    ],
    Case("scores of percentages", (scaled(100, 0),), **OUT_OF_RANGE),
    Case("scores of logits, and one none", (scored("null", 14, -7),), **OUT_OF_RANGE),
    Case("scores of logits, and one a string", (scored('"0.9"', 14, -7),), **OUT_OF_RANGE),
    *[
        Case(f"body: {name}", (fake.body(value),), codes=f"{code} bad_response")
        for name, (value, code) in ODD_BODIES.items()
    ],
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
