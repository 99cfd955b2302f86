"""Settings of single requests: checked as they are read, and applied in groups."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from secondpass.call_options import validate
from secondpass.cli.requests import KNOWN_KEYS
from secondpass.cli.terminal import warn
from secondpass.formats.lines import Line
from secondpass.reranker import Reranker
from secondpass.settings import suggestion
from secondpass.types import Ranking, Request

_MOST_UNKNOWN = 10
"""Different unknown keys of requests that are told."""


def check_settings(reranker: Reranker, settings: Mapping[str, Any]) -> None:
    """Raise InputError if the settings of a call are wrong."""
    validate(settings, reranker.orders)


class UnknownKeys:
    """Warns of keys of requests that are ignored, each once, and no more than some."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, line: Line, key: str) -> None:
        if key in self.seen or len(self.seen) > _MOST_UNKNOWN:
            return
        self.seen.add(key)
        if len(self.seen) > _MOST_UNKNOWN:
            warn("further unknown keys of requests are ignored, too")
            return
        hint = suggestion(key, sorted(KNOWN_KEYS))
        warn(str(line.error(f"the key {key[:80]!r} is unknown, and ignored{hint}")))


def ranked(
    reranker: Reranker, requests: Sequence[Request], settings: Sequence[Mapping[str, Any]]
) -> list[Ranking]:
    """A ranking for each request; those with equal settings are ranked side by side."""
    groups: dict[str, list[int]] = {}
    for at, own in enumerate(settings):
        groups.setdefault(json.dumps(own, sort_keys=True), []).append(at)
    found: dict[int, Ranking] = {}
    for group in groups.values():
        rankings = reranker.rerank_many([requests[at] for at in group], **settings[group[0]])
        found.update(zip(group, rankings, strict=True))
    return [found[at] for at in range(len(requests))]
