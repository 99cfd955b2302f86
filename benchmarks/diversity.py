"""What diverse orderings gain and cost, on lists with duplicates and on queries of two topics.

    python benchmarks/diversity.py --data FOLDER

Candidates are reranked by ``embedded``, and then moved by the ordering.

- `as they are`: the lists of the collection. nDCG@10 counts every relevant passage in full, so
  diversity can only cost here.
- `duplicates`: the first 40 passages, each with up to two near-duplicates, in which one word of 20
  is left out. Each original is a subtopic that its copies share. alpha-nDCG@10 (Clarke et al.,
  "Novelty and diversity in information retrieval evaluation", SIGIR 2008; alpha 0.5) halves the
  gain of a passage with every earlier passage of its subtopic. Relevant passages have a grade of 2
  or 3. `different ones` are the subtopics in the first 10.
- `two topics`: two queries in one, with the first 50 passages of each. Each is a subtopic.

Seeds are fixed.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quality import FirstStage, first_stages

from secondpass import Candidate, Ranked, Reranker

TOP = 10
ALPHA = 0.5
RELEVANT = 2
LEFT_OUT = 0.05
ORDERINGS: Mapping[str, Mapping[str, Any] | None] = {
    "none": None,
    "near-duplicates alone": {"type": "diverse", "relevance": 1.0},
    **{
        f"{similarity}, `relevance: {relevance}`": {
            "type": "diverse",
            "similarity": similarity,
            "relevance": relevance,
            "remember": 20_000,
        }
        for similarity in ("words", "embedded")
        for relevance in (0.9, 0.7, 0.5)
    },
}

Subtopic = Callable[[Candidate], str | None]
"""The subtopic that a passage is relevant to; None if it is not relevant."""


def lists(stage: FirstStage, kind: str) -> list[tuple[str, list[Candidate], Subtopic]]:
    """The query, the candidates, and their subtopics."""

    def relevant(query: str, candidate: Candidate) -> bool:
        return stage.qrels[query].get(str(candidate.id), 0) >= RELEVANT

    found: list[tuple[str, list[Candidate], Subtopic]] = []
    queries = list(stage.queries)
    draw = random.Random("diversity")
    for number, query in enumerate(queries):
        head = stage.candidates[query]
        if kind == "two topics":
            other = queries[(number + 1) % len(queries)]
            pair = [*zip(stage.candidates[query][:50], stage.candidates[other][:50], strict=False)]
            text = f"{stage.queries[query]} {stage.queries[other]}"
            candidates = [candidate for both in pair for candidate in both]

            def topic(candidate: Candidate, pair: Sequence[str] = (query, other)) -> str | None:
                return next((each for each in pair if relevant(each, candidate)), None)

            found.append((text, candidates, topic))
            continue
        candidates = head[:100]
        if kind == "duplicates":
            candidates = [
                copy
                for candidate in head[:40]
                for copy in (candidate, *(_copy(candidate, draw) for _ in range(draw.randrange(3))))
            ]

        def own(candidate: Candidate, query: str = query) -> str | None:
            return str(candidate.id) if relevant(query, candidate) else None

        found.append((stage.queries[query], candidates, own))
    return found


def _copy(candidate: Candidate, draw: random.Random) -> Candidate:
    words = [word for word in candidate.text.split() if draw.random() > LEFT_OUT]
    return Candidate(" ".join(words), candidate.id, candidate.score)


def alpha_ndcg(order: Sequence[str | None], every: Sequence[str | None]) -> float | None:
    """alpha-nDCG@10 of the subtopics of a ranking; None if nothing is relevant."""
    ideal: list[str | None] = []
    left = Counter(topic for topic in every if topic is not None)
    used: Counter[str] = Counter()
    while left and len(ideal) < TOP:
        best = min(left, key=lambda topic: used[topic])
        ideal.append(best)
        used[best] += 1
        left[best] -= 1
        left += Counter()
    return _alpha_dcg(order) / _alpha_dcg(ideal) if ideal else None


def _alpha_dcg(topics: Sequence[str | None]) -> float:
    seen: Counter[str] = Counter()
    total = 0.0
    for place, topic in enumerate(topics[:TOP]):
        if topic is not None:
            total += (1 - ALPHA) ** seen[topic] / math.log2(place + 2)
            seen[topic] += 1
    return total


def ndcg(order: Sequence[int], every: Sequence[int]) -> float | None:
    """nDCG@10 of grades."""

    def dcg(grades: Sequence[int]) -> float:
        return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades[:TOP]))

    best = dcg(sorted(every, reverse=True))
    return dcg(order) / best if best else None


def mean(values: Sequence[float | None]) -> float:
    return statistics.mean(value for value in values if value is not None)


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Diverse orderings.")
    parser.add_argument("--data", type=Path, default=root / "../shared/data/trec-dl19")
    parsed = parser.parse_args()
    stage = next(first_stages(parsed.data, stemmed=False))
    reranker = Reranker({"type": "embedded", "remember": 20_000}, depth=None)
    print("| ordering | as they are | duplicates | different ones | two topics | both in 3 |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, order in ORDERINGS.items():

        def ranked(
            query: str, candidates: Sequence[Candidate], order: Any = order
        ) -> tuple[Ranked, ...]:
            ranking = reranker.rerank(query, candidates, order=order)
            assert ranking.report.status == "ok"
            assert not ranking.report.issues
            return ranking.items

        plain = []
        for query, text in stage.queries.items():
            head = stage.candidates[query][:100]
            grades = [stage.qrels[query].get(str(each.id), 0) for each in head]
            plain.append(ndcg([grades[item.position] for item in ranked(text, head)], grades))
        measured: dict[str, list[float | None]] = {}
        for kind in ("duplicates", "two topics"):
            for text, candidates, topic in lists(stage, kind):
                every = [topic(candidate) for candidate in candidates]
                topics = [every[item.position] for item in ranked(text, candidates)]
                value = alpha_ndcg(topics, every)
                measured.setdefault(kind, []).append(value)
                if value is None or (kind == "two topics" and len({*every} - {None}) < 2):
                    continue
                different = {*topics[: TOP if kind == "duplicates" else 3]} - {None}
                count = len(different) if kind == "duplicates" else float(len(different) == 2)
                measured.setdefault(f"{kind}, count", []).append(count)
        print(
            f"| {name} | {mean(plain):.3f} | {mean(measured['duplicates']):.3f} "
            f"| {mean(measured['duplicates, count']):.2f} | {mean(measured['two topics']):.3f} "
            f"| {mean(measured['two topics, count']):.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
