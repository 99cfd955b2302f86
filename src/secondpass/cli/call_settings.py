"""Settings of single calls, from options and from requests.

Their names are the keyword parameters of ``Reranker.rerank_many``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from secondpass.cli.console import USAGE_ERROR, fail
from secondpass.errors import InputError
from secondpass.ranking_pass import CallSettings
from secondpass.reranker import Reranker
from secondpass.settings import yaml_text
from secondpass.types import Ranking, Request

CALL_SETTINGS = tuple(
    name
    for name, parameter in signature(Reranker.rerank_many).parameters.items()
    if parameter.kind is Parameter.KEYWORD_ONLY
)


def check_settings(reranker: Reranker, settings: Mapping[str, Any]) -> None:
    """Check the settings of a call.

    Raises:
        InputError: one of them is wrong.
    """
    CallSettings(reranker, **{"top_k": None, "depth": None, "order": None, **settings})


def parse_order(reranker: Reranker, value: str | None) -> str | dict[str, Any] | None:
    """Parse ``--order``: a name or a mapping. Exits if it is not an ordering."""
    order: Any = value
    if value is not None and value.lstrip().startswith("{"):
        try:
            order = yaml_text.parse(value)
        except yaml_text.NotYAMLError:
            fail("--order: write a name, or a mapping such as {type: tiers, …}", USAGE_ERROR)
    try:
        check_settings(reranker, {"order": order})
    except InputError as error:
        fail(f"--{error}", USAGE_ERROR)
    return order  # type: ignore[no-any-return]


def rerank_grouped(
    reranker: Reranker, requests: Sequence[Request], settings: Sequence[Mapping[str, Any]]
) -> list[Ranking]:
    """Rank requests, those with equal settings in one call; the rankings keep their order."""
    groups: dict[str, list[int]] = {}
    for index, call_settings in enumerate(settings):
        groups.setdefault(json.dumps(call_settings, sort_keys=True), []).append(index)
    rankings: dict[int, Ranking] = {}
    for group in groups.values():
        ranked = reranker.rerank_many([requests[index] for index in group], **settings[group[0]])
        rankings.update(zip(group, ranked, strict=True))
    return [rankings[index] for index in range(len(requests))]
