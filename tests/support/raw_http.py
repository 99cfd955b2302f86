"""Requests to a server of rerankers, byte by byte."""

import json
import re
import time
from contextlib import suppress


def head(path="/v1/rerank", *lines, method="POST"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost:80", *lines, "", ""]).encode()


def request(content, path="/v1/rerank", *lines):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    length = f"Content-Length: {len(content)}"
    return head(path, "Content-Type: application/json", length, *lines) + content


def is_complete(answer):
    end = answer.find(b"\r\n\r\n") + 4
    match = re.search(rb"\r\ncontent-length: (\d+)\r\n", answer[:end])
    return match is not None and len(answer) - end >= int(match[1])


def answered(connection):
    """What is read from a connection until a response is complete or the server closes it."""
    answer = bytearray()
    with suppress(ConnectionError):
        while not is_complete(answer) and (chunk := connection.recv(65536)):
            answer += chunk
    return bytes(answer)


def next_request_works(server):
    body = {"query": "q", "documents": ["a", "bb"]}
    assert [row["index"] for row in server.post("/v1/rerank", body).json()["results"]] == [1, 0]


def until(condition, seconds=60):
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)
