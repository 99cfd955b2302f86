"""HTTP connections: their number, and time limits for receiving requests and sending responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from secondpass.ranking.shared import log

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


class ConnectionCounts(Protocol):
    """What is told about connections, as to the metrics."""

    def set_connections(self, count: int) -> None:
        """The number of open connections."""

    def add_closed_connection(self) -> None:
        """An idle connection was closed to make room."""


class Connections:
    """The open connections of a server. Beyond their maximum, the oldest idle one is closed.

    Those with a request are not closed: the number of these is limited by the application.

    Args:
        most: maximum number of connections.
        counts: is told their number, and when one is closed; None for nobody.
        clock: a monotonic clock, in seconds.

    Attributes:
        closing: whether the server stops; new connections are then open for one request at most.
    """

    def __init__(
        self,
        most: int,
        counts: ConnectionCounts | None = None,
        clock: Callable[[], float] = time.monotonic,
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
                self._counts.add_closed_connection()
            self._log()
        self._tell()

    def set_idle(self, connection: Connection, idle: bool) -> None:
        """Whether a connection waits for a request; if so, it is the youngest of these."""
        self._idle.pop(connection, None)
        if idle and connection in self._open:
            self._idle[connection] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection, if it is there."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._tell()

    def _tell(self) -> None:
        if self._counts is not None:
            self._counts.set_connections(len(self._open))

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

    Args:
        connections: those of the server.
        arguments: of uvicorn's protocol.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None
    _last_timer: asyncio.TimerHandle | None = None

    def __init__(self, *, connections: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._all = connections

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._all.add(self)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)
        if self._all.closing:
            self.shutdown()

    def data_received(self, data: bytes) -> None:
        """Start the timer for the rest of a head, unless a request is being answered."""
        super().data_received(data)
        if not self._is_idle:
            self._all.set_idle(self, idle=False)
            if self._last_timer is not None:
                self.cycle.keep_alive = False
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def on_response_complete(self) -> None:
        """Start the timers for reading the response, and for a pipelined request."""
        super().on_response_complete()
        self._all.set_idle(self, idle=self._is_idle)
        # uvicorn writes no response before most of the previous one has been read, so a client that
        # does not read cannot postpone the limit.
        self._stop_read_timer()
        if unread := self._unread():
            seconds = READ_SECONDS + unread / READ_BYTES_PER_SECOND
            self._read_timer = self.loop.call_later(seconds, self._reading_is_late)
        if self.conn.trailing_data[0] and self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._all.remove(self)
        self._stop_timer()
        self._stop_read_timer()
        if self._last_timer is not None:
            self._last_timer.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection after its response, or when no further request has arrived."""
        if self._is_idle:
            self._last_timer = self.loop.call_later(_LAST_REQUEST_SECONDS, self._close_unused)
        else:
            super().shutdown()

    def _close_unused(self) -> None:
        # The head of a request that has begun to arrive has its own time limit.
        if self._is_idle and not self.conn.trailing_data[0] and not self.transport.is_closing():
            super().shutdown()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.transport.is_closing() or not self._is_idle:
            return
        if self.conn.trailing_data[0] and self.conn.our_state is h11.IDLE:
            headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
            for event in (
                h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"),
                h11.Data(data=_TIMEOUT),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _reading_is_late(self) -> None:
        self._read_timer = None
        if self._unread():
            self.transport.abort()

    def _unread(self) -> int:
        """Bytes in the write buffers, because the client does not read."""
        transport: Any = self.transport
        # Encrypted bytes are in the underlying transport, to which asyncio gives no public access.
        underlying = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
        transports = (transport, underlying)
        return sum(item.get_write_buffer_size() for item in transports if item is not None)
