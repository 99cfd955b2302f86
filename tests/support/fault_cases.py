"""The table of faults: what a provider may do, and what a ranking has to say about it.

A case is a script for the fake provider and what is promised for it. ``tests/faults`` runs all of
them through the core, and the adapters' tests through the adapters.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import fake_provider as fake
from fake_provider import End, Pause, Step, says
from secondpass import Candidate

MARKER = "wombats of 1899"
"""Stands in every passage, and may stand in no error, log, report or repr."""

NUMBERS = (3, 9, 5, 1, 7, 4)
CANDIDATES = [Candidate(f"{number}: {MARKER}", id=f"c{number}") for number in NUMBERS]
BEST_FIRST = (1, 4, 2, 5, 0, 3)
ADAPTATIONS = 3

FLAVOURS = ("openai", "anthropic", "google", "compatible")
"""``compatible`` is a self-hosted server: no key, no JSON schema, errors in vLLM's words."""
KEYED = tuple(flavour for flavour in FLAVOURS if flavour != "compatible")
MODES = ("sync", "async", "strict")


@dataclass(frozen=True)
class Case:
    """A fault, and what is promised for it.

    Attributes:
        script: the steps; the last is repeated.
        status: the report's status, or several that may be, in words.
        codes: issue codes, one of which is reported (unless the status is ``ok``
            and may be); ``*`` for any, empty where nothing needs to be reported.
        requests: how many the script sees, or the fewest and the most.
        tokens: how many replies tell of their usage; None if none does, -1 if that is left open.
        unscored: positions that must have no score, where the status is ``partial``.
        fresh: the fault changes the client, so it gets one of its own.
    """

    name: str
    script: tuple[Step, ...]
    status: str = "unchanged"
    codes: str = ""
    requests: int | tuple[int, int] = 1
    tokens: int | None = -1
    unscored: tuple[int, ...] = ()
    fresh: bool = False
    flavours: tuple[str, ...] = FLAVOURS
    modes: tuple[str, ...] = MODES
    method: Mapping[str, Any] = field(default_factory=dict)
    llm: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = tuple(CANDIDATES)
    order: tuple[int, ...] | None = None


UNREADABLE = "bad_response empty_reply reply_refused response_too_long"


def fatal(name: str, step: Step, codes: str, **more: Any) -> Case:
    """A fault that asking again cannot help: one request, and the order that came in."""
    return Case(name, (step,), codes=codes, tokens=None, **more)


def once(name: str, step: Step, codes: str, **more: Any) -> Case:
    """A fault that is over when asked again."""
    return Case(name, (step, fake.good()), "ok", codes, 2, **more)


def passing(name: str, step: Step, codes: str) -> list[Case]:
    """A fault that may be over when asked again, once and for good."""
    return [
        Case(f"{name}, always", (step,), codes=codes, requests=2, tokens=None),
        once(f"{name}, once", step, codes, tokens=1),
    ]


def harmless(name: str, step: Step, tokens: int | None = 1) -> Case:
    """Something unusual that is no fault."""
    return Case(name, (step,), "ok", tokens=tokens)


def stalling(name: str, step: Step) -> Case:
    """A server that holds the line: the deadline ends it."""
    return unreadable(name, step, "deadline timeout", tokens=None, limits={"deadline": 0.35})


def unreadable(name: str, step: Step, codes: str = UNREADABLE, **more: Any) -> Case:
    """What cannot be read; asked again at most once."""
    return Case(name, (step,), codes=codes, requests=(1, 2), **more)


def either(name: str, step: Step) -> Case:
    """Something that may be read or be refused, as long as it is reported which."""
    return unreadable(name, step, f"{UNREADABLE} connection", status="ok unchanged")


def whole(*parts: Any) -> Step:
    """``BODY`` in these parts stands for the JSON of a good reply."""
    return fake.good_but(lambda _, body: [body if part is BODY else part for part in parts])


BODY = object()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def cut(change: Callable[[bytes], bytes], *ends: End) -> Step:
    """A good response that a function has cut."""
    return fake.good_but(lambda _, body: [change(fake.http(200, body)), *ends])


def with_body(change: Callable[[bytes], bytes], **more: Any) -> Step:
    """A good response whose body a function has changed; its length is right."""
    return fake.good_but(lambda _, body: [fake.http(200, change(body), **more)])


TRANSPORT = [
    *passing("closed before a byte", fake.raw(End.CLOSE), "connection"),
    *passing("reset before a byte", fake.raw(End.RESET), "connection"),
    *passing("closed in the headers", fake.raw(HEAD, End.CLOSE), "connection"),
    *passing("reset in the body", cut(lambda r: r[:-40], Pause(0.02), End.RESET), "connection"),
    *passing("body shorter than its length", cut(lambda r: r[:-9], End.CLOSE), "connection"),
    harmless("body longer than its length", cut(lambda r: r + b"more", End.CLOSE)),
    harmless("body without a length", whole(HEAD, b"\r\n", BODY, End.CLOSE)),
    harmless("in chunks", fake.in_chunks()),
    harmless("gzip", fake.encoded("gzip", truthfully=True)),
    harmless(
        "100 before it", whole(b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"\r\n", BODY, End.CLOSE)
    ),
    *[
        unreadable(name, fake.raw(wire, End.CLOSE), "connection bad_response")
        for name, wire in {
            "no HTTP": b"HELLO THERE 5\r\n\r\n",
            "unknown version": b"HTTP/9.9 200 OK\r\n\r\n",
            "no status": b"HTTP/1.1 OK\r\n\r\n",
            "negative status": b"HTTP/1.1 -200 OK\r\n\r\n",
            "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
            "length that is no number": HEAD + b"Content-Length: five\r\n\r\n{}",
            "negative length": HEAD + b"Content-Length: -5\r\n\r\n{}",
            "header without a name": HEAD + b": 5\r\n\r\n{}",
            "header with a zero byte": HEAD + b"X: \x00\r\n\r\n{}",
            "bytes of another protocol": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
        }.items()
    ],
    *[
        unreadable(name, step, "connection bad_response response_too_long")
        for name, step in {
            "chunk size that is no number": fake.chunked(b"zz\r\n{}\r\n"),
            "chunk longer than the body": fake.chunked(b"ff\r\n{}", end=[End.CLOSE]),
            "last chunk missing": fake.chunked(b"2\r\n{}\r\n", end=[End.CLOSE]),
            "huge chunk size": fake.chunked(b"f" * 400 + b"\r\n{}\r\n", end=[End.CLOSE]),
            "gzip that is none": fake.encoded("gzip"),
            "deflate that is none": fake.encoded("deflate"),
            "gzip that ends early": with_body(
                lambda body: gzip.compress(body)[:-30], headers={"Content-Encoding": "gzip"}
            ),
            "gzip bomb": fake.gzip_bomb(),
            "forty megabytes": fake.raw(fake.http(200, b" " * (40 * 2**20))),
        }.items()
    ],
    either("encoding that does not exist", fake.encoded("rot13")),
    either("brotli that is none", fake.encoded("br")),
    either("one huge header", fake.many_headers(1, 2**18)),
    either("thousands of headers", fake.many_headers(5000, 50)),
    either("invalid UTF-8 in the text", with_body(lambda b: b.replace(b"fake", b"\xff\xfe"))),
    either("a character set that does not exist", fake.typed("application/json; charset=zork")),
    either("another character set", fake.typed("application/json; charset=utf-16")),
    unreadable("nothing but invalid UTF-8", fake.body(b"\xff\xfe\xfa" * 9), tokens=None),
    stalling("silence", fake.silence()),
    stalling("headers, then silence", fake.headers_then_silence()),
    stalling("a byte at a time", fake.drip()),
    stalling("white space without end", fake.endless_space()),
    stalling("headers without end", fake.endless_headers()),
    fatal(
        "silence, and the model's own timeout",
        fake.silence(),
        "timeout",
        requests=2,
        llm={"timeout": 0.12},
    ),
    once(
        "silence once, and the model's own timeout",
        fake.silence(),
        "timeout",
        llm={"timeout": 0.12},
    ),
    *[
        fatal(f"redirect {code}", fake.redirect(code), "redirected")
        for code in (301, 302, 303, 307, 308)
    ],
    fatal("redirect onto itself", fake.redirect(307, loop=True), "redirected"),
    Case("not modified", (fake.raw(fake.http(304)),), codes="redirected bad_response"),
    fatal("web page", fake.page(), "bad_response"),
    fatal("web page for 404", fake.page(404), "not_found"),
    *passing("web page for 502", fake.page(502), "server_error"),
]

QUICKLY = {"Retry-After": "0"}


def after(value: str, code: int = 429) -> Step:
    return fake.status(code, headers={"Retry-After": value})


BODIES = {
    "empty": b"",
    "null": b"null",
    "a list": b'[{"error": 5}]',
    "a string": b'"no"',
    "a number": b"5",
    "an error that is a string": b'{"error": "no"}',
    "an error that is null": b'{"error": null}',
    "an error that is a list": b'{"error": [1, 2]}',
    "members of odd types": b'{"error": {"message": 5, "type": [], "code": {}, "param": {"a": 1}}}',
    "invalid UTF-8": b'{"error": {"message": "\xff\xfe"}}',
    "no JSON": b"upstream connect error, reset reason: overflow 5",
    "deep nesting": b'{"error":' * 50_000,
    "five megabytes": b'{"error": {"message": "' + b"x" * (5 * 2**20) + b'"}}',
}
"""What stands in the body of an error."""
SOME_BODIES = {name: BODIES[name] for name in ("empty", "no JSON", "five megabytes")}

LONG = tuple(Candidate(f"{number}: {MARKER} " + "word " * 250) for number in NUMBERS)


def is_long(request: fake.Request) -> bool:
    """Whether the passages are as long as they came in."""
    return sum(map(len, request.documents.values())) > 0.75 * sum(len(one.text) for one in LONG)


ECHO = {
    "type": "extra_forbidden",
    "loc": ["body", "temperature"],
    "msg": "Extra inputs are not permitted",
    "input": f"{MARKER}: my api key is unauthorized, insufficient_quota, safety",
}
"""As servers on FastAPI say it, with what the request held."""


def asks_for_schema(request: fake.Request) -> bool:
    return request.schema is not None


PARAMETERS = ("temperature", "top_p", "min_p", "max_completion_tokens", "max_tokens")


def refusing_in_turn(*parameters: str) -> Step:
    """400 for the first of these parameters that a request has."""

    def step(request: fake.Request) -> Iterable[fake.Wire]:
        blamed = next((name for name in parameters if name in request.body), None)
        if blamed is None:
            return fake.good()(request)
        return fake.status(400, f"Unsupported parameter: '{blamed}'", param=blamed)(request)

    return step


def adapted(
    name: str,
    applies: Callable[[fake.Request], bool],
    refusal: Step,
    requests: int | tuple[int, int],
    otherwise: Step | None = None,
    **more: Any,
) -> Case:
    """A part of the request that is refused, and left out when it is asked again."""
    step = fake.refusing(applies, refusal, otherwise)
    return Case(name, (step,), "ok", requests=requests, tokens=1, fresh=True, **more)


def insisted(name: str, step: Step, codes: str, **more: Any) -> Case:
    """A refusal that stays, whatever is left out."""
    return Case(name, (step,), codes=codes, requests=(1, 1 + ADAPTATIONS), fresh=True, **more)


def until_cut(name: str, step: Step, **more: Any) -> Case:
    """Passages that are refused until they are cut."""
    script = (fake.refusing(is_long, step),)
    requests = (2, 1 + ADAPTATIONS)
    return Case(name, script, "ok", "too_long", requests, fresh=True, candidates=LONG, **more)


STATUS = [
    fatal("401", fake.status(401, "Incorrect API key provided"), "authentication", fresh=True),
    fatal("403", fake.status(403, "Access denied"), "authentication", fresh=True),
    fatal("402", fake.status(402, "Insufficient balance"), "payment", fresh=True),
    fatal("404", fake.status(404, "The model `m` does not exist"), "not_found", fresh=True),
    fatal(
        "400 for a key that is no key",
        fake.status(400, "API key not valid. Please pass a valid API key."),
        "authentication",
        fresh=True,
        flavours=("google",),
    ),
    fatal("no credit", fake.quota_used_up(), "quota payment", fresh=True, flavours=("openai",)),
    fatal(
        "no credit, in other words",
        fake.quota_used_up(),
        "quota payment bad_request",
        fresh=True,
        flavours=("anthropic", "compatible", "google"),
    ),
    *[
        Case(name, (step,), codes="content_filter", fresh=True)
        for name, step in {
            "content filter": fake.content_filtered(),
            "prompt blocked": fake.prompt_blocked(),
            "refusal": fake.refused(),
        }.items()
    ],
    adapted("schema refused", asks_for_schema, fake.schema_refused(), 2, flavours=KEYED),
    adapted("all JSON refused", lambda r: r.asks_for_json, fake.json_refused(), (2, 3)),
    adapted("temperature refused", fake.has_temperature, fake.temperature_refused(), 2),
    adapted(
        "temperature and schema refused",
        fake.has_temperature,
        fake.temperature_refused(),
        3,
        otherwise=fake.refusing(asks_for_schema, fake.schema_refused()),
        flavours=KEYED,
    ),
    Case(
        "all parameters refused in turn",
        (refusing_in_turn(*PARAMETERS),),
        "ok",
        requests=1 + len(PARAMETERS),
        tokens=1,
        fresh=True,
        flavours=("openai", "compatible"),
        llm={"max_tokens": 500, "options": {"top_p": 0.9, "min_p": 0.1}},
    ),
    insisted(
        "schema refused, whatever is asked", fake.schema_refused(), "bad_request format_refused"
    ),
    insisted(
        "temperature refused, whatever is asked",
        fake.temperature_refused(),
        "bad_request parameter_refused",
    ),
    fatal("400 for no reason", fake.status(400), "bad_request", fresh=True),
    fatal("422 for no reason", fake.status(422), "bad_request", fresh=True),
    insisted("422 that repeats the request", fake.raw(fake.http(422, {"detail": [ECHO]})), "*"),
    *[fatal(f"{code}", fake.status(code), "bad_request", fresh=True) for code in (405, 410, 451)],
    until_cut("too long, until it is cut", fake.too_long(), tokens=1),
    insisted("too long, always", fake.too_long(), "too_long", candidates=LONG),
    *[
        until_cut(
            f"too long for {server}, until it is cut",
            fake.status(code, message),
            flavours=("openai", "compatible"),
        )
        for server, (code, message) in fake.TOO_LONG_ELSEWHERE.items()
    ],
    until_cut(
        "413 of a proxy, until it is cut",
        fake.raw(fake.http(413, b"<h1>413</h1>", kind="text/html")),
    ),
    *passing("408", fake.status(408, headers=QUICKLY), "timeout"),
    *passing("409", fake.status(409, headers=QUICKLY), "conflict"),
    *passing("429", fake.status(429), "rate_limited"),
    *[
        case
        for code in (500, 502, 503, 504, 507, 520, 529)
        for case in passing(f"{code}", fake.status(code), "server_error")
    ],
    once("429, Retry-After: seconds", after("0.02"), "rate_limited"),
    once("429, Retry-After: not a number", after("soon"), "rate_limited"),
    once("429, Retry-After: a date", after(fake.http_date(0)), "rate_limited"),
    once(
        "429, Retry-After in milliseconds",
        fake.status(429, headers={"retry-after-ms": "20"}),
        "rate_limited",
    ),
    fatal("429, Retry-After: a day", after("86400"), "rate_limited"),
    fatal("429, Retry-After: in 9999", after("Fri, 31 Dec 9999 23:59:59 GMT"), "rate_limited"),
    fatal(
        "429, Retry-After past the deadline", after("25"), "rate_limited", limits={"deadline": 20}
    ),
    fatal("503, Retry-After absurd", after("86400", 503), "server_error"),
    # Numbers that no float holds: as good as none, or for ever.
    unreadable("429, Retry-After: infinite", after("inf"), "rate_limited"),
    unreadable("429, Retry-After: of many digits", after("9" * 400), "rate_limited"),
    *[
        # Google's SDK breaks on a body that it cannot read, and the status is lost with it.
        Case(
            f"400 with {name}",
            (fake.raw(fake.http(400, body)),),
            codes="bad_request bad_response",
            fresh=True,
        )
        for name, body in BODIES.items()
    ],
    *[
        unreadable(
            f"500 with {name}",
            fake.raw(fake.http(500, body)),
            "server_error bad_response connection",
            modes=("sync",),
        )
        for name, body in SOME_BODIES.items()
    ],
    *[
        Case(
            f"429 with {name}",
            (fake.raw(fake.http(429, body)), fake.good()),
            "ok unchanged",
            codes="rate_limited bad_response connection",
            requests=(1, 2),
            modes=("async",),
        )
        for name, body in SOME_BODIES.items()
    ],
]


def choices(value: Any) -> Step:
    """Something in the place of the list of answers."""

    def change(name: str) -> Step:
        return fake.changed(lambda reply: reply.update({name: value}))

    return fake.by_api(
        anthropic=change("content"), google=change("candidates"), other=change("choices")
    )


def without(name: str, google: str, anthropic: str) -> Step:
    """A good reply without a member that is not needed."""
    return fake.by_api(
        anthropic=fake.changed(lambda reply: reply.pop(anthropic)),
        google=fake.changed(lambda reply: reply.pop(google)),
        other=fake.changed(lambda reply: reply.pop(name)),
    )


def counts(value: Any) -> dict[str, Any]:
    """The usage of each API, with this for every count."""
    names = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
    return dict.fromkeys((*names, "promptTokenCount", "candidatesTokenCount"), value)


ODD_USAGE = {
    "empty": {},
    "a string": "5",
    "a list": [1, 2],
    "strings": counts("5"),
    "negative": counts(-5),
    "booleans": {"prompt_tokens": True, "input_tokens": True, "output_tokens": False},
    "nulls": counts(None),
}

ENVELOPE = [
    unreadable("no choices", fake.without_choices(empty=True)),
    unreadable("no list of choices", fake.without_choices(empty=False)),
    *[
        unreadable(f"choices {name}", choices(value))
        for name, value in {
            "null": None,
            "a string": "5",
            "a number": 5,
            "of nulls": [None],
            "of lists": [[]],
            "of strings": ["5"],
            "of empty mappings": [{}],
        }.items()
    ],
    unreadable("null content", fake.content(None)),
    unreadable("content a number", fake.content(5)),
    unreadable("content a mapping", fake.content({"a": 5})),
    unreadable("content an empty list", fake.content([])),
    unreadable("content a list of nulls", fake.content([None])),
    unreadable("empty text", says(lambda answer: "")),
    unreadable("white space", says(lambda answer: " \n\t\u00a0")),
    unreadable(
        "cut at the most tokens",
        fake.cut_off(),
        "not_in_reply reply_refused empty_reply",
        status="unchanged partial",
    ),
    unreadable("cut before the first word", fake.cut_off_before_the_first_word()),
    unreadable("tool call instead of text", fake.tool_call_instead()),
    harmless("text in parts", fake.text_in_parts()),
    harmless("thoughts beside the text", fake.thinking_before()),
    harmless("usage missing", fake.usage(None), tokens=None),
    *[
        unreadable(f"usage {name}", fake.usage(value), "", status="ok unchanged")
        for name, value in ODD_USAGE.items()
    ],
    harmless("no id", without("id", "responseId", "id")),
    harmless("no model", without("model", "modelVersion", "model")),
    harmless(
        "JSON under its type and character set", fake.typed("application/json; charset=utf-8")
    ),
    *[
        either(f"JSON as {kind or 'nothing'}", fake.typed(kind))
        for kind in ("text/plain", "text/html", "application/octet-stream", "image/png", "", ";;")
    ],
    unreadable("stream of events", fake.event_stream()),
    *[
        unreadable(f"body {name}", fake.body(value), tokens=None)
        for name, value in {
            "empty": b"",
            "null": b"null",
            "a list": [],
            "a list of lists": [[5]],
            "a string": b'"5 results"',
            "a number": b"5",
            "true": b"true",
            "an empty mapping": {},
            "an error": {"error": {"message": f"no 5 {MARKER}", "code": 502}},
            "a string for an error": {"error": "overloaded, 5"},
            "deep nesting": b"[" * 100_000,
            "deep mappings": b'{"choices":' * 100_000,
        }.items()
    ],
    unreadable("204", fake.raw(fake.http(204)), tokens=None),
    either("status 206", fake.good_but(lambda _, body: [fake.http(206, body)])),
    unreadable("half of the JSON", with_body(lambda body: body[: len(body) // 2])),
    either("the JSON twice", with_body(lambda body: body + body)),
    either("a byte order mark", with_body(lambda body: b"\xef\xbb\xbf" + body)),
    either("more after the JSON", with_body(lambda body: body + b" trailing 5")),
    harmless(
        "finish reason unknown",
        fake.by_api(
            google=fake.changed(lambda r: r["candidates"][0].update(finishReason="ZORK")),
            anthropic=with_body(lambda body: body.replace(b"end_turn", b"zork")),
            other=fake.changed(lambda r: r["choices"][0].update(finish_reason="zork")),
        ),
    ),
    harmless(
        "two choices",
        fake.by_api(
            google=fake.changed(lambda r: r["candidates"].append(r["candidates"][0])),
            anthropic=fake.good(),
            other=fake.changed(lambda r: r["choices"].append(r["choices"][0])),
        ),
    ),
]

GRADED = {"type": "graded"}
PAIRS = {"type": "graded", "reply": "pairs"}
INDEX1 = {"type": "graded", "reply": "pairs", "labels": "index1"}
LISTWISE = {"type": "listwise"}


READ = {"status": "ok", "codes": "", "requests": 1, "tokens": 1}
"""Read as if nothing stood around it."""
REFUSED = {"status": "unchanged", "codes": "reply_refused empty_reply", "requests": 2, "tokens": 2}
"""Asked for once more, and refused again."""
LOST = {"status": "unchanged", "codes": "reply_refused bad_response response_too_long deadline"}
"""No parser follows it; Google's SDK tries to, and the reply is lost in it."""
REPORTED = {"status": "ok partial unchanged"}
"""A fault that need not cost any candidate its place."""


def reply(
    name: str,
    make: Callable[[fake.Answer], Any],
    *script: Step,
    method: Any = GRADED,
    cut: bool = False,
    **more: Any,
) -> Case:
    """What a model says; unless stated otherwise, it may be used in part, and that is reported."""
    expected = {"status": "partial unchanged", "codes": "*", "requests": (1, 2), **more}
    return Case(name, (says(make, cut=cut), *script), method=method, **expected)


def prose(_: fake.Answer) -> str:
    return "I would say 5."


def in_channels(thought: str, answer: str) -> str:
    """A reply of gpt-oss, with its special tokens."""
    start = "<|start|>assistant<|channel|>final<|message|>"
    return f"<|channel|>analysis<|message|>We try {thought}<|end|>{start}{answer}<|return|>"


def decoded(thought: str, answer: str) -> str:
    """The same without them, as servers decode it; without an answer, it breaks off before."""
    return f"analysisWe try {thought}" + (f"assistantfinal{answer}" if answer else "")


def by_index(answer: fake.Answer) -> list[dict[str, Any]]:
    """The grades as rows by index."""
    return [{"index": int(label), "score": grade} for label, grade in answer.grades.items()]


PAYLOAD = [
    # All that replies may be is in `reply_cases`; here is one of each kind.
    reply("in a fence", lambda a: f"```json\n{a.json}\n```", **READ),
    reply("thoughts with an answer", lambda a: f"<think>{a.but(0)}</think>{a.json}", **READ),
    reply("thoughts that do not end", lambda a: f"<think>so {a.json}", **REFUSED),
    reply("thoughts of gpt-oss", lambda a: in_channels(a.but(0), a.json), **READ),
    reply("thoughts of gpt-oss, decoded", lambda a: decoded(a.but(0), a.json), **READ),
    reply("thoughts of gpt-oss that do not end", lambda a: decoded(a.json, ""), **REFUSED),
    reply("a draft, cut off", lambda a: f"First: {a.but(0)} Wait, 5 is", cut=True, **REFUSED),
    reply("an explanation, cut off", lambda a: f"{a.json} For 5 is", cut=True, **READ),
    reply("prose", lambda a: "Here are the 5 best: the first 3 are good, 9 is better.", **REFUSED),
    reply("half of it", lambda a: a.json[: len(a.json) // 2], **REFUSED),
    reply("deep nesting", lambda a: "[" * 100_000, **LOST),
    reply("deep mappings", lambda a: '{"a":' * 50_000 + "1" + "}" * 50_000, **LOST),
    reply("megabytes of brackets", lambda a: "{[" * 10**6, **LOST),
    reply("megabytes of prose", lambda a: "no 5 " * 600_000 + "{", **{**LOST, "requests": 2}),
    reply(
        *("prose, then a good reply", prose, fake.good()),
        **{"status": "ok", "codes": "reply_refused", "requests": 2, "tokens": 2},
    ),
    reply(
        "prose, and no repair",
        prose,
        limits={"repair": 0},
        **{**REFUSED, "requests": 1, "tokens": 1},
    ),
    # Quotation marks that do not end: a reader must not try each of them to the end.
    reply("escaped quotes without end", lambda a: '{"' + '\\"' * 20_000, **REFUSED),
    reply(
        "quotes and commas without end",
        lambda a: '{"a": ' + '["' * 20_000 + '",' * 20_000,
        **REFUSED,
    ),
    # What stands for a grade: of the others the order is kept, of this one no score is made.
    reply("grade NaN", lambda a: a.but_raw("NaN"), unscored=(0,)),
    reply("grade of five thousand digits", lambda a: a.but_raw("9" * 5000), unscored=(0,)),
    reply("all grades null", lambda a: dict.fromkeys(a.labels)),
    # Whose grade it is.
    reply("one missing", lambda a: {x: a.grades[x] for x in a.labels[1:]}, unscored=(0,)),
    reply(
        "thousands that are unknown besides",
        lambda a: {**a.grades, **{f"z{n}": 1 for n in range(2000)}},
        **REPORTED,
    ),
    # Rows.
    reply("rows", lambda a: {"grades": a.pairs()}, method=PAIRS, **READ),
    reply("rows that are nulls", lambda a: {"grades": [None, None]}, method=PAIRS, **REFUSED),
    reply("no rows", lambda a: {"grades": []}, method=PAIRS),
    reply("rows by index", lambda a: {"grades": by_index(a)}, method=INDEX1, **READ),
    reply(
        "an index out of range",
        lambda a: {"grades": [{"index": 7, "score": 9}, *by_index(a)[1:]]},
        method=INDEX1,
    ),
    # Orders.
    reply("an order", lambda a: {"ranking": a.ranking}, method=LISTWISE, **READ),
    reply("an order with one missing", lambda a: {"ranking": a.ranking[:-1]}, method=LISTWISE),
    reply("an order of strangers", lambda a: {"ranking": ["x?", "y?"]}, method=LISTWISE),
    reply(
        "an order with one doubled",
        lambda a: {"ranking": [*a.ranking, a.ranking[0]]},
        method=LISTWISE,
        **REPORTED,
    ),
]

GROUPS = {
    "transport": TRANSPORT,
    "status": STATUS,
    "envelope": ENVELOPE,
    "payload": PAYLOAD,
}
