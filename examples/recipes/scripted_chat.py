"""A scripted stand-in for a model server, so that the recipes run without a key.

It is no language model: it counts the words that a passage shares with the query, and says in
each answer that it is scripted. It listens on 127.0.0.1 and speaks what the recipes need: Chat
Completions (OpenAI, vLLM, Ollama, llama.cpp), Ollama's own ``/api/chat``, and ``/v1/rerank`` as
vLLM and llama.cpp serve it.

A recipe calls :func:`language_model`, which prefers a real model: OpenAI's if ``OPENAI_API_KEY`` is
set, or that of the server in ``OPENAI_BASE_URL``. ``OPENAI_MODEL`` names the model.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME = "scripted"
NOTICE = (
    "no OPENAI_API_KEY or OPENAI_BASE_URL: a scripted model answers, which only counts shared words"
)


@contextmanager
def language_model() -> Iterator[dict[str, Any]]:
    """Settings of a language model (``type``, ``model``, perhaps ``base_url``) for the block."""
    base_url = os.environ.get("OPENAI_BASE_URL")
    if base_url or os.environ.get("OPENAI_API_KEY"):
        model = os.environ.get("OPENAI_MODEL") or "gpt-4.1-mini"
        yield {"type": "openai", "model": model, **({"base_url": base_url} if base_url else {})}
        return
    print(NOTICE, file=sys.stderr)
    with serve() as address:
        yield {"type": "openai", "model": NAME, "base_url": f"{address}/v1"}


@contextmanager
def serve() -> Iterator[str]:
    """Serve the scripted model for the block; its address, without a path."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def shared_words(query: str, text: str) -> float:
    """Share of the query's words of four letters or more, or with a digit, that the text has."""
    words = {word for word in _words(query) if len(word) >= 4 or any(map(str.isdigit, word))}
    return len(words & _words(text)) / max(1, len(words))


def reply_to(prompt: str) -> str:
    """The reply to a prompt: an order or grades if it asks for them, else the first source."""
    documents = re.findall(r'<doc id="([^"]*)">(.*?)</doc>', prompt, re.DOTALL)
    query = " ".join(re.findall(r"<query>(.*?)</query>", prompt, re.DOTALL)[:1])
    if documents:
        grades = {
            html.unescape(label): round(10 * shared_words(query, text), 2)
            for label, text in documents
        }
        if '"ranking"' not in prompt:
            return json.dumps(grades)
        return json.dumps({"ranking": sorted(grades, key=lambda label: -grades[label])})
    source = re.search(r"^\[1\] (.*)$", prompt, re.MULTILINE)
    quoted = source.group(1) if source else "nothing"
    return f"(scripted, no language model) The first source says: {quoted} [1]"


def rerank_rows(query: str, documents: Sequence[str]) -> list[dict[str, Any]]:
    """Rows as a rerank server returns them, best first; scores from 0 to 1."""
    rows = [
        {"index": index, "relevance_score": shared_words(query, text)}
        for index, text in enumerate(documents)
    ]
    return sorted(rows, key=lambda row: -float(row["relevance_score"]))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _answer(path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    if path.endswith("/rerank"):
        rows = rerank_rows(body["query"], body["documents"])
        return {"model": NAME, "results": rows, "usage": {"total_tokens": 0}}
    message = {"role": "assistant"}
    if path.endswith("/chat/completions"):
        message["content"] = reply_to("\n".join(turn["content"] for turn in body["messages"]))
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        kind = {"id": "scripted", "object": "chat.completion", "created": 0, "model": NAME}
        return {**kind, "choices": [choice], "usage": usage}
    if path.endswith("/api/chat"):
        message["content"] = reply_to("\n".join(turn["content"] for turn in body["messages"]))
        counts = {"prompt_eval_count": 0, "eval_count": 0}
        return {"model": NAME, "message": message, "done": True, "done_reason": "stop", **counts}
    return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        answer = _answer(self.path, body)
        content = json.dumps(answer or {"error": {"message": "no such path"}}).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: requests are not logged."""
