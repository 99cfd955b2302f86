"""Fits a threshold and probabilities to the judged queries of a suite."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, get_args

from secondpass import InputError, NotSerializableError, Ranking, Reranker
from secondpass.formats.errors import check_numbers
from secondpass.ranking.fits import identity, precision_of
from secondpass.ranking.floors import Fit, Floor, FloorOn, Per
from secondpass.ranking.methods import asks
from secondpass.ranking.scoring import rerank_scores_alone
from secondpass.settings import changed, counted, describe
from secondpass.settings.arguments import explained
from secondpass.settings.loading import over_preset, read
from secondpass.settings.registry import dump_settings
from secondpass.types import Progress
from secondpass_evaluation.calibration.conformal import rounded_down, share_kept, threshold
from secondpass_evaluation.calibration.mapping import fit_probabilities
from secondpass_evaluation.calibration.result import Calibration
from secondpass_evaluation.calibration.samples import (
    FOUND,
    NothingRelevant,
    check_samples,
    nothing_relevant,
    relevant_scores,
    samples,
)
from secondpass_evaluation.distinct import merged_qrels, repetition_notes
from secondpass_evaluation.first_stages import FirstStage, Retriever
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.measures import relevance_of
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.provenance import tuning_notes
from secondpass_evaluation.rerankers import Spec
from secondpass_evaluation.reranking import warm_up_if_timed
from secondpass_evaluation.suites import Suite


def fingerprint(
    reranker: Reranker,
    stage_name: str | None = None,
    *,
    blended: bool = True,
    rankings: Iterable[Ranking] = (),
) -> dict[str, Any]:
    """The settings that the scores of a reranker depend on, as arguments of ``Fit``."""
    blend = reranker.blend if blended else None
    parts = identity(reranker.method, blend, reranker.depth, reranker.render, reranker.passages)
    precisions = dict.fromkeys(
        precision
        for ranking in rankings
        if (precision := precision_of(reranker.method, ranking.report.engines)) is not None
    )
    return {**parts, "first_stage": stage_name, "precision": ", ".join(precisions) or None}


_FITTED = ("floor", "probabilities")
_WITHOUT_EFFECT: Mapping[str, Any] = {
    **dict.fromkeys((*_FITTED, "order", "top_k")),
    "terms": (),
    # Not None: only with a floor are scores of an unexpected kind an error, as they are later.
    "floor": -sys.float_info.max,
}
"""Settings with which all candidates are scored and none is left out."""


@explained()
def calibrate(
    reranker: Spec,
    suite: Suite,
    *,
    keep: float = 0.9,
    per: Per = "query",
    probabilities: bool = False,
    relevant: int = 1,
    retriever: Retriever | None = None,
    behind: FirstStage | None = None,
    depth: int = 100,
    concurrency: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
    journal: Journal | None = None,
) -> Calibration:
    """Fit a threshold that keeps a share of the relevant candidates.

    The threshold is compared with the rerank score, or, with a blend by ``none`` or ``sigmoid``,
    with the final score. Fallbacks, terms, orderings, ``top_k`` and a configured threshold are not
    used.

    Args:
        reranker: a reranker, a configuration, the path of one, or the name of a preset.
        suite: judged queries; candidates without a judgement count as not relevant.
        keep: the share of relevant candidates to keep, above 0 and below 1.
        per: what the share is of. ``query`` bounds the share kept, as a mean over queries;
            ``document`` bounds the share of all relevant candidates.
        probabilities: whether to fit probabilities of relevance as well.
        relevant: the lowest relevance that counts as relevant, 1 or more.
        retriever: as for :func:`~secondpass_evaluation.compare`, like those that follow.
        behind: one first stage.
        depth: maximum number of candidates of each query.
        concurrency: number of rankings at a time.
        progress: called after each query.
        journal: receives each finished ranking; rankings that it has are reused.
        seed: of the folds that choose the mapping of probabilities.

    Raises:
        ConfigurationError: a setting of the reranker is wrong.
        InputError: an argument is wrong, the scores are ranks, too few queries have a relevant
            candidate with a score, or all scores are equal.
    """
    if not isinstance(keep, float) or not 0 < keep < 1:
        raise InputError(f"keep: must be above 0 and below 1, not {describe(keep)}")
    if per not in get_args(Per):
        raise InputError(f"per: must be {' or '.join(get_args(Per))}, not {describe(per)}")
    check_numbers(relevant=(relevant, 1), seed=(seed, 0))
    config, configured = _load(reranker)
    try:
        on = _floor_on(configured)
        scorer = changed(configured, **_WITHOUT_EFFECT, fallback=(), strict=False, tail="keep")
        observed = Observations(
            suite,
            retriever=retriever,
            behind=behind,
            depth=depth,
            concurrency=concurrency,
            progress=progress,
            journal=journal,
        )
        warm_up_if_timed(scorer)
        rankings = observed.rankings("rerank", scorer)
        by_query, notes = samples(rankings, suite.qrels, suite.queries, relevant)
        check_samples(by_query, keep, per, notes)
        pointwise = rerank_scores_alone(scorer.method)
        without = None
        if not pointwise and not asks(scorer.method):
            without = scores_without_relevant(observed, "rerank", scorer, relevant)
        found = relevant_scores(by_query, on)
        parts = fingerprint(
            configured, observed.stage, blended=on == "final", rankings=rankings.values()
        )
    finally:
        if not isinstance(reranker, Reranker):
            configured.close()
    fit = Fit(**parts, per=per, queries=len(found), documents=sum(map(len, found)))
    at = threshold(found, keep, per)
    assert at is not None  # check_samples
    nothing = nothing_relevant(by_query, keep, without)
    below = rounded_down(nothing.threshold) if nothing is not None and nothing.usable else None
    floor = Floor(rounded_down(at), on, below, keep, fit)
    mapping = None
    if probabilities:  # fitted to rerank scores, so they do not depend on the blend
        mapping = fit_probabilities(by_query, replace(fit, blend=None), seed)
    if config is not None:
        config["floor"] = dump_settings(floor, "floor")
        if mapping is not None:
            config["probabilities"] = dump_settings(mapping.probabilities, "probabilities")
    if isinstance(reranker, str | PathLike):
        notes += tuning_notes(reranker)
    notes += _notes(nothing, pointwise, estimated=not pointwise and without is None)
    if configured.depth is None or depth < configured.depth:
        judged = "all" if configured.depth is None else f"up to {configured.depth:,}"
        notes.append(
            f"lists have {counted(depth, 'candidate')} at most, and the reranker judges {judged}"
        )
    candidates = sum(len(sample.rerank) for sample in by_query.values())
    kept = sum(int((sample.scores(on) >= floor.at).sum()) for sample in by_query.values())
    return Calibration(
        suite=suite.name,
        first_stage=observed.stage,
        floor=floor,
        mapping=mapping,
        queries=len(by_query),
        candidates=candidates,
        relevant_kept=share_kept(found, floor.at, per),
        candidates_kept=kept / candidates,
        flagged=None if nothing is None else nothing.flagged,
        found_empty=None if nothing is None else nothing.found,
        notes=(*suite.notes, *repetition_notes(suite.queries), *notes),
        config=config,
    )


def _load(spec: Spec) -> tuple[dict[str, Any] | None, Reranker]:
    """The configuration without the settings fitted here, None if it has none; and its reranker."""
    if isinstance(spec, Reranker):
        try:
            config = spec.to_config()
        except NotSerializableError:
            return None, spec
        return {key: value for key, value in config.items() if key not in _FITTED}, spec
    config, _ = read(spec)
    # Those of a preset, too. Loading fails if fitted settings do not match the others.
    config = {key: value for key, value in over_preset(config).items() if key not in _FITTED}
    return config, Reranker.from_config(config)


def _floor_on(reranker: Reranker) -> FloorOn:
    """The score that the threshold is compared with."""
    stage = reranker._stages[0]
    if stage.method.score_kind == "rank":
        raise InputError(
            f"calibrate: the scores of {stage.method.name!r} are ranks, which say "
            "nothing about relevance as such, so there is no threshold to fit; use top_k"
        )
    return Floor(0.0).resolved(stage.blend).on or "rerank"


def scores_without_relevant(
    observed: Observations, name: str, reranker: Reranker, lowest: int
) -> dict[str, list[float]]:
    """Query id -> rerank scores of its list without the relevant candidates, where it has any."""
    suite = observed.suite
    qrels = merged_qrels(suite.qrels, suite.queries)
    rest = {}
    for query, items in observed.candidates.items():
        others = [item for item in items if relevance_of(item, qrels[query]) < lowest]
        if len(others) < len(items):
            rest[query] = others
    rankings = observed.rankings(name, reranker, candidates=rest, label=" without relevant")
    return {
        query: [item.rerank_score for item in ranking if item.rerank_score is not None]
        for query, ranking in rankings.items()
        if ranking.report.status != "degraded"
    }


def _notes(nothing: NothingRelevant | None, pointwise: bool, *, estimated: bool) -> Iterator[str]:
    if not pointwise:
        yield (
            "the scores depend on the whole list of candidates, so the bound holds only for lists "
            "of this first stage and depth"
        )
    if nothing is None:
        yield (
            "too few queries to say whether a low best score means that nothing relevant was "
            "found, so nothing_relevant stays off"
        )
    elif not nothing.usable:
        yield (
            f"nothing_relevant stays off: on held-out queries, a low best score finds only "
            f"{nothing.found:.1%} of the lists whose relevant candidates were removed (needed: "
            f"{FOUND:.0%}), and it wrongly reports {nothing.flagged:.1%} of the complete lists"
        )
    if nothing is not None and estimated:
        yield (
            "how many lists whose relevant candidates were removed are found is an estimate, made "
            "from the scores of the complete lists"
        )
