"""News: recent articles rise, but not above those that answer the question much better.

    pip install -e ".[embedded]"
    python examples/recipes/news.py
    python examples/recipes/news.py --weight 1

Articles of two searches are fused (``fuse``), ranked by `embedded`, and their age is added to the
scores (``terms``). ``--weight`` is that of the age: an article rises above another only if its
relevance, from 0 to 1, is less than this below. With 0.1 the newer of two reports on the interest
rate comes first; with 1, a blood bank of yesterday comes before the older one, too.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # missing_package.py

import missing_package  # noqa: F401 - says what to install

from secondpass import Ranking, Reranker, fuse

NOW = "2026-11-27"
"""So that the output is always the same; without ``now`` the clock is read."""
QUESTION = "What did the central bank decide about interest rates?"

BY_WORDS = [
    {
        "id": "rates-2024",
        "text": "The central bank raised its interest rate by half a point.",
        "published": "2024-06-06",
        "score": 9.1,
    },
    {
        "id": "rates-2026",
        "text": "The central bank lowered its interest rate by a quarter point.",
        "published": "2026-11-19",
        "score": 8.8,
    },
    {
        "id": "blood-bank",
        "text": "The blood bank decided to open on Sundays.",
        "published": "2026-11-26",
        "score": 5.2,
    },
]
BY_VECTORS = [
    BY_WORDS[1] | {"score": 0.71},
    BY_WORDS[0] | {"score": 0.7},
    {
        "id": "mortgages",
        "text": "Mortgages became cheaper for first buyers.",
        "published": "2026-09-02",
        "score": 0.48,
    },
    {
        "id": "football",
        "text": "The home team won the cup final after extra time.",
        "updated": "2026-11-27",
        "published": "2026-11-20",
        "score": 0.05,
    },
]


def rank(weight: float) -> Ranking:
    """The articles, with an age of this weight; 0 leaves it out."""
    age = {"type": "recency", "field": "updated|published", "half_life_days": 90, "weight": weight}
    candidates = fuse({"words": BY_WORDS, "vectors": BY_VECTORS})
    reranker = Reranker.from_preset("embedded", terms=[age] if weight else [])
    return reranker.rerank(QUESTION, candidates, now=NOW)


def main(arguments: Sequence[str] | None = None) -> int:
    """Rank the articles, without and with their age."""
    parser = argparse.ArgumentParser(description="Rank news by relevance and age.")
    parser.add_argument("--weight", type=float, default=0.1, help="of the age; default 0.1")
    options = parser.parse_args(arguments)
    if not 0 <= options.weight < math.inf:
        parser.error("--weight: give a number from 0")
    for weight in (0.0, options.weight):
        print(f"weight of the age: {weight:g}")
        for item in rank(weight):
            day = item.metadata.get("updated", item.metadata["published"])
            print(f"{item.rank:3}  {item.final_score:.3f}  {day}  {item.id}")
    print(rank(options.weight).explain("rates-2026"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
