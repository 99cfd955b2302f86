"""The verdict of a comparison, in words: does reranking help?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from secondpass.settings import counted
from secondpass.types import DEGRADED_WORDS
from secondpass_evaluation.judging.inference import Corrected, excludes_zero
from secondpass_evaluation.report.text import Tone, interval, listed, milliseconds, p_phrase
from secondpass_evaluation.results import ComparisonData, Cost, Result, percentile
from secondpass_evaluation.significance import Difference, fewest_queries
from secondpass_evaluation.significance import difference as difference_of

_ZERO = 5e-5
"""Mean differences below this are printed as 0.0000."""

_MOST = 0.9
"""Share of the gain that a smaller depth has to keep to be named."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a comparison.

    Attributes:
        answer: one short sentence.
        because: the figures, in sentences.
        best: the reranker that the verdict is about: the one with the highest mean, or the one
            with the surest gain if that of the highest mean may be chance. None if there is none.
        difference: of ``best`` from what it is compared with.
    """

    answer: str
    because: str
    best: Result | None = None
    difference: Difference | None = None


def verdict(comparison: ComparisonData) -> Verdict:
    """The verdict by the first measure: the best reranker, its gain, and its cost.

    If a first stage alone is as good as that reranker, the answer says so. If no reranker ran, but
    fallbacks did, the answer says only this.

    If a model made the judgements, the verdict uses the difference corrected by a person's
    judgements; without these, it says that it depends on the model's grades alone.
    """
    rerankers = [result for result in comparison.ran if result.first_stage is not None]
    reasons = without_figures(comparison, stages=False)
    fallbacks = ranked_by_fallbacks(comparison)
    if not rerankers:
        if not reasons:
            return Verdict("No verdict.", "No reranker was requested.")
        return Verdict("Nothing was reranked, so there is no verdict.", " ".join(reasons))
    measure = comparison.measures[0]
    measured = [result for result in rerankers if not result.only_fallbacks] or rerankers
    compared = [result for result in measured if measure in result.differences]
    if not compared:
        (only, *_) = measured
        because = "There is no baseline to compare with."
        if only.name == comparison.baseline:
            because = f"{only.name} has nothing to be compared with."
        if only.only_fallbacks:
            return Verdict(" ".join(fallbacks), " ".join([because, *reasons]), only)
        return Verdict("No verdict.", " ".join([because, *fallbacks, *reasons]), only)
    # A significant gain ranks above a larger one that may be chance.
    best = max(compared, key=lambda result: (_is_gain(comparison, result), mean(result)))
    if best.only_fallbacks:
        parts = [_figures(comparison, best, is_highest=True), _grades(comparison, best)]
        parts += [_costs(best), *reasons]
        because = " ".join(filter(None, parts))
        return Verdict(" ".join(fallbacks), because, best, best.differences[measure])
    alone = _as_good_alone(comparison, best)
    parts = [
        _figures(comparison, best, is_highest=_is_highest(best, compared)),
        _next(comparison, best),
        _grades(comparison, best),
        _costs(best),
        _smaller_depth(comparison, best),
        _failures(best),
        *_others(comparison, best, alone),
        _shuffled(comparison),
        *fallbacks,
        *reasons,
    ]
    because = " ".join(filter(None, parts))
    if alone is None:
        sentences = [_answer, _times_of_passages, _over_best]
        answer = " ".join(filter(None, [each(comparison, best) for each in sentences]))
    else:
        answer = _alone(comparison, alone, best)
    return Verdict(answer, because, best, best.differences[measure])


def is_significant(difference: Difference) -> bool:
    """Whether the corrected p is below 1 - confidence, on enough queries."""
    p = difference.corrected_p
    return difference.enough_queries and p is not None and p < 1 - difference.confidence


def _is_significant(comparison: ComparisonData, result: Result) -> bool:
    """By the corrected difference, if a person's judgements correct it."""
    corrected = _corrected(comparison, result)
    if corrected is None:
        return is_significant(result.differences[comparison.measures[0]])
    return excludes_zero(corrected, _compared(comparison))


def _is_gain(comparison: ComparisonData, result: Result) -> bool:
    change = _corrected(comparison, result) or result.differences[comparison.measures[0]]
    return change.mean > 0 and _is_significant(comparison, result)


def tone_of(difference: Difference) -> Tone:
    """The colour of a difference: none if it is not significant."""
    if not is_significant(difference) or abs(difference.mean) < _ZERO:
        return ""
    return "gain" if difference.mean > 0 else "loss"


def too_few(difference: Difference) -> str:
    """A phrase that there are too few queries; empty if there are enough."""
    if difference.enough_queries:
        return ""
    are = "query is" if difference.queries == 1 else "queries are"
    return f"{difference.queries} {are} too few to say"


def mean(result: Result) -> float:
    """Mean by the first measure; 0 if the system was not measured."""
    if result.evaluation is None:
        return 0.0
    return next(iter(result.evaluation.mean.values()), 0.0)


def calls_per_query(result: Result) -> str | None:
    """Calls per query as text; None if not known, and if no service is asked."""
    count = len(result.cost.seconds)
    if not count or not result.cost.calls:
        return None
    return f"{result.cost.calls / count:,.1f}".removesuffix(".0")


def degraded_by(result: Result) -> str:
    """Why rankings are degraded, in words, with the names of fallbacks."""
    words = {**DEGRADED_WORDS}
    if names := sorted(result.fallbacks):
        plural = "s" if len(names) > 1 else ""
        words["fallback"] = f"ranked by the fallback{plural} {listed(names)}"
    return "; ".join(words[reason] for reason in words if result.degraded_by.get(reason))


def _base(comparison: ComparisonData, best: Result) -> Result | None:
    """The system that a reranker is compared with."""
    base = comparison.base_of(best)
    return next((result for result in comparison.results if result.name == base), None)


def _is_highest(best: Result, compared: list[Result]) -> bool:
    return mean(best) + _ZERO > max(map(mean, compared))


def _as_good_alone(comparison: ComparisonData, best: Result) -> Result | None:
    """The best first stage that is at least as good as a reranker after another search.

    None if there is none, if the reranker does not pay, and if there are too few queries.
    """
    change = _corrected(comparison, best) or best.differences[comparison.measures[0]]
    if change.mean <= -_ZERO or not best.differences[comparison.measures[0]].enough_queries:
        return None
    stage = _best_other_stage(comparison, best)
    if stage is None or _level(comparison, stage) + _ZERO < _level(comparison, best):
        return None
    return stage


def _best_other_stage(comparison: ComparisonData, best: Result) -> Result | None:
    """The best first stage alone, except that which the reranker is compared with."""
    stages = [
        result
        for result in comparison.ran
        if result.first_stage is None
        and result.name != comparison.base_of(best)
        and result.evaluation is not None
    ]
    return max(stages, key=lambda result: _level(comparison, result), default=None)


def _over_best(comparison: ComparisonData, best: Result) -> str:
    """A sentence on the gain over the best search alone.

    Empty if the reranker is compared with that search, or has no gain.
    """
    base, change = _base(comparison, best), best.differences[comparison.measures[0]]
    stage = _best_other_stage(comparison, best)
    if base is None or stage is None or not change.enough_queries or change.mean < _ZERO:
        return ""
    if _level(comparison, stage) <= _level(comparison, base) + _ZERO:
        return ""
    gain = f"{_level(comparison, best) - _level(comparison, stage):+.4f}"
    if comparison.corrected:
        gain += ", corrected by a person's judgements"
    else:
        over = _paired(comparison.measures[0], best, stage, change.confidence)
        if over is not None and over.low is not None:
            gain += f" ({over.confidence:.0%} interval {interval(over.low, over.high)})"
    return f"Over {stage.name} alone, the best search, it gains {gain}."


def _level(comparison: ComparisonData, result: Result) -> float:
    """Mean by the first measure; corrected by a person's judgements, if there are some."""
    for item in comparison.corrected:
        if (item.name, item.mean.measure) == (result.name, comparison.measures[0]):
            return item.mean.mean
    return mean(result)


def _alone(comparison: ComparisonData, stage: Result, best: Result) -> str:
    """A sentence that a first stage alone is as good as a reranker, with the difference."""
    measure = comparison.measures[0]
    level, other = (f"{_level(comparison, system):.4f}" for system in (stage, best))
    figures = f": {measure} {level} against {other}"
    if level == other:
        figures = f", with the same {measure}, {level}"
    if comparison.corrected:
        return (
            f"{stage.name} alone is as good as {best.name}{figures}, both corrected by a "
            "person's judgements."
        )
    change = _paired(measure, stage, best, best.differences[measure].confidence)
    is_better = False
    if change is not None:
        if level != other:
            figures += f", a difference of {change.mean:+.4f}"
        if change.low is not None:
            is_better = change.low > 0
            between = interval(change.low, change.high)
            of = " of the difference" if level == other else ""
            figures += f" ({change.confidence:.0%} interval{of} {between})"
    by = ", by a model's grades alone" if comparison.judged_by is not None else ""
    how = "better than" if is_better else "as good as"
    return f"{stage.name} alone is {how} {best.name}{by}{figures}."


def _paired(measure: str, system: Result, other: Result, confidence: float) -> Difference | None:
    """The difference of a system from another; None if their queries differ."""
    values, others = _by_query(system, measure), _by_query(other, measure)
    if values.keys() != others.keys():
        return None
    return difference_of(measure, values, others, test="t", confidence=confidence)


def _by_query(result: Result, measure: str) -> Mapping[str, float]:
    return {} if result.evaluation is None else result.evaluation.per_query[measure]


def _answer(comparison: ComparisonData, best: Result) -> str:
    base, difference = _base(comparison, best), best.differences[comparison.measures[0]]
    subject = "Reranking"
    if base is not None and base.name != best.first_stage:
        subject = f"{best.name} over {base.name}"
    if few := too_few(difference):
        return f"{few} whether {subject.replace('Reranking', 'reranking')} helps."
    corrected = _corrected(comparison, best)
    change = corrected or difference
    alone = comparison.judged_by is not None and corrected is None
    by = ", by a model's grades alone" if alone else ""
    if abs(change.mean) < _ZERO:
        if change.low is None or change.high is None:
            return f"{subject} makes no difference{by}."
        between = interval(change.low, change.high)
        percent = f"{change.confidence:.0%}"
        return f"{subject} makes no difference on average{by} ({percent} interval {between})."
    significant = _is_significant(comparison, best)
    if change.mean < 0:
        makes = "makes" if significant else "may make"
        return f"{subject} does not help: it {makes} things worse{by}."
    at = "" if (times := _times(comparison, best)) is None else f", at {times}"
    if significant:
        return f"{subject} improves the order{by}{at}."
    return f"{subject} may improve the order{at}, but that may be chance{by}."


def _times(comparison: ComparisonData, best: Result) -> str | None:
    """The time of a reranker relative to another's, or its own search's; None if not known.

    None, too, if it depends on whether passages were encoded before.
    """
    base = _timed(comparison, best)
    seconds = percentile(best.cost.seconds.values(), 0.5)
    if base is None or best.cost.known or not seconds:
        return None
    others = base.cost.percentile(0.5)
    if not others:  # candidates that are part of the suite have no search time
        return f"{milliseconds(seconds)} a query"
    ratio = seconds / others
    if ratio < 0.095:
        times = "less than a tenth of"
    else:
        times = f"{ratio:,.0f} times" if ratio >= 9.95 else f"{ratio:.1f} times"
    return f"{times} {_timed_name(comparison, best, base)}'s time"


def _times_of_passages(comparison: ComparisonData, best: Result) -> str:
    """A sentence on the times with passages that were encoded before, and with new ones.

    Without a ratio: it would be that of one run, and hide what new passages take. Empty if the
    reranker has no gain, or most passages were not encoded before.
    """
    base, cost = _timed(comparison, best), best.cost
    change = _corrected(comparison, best) or best.differences[comparison.measures[0]]
    if base is None or not cost.known or cost.typical_seconds is cost.seconds:
        return ""
    if change.mean < _ZERO or not best.differences[comparison.measures[0]].enough_queries:
        return ""
    before = percentile(cost.typical_seconds.values(), 0.5)
    if before is None:
        return ""
    new = percentile(cost.of_passages(encoded_before=False).values(), 0.5)
    longer = "longer" if new is None else milliseconds(new)
    text = f"It takes {milliseconds(before)} a query (new passages: {longer})"
    if others := base.cost.percentile(0.5):
        text += f", {_timed_name(comparison, best, base)} {milliseconds(others)}"
    return f"{text}."


def _timed(comparison: ComparisonData, best: Result) -> Result | None:
    """The system whose time a reranker's is compared with; None if the times say nothing."""
    base = _base(comparison, best)
    if base is not None and base.first_stage is None and base.name != best.first_stage:
        # Another search: what the reranking adds is compared with the search that it adds it to.
        stages = (result for result in comparison.results if result.name == best.first_stage)
        base = next(stages, None)
    if base is None or best.cost.cached or base.cost.cached:  # answers of a cache took no time
        return None
    return base


def _timed_name(comparison: ComparisonData, best: Result, base: Result) -> str:
    is_search = base.name == best.first_stage == comparison.base_of(best)
    return "the search" if is_search else base.name


def _smaller_depth(comparison: ComparisonData, best: Result) -> str:
    """The smallest depth that keeps most of a significant gain; empty if none is known."""
    difference = best.differences[comparison.measures[0]]
    is_own = comparison.base_of(best) == best.first_stage
    if not is_own or not best.depths or not _is_gain(comparison, best) or difference.mean < _ZERO:
        return ""
    own = max(best.depths)
    base = mean(best) - difference.mean
    for depth, value in sorted(best.depths.items()):
        kept = (value - base) / difference.mean
        if depth < own and kept >= _MOST:
            return (
                f"Reranking the first {depth:,} of {own:,} candidates would keep {kept:.0%} of the "
                f"gain on these queries, in about {depth / own:.0%} of the reranking time."
            )
    return ""


def _corrected(comparison: ComparisonData, result: Result) -> Corrected | None:
    """The corrected difference of the first measure, if there is one."""
    for item in comparison.corrected:
        if (item.name, item.mean.measure) == (result.name, comparison.measures[0]):
            return item.difference
    return None


def _compared(comparison: ComparisonData) -> int:
    """Number of systems that are compared by the first measure."""
    return sum(comparison.measures[0] in result.differences for result in comparison.ran)


def _grades(comparison: ComparisonData, best: Result) -> str:
    """Sentences on a model's judgements and their correction; empty if people judged."""
    mark, corrected = comparison.judged_by, _corrected(comparison, best)
    if mark is None:
        return ""
    by = f"{mark.model} made the judgements"
    if mark.gaps:
        by = f"{mark.gaps}. {by}"
    if corrected is None:
        return f"{by}, and no person's judgements correct these figures."
    significant = "" if _is_significant(comparison, best) else "not "
    return (
        f"{by}. Corrected by a person's judgements of {corrected.people} queries, the difference "
        f"is {corrected.mean:+.4f} ({corrected.confidence:.0%} interval "
        f"{interval(corrected.low, corrected.high)}), which is {significant}significant. The "
        "verdict uses this difference."
    )


def _figures(comparison: ComparisonData, best: Result, *, is_highest: bool) -> str:
    difference = best.differences[comparison.measures[0]]
    how = f"{abs(difference.mean):.4f} {'more' if difference.mean > 0 else 'less'} than"
    if no_difference := abs(difference.mean) < _ZERO:
        how = "the same on average as"
    is_own = comparison.base_of(best) == best.first_stage
    stage = "the first stage, " if is_own else "the baseline, "
    what = "The best reranker" if is_highest else "The reranker with the surest gain"
    what = f"With its fallback, {best.name}" if best.only_fallbacks else f"{what}, {best.name},"
    text = (
        f"{what} has {difference.measure} {mean(best):.4f}, {how} {stage}{comparison.base_of(best)}"
    )
    if difference.enough_queries and difference.low is not None:
        between = interval(difference.low, difference.high)
        text += f" ({difference.confidence:.0%} interval {between})"
    count = _compared(comparison)
    if difference.enough_queries and difference.corrected_p is not None and not no_difference:
        significant = "significant" if is_significant(difference) else "not significant"
        p = p_phrase(difference.corrected_p)
        corrected = f", corrected for {count} comparisons" if count > 1 else ""
        text += f", which is {significant} ({p}{corrected})"
    text += "."
    if difference.enough_queries and not no_difference:
        text += _contradiction(difference, count)
    text += f" Query by query: {difference.wins} better, {difference.losses} worse"
    text += f", {difference.ties} equal."
    if not difference.enough_queries:
        fewest = fewest_queries(difference.confidence)
        text += f" At least {fewest} queries are needed to tell a difference from chance, so no "
        text += "interval is given."
    return text


def _contradiction(difference: Difference, count: int) -> str:
    """A sentence on an interval that says another thing than p; empty if both agree."""
    excludes, significant = _excludes_zero(difference), is_significant(difference)
    if excludes is significant or difference.low is None:
        return ""
    if excludes and count > 1:
        return " The interval excludes 0, but only p is corrected for the number of comparisons."
    what = "excludes" if excludes else "includes"
    return (
        f" The interval {what} 0, but it assumes that the differences are normally distributed. "
        "The test of p does not, so it decides."
    )


def _excludes_zero(difference: Difference) -> bool:
    low, high = difference.low, difference.high
    return low is not None and high is not None and (low > 0 or high < 0)


def _next(comparison: ComparisonData, best: Result) -> str:
    """What would tell a difference that may be chance; empty if it is none."""
    difference = best.differences[comparison.measures[0]]
    if not difference.enough_queries or is_significant(difference) or difference.low is None:
        return ""
    if _corrected(comparison, best) is not None:
        return ""
    return "With four times as many judged queries, the interval would be about half as wide."


def _costs(best: Result) -> str:
    cost, count = best.cost, len(best.cost.seconds)
    median = percentile(cost.typical_seconds.values(), 0.5)
    if median is None:
        return ""
    parts = [f"{milliseconds(median)} per query (median)"]
    if calls := calls_per_query(best):
        parts.append(f"{calls} {'call' if calls == '1' else 'calls'} per query")
    if cost.cost is not None:
        parts.append(f"{cost.cost / count * 1000:,.2f} per 1,000 queries at the configured prices")
    if cost.units_per_query is not None:
        parts.append(f"{cost.units_per_query:,.3g} billed units per query")
    text = f"It takes {listed(parts)}."
    if cost.known:
        text += f" {cost.share_known:.0%} of the passages had been encoded before, for another "
        text += "query or in a store"
        text += _first_seen_time(cost)
    return text


def _first_seen_time(cost: Cost) -> str:
    """The rest of a sentence on passages that were encoded before."""
    new = cost.of_passages(encoded_before=False)
    if not new:
        return "; with passages seen for the first time a query takes longer."
    if cost.typical_seconds is cost.seconds:
        longest = milliseconds(max(new.values()))
        return f"; with new passages alone a query takes longer, here up to {longest}."
    median = milliseconds(percentile(new.values(), 0.5) or 0.0)
    count = counted(len(new), "query", "queries")
    return f". With passages seen for the first time it takes {median} (median of {count})."


def _failures(best: Result) -> str:
    """The shares of rankings that are not ok; empty if all are."""
    count = sum(best.statuses.values())
    remarks = {
        "degraded": degraded_by(best),
        "unchanged": "nothing was judged",
        "partial": "only some candidates were scored",
    }
    parts = [
        (number / count, f"were {status} ({remarks[status]})")
        for status in remarks
        if (number := best.statuses.get(status, 0))
    ]
    if not parts:
        return ""
    if len(parts) == 1:
        (share, what), *_ = parts
        return f"{'All' if share == 1 else f'{share:.1%}'} of its rankings {what}."
    rate = sum(share for share, _ in parts)
    none = best.statuses.get("ok", 0) == 0
    text = "None of its rankings was ok" if none else f"{rate:.1%} of its rankings were not ok"
    return f"{text}: {listed([f'{share:.1%} {what}' for share, what in parts])}."


def _shuffled(comparison: ComparisonData) -> str:
    """A sentence on the effect of input order; empty if nothing was shuffled."""
    parts = []
    for result in comparison.ran:
        if (stability := result.stability) is None or not stability.shuffles:
            continue
        tau, kept = f"{stability.tau:.3f}", f"{stability.overlap:.0%}"
        if float(tau) == 1 and stability.overlap == 1:
            parts.append(f"{result.name} does not depend on the order")
        else:
            parts.append(f"{result.name} keeps {kept} of its top 10 (tau {tau})")
    return f"Shuffled input: {'; '.join(parts)}." if parts else ""


def _others(comparison: ComparisonData, best: Result, alone: Result | None) -> list[str]:
    """Why the verdict is not about systems with a higher mean; the answer names ``alone``."""
    others = []
    for result in comparison.ran:
        if result in (best, alone) or result.only_fallbacks or mean(result) <= mean(best) + _ZERO:
            continue
        if result.name == comparison.baseline:
            if result.first_stage is not None:
                others.append(f"{result.name} itself, the baseline, is a reranker.")
        elif result.first_stage is None:
            others.append(
                f"{result.name}, without reranking, has a higher mean: {mean(result):.4f}."
            )
        else:
            doubt = _doubt(comparison, result)
            others.append(f"{result.name} scored higher ({mean(result):.4f}), but {doubt}.")
    return others


def _doubt(comparison: ComparisonData, result: Result) -> str:
    """Why a reranker with a higher mean than another is not preferred."""
    base, change = comparison.base_of(result), result.differences[comparison.measures[0]]
    corrected = _corrected(comparison, result)
    if (corrected or change).mean <= 0:
        return f"that is no gain over {base}"
    p = change.corrected_p
    phrase = "" if p is None or corrected is not None else f" ({p_phrase(p)})"
    return f"its gain over {base} is not significant{phrase}"


def ranked_by_fallbacks(comparison: ComparisonData) -> list[str]:
    """Sentences on rerankers whose fallbacks alone scored anything, one for each reason."""
    groups: dict[tuple[str, tuple[str, ...]], list[Result]] = {}
    for result in comparison.ran:
        if result.only_fallbacks:
            names = tuple(sorted(result.fallbacks))
            groups.setdefault((result.reason, names), []).append(result)
    return [
        f"{listed([result.name for result in results])} {'was' if len(results) == 1 else 'were'} "
        f"not measured: {reason}. The figures are of the fallback{'s' if len(names) > 1 else ''} "
        f"{listed([*names])}."
        for (reason, names), results in groups.items()
    ]


def without_figures(comparison: ComparisonData, *, stages: bool) -> list[str]:
    """Sentences on the systems that did not run or judged nothing, one for each reason.

    With ``stages``, those in which no reranker is named, otherwise the others.
    """
    whats = {"not_run": "run", "not_measured": "measured"}
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in comparison.results:
        if result.status in whats:
            groups.setdefault((whats[result.status], result.reason), []).append(result)
    return [
        f"{listed([result.name for result in results])} {'is' if len(results) == 1 else 'are'} "
        f"not {what}: {reason}."
        for (what, reason), results in groups.items()
        if stages is all(result.first_stage is None for result in results)
    ]
