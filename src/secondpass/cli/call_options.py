"""The option ``--order``."""

from __future__ import annotations

from typing import Any

from secondpass.cli.console import USAGE_ERROR, fail
from secondpass.errors import InputError
from secondpass.ranking.options import validate
from secondpass.reranker import Reranker
from secondpass.settings import yaml_text


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
