"""Requests to a server of rerankers, byte by byte."""

import json
import re
import socket
import time
from contextlib import suppress

SECRET = "wombats-of-1899"


def head(path="/v1/rerank", *lines, method="POST", version="HTTP/1.1"):
    return "\r\n".join([f"{method} {path} {version}", "Host: localhost", *lines, "", ""]).encode()


def request(content, path="/v1/rerank", *lines):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    length = f"Content-Length: {len(content)}"
    return head(path, "Content-Type: application/json", length, *lines) + content


def exchange(server, *parts, half_close=False):
    """The statuses of the responses to bytes, until one is complete or the server closes."""
    with server.connect() as connection:
        connection.settimeout(60)
        with suppress(OSError):  # the server may have closed it
            for part in parts:
                connection.sendall(part)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        answer = bytearray()
        with suppress(ConnectionResetError):
            while chunk := connection.recv(65536):
                answer += chunk
                if is_complete(answer):
                    break
        assert SECRET.encode() not in answer
        return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


def is_complete(answer):
    end = answer.find(b"\r\n\r\n") + 4
    match = re.search(rb"\r\ncontent-length: (\d+)\r\n", answer[:end])
    return match is not None and len(answer) - end >= int(match[1])


def next_request_works(server):
    body = {"query": "q", "documents": ["a", "bb"]}
    assert [row["index"] for row in server.post("/v1/rerank", body).json()["results"]] == [1, 0]


def until(condition):
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)
