"""Learns the setting ``when`` of a reranker from rankings of a suite.

The *regret* of a query is its measure with the pass minus its measure with the gate: 0 where the
pass runs, and below 0 where the first stage alone is better. A gate is accepted if its mean regret
on future queries is at most ``max_regret``, with probability ``confidence``.

Thresholds are tested from the most cautious on, each only if all before it passed (fixed-sequence
testing), and the last one that passes is used: Angelopoulos, Bates, Candès, Jordan and Lei, "Learn
then test: calibrating predictive algorithms to achieve risk control", Annals of Applied Statistics
2025. The grids are fixed, and the sequences share the error probability equally (Bonferroni), so
the bound holds for the chosen gate. The test is a bet against the hypothesis that the mean regret
is larger (:mod:`secondpass.evaluation.gates.betting`). It is exact for any number of queries, and
assumes only that they are drawn independently from the distribution of future queries, and that the
measure is within 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from secondpass.errors import InputError
from secondpass.evaluation.calibration.fingerprint import fingerprint
from secondpass.evaluation.gates.betting import check_shares, evidence, fewest_queries
from secondpass.evaluation.gates.regrets import Regrets, regrets_of, shares_saved
from secondpass.evaluation.suites import Suite
from secondpass.formats.errors import check_numbers
from secondpass.reranker import Reranker
from secondpass.runtime.floors import Fit
from secondpass.settings import registry
from secondpass.types import Candidate, Ranking

GRIDS: Mapping[str, tuple[float, ...]] = {
    "margin": tuple(step / 50 for step in range(49, 0, -1)),
    "top_zscore": tuple(step / 4 for step in range(40, 0, -1)),
}
"""Thresholds of each signal, most cautious first. Queries at or above a threshold are skipped."""

_LEAST_SAVED = 0.1
"""Smallest share of the pairs that a gate has to save."""


@dataclass(frozen=True, slots=True)
class GateFit:
    """A learned gate, and its figures on the queries that it was learned from.

    Attributes:
        when: the setting ``when`` of a configuration, as a mapping; None if no gate is accepted.
        reason: one sentence: what the gate saves and what it costs, or why there is none.
        queries: number of queries that it was learned from.
        skipped: share of them, 0 to 1, for which the pass is left out or made shorter.
        saved: share of all query-candidate pairs that are not judged, 0 to 1.
        regret: mean of the measure with the pass for every query, minus the mean with the gate, on
            these queries.
        max_regret: upper bound of the mean regret on future queries, with probability
            ``confidence``.
        confidence: 0 to 1.
        measure: name of the measure.
    """

    when: Mapping[str, Any] | None
    reason: str
    queries: int
    skipped: float = 0.0
    saved: float = 0.0
    regret: float = 0.0
    max_regret: float = 0.01
    confidence: float = 0.95
    measure: str = "nDCG@10"


def learn_gate(
    suite: Suite,
    candidates: Mapping[str, Sequence[Candidate]],
    rankings: Mapping[str, Ranking],
    *,
    measure: str = "nDCG@10",
    max_regret: float = 0.01,
    confidence: float = 0.95,
    depths: Sequence[int] = (0,),
    reranker: Reranker | None = None,
    first_stage: str | None = None,
) -> GateFit:
    """Learn for which queries a reranker can be left out, or judge fewer candidates.

    Args:
        suite: its judgements. Only the queries of ``rankings`` count.
        candidates: query id -> the first stage's candidates, best first.
        rankings: query id -> the reranker's ranking of them, made without a gate and complete:
            without ``top_k``, floor, dropped tail and ordering. ``unchanged`` and ``degraded``
            rankings are left out.
        measure: the measure of the loss; its values are within 0 to 1.
        max_regret: mean loss of the measure to accept, above 0 and below 1. A smaller loss needs
            more judged queries.
        confidence: probability that the loss is not larger, above 0 and below 1.
        depths: numbers of candidates to judge for a skipped query, in order of preference: the
            first depth with which a gate passes is used. 0 judges none. The ranking with a smaller
            depth is computed from the full one, which is exact if scores and blend do not depend on
            the list.
        reranker: the reranker of the rankings. If given, the gate is valid only for its method,
            model, prompt, settings, blend and depth, which ``when`` has as ``fitted``.
        first_stage: name of the first stage of the candidates, for ``fitted``.

    Returns:
        The gate with the largest share of skipped queries; its ``when`` is None if there is none.

    Raises:
        InputError: an argument is wrong, or a ranking has no candidates in ``candidates``, lacks
            some of them, or was made with a gate.
        MeasureError: the measure is unknown.
        MissingExtraError: ir_measures or numpy is not installed.
    """
    check_shares(max_regret=max_regret, confidence=confidence)
    check_numbers(**{f"depths[{i}]": (d, 0) for i, d in enumerate(depths)})
    if not depths:
        raise InputError("depths: give at least one")

    # A failed pass has the first stage's order, so it is no evidence that the pass gains nothing.
    rankings = {
        query: ranking
        for query, ranking in rankings.items()
        if ranking.report.status in {"ok", "partial"}
    }
    if not rankings:
        reason = "No gate: there are no queries to learn from."
        return GateFit(None, reason, 0, 0.0, 0.0, 0.0, max_regret, confidence, measure)
    regrets = regrets_of(
        suite, candidates, rankings, measure=measure, signals=[*GRIDS], depths=depths
    )
    fit = gate_of(regrets, max_regret=max_regret, confidence=confidence)
    if fit.when is None or reranker is None:
        return fit
    parts = fingerprint(reranker, first_stage, rankings=rankings.values())
    return replace(fit, when={**fit.when, "fitted": registry.dump_settings(Fit(**parts), "when")})


def gate_of(regrets: Regrets, *, max_regret: float, confidence: float) -> GateFit:
    """The gate that is learned from these queries; arguments as for :func:`learn_gate`."""
    measure, depths = regrets.measure, [*regrets.of_skip]

    def result(reason: str, when: Mapping[str, Any] | None = None, **values: float) -> GateFit:
        return GateFit(
            when,
            reason,
            len(regrets.pairs),
            max_regret=max_regret,
            confidence=confidence,
            measure=measure,
            **values,
        )

    if (reason := _why_none(regrets, max_regret, confidence, len(depths))) is not None:
        return result(f"No gate: {reason}.")
    needed = len(GRIDS) * len(depths) / (1 - confidence)
    passed = [
        gate
        for depth in depths
        for name in regrets.signals
        if (gate := _last_passed(regrets, name, depth, max_regret=max_regret, needed=needed))
    ]
    worthwhile = [gate for gate in passed if gate.saved >= _LEAST_SAVED]
    if not worthwhile:
        saved = max((gate.saved for gate in passed), default=0.0)
        return result(
            f"No gate: at a mean loss of at most {max_regret:g} {measure} ({confidence:.0%} "
            f"confidence), it would save {saved:.0%} of the pairs only."
        )
    preferred = next(depth for depth in depths if depth in {gate.depth for gate in worthwhile})
    gate = max((g for g in worthwhile if g.depth == preferred), key=lambda g: g.saved)
    values = {"skipped": gate.skipped, "saved": gate.saved, "regret": gate.regret}
    effect = "leaves the pass out" if gate.depth == 0 else f"judges only {gate.depth} candidates"
    reason = (
        f"The gate {effect} for {gate.skipped:.0%} of the queries, which saves {gate.saved:.0%} of "
        f"the pairs, at a mean loss of {gate.regret:+.4f} {measure} ({confidence:.0%} confidence: "
        f"at most {max_regret:g})."
    )
    return result(reason, gate.setting(), **values)


@dataclass(frozen=True, slots=True)
class _Gate:
    name: str
    depth: int
    threshold: float
    skipped: float
    saved: float
    regret: float

    def setting(self) -> dict[str, Any]:
        """The setting ``when``."""
        setting: dict[str, Any] = {self.name: {"below": self.threshold}}
        return {**setting, "depth": self.depth} if self.depth else setting


def _last_passed(
    regrets: Regrets, name: str, depth: int, *, max_regret: float, needed: float
) -> _Gate | None:
    """The last gate of a sequence of thresholds before the first that is not accepted."""
    import numpy as np

    gate = None
    for threshold in GRIDS[name]:
        skips = regrets.signals[name] >= threshold  # False where the signal is not known (NaN)
        regret = np.where(skips, regrets.of_skip[depth], 0.0)
        # As a precaution, also stop if the mean on these queries exceeds a quarter of the bound.
        if float(regret.mean()) > max_regret / 4 or evidence(regret, max_regret) < needed:
            break
        gate = _Gate(
            name,
            depth,
            threshold,
            float(skips.mean()),
            shares_saved(skips, regrets.pairs, depth),
            float(regret.mean()),
        )
    return gate


def _why_none(regrets: Regrets, max_regret: float, confidence: float, depths: int) -> str | None:
    """Why no gate can be learned from these queries, or None."""
    count = len(regrets.pairs)
    if regrets.outside is not None:
        return f"the measure has values outside 0 to 1, such as {regrets.outside:g}"
    if not regrets.relevant:
        return "no query has a relevant document among its candidates"
    if not any(regrets.known(name) for name in regrets.signals):
        return "the candidates have no retrieval scores that fall along the list"
    fewest = fewest_queries(max_regret, confidence, len(GRIDS) * depths)
    if count < fewest:
        return (
            f"a regret of at most {max_regret:g} can be shown with {fewest:,} or more queries, "
            f"and there are {count:,}"
        )
    return None
