"""``secondpass example``: documents and judged questions to try the commands on."""

from __future__ import annotations

from importlib.resources import as_file, files
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
    into: Annotated[Path, typer.Argument(metavar="INTO", help="Folder to write to: a new one.")],
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

    suite = files("secondpass_evaluation").joinpath("data/example")
    with as_file(suite / "corpus.jsonl") as corpus:
        pages = list(read_corpus(corpus))
    found = HybridRetriever(pages).retrieve(_QUESTION, _FOUND, "lexical")
    records = [{"id": one.id, "text": one.text, "score": one.score} for one in found]
    texts = {f"suite/{name}": (suite / name).read_text("utf-8") for name in _SUITE}
    for page in pages:
        texts[f"docs/{page.id}.md"] = f"# {page.metadata['title']}\n\n{page.text}\n"
    texts["found.jsonl"] = "".join(to_json(record) + "\n" for record in records)
    is_written = into.is_dir() and all(_holds(into / name, it) for name, it in texts.items())
    if into.exists() and not is_written:
        fail(f"{into}: already exists; choose a new folder")
    for name, text in () if is_written else texts.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        write_lines(into / name, [text])
    questions = len(texts["suite/queries.jsonl"].splitlines())
    size = f"{counted(len(pages), 'document')}, {counted(questions, 'judged question')}"
    before = ", written before" if is_written else ""
    write(one_line(f"{into}: {size}{before}") + "\n")


def _holds(file: Path, text: str) -> bool:
    return file.is_file() and file.read_bytes() == text.encode()
