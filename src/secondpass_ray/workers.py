"""The number of workers, and the resources of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from secondpass import InputError


@dataclass(frozen=True)
class Workers:
    """The requested workers.

    Attributes:
        address: of an existing Ray cluster; None: one on this machine.
        count: number of workers; None: one per GPU; without GPUs, one per ``cpus`` CPUs.
        cpus: CPUs of each worker, and threads of its model.
        gpus: GPUs of each worker; None: 1 if the cluster has GPUs, else 0.
        concurrency: concurrent requests to services, over all workers; None: that of the
            configuration, in each worker.
    """

    address: str | None = None
    count: int | None = None
    cpus: int = 1
    gpus: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True)
class Crew:
    """The workers to start: their number, and the CPUs and GPUs of each."""

    count: int
    cpus: int
    gpus: float


def crew(ray: Any, workers: Workers, *, spare: int = 0) -> Crew:
    """The workers that a cluster has resources for.

    Args:
        ray: the package, connected to the cluster.
        workers: the requested workers.
        spare: CPUs to leave free, unless the first worker needs them.

    Raises:
        InputError: the workers need more than the cluster has, or ``concurrency`` is below their
            number.
    """
    available = ray.cluster_resources()
    cpus, gpus = int(available.get("CPU", 0)), workers.gpus
    if gpus is None:
        gpus = 1.0 if available.get("GPU") else 0.0
    room = cpus // workers.cpus
    if gpus:
        room = min(room, int(available.get("GPU", 0) / gpus))
    if (workers.count or 1) > room:
        wanted = f"{workers.count or 1} workers of {workers.cpus} CPUs"
        wanted += f" and {gpus:g} GPUs" if gpus else ""
        has = f"{cpus} CPUs and {available.get('GPU', 0):g} GPUs"
        raise InputError(f"workers: the cluster has {has}, too few for {wanted}")
    count = workers.count
    if count is None:
        room = min(room, (cpus - spare) // workers.cpus)
        count = max(1, min(room, workers.concurrency or room))
    if workers.concurrency is not None and count > workers.concurrency:
        raise InputError("concurrency: must be at least the number of workers")
    return Crew(count, workers.cpus, gpus)
