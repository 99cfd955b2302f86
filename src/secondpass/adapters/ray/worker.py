"""A worker: an actor with a reranker of its own, which ranks block by block and writes parts."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

from secondpass.adapters.ray.blocks import Block, read_rows
from secondpass.adapters.ray.parts import Part, PartWriter, Todo
from secondpass.adapters.ray.ranking import Choices, RowRanker, in_batches
from secondpass.config import load
from secondpass.errors import SecondPassError
from secondpass.reranker import Reranker
from secondpass.scorers.engines.processor import limit_cpus

OUTCOME, TODO = "outcome", "todo"
"""Columns of what goes to a worker and comes back, as JSON: places and counts, never texts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the rows of a block.

    Attributes:
        rows: number of rows that were written.
        counts: what the summary counts of them.
        warnings: about keys that are ignored.
        failed: why the block could not be ranked or written; empty otherwise.
        exhausted: whether rows were left out because the budget is used up.
    """

    rows: int = 0
    counts: Mapping[str, int] | None = None
    warnings: tuple[str, ...] = ()
    failed: str = ""
    exhausted: bool = False


class BlockWorker:
    """Ranks blocks of the input, and writes parts of the output.

    Args:
        config: the configuration's mapping; its variables and keys are read in this process.
        choices: what is the same for all rows.
        folder: of the job.
        cpus: how many CPUs the worker has, and so how many threads its model uses.
    """

    def __init__(
        self, config: Mapping[str, Any], choices: Mapping[str, Any], folder: str, cpus: float
    ) -> None:
        use_cpus(cpus)
        self._config, self._choices, self._folder = config, Choices(**choices), folder
        self._ranker: RowRanker | None = None

    def __call__(self, batch: Any) -> Any:
        """Rank the blocks of a table with the column ``todo``; the result has ``outcome``."""
        import pyarrow

        outcomes = [json.dumps(asdict(self._done(text))) for text in batch[TODO].to_pylist()]
        return pyarrow.table({OUTCOME: outcomes})

    def _done(self, text: str) -> Outcome:
        # Nothing is raised: Ray would put the message and the traceback into its logs.
        try:
            return self._ranked(parse_todo(text))
        except Exception as error:
            return Outcome(failed=describe_error(error))

    def _ranked(self, todo: Todo) -> Outcome:
        if self._ranker is None:
            self._ranker = RowRanker(load(self._config), self._choices)
        ranker = self._ranker
        ranker.warnings.clear()
        with PartWriter(self._folder, todo.part.first) as writer:
            rows = takewhile(
                lambda row: row.number is not None and row.number <= todo.part.last,
                read_rows(todo.block, todo.part.first),
            )
            for batch in in_batches(rows, self._choices.batch):
                parsed = [ranker.parse(row) for row in batch]
                writer.write(*ranker.lines(batch, parsed))
            writer.finish()
        return Outcome(writer.rows, dict(writer.counts), tuple(ranker.warnings))


def use_cpus(count: float) -> None:
    """Use so many threads in models and tokenizers that are loaded from now on."""
    threads = max(1, int(count))
    limit_cpus(threads)
    for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[variable] = str(threads)


def dump_todo(todo: Todo) -> str:
    """Rows of a block as JSON."""
    return json.dumps({"block": asdict(todo.block), "part": asdict(todo.part)})


def parse_todo(text: str) -> Todo:
    """The rows that :func:`dump_todo` has written."""
    record = json.loads(text)
    return Todo(Block(**record["block"]), Part(**record["part"]))


def parse_outcome(text: str) -> Outcome:
    """The outcome that a worker has written."""
    record = json.loads(text)
    record["counts"] = Counter(record["counts"])
    return Outcome(**record)


def describe_error(error: Exception) -> str:
    """An error without any text of a row: ours in full, of others the type."""
    if isinstance(error, SecondPassError):
        return str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or type(error).__name__}"
    return f"internal error: {type(error).__name__}"


def inspected(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the driver must know of a configuration, as a worker would build it.

    Returns:
        ``error`` if it cannot be built; otherwise ``asks``, whether it asks services, and ``hash``,
        of the configuration with its variables.
    """
    from secondpass.adapters.ray.folder import hash_of_value
    from secondpass.settings.environment import fill

    try:
        reranker = load(config)
        return {"asks": asks(reranker), "hash": hash_of_value(fill(config)[0])}
    except Exception as error:
        return {"error": describe_error(error)}


def asks(reranker: Reranker) -> bool:
    """Whether a reranker asks language models or rerank APIs."""
    return any(getattr(method, "language_models", ()) for method in reranker._methods)
