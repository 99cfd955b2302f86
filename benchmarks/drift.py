"""Measures how many injected changes `drift` detects, and its false alarms.

The rankings are BM25's first 100 candidates of each query, reranked by `embedded` with a blend. Of
a collection's queries, 500 are drawn for the first period, and 500 others, whose rankings have a
change, for the second; and then 250 and 250. A collection with fewer queries is split into halves.
For truncated passages, the prompt and other first stages, `embedded` runs again; other changes are
applied to its scores or settings. The thresholds are the defaults of `drift`, which were not chosen
on these collections. The same seed gives the same table.

    python benchmarks/drift.py --data FOLDER --cache FOLDER
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from checked import check
from observed import EMBEDDED, LEXICAL, add_options, observe, rankings_of
from quality import first_stages, present

import secondpass
from secondpass import Candidate, MethodError, Reranker
from secondpass.monitoring.ranking_days import DayCounts, DayKey, Days, days_to_lines
from secondpass.monitoring.ranking_statistics import ranking_statistics
from secondpass.ranking.observers import Operation, RankingOperation
from secondpass_evaluation import drift, make_suite
from secondpass_evaluation.observations import Observations

PROMPT = "Represent this question for searching relevant passages: "
BLEND = {"original": 0.3, "normalize": "minmax"}

Scores = Mapping[str, Mapping[str, float]]
"""Query -> document -> score."""
Change = Callable[[str, list[float], np.random.Generator], list[float]]
"""Query, scores and a generator -> changed scores."""


class Row(NamedTuple):
    """The counts of a monitor for a ranking."""

    query: int
    key: DayKey
    status: str
    issues: list[str]
    statistics: dict[str, float]


Rows = dict[str, Row]
"""By query."""


class Stored:
    """A scorer that returns the scores of an earlier run."""

    model_name = "stored"
    score_kind = "unbounded"

    def __init__(self) -> None:
        self.scores: list[float] | None = None

    def score_pairs(self, _query: str, documents: Sequence[str]) -> list[float]:
        if self.scores is None:
            raise MethodError("no answer", code="timeout")
        return self.scores[: len(documents)]


class Last:
    """An observer that keeps the monitor's counts of the last ranking."""

    def end(self, operation: Operation) -> None:
        if isinstance(operation, RankingOperation) and operation.report and operation.trace:
            report = operation.report
            key = DayKey("2026-01-01", operation.name, report.method, report.score_kind, "", None)
            codes = [issue.code for issue in report.issues]
            self.last = Row(
                operation.query, key, report.status, codes, ranking_statistics(operation.trace)
            )


def rank(
    lists: Mapping[str, Sequence[Candidate]],
    scores: Scores,
    seed: int,
    change: Change | None = None,
    failing: float = 0.0,
    **settings: Any,
) -> Rows:
    """Rank the candidates of each query by stored scores; return the monitor's counts."""
    generator = np.random.default_rng(seed)
    stored = Stored()
    reranker = Reranker(stored, **{"blend": BLEND, "log_level": "debug", **settings})
    observer = Last()
    rows = {}
    with secondpass.observe(observer):
        for query, candidates in lists.items():
            values = [scores[query][str(candidate.id)] for candidate in candidates]
            values = values if change is None else change(query, values, generator)
            stored.scores = None if generator.random() < failing else values
            ranking = reranker.rerank(query, candidates)
            check(ranking.report, {"timeout"} if stored.scores is None else ())
            rows[query] = observer.last
    return rows


def days_of(rows: Iterable[Row]) -> Days:
    days: Days = {}
    for row in rows:
        days.setdefault(row.key, DayCounts()).add(row.query, row.status, row.issues, row.statistics)
    return days


def scores_of(observations: Observations, name: str, config: Mapping[str, Any]) -> Scores:
    reranker = Reranker.from_config(config)
    rankings = rankings_of(observations, name, reranker, {"not_english", "text_truncated"})
    reranker.close()
    return {
        query: {str(item.id): item.final_score or 0.0 for item in ranking}
        for query, ranking in rankings.items()
    }


def part(observations: Observations, name: str, lists: Mapping[str, list[Candidate]]) -> Any:
    """Observations of some of the queries with other candidates, and the same journal."""
    suite = observations.suite
    queries = {query: suite.queries[query] for query in lists}
    qrels = {query: suite.qrels[query] for query in lists}
    small = make_suite(f"{suite.name} {name}", queries, qrels, candidates=lists)
    return Observations(
        small,
        behind="given",
        depth=observations.depth,
        journal=observations.journal,
        progress=observations.progress,
    )


def mapped(other: Scores, scores: Scores) -> Scores:
    """The scores of another model, mapped to the scale of the first by their quantiles."""
    pooled = np.sort([value for each in scores.values() for value in each.values()])
    others = np.sort([value for query in scores for value in other[query].values()])
    shares = np.linspace(0, 1, len(others))
    levels = np.linspace(0, 1, len(pooled))
    return {
        query: {
            key: float(np.interp(np.interp(value, others, shares), levels, pooled))
            for key, value in other[query].items()
        }
        for query in scores
    }


def scaled(factor: float) -> Change:
    return lambda _query, values, _generator: [value * factor for value in values]


def shifted(by: float) -> Change:
    return lambda _query, values, _generator: [value + by for value in values]


def sigmoid(_query: str, values: list[float], _generator: np.random.Generator) -> list[float]:
    return [1 / (1 + math.exp(-value)) for value in values]


def flipped(share: float) -> Change:
    def change(_query: str, values: list[float], generator: np.random.Generator) -> list[float]:
        signs = np.where(generator.random(len(values)) < share, -1.0, 1.0)
        return [float(value) for value in signs * values]

    return change


def noisy(share: float) -> Change:
    """Add noise whose standard deviation is this share of the list's."""

    def change(_query: str, values: list[float], generator: np.random.Generator) -> list[float]:
        noise = generator.normal(0, share * float(np.std(values)), len(values))
        return [float(value) for value in values + noise]

    return change


def blended(original: float) -> dict[str, Any]:
    return {"blend": {**BLEND, "original": original}}


def injected(
    options: argparse.Namespace, observations: Observations, queries: Sequence[str]
) -> tuple[Rows, dict[str, Rows]]:
    """The rankings without a change, and with each of twelve changes."""
    lists = {query: list(observations.candidates[query]) for query in queries}
    base = scores_of(part(observations, "", lists), "embedded", EMBEDDED)
    lexical = scores_of(part(observations, "", lists), "lexical", LEXICAL)
    halves = {
        query: [replace(item, text=item.text[: len(item.text) // 2]) for item in candidates]
        for query, candidates in lists.items()
    }
    cut = scores_of(part(observations, "cut", halves), "embedded", EMBEDDED)
    prompted = {**EMBEDDED, "render": {"query_prefix": PROMPT}}
    prompt = scores_of(part(observations, "", lists), "prompt", prompted)
    folder = options.data / observations.suite.name
    stemmed = next(first_stages(folder, stemmed=True))
    stems = {query: list(stemmed.candidates[query]) for query in queries}
    of_stems = scores_of(part(observations, "stemmed", stems), "embedded", EMBEDDED)
    seed = options.seed

    def ranked(**settings: Any) -> Rows:
        return rank(lists, base, seed, **settings)

    changes = {
        "logits become probabilities (sigmoid)": ranked(change=sigmoid),
        "a prompt is dropped or added": rank(lists, prompt, seed),
        "another model, on the same scale": rank(lists, mapped(lexical, base), seed),
        "passages are cut to half": rank(lists, cut, seed),
        "scores times 1.25": ranked(change=scaled(1.25)),
        "scores + 0.05": ranked(change=shifted(0.05)),
        "sign of 10 % of the scores": ranked(change=flipped(0.1)),
        "noise of 5 % (as of int8)": ranked(change=noisy(0.05)),
        "blend 0.3 → 0.5": ranked(**blended(0.5)),
        "depth 100 → 50": ranked(depth=50),
        "first stage with a stemmer": rank(stems, of_stems, seed),
        "10 % of the rankings fail": ranked(failing=0.1),
    }
    return ranked(), changes


def show(options: argparse.Namespace, observations: Observations) -> None:
    """Print the table of a collection: detected changes and false alarms."""
    queries = sorted(observations.suite.queries)
    generator = random.Random(options.seed)
    generator.shuffle(queries)
    queries = queries[: 2 * max(options.sizes)]
    sizes = sorted({min(size, len(queries) // 2) for size in options.sizes}, reverse=True)
    base, changes = injected(options, observations, queries)

    def alarms_of(size: int, rows: Rows, repeats: int) -> list[list[str]]:
        """The names of the alarms of each of ``repeats`` comparisons."""
        alarms = []
        for _ in range(repeats):
            drawn = generator.sample(queries, 2 * size)
            before = days_of(base[query] for query in drawn[:size])
            after = days_of(rows[query] for query in drawn[size:])
            alarms.append([change.name for change in drift(before, after).alarms])
        return alarms

    print(f"\n## {observations.suite.name}: {len(queries):,} queries\n")
    print("| change |", "".join(f" found, {size} and {size} |" for size in sizes), "by |")
    print("| --- |", "---: |" * len(sizes), "--- |")
    detected = dict.fromkeys(sizes, 0)
    for label, rows in changes.items():
        cells = []
        names: list[str] = []
        for size in sizes:
            alarms = alarms_of(size, rows, options.splits)
            share = sum(map(bool, alarms)) / len(alarms)
            cells.append(f"{share:.0%} |")
            names += [name for each in alarms for name in each]
            detected[size] += share >= options.needed
        most = sorted(set(names), key=lambda name: (-names.count(name), name))[:3]
        print(f"| {label} |", *cells, ", ".join(most), "|", flush=True)
    print()
    for size in sizes:
        print(
            f"{size} and {size}: {detected[size]} of {len(changes)} changes are found in at least "
            f"{options.needed:.0%} of {options.splits} splits."
        )
    alarms = alarms_of(sizes[0], base, options.comparisons)
    print(
        f"{sizes[0]} and {sizes[0]}: {sum(map(bool, alarms))} alarms in "
        f"{options.comparisons:,} comparisons without a change."
    )
    line_size(base[query] for query in queries)


def line_size(rows: Iterable[Row]) -> None:
    """Print the size of the largest line of a day with these rankings."""
    every = [*rows]
    size = max(len(line.encode()) for line in days_to_lines(days_of(every)))
    print(f"\nA line with {len(every):,} rankings has {size / 1000:.0f} kB.")


def cost(observations: Observations, rounds: int) -> None:
    """Print the time that a monitor adds to a ranking; runs with and without it alternate."""
    import tempfile

    from secondpass.monitoring import Monitor

    query, candidates = next(iter(observations.candidates.items()))
    stored = Stored()
    stored.scores = [((index * 37) % 101) / 101 for index in range(len(candidates))]
    reranker = Reranker(stored, blend=BLEND)
    check(reranker.rerank(query, candidates).report)
    seconds = {False: math.inf, True: math.inf}
    with tempfile.TemporaryDirectory() as folder:
        monitor = Monitor(folder, every=3_600)
        for _ in range(rounds):
            for monitored in (False, True):
                with secondpass.observe(monitor if monitored else Plain()):
                    began = time.process_time()
                    for _ in range(5):
                        reranker.rerank(query, candidates)
                    seconds[monitored] = min(seconds[monitored], time.process_time() - began)
        monitor.close()
    added = (seconds[True] - seconds[False]) / 5 * 1e6
    print(
        f"\nA monitor adds {added:.0f} µs of CPU time to a ranking of {len(candidates)} "
        f"candidates, {added / (seconds[False] / 5 * 1e6):.0%} of what it takes besides the model."
    )


class Plain:
    """An observer that does nothing, for comparison."""

    def end(self, operation: Operation) -> None:
        """Nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, "xquad-en", "xquad-de", "cranfield")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[500, 250], help="queries per period"
    )
    parser.add_argument("--splits", type=int, default=20, help="random splits per change")
    parser.add_argument(
        "--comparisons", type=int, default=1_000, help="comparisons without a change"
    )
    parser.add_argument(
        "--needed", type=float, default=0.95, help="share of splits that counts as detected"
    )
    parser.add_argument("--rounds", type=int, default=200, help="rounds for the cost of a monitor")
    parser.add_argument("--seed", type=int, default=1, help="of the draws and the noise")
    options = parser.parse_args()
    for folder in present(options.data, options.sets):
        observations = observe(folder, options.cache)
        show(options, observations)
        if observations.journal is not None:
            observations.journal.close()
    cost(observations, options.rounds)


if __name__ == "__main__":
    main()
