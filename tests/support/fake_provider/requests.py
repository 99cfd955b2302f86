"""What comes in, and what goes over the wire."""

from __future__ import annotations

import enum
import html
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from rerank_dialects import DIALECTS, Dialect


class End(enum.Enum):
    """What becomes of the connection."""

    CLOSE = "closed in an orderly way"
    RESET = "reset, so that the client's next read fails"
    HOLD = "left open, with nothing more said, until the client leaves"


@dataclass(frozen=True)
class Pause:
    """Nothing is sent for this many seconds."""

    seconds: float


@dataclass
class Request:
    """One request as it came in.

    Attributes:
        number: 0 for the first since the script began.
        flavour: the first part of the path.
        body: the parsed JSON, or None.
        at: seconds of the monotonic clock.
        origin: where this provider can be reached under another name.
    """

    number: int
    flavour: str
    path: str
    headers: dict[str, str]
    body: Any
    at: float
    origin: str = ""

    @property
    def api(self) -> str:
        """The dialect that the path belongs to; empty for a path of none."""
        for ending, api in APIS.items():
            if self.path.partition("?")[0].endswith(ending):
                return api
        return self.flavour if self.flavour in DIALECTS else ""

    @property
    def key(self) -> str:
        """The key that came with it, however this dialect carries it."""
        bearer = re.sub(r"^(Bearer|ApiKey) ", "", self.headers.get("authorization", ""))
        names = ("x-api-key", "x-goog-api-key", "api-key")
        return bearer or next(filter(None, map(self.headers.get, names)), "")

    @property
    def messages(self) -> list[str]:
        """The texts of all messages, the system prompt first."""
        body = self.body if isinstance(self.body, dict) else {}
        parts = [body.get("system"), body.get("systemInstruction"), body.get("messages")]
        return list(_texts([*parts, body.get("contents")]))

    @property
    def documents(self) -> dict[str, str]:
        """The fenced texts by their labels, in order; those of rerank APIs by their index."""
        if self.rerank:
            return {str(n): text for n, text in enumerate(self.rerank.texts(self.body))}
        passages = _FENCE.findall("\n".join(self.messages))
        return {label: html.unescape(text) for label, text in passages}

    @property
    def rerank(self) -> Dialect | None:
        """The rerank API that was asked, by its name or by its path."""
        return DIALECTS.get(self.flavour) or DIALECTS.get(self.api)

    @property
    def labels(self) -> list[str]:
        """The labels of the fenced texts, in order."""
        return list(self.documents)

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema that the reply is asked to follow, if one is."""
        body = self.body if isinstance(self.body, dict) else {}
        return (
            _dig(body, "response_format", "json_schema", "schema")
            or _dig(body, "output_config", "format", "schema")
            or _dig(body, "generationConfig", "responseJsonSchema")
        )

    @property
    def asks_for_json(self) -> bool:
        """Whether a JSON reply is asked for in any way but by prompt."""
        body = self.body if isinstance(self.body, dict) else {}
        mime = _dig(body, "generationConfig", "responseMimeType")
        return bool(self.schema or body.get("response_format") or mime == "application/json")


Wire: TypeAlias = bytes | Pause | End

Step: TypeAlias = Callable[[Request], Iterable[Wire]]

Grade: TypeAlias = Callable[[str], float]

Script: TypeAlias = Callable[[Request], Step]

APIS = {
    "/chat/completions": "openai",
    "/v1/messages": "anthropic",
    ":generateContent": "google",
    "/v2/rerank": "cohere",
    "/v1/rerank": "jina",
    "/v1/reranking": "mixedbread",
    "/score": "vllm_score",
    "/rerank": "tei",
}
"""The dialect that the end of a path belongs to."""


_FENCE = re.compile(r'<doc id="([^"]*)">(.*?)</doc>', re.DOTALL)


def _texts(value: Any) -> Iterator[str]:
    """The texts of message contents, however deep each dialect nests them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for name in ("content", "parts", "text"):
            if name in value:
                yield from _texts(value[name])


def _dig(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
