"""``secondpass query``: search, and rerank the results."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.text import Text

from secondpass import Candidate, Ranking, Report, Request, Reranker
from secondpass.cli.console import (
    ERROR,
    check_usage,
    decode_argument,
    excerpt,
    fail,
    info,
    on_terminal,
    one_line,
    print_json,
    print_text,
    result_console,
    warn,
)
from secondpass.cli.dry_run import estimated, print_estimate
from secondpass.cli.options import (
    AsJson,
    DryRun,
    Explain,
    Instruction,
    Order,
    RerankerOptions,
    grouped,
    load_for,
    parse_order,
    with_depth,
)
from secondpass.cli.progress import progress_bars
from secondpass.cli.rankings import (
    EXPLANATION_INDENT,
    ResultFormat,
    chosen_format,
    explained,
    notes_below,
    report_unexplained,
)
from secondpass.cli.tables import FittedTable
from secondpass.cli.warming import WarmUp
from secondpass.formats.requests import ranked_record
from secondpass.ranking.explanations import Explanation
from secondpass.ranking.judgements import INSTRUCTION_NOT_USED
from secondpass.settings.loading import has_store
from secondpass.types import DEGRADED_WORDS, Progress, Ranked
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.first_stages import open_for_search, warn_of_skipped
from secondpass_evaluation.cli.suite_options import PassageSize, RerankTopN, StaleOk
from secondpass_evaluation.search.documents import read_source
from secondpass_evaluation.search.embedders import MODELS, CorpusEmbedder, EmbeddedEmbedder
from secondpass_evaluation.search.index import Index, index_model, model_of
from secondpass_evaluation.search.index_files import rebuild_command
from secondpass_evaluation.search.passages import PASSAGE_SIZE
from secondpass_evaluation.search.retrieval import HybridRetriever, Mode
from secondpass_evaluation.search.selection import is_index
from secondpass_evaluation.search.stored import STORE
from secondpass_evaluation.texts import leading_headings

Searchable: TypeAlias = HybridRetriever | Index

_TOP_K = 8
"""Results to print if neither the option nor the configuration says."""

_MIN_LIST_DEPTH = 100
"""Fewest candidates of each list to fuse."""


@grouped
def query(
    *,
    argument: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", callback=decode_argument, help="The search query."),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            "--question", "-q", callback=decode_argument, help="The search query, as an option."
        ),
    ] = None,
    corpus: Annotated[
        Path,
        typer.Option(
            help="What to search: an index (see `secondpass index`), a folder of documents, or "
            "a corpus.jsonl. Without an index, documents are indexed in memory, each time."
        ),
    ],
    hybrid: Annotated[
        bool,
        typer.Option(
            "--hybrid", help="Search by vectors and by words, and merge both results. The default."
        ),
    ] = False,
    vector: Annotated[bool, typer.Option("--vector", help="Search by vectors alone.")] = False,
    lexical: Annotated[
        bool, typer.Option("--lexical", help="Search by words alone (BM25).")
    ] = False,
    rerank: Annotated[bool, typer.Option("--rerank", help="Rerank the results.")] = False,
    rerank_top_n: RerankTopN = None,
    rerank_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the reranker's model, instead of the configured one."
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k",
            "-k",
            min=1,
            help="Number of results. Default: with `--rerank` the configuration's `top_k`; 8 if "
            "it has none.",
        ),
    ] = None,
    rrf_k: Annotated[
        float,
        typer.Option(
            min=0,
            help="Constant k of the merging (reciprocal rank fusion): with a larger one, the "
            "first ranks count less.",
        ),
    ] = 60,
    device: Annotated[
        str | None, typer.Option(help="Device that the reranker's model runs on: cpu, cuda, ….")
    ] = None,
    order: Order = None,
    instruction: Instruction = None,
    explain: Explain = None,
    configured: RerankerOptions,
    passage_size: PassageSize = PASSAGE_SIZE,
    stale_ok: StaleOk = False,
    dry_run: DryRun = False,
    form: Annotated[
        ResultFormat | None,
        typer.Option(
            "--format", "-f", help="Output format. Default: table on a terminal, json in a pipe."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search documents, and rerank the results.

    For example: `secondpass query "How do I cancel?" --corpus docs/ --rerank --preset embedded`

    On a terminal, the results are a table. In a pipe, and with `--json` or `--format json`, they
    are JSON. There, `mode` is `vector`, `lexical` or `hybrid`, with `+rerank` appended if the
    results were reranked.
    """
    check_installed("secondpass query")
    text = argument if question is None else question
    check_usage(
        {
            "QUESTION, --question: give one of them": argument is not None and question is not None,
            'missing QUESTION, such as secondpass query "How do I cancel?"': text is None,
            "the question is empty": not (text or "").strip(),
            "--hybrid, --vector, --lexical: give one of them": [hybrid, vector, lexical].count(True)
            > 1,
            "--rrf-k: must be a finite number": not math.isfinite(rrf_k),
            "--dry-run: needs --rerank": dry_run and not rerank,
            "--explain: needs --rerank": bool(explain) and not rerank,
        }
    )
    question = text or ""
    quiet = as_json or form is ResultFormat.json
    to_terminal = on_terminal(sys.stdout)
    form = chosen_format(form, ResultFormat.json, as_json=as_json, to_terminal=to_terminal)
    as_json = form is ResultFormat.json
    mode = _mode(vector=vector, lexical=lexical)
    reranker = None
    options: dict[str, Any] = {}
    embedder = EmbeddedEmbedder()
    if rerank:
        if vector:
            warn("--vector: the results of the vector search alone are reranked")
        chosen = _with_options(configured, model=rerank_model, device=device)
        config_values = with_depth(_configuration(chosen, corpus), rerank_top_n)
        embedder = _embedder(config_values)
        # This command warns of issues, so they are not logged as warnings.
        reranker = load_for({**config_values, "log_level": "debug"}, dry_run=dry_run)
        top_k = top_k or reranker.top_k
        options = {"order": parse_order(reranker, order), "instruction": instruction}
    elif configured != RerankerOptions() or any(
        (rerank_model, device, rerank_top_n, order, instruction)
    ):
        warn("options of the reranker have no effect without --rerank")

    top_k = options["top_k"] = top_k or _TOP_K
    count = top_k if reranker is None else _candidates_needed(reranker, top_k, rerank_top_n)
    with progress_bars(quiet) as progress:
        depth = max(count, _MIN_LIST_DEPTH)
        retriever: Searchable
        if is_index(corpus):
            retriever = _open_index(corpus, mode, depth, stale_ok=stale_ok)
        else:
            of_vectors = None if mode == "lexical" else embedder
            retriever = _index_in_memory(corpus, depth, passage_size, of_vectors, progress)
    candidates = retriever.retrieve(question, count, mode, rrf_k)
    if dry_run and reranker is not None:
        estimate = estimated(reranker, [(Request(question, candidates), options)])
        print_estimate(estimate, as_json=as_json)
        return
    ranking = None
    if reranker is not None:
        ranking = _reranked(reranker, Request(question, candidates), options)
    record: dict[str, Any] = {
        "question": question,
        "mode": mode if ranking is None else f"{mode}+rerank",
        "corpus": str(corpus),
        "top_k": top_k,
    }
    if mode == "hybrid":
        record["rrf_k"] = rrf_k
    if reranker is not None:
        record |= {"retrieved": len(candidates), "rerank_top_n": reranker.depth}
    shown = candidates[:top_k] if ranking is None else ranking
    _print_results(record, shown, explain, as_json=as_json)
    _check_explained(explain or (), [str(candidate.id) for candidate in candidates])


def _reranked(reranker: Reranker, request: Request, options: Mapping[str, Any]) -> Ranking:
    """The ranking, whose issues are printed."""
    WarmUp(reranker).before([request], [options])
    ranking = reranker.rerank(request.query, request.candidates, **options)
    _warn_of_issues(ranking.report)
    return ranking


def _print_results(
    record: dict[str, Any],
    results: Sequence[Candidate] | Ranking,
    ids: Sequence[str] | None,
    *,
    as_json: bool,
) -> None:
    """Print the results, with the explanations of these ids: a table, or JSON with the record."""
    explanations: list[Explanation] = []
    if isinstance(results, Ranking):
        rows = [_reranked_row(item) for item in results]
        explanations = explained(results, ids or ())
    else:
        rows = [_row(candidate, rank) for rank, candidate in enumerate(results, 1)]
    if not as_json:
        _print_table(rows, explanations)
        if isinstance(results, Ranking):
            for line in notes_below(results, except_top_k=True):
                print_text(result_console(), line)
            info(_summary(results.report))
        return
    record["results"] = rows
    if isinstance(results, Ranking):
        record["report"] = results.report.to_dict()
    if ids:
        record["explanations"] = [explanation.to_dict() for explanation in explanations]
    print_json(record)


def _check_explained(ids: Sequence[str], found: Sequence[str]) -> None:
    """Exit with an error if the search did not find one of the ids."""
    if ids and not found:
        fail(f"--explain {', '.join(ids)}: the search found nothing")
    if unknown := {*ids} - {*found}:
        report_unexplained(unknown, found, "the search did not find this id")
        raise typer.Exit(ERROR)


def _open_index(folder: Path, mode: Mode, depth: int, *, stale_ok: bool) -> Index:
    index = open_for_search(folder, depth, stale_ok=stale_ok)
    if mode not in index.modes:
        needed_for = "searching by vectors"
        missing = EmbeddedEmbedder(model=model_of(index.manifest)).missing(needed_for)
        if index.manifest["embedder"] is not None:
            fail(f"{folder}: {missing}, or search by words with --lexical")
        install = f"{missing.command} && " if missing else ""
        rebuild = rebuild_command(folder, index.manifest, with_vectors=True)
        fail(f"{folder}: has no vectors; use --lexical, or add vectors: {install}{rebuild}")
    return index


def _index_in_memory(
    corpus: Path,
    depth: int,
    passage_size: int,
    embedder: EmbeddedEmbedder | None,
    progress: Progress,
) -> HybridRetriever:
    needed_for = "searching by vectors (--lexical does without)"
    if embedder is not None and (missing := embedder.missing(needed_for)):
        raise missing
    source = read_source(corpus, passage_size=passage_size, progress=progress)
    warn_of_skipped(source.skipped)
    if not source.corpus:
        fail(f"{corpus}: has no text to search")
    warn(
        f"{corpus} is not an index and is indexed in memory for this query; to store one, run: "
        f"secondpass index {shlex.quote(str(corpus))} --into FOLDER"
    )
    batches = None if embedder is None else CorpusEmbedder(embedder, progress)
    return HybridRetriever(source.corpus, batches, depth=depth)


def _configuration(configured: RerankerOptions, corpus: Path) -> dict[str, Any]:
    """The configuration of the reranker, with the passage store of an index, if it has one."""
    config = configured.read()
    path = corpus / STORE
    if has_store(config) or not is_index(corpus) or not path.is_file():
        return config
    if _kind(config) != index_model(corpus):
        return config
    setting = f"method.store={json.dumps(str(path))}"
    return replace(configured, settings=[*(configured.settings or ()), setting]).read()


def _with_options(configured: RerankerOptions, **method: str | None) -> RerankerOptions:
    """The options with settings of the method, as ``--set`` gives them."""
    settings = [
        f"method.{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in method.items()
        if value is not None
    ]
    return replace(configured, settings=[*(configured.settings or ()), *settings])


def _kind(config: Mapping[str, Any]) -> object:
    """The kind of the method of a configuration."""
    method = config.get("method")
    return method.get("type") if isinstance(method, Mapping) else method


def _mode(*, vector: bool, lexical: bool) -> Mode:
    if vector:
        return "vector"
    return "lexical" if lexical else "hybrid"


def _embedder(config: Mapping[str, Any]) -> EmbeddedEmbedder:
    """The model of a reranker's method if it is an embedded one; otherwise the default."""
    for model in MODELS:
        if model == _kind(config):
            return EmbeddedEmbedder(model=model)
    return EmbeddedEmbedder()


def _candidates_needed(reranker: Reranker, top_k: int, top_n: int | None) -> int:
    """How many candidates to retrieve, so that ``--rerank-top-n`` of them can be reranked."""
    needed = reranker.candidates_needed(top_k)
    if needed is None:  # everything that is retrieved is reranked
        needed = max(top_k, _MIN_LIST_DEPTH)
    return max(needed, top_n or 0)


def _warn_of_issues(report: Report) -> None:
    if report.status == "ok":
        for issue in report.issues:
            if issue.code == INSTRUCTION_NOT_USED:  # --instruction had no effect
                warn(f"{issue.code}: {issue.message} ({issue.method})")
        return
    if report.status == "partial":
        meaning = "some of the results were not reranked"
    elif report.status == "unchanged":
        meaning = "the results were not reranked"
    else:
        reasons = {**DEGRADED_WORDS, "fallback": f"a fallback gave the order ({report.method})"}
        meaning = "; ".join(reasons[reason] for reason in report.degraded_by)
    issues = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
    warn(f"{meaning}: {issues}" if issues else meaning)


def _summary(report: Report) -> str:
    """Status, method and time, in a line below the table."""
    parts = [f"status {report.status_text}"]
    if report.skipped is not None:
        parts.append(f"skipped: {report.skipped.reason}")
    if report.method is not None:
        parts.append(f"method {report.method}")
    if report.beyond_depth:
        parts.append(report.scored_text)
    if report.nothing_relevant:
        parts.append("nothing relevant")
    return one_line(f"reranking: {', '.join(parts)}, {report.seconds:.1f} s")


def _row(candidate: Candidate, rank: int) -> dict[str, Any]:
    return {
        "final_rank": rank,
        "id": candidate.id,
        "score": candidate.score,
        "text": candidate.text,
        "metadata": dict(candidate.metadata),
    }


def _reranked_row(item: Ranked) -> dict[str, Any]:
    """The item as ``rerank`` writes it, with its ranks by the names of results that are not."""
    ranks = {"final_rank": item.rank, "retrieval_rank": item.position + 1}
    return {**ranks, "metadata": {}, **ranked_record(item, text=True)}


def _print_table(rows: Sequence[Mapping[str, Any]], explanations: Sequence[Explanation]) -> None:
    console = result_console()
    console.print(_table(rows) if rows else "No results.")
    for explanation in explanations:
        print_text(console, f"{explanation}\n", indent=EXPLANATION_INDENT)


def _table(rows: Sequence[Mapping[str, Any]]) -> FittedTable:
    table = FittedTable(spaced=True)
    reranked = "rerank_score" in rows[0]
    for heading in ("#", "was", "score", "reranked", "final") if reranked else ("#", "score"):
        table.add_column(heading, number=True)
    table.add_column("")
    for row in rows:
        cells = [str(row["final_rank"]), _number(row["score"])]
        if reranked:
            cells.insert(1, str(row["retrieval_rank"]))
            cells += [_number(row["rerank_score"]), _number(row["final_score"])]
        table.add_row(*cells, _passage(row))
    return table


def _passage(row: Mapping[str, Any]) -> Text:
    title, text = str(row["metadata"].get("title") or ""), str(row["text"])
    span, (headings, end) = row.get("span"), leading_headings(text, title.split(" > "))
    whole = span is None or span[0] <= end  # else what is shown begins within the text
    shown = excerpt(" ".join([*headings, text[end:]]) if whole else text, None if whole else span)
    cell = Text(one_line(str(row["id"])), style="bold")
    if title:
        cell.append(f"  {one_line(title)}", style="not bold cyan")
    return cell.append(f"\n{shown}", style="not bold")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
