"""Connects to an existing Ray cluster, or starts one; the workers on it and what they are given."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import current_thread, main_thread
from typing import Any

from secondpass import ConfigurationError, InputError
from secondpass.concurrency.processor import usable_cpus
from secondpass.settings import counted
from secondpass.settings.keys import literal_keys

_STORE_BYTES = 512 * 2**20
"""Size of the object store of a local cluster; it holds the batches that wait."""


_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # or it warns without a GPU
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # of what Ray's core prints
    "RAY_DATA_LOG_LEVEL": "ERROR",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # else it prints which tasks will be tried again
}
"""Variables that Ray reads when it is imported and started."""


def imported() -> Any:
    """Import Ray; without its output, unless it was imported before."""
    if "ray" not in sys.modules:
        os.environ.update(_ENVIRONMENT)
    import ray
    import ray.data

    return ray


@contextmanager
def connected(address: str | None, cpus: float | None) -> Iterator[Any]:
    """Ray, connected to a cluster within the block; an existing connection is used, and kept.

    Without an address, one is started on this machine, with at least these CPUs, which other
    machines cannot reach.
    """
    ray = imported()
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"address": address}
    if address is None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        options = {
            "address": "local",
            "num_cpus": max(usable_cpus(), math.ceil(cpus or 1)),
            "include_dashboard": False,
            "dashboard_host": "127.0.0.1",
            "object_store_memory": _STORE_BYTES,
        }
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with _native_output_hidden():
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:  # Ray also raises plain exceptions, with messages of many lines
        if address is None:
            problem = "did not start on this machine; is it overloaded, or is its memory used up?"
        else:
            problem = f"does not answer at {address}, or refuses the token (RAY_AUTH_TOKEN)"
        raise InputError(f"Ray {problem} ({type(error).__name__})") from None
    finally:
        if current_thread() is main_thread():  # Ray's own would exit with 15
            signal.signal(signal.SIGTERM, handler)
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _native_output_hidden() -> Iterator[None]:
    """Hide the output of Ray's native code while it starts, which bypasses Python."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


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

    ``spare`` CPUs are left free, unless the first worker needs them.
    """
    available = ray.cluster_resources()
    cpus, gpus = int(available.get("CPU", 0)), workers.gpus
    if gpus is None:
        gpus = 1.0 if available.get("GPU") else 0.0
    room = cpus // workers.cpus
    if gpus:
        room = min(room, int(available.get("GPU", 0) / gpus))
    if (workers.count or 1) > room:
        wanted = f"{counted(workers.count or 1, 'worker')} of {workers.cpus:g} CPU"
        wanted += f" and {gpus:g} GPU" if gpus else ""
        has = f"{cpus} CPU and {available.get('GPU', 0):g} GPU"
        raise InputError(f"workers: the cluster has {has}, too few for {wanted}")
    count = workers.count
    if count is None:
        room = min(room, (cpus - spare) // workers.cpus)
        count = max(1, min(room, workers.concurrency or room))
    if workers.concurrency is not None and count > workers.concurrency:
        raise InputError("concurrency: must be at least the number of workers")
    return Crew(count, workers.cpus, gpus)


def check_keys(config: Mapping[str, Any]) -> None:
    """Check that a configuration has only names of variables, and no keys."""
    if problems := [*literal_keys(config)]:
        raise ConfigurationError(problems, "")


def with_share(config: Mapping[str, Any], concurrency: int | None, workers: int) -> dict[str, Any]:
    """The configuration of one worker, with its share of the concurrent requests to services."""
    if concurrency is None:
        return dict(config)
    share = {"concurrency": max(1, concurrency // workers)}
    return {**config, "limits": {**(config.get("limits") or {}), **share}}
