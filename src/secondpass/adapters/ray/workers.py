"""How many workers there are, and what each has of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from secondpass.errors import InputError


@dataclass(frozen=True)
class Workers:
    """What is wanted.

    Attributes:
        address: of an existing Ray cluster; None: one on this machine.
        count: number of workers; None: one for each GPU, or without GPUs for each ``cpus`` CPUs.
        cpus: CPUs, and so threads, of each.
        gpus: GPUs of each; None: 1 where the cluster has GPUs, else 0.
        concurrency: concurrent questions to services, over all workers; None: the configuration's
            in each.
    """

    address: str | None = None
    count: int | None = None
    cpus: int = 1
    gpus: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True)
class Crew:
    """What a cluster has room for."""

    count: int
    cpus: int
    gpus: float


def crew(ray: Any, workers: Workers, *, spare: int = 0) -> Crew:
    """The workers of a cluster.

    Args:
        ray: connected to it.
        workers: what is wanted.
        spare: CPUs that are left to others, unless the first worker needs them.

    Raises:
        InputError: a worker needs more than the cluster has, or has no question to ask.
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
