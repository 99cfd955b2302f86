"""Servers that listen on loopback in a thread of this process."""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
from collections.abc import Mapping
from contextvars import Context
from typing import Any, Self

import httpx

from secondpass import Reranker
from secondpass_server.http.application import create_app
from secondpass_server.http.server import Plan, Server
from secondpass_server.http.service import Service
from secondpass_server.http.settings import ServerSettings

_TICK = 0.1
"""Seconds between uvicorn's checks whether to exit."""


class _Loop(asyncio.SelectorEventLoop):
    """Shortens uvicorn's sleeps, so that a server exits quickly."""

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_later(
            0.01 if delay == _TICK else delay, callback, *args, context=context
        )


@functools.cache
def http_client() -> httpx.Client:
    """Opens a connection for each request. Its TLS context takes 30 ms, so all servers share it."""
    alone = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(timeout=60, trust_env=False, limits=alone)


class Loopback:
    """An application under our server, from ``__enter__`` to ``__exit__``."""

    def __init__(self, application: Any, plan: Plan) -> None:
        self.application = application
        self._listening = plan.bind()
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = Server(plan, application)
        self._thread = threading.Thread(target=self._run, name="loopback-server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(self._server.serve(sockets=[self._listening]))

    def stop(self) -> None:
        """Drain and end, as after SIGTERM."""
        self._server.should_exit = True

    def connect(self) -> socket.socket:
        """A connection for raw bytes."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def open_connections(self) -> int:
        """Number of connections."""
        return len(self._server.server_state.connections)

    def transports(self) -> list[asyncio.Transport]:
        """Of each connection."""
        return [connection.transport for connection in self._server.server_state.connections]

    def read_timers(self) -> list[Any]:
        """For each connection, the time limit for reading its response, if any."""
        return [
            connection.timers.get("read") for connection in self._server.server_state.connections
        ]


class LoopbackServer(Loopback):
    """The server of rerankers.

    Args:
        rerankers: by model name, or one, whose name is ``m``.
        tls: paths of a certificate and of its key.
        drain: seconds.
        settings: of the application.
    """

    def __init__(
        self,
        rerankers: Reranker | Mapping[str, Reranker],
        *,
        tls: tuple[str, str] | tuple[None, None] = (None, None),
        drain: float = 0.0,
        **settings: Any,
    ) -> None:
        if isinstance(rerankers, Reranker):
            rerankers = {"m": rerankers}
        certificate, key = tls
        plan = Plan(
            {},
            ServerSettings(**settings),
            port=0,
            drain=drain,
            tls_certificate=certificate,
            tls_key=key,
        )
        application = create_app(rerankers, plan.settings)
        self.service: Service = application.state.service
        super().__init__(application, plan)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a JSON body."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return http_client().post(self.url + path, json=body, headers=names)

    def send(self, path: str, content: bytes) -> httpx.Response:
        """Send the bytes of a JSON body."""
        kind = {"Content-Type": "application/json"}
        return http_client().post(self.url + path, content=content, headers=kind)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Get a path."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return http_client().get(self.url + path, headers=names)
