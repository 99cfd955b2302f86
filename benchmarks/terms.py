"""Measures what terms cost on Cranfield: nDCG@10 by their weight, when age says nothing.

The first 100 of BM25 are ranked by `embedded`, once. Then each document has an age that is drawn
at random, so that the term, of which the median age is the half-life, is uniform from 0 to 1. In
the second half of the table, relevant documents are half as old. `logits` are the same scores from
-11 to 11, as those of many cross-encoders: by a sigmoid, those of good candidates are nearly equal.

    python benchmarks/terms.py --data FOLDER --set cranfield
"""

from __future__ import annotations

import argparse
import logging
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from checked import check
from quality import MEASURE, FirstStage, add_data, first_stages, present

from secondpass import Candidate, Reranker
from secondpass.types import ScoreKind
from secondpass_evaluation import evaluate, ranking_to_run

NOW = datetime(2026, 11, 27, tzinfo=UTC)
MEDIAN = 180.0
"""Median age of documents that are not relevant, in days; it is the half-life, too."""
WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
LOGIT = 11


class Known:
    """A scorer whose scores are in the metadata of the candidates, by way of their text."""

    model_name = "known"

    def __init__(self, score_kind: ScoreKind) -> None:
        self.score_kind: ScoreKind = score_kind

    def score_pairs(self, _query: str, documents: Sequence[str]) -> list[float]:
        scores = [float(document) for document in documents]
        if self.score_kind == "logit":
            return [(2 * score - 1) * LOGIT for score in scores]
        return scores


def scored(stage: FirstStage) -> dict[str, list[Candidate]]:
    """The candidates of each query, with what `embedded` orders them by as text."""
    reranker = Reranker.from_preset("embedded", depth=100, method={"memory_mb": 400})
    found = {}
    for query, text in stage.queries.items():
        ranking = reranker.rerank(text, stage.candidates[query])
        check(ranking.report)
        found[query] = [Candidate(repr(item.final_score), item.id) for item in ranking]
    return found


def aged(
    candidates: Mapping[str, Sequence[Candidate]], qrels: Mapping[str, Mapping[str, int]], seed: int
) -> dict[str, dict[str, list[Candidate]]]:
    """The candidates with dates: of no meaning, and with relevant ones half as old."""
    lists: dict[str, dict[str, list[Candidate]]] = {"unrelated": {}, "half as old": {}}
    for query, items in candidates.items():
        for name, found in lists.items():
            found[query] = []
            for item in items:
                rng = random.Random(f"{seed} {item.id}")
                age = rng.expovariate(1) * MEDIAN / 0.6931
                if name == "half as old" and qrels[query].get(str(item.id), 0) > 0:
                    age /= 2
                date = {"date": NOW - timedelta(days=age)}
                found[query].append(Candidate(item.text, item.id, item.score, date))
    return lists


def measured(
    stage: FirstStage, candidates: Mapping[str, Sequence[Candidate]], scorer: Known, weight: float
) -> float:
    """The mean nDCG@10 with a term of this weight."""
    term = {"type": "recency", "field": "date", "half_life_days": MEDIAN, "weight": weight}
    reranker = Reranker(scorer, terms=[term] if weight else (), depth=None)
    rankings = {}
    for query, text in stage.queries.items():
        rankings[query] = reranker.rerank(text, candidates[query], now=NOW)
        check(rankings[query].report)
    return evaluate(ranking_to_run(rankings), stage.qrels, [MEASURE]).mean[MEASURE]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_data(parser)
    parser.add_argument("--set", default="cranfield", help="name of a folder in DATA")
    parser.add_argument("--seeds", type=int, default=5, help="the table has means over them")
    parser.add_argument("--queries", type=int, help="number of queries, from the first")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    [folder] = present(options.data, [options.set])
    stage = next(first_stages(folder, stemmed=True))
    for query in [*stage.queries][options.queries or len(stage.queries) :]:
        del stage.queries[query], stage.qrels[query]
    candidates = scored(stage)
    scorers = {"`embedded`": Known("unbounded"), "logits": Known("logit")}
    print("| age of relevant documents | scores | " + " | ".join(f"{w:g}" for w in WEIGHTS) + " |")
    print("| --- | --- |" + " ---: |" * len(WEIGHTS))
    draws = [aged(candidates, stage.qrels, seed) for seed in range(options.seeds)]
    for ages in draws[0]:
        for name, scorer in scorers.items():
            means = [
                sum(measured(stage, draw[ages], scorer, weight) for draw in draws) / len(draws)
                for weight in WEIGHTS
            ]
            cells = " | ".join(f"{mean:.3f}".lstrip("0") for mean in means)
            print(f"| {ages} | {name} | {cells} |")


if __name__ == "__main__":
    main()
