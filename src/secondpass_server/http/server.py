"""Runs the application with uvicorn, with limits of its connections."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from secondpass import ConfigurationError
from secondpass.ranking.diagnostics import log, log_exception
from secondpass.settings import changed
from secondpass_server.http.application import create_app
from secondpass_server.http.metrics import Metrics
from secondpass_server.http.service import Service
from secondpass_server.http.settings import ServerSettings
from secondpass_server.rerankers import load_all

HEAD_SECONDS = 10.0
"""Seconds in which the head of a request must arrive. uvicorn itself has no limit."""
READ_SECONDS = 30.0
READ_BYTES_PER_SECOND = 2**15
"""A client must read a response in ``READ_SECONDS`` plus its bytes / ``READ_BYTES_PER_SECOND``
seconds. uvicorn itself has no limit."""
_TIMEOUT = b"the head of the request did not arrive in time"
_LAST_REQUEST_SECONDS = 0.5
"""Seconds at the end of the server in which a request that was sent to an idle connection may still
arrive. Closing the connection before would reset it."""
_LOG_SECONDS = 60.0
"""Minimum seconds between log lines about too many connections."""


class Connections:
    """The open connections of a server. Beyond their maximum, the oldest idle one is closed.

    Those with a request are not closed: the number of these is limited by the application. While
    the server is ``closing``, new connections are open for one request at most.
    """

    def __init__(
        self, most: int, counts: Metrics | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most = most
        self.closing = False
        self._counts = counts
        self._clock = clock
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}  # the oldest first
        self._closed = 0
        self._logged: float | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> None:
        """Add a new connection; close the oldest idle one if there are too many."""
        self._open.add(connection)
        self._idle[connection] = None
        if len(self._open) > self.most:
            oldest = next(iter(self._idle))  # if all others are busy, the new one
            self.remove(oldest)
            oldest.transport.close()
            self._closed += 1
            if self._counts is not None:
                self._counts.closed_connections.inc()
            self._log()
        self._tell()

    def set_idle(self, connection: Connection, idle: bool) -> None:
        """State whether a connection waits for a request; if so, it is the youngest of these."""
        self._idle.pop(connection, None)
        if idle and connection in self._open:
            self._idle[connection] = None

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._tell()

    def _tell(self) -> None:
        if self._counts is not None:
            self._counts.connections.set(len(self._open))

    def _log(self) -> None:
        now = self._clock()
        if self._logged is None or now - self._logged >= _LOG_SECONDS:
            self._logged = now
            log(
                "warning",
                "%s connections are open; idle ones are closed to make room, %s so far",
                self.most,
                self._closed,
            )


class Connection(H11Protocol):
    """uvicorn's protocol, with limits on the time in which the head of a request arrives and in
    which a response is read.
    """

    def __init__(self, *, connections: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._all = connections
        self.timers: dict[str, asyncio.TimerHandle] = {}
        """The time limits that run: of the head, of reading a response, of a last request."""

    def _start_timer(self, name: str, seconds: float, late: Callable[[], None]) -> None:
        self.timers[name] = self.loop.call_later(seconds, late)

    def _stop_timer(self, name: str) -> None:
        if (timer := self.timers.pop(name, None)) is not None:
            timer.cancel()

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._all.add(self)
        self._start_timer("head", HEAD_SECONDS, self._head_is_late)
        if self._all.closing:
            self.shutdown()

    def data_received(self, data: bytes) -> None:
        """Start the timer for the rest of a head, unless a request is being answered."""
        super().data_received(data)
        if not self._is_idle:
            self._all.set_idle(self, idle=False)
            if "last" in self.timers:
                self.cycle.keep_alive = False
            self._stop_timer("head")
        elif "head" not in self.timers:
            self._start_timer("head", HEAD_SECONDS, self._head_is_late)

    def on_response_complete(self) -> None:
        """Start the timers for reading the response, and for a pipelined request."""
        super().on_response_complete()
        self._all.set_idle(self, idle=self._is_idle)
        # uvicorn writes no response before most of the previous one has been read, so a client that
        # does not read cannot postpone the limit.
        self._stop_timer("read")
        if unread := self._unread():
            seconds = READ_SECONDS + unread / READ_BYTES_PER_SECOND
            self._start_timer("read", seconds, self._reading_is_late)
        if self.conn.trailing_data[0] and "head" not in self.timers:
            self._start_timer("head", HEAD_SECONDS, self._head_is_late)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, as uvicorn does unless the request has no body, or an
        answer has begun: then it raises, and logs the bytes.
        """
        if not self._is_idle:
            # What the application answers from now on is dropped.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._refuse(400, "Bad Request", msg.encode())

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self)
        for name in [*self.timers]:
            self._stop_timer(name)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection after its response, or when no further request has arrived."""
        if self._is_idle:
            self._start_timer("last", _LAST_REQUEST_SECONDS, self._close_unused)
        else:
            super().shutdown()

    def _close_unused(self) -> None:
        # The head of a request that has begun to arrive has its own time limit.
        if self._is_idle and not self.conn.trailing_data[0] and not self.transport.is_closing():
            super().shutdown()

    def _head_is_late(self) -> None:
        del self.timers["head"]
        if self.transport.is_closing() or not self._is_idle:
            return
        if self.conn.trailing_data[0]:
            self._refuse(408, "Request Timeout", _TIMEOUT)
        self.transport.close()

    def _refuse(self, status: int, reason: str, text: bytes) -> None:
        """Send an error, unless an answer has begun, and close the connection."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
            is_head = not self._is_idle and self.cycle.scope["method"] == "HEAD"
            for event in (
                h11.Response(status_code=status, headers=headers, reason=reason.encode()),
                h11.Data(data=b"" if is_head else text),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _reading_is_late(self) -> None:
        del self.timers["read"]
        if self._unread():
            self.transport.abort()

    def _unread(self) -> int:
        """Bytes in the write buffers, because the client does not read."""
        transport: Any = self.transport
        # Encrypted bytes are in the underlying transport, to which asyncio gives no public access.
        underlying = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
        transports = (transport, underlying)
        return sum(item.get_write_buffer_size() for item in transports if item is not None)


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
        """Check the plan; without keys, the result accepts only local clients."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigurationError("--tls-certificate, --tls-key: give both or neither")
        self.settings.check_host(self.host)
        is_local = self.settings.local_names or not self.settings.demands_key
        checked = replace(self, settings=changed(self.settings, local_names=is_local))
        checked.application()
        return checked

    def application(self) -> Any:
        """The application with the rerankers of the configurations."""
        return create_app(load_all(self.configurations), self.settings)

    def bind(self) -> socket.socket:
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
        scheme = "http" if self.tls_certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{listening.getsockname()[1]}"


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


class Server(uvicorn.Server):
    """uvicorn's server, which drains before it stops listening, and answers what was sent by then.

    ``early`` has an item if SIGTERM came before the server took signals; ``cut_off`` is the number
    of requests that had not finished after the grace period.
    """

    def __init__(self, plan: Plan, application: Any, early: Sequence[int] = ()) -> None:
        # Its warnings are errors of clients, or are logged by the application.
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        logging.getLogger("uvicorn.error").addFilter(_without_traceback)
        state = getattr(application, "state", None)
        self._service: Service | None = getattr(state, "service", None)
        self._connections = Connections(
            _most_connections(plan.settings.max_requests), getattr(state, "metrics", None)
        )
        protocol: Any = functools.partial(Connection, connections=self._connections)
        config = uvicorn.Config(
            application,
            http=protocol,
            loop="asyncio",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,  # the metrics count requests
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=max(1, round(plan.grace)),
            h11_max_incomplete_event_size=_HEAD_BYTES,
            ssl_certfile=plan.tls_certificate,
            ssl_keyfile=plan.tls_key,
        )
        super().__init__(config)
        self.cut_off = 0
        self._drain = plan.drain
        self._early = early

    async def main_loop(self) -> None:
        """Serve until a signal; one that came before also drains."""
        asyncio.get_running_loop().set_exception_handler(_log_exception)
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
        protocol_class: Any = self.config.http_protocol_class
        protocol = functools.partial(  # as uvicorn makes it
            protocol_class,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        for connection in accepted:
            connection.setblocking(False)
            with contextlib.suppress(OSError):  # such as a TLS handshake that failed
                await loop.connect_accepted_socket(protocol, connection, ssl=self.config.ssl)

    async def _count_cut_off(self) -> None:
        grace = self.config.timeout_graceful_shutdown or 0
        await asyncio.sleep(0.1 + grace)  # when uvicorn cancels the remaining requests
        self.cut_off = len(self.server_state.tasks)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Log an exception in one line: its traceback may have bytes of a request."""
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        log_exception(error, "the server")
        log("error", "%s (%s)", record.getMessage().strip(), type(error).__name__)
    return error is None


def _log_exception(_loop: object, context: Mapping[str, Any]) -> None:
    """Log an exception that no one awaits, such as that of a connection, in one line."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        log_exception(error, "the server")
    log("error", "%s (%s)", context["message"], type(error).__name__)


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

    Returns:
        The numbers of requests that were answered, and that were cut off at the end.
    """
    server = Server(plan, plan.application(), early)
    server.run(sockets=[listening])
    return server.server_state.total_requests, server.cut_off
