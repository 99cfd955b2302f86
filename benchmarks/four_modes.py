"""Four modes side by side: vector, lexical, hybrid, and hybrid with a second pass.

    python benchmarks/four_modes.py --sets cranfield trec-dl19
    python benchmarks/four_modes.py --rerank embedded lexical my.yaml --shuffles 3

Prints the Markdown of :func:`secondpass.evaluation.compare` for every collection. A collection is
a folder with corpus.jsonl, queries.jsonl and qrels.tsv; a first stage's own results
(candidates.jsonl) are not used. Vectors are those of the embedded MiniLM, and kept in ``build/``
between runs. Collections that are absent are named; nothing is downloaded.

The preset ``embedded`` encodes each query's passages anew, which takes an hour for Cranfield on two
busy cores. With ``--remember 10000`` it encodes each passage once: the order is the same, the times
are no longer those of the preset.
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
from secondpass.evaluation import HybridRetriever, compare, load_suite
from secondpass.scorers.minilm import MODEL_NAME, MiniLM

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
SETS = ("cranfield", "trec-dl19")
MEASURES = ("nDCG@10", "RR", "AP", "R@100")


class CachedEmbedder:
    """The embedded model, with a corpus's vectors kept in a file between runs."""

    def __init__(self) -> None:
        self.model = MiniLM()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (texts, 384)."""
        if len(texts) < 100:  # a query
            return self.model.embed(texts)
        known = hashlib.sha256("\0".join([MODEL_NAME, *texts]).encode()).hexdigest()
        path = BUILD / f"vectors-{known[:16]}.npy"
        if not path.exists():
            print(f"Encoding {len(texts)} passages, once", file=sys.stderr)
            vectors = self.model.embed(texts)
            BUILD.mkdir(exist_ok=True)
            part = path.with_suffix(".part.npy")
            np.save(part, vectors)
            part.replace(path)
        kept: NDArray[np.float32] = np.load(path)
        return kept


def made(spec: str, remember: int) -> Reranker:
    if spec == "embedded":
        return Reranker.from_preset(spec, method={"remember": remember})
    return resolve(spec)


def told(system: str, done: int, count: int) -> None:
    if done == count:
        print(f"{system}: {count} queries", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="folders of the data")
    parser.add_argument("--rerank", nargs="+", default=["embedded"], help="presets and YAML files")
    parser.add_argument("--depth", type=int, default=100, help="candidates of each query")
    parser.add_argument("--shuffles", type=int, default=0, help="of each query's candidates")
    parser.add_argument("--queries", type=int, help="only so many of each collection")
    parser.add_argument("--remember", type=int, default=0, help="passages `embedded` keeps encoded")
    parser.add_argument("--out", type=Path, help="write all files of the comparisons there")
    arguments = parser.parse_args()

    present = [name for name in arguments.sets if (arguments.data / name / "qrels.tsv").is_file()]
    if absent := [name for name in arguments.sets if name not in present]:
        print(f"Not measured, no such folder in {arguments.data}: {', '.join(absent)}\n")
    if not present:
        print("No collection is here, so there is nothing to measure. See --data.")
        return 0
    only = len(arguments.rerank) == 1
    try:
        rerankers = {
            "rerank" if only else Path(spec).stem: made(spec, arguments.remember)
            for spec in arguments.rerank
        }
        embedder = CachedEmbedder()
        for name in present:
            suite = load_suite(arguments.data / name).first(arguments.queries)
            comparison = compare(
                rerankers,
                suite,
                retriever=HybridRetriever(suite.corpus or (), embedder, depth=arguments.depth),
                first_stages=("vector", "lexical", "hybrid"),
                behind="hybrid",
                depth=arguments.depth,
                measures=MEASURES,
                shuffles=arguments.shuffles,
                progress=told,
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
