"""Reranks the rows of a Ray Dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from secondpass import InputError
from secondpass.config import load
from secondpass.formats.errors import check_numbers
from secondpass.settings.arguments import explained
from secondpass.settings.loading import read
from secondpass_ray.ranking import Choices, Row, RowRanker, describe_error, use_cpus
from secondpass_ray.records import record_texts
from secondpass_ray.starting import Workers, check_keys, crew, imported, with_share

if TYPE_CHECKING:
    from ray.data import Dataset

RANKING = "ranking"
"""Column with the JSON text of a ranking."""


@explained()
def rerank_dataset(
    ds: Dataset,
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    workers: int | None = None,
    cpus: int = 1,
    gpus: float | None = None,
    concurrency: int | None = None,
    batch_size: int = 64,
    text: bool = True,
    timings: bool = False,
) -> Dataset:
    """Rerank each row of a Dataset, lazily; the result has one row for each row.

    A row is a request: a column ``request`` with the JSON text of a line of ``secondpass rerank``,
    or columns ``query`` and ``candidates`` and, as needed, the other keys of such a line. A null in
    these columns means that the key is absent; only the JSON text preserves metadata exactly.

    Args:
        ds: the requests.
        config: a configuration, the name of a preset, or the path of a YAML file, which is read
            here. Each worker builds its own reranker from the mapping, and reads variables and keys
            from its own environment.
        workers: number of processes; None: one per GPU of the cluster; without GPUs, one per
            ``cpus`` CPUs, after one CPU is reserved for reading the Dataset.
        cpus: CPUs of each worker, and threads of its model.
        gpus: GPUs of each worker; None: 1 if the cluster has GPUs, else 0.
        concurrency: concurrent requests to language models and rerank APIs, over all workers; None:
            that of the configuration, in each worker.
        batch_size: number of rows that are ranked together.
        text: whether rankings have texts and metadata.
        timings: whether reports have durations.

    Returns:
        The Dataset with a column ``ranking``: the JSON text of a line that ``secondpass rerank``
        writes, or for a row that is not a request an object with an ``error``.

    Raises:
        ConfigurationError: the configuration is wrong, or holds a key.
        InputError: a number is out of range.
        MissingExtraError: Ray is not installed.
    """
    check_numbers(batch_size=(batch_size, 1), cpus=(cpus, 1))
    for name, number in (("workers", workers), ("concurrency", concurrency)):
        if number is not None:
            check_numbers(**{name: (number, 1)})
    mapping, _ = read(config)
    check_keys(mapping)
    ray = imported()
    chosen = crew(ray, Workers(None, workers, cpus, gpus, concurrency), spare=1)
    return ds.map_batches(
        DatasetWorker,
        batch_size=batch_size,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=chosen.count),
        num_cpus=chosen.cpus,
        num_gpus=chosen.gpus or None,
        fn_constructor_kwargs={
            "config": with_share(mapping, concurrency, chosen.count),
            "choices": Choices({}, text=text, timings=timings),
            "cpus": chosen.cpus,
        },
    )


class DatasetWorker:
    """Ranks the rows of tables in a process of its own."""

    def __init__(self, config: Mapping[str, Any], choices: Choices, cpus: int) -> None:
        use_cpus(cpus)
        self._ranker = RowRanker(load(config), choices)

    def __call__(self, table: Any) -> Any:
        """Add the rankings to a table."""
        try:
            return self._ranked(table)
        except Exception as error:  # without text of rows, as Ray logs the message
            raise RuntimeError(describe_error(error)) from None

    def _ranked(self, table: Any) -> Any:
        import pyarrow

        if RANKING in table.column_names:
            raise InputError(f"the Dataset has a column {RANKING!r} already")
        rows = [
            Row("row", number, text) for number, text in enumerate(record_texts(table, "row", 1), 1)
        ]
        ranked = self._ranker.lines(rows, [self._ranker.parse(row) for row in rows])
        texts = [line.rstrip("\n").encode("utf-8", "backslashreplace") for line in ranked.lines]
        return table.append_column(RANKING, pyarrow.array(texts).cast(pyarrow.string()))
