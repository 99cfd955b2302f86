"""The server."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

from fake_provider.errors import schema_refused, status
from fake_provider.requests import End, Pause, Request, Script, Step, Wire
from fake_provider.steps import good

_PREFIXES = {
    "openai": "/openai/v1",
    "compatible": "/compatible/v1",
    "anthropic": "/anthropic",
    "google": "/google",
    "cohere": "/cohere",
    "jina": "/jina/v1",
    "tei": "/tei",
}


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

    def play(self, *steps: Step) -> None:
        """Answer with one step after the other; afterwards with the last one again."""
        script = steps or (good(),)
        self.play_by(lambda request: script[min(request.number, len(script) - 1)])

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
        server.close()
        # Silent connections are cut, not waited for; a task of asyncio's brings one just accepted.
        this = asyncio.current_task()
        while tasks := asyncio.all_tasks() - {this}:
            for writer, task in self._open.items():
                writer.transport.abort()
                task.cancel()
            await asyncio.wait(tasks, timeout=0.01)
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


def unused_port() -> int:
    """A port on which no server listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port
