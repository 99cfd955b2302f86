"""Rerank a hybrid search over Python's own documentation.

Searches the installed documentation for a learner's questions, reranks the results, measures
everything against judgements, and runs the same reranking in a Haystack pipeline and a LlamaIndex
query engine.

    python examples/demo.py                  30 of the questions, 15 candidates each
    python examples/demo.py --all            all of them
    python examples/demo.py "your question"  search for your own question
"""

from __future__ import annotations

import argparse
import hashlib
import io
import logging
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import python_docs
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from secondpass import Candidate, Ranking, Reranker
from secondpass.evaluation import (
    Evaluation,
    HybridRetriever,
    Mode,
    evaluate,
    ranking_to_run,
    read_qrels,
    read_queries,
)
from secondpass.formats.files import atomic_write
from secondpass.scorers.minilm import MODEL_NAME, MiniLM

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
CONFIG = HERE / "demo.yaml"
MEASURES = ("nDCG@10", "RR(rel=2)@10", "R(rel=2)@10")
SHOWN = ("q16", "q57", "q08")
"""Two that gain and one that loses."""
SOME = 30
MODES: tuple[Mode, ...] = ("vector", "lexical", "hybrid")


class CachedEmbedder:
    """The embedded model; vectors of the corpus are cached in a file.

    Args:
        console: shows progress while the corpus is encoded.
    """

    def __init__(self, console: Console) -> None:
        # 128 tokens are what the model was trained on, and half the work of 512.
        self.model = MiniLM(max_tokens=128)
        self.console = console

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (texts, 384)."""
        if len(texts) < 1000:  # a query
            return self.model.embed(texts)
        digest = hashlib.sha256("\0".join([MODEL_NAME, "128", *texts]).encode()).hexdigest()
        path = BUILD / f"vectors-{digest[:16]}.npy"
        if path.exists():
            vectors: NDArray[np.float32] = np.load(path)
            return vectors
        blocks = []
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task("Encoding the passages, once", total=len(texts))
            for start in range(0, len(texts), 64):
                blocks.append(self.model.embed(texts[start : start + 64]))
                progress.advance(task, len(blocks[-1]))
        vectors = np.concatenate(blocks)
        BUILD.mkdir(exist_ok=True)
        with atomic_write(path) as file:
            np.save(file, vectors)
        return vectors


def corpus() -> list[Candidate]:
    """The passages as candidates."""
    return [
        Candidate(passage.text, id=passage.id, metadata={"title": passage.title})
        for passage in python_docs.passages()
    ]


def measured(
    lists: Mapping[str, Sequence[Candidate] | Ranking], qrels: Mapping[str, Mapping[str, int]]
) -> Evaluation:
    """Measure per documented name: of the parts of a text, the best ranked one counts."""
    keyed = {
        query: [Candidate("", id=python_docs.key(str(item.id))) for item in items]
        for query, items in lists.items()
    }
    return evaluate(ranking_to_run(keyed), qrels, MEASURES)


def show_question(
    console: Console,
    question: str,
    before: Sequence[Candidate],
    after: Ranking,
    grades: Mapping[str, int],
) -> None:
    """Show the first five results before and after, with their grades if they are judged."""
    table = Table(title=f"“{question}”", title_justify="left", show_edge=False, expand=True)
    table.add_column("", justify="right", width=1)
    table.add_column("hybrid search", ratio=1, no_wrap=True)
    table.add_column("with the second pass", ratio=1, no_wrap=True)
    table.add_column("was", justify="right", width=3)
    for index, (old, new) in enumerate(zip(before[:5], after.items[:5], strict=False)):
        table.add_row(
            str(index + 1),
            graded(str(old.id), grades),
            graded(str(new.id), grades),
            str(new.position + 1),
        )
    console.print(table)
    console.print()


def draw(
    path: Path,
    shown: Sequence[tuple[str, Sequence[Candidate], Ranking, Mapping[str, int]]],
) -> None:
    """Draw the questions as an SVG."""
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    for one in shown:
        show_question(console, *one)
    svg = console.export_svg(title="before and after the second pass")
    # It would fetch a font from elsewhere; any monospaced one will do.
    path.write_text(re.sub(r"@font-face\s*{[^}]*}\s*", "", svg), encoding="utf-8")


def graded(passage: str, grades: Mapping[str, int]) -> Text:
    """A passage's name with as many stars as its grade."""
    grade = grades.get(python_docs.key(passage), 0)
    style = {3: "bold green", 2: "green", 1: "yellow"}.get(grade, "dim")
    return Text(f"{passage} {'*' * grade}".rstrip(), style=style)


def show_figures(
    console: Console, results: Mapping[str, tuple[Evaluation, float]], questions: int
) -> None:
    """Show one row per mode; the best value of each column is highlighted."""
    table = Table(title=f"Measured on {questions} questions", title_justify="left")
    table.add_column("mode")
    for measure in MEASURES:
        table.add_column(measure, justify="right")
    table.add_column("ms a question", justify="right")
    best = {name: max(one.mean[name] for one, _ in results.values()) for name in MEASURES}
    for mode, (one, seconds) in results.items():
        cells = [
            Text(f"{one.mean[name]:.3f}", style="bold" if one.mean[name] == best[name] else "")
            for name in MEASURES
        ]
        table.add_row(mode, *cells, f"{seconds / questions * 1000:.0f}")
    console.print(table)
    delta = {
        query: results["hybrid+rerank"][0].per_query["nDCG@10"][query] - value
        for query, value in results["hybrid"][0].per_query["nDCG@10"].items()
    }
    better = sum(value > 1e-9 for value in delta.values())
    worse = sum(value < -1e-9 for value in delta.values())
    console.print(
        f"The second pass makes {better} questions better, {worse} worse, and leaves "
        f"{len(delta) - better - worse} as they are (nDCG@10 against hybrid)."
    )


def main() -> None:
    """Search, rerank, measure, and compare the three ways in."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("question", nargs="?", help="search for this instead of the questions")
    parser.add_argument("--all", action="store_true", help="measure all of the questions")
    parser.add_argument("--depth", type=int, default=15, help="candidates to rerank (15)")
    parser.add_argument("--picture", type=Path, help="draw the shown questions as SVG and stop")
    parser.add_argument("--prepare", action="store_true", help="encode the passages and stop")
    arguments = parser.parse_args()
    if arguments.depth < 1:
        parser.error("--depth: must be 1 or more")
    console = Console()
    logging.basicConfig(level=logging.WARNING)

    started = time.perf_counter()
    retriever = HybridRetriever(corpus(), CachedEmbedder(console))
    if arguments.prepare:
        return
    console.print(
        f"{len(retriever.corpus)} passages of Python {sys.version.split()[0]}'s documentation, "
        f"ready in {time.perf_counter() - started:.1f} s\n"
    )
    reranker = Reranker.from_config(CONFIG)
    if arguments.question:
        candidates = retriever.retrieve(arguments.question, arguments.depth)
        ranking = reranker.rerank(arguments.question, candidates)
        show_question(console, arguments.question, candidates, ranking, {})
        return

    questions = read_queries(HERE / "data" / "python-docs.queries.tsv")
    if not arguments.all:
        # Spread over the file, so that no kind of question is left out.
        every = [*questions]
        chosen = [every[number * len(every) // SOME] for number in range(SOME)]
        questions = {query: questions[query] for query in chosen}
    qrels = read_qrels(HERE / "data" / "python-docs.qrels")
    qrels = {query: qrels[query] for query in questions}

    results: dict[str, tuple[Evaluation, float]] = {}
    candidates = {}
    for mode in MODES:
        started = time.perf_counter()
        candidates[mode] = {
            query: retriever.retrieve(text, arguments.depth, mode)
            for query, text in questions.items()
        }
        results[mode] = (measured(candidates[mode], qrels), time.perf_counter() - started)
    reranker.warm_up()
    started = time.perf_counter()
    rankings = dict(
        zip(
            questions,
            reranker.rerank_many((questions[q], candidates["hybrid"][q]) for q in questions),
            strict=True,
        )
    )
    seconds = time.perf_counter() - started
    results["hybrid+rerank"] = (
        measured(rankings, qrels),
        seconds + results["hybrid"][1],
    )

    shown = [query for query in SHOWN if query in questions] or [*questions][:3]
    for query in shown:
        show_question(
            console, questions[query], candidates["hybrid"][query], rankings[query], qrels[query]
        )
    if arguments.picture:
        draw(
            arguments.picture,
            [
                (questions[query], candidates["hybrid"][query], rankings[query], qrels[query])
                for query in shown
            ],
        )
        return
    console.print(Text("*** answers fully, ** in part, * is related\n", style="dim"))
    show_figures(console, results, len(questions))

    report = rankings[shown[0]].report
    console.print(
        f"\nOne report: status {report.status}, method {report.method}, "
        f"{report.usage.pairs} pairs, {len(report.issues)} issues\n"
    )
    same_everywhere(console, rankings[shown[0]], retriever, arguments.depth)


def same_everywhere(
    console: Console, ranking: Ranking, retriever: HybridRetriever, depth: int
) -> None:
    """The same candidates and configuration through both frameworks; stops if orders differ."""
    import frameworks

    orders = {
        "Python": [item.id for item in ranking],
        "Haystack pipeline from YAML": frameworks.haystack_order(ranking.query, retriever, depth),
        "LlamaIndex query engine": frameworks.llama_index_order(ranking.query, retriever, depth),
    }
    first = orders["Python"]
    for name, order in orders.items():
        console.print(f"{name}: {', '.join(str(one) for one in order[:3])}, …")
        if order != first:
            console.print(f"[red]{name} gives another order[/red]")
            raise SystemExit(1)
    console.print(f"The same order of {len(first)} candidates in all three.")


if __name__ == "__main__":
    main()
