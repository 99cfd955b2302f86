"""Measures how reranking changes nDCG@10, with wins and losses, on every collection.

    python benchmarks/quality.py --preset lexical
    python benchmarks/quality.py --config my.yaml --sets cranfield vaswani --depth 100

Prints a Markdown table: one line per collection, first stage and reranker; below it, how many
tokens the candidates have. A collection is a
folder with corpus.jsonl, queries.jsonl and qrels.tsv. Its first stages are candidates.jsonl and
candidates-contriever.jsonl (``query_id`` and ``candidates``: ``id``, ``text``, ``score``, best
first) where it has them, else the best 100 of BM25 over the corpus, by bm25s. A passage is title
and text together, as in BEIR, for the first stage and the reranker alike. Missing collections are
listed; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from secondpass import Candidate, Reranker, SecondPassError
from secondpass.config import resolve
from secondpass.extend import MiniLM
from secondpass_evaluation import (
    Evaluation,
    HybridRetriever,
    Qrels,
    evaluate,
    ranking_to_run,
    read_corpus,
    read_qrels,
    read_queries,
)

SETS = ("trec-dl19", "cranfield", "vaswani", "xquad-en", "xquad-de")
FIRST_STAGES = {"candidates.jsonl": "BM25", "candidates-contriever.jsonl": "Contriever"}
LANGUAGES = {"xquad-de": "german"}
MEASURE = "nDCG@10"
RETRIEVED = 100
LENGTHS_OF = 40
"""Queries whose candidates' tokens are counted."""
TIE = 1e-9
"""Differences below this are ties: larger than rounding errors, smaller than changes of ranks."""

HEADER = (
    f"| collection | first stage | {MEASURE} | reranker | {MEASURE} | difference "
    "| won / tied / lost | seconds per query |\n"
    "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |"
)


@dataclass(frozen=True)
class FirstStage:
    """The candidates of every query that has judgements, best first."""

    collection: str
    name: str
    queries: dict[str, str]
    qrels: Qrels
    candidates: dict[str, list[Candidate]]

    def evaluation(self) -> Evaluation:
        return evaluate(ranking_to_run(self.candidates), self.qrels, [MEASURE])


def first_stages(folder: Path, stemmed: bool) -> Iterator[FirstStage]:
    judged = read_qrels(folder / "qrels.tsv")
    queries = {
        query: text
        for query, text in read_queries(folder / "queries.jsonl").items()
        if query in judged
    }
    qrels = {query: judged[query] for query in queries}
    ready = [name for name in FIRST_STAGES if (folder / name).is_file()]
    for name in ready:
        found = read_candidates(folder / name)
        candidates = {query: found.get(query, []) for query in queries}
        yield FirstStage(folder.name, FIRST_STAGES[name], queries, qrels, candidates)
    if not ready:
        corpus = [with_title(passage) for passage in read_corpus(folder / "corpus.jsonl")]
        stem = stemmer(LANGUAGES.get(folder.name, "english")) if stemmed else None
        retriever = HybridRetriever(corpus, stem=stem)
        candidates = {
            query: retriever.retrieve(text, RETRIEVED, "lexical") for query, text in queries.items()
        }
        name = "BM25, stemmed" if stemmed else "BM25"
        yield FirstStage(folder.name, name, queries, qrels, candidates)


def read_candidates(path: Path) -> dict[str, list[Candidate]]:
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        found[str(record["query_id"])] = [
            Candidate(one["text"], str(one["id"]), one.get("score")) for one in record["candidates"]
        ]
    return found


def with_title(passage: Candidate) -> Candidate:
    title = passage.metadata.get("title")
    text = f"{title}\n{passage.text}" if title else passage.text
    return Candidate(text, passage.id, passage.score)


def stemmer(language: str) -> Callable[[list[str]], list[str]]:
    try:
        import Stemmer  # type: ignore[import-not-found, unused-ignore]  # PyStemmer
    except ImportError:
        sys.exit("BM25 over stems needs PyStemmer: pip install PyStemmer")
    stem: Callable[[list[str]], list[str]] = Stemmer.Stemmer(language).stemWords
    return stem


def measure(
    stage: FirstStage, before: Evaluation, name: str, reranker: Reranker, depth: int
) -> tuple[str, list[str]]:
    """One line of the table, and its notes."""
    rankings = {}
    began = time.perf_counter()
    for query, text in stage.queries.items():
        rankings[query] = reranker.rerank(text, stage.candidates[query], depth=depth)
    seconds = (time.perf_counter() - began) / len(stage.queries)
    after = evaluate(ranking_to_run(rankings), stage.qrels, [MEASURE])
    old, new = before.mean[MEASURE], after.mean[MEASURE]
    values = after.per_query[MEASURE]
    changes = [values[query] - value for query, value in before.per_query[MEASURE].items()]
    won = sum(change > TIE for change in changes)
    lost = sum(change < -TIE for change in changes)
    line = (
        f"| {stage.collection} | {stage.name} | {old:.4f} | {name} | {new:.4f} "
        f"| {new - old:+.4f} | {won} / {len(changes) - won - lost} / {lost} | {seconds:.4f} |"
    )
    # Note fallbacks and unchanged orders, whose figures are not those of the named method.
    not_ok = Counter(
        f"{report.status} by {report.method or 'the first stage'}"
        for report in (ranking.report for ranking in rankings.values())
        if report.status != "ok"
    )
    notes = [
        f"{name} on {stage.collection} ({stage.name}): {count} of {len(rankings)} rankings {what}"
        for what, count in not_ok.items()
    ]
    return line, notes


def tokens_note(stage: FirstStage) -> str:
    """How long the candidates are, for the tokenizer of `embedded`: times depend on it."""
    encoder = MiniLM()
    lists = [*stage.candidates.values()][:LENGTHS_OF]
    texts = {str(candidate.text) for found in lists for candidate in found}
    mean = sum(len(encoder.tokenize(text)[0]) for text in texts) / max(len(texts), 1)
    return f"candidates of {stage.collection} ({stage.name}): {mean:.0f} tokens on average"


def rerankers(presets: list[str], configs: list[str]) -> dict[str, Reranker]:
    named = {name: Reranker.from_preset(name) for name in presets}
    named.update({path: resolve(Path(path)) for path in configs})
    return named


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add ``--data``: the folder of the collections."""
    folder = Path(__file__).resolve().parents[1] / "../shared/data"
    parser.add_argument("--data", type=Path, default=folder, help="folder of collections")


NO_COLLECTIONS = (
    "No collections in {}. A collection is a folder in BEIR's format (corpus.jsonl, queries.jsonl, "
    "qrels.tsv); docs/evidence.md says where to get each one. --data names another folder."
)


def no_collections(data: Path) -> str:
    """What is said if a folder has no collection."""
    return NO_COLLECTIONS.format(data.resolve())


def present(data: Path, names: Sequence[str]) -> list[Path]:
    """The folders of these collections; prints which are missing, and ends if all are."""
    folders = [data / name for name in names if (data / name / "qrels.tsv").is_file()]
    absent = [name for name in names if data / name not in folders]
    if not folders:
        print(no_collections(data))
        sys.exit(0)
    if absent:
        print(f"Skipped, no such folder in {data}: {', '.join(absent)}\n")
    return folders


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_data(parser)
    parser.add_argument(
        "--preset", nargs="+", default=[], help="presets of rerankers; default: lexical"
    )
    parser.add_argument("--config", nargs="+", default=[], help="YAML files of rerankers")
    parser.add_argument("--depth", type=int, default=50, help="candidates to rerank")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of folders in DATA")
    parser.add_argument("--stem", action="store_true", help="BM25 over stems; needs PyStemmer")
    arguments = parser.parse_args()

    folders = present(arguments.data, arguments.sets)
    try:
        presets = arguments.preset or ([] if arguments.config else ["lexical"])
        chosen = rerankers(presets, arguments.config)
        for reranker in chosen.values():
            reranker.warm_up()
    except (SecondPassError, OSError) as error:
        print(error, file=sys.stderr)
        return 1

    print(f"The first {arguments.depth} candidates of {RETRIEVED} are reranked.\n\n{HEADER}")
    notes: list[str] = []
    for folder in folders:
        for stage in first_stages(folder, arguments.stem):
            before = stage.evaluation()
            notes.append(tokens_note(stage))
            for name, reranker in chosen.items():
                line, new_notes = measure(stage, before, name, reranker, arguments.depth)
                print(line, flush=True)
                notes += new_notes
    print("".join(f"\n- {note}" for note in notes), end="\n" if notes else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
