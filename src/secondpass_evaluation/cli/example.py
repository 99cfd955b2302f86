"""``secondpass example``: documents and judged questions to try the commands on."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from secondpass.cli.console import fail, one_line, write
from secondpass.settings import counted
from secondpass_evaluation import check_installed

_SUITE = ("corpus.jsonl", "queries.jsonl", "qrels.tsv")
_QUESTION = "Is there a discount for pensioners?"
_FOUND = 10
"""Candidates of the question in ``found.jsonl``."""


def example(
    into: Annotated[
        Path, typer.Argument(metavar="INTO", help="Folder to write to. It must not exist yet.")
    ],
) -> None:
    """Write example documents and questions, to try the commands on.

    For example: `secondpass example bikes`

    INTO is the folder to write to. It then has:

    - `docs/`: the handbook of a bicycle-sharing scheme

    - `suite/`: the same documents with 40 questions, for each of which the relevant documents are
      known

    - `found.jsonl`: what a search by words finds for one of the questions

    All texts are invented.
    """
    check_installed("secondpass example")
    from secondpass.formats import to_json
    from secondpass.formats.lines import write_lines
    from secondpass_evaluation.reading import read_corpus
    from secondpass_evaluation.search.retrieval import HybridRetriever

    if into.exists():
        fail(f"{into}: already exists; choose a new folder")
    for name in ("docs", "suite"):
        (into / name).mkdir(parents=True)
    texts = {}
    for name in _SUITE:
        path = files("secondpass_evaluation").joinpath("data/example", name)
        texts[name] = path.read_text("utf-8")
        write_lines(into / "suite" / name, [texts[name]])
    pages = list(read_corpus(into / "suite" / "corpus.jsonl"))
    for page in pages:
        text = f"# {page.metadata['title']}\n\n{page.text}\n"
        write_lines(into / "docs" / f"{page.id}.md", [text])
    found = HybridRetriever(pages).retrieve(_QUESTION, _FOUND, "lexical")
    records = [{"id": one.id, "text": one.text, "score": one.score} for one in found]
    write_lines(into / "found.jsonl", [to_json(record) + "\n" for record in records])
    questions = len(texts["queries.jsonl"].splitlines())
    size = f"{counted(len(pages), 'document')}, {counted(questions, 'judged question')}"
    write(one_line(f"{into}: {size}") + "\n")
