"""Serves the tools over standard input and output, until the input ends or a signal comes."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread

from mcp.server import MCPServer

_STANDARD_INPUT = 0
_SIZE = 65_536  # bytes to read at once


def run(server: MCPServer[None]) -> None:
    """Serve until standard input ends, or until SIGTERM or SIGINT."""
    with _input_that_ends_at_signals():
        server.run("stdio")


@contextmanager
def _input_that_ends_at_signals() -> Iterator[None]:
    """Let standard input end at the first signal that stops a command.

    The SDK reads it in a thread that waits for a line, and waits for this thread, also when it is
    cancelled. So it reads a socket in its place, which a signal can close. A second signal
    interrupts the command, as everywhere.
    """
    if sys.platform == "win32" or current_thread() is not main_thread():
        yield  # sockets are no files there; and signals are for the main thread
        return
    try:
        original = os.dup(_STANDARD_INPUT)
    except OSError:  # it is closed
        yield
        return
    source, copy = socket.socketpair()
    os.dup2(copy.fileno(), _STANDARD_INPUT)
    copy.close()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(_number: int, _frame: object) -> None:
        restore()
        with suppress(OSError):
            source.shutdown(socket.SHUT_WR)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as in a background job of a shell
            signal.signal(number, end)
    # The thread ends with the process: nothing interrupts its wait for a line.
    Thread(target=_copy, args=(original, source), name="secondpass-stdin", daemon=True).start()
    try:
        yield
    finally:
        restore()
        os.dup2(original, _STANDARD_INPUT)


def _copy(original: int, source: socket.socket) -> None:
    """Send what a file has to a socket, until one of them ends."""
    with source, suppress(OSError):
        while data := os.read(original, _SIZE):
            source.sendall(data)
