"""Compares LlamaIndex's rerankers with secondpass on five nodes and a model that misbehaves.

Each case of ``tests/support/misbehaving_replies.py`` is sent to every reranker in the form that it
asks for, synchronously and asynchronously. All are as they are made by default, but for a batch
size where the case is about batches, and a deadline for ours where no answer comes (the others have
no such setting; here they are given up on after a second). LLMRerank has a completion model,
StructuredLLMRerank one that calls tools, the others chat models. Nothing leaves the machine.

    python benchmarks/llama_index_peers.py
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index.core.postprocessor import LLMRerank, StructuredLLMRerank
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from misbehaving_replies import (
    ALL,
    CASES,
    DOCUMENTS,
    GRADED,
    HONEST,
    LINES,
    LISTWISE,
    MARKER,
    NUMBERS,
    PERMUTATION,
    QUERY,
    Asked,
    Calling,
    Case,
    Chatting,
    Completing,
    Form,
    Said,
    nodes,
    release,
)

PATIENCE = 1.0  # seconds
MODES = (False, True)
"""Whether a caller awaits."""
COUNT = 100
ROUNDS = 10


@dataclass(frozen=True)
class Column:
    """A reranker, made for a case."""

    name: str
    form: Form
    llm: type[Any]
    make: Callable[[Any, Case], BaseNodePostprocessor]


def _lines(llm: Any, case: Case) -> BaseNodePostprocessor:
    return LLMRerank(llm=llm, choice_batch_size=case.batch_size or 10)


def _structured(llm: Any, case: Case) -> BaseNodePostprocessor:
    return StructuredLLMRerank(llm=llm, choice_batch_size=case.batch_size or 10)


def _permutation(llm: Any, _case: Case) -> BaseNodePostprocessor:
    return RankGPTRerank(llm=llm)


def _ours(method: str) -> Callable[[Any, Case], BaseNodePostprocessor]:
    def make(llm: Any, case: Case) -> BaseNodePostprocessor:
        of_it: dict[str, Any] = {"type": method}
        if case.batch_size is not None and method == "graded":
            of_it["batch_size"] = case.batch_size
        return SecondPassRerank({"method": of_it, "limits": dict(case.limits)}, llm=llm)

    return make


COLUMNS = (
    Column("LLMRerank", LINES, Completing, _lines),
    Column("StructuredLLMRerank", DOCUMENTS, Calling, _structured),
    Column("RankGPTRerank", PERMUTATION, Chatting, _permutation),
    Column("ours, `graded`", GRADED, Chatting, _ours("graded")),
    Column("ours, `listwise`", LISTWISE, Chatting, _ours("listwise")),
)


@dataclass(frozen=True)
class Outcome:
    """The outcome for the nodes.

    Attributes:
        numbers: of the nodes that came out; None where none did, for an error.
        error: what was raised.
        status: of our report.
        misread: whether the order is neither the one that came in nor the one that the reply says.
    """

    numbers: tuple[int, ...] | None = None
    error: str = ""
    status: str = ""
    misread: bool = False

    @property
    def lost(self) -> int:
        return len(set(NUMBERS) - set(self.numbers or ()))

    @property
    def doubled(self) -> int:
        return len(self.numbers or ()) - len(set(self.numbers or ()))

    @property
    def kept(self) -> bool:
        """Whether every node came out, once."""
        return self.numbers is not None and not self.lost and not self.doubled

    def __str__(self) -> str:
        if self.numbers is None:
            return self.error
        parts = [f"{len(self.numbers)} node" + "s" * (len(self.numbers) != 1)]
        parts += [f"{self.lost} lost"] if self.lost else []
        parts += [f"{self.doubled} doubled"] if self.doubled else []
        parts += ["order misread"] if self.misread else []
        parts += [self.status] if self.status else []
        return ", ".join(parts)


def played(case: Case, column: Column, asynchronous: bool) -> Outcome:
    """The outcome of a case for a reranker."""
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

    # In a thread that can be left behind: nothing else ends a call that is never answered.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    release()
    return found[0] if found else Outcome(error="waits for ever")


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


# ---------------------------------------------------------------------- time


def milliseconds(column: Column) -> tuple[float, int]:
    """CPU time of a reranking of 100 nodes by a model that answers immediately, and its calls.

    The least of several.

    The time that the answer itself takes to be made is taken off.
    """
    given = [
        NodeWithScore(node=TextNode(text=f"grade {at % 10}: {MARKER}", id_=str(at)), score=0.5)
        for at in range(COUNT)
    ]
    spent = [0.0]

    def script(asked: Asked) -> Said:
        started = time.process_time()
        said = Said(asked.honest)
        said.text(column.form)
        spent[0] += time.process_time() - started
        return said

    case = Case("instant", script, "ok", "ok", batch_size=20)
    best, calls = float("inf"), 0
    for _ in range(ROUNDS):
        llm = column.llm(script=script, form=column.form)
        reranker = column.make(llm, case)
        gc.collect()
        spent[0] = 0.0
        started = time.process_time()
        reranker.postprocess_nodes(given, query_str=QUERY)
        best = min(best, time.process_time() - started - spent[0])
        calls = len(llm.sent)
    return best * 1000, calls


def main() -> None:
    logging.disable(logging.CRITICAL)
    for column in COLUMNS:
        for asynchronous in MODES:
            found = played(HONEST, column, asynchronous)
            assert found.numbers == tuple(ALL), f"{column.name}: the table is wrong, or it is"
    kept = dict.fromkeys(COLUMNS, 0)
    right = dict.fromkeys(COLUMNS, 0)
    asked = dict.fromkeys(COLUMNS, 0)
    print("| reply | " + " | ".join(column.name for column in COLUMNS) + " |")
    print("| --- |" + " --- |" * len(COLUMNS))
    for case in CASES:
        cells = []
        for column in COLUMNS:
            of_ours = column.form in {GRADED, LISTWISE}
            if column.form in case.without or (of_ours and not case.promised(column.form)[0]):
                cells.append("n/a")
                continue
            outcomes = [played(case, column, asynchronous) for asynchronous in MODES]
            asked[column] += 1
            kept[column] += all(one.kept for one in outcomes)
            right[column] += all(one.kept and not one.misread for one in outcomes)
            told = list(dict.fromkeys(map(str, outcomes)))
            cells.append(told[0] if len(told) == 1 else f"{told[0]}; async: {told[1]}")
        print(f"| {case.name} | " + " | ".join(cells) + " |")
    for name, count in (("every node came out once", kept), ("… and no order misread", right)):
        cells = [f"**{count[column]} of {asked[column]}**" for column in COLUMNS]
        print(f"| **{name}** | " + " | ".join(cells) + " |")

    print(f"\n| {COUNT} nodes, a model that answers at once | ms of CPU | calls |")
    print("| --- | ---: | ---: |")
    for column in COLUMNS:
        time_of_it, calls = milliseconds(column)
        print(f"| {column.name} | {time_of_it:.1f} | {calls} |")


if __name__ == "__main__":
    main()
