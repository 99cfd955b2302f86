"""Compares LlamaIndex's rerankers with secondpass on five nodes and a model that misbehaves.

Each case of ``malformed_replies.py`` is sent to every reranker in the format that
it asks for, synchronously and asynchronously. All have their default settings, except for the batch
size in cases about batches, and a deadline for secondpass in cases without an answer. The others
have no such setting; they are abandoned after a second. LLMRerank has a completion model,
StructuredLLMRerank one that calls tools, the others chat models. Nothing leaves the machine.

    python benchmarks/llama_index_peers.py
    python benchmarks/llama_index_peers.py --docs    # also writes the table of docs/data/tables.md
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index.core.postprocessor import LLMRerank, StructuredLLMRerank
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore
from malformed_replies import CASES, HONEST, Case
from misbehaving_replies import (
    ALL,
    DOCUMENTS,
    GRADED,
    LINES,
    LISTWISE,
    NUMBERS,
    PERMUTATION,
    QUERY,
    Calling,
    Chatting,
    Completing,
    Form,
    nodes,
    release,
)

from llama_index.postprocessor.secondpass import SecondPassRerank

TIMEOUT = 1.0  # seconds
MODES = (False, True)
"""Whether the call is asynchronous."""
PAGE = Path(__file__).parents[1] / "docs" / "data" / "tables.md"
BEGIN = "<!-- begin: faults, written by `python benchmarks/llama_index_peers.py --docs` -->\n"
END = "<!-- end -->"


@dataclass(frozen=True)
class Column:
    """A reranker, with how to create it for a case."""

    name: str
    form: Form
    llm: type[Any]
    make: Callable[[Any, Case], BaseNodePostprocessor]


def _ours(method: str) -> Callable[[Any, Case], BaseNodePostprocessor]:
    def make(llm: Any, case: Case) -> BaseNodePostprocessor:
        settings: dict[str, Any] = {"type": method}
        if case.batch_size is not None and method == "graded":
            settings["batch_size"] = case.batch_size
        return SecondPassRerank({"method": settings, "limits": dict(case.limits)}, llm=llm)

    return make


COLUMNS = (
    Column(
        "LLMRerank",
        LINES,
        Completing,
        lambda llm, case: LLMRerank(llm=llm, choice_batch_size=case.batch_size or 10),
    ),
    Column(
        "StructuredLLMRerank",
        DOCUMENTS,
        Calling,
        lambda llm, case: StructuredLLMRerank(llm=llm, choice_batch_size=case.batch_size or 10),
    ),
    Column("RankGPTRerank", PERMUTATION, Chatting, lambda llm, _: RankGPTRerank(llm=llm)),
    Column("secondpass, `graded`", GRADED, Chatting, _ours("graded")),
    Column("secondpass, `listwise`", LISTWISE, Chatting, _ours("listwise")),
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case for a reranker.

    Attributes:
        numbers: of the returned nodes; None after an error.
        error: the exception raised, or that the call did not return.
        status: of secondpass's report.
        misread: whether the order is neither that of the input nor that of the reply.
    """

    numbers: tuple[int, ...] | None = None
    error: str = ""
    status: str = ""
    misread: bool = False

    @property
    def lost(self) -> int:
        return len(set(NUMBERS) - set(self.numbers or ()))

    @property
    def duplicated(self) -> int:
        return len(self.numbers or ()) - len(set(self.numbers or ()))

    @property
    def kept(self) -> bool:
        """Whether every node was returned exactly once."""
        return self.numbers is not None and not self.lost and not self.duplicated

    def __str__(self) -> str:
        if self.numbers is None:
            return self.error
        parts = [f"{len(self.numbers)} node" + "s" * (len(self.numbers) != 1)]
        parts += [f"{self.lost} lost"] if self.lost else []
        parts += [f"{self.duplicated} duplicated"] if self.duplicated else []
        parts += ["order misread"] if self.misread else []
        parts += [self.status] if self.status else []
        return ", ".join(parts)


def outcome_of(case: Case, column: Column, asynchronous: bool) -> Outcome:
    """Run a case with a reranker."""
    reranker = column.make(column.llm(script=case.say, form=column.form), case)
    found: list[Outcome] = []

    def run() -> None:
        status = ""
        try:
            if isinstance(reranker, SecondPassRerank):
                if asynchronous:
                    ranked, report = asyncio.run(reranker.arerank_nodes(nodes(), QUERY))
                else:
                    ranked, report = reranker.rerank_nodes(nodes(), QUERY)
                status = report.status
            elif asynchronous:
                ranked = asyncio.run(reranker.apostprocess_nodes(nodes(), query_str=QUERY))
            else:
                ranked = reranker.postprocess_nodes(nodes(), query_str=QUERY)
        except Exception as error:
            found.append(Outcome(error=f"raises {type(error).__name__}"))
        else:
            numbers = tuple(one.node.metadata["number"] for one in ranked)
            found.append(Outcome(numbers, "", status, misread(case, numbers, ranked)))

    # In a thread that can be abandoned: nothing else ends a call that is never answered.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    release()
    return found[0] if found else Outcome(error="never returns")


def misread(case: Case, numbers: tuple[int, ...], ranked: list[NodeWithScore]) -> bool:
    """Whether the order of the nodes is neither the reply's nor the input's."""
    judged = [
        number
        for number, one in zip(numbers, ranked, strict=True)
        if one.node.metadata.get("rerank_status", "scored") == "scored"
    ]
    first = list(dict.fromkeys(judged))
    retrieved = [number for number in NUMBERS if number in first]
    stated = [number for number in case.meant if number in first]
    as_stated = [number for number in first if number in case.meant]
    return first != retrieved and (not stated or as_stated != stated)


def table(cases: Sequence[Case] = CASES) -> str:
    """What each reranker returns in each case, as Markdown."""
    kept = dict.fromkeys(COLUMNS, 0)
    right = dict.fromkeys(COLUMNS, 0)
    counts = dict.fromkeys(COLUMNS, 0)
    lines = ["| reply | " + " | ".join(column.name for column in COLUMNS) + " |"]
    lines.append("| --- |" + " --- |" * len(COLUMNS))
    for case in cases:
        cells = []
        for column in COLUMNS:
            if column.form in case.without:
                cells.append("n/a")
                continue
            outcomes = [outcome_of(case, column, asynchronous) for asynchronous in MODES]
            counts[column] += 1
            kept[column] += all(one.kept for one in outcomes)
            right[column] += all(one.kept and not one.misread for one in outcomes)
            texts = list(dict.fromkeys(map(str, outcomes)))
            cells.append(texts[0] if len(texts) == 1 else f"{texts[0]}; async: {texts[1]}")
        lines.append(f"| {case.name} | " + " | ".join(cells) + " |")
    for name, count in (("every node returned once", kept), ("… and no order misread", right)):
        cells = [f"**{count[column]} of {counts[column]}**" for column in COLUMNS]
        lines.append(f"| **{name}** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--docs", action="store_true", help="also write docs/data/tables.md")
    parser.add_argument("--cases", type=int, help="only the first of them", metavar="N")
    arguments = parser.parse_args()
    if arguments.docs and arguments.cases is not None:
        parser.error("--docs writes all cases")
    logging.disable(logging.CRITICAL)
    for column in COLUMNS:
        for asynchronous in MODES:
            found = outcome_of(HONEST, column, asynchronous)
            assert found.numbers == tuple(ALL), f"{column.name} cannot rank correct replies"
    faults = table(CASES[: arguments.cases])
    print(faults)
    if arguments.docs:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(
            f"{before}{BEGIN}\n{faults}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
