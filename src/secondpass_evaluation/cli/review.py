"""Asks a person in the terminal about documents that a model has judged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from secondpass.cli.console import (
    escaped,
    info,
    message_console,
    one_line,
    print_json,
    warn,
    write,
)

if TYPE_CHECKING:
    from secondpass_evaluation.judging.folder import Review

_Answer = int | Literal["back", "quit"]


def review_folder(folder: Path, count: int, *, as_json: bool) -> None:
    """Ask a person until ``count`` queries are complete, or the person stops.

    Each answer is written before the next question.
    """
    from secondpass_evaluation.judging.folder import Review
    from secondpass_evaluation.judging.labels import locked

    with locked(folder):
        review = Review(folder)
        order = review.order[:count]
        if len(order) < count:
            warn(f"--ask {count}: there are {len(review.order)} queries")
        if any(review.open_documents(query) for query in order):
            try:
                _ask(review, order)
            except KeyboardInterrupt:
                info("")
    _summarize(review, as_json=as_json)


def _ask(review: Review, order: list[str]) -> None:
    from secondpass_evaluation.judging.grading import GRADES

    info("Grade each document by how well it answers the query:")
    for grade, meaning in sorted(GRADES.items(), reverse=True):
        info(f"  {grade}  {meaning}")
    info("  b  back to the previous document   q  stop; the same command continues")
    steps = [(query, document) for query in order for document in review.open_documents(query)]
    position = 0
    while position < len(steps):
        query, document = steps[position]
        _show(review, order, query, document)
        answer = _read_answer(can_go_back=position > 0)
        if answer == "quit":
            return
        if answer == "back":
            position -= 1
            continue
        review.answer(query, document, int(answer))
        position += 1


def _show(review: Review, order: list[str], query: str, document: str) -> None:
    documents = review.documents(query)
    number = [*documents].index(document) + 1
    heading = f"query {order.index(query) + 1} of {len(order)}"
    heading += f", document {number} of {len(documents)}"
    console = message_console()
    console.print()
    console.rule(Text(heading), align="left", characters="-")
    console.print(Text(one_line(review.queries[query]), style="bold"))
    console.print()
    console.print(Text(escaped(documents[document])))
    console.print()


def _read_answer(*, can_go_back: bool) -> _Answer:
    from secondpass_evaluation.judging.grading import GRADES

    choices = ", ".join(map(str, GRADES)) + (", b or q" if can_go_back else " or q")
    while True:
        message_console().print(Text(f"Grade ({choices}): "), end="")
        line = b"" if sys.stdin is None else sys.stdin.buffer.readline()
        if not line:  # the end of the input
            info("")
            return "quit"
        text = line.decode("utf-8", "replace").strip().lower()
        if text == "q":
            return "quit"
        if text == "b" and can_go_back:
            return "back"
        if text.isascii() and text.isdigit() and int(text) in GRADES:
            return int(text)
        warn(f"answer one of {choices}")


def _summarize(review: Review, *, as_json: bool) -> None:
    from secondpass_evaluation.judging.inference import fewest_people

    complete = len(review.complete())
    documents, agreement = review.agreement()
    if as_json:
        record = {"queries": complete, "documents": documents, "kappa": agreement}
        print_json({**record, "of": len(review.order), "needed": fewest_people()})
        return
    kappa = ""
    if agreement is not None:
        kappa = f"; agreement with the model {agreement:.2f} (1: always, 0: as by chance)"
    noun = "document" if documents == 1 else "documents"
    write(f"a person has judged {documents:,} {noun}{kappa}\n")
    write(f"{complete:,} of {len(review.order):,} queries are complete\n")
    if complete < fewest_people():
        write(f"correcting the figures needs {fewest_people()} or more complete queries\n")
