"""What a fit is bound to: method, model, template, blend, depth, first stage and precision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from secondpass.reranker import Reranker
from secondpass.runtime.fits import identity, precision_of
from secondpass.types import Ranking


def fingerprint(
    reranker: Reranker,
    stage_name: str | None = None,
    *,
    blended: bool = True,
    rankings: Iterable[Ranking] = (),
) -> dict[str, Any]:
    """What the scores of a reranker's method depend on, as settings of a ``Fit``.

    Args:
        reranker: its method, not its fallbacks.
        stage_name: name of the first stage.
        blended: whether it is about final scores, which depend on the blend.
        rankings: made by it; they tell the precision of its model.

    Returns:
        ``method``, ``model``, ``template``, ``settings``, ``blend``, ``depth``, ``first_stage`` and
        ``precision``; plain values but for ``blend``, a Blend. Template and settings are hashes.
        What is not known is None.
    """
    blend = reranker.blend if blended else None
    parts = identity(reranker.method, blend, reranker.depth, reranker.render, reranker.passages)
    found = dict.fromkeys(
        precision
        for ranking in rankings
        if (precision := precision_of(reranker.method, ranking.report.engines)) is not None
    )
    return {**parts, "first_stage": stage_name, "precision": ", ".join(found) or None}
