"""The verdict of a comparison, in words: does reranking help?"""

from __future__ import annotations

from dataclasses import dataclass

from secondpass_evaluation.report import reasons
from secondpass_evaluation.report.compared import Compared
from secondpass_evaluation.report.not_measured import ranked_by_fallbacks, without_figures
from secondpass_evaluation.report.text import ZERO, interval, milliseconds, too_few
from secondpass_evaluation.results import ComparisonData, Result, percentile
from secondpass_evaluation.significance import Difference


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
    not_measured = without_figures(comparison, stages=False)
    if not rerankers:
        if not_measured:
            answer = "Nothing was reranked, so there is no verdict."
            return Verdict(answer, " ".join(not_measured))
        return Verdict("No verdict.", "No reranker was requested.")
    measured = [result for result in rerankers if not result.only_fallbacks] or rerankers
    compared = [
        Compared(comparison, result)
        for result in measured
        if comparison.measures[0] in result.differences
    ]
    if not compared:
        return _without_comparison(comparison, measured[0])
    # A significant gain ranks above a larger one that may be chance.
    best = max(compared, key=lambda each: (each.is_significant_gain, each.mean))
    if best.result.only_fallbacks:
        because = [
            reasons.figures(best, "With its fallback, {name}"),
            reasons.grades(best),
            reasons.costs(best.result),
            *not_measured,
        ]
        return _joined(ranked_by_fallbacks(comparison), because, best)
    is_highest = best.mean + ZERO > max(each.mean for each in compared)
    search = best.other_search_as_good
    because = [
        reasons.figures(
            best,
            "The best reranker, {name},"
            if is_highest
            else "The reranker with the surest gain, {name},",
        ),
        reasons.more_queries(best),
        reasons.grades(best),
        reasons.costs(best.result),
        reasons.smaller_depth(best),
        reasons.failures(best.result),
        *reasons.higher_means(best, search),
        reasons.shuffled(comparison),
        *ranked_by_fallbacks(comparison),
        *not_measured,
    ]
    if search is not None:
        return _joined([_search_is_as_good(best, search)], because, best)
    return _joined(
        [_answer(best), _times_of_passages(best), _gain_over_other_search(best)], because, best
    )


def _joined(answer: list[str], because: list[str], best: Compared) -> Verdict:
    text, figures = " ".join(filter(None, answer)), " ".join(filter(None, because))
    return Verdict(text, figures, best.result, best.difference)


def _without_comparison(comparison: ComparisonData, only: Result) -> Verdict:
    """The verdict if a reranker has figures, and nothing else that they could be compared with."""
    because = "There is no baseline to compare with."
    if only.name == comparison.baseline:
        because = f"{only.name} has nothing to be compared with."
    fallbacks = ranked_by_fallbacks(comparison)
    not_measured = without_figures(comparison, stages=False)
    if only.only_fallbacks:
        return Verdict(" ".join(fallbacks), " ".join([because, *not_measured]), only)
    return Verdict("No verdict.", " ".join([because, *fallbacks, *not_measured]), only)


def _by_grades(best: Compared) -> str:
    """A phrase that only a model made the judgements; empty if a person did, or corrected them."""
    by_model = best.comparison.judged_by is not None
    return ", by a model's grades alone" if by_model and best.corrected is None else ""


def _answer(best: Compared) -> str:
    subject = "Reranking"
    if best.base is not None and not best.base_is_its_search:
        subject = f"{best.result.name} over {best.base.name}"
    if few := too_few(best.difference):
        return f"{few} whether {subject.replace('Reranking', 'reranking')} helps."
    change, by = best.change, _by_grades(best)
    if abs(change.mean) < ZERO:
        if change.low is None or change.high is None:
            return f"{subject} makes no difference{by}."
        between = f"{change.confidence:.0%} interval {interval(change.low, change.high)}"
        return f"{subject} makes no difference on average{by} ({between})."
    if change.mean < 0:
        makes = "makes" if best.is_significant else "may make"
        return f"{subject} does not help: it {makes} things worse{by}."
    times = _times(best)
    at = "" if times is None else f", at {times}"
    if best.is_significant:
        return f"{subject} improves the order{by}{at}."
    over = f"{best.base_name} ({change.mean:+.4f})"
    search = None if best.comparison.corrected else _beaten_search(best)
    if search is not None and _is_chance(best, search):
        over += f" or over {search.name} alone ({best.level - best.level_of(search):+.4f})"
    name = "Reranking" if best.base is None or best.base_is_its_search else best.result.name
    return f"{name} has no significant gain over {over}{at}{by}."


def _times(best: Compared) -> str | None:
    """The time of a reranker relative to another's, or its own search's; None if not known.

    None, too, if the passages of most queries were encoded before; see :func:`_times_of_passages`.
    If only some were, the time is that of this run, which the phrase says.
    """
    base, cost = best.timed, best.result.cost
    seconds = percentile(cost.seconds.values(), 0.5)
    if base is None or cost.typical_seconds is not cost.seconds or not seconds:
        return None
    others = base.cost.percentile(0.5)
    time = f"{milliseconds(seconds)} a query"
    about, known = "", ""
    if cost.known:
        about, known = "about ", f"{cost.share_known:.0%} of the passages were encoded before"
    if not others:  # candidates that are part of the suite have no search time
        return f"{about}{time} ({known})" if known else time
    ratio = seconds / others
    if ratio < 0.095:
        times = "less than a tenth of"
    else:
        times = f"{ratio:,.0f} times" if ratio >= 9.95 else f"{ratio:.1f} times"
        times = f"{about}{times}"
    phrase = f"{times} {_timed_name(best, base)}'s time"
    return f"{phrase} ({time}; {known})" if known else phrase


def _times_of_passages(best: Compared) -> str:
    """A sentence on the times with passages that were encoded before, and with new ones.

    Without a ratio: it would be that of one run, and hide what new passages take. Empty if the
    reranker has no gain, or most passages were not encoded before.
    """
    base, cost = best.timed, best.result.cost
    if base is None or not cost.known or cost.typical_seconds is cost.seconds:
        return ""
    if best.change.mean < ZERO or not best.difference.enough_queries:
        return ""
    before = percentile(cost.typical_seconds.values(), 0.5)
    if before is None:
        return ""
    new = percentile(cost.of_passages(encoded_before=False).values(), 0.5)
    longer = "longer" if new is None else milliseconds(new)
    text = f"It takes {milliseconds(before)} a query (new passages: {longer})"
    if others := base.cost.percentile(0.5):
        text += f", {_timed_name(best, base)} {milliseconds(others)}"
    return f"{text}."


def _timed_name(best: Compared, base: Result) -> str:
    is_its_search = best.base_is_its_search and base.name == best.base_name
    return "the search" if is_its_search else base.name


def _beaten_search(best: Compared) -> Result | None:
    """The best search alone, if it is better than the base; None if the reranker has no gain."""
    base, search, difference = best.base, best.other_search, best.difference
    if base is None or search is None or not difference.enough_queries or difference.mean < ZERO:
        return None
    return search if best.level_of(search) > best.level_of(base) + ZERO else None


def _is_chance(best: Compared, search: Result) -> bool:
    """Whether the interval of the gain over a search contains 0."""
    over = best.between(best.result, search)
    return over is not None and over.low is not None and over.low <= 0


def _gain_over_other_search(best: Compared) -> str:
    """A sentence on the gain over the best search alone, unless the answer has it."""
    search = _beaten_search(best)
    if search is None:
        return ""
    is_chance = not best.comparison.corrected and _is_chance(best, search)
    if is_chance and not best.is_significant:
        return ""
    gain = f"{best.level - best.level_of(search):+.4f}"
    if best.comparison.corrected:
        gain += ", corrected by a person's judgements"
    else:
        over = best.between(best.result, search)
        if over is not None and over.low is not None:
            gain += f" ({over.confidence:.0%} interval {interval(over.low, over.high)})"
    text = f"Over {search.name} alone, the best search, it gains {gain}"
    return f"{text}, which is not significant." if is_chance else f"{text}."


def _search_is_as_good(best: Compared, search: Result) -> str:
    """A sentence that a search alone is as good as the reranker, with the difference."""
    level, other = f"{best.level_of(search):.4f}", f"{best.level:.4f}"
    figures = f": {best.measure} {level} against {other}"
    if level == other:
        figures = f", with the same {best.measure}, {level}"
    if best.comparison.corrected:
        return (
            f"{search.name} alone is as good as {best.result.name}{figures}, both corrected by a "
            "person's judgements."
        )
    change = best.between(search, best.result)
    is_better = False
    if change is not None:
        if level != other:
            figures += f", a difference of {change.mean:+.4f}"
        if change.low is not None:
            is_better = change.low > 0
            between = interval(change.low, change.high)
            of = " of the difference" if level == other else ""
            figures += f" ({change.confidence:.0%} interval{of} {between})"
    by = "" if best.comparison.judged_by is None else ", by a model's grades alone"
    how = "better than" if is_better else "as good as"
    return f"{search.name} alone is {how} {best.result.name}{by}{figures}."
