"""``secondpass index``: make a folder of documents, or a corpus, searchable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secondpass import Candidate, Reranker, Stored
from secondpass.cli.console import check_usage, info, one_line, print_json, warn, write
from secondpass.cli.options import AsJson
from secondpass.cli.progress import progress_bars
from secondpass.config import preset
from secondpass.settings import counted
from secondpass.types import Progress
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.first_stages import saying_how_to_go_on, warn_of_skipped
from secondpass_evaluation.cli.suite_options import PassageSize
from secondpass_evaluation.search.embedders import EmbeddedEmbedder, Model
from secondpass_evaluation.search.index import index_model, passages_of, vectors_model
from secondpass_evaluation.search.passages import PASSAGE_SIZE
from secondpass_evaluation.search.selection import UNFINISHED
from secondpass_evaluation.search.stored import PRESETS, STORE, fill, stored_in

if TYPE_CHECKING:
    from secondpass_evaluation.search.indexing import Built


def index(
    *,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of text, Markdown or HTML files, or a corpus.jsonl (BEIR).",
        ),
    ],
    into: Annotated[
        Path,
        typer.Option("--into", help="Folder for the index: a new folder, or an index to update."),
    ],
    passage_size: PassageSize = PASSAGE_SIZE,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Index only files that match the pattern: `*.md`, `guide/**/*.html`. Repeatable.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Leave out files or folders that match the pattern: `drafts`, `*.txt`. "
            "Repeatable.",
        ),
    ] = None,
    words_only: Annotated[
        bool,
        typer.Option(
            "--words-only", help="Index by words only; the vectors take most of the time."
        ),
    ] = False,
    model: Annotated[
        Model | None,
        typer.Option(
            "--model",
            help="Model of the vectors: the one that the method of this name uses. `embedded` "
            "reads English, `embedded_multilingual` about 100 languages. The default is the model "
            "of the index, or `embedded`.",
        ),
    ] = None,
    store: Annotated[
        bool,
        typer.Option(
            "--store",
            help="Also encode the passages for `query --rerank` with the preset of the model "
            "(`embedded`, `multilingual`) and store them, so that reranking takes less time. "
            "Building then takes twice the time. Later builds keep the store up to date.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild the index even if nothing has changed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Index documents, to search them by words and by vectors.

    Folders are read with all folders in them, except hidden folders and indexes. Each file is split
    into passages, between paragraphs and before headings. A passage has the id `path#number`. Files
    that are not text are skipped with a warning. If a folder has an `index.html`, it is a website:
    only its pages are read. Navigation in HTML is left out.

    A pattern with a `/` is compared with the path below SOURCE. A pattern without one is compared
    with each name in that path. Put patterns in quotes, or the shell replaces them.

    An existing index is replaced when the new one is complete. Vectors of unchanged passages are
    reused. If nothing has changed, nothing is done. After Ctrl-C, the same command continues with
    the vectors that it has already computed. For example:

    `secondpass index docs --into docs.index`
    """
    check_installed("secondpass index")
    from secondpass_evaluation.search.indexing import build_index

    check_usage({"--words-only, --model: give one of them": words_only and model is not None})
    is_wanted = model is not None or vectors_model(into) is not None
    model = model or index_model(into)
    embedder = None if words_only else EmbeddedEmbedder(model=model)
    if embedder is not None and (missing := embedder.missing(f"computing the vectors of {model}")):
        if is_wanted:  # or an index would lose the vectors that it has
            raise missing
        warn(f"vectors are left out: {missing}")
        embedder = None
    store = store or (into / STORE).is_file()
    before = [*passages_of(into)] if store else []
    stored = None
    try:
        with progress_bars(as_json) as progress:
            built = build_index(
                source,
                into,
                embedder,
                passage_size=passage_size,
                include=include or (),
                exclude=exclude or (),
                force=force,
                progress=progress,
            )
            if store:
                stored = _store(into, model, before, progress)
    except KeyboardInterrupt:
        if (into / UNFINISHED).exists():
            info("the vectors that were made are kept; the same command goes on with them")
        raise
    warn_of_skipped(built.skipped)
    if as_json:
        record = _record(built, source)
        if stored is not None:
            record["stored"] = {"known": stored.known, "encoded": stored.encoded}
        print_json(record)
        return
    text = _summary(built)
    if stored is not None:
        text += f"; {counted(stored.encoded, 'passage')} stored, {stored.known:,} before"
    write(one_line(f"{into}: {text}") + "\n")


def _store(folder: Path, model: Model, before: Sequence[Candidate], progress: Progress) -> Stored:
    """Store the passages of an index, and delete those that it had before and has no more."""
    reranker = Reranker.from_config(stored_in(preset(PRESETS[model]), folder / STORE))
    corpus = passages_of(folder)
    texts = {passage.text for passage in corpus}
    if removed := [passage for passage in before if passage.text not in texts]:
        reranker.forget(removed)
    with saying_how_to_go_on():
        stored = fill(reranker, corpus, progress)
    reranker.close()
    return stored


def _record(built: Built, source: Path) -> dict[str, Any]:
    return {
        "index": str(built.folder),
        "source": str(source),
        "status": "built" if built.made else "unchanged",
        "files": built.files,
        "passages": built.passages,
        "vectors": built.vectors,
        "vectors_kept": built.kept,
        "embedder": built.embedder,
        "skipped": dict(built.skipped),
        "seconds": round(built.seconds, 3),
    }


def _summary(built: Built) -> str:
    size = f"{counted(built.passages, 'passage')} of {counted(built.files, 'file')}"
    content = "words and vectors" if built.embedder else "words only"
    if not built.made:
        return f"nothing has changed ({size}, {content}); use --force to rebuild it"
    reused = f", {counted(built.kept, 'vector')} reused" if built.kept else ""
    return f"{size}, {content}{reused}, in {built.seconds:.1f} s"
