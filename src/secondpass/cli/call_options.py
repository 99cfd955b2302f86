"""Call options on the command line and in requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from secondpass.call_options import validate
from secondpass.cli.console import USAGE_ERROR, fail
from secondpass.errors import InputError
from secondpass.reranker import Reranker
from secondpass.settings import yaml_text
from secondpass.types import Ranking, Request


def parse_order(reranker: Reranker, value: str | None) -> str | dict[str, Any] | None:
    """Parse ``--order``: a name or a mapping. Exits if it is not an ordering."""
    order: Any = value
    if value is not None and value.lstrip().startswith("{"):
        try:
            order = yaml_text.parse(value)
        except yaml_text.NotYAMLError:
            fail("--order: write a name, or a mapping such as {type: tiers, …}", USAGE_ERROR)
    try:
        validate({"order": order}, reranker.orders)
    except InputError as error:
        fail(f"--{error}", USAGE_ERROR)
    return order  # type: ignore[no-any-return]


def rerank_grouped(
    reranker: Reranker, requests: Sequence[Request], options: Sequence[Mapping[str, Any]]
) -> list[Ranking]:
    """Rank requests, those with equal options in one call; the rankings keep their order."""
    groups: dict[str, list[int]] = {}
    for index, call_options in enumerate(options):
        groups.setdefault(json.dumps(call_options, sort_keys=True), []).append(index)
    rankings: dict[int, Ranking] = {}
    for group in groups.values():
        ranked = reranker.rerank_many([requests[index] for index in group], **options[group[0]])
        rankings.update(zip(group, ranked, strict=True))
    return [rankings[index] for index in range(len(requests))]
