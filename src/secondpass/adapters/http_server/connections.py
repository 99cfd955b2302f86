"""HTTP connections with time limits for receiving requests and sending responses."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""Seconds in which the head of a request must arrive. uvicorn itself has no limit."""
READ_SECONDS = 30.0
READ_BYTES_PER_SECOND = 2**15
"""A client must read a response in ``READ_SECONDS`` plus its bytes / ``READ_BYTES_PER_SECOND``
seconds. uvicorn itself has no limit."""
_TIMEOUT = b"the head of the request did not arrive in time"


class Connection(H11Protocol):
    """uvicorn's protocol, with limits on the time in which the head of a request arrives and in
    which a response is read.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def data_received(self, data: bytes) -> None:
        """Start the timer for the rest of a head, unless a request is being answered."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def on_response_complete(self) -> None:
        """Start the timers for reading the response, and for a pipelined request."""
        super().on_response_complete()
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
        self._stop_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        idle = self.cycle is None or self.cycle.response_complete
        if self.transport.is_closing() or not idle:
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
