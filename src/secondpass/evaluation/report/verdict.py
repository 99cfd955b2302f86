"""What a comparison comes to, in plain words: does the second pass pay?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from secondpass.evaluation.significance import fewest_queries

if TYPE_CHECKING:
    from secondpass.evaluation.comparison import Comparison, Result
    from secondpass.evaluation.significance import Difference

_NOTHING = 5e-5
"""A mean difference that is written as 0.0000."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to think of a comparison.

    Attributes:
        answer: one short sentence.
        because: the figures, in sentences.
        best: the reranker that they are of; None where there is none to speak of.
        difference: of the best from the baseline.
    """

    answer: str
    because: str
    best: Result | None = None
    difference: Difference | None = None


def verdict(comparison: Comparison) -> Verdict:
    """The verdict by the first measure: the best reranker, its gain, and its price."""
    rerankers = [one for one in comparison.ran if one.first_stage is not None]
    if not rerankers:
        told = "could be run" if comparison.skipped else "was asked for"
        if comparison.not_measured:
            told = "was measured"
        because = [f"No reranker {told}, so there is no second pass to judge."]
        because += _not_measured(comparison)
        return Verdict("No verdict.", " ".join(because))
    measure = comparison.measures[0]
    compared = [one for one in rerankers if measure in one.differences]
    if not compared:
        (only, *_) = rerankers
        if only.name == comparison.baseline:
            return Verdict("No verdict.", f"{only.name} has nothing to be compared with.", only)
        return Verdict("No verdict.", "There is no baseline to compare with.", only)
    # A gain that is no chance counts for more than a larger one that may be.
    best = max(compared, key=lambda one: (is_sure_gain(one.differences[measure]), mean(one)))
    found = best.differences[measure]
    parts = [
        _figures(comparison, best, found),
        _costs(best),
        _failures(best),
        *_others(comparison, best),
        *_not_measured(comparison),
    ]
    return Verdict(_answer(comparison, best, found), " ".join(filter(None, parts)), best, found)


def is_sure(one: Difference) -> bool:
    """Whether the difference is beyond chance, corrected for the other comparisons."""
    is_low = one.corrected_p is not None and one.corrected_p < 1 - one.confidence
    return one.enough_queries and is_low


def too_few(one: Difference) -> str:
    """That there are too few queries to tell anything; empty where there are enough."""
    if one.enough_queries:
        return ""
    are = "query is" if one.queries == 1 else "queries are"
    return f"{one.queries} {are} too few to say"


def is_sure_gain(one: Difference) -> bool:
    """Whether it is a gain, and beyond chance."""
    return one.mean > 0 and is_sure(one)


def mean(result: Result) -> float:
    """By the first measure; 0 where the system was not measured."""
    if result.evaluation is None:
        return 0.0
    return next(iter(result.evaluation.mean.values()), 0.0)


def _answer(comparison: Comparison, best: Result, found: Difference) -> str:
    base = comparison.baseline
    of_rerankers = any(
        one.name == base and one.first_stage is not None for one in comparison.results
    )
    what = f"{best.name} over {base}" if of_rerankers else "The second pass"
    if told := too_few(found):
        return f"{told} whether {what if of_rerankers else 'the second pass'} pays."
    if abs(found.mean) < _NOTHING:
        return f"{what} makes no difference."
    if found.mean < 0:
        return f"{what} does not pay: it {'makes' if is_sure(found) else 'may make'} things worse."
    return f"{what} pays." if is_sure(found) else f"{what} may pay, but that may be chance."


def _figures(comparison: Comparison, best: Result, found: Difference) -> str:
    base = comparison.baseline
    least = abs(found.mean) < _NOTHING
    how = "the same as" if least else f"{abs(found.mean):.4f} {_more(found.mean)} than"
    text = f"The best reranker, {best.name}, has {found.measure} {mean(best):.4f}, {how} {base}"
    if found.enough_queries and found.low is not None and found.high is not None:
        text += f" ({found.confidence:.0%} interval {found.low:+.4f} to {found.high:+.4f})"
    if found.enough_queries and found.corrected_p is not None and not least:
        count = sum(found.measure in one.differences for one in comparison.ran)
        beyond = "beyond" if is_sure(found) else "not beyond"
        p = "p < 0.001" if found.corrected_p < 0.001 else f"p = {found.corrected_p:.3f}"
        corrected = f", corrected for {count} comparisons" if count > 1 else ""
        text += f", which is {beyond} chance ({p}{corrected})"
    counts = f"{found.wins} better, {found.losses} worse, {found.ties} equal"
    text = f"{text}. Query by query: {counts}."
    if not found.enough_queries:
        fewest = fewest_queries(found.confidence)
        text += f" A difference can be told from chance with {fewest} queries or more."
    return text


def _more(value: float) -> str:
    return "more" if value > 0 else "less"


def _costs(best: Result) -> str:
    taken, count = best.cost, len(best.cost.seconds)
    median = taken.percentile(0.5)
    if median is None:
        return ""
    parts = [f"{milliseconds(median)} per query (median)"]
    if per_query := per_query_calls(best):
        parts.append(f"{per_query} {'call' if per_query == '1' else 'calls'} per query")
    if taken.cost is not None:
        parts.append(f"{taken.cost / count * 1000:,.2f} per 1,000 queries at the configured prices")
    return f"It takes {_listed(parts)}."


def _failures(best: Result) -> str:
    """The shares of the rankings that were not ok; partial ones are of the method all the same."""
    if not best.failure_rate:
        return ""
    text = f"{best.failure_rate:.1%} of its rankings were not ok"
    count = sum(best.statuses.values())
    shares = {status: number / count for status, number in best.statuses.items()}
    degraded, unchanged = shares.get("degraded", 0.0), shares.get("unchanged", 0.0)
    if not degraded and not unchanged:
        return f"{text}; all of these were partial."
    parts = [
        f"{degraded:.1%} were degraded" + (f" ({degraded_by(best)})" if degraded else ""),
        f"{unchanged:.1%} were unchanged" + (" (nothing was judged)" if unchanged else ""),
    ]
    if partial := shares.get("partial", 0.0):
        parts.append(f"{partial:.1%} were partial")
    return f"{text}: {_listed(parts)}."


def degraded_by(result: Result) -> str:
    """What the degraded rankings come from: the fallbacks by name, or a cascade's other stages."""
    names = sorted(result.fallbacks)
    told = []
    if names:
        told.append(f"ranked by the fallback{'s' if len(names) > 1 else ''} {_listed(names)}")
    if sum(result.fallbacks.values()) < result.statuses.get("degraded", 0):
        told.append("a stage or a method failed")
    return "; ".join(told)


def _not_measured(comparison: Comparison) -> list[str]:
    return [f"{one.name} is not measured: {one.reason}." for one in comparison.not_measured]


def per_query_calls(result: Result) -> str | None:
    """Calls per query as text; None where they are not known."""
    count = len(result.cost.seconds)
    if not count or result.cost.calls is None:  # a reranker need not tell
        return None
    return f"{result.cost.calls / count:,.1f}".removesuffix(".0")


def milliseconds(seconds: float) -> str:
    """A time in milliseconds, with digits enough to be of use."""
    value = seconds * 1000
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"


def _listed(parts: list[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def _others(comparison: Comparison, best: Result) -> list[str]:
    """Systems that measure more than the best reranker, for a reason each."""
    others = []
    for one in comparison.ran:
        if one is best or mean(one) <= mean(best) + _NOTHING:
            continue
        if one.name == comparison.baseline:
            if one.first_stage is not None:
                others.append(f"{one.name} itself, the baseline, is a reranker.")
        elif one.first_stage is None:
            others.append(f"{one.name}, without a second pass, measures more: {mean(one):.4f}.")
        else:
            others.append(f"{one.name} measures more, {mean(one):.4f}, but that may be chance.")
    return others
