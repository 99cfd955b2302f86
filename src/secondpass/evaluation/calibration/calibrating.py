"""Fits a threshold, and probabilities, to the judged queries of a suite."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from secondpass.config.loading import load, read
from secondpass.errors import InputError, NotSerializableError
from secondpass.evaluation.calibration.conformal import rounded_down, share_kept
from secondpass.evaluation.calibration.fingerprint import fingerprint
from secondpass.evaluation.calibration.mapping import MappingFit, fit_probabilities
from secondpass.evaluation.calibration.result import Calibration
from secondpass.evaluation.calibration.samples import (
    FEWEST_QUERIES,
    USABLE,
    Sample,
    Separation,
    check_samples,
    fitted_threshold,
    relevant_scores,
    samples,
    separation,
)
from secondpass.evaluation.first_stages import FirstStage, Retriever
from secondpass.evaluation.journal import Journal
from secondpass.evaluation.observations import Observations
from secondpass.evaluation.rerankers import Spec
from secondpass.evaluation.reranking import Progress
from secondpass.evaluation.suites import Suite
from secondpass.formats.errors import check_numbers
from secondpass.reranker import Reranker
from secondpass.runtime.floors import Fit, Floor, FloorOn, Per
from secondpass.scoring import scores_alone
from secondpass.settings import changed, describe, registry
from secondpass.strategies.parts import asks
from secondpass.types import Ranking

_NAME = "rerank"
_FITTED = ("floor", "probabilities")
_UNCHANGED: Mapping[str, Any] = {
    **dict.fromkeys((*_FITTED, "order", "top_k")),
    # Below every score: as with the fitted one, scores of an unexpected kind are an error.
    "floor": -sys.float_info.max,
}


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

    It is on the final score, unless a blend makes that relative to the list: then on the rerank
    score. Fallbacks, orderings, ``top_k`` and the present threshold are not used.

    Args:
        reranker: or a configuration, the path of one, or the name of a preset.
        suite: judged queries; candidates without a judgement count as not relevant.
        keep: the share of relevant candidates to keep, above 0 and below 1.
        per: what the bound assumes to be exchangeable: ``query`` bounds the mean over queries of
            the share that each keeps; ``document`` that over all relevant candidates.
        probabilities: whether to fit probabilities of relevance, too.
        relevant: the lowest relevance that counts as relevant, 1 or more.
        retriever: searches the corpus. None: BM25 and the embedded model's vectors.
        behind: the first stage. None: the first of ``given``, ``hybrid``, ``lexical`` and
            ``vector`` that can run.
        depth: maximum number of candidates of each query.
        concurrency: number of rankings at a time.
        seed: of the folds that choose the mapping of probabilities.
        progress: called after each query.
        journal: receives each finished ranking; those that it has are not made again.

    Raises:
        ConfigurationError: a setting of the reranker is wrong.
        InputError: an argument is wrong, the scores are ranks, or the queries do not suffice: too
            few have a relevant candidate with a score, or all scores are equal.
    """
    _check(keep, per)
    check_numbers(relevant=(relevant, 1), seed=(seed, 0))
    config, whole = _loaded(reranker)
    try:
        on = _compared(whole)
        probe = changed(whole, **_UNCHANGED, fallback=(), strict=False, tail="keep")
        observed = Observations(
            suite,
            retriever=retriever,
            behind=behind,
            depth=depth,
            concurrency=concurrency,
            progress=progress,
            journal=journal,
        )
        rankings = observed.rankings(_NAME, probe)
        found, notes = samples(rankings, suite.qrels, relevant)
        check_samples(found, keep, per)
        alone = scores_alone(probe.method)
        without = None
        if not alone and not asks(probe.method):
            without = lists_without(observed, _NAME, probe, relevant)
        apart = separation(found, without)
        fit = _fit(found, rankings, whole, stage=observed.stage, on=on, per=per)
        floor = _floor(found, keep, fit, on=on, apart=apart)
        mapping = _mapping(found, fit, seed) if probabilities else None
    finally:
        if not isinstance(reranker, Reranker):
            whole.close()
    notes += _notes(apart, alone, estimated=not alone and without is None)
    if whole.depth is None or depth < whole.depth:
        judged = "all" if whole.depth is None else f"up to {whole.depth:,}"
        notes.append(f"lists have {depth:,} candidates at most, and the reranker judges {judged}")
    return _result(
        suite,
        found,
        floor,
        stage=observed.stage,
        config=config,
        mapping=mapping,
        apart=apart,
        notes=[*suite.notes, *notes],
    )


def _check(keep: object, per: object) -> None:
    if not isinstance(keep, float) or not 0 < keep < 1:
        raise InputError(f"keep: must be above 0 and below 1, not {describe(keep)}")
    if per not in get_args(Per):
        raise InputError(f"per: must be {' or '.join(get_args(Per))}, not {describe(per)}")


def _loaded(spec: Spec) -> tuple[dict[str, Any] | None, Reranker]:
    """The configuration without what is fitted here, None if there is none; and its reranker."""
    if isinstance(spec, Reranker):
        try:
            config = spec.to_config()
        except NotSerializableError:
            return None, spec
        return {key: value for key, value in config.items() if key not in _FITTED}, spec
    config, _ = read(spec)
    # A fit for other settings would be refused.
    config = {key: value for key, value in config.items() if key not in _FITTED}
    return config, load(config)


def _compared(reranker: Reranker) -> FloorOn:
    """What the threshold is compared with.

    Raises:
        InputError: the scores are ranks.
    """
    stage = reranker._stages[0]
    if stage.method.score_kind == "rank":
        anchored = "" if reranker.anchor is None else " with an anchor"
        raise InputError(
            f"calibrate: the scores of {stage.method.name!r}{anchored} are ranks, which say "
            "nothing about relevance as such, so there is no threshold to fit; use top_k"
        )
    return "final" if stage.blend is None or stage.blend.by_value else "rerank"


def lists_without(
    observed: Observations, name: str, reranker: Reranker, lowest: int
) -> dict[str, list[float]]:
    """Scores of the lists without their relevant candidates, by query id.

    Args:
        observed: the first stage's lists.
        name: of the reranker.
        reranker: ranks them again.
        lowest: the lowest relevance that counts as relevant.
    """
    qrels = observed.suite.qrels
    rest = {
        query: [item for item in items if qrels[query].get(str(item.id), 0) < lowest]
        for query, items in observed.candidates.items()
        if any(qrels[query].get(str(item.id), 0) >= lowest for item in items)
    }
    rankings = observed.rankings(name, reranker, candidates=rest, label=" without relevant")
    return {
        query: [item.rerank_score for item in ranking if item.rerank_score is not None]
        for query, ranking in rankings.items()
        if ranking.report.status != "degraded"
    }


def _fit(
    found: Mapping[str, Sample],
    rankings: Mapping[str, Ranking],
    reranker: Reranker,
    *,
    stage: str,
    on: FloorOn,
    per: Per,
) -> Fit:
    relevant = relevant_scores(found, on)
    parts = fingerprint(reranker, stage, blended=on == "final", rankings=rankings.values())
    return Fit(**parts, per=per, queries=len(relevant), documents=sum(map(len, relevant)))


def _floor(
    found: Mapping[str, Sample],
    keep: float,
    fit: Fit,
    *,
    on: FloorOn,
    apart: Separation | None,
) -> Floor:
    at, unblended = (fitted_threshold(found, keep, fit.per, scores) for scores in (on, "rerank"))
    assert at is not None
    assert unblended is not None
    usable = apart is not None and apart.usable
    nothing = rounded_down(unblended) if usable else None
    return Floor(rounded_down(at), on, nothing, keep, fit)


def _mapping(found: Mapping[str, Sample], fit: Fit, seed: int) -> MappingFit:
    # Probabilities are those of rerank scores, whatever the blend.
    return fit_probabilities(found, replace(fit, blend=None), seed)


def _notes(apart: Separation | None, alone: bool, *, estimated: bool) -> list[str]:
    notes = []
    if not alone:
        notes.append(
            "the scores depend on the whole list: the bound holds for lists of this first stage "
            "and depth only"
        )
    if apart is None:
        notes.append(
            f"fewer than {FEWEST_QUERIES} queries have relevant candidates among others, too few "
            "to tell whether this score can find lists without any: nothing_relevant stays off"
        )
    elif not apart.usable:
        notes.append(
            "this score cannot tell lists with a relevant candidate from lists without "
            f"(AUROC {apart.auroc:.2f}, below {USABLE:g}): nothing_relevant stays off"
        )
    elif estimated:
        notes.append("the AUROC is estimated with the scores of the complete lists")
    return notes


def _result(
    suite: Suite,
    found: Mapping[str, Sample],
    floor: Floor,
    *,
    stage: str,
    config: dict[str, Any] | None,
    mapping: MappingFit | None,
    apart: Separation | None,
    notes: Sequence[str],
) -> Calibration:
    per = floor.fitted.per if floor.fitted else "query"
    everything = sum(len(sample.rerank) for sample in found.values())
    kept = sum(int((sample.scores(floor.on) >= floor.at).sum()) for sample in found.values())
    if config is not None:
        config["floor"] = registry.dump_settings(floor, "floor")
        if mapping is not None:
            dumped = registry.dump_settings(mapping.probabilities, "probabilities")
            config["probabilities"] = dumped
    flagged = found_empty = None
    if apart is not None and floor.nothing is not None:
        flagged = float((apart.best < floor.nothing).mean())
        found_empty = float((apart.best_without < floor.nothing).mean())
    return Calibration(
        suite=suite.name,
        first_stage=stage,
        floor=floor,
        mapping=mapping,
        queries=len(found),
        candidates=everything,
        relevant_kept=share_kept(relevant_scores(found, floor.on), floor.at, per),
        candidates_kept=kept / everything,
        auroc=apart.auroc if apart else None,
        flagged=flagged,
        found_empty=found_empty,
        notes=tuple(notes),
        config=config,
    )
