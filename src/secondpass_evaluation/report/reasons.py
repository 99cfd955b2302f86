"""The sentences with which a verdict gives its figures."""

from __future__ import annotations

from secondpass.settings import counted
from secondpass_evaluation.report.compared import Compared, mean_of
from secondpass_evaluation.report.text import (
    ZERO,
    calls_per_query,
    degraded_by,
    interval,
    listed,
    milliseconds,
    p_phrase,
)
from secondpass_evaluation.results import ComparisonData, Cost, Result, percentile
from secondpass_evaluation.significance import Difference, fewest_queries

_MOST = 0.9
"""Share of the gain that a smaller depth has to keep to be named."""


def figures(best: Compared, subject: str) -> str:
    """The mean and the difference; ``subject`` is the first words, with ``{name}``."""
    difference = best.difference
    is_equal = abs(difference.mean) < ZERO
    how = f"{abs(difference.mean):.4f} {'more' if difference.mean > 0 else 'less'} than"
    if is_equal:
        how = "the same on average as"
    base = "the first stage" if best.base_is_its_search else "the baseline"
    text = f"{subject.format(name=best.result.name)} has {difference.measure} {best.mean:.4f}, "
    text += f"{how} {base}, {best.base_name}"
    if not difference.enough_queries:
        fewest = fewest_queries(difference.confidence)
        return (
            f"{text}. {_wins(difference)} At least {fewest} queries are needed to tell a "
            "difference from chance, so no interval is given."
        )
    if difference.low is not None:
        between = interval(difference.low, difference.high)
        text += f" ({difference.confidence:.0%} interval {between})"
    if is_equal:
        return f"{text}. {_wins(difference)}"
    systems = best.systems
    if difference.corrected_p is not None:
        significant = "significant" if difference.is_significant else "not significant"
        corrected = f", corrected for {systems} comparisons" if systems > 1 else ""
        text += f", which is {significant} ({p_phrase(difference.corrected_p)}{corrected})"
    return f"{text}.{_contradiction(difference, systems)} {_wins(difference)}"


def _wins(difference: Difference) -> str:
    counts = f"{difference.wins} better, {difference.losses} worse, {difference.ties} equal"
    return f"Query by query: {counts}."


def _contradiction(difference: Difference, systems: int) -> str:
    """A sentence on an interval that says another thing than p; empty if both agree."""
    low, high = difference.low, difference.high
    if low is None or high is None:
        return ""
    excludes = low > 0 or high < 0
    if excludes is difference.is_significant:
        return ""
    if excludes and systems > 1:
        return " The interval excludes 0, but only p is corrected for the number of comparisons."
    what = "excludes" if excludes else "includes"
    return (
        f" The interval {what} 0, but it assumes that the differences are normally distributed. "
        "The test of p does not, so it decides."
    )


def more_queries(best: Compared) -> str:
    """What would tell a difference that may be chance; empty if it is none."""
    difference = best.difference
    if difference.is_significant or not difference.enough_queries or difference.low is None:
        return ""
    if best.corrected is not None:
        return ""
    return "With four times as many judged queries, the interval would be about half as wide."


def grades(best: Compared) -> str:
    """Sentences on a model's judgements and their correction; empty if people judged."""
    mark, corrected = best.comparison.judged_by, best.corrected
    if mark is None:
        return ""
    by = f"{mark.model} made the judgements"
    if mark.gaps:
        by = f"{mark.gaps}. {by}"
    if corrected is None:
        return f"{by}, and no person's judgements correct these figures."
    significant = "" if best.is_significant else "not "
    return (
        f"{by}. Corrected by a person's judgements of {corrected.people} queries, the difference "
        f"is {corrected.mean:+.4f} ({corrected.confidence:.0%} interval "
        f"{interval(corrected.low, corrected.high)}), which is {significant}significant. The "
        "verdict uses this difference."
    )


def costs(result: Result) -> str:
    """What a query takes; empty if it is not known."""
    cost, count = result.cost, len(result.cost.seconds)
    median = percentile(cost.typical_seconds.values(), 0.5)
    if median is None:
        return ""
    parts = [f"{milliseconds(median)} per query (median)"]
    if calls := calls_per_query(result):
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


def smaller_depth(best: Compared) -> str:
    """The smallest depth that keeps most of a significant gain; empty if none is known."""
    gain, depths = best.difference.mean, best.result.depths
    if not best.base_is_its_search or not depths or not best.is_significant_gain or gain < ZERO:
        return ""
    own = max(depths)
    before = best.mean - gain
    for depth, value in sorted(depths.items()):
        kept = (value - before) / gain
        if depth < own and kept >= _MOST:
            return (
                f"Reranking the first {depth:,} of {own:,} candidates would keep {kept:.0%} of the "
                f"gain on these queries, in about {depth / own:.0%} of the reranking time."
            )
    return ""


def failures(result: Result) -> str:
    """The shares of rankings that are not ok; empty if all are."""
    count = sum(result.statuses.values())
    remarks = {
        "degraded": degraded_by(result),
        "unchanged": "nothing was judged",
        "partial": "only some candidates were scored",
    }
    parts = [
        (number / count, f"were {status} ({remarks[status]})")
        for status in remarks
        if (number := result.statuses.get(status, 0))
    ]
    if not parts:
        return ""
    if len(parts) == 1:
        (share, what), *_ = parts
        return f"{'All' if share == 1 else f'{share:.1%}'} of its rankings {what}."
    rate = sum(share for share, _ in parts)
    none = result.statuses.get("ok", 0) == 0
    text = "None of its rankings was ok" if none else f"{rate:.1%} of its rankings were not ok"
    return f"{text}: {listed([f'{share:.1%} {what}' for share, what in parts])}."


def higher_means(best: Compared, named: Result | None) -> list[str]:
    """Why the verdict is not about systems with a higher mean, except one that it names."""
    sentences = []
    said: list[Result] = []
    for result in best.comparison.ran:
        mean = mean_of(result)
        if result in (best.result, named) or result.only_fallbacks or mean <= best.mean + ZERO:
            continue
        if any(_are_the_same(result, other) for other in said):
            continue
        said.append(result)
        if result.first_stage is not None and result.name == best.comparison.baseline:
            sentences.append(f"{result.name} itself, the baseline, is a reranker.")
        elif result.first_stage is not None:
            doubt = _doubt(Compared(best.comparison, result))
            names = [each.name for each in best.comparison.ran if _are_the_same(result, each)]
            same = f" (the same configuration as {listed(names)})" if names else ""
            sentences.append(f"{result.name}{same} scored higher ({mean:.4f}), but {doubt}.")
        elif result.name != best.comparison.baseline:
            sentences.append(f"{result.name}, without reranking, has a higher mean: {mean:.4f}.")
    return sentences


def _are_the_same(result: Result, other: Result) -> bool:
    """Whether two rerankers are one configuration by two names, with one mean."""
    if result is other or result.config is None or abs(mean_of(result) - mean_of(other)) > ZERO:
        return False
    return (result.config, result.first_stage) == (other.config, other.first_stage)


def _doubt(other: Compared) -> str:
    """Why a reranker with a higher mean is not preferred."""
    if other.change.mean <= 0:
        return f"that is no gain over {other.base_name}"
    p = other.difference.corrected_p
    phrase = "" if p is None or other.corrected is not None else f" ({p_phrase(p)})"
    return f"its gain over {other.base_name} is not significant{phrase}"


def shuffled(comparison: ComparisonData) -> str:
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
