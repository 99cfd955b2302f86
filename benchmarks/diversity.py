"""Measures diverse orderings on lists with duplicates and on queries of two topics.

    python benchmarks/diversity.py --data FOLDER
    python benchmarks/diversity.py --times

Candidates are reranked by ``embedded``, and then moved by the ordering.

- `as they are`: the lists of the collection. nDCG@10 counts every relevant passage in full, so
  diversity can only lower it.
- `duplicates`: the first 40 passages, each with up to two near-duplicates, in which one word of 20
  is omitted. Each original is a subtopic that its copies share. alpha-nDCG@10 (Clarke et al.,
  "Novelty and diversity in information retrieval evaluation", SIGIR 2008; alpha 0.5) halves the
  gain of a passage with every earlier passage of its subtopic. Relevant passages have a grade of 2
  or 3. `different ones` are the subtopics in the first 10.
- `two topics`: two queries in one, with the first 50 passages of each. Each is a subtopic; `both in
  5`: how often the first five have relevant passages of both, where there are any.

Seeds are fixed. With ``--times`` it prints how long the orderings take instead: CPU time, the best
of several runs, on passages of 60 words of Python's language reference.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from checked import check
from quality import MEASURE, FirstStage, add_data, first_stages, present

from secondpass import Candidate, Ranking, Reranker
from secondpass.ranking.ordering import to_ordering
from secondpass_evaluation import evaluate, ranking_to_run

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
            "memory_mb": 400,
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


def alpha_ndcg(order: Sequence[str | None]) -> float:
    """alpha-nDCG@10 of the subtopics of a ranking, one of which is not None."""
    ideal: list[str | None] = []
    left = Counter(topic for topic in order if topic is not None)
    used: Counter[str] = Counter()
    while left and len(ideal) < TOP:
        best = min(left, key=lambda topic: used[topic])
        ideal.append(best)
        used[best] += 1
        left[best] -= 1
        left += Counter()
    return _alpha_dcg(order) / _alpha_dcg(ideal)


def _alpha_dcg(topics: Sequence[str | None]) -> float:
    seen: Counter[str] = Counter()
    total = 0.0
    for place, topic in enumerate(topics[:TOP]):
        if topic is not None:
            total += (1 - ALPHA) ** seen[topic] / math.log2(place + 2)
            seen[topic] += 1
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_data(parser)
    parser.add_argument("--times", action="store_true", help="print how long they take")
    parsed = parser.parse_args()
    if parsed.times:
        print_times()
        return
    [folder] = present(parsed.data, ["trec-dl19"])
    stage = next(first_stages(folder, stemmed=False))
    reranker = Reranker({"type": "embedded", "memory_mb": 400}, depth=None)
    plain = {
        query: reranker.rerank(text, stage.candidates[query][:100])
        for query, text in stage.queries.items()
    }
    mixed = {
        kind: [(reranker.rerank(text, found), topic) for text, found, topic in lists(stage, kind)]
        for kind in ("duplicates", "two topics")
    }
    for ranking in (*plain.values(), *(one for found in mixed.values() for one, _ in found)):
        check(ranking.report)
    print("| ordering | as they are | duplicates | different ones | two topics | both in 5 |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, settings in ORDERINGS.items():
        order = None if settings is None else to_ordering(settings)
        moved = {query: moved_by(order, ranking) for query, ranking in plain.items()}
        cells = [evaluate(ranking_to_run(moved), stage.qrels, [MEASURE]).mean[MEASURE]]
        for kind, rankings in mixed.items():
            values, counts = [], []
            for ranking, topic in rankings:
                topics = [topic(item.candidate) for item in moved_by(order, ranking)]
                different = {*topics} - {None}
                if not different:
                    continue
                values.append(alpha_ndcg(topics))
                if kind == "duplicates":
                    counts.append(float(len({*topics[:TOP]} - {None})))
                elif len(different) == 2:
                    counts.append(float(different <= {*topics[:5]}))
            cells += [statistics.mean(values), statistics.mean(counts)]
        first, second, count, third, both = cells
        print(
            f"| {name} | {first:.3f} | {second:.3f} | {count:.2f} | {third:.3f} | {both:.0%} |",
            flush=True,
        )


def passages(count: int, words: int, draw: random.Random) -> list[Candidate]:
    """Passages of Python's language reference, at random places."""
    from pydoc_data.topics import topics

    lexicon = [word for name in sorted(topics) for word in topics[name].split() if word.isalpha()]
    starts = [draw.randrange(len(lexicon) - words) for _ in range(count)]
    texts = (" ".join(lexicon[start : start + words]) for start in starts)
    return [Candidate(text, str(number), 1 - number / count) for number, text in enumerate(texts)]


def seconds_of(order: Any, lists: Sequence[Ranking]) -> float:
    """The least CPU time for one of the lists."""
    times = []
    for ranking in lists:
        started = time.process_time()
        order(ranking.items)
        times.append(time.process_time() - started)
    return min(times)


def print_times() -> None:
    draw = random.Random("times")
    reranker = Reranker("lexical", depth=None)
    print("| similarity | passages of 60 words | CPU ms |")
    print("| --- | ---: | ---: |")
    for similarity, count, lists in (("words", 100, 40), ("words", 1_000, 3), ("embedded", 100, 5)):
        order = to_ordering({"type": "diverse", "similarity": similarity, "window": count})
        rankings = [
            reranker.rerank("names of modules", passages(count, 60, draw)) for _ in range(lists)
        ]
        for ranking in rankings:
            check(ranking.report)
        milliseconds = 1e3 * seconds_of(order, rankings)
        print(f"| `{similarity}` | {count:,} | {milliseconds:,.0f} |", flush=True)


def moved_by(order: Any, ranking: Ranking) -> Ranking:
    return ranking if order is None else replace(ranking, items=tuple(order(ranking.items)))


if __name__ == "__main__":
    main()
