"""Measures the order of lists that were judged in part, for many patterns of failure.

    python benchmarks/partial_results.py --data FOLDER [--sets trec-dl19 cranfield] [--patterns]

The judge knows the relevance judgements. It perceives the value of a candidate as its share of the
highest grade plus normal noise, and states it as a whole grade from 0 to 10 or as a rank. Of the
first 100 candidates some have no judgement: all but one batch of 20, the first, the last or random
10 to 90 %. Seeds are fixed, so a run can be repeated.

Prints for each collection, first stage, noise and kind of score: nDCG@10 of the input order and of
the complete judgements; and for each rule the mean difference to the input order over all patterns,
the worst one, and the worst difference to the old rule (all judged ones first) of patterns with
more than half judged. ``library`` is the rule of :mod:`secondpass.ranking.outcome`; the
others are those that did worse. ``--patterns`` prints each pattern of ``library``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence

from quality import LANGUAGES, FirstStage, add_data, first_stages, present

from secondpass.ranking.partial_results import merged

DEPTH, BATCHES, CUT = 100, 5, 10
NOISES = (0.0, 0.25, 0.35, 0.5)
"""Standard deviations, as shares of the scale."""

Rule = Callable[[Sequence[int], Sequence[int], int], Sequence[int]]
"""Orders a list from its judged positions, best first, its unjudged ones, and their number."""


def judged_first(judged: Sequence[int], unjudged: Sequence[int], _count: int) -> Sequence[int]:
    return [*judged, *unjudged]


def places_kept(judged: Sequence[int], unjudged: Sequence[int], count: int) -> Sequence[int]:
    others, rest = {*unjudged}, iter(judged)
    return [place if place in others else next(rest) for place in range(count)]


def by_key(key: Callable[[int, int, int], float]) -> Rule:
    """Places an unjudged candidate by ``key(place, judged, unjudged)`` among the judged ranks."""

    def rule(judged: Sequence[int], unjudged: Sequence[int], _count: int) -> Sequence[int]:
        keys = [(float(rank), False, item) for rank, item in enumerate(judged, 1)]
        keys += [(key(item + 1, len(judged), len(unjudged)), True, item) for item in unjudged]
        return [item for _, _, item in sorted(keys)]

    return rule


def from_half(rule: Rule) -> Rule:
    """The rule if more than half are judged; otherwise the unjudged keep their places."""
    return lambda judged, unjudged, count: (rule if len(judged) > len(unjudged) else places_kept)(
        judged, unjudged, count
    )


in_proportion = by_key(lambda place, judged, unjudged: place * judged / unjudged)
RULES: dict[str, Rule] = {
    "library": lambda judged, _unjudged, count: merged(judged, range(count)),
    "judged first (old)": judged_first,
    "places kept": places_kept,
    "places kept to half, then judged first": from_half(judged_first),
    "in proportion": in_proportion,
    "places kept to half, then in proportion": from_half(in_proportion),
    "places kept to half, then by the root": from_half(
        by_key(lambda place, judged, unjudged: place * math.sqrt(judged / unjudged))
    ),
    "places kept to half, then by place": from_half(by_key(lambda place, *_: place)),
}


def patterns(count: int, seed: str) -> Iterator[tuple[str, set[int]]]:
    """Names, and the positions that have no judgement."""
    every = range(count)
    for batch in range(BATCHES):
        answered = range(count * batch // BATCHES, count * (batch + 1) // BATCHES)
        yield f"only batch {batch + 1}", {*every} - {*answered}
        yield f"without batch {batch + 1}", {*answered}
        if batch:
            first = range(count // BATCHES)
            yield f"without batches 1 and {batch + 1}", {*first, *answered}
    for percent in range(10, 100, 10):
        number = count * percent // 100
        yield f"first {percent} %", {*every[:number]}
        yield f"last {percent} %", {*every[count - number :]}
        draw = random.Random(f"{seed} {percent}")
        yield f"random {percent} %", {*draw.sample(every, number)}


def gain(order: Sequence[int], grades: Sequence[int]) -> float:
    return math.fsum(grades[item] / math.log2(i + 2) for i, item in enumerate(order[:CUT]))


def perceived(grades: Sequence[int], kind: str, noise: float, seed: str) -> list[float]:
    """What the judge says of each candidate."""
    draw = random.Random(seed)
    values = [grade + draw.gauss(0, noise) for grade in grades]
    if kind == "grades":
        return [float(round(10 * min(1.0, max(0.0, value)))) for value in values]
    return [value + draw.gauss(0, 1e-9) for value in values]  # ranks have no ties


def lists(stage: FirstStage) -> list[tuple[str, list[int], float]]:
    """Of each query with a relevant document, its grades in the input order and the ideal gain."""
    found = []
    for query, candidates in stage.candidates.items():
        qrels = stage.qrels[query]
        ideal = sorted(qrels.values(), reverse=True)
        if candidates and ideal and ideal[0] > 0:
            grades = [qrels.get(str(each.id), 0) for each in candidates[:DEPTH]]
            found.append((query, grades, gain(range(len(ideal)), ideal)))
    return found


def measure(stage: FirstStage, kind: str, noise: float, seeds: int) -> None:
    """Print the table of one noise and kind of score."""
    queries = lists(stage)
    top = max(max(grades, default=0) for _, grades, _ in queries) or 1
    before: list[float] = []
    complete: list[float] = []
    values: dict[tuple[str, str], list[float]] = {}
    judged_shares: dict[str, float] = {}
    for seed, (query, grades, ideal) in itertools.product(range(seeds), queries):
        count = len(grades)
        scores = perceived([grade / top for grade in grades], kind, noise, f"{seed} {query}")
        full = sorted(range(count), key=lambda item: -scores[item])
        before.append(gain(range(count), grades) / ideal)
        complete.append(gain(full, grades) / ideal)
        for pattern, missing in patterns(count, f"{seed} {query}"):
            judged = [item for item in full if item not in missing]
            judged_shares[pattern] = len(judged) / count
            for name, rule in RULES.items():
                order = rule(judged, sorted(missing), count)
                values.setdefault((name, pattern), []).append(gain(order, grades) / ideal)
    base = statistics.fmean(before)
    means = {key: statistics.fmean(numbers) for key, numbers in values.items()}
    print(
        f"\n{stage.collection}, {stage.name}, {kind}, noise {noise:g}: input order {base:.3f}, "
        f"all judged {statistics.fmean(complete):.3f}\n\n"
        "| rule | mean | worst to input | worst to old, over half judged |\n"
        "| --- | ---: | ---: | ---: |"
    )
    for name in RULES:
        gains = {pattern: means[name, pattern] - base for pattern in judged_shares}
        losses = {
            pattern: means[name, pattern] - means["judged first (old)", pattern]
            for pattern, share in judged_shares.items()
            if share > 0.5
        }
        worst, to_old = (min(table, key=table.__getitem__) for table in (gains, losses))
        print(
            f"| {name} | {statistics.fmean(gains.values()):+.4f} "
            f"| {gains[worst]:+.4f} ({worst}) | {losses[to_old]:+.4f} ({to_old}) |"
        )
    if ARGUMENTS.patterns:
        print("\n" + ", ".join(f"{p} {means['library', p] - base:+.3f}" for p in judged_shares))


def main() -> None:
    for folder in present(ARGUMENTS.data, ARGUMENTS.sets):
        for stage in first_stages(folder, folder.name in LANGUAGES):
            seeds = max(1, ARGUMENTS.rankings // len(stage.candidates))
            for noise, kind in itertools.product(NOISES, ("grades", "ranks")):
                measure(stage, kind, noise, seeds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_data(parser)
    parser.add_argument("--sets", nargs="+", default=["trec-dl19"], help="collections")
    parser.add_argument("--rankings", type=int, default=250, help="rankings of a table at least")
    parser.add_argument("--patterns", action="store_true", help="print each pattern")
    ARGUMENTS = parser.parse_args()
    main()
