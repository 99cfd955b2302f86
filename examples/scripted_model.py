"""A scripted language model, so that the examples run without a key.

It is a server on the loopback interface that scores each document of a prompt by the words that it
shares with the query, and replies in the requested format. It shows how the parts work together,
not how good a model is. In reports its name is ``scripted-word-overlap``. It supports the APIs that
the examples need: Chat Completions (OpenAI, vLLM, Ollama, llama.cpp), Ollama's native
``/api/chat``, and ``/v1/rerank`` of vLLM and llama.cpp.

:func:`language_model` chooses: the model of the environment, or without one the scripted model.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

NAME = "scripted-word-overlap"

_COMMON = frozenset(
    """
    about after all am an and any are as at be but by can did do does for from had has have he
    her him his how if in into is it its may me more most must my no not of on one or our out
    over she should so some than that the their them then there these they this to up us was
    we were what when where which who why will with would you your
    """.split()  # noqa: SIM905 - a table of words
)
_FENCED = re.compile(r"<(doc|query|context)\b[^>]*>.*?</\1>", re.DOTALL)


@dataclass(frozen=True)
class Prompt:
    """A prompt of secondpass, parsed.

    Attributes:
        system: the system prompt.
        query: the search query.
        context: the context of the query; empty if there is none.
        documents: the documents by their labels.
        instructions: everything outside the tags.
    """

    system: str
    query: str
    context: str
    documents: dict[str, str]
    instructions: str

    @classmethod
    def parse(cls, messages: Sequence[Mapping[str, str]]) -> Prompt:
        """Parse the messages of a chat request."""
        system = "\n".join(m["content"] for m in messages if m["role"] == "system")
        user = "\n".join(m["content"] for m in messages if m["role"] == "user")
        documents = re.findall(r'<doc id="(.*?)">(.*?)</doc>', user, re.DOTALL)
        return cls(
            system,
            _between("query", user),
            _between("context", user),
            {html.unescape(label): html.unescape(text) for label, text in documents},
            f"{system}\n{_FENCED.sub('', user)}",
        )


Score: TypeAlias = Callable[[Prompt, str], float]
"""Scores a document from 0 to 1; grades treat higher scores as 1."""


def words(text: str) -> set[str]:
    """The words of a text, without common ones and without a final s."""
    found = re.findall(r"[^\W_]{2,}", text.lower())
    return {word.rstrip("s") for word in found if word not in _COMMON}


def word_overlap(prompt: Prompt, text: str) -> float:
    """The share of the query's words that are in a text, plus that of the context's words."""
    shares = [
        len(wanted & words(text)) / len(wanted)
        for wanted in (words(prompt.query), words(prompt.context))
        if wanted
    ]
    return sum(shares)


class ScriptedModel:
    """The server. It listens from ``__enter__`` to ``__exit__``.

    Args:
        score: scores a document.
        fails: reply in prose, which cannot be parsed.

    Attributes:
        prompts: the prompts received. The answer to a prompt without documents is its first
            source, the line that begins with ``[1]``.
    """

    def __init__(self, score: Score = word_overlap, *, fails: bool = False) -> None:
        self.score = score
        self.fails = fails
        self.prompts: list[Prompt] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.answer))
        # The argument is the poll interval in seconds.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def address(self) -> str:
        """Without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def base_url(self) -> str:
        """The address for OpenAI's clients."""
        return f"{self.address}/v1"

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The response to a request; None if there is no such path."""
        if path == "/v1/rerank":
            return {"model": NAME, "results": self._rows(body["query"], body["documents"])}
        if path not in {"/v1/chat/completions", "/api/chat"}:
            return None
        message = {"role": "assistant", "content": self._reply(body["messages"])}
        if path == "/api/chat":
            return {"model": NAME, "message": message, "done": True, "done_reason": "stop"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        completion = {"id": NAME, "object": "chat.completion", "created": 0, "model": NAME}
        return {**completion, "choices": [choice]}

    def _rows(self, query: str, documents: Sequence[str]) -> list[dict[str, Any]]:
        prompt = Prompt("", query, "", {}, "")
        scores = [min(self.score(prompt, document), 1.0) for document in documents]
        return [{"index": index, "relevance_score": score} for index, score in enumerate(scores)]

    def _reply(self, messages: Sequence[Mapping[str, str]]) -> str:
        prompt = Prompt.parse(messages)
        self.prompts.append(prompt)
        if self.fails:
            return "I would rather talk about these texts than grade them."
        if not prompt.documents:
            source = re.search(r"^\[1\] (.*)$", prompt.instructions, re.MULTILINE)
            quoted = source[1] if source else "nothing"
            return f"(scripted, no language model) The first source says: {quoted} [1]"
        scores = {label: self.score(prompt, text) for label, text in prompt.documents.items()}
        return json.dumps(_as_requested(prompt.instructions, scores))


@contextmanager
def language_model(
    *keys: str, score: Score = word_overlap, fails: bool = False, **settings: Any
) -> Iterator[dict[str, Any]]:
    """The settings of a preset's ``llm``: the model of the environment, else the scripted one.

    - With ``OPENAI_BASE_URL`` and ``LLM_MODEL``: that model of that OpenAI-compatible server.
    - With a key of the preset's provider: the preset's own model, so nothing has to be set.
    - With neither, or with ``fails``: the scripted model, announced on standard error.

    Args:
        keys: environment variables of the provider's key; one is enough.
        score: as for :class:`ScriptedModel`.
        fails: likewise.
        settings: further settings of an OpenAI-compatible server: ``type`` if the preset has
            another provider.
    """
    base_url, model = os.environ.get("OPENAI_BASE_URL"), os.environ.get("LLM_MODEL")
    if base_url and not fails:
        if not model:
            sys.exit("OPENAI_BASE_URL is set, so LLM_MODEL must name a model of that server")
        yield {"base_url": base_url, "model": model, **settings}
        return
    if any(map(os.environ.get, keys)) and not fails:
        yield {}
        return
    reason = "as requested" if fails else f"no {' or '.join(keys)} is set"
    announce(reason)
    with ScriptedModel(score, fails=fails) as scripted:
        yield {"base_url": scripted.base_url, "model": NAME, **settings}


def announce(reason: str) -> None:
    """Print on standard error that the model is scripted."""
    print(f"Scripted model ({reason}): it only compares words.", file=sys.stderr)


def _as_requested(instructions: str, scores: Mapping[str, float]) -> Any:
    """The reply in the format that the instructions request: an order or grades."""
    indices = "<index>" in instructions
    labels = {label: int(label) if indices else label for label in scores}
    if "<score>" not in instructions:
        order = [labels[label] for label in sorted(scores, key=lambda label: -scores[label])]
        return {"ranking": order} if '{"ranking"' in instructions else order
    ends = re.search(r"from (-?[\d.]+) \([^)]*\) to (-?[\d.]+)", instructions)
    low, high = map(float, ends.groups()) if ends else (0.0, 1.0)
    grades = {label: round(low + (high - low) * min(s, 1.0), 2) for label, s in scores.items()}
    if "maps each" in instructions:
        return grades
    key = "index" if indices else "id"
    rows = [{key: labels[label], "score": grade} for label, grade in grades.items()]
    return {"grades": rows} if '{"grades"' in instructions else rows


def _between(tag: str, text: str) -> str:
    found = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return html.unescape(found[1]) if found else ""


def _handler(
    answer: Callable[[str, Mapping[str, Any]], dict[str, Any] | None],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = answer(self.path, request)
            body = json.dumps(response or {"error": {"message": "no such path"}}).encode()
            self.send_response(404 if response is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep standard error for the examples."""

    return Handler
