"""A local knowledge base: index a folder, query it (as JSON), evaluate.

    pip install -e ".[embedded,evaluation]"
    python examples/local_rag index
    python examples/local_rag query "What does it cost?" --mode hybrid+rerank --preset embedded

README.md has the modes, and how to evaluate.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

# `python examples/local_rag` finds the modules beside that folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import missing_package  # noqa: F401 - says what to install
from local_rag.rag import PAGES, QUESTIONS, configuration, evaluate, make_index, query

from secondpass import InputError, Reranker, SecondPassError
from secondpass_evaluation import Index, open_index

MODES = ["vector", "lexical", "hybrid", "hybrid+rerank"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        {"index": _index, "query": _query, "evaluate": _evaluate}[options.command](options)
    except (SecondPassError, OSError) as error:
        print(f"local_rag: {error}", file=sys.stderr)
        return 1
    return 0


def _index(options: argparse.Namespace) -> None:
    index = make_index(options.pages, options.index)
    print(f"{options.index}: {len(index.corpus)} passages")


def _opened(folder: Path) -> Index:
    if not folder.exists():
        raise InputError(f"there is no index {folder}; create it with `python -m local_rag index`")
    return open_index(folder)


def _query(options: argparse.Namespace) -> None:
    mode, _, rerank = options.mode.partition("+")
    reranker = None
    if rerank:
        preset = options.preset or "cross_encoder_hybrid"
        reranker = Reranker.from_config(
            configuration(preset, options.rerank_model, options.rerank_top_n)
        )
    index = _opened(options.index)
    answer = query(index, options.question, mode, reranker, k=options.k, rrf_k=options.rrf_k)
    print(json.dumps(answer, indent=2))


def _evaluate(options: argparse.Namespace) -> None:
    reranker = None
    if options.preset or options.rerank_model:
        preset = options.preset or "cross_encoder_hybrid"
        reranker = configuration(preset, options.rerank_model, options.rerank_top_n)
    comparison = evaluate(_opened(options.index), options.questions, reranker)
    if options.out is not None:
        comparison.write(options.out)
    for result in comparison.results:
        if result.evaluation is None:
            print(f"{result.name:14}  {result.status}: {result.reason}")
        else:
            print(f"{result.name:14}  {result.evaluation.mean['nDCG@10']:.2f}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="local_rag", description="A local knowledge base.")
    commands = parser.add_subparsers(dest="command", required=True)
    index = commands.add_parser("index", help="index a folder of pages")
    index.add_argument("--pages", type=Path, default=PAGES, help="folder of pages")
    ask = commands.add_parser("query", help="search the index")
    ask.add_argument("question")
    ask.add_argument("--mode", choices=MODES, default="hybrid", help="default: hybrid")
    ask.add_argument("--k", type=int, default=8, help="number of results")
    ask.add_argument("--rrf-k", type=float, default=60, help="constant of reciprocal rank fusion")
    measure = commands.add_parser("evaluate", help="measure all modes on questions")
    measure.add_argument(
        "--questions", type=Path, default=QUESTIONS, help="file of judged questions"
    )
    measure.add_argument("--out", type=Path, help="folder to write a report to")
    for command in (ask, measure):
        command.add_argument("--preset", help="preset of the reranker")
        command.add_argument("--rerank-model", help="another cross-encoder")
        command.add_argument("--rerank-top-n", type=int, default=50, help="passages to rerank")
    for command in (index, ask, measure):
        command.add_argument(
            "--index", type=Path, default=Path("kb.index"), help="folder of the index"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
