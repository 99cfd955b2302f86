"""A provider of language models and rerank APIs on the loopback interface, with faults by script.

It speaks OpenAI Chat Completions, Anthropic Messages, Gemini ``generateContent``, and nine rerank
APIs (:data:`RERANK_APIS`). All are served by one port, each under the first part of its path::

    with FakeProvider() as provider:
        provider.play(status(500), good())          # the last step is repeated
        client = openai.OpenAI(base_url=provider.base_url("openai"), api_key="k")

A *step* is a function of one request that yields what goes over the wire: bytes as they are, a
:class:`Pause`, or an :class:`End`. So every fault of a transport can be written down. Good replies
are computed from the request: the labels of its ``<doc id="...">`` fences, graded by a function of
their text, in the form that its schema asks for.
"""

from __future__ import annotations

import asyncio
import enum
import gzip
import html
import json
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from typing import Any, TypeAlias

INPUT_TOKENS = 100
OUTPUT_TOKENS = 20
"""What every good reply says that it used."""

LEAK = "the request was: "
"""Stands before the key and the passages that errors of this provider repeat, as real ones do."""


class End(enum.Enum):
    """What becomes of the connection."""

    CLOSE = "closed in an orderly way"
    RESET = "reset, so that the client's next read fails"
    HOLD = "left open, with nothing more said, until the client leaves"


@dataclass(frozen=True)
class Pause:
    """Nothing is sent for this many seconds."""

    seconds: float


@dataclass
class Request:
    """One request as it came in.

    Attributes:
        number: 0 for the first since the script began.
        flavour: the first part of the path.
        body: the parsed JSON, or None.
        at: seconds of the monotonic clock.
        origin: where this provider can be reached under another name.
    """

    number: int
    flavour: str
    path: str
    headers: dict[str, str]
    body: Any
    at: float
    origin: str = ""

    @property
    def api(self) -> str:
        """The dialect that the path belongs to; empty for a path of none."""
        for ending, api in _APIS.items():
            if self.path.partition("?")[0].endswith(ending):
                return api
        return ""

    @property
    def key(self) -> str:
        """The key that came with it, however this dialect carries it."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return bearer or self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or ""

    @property
    def messages(self) -> list[str]:
        """The texts of all messages, the system prompt first."""
        body = self.body if isinstance(self.body, dict) else {}
        parts = [body.get("system"), body.get("systemInstruction"), body.get("messages")]
        return list(_texts([*parts, body.get("contents")]))

    @property
    def documents(self) -> dict[str, str]:
        """The fenced texts by their labels, in order; those of rerank APIs by their index."""
        body = self.body if isinstance(self.body, dict) else {}
        given = body.get(self.rerank.documents) if self.rerank else None
        if isinstance(given, list):
            texts = [one if isinstance(one, str) else one["text"] for one in given]
            return {str(index): text for index, text in enumerate(texts)}
        passages = _FENCE.findall("\n".join(self.messages))
        return {label: html.unescape(text) for label, text in passages}

    @property
    def rerank(self) -> RerankApi | None:
        """The rerank API that was asked, by its name or by its path."""
        return RERANK_APIS.get(self.flavour) or RERANK_APIS.get(self.api)

    @property
    def labels(self) -> list[str]:
        """The labels of the fenced texts, in order."""
        return list(self.documents)

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema that the reply is asked to follow, if one is."""
        body = self.body if isinstance(self.body, dict) else {}
        generation = body.get("generationConfig") or {}
        tools = body.get("tools") or [{}]
        results = (
            _dig(body, "response_format", "json_schema", "schema")
            or _dig(body, "output_config", "format", "schema")
            or generation.get("responseJsonSchema")
            or generation.get("responseSchema")
            or tools[0].get("input_schema")
            or _dig(tools[0], "function", "parameters")
        )
        return results if isinstance(results, dict) else None

    @property
    def asks_for_json(self) -> bool:
        """Whether a JSON reply is asked for in any way but by prompt."""
        body = self.body if isinstance(self.body, dict) else {}
        generation = body.get("generationConfig") or {}
        mime = generation.get("responseMimeType")
        return bool(self.schema or body.get("response_format") or mime == "application/json")

    @property
    def tool(self) -> str | None:
        """The name of the tool whose use is demanded, if one is."""
        body = self.body if isinstance(self.body, dict) else {}
        if not body.get("tools") or not body.get("tool_choice"):
            return None
        tool = body["tools"][0]
        name: str | None = tool.get("name") or _dig(tool, "function", "name")
        return name


Wire: TypeAlias = bytes | Pause | End
Step: TypeAlias = Callable[[Request], Iterable[Wire]]
Grade: TypeAlias = Callable[[str], float]
Script: TypeAlias = Callable[[Request], Step]

_APIS = {
    "/chat/completions": "openai",
    "/v1/messages": "anthropic",
    ":generateContent": "google",
    "/v2/rerank": "cohere",
    "/v1/rerank": "jina",
    "/v1/reranking": "mixedbread",
    "/score": "vllm_score",
    "/rerank": "tei",
}
_PREFIXES = {
    "openai": "/openai/v1",
    "compatible": "/compatible/v1",
    "anthropic": "/anthropic",
    "google": "/google",
    "cohere": "/cohere",
    "jina": "/jina/v1",
    "tei": "/tei",
}


@dataclass(frozen=True)
class RerankApi:
    """What a rerank API calls the documents, the rows (empty: the whole answer) and a score."""

    documents: str = "documents"
    rows: str = "results"
    score: str = "relevance_score"


RERANK_APIS = {
    "cohere": RerankApi(),
    "jina": RerankApi(),
    "tei": RerankApi("texts", "", "score"),
    "voyage": RerankApi(rows="data"),
    "mixedbread": RerankApi("input", "data", "score"),
    "vllm": RerankApi(),
    "vllm_score": RerankApi("text_2", "data", "score"),
    "infinity": RerankApi(),
    "llama_cpp": RerankApi(),
}
_FENCE = re.compile(r'<doc id="([^"]*)">(.*?)</doc>', re.DOTALL)


class FakeProvider:
    """The server. It listens from ``__enter__`` to ``__exit__``, in one daemon thread.

    Args:
        steps: as for :meth:`play`; without any, every reply is good.
        schemaless: flavours that serve no request with a JSON schema. It is answered 400 and
            counted in ``schemas_refused``, and the script does not see it.
        tls: what a TLS handshake is answered with: ``close``, ``garbage`` or ``silence``.
        port: where to listen; 0 for any that is free.

    Attributes:
        requests: the requests that the script has answered, in the order they came.
        schemas_refused: how many were not served for their schema.
        handshakes: how many connections began with a TLS handshake.
        connections: how many there were.
        under_way: how many requests are being answered.
        most_at_once: the largest number of requests that were under way together.
    """

    def __init__(
        self, *steps: Step, schemaless: Collection[str] = (), tls: str = "close", port: int = 0
    ) -> None:
        self.schemaless = schemaless
        self.tls = tls
        self.connections = 0
        self.port = port
        self.under_way = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._serve, name="fake-provider", daemon=True)
        self.play(*steps)

    def __enter__(self) -> FakeProvider:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def base_url(self, flavour: str, scheme: str = "http") -> str:
        """The base URL as the client of a flavour wants it."""
        return f"{scheme}://127.0.0.1:{self.port}{_PREFIXES.get(flavour, f'/{flavour}')}"

    def llm(self, flavour: str, **settings: Any) -> dict[str, Any]:
        """The configuration of a language model that asks this provider."""
        kind = "openai" if flavour == "compatible" else flavour
        return {"type": kind, "model": "m", "base_url": self.base_url(flavour), **settings}

    def play(self, *steps: Step, then: Step | None = None) -> None:
        """Answer with one step after the other; afterwards with ``then``, or the last one again."""
        last = then or (steps[-1] if steps else good())
        self.play_by(lambda request: [*steps, last][min(request.number, len(steps))])

    def play_by(self, script: Script) -> None:
        """Answer with the step that a function chooses for each request."""
        # A connection that the last script ends must be seen to have ended, or a client uses it.
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result()
        self.script = script
        self.requests: list[Request] = []
        self.schemas_refused = 0
        self.handshakes = 0
        self.most_at_once = 0

    @property
    def calls(self) -> int:
        """All requests since the script began."""
        return len(self.requests) + self.schemas_refused

    # ------------------------------------------------------------------ in the server's thread

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._run())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _settle(self) -> None:
        for _ in range(10):  # what has begun ends within a few rounds of the loop
            await asyncio.sleep(0)

    async def _run(self) -> None:
        self._stopping = asyncio.Event()
        # Not too small a limit, as a prompt may be one long line.
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=2**26)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        # asyncio leaves a connection open that it accepts while its server is closed.
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        await asyncio.sleep(0.002)
        server.close()
        # Silent connections are cut, not waited for; one that was just accepted is here soon.
        for _ in range(5):
            await asyncio.sleep(0.002)
            for writer, task in self._open.items():
                writer.transport.abort()
                task.cancel()
        await asyncio.gather(*self._open.values(), return_exceptions=True)
        await server.wait_closed()
        await self._settle()  # transports close their sockets in the loop's next rounds

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open[writer] = asyncio.create_task(self._converse(reader, writer))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that leaves, or a provider that closes, ends a connection at any await.
        gone = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with suppress(*gone):
            while await self._exchange(reader, writer):
                pass
        writer.close()
        with suppress(*gone):
            await writer.wait_closed()
        if not self._stopping.is_set():
            del self._open[writer]

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it; whether the connection can take another."""
        first = await reader.read(1)
        if not first:
            return False
        if first == b"\x16":
            await self._refuse_handshake(reader, writer)
            return False
        request = await self._read(first, reader)
        if request.schema and request.flavour in self.schemaless:
            self.schemas_refused += 1
            step = schema_refused()
        else:
            request.number = len(self.requests)
            self.requests.append(request)
            step = self.script(request) if request.api else status(404)
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            return await self._send(step(request), reader, writer)
        finally:
            self.under_way -= 1

    async def _read(self, first: bytes, reader: asyncio.StreamReader) -> Request:
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.rstrip().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
        }
        if headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b""
            while size := int(await reader.readline(), 16):
                raw += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            raw = await reader.readexactly(int(headers.get("content-length", 0)))
        path = line.split(" ")[1]
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        origin = f"http://localhost:{self.port}"
        return Request(0, path.split("/")[1], path, headers, body, time.monotonic(), origin)

    async def _send(
        self, wire: Iterable[Wire], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        for part in wire:
            if isinstance(part, bytes):
                writer.write(part)
                await writer.drain()
            elif isinstance(part, Pause):
                with suppress(TimeoutError):  # the client may leave in the meantime
                    if not await asyncio.wait_for(reader.read(1), part.seconds):
                        return False
            elif part is End.HOLD:
                await reader.read()
                return False
            else:
                if part is End.RESET:
                    # Linger for no time: the kernel then sends a reset instead of an orderly end.
                    option = struct.pack("ii", 1, 0)
                    peer = writer.get_extra_info("socket")
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
                    writer.transport.abort()
                return False
        return True

    async def _refuse_handshake(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.handshakes += 1
        if self.tls == "garbage":
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        elif self.tls == "silence":
            await reader.read()


# ---------------------------------------------------------------------- good replies


def by_number(text: str) -> float:
    """The first number in a text; 0 where there is none."""
    match = re.search(r"\d+", text)
    return float(match.group()) if match else 0.0


def grades_of(request: Request, grade: Grade = by_number) -> dict[str, float]:
    """The grade of each label of a request."""
    return {label: grade(text) for label, text in request.documents.items()}


def reply_text(
    request: Request, grade: Grade = by_number, form: str = "auto", bare: bool = False
) -> str:
    """The JSON of a good answer.

    Args:
        request: what was asked.
        grade: of a text; the highest is best.
        form: ``keyed``, ``pairs``, ``index pairs`` or ``ranking``; ``auto`` follows the request's
            schema, and without one the words of its prompt.
        bare: an array stands alone, not in an object.
    """
    grades = grades_of(request, grade)
    if form == "auto" and request.schema is not None:
        return json.dumps(_by_schema(request.schema, grades))
    if form == "auto":
        form = _form_by_prompt(request)
    if form == "keyed":
        return json.dumps(grades)
    if form == "ranking":
        return json.dumps(best_first(grades) if bare else {"ranking": best_first(grades)})
    key = "id" if form == "pairs" else "index"
    rows = [
        {key: int(label) if key == "index" else label, "score": value}
        for label, value in grades.items()
    ]
    return json.dumps(rows if bare else {"grades": rows})


def best_first(grades: Mapping[str, float]) -> list[str]:
    """The labels by falling grade; equals keep their order."""
    return sorted(grades, key=lambda label: -grades[label])


def _by_schema(schema: Mapping[str, Any], grades: Mapping[str, float]) -> Any:
    """A value that the schema admits, with the grades where labels stand."""
    kind = schema.get("type")
    if isinstance(kind, str) and kind.lower() == "array":
        return _array_by_schema(schema["items"], grades)
    if "properties" not in schema:
        return "because"
    value: dict[str, Any] = {}
    for name, own in schema["properties"].items():
        value[name] = grades[name] if name in grades else _by_schema(own, grades)
    return value


def _array_by_schema(items: Mapping[str, Any], grades: Mapping[str, float]) -> list[Any]:
    names = list(items.get("properties", {}))
    if not names:
        numeric = str(items.get("type", "")).lower() == "integer"
        return [int(label) if numeric else label for label in best_first(grades)]
    key = "index" if "index" in names else "id"
    score = next(name for name in names if name in {"score", "grade"})
    numeric = str(items["properties"][key].get("type", "")).lower() == "integer"
    return [
        {key: int(label) if numeric else label, score: value} for label, value in grades.items()
    ]


def _form_by_prompt(request: Request) -> str:
    text = "\n".join(request.messages)
    if '"ranking"' in text:
        return "ranking"
    if '"grades"' in text:
        return "index pairs" if '"index"' in text else "pairs"
    return "keyed"


def envelope(request: Request, text: str) -> dict[str, Any]:
    """The reply of the API that was asked, around a text."""
    if request.api == "anthropic":
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
        stop = "end_turn"
        if request.tool:
            with suppress(ValueError):
                tool = {"type": "tool_use", "id": "toolu_1", "name": request.tool}
                blocks, stop = [{**tool, "input": json.loads(text)}], "tool_use"
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "fake",
            "content": blocks,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        }
    if request.api == "google":
        content = {"role": "model", "parts": [{"text": text}]}
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": INPUT_TOKENS,
                "candidatesTokenCount": OUTPUT_TOKENS,
                "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
            },
            "modelVersion": "fake",
            "responseId": "r1",
        }
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def rerank_envelope(request: Request, results: Sequence[Mapping[str, Any]]) -> Any:
    """The reply of the rerank API that was asked, around rows of ``index`` and ``score``."""
    api = request.rerank or RERANK_APIS["tei"]
    rows = [
        {{"score": api.score}.get(name, name): value for name, value in row.items()}
        for row in results
    ]
    if not api.rows:
        return rows
    if request.api == "cohere":
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        return {"id": "r1", api.rows: rows, "meta": meta}
    usage = {"prompt_tokens": INPUT_TOKENS, "total_tokens": INPUT_TOKENS}
    return {"id": "r1", "model": "fake", "object": "rerank", "usage": usage, api.rows: rows}


def rerank_rows(request: Request, grade: Grade = by_number) -> list[dict[str, Any]]:
    """The rows of a good answer of a rerank API: best first, with scores of 0 to 1."""
    grades = grades_of(request, grade)
    count = request.body.get("top_n") or request.body.get("top_k") or len(grades)
    rows = [
        {"index": int(index), "score": min(1.0, grades[index] / 10)} for index in best_first(grades)
    ]
    return rows[:count]


# ---------------------------------------------------------------------- steps: what works


def good(
    grade: Grade = by_number, form: str = "auto", bare: bool = False, after: float = 0.0
) -> Step:
    """A good reply, ``after`` some seconds."""

    def step(request: Request) -> Iterator[Wire]:
        if after:
            yield Pause(after)
        if request.rerank:
            yield http(200, rerank_envelope(request, rerank_rows(request, grade)))
        else:
            yield http(200, envelope(request, reply_text(request, grade, form, bare)))

    return step


def http(
    code: int,
    body: Any = b"",
    headers: Mapping[str, str] | None = None,
    kind: str = "application/json",
    reason: str = "Said",
) -> bytes:
    """A whole response; ``body`` is bytes, or made JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Content-Type": kind, "Content-Length": str(len(raw)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {code} {reason}\r\n{head}\r\n".encode("latin-1") + raw


def raw(*parts: Wire) -> Step:
    """These parts, whatever was asked."""
    return lambda _request: iter(parts)


def good_bytes(request: Request) -> bytes:
    """The JSON of a whole good reply, envelope included."""
    return json.dumps(envelope(request, reply_text(request))).encode()


def good_but(change: Callable[[Request, bytes], Iterable[Wire]]) -> Step:
    """What a function makes of the request and the bytes of a good reply's body."""
    return lambda request: change(request, good_bytes(request))


# ---------------------------------------------------------------------- steps: transport


def silence() -> Step:
    """Nothing, for ever."""
    return raw(End.HOLD)


def headers_then_silence() -> Step:
    """A status line and headers, then nothing."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
    return raw(head, b'{"id": ', End.HOLD)


def drip(seconds: float = 0.02) -> Step:
    """A good reply, a byte at a time: no single read takes long, all of them together do."""

    def step(request: Request) -> Iterator[Wire]:
        for byte in http(200, good_bytes(request)):
            yield bytes([byte])
            yield Pause(seconds)

    return step


def endless_space(seconds: float = 0.02) -> Step:
    """White space before the JSON, without end, as some gateways send to keep a line open."""

    def step(_request: Request) -> Iterator[Wire]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        yield b"Transfer-Encoding: chunked\r\n\r\n"
        while True:
            yield b"1\r\n \r\n"
            yield Pause(seconds)

    return step


def endless_headers(seconds: float = 0.02) -> Step:
    """Header lines without end."""

    def step(_request: Request) -> Iterator[Wire]:
        yield b"HTTP/1.1 200 OK\r\n"
        while True:
            yield b"X-More: 1\r\n"
            yield Pause(seconds)

    return step


def redirect(code: int, loop: bool = False) -> Step:
    """A redirect to another origin (the same port under another name), or onto itself."""

    def step(request: Request) -> Iterator[Wire]:
        where = request.path if loop else f"{request.origin}/elsewhere{request.path}"
        yield http(code, {"see": "there"}, {"Location": where})

    return step


def page(code: int = 200) -> Step:
    """A web page, as portals and proxies send."""
    text = "<!doctype html><html><title>5 results</title><body>Sign in: 7, 9</body></html>"
    return raw(http(code, text.encode(), kind="text/html; charset=utf-8"))


def chunked(*chunks: bytes, end: Sequence[Wire] = (b"0\r\n\r\n",)) -> Step:
    """These raw bytes after the headers of a chunked response."""
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return raw(head, *chunks, *end)


def in_chunks() -> Step:
    """A good reply in chunks; no fault."""

    def step(request: Request) -> Iterator[Wire]:
        body = good_bytes(request)
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        yield b"Transfer-Encoding: chunked\r\n\r\n"
        for part in (body[:7], body[7:]):
            yield f"{len(part):x}\r\n".encode() + part + b"\r\n"
        yield b"0\r\n\r\n"

    return step


@cache
def _bomb(megabytes: int) -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    packed = packer.compress(b'{"choices": "')
    for _ in range(megabytes):
        packed += packer.compress(bytes(2**20))
    return packed + packer.flush()


def gzip_bomb(megabytes: int = 256) -> Step:
    """A small body that unpacks to a large one."""
    return lambda _request: [http(200, _bomb(megabytes), {"Content-Encoding": "gzip"})]


def encoded(encoding: str, truthfully: bool = False) -> Step:
    """A good reply that claims an encoding; truthfully only with gzip."""

    def step(request: Request) -> Iterator[Wire]:
        body = good_bytes(request)
        packed = gzip.compress(body) if truthfully else body
        yield http(200, packed, {"Content-Encoding": encoding})

    return step


def many_headers(count: int, length: int) -> Step:
    """A good reply under a great many headers."""

    def step(request: Request) -> Iterator[Wire]:
        yield http(
            200, good_bytes(request), {f"X-Filler-{index}": "x" * length for index in range(count)}
        )

    return step


# ---------------------------------------------------------------------- steps: status


def status(
    code: int,
    message: str = "it cannot be done",
    *,
    headers: Mapping[str, str] | None = None,
    kind: str | None = None,
    error_code: str | None = None,
    leak: bool = True,
    **members: Any,
) -> Step:
    """An error in the words of the API that was asked.

    Args:
        code: the HTTP status.
        message: for people.
        headers: besides the usual ones.
        kind: the error's ``type`` (``status`` for Google) instead of the usual one.
        error_code: the error's ``code``, where the dialect has one.
        leak: repeat the key and the passages in the message.
        members: further members of the error.
    """

    def step(request: Request) -> Iterator[Wire]:
        text = message
        if leak:
            text += f" ({LEAK}key {request.key}, {' '.join(request.documents.values())})"
        yield http(code, _error(request, code, text, kind, error_code, members), headers)

    return step


def _error(
    request: Request,
    code: int,
    message: str,
    kind: str | None,
    error_code: str | None,
    members: Mapping[str, Any],
) -> Any:
    if request.api == "anthropic":
        named = kind or _ANTHROPIC_KINDS.get(code, "api_error")
        error = {"type": named, "message": message, **members}
        return {"type": "error", "error": error, "request_id": "req_1"}
    if request.api == "google":
        named = kind or _GOOGLE_KINDS.get(code, "UNKNOWN")
        return {"error": {"code": code, "message": message, "status": named, **members}}
    if request.api == "cohere":
        return {"id": "r1", "message": message, **members}
    if request.api == "tei":
        return {"error": message, "error_type": kind or "validation", **members}
    if request.api == "jina":
        return {"detail": message, **members}
    if request.flavour == "compatible":
        # As vLLM says it; a number in "code", and no "error" around.
        named = kind or "BadRequestError"
        return {"object": "error", "message": message, "type": named, "param": None, "code": code}
    named = kind or _OPENAI_KINDS.get(code, "server_error")
    error = {"message": message, "type": named, "param": None, "code": error_code, **members}
    return {"error": error}


_OPENAI_KINDS = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    422: "invalid_request_error",
    429: "requests",
}
_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_GOOGLE_KINDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def by_api(**steps: Step) -> Step:
    """Another step for each dialect; ``other`` for the rest, ``compatible`` before ``openai``."""

    def step(request: Request) -> Iterable[Wire]:
        chosen = steps.get(request.flavour) or steps.get(request.api) or steps["other"]
        return chosen(request)

    return step


def refusing(
    applies: Callable[[Request], bool], error: Step, otherwise: Step | None = None
) -> Step:
    """An error for the requests that a function says yes to, and a good reply to the others."""

    def step(request: Request) -> Iterable[Wire]:
        return (error if applies(request) else otherwise or good())(request)

    return step


def schema_refused() -> Step:
    """400, as servers say that they take no JSON schema."""
    return by_api(
        openai=status(
            400,
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported "
            "with this model.",
            param="response_format",
        ),
        anthropic=status(400, "output_config: Extra inputs are not permitted"),
        google=status(
            400,
            'Invalid JSON payload received. Unknown name "responseJsonSchema" at '
            "'generation_config': Cannot find field.",
        ),
        other=status(400, "response_format.type: Input should be 'text' or 'json_object'"),
    )


def json_refused() -> Step:
    """400, as servers say that they take no ``response_format`` or MIME type at all."""
    return by_api(
        google=status(400, "JSON mode is not enabled for this model"),
        anthropic=status(400, "output_config: Extra inputs are not permitted"),
        other=status(
            400, "Unsupported parameter: 'response_format'", error_code="unsupported_parameter"
        ),
    )


def temperature_refused() -> Step:
    """400, as providers say that this model takes no temperature."""
    return by_api(
        anthropic=status(400, "`temperature` is deprecated for this model."),
        google=status(400, "Unable to submit request because temperature is not supported"),
        other=status(
            400,
            "Unsupported value: 'temperature' does not support 0.0 with this model. Only the "
            "default (1) value is supported.",
            error_code="unsupported_value",
            param="temperature",
        ),
    )


def has_temperature(request: Request) -> bool:
    """Whether a request sets the temperature."""
    body = request.body
    return "temperature" in body or "temperature" in (body.get("generationConfig") or {})


TOO_LONG = {
    "openai": (
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "9210 tokens. Please reduce the length of the messages.",
        "context_length_exceeded",
    ),
    "compatible": (
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context "
        "length is 2048 tokens and your request has 1990 input tokens",
        None,
    ),
    "anthropic": (400, "prompt is too long: 210344 tokens > 200000 maximum", None),
    "google": (
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        None,
    ),
}
"""How each provider says that the prompt does not fit."""

TOO_LONG_ELSEWHERE = {
    "llama.cpp": (
        400,
        "the request exceeds the available context size. try increasing the context size",
    ),
    "vLLM": (
        400,
        "This model's maximum context length is 2048 tokens. However, you requested 4000 tokens "
        "(2000 in the messages, 2000 in the completion).",
    ),
    "Groq": (413, "Request too large for model `m` on tokens per minute (TPM): Limit 6000"),
    "LiteLLM": (400, "litellm.ContextWindowExceededError: input is too long for requested model"),
    "Ollama": (400, "input length exceeds the context length"),
}
"""How servers that speak OpenAI's dialect word it."""


def too_long() -> Step:
    """The prompt does not fit, in each provider's words."""
    steps = {
        name: status(code, message, error_code=error_code)
        for name, (code, message, error_code) in TOO_LONG.items()
    }
    return by_api(**steps)


def quota_used_up() -> Step:
    """No money left, which waiting does not help."""
    return by_api(
        openai=status(
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            kind="insufficient_quota",
            error_code="insufficient_quota",
        ),
        compatible=status(429, "insufficient_quota: buy more", kind="insufficient_quota"),
        anthropic=status(
            400, "Your credit balance is too low to access the Anthropic API. Go to Plans & Billing"
        ),
        google=status(
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            details=[
                {
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
                }
            ],
        ),
    )


def content_filtered() -> Step:
    """A filter of the provider keeps the answer back."""
    return by_api(
        anthropic=refused(),
        google=changed(
            lambda reply: reply["candidates"][0].update(finishReason="SAFETY", content={})
        ),
        other=changed(
            lambda reply: reply["choices"][0].update(
                finish_reason="content_filter", message={"role": "assistant", "content": None}
            )
        ),
    )


def prompt_blocked() -> Step:
    """A filter of the provider keeps the prompt from the model."""
    return by_api(
        anthropic=status(400, "Output blocked by content filtering policy"),
        google=lambda request: [
            http(
                200,
                {
                    "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                    "usageMetadata": {"promptTokenCount": INPUT_TOKENS},
                },
            )
        ],
        other=status(
            400,
            "The response was filtered due to the prompt triggering the content management policy.",
            error_code="content_filter",
            kind="content_filter",
        ),
    )


def refused() -> Step:
    """The model declines to answer."""
    return by_api(
        anthropic=changed(
            lambda reply: reply.update(
                stop_reason="refusal", content=[{"type": "text", "text": "I can't help with 5."}]
            )
        ),
        google=changed(
            lambda reply: reply["candidates"][0].update(
                finishReason="PROHIBITED_CONTENT", content={}
            )
        ),
        other=changed(
            lambda reply: reply["choices"][0].update(
                message={"role": "assistant", "content": None, "refusal": "I can't help with 5."}
            )
        ),
    )


# ---------------------------------------------------------------------- steps: envelope


def changed(change: Callable[[Any], object], text: str | None = None) -> Step:
    """A good reply, after a function has changed its envelope in place."""

    def step(request: Request) -> Iterator[Wire]:
        reply = envelope(request, reply_text(request) if text is None else text)
        change(reply)
        yield http(200, reply)

    return step


def body(value: Any, kind: str = "application/json") -> Step:
    """A response of status 200 with this body."""
    return raw(http(200, value, kind=kind))


def without_choices(empty: bool) -> Step:
    """No choice to take a text from: an empty list of them, or none."""

    def change(name: str) -> Step:
        return changed(lambda reply: reply.update({name: []}) if empty else reply.pop(name))

    return by_api(anthropic=change("content"), google=change("candidates"), other=change("choices"))


def content(value: Any) -> Step:
    """Something in the place of the text: None, a list, a number."""

    def change_google(reply: Any) -> None:
        reply["candidates"][0]["content"] = {"parts": value} if isinstance(value, list) else value

    return by_api(
        anthropic=changed(lambda reply: reply.update(content=value)),
        google=changed(change_google),
        other=changed(lambda reply: reply["choices"][0]["message"].update(content=value)),
    )


def text_in_parts() -> Step:
    """The text as a list of two parts, which some servers send and some APIs allow."""

    def change(make: Callable[[str], dict[str, Any]]) -> Step:
        def step(request: Request) -> Iterator[Wire]:
            text = reply_text(request)
            parts = [make(text[:9]), make(text[9:])]
            reply = envelope(request, text)
            if request.api == "anthropic":
                reply["content"] = parts
            elif request.api == "google":
                reply["candidates"][0]["content"]["parts"] = parts
            else:
                reply["choices"][0]["message"]["content"] = parts
            yield http(200, reply)

        return step

    return by_api(
        google=change(lambda text: {"text": text}),
        other=change(lambda text: {"type": "text", "text": text}),
    )


def cut_off() -> Step:
    """The reply ends in the middle of its JSON, at the largest number of tokens."""

    def step(request: Request) -> Iterator[Wire]:
        text = reply_text(request)
        reply = envelope(request, text[: len(text) // 2])
        _finish(request, reply, "length", "max_tokens", "MAX_TOKENS")
        yield http(200, reply)

    return step


def cut_off_before_the_first_word() -> Step:
    """All tokens went into thinking, and the text is empty."""

    def step(request: Request) -> Iterator[Wire]:
        reply = envelope(request, "")
        if request.api == "google":
            reply["candidates"][0]["content"] = {"role": "model"}
        _finish(request, reply, "length", "max_tokens", "MAX_TOKENS")
        yield http(200, reply)

    return step


def _finish(request: Request, reply: Any, openai: str, anthropic: str, google: str) -> None:
    if request.api == "anthropic":
        reply["stop_reason"] = anthropic
    elif request.api == "google":
        reply["candidates"][0]["finishReason"] = google
    else:
        reply["choices"][0]["finish_reason"] = openai


def tool_call_instead() -> Step:
    """A call of a tool that was not offered."""
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"a": 5}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    use = {"type": "tool_use", "id": "t1", "name": "search", "input": {"a": 5}}
    parts = [{"functionCall": {"name": "search", "args": {"a": 5}}}]
    return by_api(
        anthropic=changed(lambda reply: reply.update(content=[use], stop_reason="tool_use")),
        google=changed(lambda reply: reply["candidates"][0]["content"].update(parts=parts)),
        other=changed(
            lambda reply: reply["choices"][0].update(message=message, finish_reason="tool_calls")
        ),
    )


def thinking_before() -> Step:
    """Thoughts beside the text, in the place that each dialect has for them; no fault."""

    def change_google(reply: Any) -> None:
        parts = reply["candidates"][0]["content"]["parts"]
        parts.insert(0, {"text": 'Perhaps {"a": 1}', "thought": True})

    thought = {"type": "thinking", "thinking": 'Perhaps {"a": 1}', "signature": "s"}
    return by_api(
        anthropic=changed(lambda reply: reply["content"].insert(0, thought)),
        google=changed(change_google),
        other=changed(
            lambda reply: reply["choices"][0]["message"].update(reasoning_content='{"a": 1}')
        ),
    )


def usage(value: Any) -> Step:
    """Something in the place of the usage; None takes it out."""

    def change(name: str) -> Step:
        return changed(
            lambda reply: reply.pop(name) if value is None else reply.update({name: value})
        )

    return by_api(google=change("usageMetadata"), other=change("usage"))


def typed(kind: str) -> Step:
    """A good reply under another content type; an empty one takes the header out."""
    return good_but(lambda _request, whole: [http(200, whole, kind=kind)])


def event_stream() -> Step:
    """A stream of events, which was not requested."""
    return good_but(
        lambda _request, whole: [
            http(200, b"data: " + whole + b"\n\ndata: [DONE]\n\n", kind="text/event-stream")
        ]
    )


# ---------------------------------------------------------------------- steps: payload


@dataclass
class Answer:
    """What a reply could say, for functions that say it wrongly.

    Attributes:
        grades: by label, in the order of the request.
    """

    grades: dict[str, float] = field(default_factory=dict)

    @property
    def rerank(self) -> RerankApi | None:
        """The rerank API that was asked, by its name or by its path."""
        return RERANK_APIS.get(self.flavour) or RERANK_APIS.get(self.api)

    @property
    def labels(self) -> list[str]:
        """In the order of the request."""
        return list(self.grades)

    @property
    def ranking(self) -> list[str]:
        """The labels, best first."""
        return best_first(self.grades)

    @property
    def json(self) -> str:
        """The keyed object."""
        return json.dumps(self.grades)

    def but(self, value: Any) -> str:
        """The keyed object with another value for the first label."""
        return json.dumps({**self.grades, self.labels[0]: value})

    def but_raw(self, value: str) -> str:
        """The same with a value that need not be JSON."""
        return self.but("@@").replace('"@@"', value)

    def pairs(self, key: str = "id", score: str = "score") -> list[dict[str, Any]]:
        """The rows of the reply form ``pairs``."""
        return [{key: label, score: value} for label, value in self.grades.items()]


def says(make: Callable[[Answer], Any], grade: Grade = by_number) -> Step:
    """The text that a function makes of the right answer; what is not a string is made JSON."""

    def step(request: Request) -> Iterator[Wire]:
        reply = make(Answer(grades_of(request, grade)))
        text = reply if isinstance(reply, str) else json.dumps(reply)
        yield http(200, envelope(request, text))

    return step


# ---------------------------------------------------------------------- steps: rerank APIs

RERANK_FAULTS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "index out of range": lambda rows: [{**rows[0], "index": len(rows)}, *rows[1:]],
    "index far out of range": lambda rows: [{**rows[0], "index": 10**30}, *rows[1:]],
    "index negative": lambda rows: [{**rows[0], "index": -1}, *rows[1:]],
    "index doubled": lambda rows: [rows[0], *rows],
    "index doubled with another score": lambda rows: [*rows, {**rows[0], "score": 0.001}],
    "index missing": lambda rows: [{"score": rows[0]["score"]}, *rows[1:]],
    "index a string": lambda rows: [{**row, "index": str(row["index"])} for row in rows],
    "index a float": lambda rows: [{**rows[0], "index": 0.5}, *rows[1:]],
    "index a boolean": lambda rows: [{**rows[0], "index": True}, *rows[1:]],
    "index none": lambda rows: [{**rows[0], "index": None}, *rows[1:]],
    "score not a number": lambda rows: [{**rows[0], "score": float("nan")}, *rows[1:]],
    "score infinite": lambda rows: [{**rows[0], "score": float("inf")}, *rows[1:]],
    "score none": lambda rows: [{**rows[0], "score": None}, *rows[1:]],
    "score a string": lambda rows: [{**rows[0], "score": "0.9"}, *rows[1:]],
    "score a boolean": lambda rows: [{**rows[0], "score": True}, *rows[1:]],
    "score missing": lambda rows: [{"index": rows[0]["index"]}, *rows[1:]],
    "score nested": lambda rows: [{**rows[0], "score": [0.9]}, *rows[1:]],
    "scores unsorted": lambda rows: sorted(rows, key=lambda row: row["index"]),
    "fewer results than asked": lambda rows: rows[:-1],
    "more results than asked": lambda rows: [*rows, *({**row, "index": 99} for row in rows)],
    "no results": lambda rows: [],
    "results none": lambda rows: None,
    "results a mapping": lambda rows: {str(row["index"]): row["score"] for row in rows},
    "rows are lists": lambda rows: [[row["index"], row["score"]] for row in rows],
    "rows are none": lambda rows: [None for _ in rows],
}
"""What a rerank API may answer: functions of the right rows of ``index`` and ``score``."""


def rerank_answers(change: Callable[[list[dict[str, Any]]], Any]) -> Step:
    """The reply of a rerank API whose rows a function has changed."""

    def step(request: Request) -> Iterator[Wire]:
        rows = change(rerank_rows(request))
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            yield http(200, rerank_envelope(request, rows))
            return
        reply = rerank_envelope(request, [])
        named = request.rerank.rows if request.rerank else ""
        yield http(200, {**reply, named: rows} if named else rows)

    return step


# ---------------------------------------------------------------------- small parts


def http_date(seconds_from_now: float) -> str:
    """A date as ``Retry-After`` may hold one."""
    return formatdate(time.time() + seconds_from_now, usegmt=True)


def unused_port() -> int:
    """A port on which no server listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def _texts(value: Any) -> Iterator[str]:
    """The texts of message contents, however deep each dialect nests them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for name in ("content", "parts", "text"):
            if name in value:
                yield from _texts(value[name])


def _dig(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
