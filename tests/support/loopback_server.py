"""The server of rerankers, listening on loopback in a thread of this process."""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
from collections.abc import Mapping
from contextvars import Context
from typing import Any

import httpx

from secondpass import Reranker
from secondpass.adapters.http_server.application import create_app
from secondpass.adapters.http_server.server import Plan, Server
from secondpass.adapters.http_server.settings import ServerSettings

_TICK = 0.1
"""Seconds that uvicorn sleeps before it looks again whether it should end."""


class _Loop(asyncio.SelectorEventLoop):
    """Makes uvicorn's sleeps short, so that a server ends soon."""

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_later(
            0.01 if delay == _TICK else delay, callback, *args, context=context
        )


@functools.cache
def _client() -> httpx.Client:
    """Opens a connection for each request. Its TLS context takes 30 ms, so all servers share it."""
    alone = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(timeout=30, trust_env=False, limits=alone)


class LoopbackServer:
    """The server, from ``__enter__`` to ``__exit__``.

    Args:
        rerankers: by model name, or one, whose name is ``m``.
        tls: paths of a certificate and of its key.
        settings: of the application.
    """

    def __init__(
        self,
        rerankers: Reranker | Mapping[str, Reranker],
        *,
        tls: tuple[str, str] | tuple[None, None] = (None, None),
        **settings: Any,
    ) -> None:
        if isinstance(rerankers, Reranker):
            rerankers = {"m": rerankers}
        certificate, key = tls
        self.plan = Plan(
            {}, ServerSettings(**settings), port=0, tls_certificate=certificate, tls_key=key
        )
        self.application = create_app(rerankers, self.plan.settings)
        self.service = self.application.state.service
        self._listening = self.plan.bind()
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = Server(self.plan.config(self.application), self.service, drain=0.0)
        self._thread = threading.Thread(target=self._run, name="loopback-server", daemon=True)

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(self._server.serve(sockets=[self._listening]))

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a JSON body."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return _client().post(self.url + path, json=body, headers=names)

    def send(self, path: str, content: bytes) -> httpx.Response:
        """Send the bytes of a JSON body."""
        kind = {"Content-Type": "application/json"}
        return _client().post(self.url + path, content=content, headers=kind)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Get a path."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return _client().get(self.url + path, headers=names)

    def open_connections(self) -> int:
        """Number of connections."""
        return len(self._server.server_state.connections)

    def read_timers(self) -> list[Any]:
        """Of each connection, the end of the time for its response to be read, if it has one."""
        return [connection._read_timer for connection in self._server.server_state.connections]

    def connect(self) -> socket.socket:
        """A connection that speaks whatever the test writes."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)
