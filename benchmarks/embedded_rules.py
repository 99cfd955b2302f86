"""Compares scoring rules of the embedded model, on every available collection.

    python benchmarks/embedded_rules.py

Prints Markdown tables at depth 100: nDCG@10 of rules for pairs; how rules for lists change it, with
95 % intervals, blended as in the preset `embedded`; for each English run, the rule for lists that
is best on the other runs, and its change on this one; the chosen rule blended with several weights
of the retrieval score. docs/data/tables.md quotes all. Each distinct passage is encoded once, which
takes some minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from quality import LANGUAGES, MEASURE, SETS, TIE, FirstStage, add_data, first_stages, present

from secondpass.ranking.blending import Blend
from secondpass.scorers.embedding.encoder import unit
from secondpass.scorers.embedding.minilm import MiniLM
from secondpass.scorers.embedding.similarity import PassageMatch, encoded_text, list_scores, match
from secondpass_evaluation import evaluate

Vector = NDArray[np.float64]
CHOSEN = {"feedback": 5, "idf": True}
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
PRESET = 0.2
"""The weight of the retrieval score in the preset `embedded`."""


class Matches(NamedTuple):
    """A query and its passages, compared; arrays have a row for each passage."""

    records: list[PassageMatch]
    query: Vector
    weights: Vector
    cosines: Vector
    best: Vector
    present: Vector
    means: Vector

    @classmethod
    def of(cls, records: list[PassageMatch]) -> Matches:
        query = records[0].query
        return cls(
            records,
            query.mean,
            query.weights,
            cosines=np.array([each.cosine for each in records]),
            best=np.array([each.best for each in records]),
            present=np.array([each.present for each in records]),
            means=np.array([each.mean for each in records]),
        )

    def idf(self, share: float) -> Vector:
        """Weights of the query's tokens, that share of them by the IDF in the list."""
        count, having = len(self.present), self.present.sum(axis=0)
        rare = self.weights * np.log1p((count - having + 0.5) / (having + 0.5))
        return (1 - share) * self.weights + share * rare / rare.sum()


Rule = Callable[[Matches], Vector]
PAIRS: dict[str, Rule] = {
    "cosine of means": lambda m: m.cosines,
    "MaxSim": lambda m: m.best.mean(axis=1),
    "MaxSim, weighted": lambda m: m.best @ m.weights,
    "half cosine, half MaxSim": lambda m: (m.cosines + m.best.mean(axis=1)) / 2,
    "half cosine, half MaxSim, weighted": lambda m: (m.cosines + m.best @ m.weights) / 2,
}
PAIR = PAIRS["half cosine, half MaxSim, weighted"]


def lead(scores: Vector, count: int, weight: float = 10) -> Vector:
    """Weights of the best: by how much each is above the first of the others."""
    after = np.sort(scores)[::-1][: count + 1][-1]
    return weight * np.maximum(scores - after, 0)


def shares(scores: Vector, count: int, weight: float = 1) -> Vector:
    """Equal weights of the best."""
    best = np.zeros(len(scores))
    best[np.argsort(-scores, kind="stable")[:count]] = weight / min(count, len(scores))
    return best


def moved(share: float, weigh: Callable[[Vector], Vector], times: int = 1) -> Rule:
    """Feedback to the cosine, with a share of the weights by IDF."""

    def rule(m: Matches) -> Vector:
        late = m.best @ m.idf(share)
        scores = (m.cosines + late) / 2
        for _ in range(times):
            scores = (m.means @ unit(m.query + weigh(scores) @ m.means) + late) / 2
        return scores

    return rule


def others_only(m: Matches) -> Vector:
    """Feedback to a passage from the other ones."""
    late = m.best @ m.idf(0.5)
    weights = lead((m.cosines + late) / 2, 5)
    moved = unit(m.query + weights @ m.means - weights[:, None] * m.means)
    return ((m.means * moved).sum(axis=1) + late) / 2


def centred(m: Matches) -> Vector:
    """Cosines after subtracting the mean of the list."""
    centre = m.means.mean(axis=0)
    cosines = unit(m.means - centre) @ unit(m.query - centre)
    return (cosines + m.best @ m.idf(0.5)) / 2


def smoothed(m: Matches) -> Vector:
    """A quarter is the mean score of the five most similar passages, itself among them."""
    scores, similar = moved(0.5, lambda s: lead(s, 5))(m), m.means @ m.means.T
    nearest = np.argsort(-similar, axis=1)[:, :5]
    weights = np.take_along_axis(similar, nearest, axis=1).clip(1e-9)
    return 0.75 * scores + 0.25 * (weights * scores[nearest]).sum(axis=1) / weights.sum(axis=1)


LISTS: dict[str, Rule] = {
    "IDF": lambda m: (m.cosines + m.best @ m.idf(1)) / 2,
    "half IDF": lambda m: (m.cosines + m.best @ m.idf(0.5)) / 2,
    "feedback: mean of 3": moved(0, lambda s: shares(s, 3)),
    "feedback: lead, 5": moved(0, lambda s: lead(s, 5)),
    "IDF, mean of 3": moved(1, lambda s: shares(s, 3)),
    "IDF, lead, 5": moved(1, lambda s: lead(s, 5)),
    "half IDF, mean of 1": moved(0.5, lambda s: shares(s, 1)),
    "half IDF, mean of 3": moved(0.5, lambda s: shares(s, 3)),
    "half IDF, mean of 5": moved(0.5, lambda s: shares(s, 5)),
    "half IDF, mean of 5, weight 2": moved(0.5, lambda s: shares(s, 5, 2)),
    "half IDF, lead, 3": moved(0.5, lambda s: lead(s, 3)),
    "half IDF, lead, 4": moved(0.5, lambda s: lead(s, 4)),
    "**half IDF, lead, 5 (chosen)**": lambda m: np.array(list_scores(m.records, **CHOSEN)),
    "half IDF, lead, 6": moved(0.5, lambda s: lead(s, 6)),
    "half IDF, lead, 8": moved(0.5, lambda s: lead(s, 8)),
    "half IDF, lead, 10": moved(0.5, lambda s: lead(s, 10)),
    "half IDF, lead, 5, weight 5": moved(0.5, lambda s: lead(s, 5, 5)),
    "half IDF, lead, 5, weight 20": moved(0.5, lambda s: lead(s, 5, 20)),
    "half IDF, lead, 5, twice": moved(0.5, lambda s: lead(s, 5), 2),
    "half IDF, lead, 5, from others": others_only,
    "half IDF, lead, 5, smoothed": smoothed,
    "half IDF, centred": centred,
}
LIST = next(name for name in LISTS if "chosen" in name)


class Run:
    """A first stage with its passages encoded."""

    def __init__(self, stage: FirstStage) -> None:
        self.stage = stage
        self.name = f"{stage.collection}, {stage.name}"
        self.english = stage.collection not in LANGUAGES
        passages = (each.text for found in stage.candidates.values() for each in found)
        texts = list(dict.fromkeys([*stage.queries.values(), *passages]))
        model = MiniLM()
        encoded = {text: encoded_text(model.encode(text)) for text in texts}
        self.matches = {
            query: Matches.of(
                [match(encoded[text], encoded[each.text]) for each in stage.candidates[query]]
            )
            for query, text in stage.queries.items()
            if stage.candidates[query]
        }

    def values(self, rule: Rule, weight: float = PRESET) -> Vector:
        """nDCG@10 of each query, blended with that weight of the retrieval score."""
        blend = Blend(weight, "minmax")
        run = {}
        for query, matches in self.matches.items():
            candidates = self.stage.candidates[query]
            final = blend.mix([each.score for each in candidates], rule(matches).tolist()).final
            run[query] = {
                str(each.id): score for each, score in zip(candidates, final, strict=True)
            }
        values = evaluate(run, self.stage.qrels, [MEASURE]).per_query[MEASURE]
        return np.array([values[query] for query in self.stage.qrels])


def changed(change: Vector) -> str:
    half = 1.96 * change.std(ddof=1) / np.sqrt(len(change))
    return f"{change.mean():+.4f} ± {half:.4f}"


def table(title: str, names: list[str], rows: dict[str, list[str]]) -> None:
    print(f"\n| {title} | {' | '.join(names)} |")
    print("| --- |" + " ---: |" * len(names))
    for row, figures in rows.items():
        print(f"| {row} | {' | '.join(figures)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_data(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of folders in DATA")
    arguments = parser.parse_args()
    folders = present(arguments.data, arguments.sets)
    runs = [Run(stage) for folder in folders for stage in first_stages(folder, stemmed=True)]
    names = [run.name for run in runs]

    rows = {"first stage": [f"{run.stage.evaluation().mean[MEASURE]:.4f}" for run in runs]}
    for title, rule in {**PAIRS, LIST: LISTS[LIST]}.items():
        rows[title] = [f"{run.values(rule, 0).mean():.4f}" for run in runs]
    table("rule, without a blend", names, rows)

    before = [run.values(PAIR) for run in runs]
    changes = {
        title: [run.values(rule) - old for run, old in zip(runs, before, strict=True)]
        for title, rule in LISTS.items()
    }
    english = [index for index, run in enumerate(runs) if run.english]
    means = {
        title: [float(each[index].mean()) for index in english] for title, each in changes.items()
    }
    table(
        "rule for lists, change",
        [*names, "mean, English", "lowest"],
        {
            title: [
                *map(changed, each),
                f"{np.mean(means[title]):+.4f}",
                f"{min(means[title]):+.4f}",
            ]
            for title, each in changes.items()
        },
    )
    counts = [
        f"{(each > TIE).sum()} / {(abs(each) <= TIE).sum()} / {(each < -TIE).sum()}"
        for each in changes[LIST]
    ]
    table("chosen, against pairs", names, {"won / tied / lost": counts})
    for index, place in enumerate(english):
        best = max(means, key=lambda title: sum(means[title]) - means[title][index])
        print(f"\n- best without {names[place]}: {best}; there {means[best][index]:+.4f}", end="")
    print()
    table(
        "weight of the retrieval score",
        names,
        {
            str(weight): [f"{run.values(LISTS[LIST], weight).mean():.4f}" for run in runs]
            for weight in WEIGHTS
        },
    )


if __name__ == "__main__":
    main()
