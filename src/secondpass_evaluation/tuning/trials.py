"""Runs the rerankers to try, and computes their variants: depths and blends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from secondpass import ModelLoadError, NotSerializableError, Ranking, Reranker, SecondPassError
from secondpass.config import load, preset_names
from secondpass.ranking.blending import Blend
from secondpass.ranking.scoring import scores_alone
from secondpass_evaluation.measures import ranking_to_run
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.rerankers import Spec, unique_name
from secondpass_evaluation.reranking import (
    judged_nothing,
    ranked_by_fallbacks,
    replayed_run,
    warm_up_quietly,
)
from secondpass_evaluation.results import Cost
from secondpass_evaluation.tuning.result import Variant

INSTALLED = ("lexical", "embedded", "default")
"""The presets to try by default: the presets of local models, which cost nothing."""

DEPTHS = (20, 50, 100)
WEIGHTS = (0.2, 0.4, 0.6, 0.8)
_FITTED = ("blend", "floor", "probabilities", "when")
"""Settings that are valid only for the other settings. Variants remove or replace them."""

_SAMPLE = 20
"""Number of rankings from which the cost of a service is estimated."""


@dataclass(slots=True)
class Attempt:
    """A reranker to try.

    Attributes:
        reason: why it is not tried; empty if it is.
        beyond_limits: whether that is a limit of latency or cost.
        asks: whether it calls a service.
        depths: the depths of its variants; empty if the configuration is tried unchanged.
        pointwise: whether smaller depths can be computed from the rankings of the largest.
        statuses: number of rankings by report status, over all runs.
    """

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    beyond_limits: bool = False
    asks: bool = False
    depths: tuple[int, ...] = ()
    pointwise: bool = False
    variants: list[Variant] = field(default_factory=list, repr=False)
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def runs(self) -> tuple[int, ...]:
        """The depths to run the method at; the others are computed from these."""
        return self.depths[-1:] if self.pointwise else self.depths


def named(specs: Mapping[str, Spec] | Sequence[Spec] | Spec | None) -> Any:
    """The rerankers to try, as for ``compare``; names of models become cross-encoders."""
    if specs is None:
        return {name: name for name in INSTALLED}
    if isinstance(specs, str | PathLike | Reranker):
        specs = [specs]
    if isinstance(specs, Mapping):
        return specs if "method" in specs else {key: _spec(spec) for key, spec in specs.items()}
    result: dict[str, Spec] = {}
    for spec in specs:
        name = "rerank"
        if isinstance(spec, str | PathLike):
            name = Path(spec).stem if _is_file(spec) else Path(spec).name
        result[unique_name(name, result)] = _spec(spec)
    return result


def prepare(
    name: str,
    reranker: Reranker,
    observed: Observations,
    depths: Sequence[int] | None,
    cost: float | None,
) -> Attempt:
    """Choose the depths of a reranker, or the reason why it is not tried."""
    attempt = Attempt(name)
    try:
        config = reranker.to_config()
    except NotSerializableError as error:
        attempt.reason = f"it cannot be written as a configuration: {error}"
        return attempt
    attempt.config = config
    longest = longest_list(observed)
    own = reranker.depth or next((depth for depth in DEPTHS if depth >= longest), longest)
    queries = observed.suite.queries
    sample = [(queries[query], items) for query, items in observed.candidates.items()][:_SAMPLE]
    uses = reranker.expected_use(sample)
    attempt.asks = any(use.calls for use in uses)
    attempt.pointwise = scores_alone(reranker.method)
    if config.keys() & {"order", "terms"}:  # the order is not that of scores and blend alone
        attempt.depths = ()
    elif depths is not None:
        attempt.depths = _different(depths, longest)
    elif attempt.asks:  # only depths that take no further calls
        smaller = [depth for depth in DEPTHS if depth < own] if attempt.pointwise else []
        attempt.depths = _different((*smaller, own), longest)
    else:
        attempt.depths = _different((own, *DEPTHS), longest)
    if attempt.asks and cost is not None:
        costs = [use.cost for use in uses if use.calls]
        if None in costs:
            attempt.reason = "its cost is not known; set `prices` of its language model"
        else:
            each = sum(price or 0.0 for price in costs) / max(1, len(sample))
            scale = 1.0
            if attempt.pointwise:
                scale = min([*attempt.depths, own, longest]) / (min(own, longest) or 1)
            if each * scale > cost:
                attempt.reason = f"a query is expected to cost {each:.4g}, more than {cost:g}"
                attempt.beyond_limits = True
    return attempt


def longest_list(observed: Observations) -> int:
    """The number of candidates of the query that has most."""
    return max((len(items) for items in observed.candidates.values()), default=0)


def _different(depths: Iterable[int], longest: int) -> tuple[int, ...]:
    """The depths without those that rerank the same candidates as a smaller one.

    A depth beyond the longest list stays as it is: in other corpora the lists are longer.
    """
    covered = [depth for depth in sorted(set(depths)) if depth >= longest]
    return (*(depth for depth in sorted(set(depths)) if depth < longest), *covered[:1])


def bare(config: Mapping[str, Any], depth: int) -> Reranker:
    """The reranker at a depth, without the settings that are applied after scoring."""
    removed = (*_FITTED, "top_k", "tail")
    kept = {key: value for key, value in config.items() if key not in removed}
    return load({**kept, "depth": depth})


def measure_attempt(attempt: Attempt, observed: Observations) -> None:
    """Run an attempt and compute its variants; an error becomes its reason.

    If a depth fails, the variants of earlier depths remain.
    """
    try:
        for depth in attempt.runs or (None,):  # None: the configuration itself is tried
            name = attempt.name if depth is None else f"{attempt.name}@{depth}"
            if depth is None:
                reranker = load(attempt.config).changed(top_k=None)
            else:
                reranker = bare(attempt.config, depth)
            try:
                _warm(reranker)
                rankings = observed.rankings(name, reranker)
                if _failed(attempt, rankings, reranker.method.name):
                    break
                if depth is None:
                    _add_unchanged(attempt, reranker, rankings)
                else:
                    _add_variants(attempt, observed, reranker, depth, rankings)
            finally:
                reranker.close()
    except SecondPassError as error:
        attempt.reason = str(error)
    # Of variants with the same quality the first is chosen: the cheapest, then the simplest.
    attempt.variants.sort(key=lambda item: (item.depth or 0, item.blend is not None))


def _warm(reranker: Reranker) -> None:
    """Load the models, to keep that out of the first query's time."""
    try:
        warm_up_quietly(reranker)
    except SecondPassError:
        raise
    except Exception as error:  # of other packages; its message may contain secrets
        raise ModelLoadError(type(error).__name__) from None


def _add_unchanged(attempt: Attempt, reranker: Reranker, rankings: Mapping[str, Ranking]) -> None:
    run = ranking_to_run(rankings)
    seconds = tuple(ranking.report.seconds for ranking in rankings.values())
    cost = _cost(rankings, attempt.asks)
    known = _share_known(rankings)
    depth, blend = reranker.depth, reranker.blend
    attempt.variants.append(Variant(depth, blend, attempt.config, run, seconds, cost, known))


def _failed(attempt: Attempt, rankings: Mapping[str, Ranking], method: str) -> bool:
    """Whether nothing was judged, or nothing by the method of this name; sets the reason."""
    reports = [ranking.report for ranking in rankings.values()]
    attempt.statuses += Counter(report.status for report in reports)
    issues = Counter(issue.code for report in reports for issue in report.issues)
    attempt.reason = judged_nothing(rankings.values(), issues)
    why = attempt.reason or ranked_by_fallbacks(rankings.values(), method)
    if why and not attempt.reason:
        names = ", ".join(sorted({report.method for report in reports if report.method}))
        attempt.reason = f"{why}, so every ranking is by a fallback, {names}"
    return bool(attempt.reason)


def _add_variants(
    attempt: Attempt,
    observed: Observations,
    reranker: Reranker,
    run_depth: int,
    rankings: Mapping[str, Ranking],
) -> None:
    config, method = attempt.config, reranker.method
    own = load(config)  # its blend may come from defaults of a preset
    own.close()
    blends = [None, *(Blend(weight, "minmax") for weight in WEIGHTS)]
    if own.blend is not None and own.blend not in blends:
        blends.append(own.blend)
    cost, known = _cost(rankings, attempt.asks), _share_known(rankings)
    longest = longest_list(observed)
    for depth in attempt.depths if attempt.pointwise else (run_depth,):
        share = min(depth, longest) / min(run_depth, longest)
        seconds = tuple(ranking.report.seconds * share for ranking in rankings.values())
        price = None if cost is None else cost * share
        top_k = depth if own.tail == "drop" else None  # one of its own would only cut the lists
        for blend in blends:
            run = replayed_run(
                rankings,
                observed.candidates,
                method.name,
                blend,
                depth=depth,
                scale=method.scale,
                top_k=top_k,
            )
            configured = _configured(config, depth, blend)
            variant = Variant(depth, blend, configured, run, seconds, price, known)
            attempt.variants.append(variant)


def _configured(config: Mapping[str, Any], depth: int, blend: Blend | None) -> dict[str, Any]:
    result = {key: value for key, value in config.items() if key not in _FITTED}
    result["depth"] = depth
    if blend is not None:
        result["blend"] = {"original": blend.original, "normalize": blend.normalize}
        if blend.normalize == "rrf":
            result["blend"]["rrf_k"] = blend.rrf_k
        if blend.optional:
            result["blend"]["optional"] = True
    return result


def _cost(rankings: Mapping[str, Ranking], asks: bool) -> float | None:
    """The mean cost of a query; 0 for local models."""
    costs = [ranking.report.usage.cost for ranking in rankings.values()]
    known = [cost for cost in costs if cost is not None]
    if not asks:
        return 0.0
    return sum(known) / len(known) if known else None


def _share_known(rankings: Mapping[str, Ranking]) -> float:
    """The share of the passages that had been encoded before; 0 if none is encoded."""
    usages = [ranking.report.usage for ranking in rankings.values()]
    known, encoded = sum(use.known for use in usages), sum(use.encoded for use in usages)
    return Cost(known=known, encoded=encoded).share_known


def _spec(spec: Spec) -> Spec:
    """A reranker; a name that is neither a preset nor a file is the model of a cross-encoder."""
    if isinstance(spec, str) and spec not in preset_names() and not _is_file(spec):
        return {"method": {"type": "cross_encoder", "model": spec}}
    return spec


def _is_file(spec: Any) -> bool:
    return Path(spec).suffix in {".yaml", ".yml"}
