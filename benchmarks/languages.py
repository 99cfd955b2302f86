"""Counts lists that `embedded` detects as English: those of the tests, and of collections.

    python benchmarks/languages.py
    python benchmarks/languages.py --data ../data --sets xquad-en xquad-de

Prints the measures of :mod:`secondpass.scorers.english` for each list; for each file of lists, how
many are not English by the first two conditions alone, and by all three; for each collection, the
number of queries whose candidates are not English.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

from quality import SETS, first_stages

from secondpass.scorers.english import Measures, measure
from secondpass.scorers.minilm import load_tokenizer

LISTS = Path(__file__).resolve().parents[1] / "tests/scorers/languages"


def two_conditions(measures: Measures) -> bool:
    """Whether a list is not English by the first two conditions alone."""
    return measures.function < 0.15 and (measures.pieces > 1.4 or measures.unknown > 0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of collections; default: none")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of folders in DATA")
    arguments = parser.parse_args()
    tokenizer = load_tokenizer()
    for file in ("english", "other", "unreadable"):
        lists = tomllib.loads((LISTS / f"{file}.toml").read_text(encoding="utf-8"))
        found = {
            name: measure([one["query"], *one["texts"].split("\n\n")], tokenizer)
            for name, one in lists.items()
        }
        known = {name: measures for name, measures in found.items() if measures is not None}
        for name, one in known.items():
            print(
                f"{name:22} {one.words:4} words  function {one.function:.2f}  "
                f"pieces {one.pieces:5.2f}  letters {one.letters:4.2f}  "
                f"unknown {one.unknown:.2f}  english {one.english:.2f}  "
                f"foreign {one.foreign:.2f}  {'' if one.is_english else 'not English'}"
            )
        print(
            f"{file}: {len(lists)} lists; not English by two conditions: "
            f"{sum(map(two_conditions, known.values()))}, "
            f"by three: {sum(not one.is_english for one in known.values())}\n"
        )
    for name in arguments.sets if arguments.data else ():
        for stage in first_stages(arguments.data / name, stemmed=False):
            every = [
                measure(
                    [text, *(one.text[:500] for one in stage.candidates[query][:20])], tokenizer
                )
                for query, text in stage.queries.items()
            ]
            count = sum(one is not None and not one.is_english for one in every)
            print(f"{stage.collection}, {stage.name}: {count} of {len(every)} queries not English")
    return 0


if __name__ == "__main__":
    sys.exit(main())
