"""Compares four modes: vector, lexical, hybrid, and hybrid with reranking.

    python benchmarks/four_modes.py --sets cranfield trec-dl19
    python benchmarks/four_modes.py --rerank embedded lexical my.yaml --shuffles 3
    python benchmarks/four_modes.py --each        reranking after each of the three searches

Prints the Markdown of :func:`secondpass_evaluation.compare` for every collection. A collection is
a folder with corpus.jsonl, queries.jsonl and qrels.tsv; a first stage's own results
(candidates.jsonl) are not used. Vectors are computed by the embedded MiniLM and cached in
``build/``. Missing collections are listed; nothing is downloaded.

The preset ``embedded`` encodes the passages of each query again, which takes an hour for Cranfield
on two busy cores. With ``--remember 10000`` it encodes each passage once: the order is the same,
but the times are shorter than those of the preset.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from secondpass import Reranker, SecondPassError
from secondpass.config import resolve
from secondpass.formats.files import atomic_write
from secondpass.scorers.minilm import MODEL_NAME, MiniLM
from secondpass_evaluation import HybridRetriever, Mode, compare, load_suite

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
SETS = ("cranfield", "trec-dl19")
MODES: tuple[Mode, ...] = ("vector", "lexical", "hybrid")
MEASURES = ("nDCG@10", "RR", "AP", "R@100")


class CachedEmbedder:
    """The embedded model; vectors of a corpus are cached in a file."""

    def __init__(self) -> None:
        self.model = MiniLM()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (texts, 384)."""
        if len(texts) < 100:  # a query
            return self.model.embed(texts)
        digest = hashlib.sha256("\0".join([MODEL_NAME, *texts]).encode()).hexdigest()
        path = BUILD / f"vectors-{digest[:16]}.npy"
        if not path.exists():
            print(f"Encoding {len(texts)} passages", file=sys.stderr)
            vectors = self.model.embed(texts)
            BUILD.mkdir(exist_ok=True)
            with atomic_write(path) as file:
                np.save(file, vectors)
        cached: NDArray[np.float32] = np.load(path)
        return cached


def load_reranker(spec: str, remember: int) -> Reranker:
    if spec == "embedded":
        return Reranker.from_preset(spec, method={"remember": remember})
    return resolve(spec)


def report_progress(system: str, done: int, count: int) -> None:
    if done == count:
        print(f"{system}: {count} queries", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data", type=Path, default=ROOT / "../shared/data", help="folder of collections"
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of folders in DATA")
    parser.add_argument("--rerank", nargs="+", default=["embedded"], help="presets and YAML files")
    parser.add_argument("--each", action="store_true", help="also rerank vector and lexical")
    parser.add_argument("--depth", type=int, default=100, help="candidates per query")
    parser.add_argument(
        "--shuffles", type=int, default=0, help="number of shuffles of the candidates"
    )
    parser.add_argument("--queries", type=int, help="number of queries per collection")
    parser.add_argument(
        "--remember", type=int, default=0, help="number of encoded passages that `embedded` caches"
    )
    parser.add_argument("--out", type=Path, help="folder for the files of the comparisons")
    arguments = parser.parse_args()

    available = [name for name in arguments.sets if (arguments.data / name / "qrels.tsv").is_file()]
    if missing := [name for name in arguments.sets if name not in available]:
        print(f"Skipped, no such folder in {arguments.data}: {', '.join(missing)}\n")
    if not available:
        print("Nothing to measure: no collection was found. See --data.")
        return 0
    is_single = len(arguments.rerank) == 1
    try:
        rerankers = {
            "rerank" if is_single else Path(spec).stem: load_reranker(spec, arguments.remember)
            for spec in arguments.rerank
        }
        embedder = CachedEmbedder()
        for name in available:
            suite = load_suite(arguments.data / name).first(arguments.queries)
            comparison = compare(
                rerankers,
                suite,
                retriever=HybridRetriever(suite.corpus or (), embedder, depth=arguments.depth),
                first_stages=MODES,
                behind=MODES if arguments.each else "hybrid",
                depth=arguments.depth,
                measures=MEASURES,
                shuffles=arguments.shuffles,
                progress=report_progress,
            )
            print(comparison.to_markdown(), flush=True)
            if arguments.out:
                comparison.write(arguments.out / name)
    except (SecondPassError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
