"""The server of rerankers, listening on loopback in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import Any

import httpx

from secondpass import Reranker
from secondpass.adapters.http_server.application import create_app
from secondpass.adapters.http_server.server import Plan, Server
from secondpass.adapters.http_server.settings import ServerSettings


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
        self._server.run(sockets=[self._listening])

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a JSON body."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(self.url + path, json=body, headers=names, timeout=30, trust_env=False)

    def send(self, path: str, content: bytes) -> httpx.Response:
        """Send the bytes of a JSON body."""
        kind = {"Content-Type": "application/json"}
        return httpx.post(
            self.url + path, content=content, headers=kind, timeout=30, trust_env=False
        )

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Get a path."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.get(self.url + path, headers=names, timeout=30, trust_env=False)

    def open_connections(self) -> int:
        """Number of connections."""
        return len(self._server.server_state.connections)

    def read_timers(self) -> list[Any]:
        """Of each connection, the end of the time for its response to be read, if it has one."""
        return [connection._read_timer for connection in self._server.server_state.connections]

    def connect(self) -> socket.socket:
        """A connection that speaks whatever the test writes."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)
