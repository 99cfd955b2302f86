"""Search Python's own documentation, and rerank the results.

Searches the installed documentation for a learner's questions by vectors, by words and by both,
reranks the results of each, measures all six against judgements, and runs the same reranking in a
Haystack pipeline and a LlamaIndex query engine. ``make demo`` installs what it needs, and runs it.
In an environment of your own, in the root of the repository::

    pip install -e ".[embedded,evaluation,cli]"
    pip install -e . -e ./integrations/haystack -e ./integrations/llama_index
    python examples/demo.py                  30 of the questions, 20 candidates each
    python examples/demo.py --all            all of them
    python examples/demo.py "your question"  search for your own question
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import missing_package  # noqa: F401 - says what to install
import numpy as np
import python_docs
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from secondpass import Candidate, Ranking, Report, Reranker
from secondpass.cli.tables import FittedTable
from secondpass.extend import MODEL_NAME, MiniLM, atomic_write
from secondpass.settings import counted
from secondpass_evaluation import (
    Difference,
    Evaluation,
    HybridRetriever,
    Mode,
    difference,
    evaluate,
    ranking_to_run,
    read_qrels,
    read_queries,
)

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
CONFIG = HERE / "demo.yaml"
MEASURES = ("nDCG@10", "RR(rel=2)@10", "R(rel=2)@10")
SAMPLE_SIZE = 30
DEPTH = 20
"""Behind vectors, these keep most of the gain."""
MODES: tuple[Mode, ...] = ("vector", "lexical", "hybrid")
CHOSEN_SEARCH: Mode = "vector"
"""The first stage where only one is shown.

It was not chosen by these figures: most questions were written to avoid the words of their answers
(data/README.md), so BM25 is weak here, and weakens the hybrid search.
"""
REASON = (
    "The second pass is judged after vector search, because most of these questions avoid the "
    "words of their answers, which BM25 needs; after vector search, 20 candidates keep most of the "
    "gain (docs/evidence.md)."
)


NEXT = """
What to type next:

  . .venv/bin/activate
  python examples/demo.py "your question"      rerank for your own question
  secondpass example try                       write documents and questions
  secondpass eval try/suite --preset embedded  measure a second pass on them
  secondpass --help                            list all commands

docs/start.md ranks a first list in Python; docs/tutorial.md builds a search."""
"""The last lines of the demo."""


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
    """Measure per documented name: the best-ranked part of a text counts."""
    keyed = {
        query: [Candidate("", id=python_docs.key(str(item.id))) for item in items]
        for query, items in lists.items()
    }
    return evaluate(ranking_to_run(keyed), qrels, MEASURES)


def changes(after: Evaluation, before: Evaluation) -> dict[str, float]:
    """Differences by the first measure, by question."""
    old, new = before.per_query[MEASURES[0]], after.per_query[MEASURES[0]]
    return {query: new[query] - value for query, value in old.items()}


def chosen_by_rule(changed: Mapping[str, float]) -> dict[str, str]:
    """Questions to show: the largest gain, the median, and the largest loss; ties by question."""
    ordered = sorted(changed, key=lambda query: -changed[query])
    best, worst = ordered[0], ordered[-1]
    return {
        best: "the largest gain" if changed[best] > 0 else "no question gains",
        ordered[len(ordered) // 2]: "the median",
        worst: "the largest loss" if changed[worst] < 0 else "no question loses",
    }


def show_question(
    console: Console,
    question: str,
    before: Sequence[Candidate],
    after: Ranking,
    grades: Mapping[str, int],
    why: str = "",
) -> None:
    """Show the first five results before and after, with their grades if they are judged."""
    if why:
        console.print(Text(why, style="bold"))
    table = Table(title=f"“{question}”", title_justify="left", show_edge=False, expand=True)
    table.add_column("", justify="right", width=1)
    table.add_column(f"{CHOSEN_SEARCH} search", ratio=1, overflow="fold")
    table.add_column("with the second pass", ratio=1, overflow="fold")
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


def graded(passage: str, grades: Mapping[str, int]) -> Text:
    """A passage's name with as many stars as its grade."""
    grade = grades.get(python_docs.key(passage), 0)
    style = {3: "bold green", 2: "green", 1: "yellow"}.get(grade, "dim")
    return Text(f"{passage} {'*' * grade}".rstrip(), style=style)


def show_figures(
    console: Console, results: Mapping[str, Evaluation], compared: Mapping[str, Difference]
) -> None:
    """Show one row per system; the best value of each column is highlighted."""
    count = len(next(iter(results.values())).per_query[MEASURES[0]])
    table = FittedTable()
    table.add_column("system")
    for measure in MEASURES:
        # The parameter of RR(rel=2)@10 last, so that it can stand in a line of its own.
        table.add_column(re.sub(r"(\(.*\))(.*)", r"\2 \1", measure), number=True)
    table.add_column("gain in nDCG@10 (95 % interval)", number=True)
    table.add_column("better /worse", number=True)
    best = {name: max(result.mean[name] for result in results.values()) for name in MEASURES}
    for system, result in results.items():
        means = {name: result.mean[name] for name in MEASURES}
        cells = [
            Text(f"{mean:.3f}", style="bold" if mean == best[name] else "")
            for name, mean in means.items()
        ]
        gain = compared.get(system)
        table.add_row(
            system,
            *cells,
            gain_text(gain) if gain else "",
            f"{gain.wins}/{gain.losses}" if gain else "",
        )
    console.print(Text(f"Measured on {count} questions\n", style="italic"))
    console.print(table)


def gain_text(gain: Difference) -> str:
    """The difference with its interval, if it has one."""
    ends = "" if gain.low is None else f" ({gain.low:+.3f} to {gain.high:+.3f})"
    return f"{gain.mean:+.3f}{ends}"


def verdict(results: Mapping[str, Evaluation], compared: Mapping[str, Difference]) -> str:
    """The effect of the second pass after the chosen search, and the best system."""
    measure, gain = MEASURES[0], compared[f"{CHOSEN_SEARCH}+rerank"]
    best = max(results, key=lambda system: results[system].mean[measure])
    equal = gain.queries - gain.wins - gain.losses
    if gain.low is not None and gain.low > 0:
        effect = "improves the ranking"
    elif gain.high is not None and gain.high < 0:
        effect = "makes the ranking worse"
    else:
        effect = "makes no significant difference"
    return (
        f"After {CHOSEN_SEARCH} search the second pass {effect}: {measure} {gain_text(gain)}; "
        f"{gain.wins} questions better, {gain.losses} worse, {equal} unchanged. "
        f"The best of the six here is {best}, {results[best].mean[measure]:.3f}."
    )


def check(ranking: Ranking) -> None:
    """Exit if a ranking is not complete: the figures would not be those of the second pass."""
    if ranking.report.status != "ok":
        issues = "; ".join(issue.message for issue in ranking.report.issues)
        raise SystemExit(f"A ranking is {ranking.report.status}: {issues}")


def main() -> None:
    """Search, rerank, measure, and compare Python, Haystack and LlamaIndex."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument(
        "question", nargs="?", help="search for this instead of the demo's questions"
    )
    parser.add_argument("--all", action="store_true", help="measure all questions, not 30")
    parser.add_argument("--depth", type=int, default=DEPTH, help="candidates to rerank")
    parser.add_argument("--prepare", action="store_true", help="encode the passages and stop")
    arguments = parser.parse_args()
    if arguments.depth < 1:
        parser.error("--depth: must be 1 or more")
    if arguments.question is not None and not arguments.question.strip():
        parser.error("question: must not be empty")
    if arguments.question and arguments.all:
        parser.error("--all measures the demo's questions; it cannot be combined with a question")
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
    # The issues are shown with the report, not logged in between.
    reranker = Reranker.from_config(CONFIG).changed(log_level="debug")
    if arguments.question:
        candidates = retriever.retrieve(arguments.question, arguments.depth, CHOSEN_SEARCH)
        ranking = reranker.rerank(arguments.question, candidates, depth=arguments.depth)
        check(ranking)
        show_question(console, arguments.question, candidates, ranking, {})
        return

    questions = read_queries(HERE / "data" / "python-docs.queries.tsv")
    if not arguments.all:
        # Spread over the file, so that no kind of question is left out.
        every = [*questions]
        chosen = [every[number * len(every) // SAMPLE_SIZE] for number in range(SAMPLE_SIZE)]
        questions = {query: questions[query] for query in chosen}
    qrels = read_qrels(HERE / "data" / "python-docs.qrels")
    qrels = {query: qrels[query] for query in questions}

    results: dict[str, Evaluation] = {}
    compared: dict[str, Difference] = {}
    retrieved: dict[Mode, dict[str, list[Candidate]]] = {}
    rankings: dict[Mode, dict[str, Ranking]] = {}
    reranker.warm_up()
    for mode in MODES:
        with console.status(f"{len(questions)} questions: {mode} search and the second pass …"):
            retrieved[mode] = {
                query: retriever.retrieve(text, arguments.depth, mode)
                for query, text in questions.items()
            }
            requests = [(questions[query], retrieved[mode][query]) for query in questions]
            ranked = reranker.rerank_many(requests, depth=arguments.depth)
        for ranking in ranked:
            check(ranking)
        rankings[mode] = dict(zip(questions, ranked, strict=True))
        old, new = measured(retrieved[mode], qrels), measured(rankings[mode], qrels)
        results |= {mode: old, f"{mode}+rerank": new}
        values = new.per_query[MEASURES[0]], old.per_query[MEASURES[0]]
        compared[f"{mode}+rerank"] = difference(MEASURES[0], *values, test="t")

    changed = changes(results[f"{CHOSEN_SEARCH}+rerank"], results[CHOSEN_SEARCH])
    shown = chosen_by_rule(changed)
    console.print(
        f"Three of {len(questions)} questions, chosen by what the second pass does to their "
        f"{MEASURES[0]}:\n"
    )
    for query, rule in shown.items():
        value = results[CHOSEN_SEARCH].per_query[MEASURES[0]][query]
        why = f"{rule[0].upper()}{rule[1:]}: {value:.3f} to {value + changed[query]:.3f}"
        before, after = retrieved[CHOSEN_SEARCH][query], rankings[CHOSEN_SEARCH][query]
        show_question(console, questions[query], before, after, qrels[query], why)
    console.print(Text("*** answers fully, ** in part, * is related\n", style="dim"))
    show_figures(console, results, compared)
    console.print(f"\n{REASON} {verdict(results, compared)}")

    same_everywhere(console, questions[next(iter(shown))], retriever, reranker)
    console.print(NEXT, markup=False, highlight=False)


def report_text(report: Report) -> str:
    """The report in words, with its issues."""
    text = (
        f"Report: status {report.status}, method {report.method}, "
        f"{counted(report.usage.pairs, 'pair')}, {counted(len(report.issues), 'issue')}"
    )
    issues = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
    return f"{text}{f' ({issues})' if issues else ''}."


def same_everywhere(
    console: Console, question: str, retriever: HybridRetriever, reranker: Reranker
) -> None:
    """The same hybrid search and configuration in both frameworks; exits if orders differ."""
    import frameworks

    ranking = reranker.rerank(question, retriever.retrieve(question, DEPTH))
    report = ranking.report
    console.print(
        "\nThe first of these questions again, with hybrid search, in Python and two frameworks. "
        f"{report_text(report)}\n",
        highlight=False,
    )
    orders = {
        "Python": [item.id for item in ranking],
        "Haystack pipeline from YAML": frameworks.haystack_order(question, retriever, DEPTH),
        "LlamaIndex query engine": frameworks.llama_index_order(question, retriever, DEPTH),
    }
    first = orders["Python"]
    for name, order in orders.items():
        console.print(f"{name}: {', '.join(map(str, order[:3]))}, …")
        if order != first:
            console.print(f"[red]{name} returns another order[/red]")
            raise SystemExit(1)
    console.print(f"The same order of {len(first)} candidates in all three.")


if __name__ == "__main__":
    main()
