"""What is tried: rerankers, their depths and blends, and what each takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from secondpass.blending import Blend
from secondpass.config import load, preset_names
from secondpass.errors import NotSerializableError, SecondPassError
from secondpass.evaluation.costs import percentile
from secondpass.evaluation.dry_run import expected_use
from secondpass.evaluation.observations import Observations
from secondpass.evaluation.rerankers import Spec, unique_name
from secondpass.evaluation.reranking import judged_nothing
from secondpass.evaluation.tuning.replay import replayed_run, scores_alone
from secondpass.formats.runs import Run
from secondpass.reranker import Reranker
from secondpass.types import Ranking

INSTALLED = ("lexical", "embedded", "default")
"""The presets that are tried if none is named: the local ones, which cost nothing."""

DEPTHS = (20, 50, 100)
WEIGHTS = (0.2, 0.4, 0.6, 0.8)
_FITTED = ("blend", "floor", "probabilities", "when")
"""Settings that hold for one set of the others only. Variants leave them out or replace them."""
_AS_IT_IS = frozenset({"order", "anchor"})
"""Settings that change the order after or beside the scores, so that nothing can be replayed."""

_SAMPLE = 20
"""Rankings to estimate from what a service takes."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A reranker with one depth and one blend.

    Attributes:
        depth: number of candidates that the method judges; None: as in ``config``.
        blend: None: the method's scores alone.
        config: the configuration of all of it.
        run: the order of the suite's candidates.
        seconds: of the second pass, for each query.
        cost: of a query, at the configured prices; 0 for local models, None if it is not known.
    """

    depth: int | None
    blend: Blend | None
    config: Mapping[str, Any] = field(repr=False)
    run: Run = field(repr=False)
    seconds: tuple[float, ...] = field(repr=False)
    cost: float | None

    @property
    def label(self) -> str:
        """Depth and blend in words."""
        depth = "all candidates" if self.depth is None else f"depth {self.depth}"
        if self.blend is None:
            return f"{depth}, no blend"
        return f"{depth}, blend {self.blend.original:g} {self.blend.normalize}"

    @property
    def p95(self) -> float:
        """Seconds within which 95 % of the queries are reranked."""
        return percentile(self.seconds, 0.95) or 0.0


@dataclass(slots=True)
class Attempt:
    """A reranker to try, under a name; ``reason`` says why it is not tried, if so."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    asks: bool = False
    depths: tuple[int, ...] = ()
    alone: bool = False
    rankings: dict[int, dict[str, Ranking]] = field(default_factory=dict, repr=False)
    variants: list[Variant] = field(default_factory=list, repr=False)
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def runs(self) -> tuple[int, ...]:
        """The depths to run the method at; the others follow from these."""
        return self.depths[-1:] if self.alone else self.depths


def named(specs: Mapping[str, Spec] | Sequence[Spec] | Spec | None) -> Any:
    """The rerankers to try, as for ``compare``; names of models become cross-encoders.

    Args:
        specs: presets, YAML files, configurations, rerankers, and names of cross-encoders on the
            Hugging Face Hub or their folders. None: the presets of local models.
    """
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
    """What to run of a reranker, or why it is not tried."""
    attempt = Attempt(name)
    try:
        config = reranker.to_config()
    except NotSerializableError as error:
        attempt.reason = f"it cannot be written as a configuration: {error}"
        return attempt
    attempt.config = config
    longest = max((len(items) for items in observed.candidates.values()), default=0)
    own = min(reranker.depth or longest, longest) or 1
    queries = observed.suite.queries
    sample = [(queries[query], items) for query, items in observed.candidates.items()][:_SAMPLE]
    uses = expected_use(reranker, sample)
    attempt.asks = any(use.calls for use in uses)
    attempt.alone = scores_alone(reranker.method)
    if _AS_IT_IS & config.keys():
        attempt.depths = ()
    elif depths is not None:
        attempt.depths = tuple(sorted({min(depth, longest) for depth in depths}))
    elif attempt.asks:  # every other depth would be paid for, unless it follows from this one
        smaller = [depth for depth in DEPTHS if depth < own] if attempt.alone else []
        attempt.depths = (*smaller, own)
    else:
        attempt.depths = tuple(sorted({own, *(min(depth, longest) for depth in DEPTHS)}))
    if attempt.asks and cost is not None:
        costs = [use.cost for use in uses if use.calls]
        if None in costs:
            attempt.reason = "its cost is not known; set `prices` of its language model"
        else:
            each = sum(price or 0.0 for price in costs) / max(1, len(sample))
            scale = min([*attempt.depths, own]) / own if attempt.alone else 1.0
            if each * scale > cost:
                attempt.reason = f"a query is expected to cost {each:.4g}, more than {cost:g}"
    return attempt


def bare(config: Mapping[str, Any], depth: int) -> Reranker:
    """The reranker at a depth without what is applied to its scores afterwards."""
    left = {key: value for key, value in config.items() if key not in (*_FITTED, "top_k", "tail")}
    return load({**left, "depth": depth})


def measure(attempt: Attempt, observed: Observations, warm: Callable[[Reranker], None]) -> None:
    """Run an attempt, and compute its variants; a failure becomes its reason.

    Variants of the depths before the one that failed remain.
    """
    try:
        if not attempt.depths:
            _measure_as_it_is(attempt, observed, warm)
            return
        for depth in attempt.runs:
            reranker = bare(attempt.config, depth)
            try:
                warm(reranker)
                rankings = observed.rankings(f"{attempt.name}@{depth}", reranker)
                if _failed(attempt, rankings, reranker.method.name):
                    break
                attempt.rankings[depth] = rankings
                _add_variants(attempt, observed, reranker, depth)
            finally:
                reranker.close()
    except SecondPassError as error:
        attempt.reason = str(error)
    # Of variants with the same quality the first is chosen: the cheapest, then the simplest.
    attempt.variants.sort(key=lambda item: (item.depth or 0, item.blend is not None))


def _measure_as_it_is(
    attempt: Attempt, observed: Observations, warm: Callable[[Reranker], None]
) -> None:
    """One variant, of a configuration of which nothing can be computed anew."""
    reranker = load(attempt.config)
    try:
        warm(reranker)
        rankings = observed.rankings(attempt.name, reranker)
        if _failed(attempt, rankings):
            return
        depth = reranker.depth
        run = {query: _scores([str(item.id) for item in it]) for query, it in rankings.items()}
        seconds = tuple(ranking.report.seconds for ranking in rankings.values())
        cost = _cost(rankings, attempt.asks)
        attempt.variants.append(Variant(depth, reranker.blend, attempt.config, run, seconds, cost))
    finally:
        reranker.close()


def _failed(attempt: Attempt, rankings: Mapping[str, Ranking], method: str | None = None) -> bool:
    """Whether nothing was judged, or never by the method of this name; sets the reason."""
    reports = [ranking.report for ranking in rankings.values()]
    attempt.statuses += Counter(report.status for report in reports)
    issues = Counter(issue.code for report in reports for issue in report.issues)
    attempt.reason = judged_nothing(rankings.values(), issues)
    used = {report.method for report in reports if report.method is not None}
    if not attempt.reason and method is not None and used and method not in used:
        names = ", ".join(sorted(used))
        attempt.reason = f"it never ran: every ranking is by a fallback, {names}"
    return bool(attempt.reason)


def _add_variants(
    attempt: Attempt, observed: Observations, reranker: Reranker, run_depth: int
) -> None:
    config = attempt.config
    rankings = attempt.rankings[run_depth]
    method = reranker.method
    own = load(config)  # its blend may come from defaults of a preset
    own.close()
    blends = [None, *(Blend(weight, "minmax") for weight in WEIGHTS)]
    if own.blend is not None and own.blend not in blends:
        blends.append(own.blend)
    cost = _cost(rankings, attempt.asks)
    for depth in attempt.depths if attempt.alone else (run_depth,):
        share = depth / run_depth
        seconds = tuple(ranking.report.seconds * share for ranking in rankings.values())
        for blend in blends:
            run = replayed_run(
                rankings,
                observed.candidates,
                method.name,
                blend,
                depth=depth,
                scale=method.scale,
                top_k=min(own.top_k or depth, depth) if own.tail == "drop" else own.top_k,
            )
            attempt.variants.append(
                Variant(
                    depth,
                    blend,
                    _configured(config, depth, blend),
                    run,
                    seconds,
                    None if cost is None else cost * share,
                )
            )


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


def _scores(documents: Sequence[str]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for index, document in enumerate(documents):
        scores.setdefault(document, float(len(documents) - index))
    return scores


def _spec(spec: Spec) -> Spec:
    """A name that is neither a preset nor a file as the model of a cross-encoder."""
    if isinstance(spec, str) and spec not in preset_names() and not _is_file(spec):
        return {"method": {"type": "cross_encoder", "model": spec}}
    return spec


def _is_file(spec: Any) -> bool:
    return Path(spec).suffix in {".yaml", ".yml"}
