"""The settings that a fit is valid for: method, model, template, blend, depth and others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from secondpass.ranking.methods import identity, precision_of
from secondpass.ranking.result import Ranking
from secondpass.reranker import Reranker


def fingerprint(
    reranker: Reranker,
    stage_name: str | None = None,
    *,
    blended: bool = True,
    rankings: Iterable[Ranking] = (),
) -> dict[str, Any]:
    """The settings that the scores of a reranker depend on, as arguments of ``Fit``.

    Args:
        reranker: its fallbacks are not used.
        stage_name: name of the first stage.
        blended: whether the fit is for final scores, which depend on the blend.
        rankings: rankings of the reranker; their reports have the precision of its model.

    Returns:
        ``method``, ``model``, ``template``, ``settings``, ``blend``, ``depth``, ``first_stage`` and
        ``precision``: plain values, except that ``blend`` is a Blend. Template and settings are
        hashes. Unknown values are None.
    """
    blend = reranker.blend if blended else None
    parts = identity(reranker.method, blend, reranker.depth, reranker.render, reranker.passages)
    precisions = dict.fromkeys(
        precision
        for ranking in rankings
        if (precision := precision_of(reranker.method, ranking.report.engines)) is not None
    )
    return {**parts, "first_stage": stage_name, "precision": ", ".join(precisions) or None}
