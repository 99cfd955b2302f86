"""Rerank APIs: what each is sent, how its answers are read, batches, limits, and configuration.

The servers are real ones on the loopback interface. Their faults are in
``tests/faults/test_rerank_apis.py``.
"""

from __future__ import annotations

import asyncio
import html
import importlib
import json
import logging
import pickle
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import fake_provider as fake
import llama_server
from fake_provider import FakeProvider, Step, http, status
from rankings import codes, scores
from rerank_dialects import DIALECTS, HOSTED, NUMBERS, OWN
from rotation import rotated
from secondpass import (
    Candidate,
    ConfigurationError,
    MissingExtraError,
    NotSerializableError,
    Reranker,
    RerankError,
)
from secondpass.strategies.endpoint import Endpoint

asking = importlib.import_module("secondpass.runtime.dispatch")
client = importlib.import_module("secondpass.services.client")
endpoint = importlib.import_module("secondpass.strategies.endpoint")
json_http = importlib.import_module("secondpass.services.json_http")

KEY = "sk-test-SECRET-123"
SLACK = 0.25
"""Seconds by which a ranking may pass its deadline."""
KEY_VARIABLES = (
    "CO_API_KEY",
    "COHERE_API_KEY",
    "JINA_API_KEY",
    "VOYAGE_API_KEY",
    "MXBAI_API_KEY",
    "RERANK_API_KEY",
)


# ---------------------------------------------------------------------- servers


def documents(request: fake.Request) -> list[str]:
    """The documents of a request; the first part of the path names its API."""
    found: list[str] = request.body[DIALECTS[request.flavour].documents]
    return found


def tenth(text: str) -> float:
    """A score from 0 to 1 of a text that begins with a number."""
    return fake.by_number(text) / 10


def rows_of(
    request: fake.Request, score: Callable[[str], Any] = tenth, shuffled: bool = False
) -> list[dict[str, Any]]:
    """The rows of a right answer: best first, as APIs send them, or in any order."""
    name = DIALECTS[request.flavour].score
    rows = [{"index": at, name: score(text)} for at, text in enumerate(documents(request))]
    if shuffled:
        random.Random(len(rows)).shuffle(rows)
        return rows
    return sorted(rows, key=lambda row: -row[name])


def envelope(request: fake.Request, rows: Any) -> Any:
    dialect = DIALECTS[request.flavour]
    return {dialect.rows: rows, **dialect.usage} if dialect.rows else rows


def answer(score: Callable[[str], Any] = tenth, shuffled: bool = False, after: float = 0.0) -> Step:
    """A right answer of whichever API was asked."""

    def step(request: fake.Request) -> Iterator[fake.Wire]:
        if after:
            yield fake.Pause(after)
        yield http(200, envelope(request, rows_of(request, score, shuffled)))

    return step


def rows(change: Callable[[list[dict[str, Any]]], Any], score: Callable[..., Any] = tenth) -> Step:
    """An answer whose rows a function has changed."""
    return lambda request: [http(200, envelope(request, change(rows_of(request, score))))]


def where(applies: Callable[[fake.Request], bool], step: Step, otherwise: Step | None = None):
    """One step for the requests that a function says yes to, another for the rest."""
    return lambda request: (step if applies(request) else otherwise or answer())(request)


@pytest.fixture(scope="module")
def provider():
    with FakeProvider() as one:
        yield one


@pytest.fixture(autouse=True)
def _answering(provider):
    provider.play(answer())


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """No proxy, no key by chance, and pauses that need not be waited for."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(asking, "_FIRST_PAUSE", 0.01)


@pytest.fixture
def make(provider):
    """Makes rerankers that ask the server, and closes them in the end."""
    made: list[Reranker] = []

    def reranker(api: str = "tei", *, limits: Any = None, whole: Any = None, **settings: Any):
        method = {"type": "endpoint", "api": api, **settings}
        method.setdefault("base_url", f"http://127.0.0.1:{provider.port}/{api}")
        if "model" not in method and api != "tei":
            method["model"] = "m"
        made.append(
            Reranker.from_config({"method": method, "limits": limits or {}, **(whole or {})})
        )
        return made[-1]

    yield reranker
    for one in made:
        one.close()


# ---------------------------------------------------------------------- each API


@pytest.mark.parametrize("api", DIALECTS)
def test_what_is_sent_and_read(api, make, rank, provider):
    dialect = DIALECTS[api]
    ranking = rank(make(api, api_key=KEY), "q", NUMBERS)
    assert ranking.order == (1, 2, 0)
    assert scores(ranking) == {0: 0.3, 1: 0.9, 2: 0.5}
    assert ranking.report.status == "ok"
    assert ranking.report.score_kind == dialect.kind
    assert ranking.report.method == ("tei" if api == "tei" else "m")
    (request,) = provider.requests
    assert request.path == f"/{api}{dialect.path}"
    assert request.body == dialect.sends
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    usage = ranking.report.usage
    assert (usage.calls, usage.rounds, usage.pairs) == (1, 1, 3)
    assert usage.input_tokens == dialect.tokens  # not told is None, never 0
    assert usage.output_tokens == (None if dialect.tokens is None else 0)


@pytest.mark.parametrize("api", HOSTED)
def test_the_address_of_a_provider(api, make, monkeypatch):
    seen = mocked(monkeypatch, {"results": [], "data": []})
    make(api, base_url=None, api_key=KEY).rerank("q", NUMBERS)
    (request,) = seen
    assert str(request.url) == DIALECTS[api].hosted
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("api", OWN)
def test_self_hosted_without_key_and_model(api, make, provider):
    assert make(api, model=None).rerank("q", NUMBERS).order == (1, 2, 0)
    (request,) = provider.requests
    assert "authorization" not in request.headers
    assert "model" not in request.body


def test_tei_is_not_told_of_a_model(make, provider):
    ranking = make("tei", model="BAAI/bge-reranker-base").rerank("q", NUMBERS)
    assert "model" not in provider.requests[0].body
    assert ranking.report.method == "BAAI/bge-reranker-base"


def mocked(monkeypatch, body):
    """The addresses that are asked, the network being a function."""
    seen = []

    def serve(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=body)

    transport = httpx.MockTransport(serve)
    monkeypatch.setattr(json_http, "bounded", lambda kind, *_, **__: kind(transport=transport))
    return seen


def test_options_go_along(make, provider):
    one = make("cohere", options={"max_tokens_per_doc": 512, "priority": 1})
    assert one.rerank("q", NUMBERS).order == (1, 2, 0)
    assert provider.requests[0].body == {
        **DIALECTS["cohere"].sends,
        "max_tokens_per_doc": 512,
        "priority": 1,
    }


@pytest.mark.parametrize("api", ["tei", "infinity"])
def test_raw_scores(api, make, provider):
    provider.play(answer(lambda text: fake.by_number(text) - 5))
    ranking = make(api, raw_scores=True).rerank("q", NUMBERS)
    assert provider.requests[0].body["raw_scores"] is True
    assert scores(ranking) == {0: -2.0, 1: 4.0, 2: 0.0}
    assert ranking.report.score_kind == "logit"


# ---------------------------------------------------------------------- keys

KEYS = [
    # the API; what the environment holds; settings; the key that is sent
    ("cohere", {"CO_API_KEY": "a"}, {}, "a"),
    ("cohere", {"COHERE_API_KEY": "b"}, {}, "b"),
    ("cohere", {"CO_API_KEY": "a", "COHERE_API_KEY": "b"}, {}, "a"),
    ("cohere", {"CO_API_KEY": " \n", "COHERE_API_KEY": "b"}, {}, "b"),
    ("jina", {"JINA_API_KEY": " a\n"}, {}, "a"),
    ("voyage", {"VOYAGE_API_KEY": "a"}, {}, "a"),
    ("mixedbread", {"MXBAI_API_KEY": "a"}, {}, "a"),
    *[(api, {"RERANK_API_KEY": "a"}, {}, "a") for api in OWN],
    ("jina", {"JINA_API_KEY": "a", "MINE": "c"}, {"api_key_env": "MINE"}, "c"),
    ("jina", {"JINA_API_KEY": "a"}, {"api_key": "d"}, "d"),
    ("jina", {"CO_API_KEY": "a", "OPENAI_API_KEY": "b"}, {}, None),
    ("tei", {"CO_API_KEY": "a", "TEI_API_KEY": "b"}, {}, None),
]


@pytest.mark.parametrize(("api", "environment", "settings", "sent"), KEYS)
def test_whose_key_is_sent(api, environment, settings, sent, make, provider, monkeypatch):
    one = make(api, **settings)
    for name, value in environment.items():  # read when asked, not when made
        monkeypatch.setenv(name, value)
    assert one.rerank("q", NUMBERS).report.status == "ok"
    headers = provider.requests[0].headers
    assert headers.get("authorization") == (None if sent is None else f"Bearer {sent}")


@pytest.mark.parametrize(
    ("api", "variables"),
    [
        ("cohere", "CO_API_KEY or COHERE_API_KEY"),
        ("jina", "JINA_API_KEY"),
        ("voyage", "VOYAGE_API_KEY"),
        ("mixedbread", "MXBAI_API_KEY"),
    ],
)
def test_a_provider_is_not_asked_without_a_key(api, variables, rank):
    one = Reranker.from_config({"method": {"type": "endpoint", "api": api, "model": "m"}})
    ranking = rank(one, "q", NUMBERS)
    assert ranking.order == (0, 1, 2)
    (issue,) = ranking.report.issues
    assert issue.code == "no_key"
    assert issue.message.endswith(variables)
    # What was not sent does not count.
    assert (ranking.report.usage.calls, ranking.report.usage.pairs) == (0, 0)


def test_a_named_variable_that_is_empty_is_told(make, provider):
    ranking = make("tei", api_key_env="NO_SUCH_VARIABLE").rerank("q", NUMBERS)
    assert codes(ranking) == {"no_key"}
    assert "NO_SUCH_VARIABLE" in ranking.report.issues[0].message
    assert not provider.requests


def test_a_new_key_is_taken_up(make, provider, monkeypatch):
    one = make("jina")
    for key in ("first", "second"):
        monkeypatch.setenv("JINA_API_KEY", key)
        one.rerank("q", NUMBERS)
    assert [request.key for request in provider.requests] == ["first", "second"]


def test_after_a_refused_key_nothing_is_sent(make, provider, monkeypatch):
    monkeypatch.setenv("JINA_API_KEY", "old")
    provider.play(status(401), answer())
    one = make("jina", limits={"retries": 2})
    assert codes(one.rerank("q", NUMBERS)) == {"authentication"}
    ranking = one.rerank("q", NUMBERS)
    assert codes(ranking) == {"circuit_open"}
    assert ranking.order == (0, 1, 2)
    assert ranking.report.usage.calls == 0
    assert len(provider.requests) == 1
    monkeypatch.setenv("JINA_API_KEY", "new")
    assert one.rerank("q", NUMBERS).report.status == "ok"
    monkeypatch.setenv("JINA_API_KEY", "old")
    provider.play(answer())
    monkeypatch.setattr(client, "_CIRCUIT_SECONDS", 0.0)
    assert one.rerank("q", NUMBERS).report.status == "ok"


ECHOES = [
    "9 how to rotate an api key",
    "9 unauthorized",
    "9 first\n\tan authentication_error\nlast",
    "9 " + "x" * 300 + " insufficient_quota api key",
    '9 "quoted" \\ api-key',
    "9 schlüssel: api key",
]


@pytest.mark.parametrize(("form", "text"), rotated(["text", "fastapi", "cut"], ECHOES))
def test_passages_open_no_circuit(form, text, make, provider):
    """Servers repeat the request in their errors, and a passage may speak of keys."""
    refused = {
        "text": status(400),
        "fastapi": lambda request: [
            http(400, {"detail": [{"msg": "no", "loc": ["body"], "input": request.body}]})
        ],
        "cut": lambda request: [
            http(400, {"message": f"cannot read {json.dumps(request.body)[:250]}..."})
        ],
    }[form]
    provider.play(refused, answer())
    one = make("vllm")
    ranking = one.rerank("q", ["3 a", text, "5 c"])
    assert codes(ranking) == {"bad_request"}
    assert one.rerank("q", NUMBERS).report.status == "ok"


@pytest.mark.parametrize("short", ["}", "5", "e", "context"])
def test_passages_hide_no_error(short, make, provider):
    """What an error says in its own words counts, though a word of it is a passage's too."""
    told = {"message": "This model's maximum context length is 512 tokens."}
    too_long = fake.raw(http(400, told))
    provider.play(where(lambda r: any(len(text) > 2500 for text in documents(r)), too_long))
    ranking = make("vllm").rerank("query", [short, "7 " + "word " * 6000, "5 c"])
    assert ranking.report.status == "ok"
    assert codes(ranking) == {"asked_again"}


# ---------------------------------------------------------------------- batches

WHOLE = {"depth": None}
"""All candidates are judged, however many there are."""

BATCHES = [
    # the API; batch_size; candidates; documents a request
    ("tei", None, 33, [16, 17]),
    ("jina", None, 1001, [500, 501]),
    ("mixedbread", 1, 3, [1, 1, 1]),
    ("vllm_score", 64, 100, [50, 50]),
]


@pytest.mark.parametrize(("api", "batch_size", "count", "sizes"), BATCHES)
def test_batches(api, batch_size, count, sizes, make, provider):
    numbers = random.Random(count).sample(range(count), count)
    provider.play(answer(lambda text: int(text) / count))
    ranking = make(api, batch_size=batch_size, whole=WHOLE).rerank(
        "q", [str(number) for number in numbers]
    )
    assert [numbers[at] for at in ranking.order] == sorted(numbers, reverse=True)
    assert sorted(len(documents(request)) for request in provider.requests) == sizes
    assert {request.path for request in provider.requests} == {f"/{api}{DIALECTS[api].path}"}
    usage = ranking.report.usage
    assert (usage.calls, usage.rounds, usage.pairs) == (len(sizes), 1, count)
    tokens = DIALECTS[api].tokens
    assert usage.input_tokens == (None if tokens is None else tokens * len(sizes))


@pytest.mark.parametrize(
    ("api", "count", "calls"),
    [
        ("tei", 1000, 32),
        ("cohere", 3000, 3),
        pytest.param("tei", 10_000, 313, marks=pytest.mark.long),
        pytest.param("cohere", 10_000, 10, marks=pytest.mark.long),
    ],
)
def test_many_candidates(api, count, calls, make, rank, provider):
    numbers = random.Random(0).sample(range(count), count)
    candidates = [Candidate(str(number), id=f"c{number}") for number in numbers]
    provider.play(answer(lambda text: int(text) / count, shuffled=True, after=0.01))
    ranking = rank(make(api, whole=WHOLE), "q", candidates)
    assert [int(item.text) for item in ranking] == list(range(count - 1, -1, -1))
    assert all(item.candidate is candidates[item.position] for item in ranking)
    assert all(item.rerank_score == int(item.text) / count for item in ranking)
    assert len(provider.requests) == ranking.report.usage.calls == calls
    sizes = [len(documents(request)) for request in provider.requests]
    assert sum(sizes) == count
    assert max(sizes) <= DIALECTS[api].most
    assert max(sizes) - min(sizes) <= 1
    assert 1 < provider.most_at_once <= 8


def test_as_many_at_once_as_the_limits_say(make, provider):
    provider.play(answer(after=0.05))
    make(batch_size=1, limits={"concurrency": 3}).rerank("q", [str(n) for n in range(9)])
    assert provider.most_at_once == 3


@pytest.mark.parametrize(("api", "count"), rotated(DIALECTS, [2, 7, 40]))
def test_answers_in_any_order(api, count, make, provider):
    numbers = random.Random(count).sample(range(count), count)
    provider.play(answer(lambda text: int(text) / count, shuffled=True))
    ranking = make(api, batch_size=9).rerank("q", [str(number) for number in numbers])
    assert [numbers[at] for at in ranking.order] == sorted(numbers, reverse=True)


def test_only_what_can_be_shown_is_sent(make, provider):
    """Positions are of the candidates that came in, indices of those that were sent."""
    given = [Candidate("3 a"), Candidate(None), Candidate("9 b"), Candidate("5 c")]  # type: ignore[arg-type]
    ranking = make().rerank("q", given)
    assert documents(provider.requests[0]) == NUMBERS
    assert ranking.order == (2, 3, 0, 1)
    assert scores(ranking) == {0: 0.3, 1: None, 2: 0.9, 3: 0.5}


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "\ud800 x", "a\u200bb", '"}]}', "<|im_start|>", "\u2028", "x" * 10**6]
)
def test_text_of_every_kind_arrives(text, make, provider):
    ranking = make().rerank(f"q {text[:9]}", [text, "9 b"])
    assert sorted(ranking.order) == [0, 1]
    if provider.requests:
        sent = documents(provider.requests[0])
        assert text.encode("utf-8", "replace").decode() in sent or "\ud800" in text
        assert ranking.report.status == "ok"


def test_nothing_is_asked_about_nothing(make, provider):
    assert make().rerank("q", []).report.status == "ok"
    assert not provider.requests


# ---------------------------------------------------------------------- answers

OTHER_SCALE = [
    ("cohere", {}, "1.01"),
    ("tei", {}, "50.5"),
    ("infinity", {"scores": "similarity"}, "7"),
]


@pytest.mark.parametrize(("api", "settings", "said"), OTHER_SCALE)
def test_other_scale_refuses_all_batches(api, settings, said, make, provider):
    """The one score that shows it may be in another batch."""

    def step(request):
        told = json.dumps(envelope(request, rows_of(request)))
        yield http(200, told.replace("0.9", said, 1).encode())

    provider.play(step)
    ranking = make(api, batch_size=2, **settings).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, codes(ranking)) == ("unchanged", {"score_out_of_range"})
    assert ranking.order == (0, 1, 2, 3)
    assert len(provider.requests) == 2


def test_other_scale_goes_to_the_fallback(make, provider):
    provider.play(answer(lambda text: fake.by_number(text) * 3))
    ranking = make("vllm", whole={"fallback": ["lexical"]}).rerank("a", NUMBERS)
    assert ranking.report.status == "degraded"
    assert "score_out_of_range" in codes(ranking)


def logit(text: str) -> float:
    return fake.by_number(text) * 2 - 11


@pytest.mark.parametrize("api", ["tei", "infinity"])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_unasked_logits_are_read_and_reported(api, batch_size, make, provider):
    provider.play(answer(logit))
    ranking = make(api, batch_size=batch_size).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, codes(ranking)) == ("ok", {"scores_read_as_logits"})
    assert ranking.report.score_kind == "logit"
    assert scores(ranking) == {0: -5, 1: 7, 2: -1, 3: 3}
    provider.play(answer())
    ranking = make(api).rerank("q", NUMBERS)
    assert (ranking.report.score_kind, codes(ranking)) == ("probability", set())


def test_batches_on_two_scales_are_refused(make, provider):
    """As of two servers behind one address, one of which gives logits."""
    provider.play(where(lambda r: "9 b" in documents(r), answer(logit)))
    ranking = make("tei", batch_size=2).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, codes(ranking)) == ("unchanged", {"score_out_of_range"})


@pytest.mark.parametrize("whole", [{"floor": 0.3}, {"blend": {"original": 0.4}}])
def test_logits_are_refused_where_the_kind_matters(whole, make, provider):
    provider.play(answer(logit))
    given = [{"text": text, "score": 0.5} for text in NUMBERS]
    ranking = make("tei", whole=whole).rerank("q", given)
    assert ranking.report.status == "unchanged"
    assert ranking.order == (0, 1, 2)


def test_an_answer_is_parsed_once(make, provider, monkeypatch):
    parsed = []
    loads = json.loads

    def counted(text, **options):
        parsed.append(len(text))
        return loads(text, **options)

    monkeypatch.setattr(json_http.json, "loads", counted)
    provider.play(rows(lambda found: found * 1000))
    assert make("jina").rerank("q", NUMBERS).report.status == "ok"
    assert len([size for size in parsed if size > 50_000]) == 1


# ---------------------------------------------------------------------- passages too long

LONG = "7 " + "word " * 6000
WORDINGS = {
    "TEI": (
        "tei",
        413,
        {
            "error": "Input validation error: `inputs` must have less than 512 tokens. Given: 6001",
            "error_type": "Validation",
        },
    ),
    "vLLM": (
        "vllm",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 512 tokens. However, you requested "
            "6001 tokens in the input for score generation. Please reduce the length of the input.",
            "code": 400,
        },
    ),
    "llama.cpp, context": (
        "llama_cpp",
        400,
        {
            "error": {
                "code": 400,
                "type": "exceed_context_size_error",
                "message": "input (6001 tokens) is larger than the max context size (512 tokens)",
            }
        },
    ),
    "llama.cpp, batch": (
        "llama_cpp",
        500,
        {
            "error": {
                "code": 500,
                "type": "server_error",
                "message": "input (6001 tokens) is too large to process. increase the physical "
                "batch size (current batch size: 512)",
            }
        },
    ),
    "Cohere": (
        "cohere",
        400,
        {
            "message": "too many tokens: size limit exceeded by 1919 tokens. Try using shorter or "
            "fewer inputs."
        },
    ),
    "Voyage": (
        "voyage",
        400,
        {
            "detail": "Request to model 'rerank-2' failed. The max allowed tokens per submitted "
            "batch is 100000. Your batch has 145736 tokens after truncation. Please lower the "
            "number of tokens in the batch."
        },
    ),
    "422": (
        "infinity",
        422,
        {"error": {"message": "input is too long for this model", "code": 422}},
    ),
    "a proxy": ("jina", 413, b"<h1>413 Request Entity Too Large</h1>"),
}


@pytest.mark.parametrize(("wording", "longest"), rotated(WORDINGS, [3000, 1500, 600]))
def test_a_passage_that_is_too_long(wording, longest, make, rank, provider):
    """It is cut for judging, and costs the others nothing."""
    api, code, told = WORDINGS[wording]
    too_long = fake.raw(http(code, told))
    provider.play(where(lambda r: any(len(text) > longest for text in documents(r)), too_long))
    given = ["3 a", LONG, "9 " + "x " * 100, "5 c"]
    ranking = rank(make(api, limits={"retries": 1}), "q", given)
    assert ranking.report.status == "ok"
    assert ranking.order == (2, 1, 3, 0)
    assert ranking[1].text == LONG
    assert codes(ranking) == {"asked_again"}
    assert "too_long" in ranking.report.issues[0].message
    assert 2 <= len(provider.requests) == ranking.report.usage.calls <= 4
    # What was short enough was never cut.
    assert all(
        [text for text in documents(request) if not text.startswith("7")]
        == [given[0], given[2], given[3]]
        for request in provider.requests
    )


def test_a_batch_of_another_stays_as_it_is(make, provider):
    provider.play(
        where(lambda r: any(len(text) > 2500 for text in documents(r)), fake.raw(http(413)))
    )
    given = [LONG, "9 b", "3 " + "x" * 2400, "5 d"]
    ranking = make(batch_size=2).rerank("q", given)
    assert ranking.order == (1, 0, 3, 2)
    assert len(provider.requests) == 3
    assert given[2:] in [documents(request) for request in provider.requests]


def test_always_too_long(make, rank, provider):
    provider.play(fake.raw(http(413)))
    ranking = rank(make(limits={"retries": 5}), "q", [LONG, "9 b"])
    assert codes(ranking) == {"too_long"}
    assert ranking.order == (0, 1)
    assert len(provider.requests) == ranking.report.usage.calls <= 4


def test_cutting_keeps_the_call_limit(make, provider):
    provider.play(fake.raw(http(413)))
    make(limits={"calls": 2}).rerank("q", [LONG, "9 b"])
    assert len(provider.requests) == 2


def test_a_server_that_takes_fewer_documents(make, provider):
    """TEI's own limit is set at its start; it tells of it, and half a batch would pass."""
    told = {"error": "batch size 32 > maximum allowed batch size 16", "error_type": "Validation"}
    provider.play(where(lambda r: len(documents(r)) > 16, fake.raw(http(413, told))))
    ranking = make().rerank("q", [f"{number} " + "x" * 300 for number in range(10)] * 3)
    assert ranking.report.status == "ok"


def limited(code: int, most: int, told: str = "") -> Step:
    """Takes no more than some documents, and says so by a status."""
    message = told or f"batch size 99 > maximum allowed batch size {most}"
    refused = fake.raw(http(code, {"error": message, "error_type": "Validation"}))
    return where(lambda r: len(documents(r)) > most, refused)


@pytest.mark.parametrize("code", [400, 413, 422])
def test_a_learned_batch_size_expires(code, make, provider, monkeypatch):
    one = make("tei")
    for expected in ([8, 4, 4], [4, 4]):
        provider.play(limited(code, 4))
        assert one.rerank("q", [f"{number} a" for number in range(8)]).report.status == "ok"
        assert [len(documents(request)) for request in provider.requests] == expected
    monkeypatch.setattr(endpoint, "REMEMBERED_SECONDS", 0.0)
    provider.play()
    provider.play(answer())
    one.rerank("q", [f"{number} a" for number in range(8)])
    assert [len(documents(request)) for request in provider.requests] == [8]


@pytest.mark.parametrize("code", [401, 404, 429, 500, 503])
def test_other_statuses_teach_no_batch_size(code, make, provider):
    provider.play(limited(code, 4), answer())
    one = make("tei", limits={"retries": 0})
    given = [f"{number} a" for number in range(8)]
    assert "batch_too_large" not in codes(one.rerank("q", given))
    assert one.method._max_documents == 32


QUOTED = "How a server says so: maximum allowed batch size 1, and more of it."
ESCAPES = {
    "plain": str,
    "json": lambda text: json.dumps(text)[1:-1],
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "unicode": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
    "html": lambda text: html.escape(text.replace("m", "&#109;")),
    "url": quote,
    "upper case": str.upper,
    "white space": lambda text: text.replace(" ", "\n  "),
    "a part": lambda text: text[20:60],
}


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_passage_can_set_the_batch_size(escape, make, provider):
    message = f"bad input: {ESCAPES[escape](QUOTED)}"
    provider.play(fake.raw(http(422, {"error": message})), answer())
    one = make("tei")
    ranking = one.rerank("q", [*NUMBERS, QUOTED])
    assert codes(ranking) == {"bad_request"}
    assert one.rerank("q", [*NUMBERS, QUOTED]).report.status == "ok"
    assert len(provider.requests) == 2


# ---------------------------------------------------------------------- faults of one batch

GIVEN = [f"{number} wombats" for number in (3, 9, 5, 1, 7, 4)]


def of_the_second(request: fake.Request) -> bool:
    return any("1 wombats" in text for text in documents(request))


@pytest.mark.parametrize(
    ("step", "code", "calls"),
    [
        (status(500), "server_error", 3),
        (status(400), "bad_request", 2),
        (fake.page(), "bad_response", 2),
        (fake.silence(), "deadline", 2),
        (fake.raw(fake.End.RESET), "connection", 3),
        (rows(lambda found: []), "reply_refused", 2),
        (rows(lambda found: None), "reply_refused", 2),
    ],
)
def test_one_batch_fails(step, code, calls, make, rank, provider):
    one = make(batch_size=3, limits={"deadline": 0.5, "retries": 1})
    one.rerank("q", ["1"])  # opens the connection
    provider.play(where(of_the_second, step))
    began = time.perf_counter()
    ranking = rank(one, "q", GIVEN)
    assert time.perf_counter() - began <= 0.5 + SLACK
    assert ranking.order == (1, 2, 0, 3, 4, 5)
    assert scores(ranking) == {0: 0.3, 1: 0.9, 2: 0.5, 3: None, 4: None, 5: None}
    assert [item.status for item in ranking] == ["scored"] * 3 + ["unjudged"] * 3
    assert ranking.report.status == "partial"
    (issue,) = [one for one in ranking.report.issues if one.code != "asked_again"]
    assert (issue.code, issue.positions) == (code, (3, 4, 5))
    assert ranking.report.usage.calls == len(provider.requests) == calls


def test_one_batch_is_saved_by_asking_again(make, rank, provider):
    seen = []

    def step(request):
        if of_the_second(request) and not seen:
            seen.append(request)
            return status(503)(request)
        return answer()(request)

    provider.play(step)
    ranking = rank(make(batch_size=3), "q", GIVEN)
    assert ranking.report.status == "ok"
    assert ranking.order == (1, 4, 2, 5, 0, 3)
    assert codes(ranking) == {"asked_again"}
    assert ranking.report.usage.calls == 3


def test_different_batches_different_faults(make, provider):
    provider.play(
        where(lambda r: any("9" in text for text in documents(r)), status(400)),
    )
    provider.play_by(
        lambda request: {
            "3": status(400),
            "5": rows(lambda found: [{**found[0], "index": 9}, *found[1:]]),
            "7": answer(),
        }[documents(request)[0][0]]
    )
    ranking = make(batch_size=2).rerank("q", GIVEN)
    assert scores(ranking) == {0: None, 1: None, 2: None, 3: 0.1, 4: 0.7, 5: 0.4}
    positions = {issue.code: issue.positions for issue in ranking.report.issues}
    assert positions == {"bad_request": (0, 1), "unknown_label": (), "not_in_reply": (2,)}
    statuses = {item.position: item.status for item in ranking}
    assert (statuses[0], statuses[2]) == ("unjudged", "backfilled")


# ---------------------------------------------------------------------- limits


def test_deadline(make, rank, provider):
    one = make(limits={"deadline": 0.4})
    one.rerank("q", ["1"])
    provider.play(fake.silence())
    began = time.perf_counter()
    ranking = rank(one, "q", NUMBERS)
    assert time.perf_counter() - began <= 0.4 + SLACK
    assert codes(ranking) <= {"deadline", "timeout"}
    assert ranking.order == (0, 1, 2)
    provider.play(answer())  # one that was given up on spoils nothing
    assert rank(one, "q", NUMBERS).order == (1, 2, 0)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries(retries, make, provider):
    provider.play(status(503))
    ranking = make(limits={"retries": retries}).rerank("q", NUMBERS)
    assert len(provider.requests) == ranking.report.usage.calls == retries + 1


def test_retry_after_is_kept(make, provider):
    provider.play(status(429, headers={"Retry-After": "0.2"}), answer())
    assert make().rerank("q", NUMBERS).report.status == "ok"
    first, second = provider.requests
    assert second.at - first.at >= 0.2


@pytest.mark.parametrize(
    ("limits", "settings", "scored"),
    [
        ({"calls": 2}, {}, 4),
        ({"tokens": 30}, {}, 4),
        ({"cost": 30e-6}, {"prices": {"input": 1, "output": 0}}, 4),
        ({"calls": 1}, {}, 2),
    ],
)
def test_budget(limits, settings, scored, make, provider):
    """Each batch has about a dozen tokens: two documents of eleven, the query twice."""
    texts = [f"{number} " + "x" * 18 for number in (3, 9, 5, 1, 7, 4)]
    provider.play(lambda request: [http(200, {"results": rows_of(request)})])
    one = make("vllm", batch_size=2, limits={**limits, "concurrency": 1}, **settings)
    ranking = one.rerank("q" * 4, texts)
    assert [item.status for item in ranking].count("scored") == scored
    assert len(provider.requests) == ranking.report.usage.calls == scored // 2
    (issue,) = ranking.report.issues
    assert issue.code == "budget"
    assert issue.positions == tuple(range(scored, 6))
    assert ranking.report.status == "partial"


def test_prices(make):
    prices = {"input": 50.0, "output": 1000.0}
    ranking = make("jina", prices=prices, batch_size=2).rerank("q", NUMBERS)
    assert ranking.report.usage.cost == pytest.approx(2 * 77 * 50 / 1e6)
    assert make("jina").rerank("q", NUMBERS).report.usage.cost is None
    # Without a word of tokens from the server, no cost is made up.
    assert make("tei", prices=prices).rerank("q", NUMBERS).report.usage.cost is None


def test_a_limit_of_cost_needs_prices(make):
    with pytest.raises(ConfigurationError, match="prices"):
        make("jina", limits={"cost": 1.0})


def test_where_nothing_comes_a_fallback_does(make, provider):
    provider.play(status(500))
    one = make(limits={"retries": 0}, whole={"fallback": ["lexical"]})
    ranking = one.rerank("castle garden", ["a market", "the castle garden"])
    assert ranking.report.status == "degraded"
    assert ranking.order == (1, 0)
    assert codes(ranking) == {"server_error"}


def test_strict(make, provider):
    provider.play(rows(lambda found: found[:-1]))
    with pytest.raises(RerankError) as caught:
        make(whole={"strict": True}).rerank("q", NUMBERS)
    assert caught.value.ranking.order == (1, 2, 0)


def test_redirects(make, rank, provider):
    with FakeProvider() as elsewhere:
        there = f"http://127.0.0.1:{elsewhere.port}/tei/rerank"
        for code in (301, 302, 303, 307, 308):
            provider.play(fake.raw(http(code, b"", {"Location": there})))
            ranking = rank(make(api_key=KEY, limits={"retries": 2}), "q", NUMBERS)
            assert codes(ranking) == {"redirected"}
            assert len(provider.requests) == 1
        assert elsewhere.connections == 0


# ---------------------------------------------------------------------- many at once


def test_many_queries_of_many_threads(make, provider):
    provider.play(answer(lambda text: int(text) / 1000, shuffled=True))
    one = make(batch_size=5)

    def ranked(seed):
        numbers = random.Random(seed).sample(range(1000), 12)
        ranking = one.rerank("q", [str(number) for number in numbers])
        return [numbers[at] for at in ranking.order] == sorted(numbers, reverse=True)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ranked, range(24)))
    assert len(provider.requests) == 24 * 3


def test_many_queries_of_one_call(make, rank, provider):
    requests = [(f"q{n}", [str((n * at) % 10) for at in range(1, 6)]) for n in range(1, 9)]
    one = make()
    together = one.rerank_many(requests)
    later = asyncio.run(one.arerank_many(requests))
    for (_, given), first, second in zip(requests, together, later, strict=True):
        assert first.order == second.order
        found = [int(given[at]) for at in first.order]
        assert found == sorted(found, reverse=True)


def test_two_loops_and_a_running_one(make):
    one = make()

    async def inside():
        return one.rerank("q", NUMBERS).order, (await one.arerank("q", NUMBERS)).order

    assert asyncio.run(inside()) == asyncio.run(inside()) == ((1, 2, 0), (1, 2, 0))


def test_a_cancelled_ranking_leaves_nothing(make, provider):
    one = make()
    one.rerank("q", ["1"])
    provider.play(fake.silence())

    async def cancelled():
        task = asyncio.create_task(one.arerank("q", NUMBERS))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    provider.play(answer())
    assert one.rerank("q", NUMBERS).order == (1, 2, 0)


def test_closed_and_opened_again(make, provider):
    one = make()
    one.warm_up()
    for _ in range(2):
        assert one.rerank("q", NUMBERS).order == (1, 2, 0)
        one.close()
    one.close()


def test_connections_are_kept(make, provider):
    one = make()
    before = provider.connections
    for _ in range(5):
        one.rerank("q", NUMBERS)
    assert provider.connections == before + 1


# ---------------------------------------------------------------------- hygiene

SECRETS = (KEY, "wombats", "burrow", fake.LEAK)


@pytest.mark.parametrize(
    "step",
    [
        answer(),
        status(400),
        status(401),
        status(422, "bad input"),
        status(500),
        fake.page(),
        fake.raw(fake.End.RESET),
        rows(lambda found: [{**row, "document": {"text": "wombats"}} for row in found[:1]]),
        rows(lambda found: {"error": f"{KEY} wombats"}),
    ],
)
def test_no_secret_leaves(step, make, rank, provider, caplog):
    provider.play(step)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "secondpass")
    one = make("jina", api_key=KEY, limits={"retries": 1}, whole={"log_level": "debug"})
    ranking = rank(one, "burrow", [f"{number} wombats" for number in (3, 9)])
    report = ranking.report
    told = [repr(one), repr(one.method), str(one.method), repr(ranking), repr(report)]
    told += [json.dumps(report.to_dict()), repr(pickle.dumps(report))]
    told += [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    assert not [secret for secret in SECRETS for text in told if secret in text]


def test_no_secret_in_an_error(make, provider):
    provider.play(status(400))
    one = make("jina", api_key=KEY, whole={"strict": True})
    with pytest.raises(RerankError) as caught:
        one.rerank("burrow", ["3 wombats", "9 wombats"])
    error = caught.value
    told = [str(error), repr(error), repr(error.args), repr(vars(error))]
    assert not [secret for secret in SECRETS for text in told if secret in text]
    assert error.__cause__ is None
    assert KEY.encode() not in pickle.dumps(error)


def test_an_explicit_key_is_not_written_out(make):
    one = make("jina", api_key=KEY)
    for write in (one.to_config, lambda: pickle.dumps(one)):
        with pytest.raises(NotSerializableError) as caught:
            write()
        assert KEY not in str(caught.value)
    assert KEY not in repr(vars(one.method))


# ---------------------------------------------------------------------- blending, floors

KINDS = [
    # the API, its settings, the blend; whether the two go together
    ("cohere", {}, {"original": 0.3, "normalize": "none"}, True),
    ("cohere", {}, {"original": 0.3, "normalize": "sigmoid"}, False),
    ("jina", {}, {"original": 0.3, "normalize": "none"}, False),
    ("jina", {"scores": "probability"}, {"original": 0.3, "normalize": "none"}, True),
    ("tei", {"raw_scores": True}, {"original": 0.3, "normalize": "none"}, False),
    ("llama_cpp", {}, {"original": 0.3, "normalize": "sigmoid"}, True),
]


@pytest.mark.parametrize(("api", "settings", "blend", "fits"), KINDS)
def test_scores_that_can_be_blended(api, settings, blend, fits, make):
    if fits:
        assert make(api, whole={"blend": blend}, **settings).rerank("q", NUMBERS).order
    else:
        with pytest.raises(ConfigurationError, match="blend"):
            make(api, whole={"blend": blend}, **settings)


def test_blend_and_floor(make, provider):
    given = [Candidate(text, score=score) for text, score in zip(NUMBERS, (1, 0, 0.4), strict=True)]
    blend = {"original": 0.5, "normalize": "none"}
    ranking = make("cohere", whole={"blend": blend, "floor": 0.46}).rerank("q", given)
    assert [item.position for item in ranking] == [0]
    assert ranking[0].final_score == pytest.approx(0.65)
    assert ranking[0].rerank_score == 0.3
    assert ranking.report.left_out == {"floor": (1, 2)}
    # What could not be scored is not dropped, and where nothing was, nothing is.
    provider.play(rows(lambda found: found[1:]))
    ranking = make("cohere", whole={"floor": 0.4}).rerank("q", given)
    assert [(item.position, item.status) for item in ranking] == [
        (2, "scored"),
        (1, "backfilled"),
    ]
    provider.play(status(400))
    assert make("cohere", whole={"floor": 0.4}).rerank("q", given).order == (0, 1, 2)


# ---------------------------------------------------------------------- configuration

WRONG = [
    ({"api": "tei"}, "base_url"),
    ({"api": "vllm", "model": "m"}, "base_url"),
    ({"api": "vllm_score", "model": "m"}, "base_url"),
    ({"api": "infinity", "model": "m"}, "base_url"),
    ({"api": "llama_cpp"}, "base_url"),
    ({"api": "cohere"}, "model"),
    ({"api": "jina"}, "model"),
    ({"api": "voyage", "base_url": "http://localhost"}, "model"),
    ({"api": "mixedbread"}, "model"),
    ({"api": "vllm", "base_url": "http://localhost", "raw_scores": True}, "raw_scor"),
    ({"api": "pinecone", "model": "m"}, "api"),
    ({"api": "Cohere", "model": "m"}, "api"),
    ({"api": None, "model": "m"}, "api"),
    ({"model": "m"}, "api"),
    ({"api": "cohere", "model": ""}, "model"),
    ({"api": "cohere", "model": 5}, "model"),
    ({"api": "tei", "base_url": ""}, "base_url"),
    ({"api": "tei", "base_url": "localhost:8080"}, "base_url"),
    ({"api": "tei", "base_url": "ftp://localhost"}, "base_url"),
    ({"api": "cohere", "model": "m", "api_key": ""}, "api_key"),
    ({"api": "cohere", "model": "m", "api_key": 5}, "api_key"),
    ({"api": "cohere", "model": "m", "api_key": "k", "api_key_env": "K"}, "api_key"),
    ({"api": "cohere", "model": "m", "batch_size": 0}, "batch_size"),
    ({"api": "cohere", "model": "m", "batch_size": 2.5}, "batch_size"),
    ({"api": "cohere", "model": "m", "batch_size": True}, "batch_size"),
    ({"api": "cohere", "model": "m", "timeout": 0}, "timeout"),
    ({"api": "cohere", "model": "m", "timeout": float("nan")}, "timeout"),
    ({"api": "cohere", "model": "m", "scores": "grade"}, "scores"),
    ({"api": "cohere", "model": "m", "scores": "probabilities"}, "scores"),
    ({"api": "cohere", "model": "m", "prices": {"input": -1, "output": 0}}, "prices"),
    ({"api": "cohere", "model": "m", "prices": 5}, "prices"),
    ({"api": "cohere", "model": "m", "options": [1]}, "options"),
    ({"api": "cohere", "model": "m", "top_n": 5}, "top_n"),
]


@pytest.mark.parametrize(("settings", "named"), WRONG)
def test_wrong_settings(settings, named):
    with pytest.raises(ConfigurationError, match=named) as caught:
        Reranker.from_config({"method": {"type": "endpoint", **settings}})
    assert "method" in str(caught.value)


FULL = {
    "type": "endpoint",
    "api": "infinity",
    "model": "BAAI/bge-reranker-v2-m3",
    "base_url": "http://localhost:7997",
    "path": "/v2/rerank",
    "api_key_env": "INFINITY_KEY",
    "batch_size": 64,
    "raw_scores": True,
    "scores": "unbounded",
    "timeout": 5.0,
    "prices": {"input": 0.02, "output": 0.0},
    "options": {"truncate": True},
}


@pytest.mark.parametrize(
    "method",
    [
        FULL,
        {"type": "endpoint", "api": "tei", "base_url": "http://localhost:8080"},
        {"type": "endpoint", "api": "cohere", "model": "rerank-v3.5"},
    ],
)
def test_round_trip(method):
    config = {"method": method, "depth": 50}
    one = Reranker.from_config(config)
    assert one.to_config() == config
    assert Reranker.from_config(one.to_config()).to_config() == config
    assert pickle.loads(pickle.dumps(one)).to_config() == config


def test_as_an_object(provider):
    base_url = f"http://127.0.0.1:{provider.port}/tei"
    one = Reranker(method=Endpoint("tei", base_url=base_url, raw_scores=True))
    assert one.rerank("q", NUMBERS).order == (1, 2, 0)
    one.close()
    assert one.to_config()["method"] == {
        "type": "endpoint",
        "api": "tei",
        "base_url": base_url,
        "raw_scores": True,
    }


def test_a_missing_package_is_named(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "httpx" else find(name)
    )
    config = {"type": "endpoint", "api": "tei", "base_url": "http://localhost"}
    with pytest.raises(MissingExtraError, match=r"secondpass\[remote\]"):
        Reranker.from_config({"method": config})


PRESETS = {
    # the preset: its API, its model, the kind of its scores, the variable of its address
    "cohere": ("rerank-v3.5", "probability", None),
    "jina": ("jina-reranker-v2-base-multilingual", "probability", None),
    "voyage": ("rerank-2.5-lite", "probability", None),
    "mixedbread": ("mixedbread-ai/mxbai-rerank-large-v2", "unbounded", None),
    "tei": (None, "logit", "TEI_URL"),
    "vllm": ("default", "probability", "VLLM_URL"),
    "infinity": ("default", "logit", "INFINITY_URL"),
    "llama_cpp": (None, "logit", "LLAMA_CPP_URL"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name, provider, monkeypatch):
    model, kind, variable = PRESETS[name]
    url = f"http://127.0.0.1:{provider.port}/{name}"
    monkeypatch.delenv("RERANK_MODEL", raising=False)
    if variable is None:
        one = Reranker.from_preset(name, method={"base_url": url})
    else:
        monkeypatch.delenv(variable, raising=False)
        assert Reranker.from_preset(name).method.base_url.startswith("http://localhost:")
        monkeypatch.setenv(variable, url)
        one = Reranker.from_preset(name)
    ranking = one.rerank("q", NUMBERS)
    one.close()
    assert ranking.order == (1, 2, 0)
    assert ranking.report.score_kind == kind
    (request,) = provider.requests
    assert request.path == f"/{name}{DIALECTS[name].path}"
    assert request.body.get("model") == model
    assert one.limits.deadline == 10
    assert one.depth == 100


@pytest.mark.parametrize("name", ["vllm", "infinity"])
def test_preset_model_from_environment(name, monkeypatch):
    monkeypatch.setenv("RERANK_MODEL", "BAAI/bge-reranker-v2-m3")
    assert Reranker.from_preset(name).method.model == "BAAI/bge-reranker-v2-m3"


# ---------------------------------------------------------------------- in the frameworks


def test_from_the_yaml_of_a_haystack_pipeline(provider, monkeypatch):
    haystack = pytest.importorskip("haystack")
    pytest.importorskip("haystack_integrations.components.rankers.secondpass")
    monkeypatch.setenv("RERANK_KEY", KEY)
    pipeline = haystack.Pipeline.loads(
        f"""
        components:
          ranker:
            type: haystack_integrations.components.rankers.secondpass.ranker.SecondPassRanker
            init_parameters:
              reranker:
                method:
                  type: endpoint
                  api: jina
                  model: m
                  base_url: http://127.0.0.1:{provider.port}/jina
                  api_key_env: RERANK_KEY
        connections: []
        """
    )
    given = [haystack.Document(content=text) for text in NUMBERS]
    found = pipeline.run({"ranker": {"query": "q", "documents": given}})["ranker"]["documents"]
    pipeline.get_component("ranker").reranker.close()
    assert [document.content for document in found] == ["9 b", "5 c", "3 a"]
    assert [document.score for document in found] == [0.9, 0.5, 0.3]
    assert provider.requests[0].body == DIALECTS["jina"].sends
    assert provider.requests[0].key == KEY
    assert KEY not in pipeline.dumps()
    assert haystack.Pipeline.loads(pipeline.dumps()).to_dict() == pipeline.to_dict()


@pytest.mark.parametrize("later", [False, True])
def test_from_llama_index(provider, later):
    pytest.importorskip("llama_index.core")
    schema = importlib.import_module("llama_index.core.schema")
    package = pytest.importorskip("llama_index.postprocessor.secondpass")
    nodes = [schema.NodeWithScore(node=schema.TextNode(text=text), score=0.1) for text in NUMBERS]
    method = {
        "type": "endpoint",
        "api": "jina",
        "model": "m",
        "base_url": f"http://127.0.0.1:{provider.port}/jina",
    }
    one = package.SecondPassRerank({"method": method}, top_n=2)
    if later:
        found = asyncio.run(one.apostprocess_nodes(nodes, query_str="q"))
    else:
        found = one.postprocess_nodes(nodes, query_str="q")
    assert [node.node.text for node in found] == ["9 b", "5 c"]
    assert provider.requests[0].body == DIALECTS["jina"].sends
    again = package.SecondPassRerank(**one.model_dump())
    assert again.postprocess_nodes(nodes, query_str="q")[0].node.text == "9 b"


# ---------------------------------------------------------------------- a real server

MISSING = llama_server.missing_packages("xllamacpp", "gguf")


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_real_server(tmp_path):
    model = llama_server.write_tiny_cross_encoder(tmp_path / "tiny.gguf")
    texts = ["the cat sat on a mat", "a dog ran", "", "yes", "cat food", "über café", "x" * 200]
    with llama_server.serve(model, context=512, rerank=True) as address:
        method = {"type": "endpoint", "api": "llama_cpp", "base_url": address.removesuffix("/v1")}
        one = Reranker.from_config({"method": {**method, "batch_size": 3}})
        alone = {}
        for at, text in enumerate(texts):
            (item,) = one.rerank("cat food", [text])
            if item.rerank_score is not None:
                alone[at] = item.rerank_score
        ranking = one.rerank("cat food", texts)
        one.close()
    assert set(ranking.order) == set(range(len(texts)))
    found = {at: score for at, score in scores(ranking).items() if score is not None}
    assert found == pytest.approx(alone, abs=1e-5)
    assert len(found) >= 6
    assert [at for at in ranking.order if at in alone] == sorted(alone, key=lambda at: -alone[at])
    assert ranking.report.score_kind == "logit"
