"""Run a job: the driver's part. It sees places, counts and errors; texts pass it by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from secondpass import __version__
from secondpass.adapters.ray.folder import JobFolder, hash_of_value
from secondpass.adapters.ray.inputs import JobInput
from secondpass.adapters.ray.parts import Todo
from secondpass.adapters.ray.ranking import Choices
from secondpass.adapters.ray.starting import connected
from secondpass.adapters.ray.storage import located
from secondpass.adapters.ray.worker import (
    OUTCOME,
    TODO,
    BlockWorker,
    Outcome,
    dump_todo,
    inspected,
    parse_outcome,
)
from secondpass.config.keys import literal_keys
from secondpass.errors import ConfigurationError, InputError, SecondPassError
from secondpass.search.documents import Progress

LOCAL_ROWS, SERVICE_ROWS = 256, 32
"""Rows of a block: of methods that run here, and of those that ask services, which take longer."""

_DEATHS = 10
"""How often a block is tried again whose worker was killed."""


class JobError(SecondPassError, RuntimeError):
    """A job could not be finished; what was done is in its folder."""


@dataclass(frozen=True)
class Workers:
    """What works on a job.

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


@dataclass
class JobResult:
    """What a job has done.

    Attributes:
        rows: number of rows of the input.
        done: number of rows in the output.
        before: of these, those that were there before.
        counts: what the summary counts of them.
        workers: number of workers; 0 if nothing was left to do.
        exhausted: whether rows were left out because the budget is used up.
    """

    rows: int
    done: int
    before: int
    counts: Counter[str] = field(default_factory=Counter)
    workers: int = 0
    exhausted: bool = False


def run_job(
    source: JobInput,
    output: str,
    config: Mapping[str, Any],
    choices: Choices,
    workers: Workers,
    *,
    context_hash: str = "",
    block: int | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = lambda _label, _done, _total: None,
    warn: Callable[[str], None] = lambda _message: None,
) -> JobResult:
    """Rank all rows of an input, and write them to a folder.

    Args:
        source: the input.
        output: path or URI of the folder.
        config: the configuration; its variables are read by the workers.
        choices: what is the same for all rows.
        workers: what works on it.
        context_hash: of the file that the context was read from.
        block: rows of a block, at most; None: by the method.
        resume: continue the job that is in the folder.
        force: delete the job that is in the folder.
        progress: is called with a label, the number of rows done, and the total.
        warn: is called with each warning.

    Raises:
        ConfigurationError: the configuration is wrong, or holds a key.
        InputError: an argument or the input is wrong, or the folder has another job.
        JobError: a block could not be ranked.
        OSError: a file cannot be read or written.
    """
    if problems := [*literal_keys(config)]:
        raise ConfigurationError(problems)
    folder_name = located(output)
    facts = None if workers.address else _checked(inspected(config))
    with JobFolder(folder_name) as folder:
        state = folder.state(resume=resume, force=force)
        with connected(workers.address, (workers.count or 1) * workers.cpus) as ray:
            if facts is None:
                facts = _checked(ray.get(ray.remote(num_cpus=0)(inspected).remote(dict(config))))
            made_of = {
                "configuration": facts["hash"],
                "version": hash_of_value(__version__),
                "context": hash_of_value(context_hash),
                "choice of options": hash_of_value(
                    [dict(choices.options), choices.text, choices.timings, choices.batch]
                ),
            }
            if state is None:
                rows = block or (SERVICE_ROWS if facts["asks"] else LOCAL_ROWS)
                blocks, made_of["input"] = source.prepare(folder_name, rows, progress)
                folder.begin(made_of, blocks)
            else:
                made_of["input"] = source.hash()
                folder.check(state, made_of)
                blocks = state["blocks"]
            parts, counts = folder.done()
            before = sum(part.rows for part in parts)
            total = sum(one.rows for one in blocks)
            result = JobResult(total, before, before, counts)
            if todo := folder.todo(blocks, parts):
                fleet = _fleet(ray, workers, len(todo))
                result.workers = fleet.count
                _run(ray, todo, config, choices, fleet, folder_name, result, progress, warn)
        if result.done == result.rows:
            folder.finish()
    return result


@dataclass(frozen=True)
class _Fleet:
    """The workers that a cluster has room for."""

    count: int
    cpus: int
    gpus: float
    concurrency: int | None


def _fleet(ray: Any, workers: Workers, blocks: int) -> _Fleet:
    available = ray.cluster_resources()
    gpus = workers.gpus
    if gpus is None:
        gpus = 1.0 if available.get("GPU") else 0.0
    cpus = int(available.get("CPU", 1)) // workers.cpus
    count = workers.count or max(
        1, min(cpus, int(available.get("GPU", 0) / gpus) if gpus else cpus)
    )
    if workers.count is None:
        count = min(count, blocks)
    if workers.concurrency is not None:
        if workers.count is not None and workers.count > workers.concurrency:
            raise InputError("concurrency: must be the number of workers or more")
        count = min(count, workers.concurrency)
    return _Fleet(count, workers.cpus, gpus, workers.concurrency)


def _run(
    ray: Any,
    todo: Sequence[Todo],
    config: Mapping[str, Any],
    choices: Choices,
    fleet: _Fleet,
    folder: str,
    result: JobResult,
    progress: Progress,
    warn: Callable[[str], None],
) -> None:
    """Have the workers do what is to be done, and count it."""
    progress("Ranking", result.done, result.rows)
    for outcome in _outcomes(ray, todo, config, choices, fleet, folder):
        for message in outcome.warnings:
            warn(message)
        if outcome.failed:
            raise JobError(outcome.failed)
        result.done += outcome.rows
        result.counts.update(outcome.counts or {})
        result.exhausted |= outcome.exhausted
        progress("Ranking", result.done, result.rows)


def _outcomes(
    ray: Any,
    todo: Sequence[Todo],
    config: Mapping[str, Any],
    choices: Choices,
    fleet: _Fleet,
    folder: str,
) -> Iterator[Outcome]:
    _quieten(ray)
    # A block of Ray's for each of ours, so that one that is tried again is just one of ours.
    blocks = ray.data.from_items(
        [{TODO: dump_todo(one)} for one in todo], override_num_blocks=len(todo)
    )
    outcomes = blocks.map_batches(
        BlockWorker,
        batch_size=1,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=fleet.count),
        num_cpus=fleet.cpus,
        num_gpus=fleet.gpus or None,
        max_task_retries=_DEATHS,
        fn_constructor_kwargs={
            "config": worker_config(config, fleet.concurrency, fleet.count),
            "choices": asdict(choices),
            "folder": folder,
            "cpus": fleet.cpus,
        },
    )
    try:
        for batch in outcomes.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            for text in batch[OUTCOME].to_pylist():
                yield parse_outcome(text)
    except ray.exceptions.RayError as error:
        # Its message has the addresses of machines, and tracebacks.
        message = f"Ray could not go on ({type(error).__name__}); use --resume to continue"
        raise JobError(message) from None


def worker_config(
    config: Mapping[str, Any], concurrency: int | None, workers: int
) -> dict[str, Any]:
    """The configuration of one worker, with its share of the concurrent questions."""
    if concurrency is None:
        return dict(config)
    limits = config.get("limits") or {}
    return {**config, "limits": {**limits, "concurrency": concurrency // workers}}


def _quieten(ray: Any) -> None:
    """Keep Ray Data from printing; the driver shows its own progress."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    with suppress(AttributeError):
        context.enable_operator_progress_bars = False


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    if "error" in facts:
        raise JobError(facts["error"])
    return facts
