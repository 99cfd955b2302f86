"""Rerank the rows of a Ray Dataset."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.data import Dataset


def rerank_dataset(
    ds: Dataset,
    config: Mapping[str, Any] | str | PathLike[str],
    *,
    workers: int | None = None,
    cpus: float = 1,
    gpus: float | None = None,
    concurrency: int | None = None,
    batch_size: int = 64,
    text: bool = True,
    timings: bool = False,
) -> Dataset:
    """Rerank each row of a Dataset, lazily; one row out for one row in.

    A row is a request: a column ``request`` with the JSON text of a line of ``secondpass rerank``,
    or columns ``query`` and ``candidates`` and, as needed, the other keys of such a line. In those,
    a null stands for a key that is absent.

    Args:
        ds: the requests.
        config: a configuration, or the path of a YAML file, which is read here. Each worker builds
            its own reranker from the mapping; variables and keys are read there, from the worker's
            environment.
        workers: number of processes; None: one for each GPU of the cluster, or without GPUs one
            for each ``cpus`` of its CPUs.
        cpus: CPUs of each worker, which is also how many threads its model uses.
        gpus: GPUs of each worker; None: 1 where the cluster has GPUs, else 0.
        concurrency: concurrent questions of language models and rerank APIs, over all workers;
            None: that of the configuration in each worker.
        batch_size: number of rows that are ranked together.
        text: whether rankings have texts and metadata.
        timings: whether reports have durations.

    Returns:
        The Dataset with a column ``ranking``: the JSON text of a line that ``secondpass rerank``
        writes. Of a row that is not a request it is an object with an ``error``.

    Raises:
        ConfigurationError: the configuration is wrong.
        InputError: a number is out of range.
        MissingExtraError: Ray is not installed.
    """
    raise NotImplementedError
