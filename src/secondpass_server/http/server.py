"""Runs the application with uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from secondpass import ConfigurationError
from secondpass.config import load
from secondpass_server.http.application import create_app
from secondpass_server.http.connections import Connection, Connections
from secondpass_server.http.service import Service
from secondpass_server.http.settings import ServerSettings, is_loopback

_KEEP_ALIVE = 75
"""Seconds that an idle connection stays open: longer than clients keep them, so that the server
does not close a connection while a client sends a request."""
_HEAD_BYTES = 2**15
"""Maximum bytes of the head of a request."""
_OTHER_FILES = 200
"""File descriptors of the process that are not connections of clients."""
_FEWEST_CONNECTIONS = 16


@dataclass(frozen=True)
class Plan:
    """The rerankers and settings of a server. It can be pickled for worker processes.

    Attributes:
        configurations: model name that clients send -> configuration of the reranker.
        settings: of the application.
        host: name or address to listen on.
        port: 0: any free port.
        workers: number of processes.
        drain: seconds after SIGTERM in which connections are still accepted, and closed after
            their response, so that clients and load balancers connect to other servers.
        grace: seconds after that for running requests to finish.
        tls_certificate, tls_key: paths of PEM files; None for HTTP.
    """

    configurations: Mapping[str, Mapping[str, Any]] = field(repr=False)
    settings: ServerSettings = field(default_factory=ServerSettings)
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    drain: float = 1.0
    grace: float = 25.0
    tls_certificate: str | None = None
    tls_key: str | None = None

    def checked(self) -> Plan:
        """Check the plan; without keys, the result accepts only local clients.

        Raises:
            ConfigurationError: other machines can reach the address, but no keys are set; or a
                configuration is wrong.
        """
        from dataclasses import replace

        from secondpass.settings import changed

        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigurationError("--tls-certificate, --tls-key: give both or neither")
        checked = self
        if not self.settings.demands_key:
            if not is_loopback(self.host):
                raise ConfigurationError(
                    f"--host {self.host}: other machines can reach it, so clients must send a key: "
                    "set --api-key-env or --api-key-file"
                )
            checked = replace(self, settings=changed(self.settings, local_names=True))
        checked.application()
        return checked

    def application(self) -> Any:
        """The application.

        Raises:
            ConfigurationError: a configuration is wrong.
        """
        rerankers = {name: load(config) for name, config in self.configurations.items()}
        return create_app(rerankers, self.settings)

    def bind(self) -> socket.socket:
        """A socket that listens on the address.

        Raises:
            ConfigurationError: the address is not available.
        """
        try:
            family, _, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, socket.SOCK_STREAM, protocol)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listening.bind(address)
                listening.listen(2048)
            except OSError:
                listening.close()
                raise
        except OSError as error:
            message = f"cannot listen on {self.host}, port {self.port}: {error.strerror}"
            raise ConfigurationError(message) from None
        listening.set_inheritable(True)
        return listening

    def url(self, listening: socket.socket) -> str:
        """The URL of the server on this socket."""
        scheme = "http" if self.tls_certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{listening.getsockname()[1]}"

    def config(self, application: Any) -> Config:
        """Settings of uvicorn."""
        # Its warnings are errors of clients, or are logged by the application.
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        metrics = getattr(getattr(application, "state", None), "metrics", None)
        return Config(
            application,
            Connections(_most_connections(self.settings.max_requests), metrics),
            loop="asyncio",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,  # the metrics count requests
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=max(1, round(self.grace)),
            h11_max_incomplete_event_size=_HEAD_BYTES,
            ssl_certfile=self.tls_certificate,
            ssl_keyfile=self.tls_key,
        )


def _most_connections(max_requests: int) -> int:
    """Maximum number of connections: several per request, as far as the system has descriptors."""
    wanted = 4 * max_requests + 100
    try:
        import resource
    except ModuleNotFoundError:  # on Windows
        return wanted
    needed = wanted + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return max(_FEWEST_CONNECTIONS, min(wanted, soft - _OTHER_FILES))


class Config(uvicorn.Config):
    """uvicorn's settings, with the connections of the server.

    Args:
        application: the ASGI application.
        connections: counts and limits them.
        settings: of uvicorn.
    """

    def __init__(self, application: Any, connections: Connections, **settings: Any) -> None:
        self.connections = connections
        protocol: Any = functools.partial(Connection, connections=connections)
        super().__init__(application, http=protocol, **settings)


class Server(uvicorn.Server):
    """uvicorn's server, which drains before it stops listening, and answers what was sent by then.

    Args:
        config: of uvicorn.
        service: its ``draining`` is set; None for another application.
        drain: seconds to accept connections after SIGTERM.
        early: has an item if SIGTERM came before the server took signals.

    Attributes:
        cut_off: number of requests that had not finished after the grace period.
    """

    def __init__(
        self, config: Config, service: Service | None, drain: float, early: Sequence[int] = ()
    ) -> None:
        super().__init__(config)
        self._connections = config.connections
        self.cut_off = 0
        self._service = service
        self._drain = drain
        self._early = early

    async def main_loop(self) -> None:
        """Serve until a signal; one that came before also drains."""
        if self._early:
            self.handle_exit(signal.SIGTERM, None)
        await super().main_loop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections for the drain period, then stop."""
        if self._service is not None:
            self._service.draining = True
        if signal.SIGINT not in self._captured_signals:  # Ctrl-C stops without draining
            await asyncio.sleep(self._drain)
        self._connections.closing = True
        await self._accept_last(sockets or [])
        watch = asyncio.create_task(self._count_cut_off())
        await super().shutdown(sockets)
        watch.cancel()
        if signal.SIGINT not in self._captured_signals:
            self._captured_signals.clear()  # uvicorn would raise SIGTERM again: exit code not 0

    async def _accept_last(self, sockets: list[socket.socket]) -> None:
        """Stop listening, and accept the connections that clients have made before."""
        loop = asyncio.get_running_loop()
        for listening in sockets:
            with contextlib.suppress(NotImplementedError):  # on Windows
                loop.remove_reader(listening.fileno())
        for _ in range(2):
            # What asyncio has accepted just now gets its transport, which a closed server refuses.
            await asyncio.sleep(0)
        accepted: list[socket.socket] = []
        for listening in sockets:
            with contextlib.suppress(OSError):  # none is left
                while True:
                    accepted.append(listening.accept()[0])
        for server in self.servers:
            server.close()
        for connection in accepted:
            connection.setblocking(False)
            with contextlib.suppress(OSError):  # such as a TLS handshake that failed
                await loop.connect_accepted_socket(self._protocol, connection, ssl=self.config.ssl)

    def _protocol(self) -> asyncio.Protocol:
        """The protocol of a connection, as uvicorn makes it."""
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    async def _count_cut_off(self) -> None:
        grace = self.config.timeout_graceful_shutdown or 0
        await asyncio.sleep(0.1 + grace)  # when uvicorn cancels the remaining requests
        self.cut_off = len(self.server_state.tasks)


@contextlib.contextmanager
def deferred_sigterm() -> Iterator[list[int]]:
    """Keep each SIGTERM in the list, until there is a server that takes it."""
    early: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: early.append(number))
    try:
        yield early
    finally:
        signal.signal(signal.SIGTERM, before)


def run(plan: Plan, listening: socket.socket, early: Sequence[int] = ()) -> tuple[int, int]:
    """Serve in this process until SIGTERM or SIGINT.

    Args:
        plan: what to serve.
        listening: the socket.
        early: of :func:`deferred_sigterm`.

    Returns:
        The numbers of requests that were answered, and that were cut off at the end.
    """
    application = plan.application()
    server = Server(plan.config(application), application.state.service, plan.drain, early)
    server.run(sockets=[listening])
    return server.server_state.total_requests, server.cut_off
