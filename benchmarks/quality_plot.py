"""Quality against CPU time: the local methods with trained weights, at several depths.

    python benchmarks/quality_plot.py                     measure all; prints Markdown
    python benchmarks/quality_plot.py --docs              also rewrite the docs' tables and plots
    python benchmarks/quality_plot.py --docs --reuse      rewrite them from the last measurements
    python benchmarks/quality_plot.py --sets vaswani      measure one collection again
    python benchmarks/quality_plot.py --unseen FOLDER ... also collections not used in development
    python benchmarks/quality_plot.py --docs --sets --unseen build/python-docs    only that one,
                                      which python_docs_collection.py writes

Measures nDCG@10 of reranking after BM25, vector search and hybrid search: the first stages of
:mod:`quality`; for a collection without vector search of its own, one by the embedded model; and
the hybrid search of ``secondpass query``, of BM25 and that model.
Measurements are kept in ``build/quality.json``; the docs are written from that file. A table
stays as it is if that file has no collection for it, and so do the plots.

Each distinct passage is encoded once for all methods and depths (``memory_mb``), and once more for
the vector search, whose vectors are cached in ``build/``. CPU time is that of the process, with
one thread and no cache, on a sample of queries. A full run takes about 10 minutes on two idle
cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import quality_report
from numpy.typing import NDArray
from quality import (
    LANGUAGES,
    MEASURE,
    RETRIEVED,
    SETS,
    FirstStage,
    add_data,
    first_stages,
    no_collections,
    with_title,
)

from secondpass import Reranker, SecondPassError
from secondpass.config import load, merged, preset
from secondpass.extend import MODEL_NAME, MiniLM, atomic_write
from secondpass_evaluation import HybridRetriever, Mode, evaluate, ranking_to_run, read_corpus

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
RESULTS = BUILD / "quality.json"
METHODS: dict[str, dict[str, Any]] = {
    "embedded": preset("embedded"),
    "embedded alone": {"method": {"type": "embedded"}},
    "lexical": preset("lexical"),
}
DEPTHS = (10, 20, 50, 100)
MEMORY_MB = 400
"""Encoded passages to keep: more than the candidates of any collection."""
TIMED = 3
"""Queries of each list whose CPU time is measured."""


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


def reranker(name: str, **settings: Any) -> Reranker:
    """A reranker of :data:`METHODS`; ``settings`` are for the embedding model only."""
    config = METHODS[name]
    if config["method"]["type"] == "embedded":
        config = merged(config, {"method": settings})
    return load(config)


def stages(folder: Path, embedder: CachedEmbedder) -> Iterator[tuple[str, FirstStage]]:
    """The first stages of a collection, each with its kind: a key of `quality_report.KINDS`."""
    kinds = []
    for stage in first_stages(folder, stemmed=True):
        kinds.append("vectors" if stage.name == "Contriever" else "words")
        yield kinds[-1], stage
    if folder.name in LANGUAGES:  # the model is English
        return
    corpus = [with_title(passage) for passage in read_corpus(folder / "corpus.jsonl")]
    retriever = HybridRetriever(corpus, embedder)
    searches: dict[Mode, str] = {"vector": "MiniLM", "hybrid": "BM25 and MiniLM"}
    if "vectors" in kinds:
        del searches["vector"]
    for mode, name in searches.items():
        candidates = {
            query: retriever.retrieve(text, RETRIEVED, mode)
            for query, text in stage.queries.items()
        }
        kind = "vectors" if mode == "vector" else mode
        yield kind, replace(stage, name=name, candidates=candidates)


def measure(stage: FirstStage) -> dict[str, Any]:
    """Values per query by method and depth, and what was reported."""
    methods: dict[str, Any] = {}
    for name in METHODS:
        one = reranker(name, memory_mb=MEMORY_MB)
        methods[name] = {}
        for depth in DEPTHS:
            rankings = {
                query: one.rerank(text, stage.candidates[query], depth=depth)
                for query, text in stage.queries.items()
            }
            after = evaluate(ranking_to_run(rankings), stage.qrels, [MEASURE])
            reports = [ranking.report for ranking in rankings.values()]
            methods[name][depth] = {
                "after": dict(after.per_query[MEASURE]),
                "pairs": sum(report.usage.pairs for report in reports) / len(reports),
                "statuses": Counter(report.status for report in reports),
            }
    return methods


def cpu_times(stage: FirstStage) -> dict[str, dict[int, float]]:
    """Mean CPU milliseconds of a query by method and depth, in one thread."""
    queries = [*stage.queries]
    sample = [queries[(2 * number + 1) * len(queries) // (2 * TIMED)] for number in range(TIMED)]
    times: dict[str, dict[int, float]] = {}
    for name in METHODS:
        kind = METHODS[name]["method"]["type"]
        alike = [other for other in times if METHODS[other]["method"]["type"] == kind]
        if alike:  # they differ in the blend, which takes microseconds
            times[name] = times[alike[0]]
            continue
        one = reranker(name, threads=1, memory_mb=0)  # each passage is encoded
        one.rerank(stage.queries[queries[0]], stage.candidates[queries[0]][:5])  # loads the model
        times[name] = {}
        for depth in DEPTHS:
            began = time.process_time()
            for query in sample:
                one.rerank(stage.queries[query], stage.candidates[query], depth=depth)
            times[name][depth] = 1000 * (time.process_time() - began) / TIMED
        one.close()
    return times


def first(stage: FirstStage, count: int | None) -> FirstStage:
    """The first queries of a list."""
    queries = dict([*stage.queries.items()][:count])
    qrels = {query: stage.qrels[query] for query in queries}
    candidates = {query: stage.candidates[query] for query in queries}
    return replace(stage, queries=queries, qrels=qrels, candidates=candidates)


def measure_collection(
    folder: Path, embedder: CachedEmbedder, queries: int | None, *, seen: bool
) -> Iterator[dict[str, Any]]:
    """One record per first stage, as plain values for JSON."""
    # Keeps the cache of encoded passages until the last first stage is measured.
    holder = reranker("embedded", memory_mb=MEMORY_MB)
    holder.warm_up()
    for kind, whole in stages(folder, embedder):
        stage = first(whole, queries)
        began = time.process_time()
        record = {
            "collection": stage.collection,
            "first_stage": stage.name,
            "behind": kind,
            "english": stage.collection not in LANGUAGES,
            "seen": seen,
            "before": dict(stage.evaluation().per_query[MEASURE]),
            "methods": measure(stage),
            "cpu": cpu_times(stage),
        }
        seconds = time.process_time() - began
        print(f"{stage.collection} ({stage.name}): {seconds:.0f} s of CPU", file=sys.stderr)
        yield json.loads(json.dumps(record))  # the keys that reading the file gives
    holder.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_data(parser)
    parser.add_argument("--sets", nargs="*", default=list(SETS), help="names of folders in DATA")
    parser.add_argument(
        "--unseen",
        nargs="+",
        type=Path,
        default=[],
        help="folders of collections that were not used in development, for a separate table",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the measurements")
    parser.add_argument("--queries", type=int, help="measure only the first N queries", metavar="N")
    parser.add_argument("--reuse", action="store_true", help="report the last measurements")
    parser.add_argument(
        "--docs", action="store_true", help="rewrite README, docs/evidence.md and plots"
    )
    arguments = parser.parse_args()

    results = arguments.results
    records = json.loads(results.read_text()) if results.exists() else []
    folders = [(arguments.data / name, True) for name in arguments.sets]
    folders += [(folder, False) for folder in arguments.unseen]
    embedder = CachedEmbedder()
    there = [one for one in folders if (one[0] / "qrels.tsv").is_file()]
    for folder, seen in [] if arguments.reuse else folders:
        if (folder, seen) not in there:
            if there:
                print(f"Skipped, no qrels.tsv: {folder}", file=sys.stderr)
            continue
        try:
            new = [*measure_collection(folder, embedder, arguments.queries, seen=seen)]
        except (SecondPassError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        records = [one for one in records if one["collection"] != folder.name] + new
        results.parent.mkdir(exist_ok=True)
        results.write_text(json.dumps(records))
    # By collection as in SETS, so that measuring one again does not move it.
    order = {name: index for index, name in enumerate(SETS)}
    records.sort(key=lambda one: order.get(one["collection"], len(order)))
    if not records:
        if arguments.reuse:
            print(f"No measurements in {results}; without --reuse, they are made.")
        else:
            print(no_collections(arguments.data))
        return 0
    print(quality_report.markdown(records))
    if arguments.docs:
        quality_report.write_docs(records, ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
