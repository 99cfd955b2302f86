"""Measures how often the answer survives when a ranking is packed into a budget of tokens.

    python benchmarks/packed_prompts.py
    python benchmarks/packed_prompts.py --queries 100 --shares 0.25

For questions of a collection with ``answers.jsonl`` whose right passage ``embedded`` ranks first:
the share of questions whose answer, at its place in the right passage, is in the packed text. The
budget is a share of the tokens of the best five passages. Beside ``Ranking.pack``, the table has
passages whole or as their best sentence, and the best passages cut off at the budget. Tokens are
counted by the word pieces of the model that ``embedded`` uses; the estimate of
``Ranking.pack`` is compared with them. At the end, the CPU time of packing 50 passages, without
that of the counter. About two minutes of CPU.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from checked import check
from quality import add_data, first_stages, present

from secondpass import Candidate, Packed, Ranking, Reranker
from secondpass.ranking.packing import estimate_most_tokens
from secondpass.scorers.embedding.minilm import load_tokenizer

TOP = 5
DEPTH = 50
SHARES = (0.15, 0.25, 0.5)


class Answer(NamedTuple):
    """Where the answer of a question stands: characters of a passage."""

    passage: str
    start: int
    stop: int


def answers_of(folder: Path) -> dict[str, Answer]:
    rows = map(json.loads, (folder / "answers.jsonl").read_text("utf-8").splitlines())
    return {
        row["query_id"]: Answer(row["doc_id"], row["start"], row["start"] + len(row["answer"]))
        for row in rows
    }


def word_pieces() -> Callable[[str], int]:
    """A function that counts word pieces, without the special tokens."""
    tokenizer = load_tokenizer()
    tokenizer.no_truncation()
    return cache(lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids))


# Each takes a ranking, a budget and a counter, and returns the parts of the first passage that the
# text has.


def packed(ranking: Ranking, budget: int, count: Callable[[str], int]) -> list[tuple[int, int]]:
    return parts_of_first(ranking, ranking.pack(budget, count=count))


def parts_of_first(ranking: Ranking, text: Packed) -> list[tuple[int, int]]:
    first = ranking[0].position
    return [span for source in text.sources if source.position == first for span in source.spans]


def whole_or_sentence(
    ranking: Ranking, budget: int, count: Callable[[str], int]
) -> list[tuple[int, int]]:
    first = ranking[0]
    for span in ((0, len(first.text)), first.span):
        if span is not None and count(f"[1] {first.id}\n{first.text[slice(*span)]}") <= budget:
            return [span]
    return []


def cut_off(ranking: Ranking, budget: int, count: Callable[[str], int]) -> list[tuple[int, int]]:
    text = ranking[0].text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= budget else (low, middle - 1)
    return [(0, low)]


METHODS = {
    "`Ranking.pack`": packed,
    "whole passages, or their best sentence": whole_or_sentence,
    "cut off at the budget": cut_off,
}


def cpu_of_packing(rankings: list[Ranking], count: Callable[[str], int]) -> list[float]:
    """CPU milliseconds of packing 50 passages into 2,000 tokens, without the counter's.

    Of each ranking, the lowest of three times.
    """
    spent = 0.0

    def timed(text: str) -> int:
        nonlocal spent
        began = time.thread_time()
        number = count(text)
        spent += time.thread_time() - began
        return number

    def once(ranking: Ranking) -> float:
        nonlocal spent
        spent = 0.0
        began = time.thread_time()
        ranking.pack(2000, count=timed)
        return 1000 * (time.thread_time() - began - spent)

    return [min(once(ranking) for _ in range(3)) for ranking in rankings]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_data(parser)
    parser.add_argument("--set", default="xquad-en", help="name of a folder in DATA")
    parser.add_argument("--queries", type=int, default=300, help="number of questions")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES, help="budgets")
    arguments = parser.parse_args()
    (folder,) = present(arguments.data, [arguments.set])
    answers = answers_of(folder)
    stage = next(iter(first_stages(folder, stemmed=False)))
    asked = sorted(stage.queries.keys() & answers.keys())
    asked = random.Random(0).sample(asked, min(arguments.queries, len(asked)))
    reranker = Reranker({"type": "embedded", "memory_mb": 100}, depth=DEPTH)
    rankings: dict[str, Ranking] = {}
    for query in asked:
        found = [Candidate(one.text, one.id) for one in stage.candidates[query][:DEPTH]]
        ranking = reranker.rerank(stage.queries[query], found)
        check(ranking.report, {"text_truncated"})
        rankings[query] = ranking
    right = [query for query in asked if rankings[query][0].id == answers[query].passage]
    print(f"{folder.name}: the right passage is first for {len(right)} of {len(asked)} questions\n")
    count = word_pieces()
    shares = [f"{share:.0%} of the tokens" for share in arguments.shares]
    print(f"| answer survives in | {' | '.join(shares)} |")
    print(f"| --- |{' ---: |' * len(shares)}")
    for name, method in METHODS.items():
        cells = []
        for share in arguments.shares:
            survived = 0
            for query in right:
                ranking, answer = rankings[query], answers[query]
                whole = sum(count(item.text) for item in ranking[:TOP])
                spans = method(ranking, int(share * whole), count)
                survived += any(s <= answer.start and answer.stop <= e for s, e in spans)
            cells.append(f"{survived / max(1, len(right)):.1%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    texts = list({item.text for ranking in rankings.values() for item in ranking})
    ratios = [estimate_most_tokens(text) / count(text) for text in texts]
    low = sum(ratio < 1 for ratio in ratios) / len(ratios)
    print(
        f"\nestimated tokens / word pieces: {statistics.median(ratios):.2f} (median), "
        f"{min(ratios):.2f} (lowest); too low for {low:.1%} of {len(texts)} passages"
    )
    times = sorted(cpu_of_packing([*rankings.values()][:50], count))
    middle, most = statistics.median(times), times[-1]
    print(f"packing {DEPTH} passages: {middle:.1f} ms of CPU (median), at most {most:.1f}")


if __name__ == "__main__":
    main()
