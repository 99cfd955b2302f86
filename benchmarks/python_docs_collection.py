"""Writes Python's documentation and its judged questions as a collection for the other scripts.

    python benchmarks/python_docs_collection.py build/python-docs
    python benchmarks/quality_plot.py --sets --unseen build/python-docs

The passages are those of ``examples/python_docs.py``, from the installed Python; the 58 questions
and their judgements those of ``examples/data``. The judgements name whole texts (``topic:with``),
of which a ranking counts the best passage (``topic:with#2``).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from secondpass_evaluation import read_qrels, read_queries

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def write(folder: Path) -> int:
    """Write corpus.jsonl, queries.jsonl and qrels.tsv; returns the number of passages."""
    sys.path.insert(0, str(EXAMPLES))
    import python_docs  # type: ignore[import-not-found, unused-ignore]

    folder.mkdir(parents=True, exist_ok=True)
    corpus = [
        {"id": passage.id, "title": passage.title, "text": passage.text}
        for passage in python_docs.passages()
    ]
    questions = read_queries(EXAMPLES / "data" / "python-docs.queries.tsv")
    queries = [{"id": query, "text": text} for query, text in questions.items()]
    for name, records in {"corpus": corpus, "queries": queries}.items():
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    qrels = read_qrels(EXAMPLES / "data" / "python-docs.qrels")
    rows = [
        f"{query}\t{name}\t{grade}\n"
        for query, grades in qrels.items()
        for name, grade in grades.items()
    ]
    header = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels.tsv").write_text(header + "".join(rows), encoding="utf-8")
    return len(corpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where to write the collection")
    folder = parser.parse_args().folder
    print(f"{write(folder)} passages in {folder}")


if __name__ == "__main__":
    main()
