"""The driver of a job. It handles block positions, counts and errors, but no texts."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from secondpass import InputError, SecondPassError, __version__
from secondpass.formats.shared import tokens_and_cost
from secondpass.types import Progress
from secondpass_ray.configurations import check_keys, with_share, within_budget
from secondpass_ray.coordination import Amounts, Budget, Coordinator
from secondpass_ray.folder import JobFolder
from secondpass_ray.inputs import JobInput
from secondpass_ray.parts import Todo, missing
from secondpass_ray.ranking import Choices
from secondpass_ray.starting import connected, imported
from secondpass_ray.storage import is_within, located
from secondpass_ray.worker import (
    OUTCOME,
    TODO,
    BlockWorker,
    Outcome,
    dump_todo,
    hash_of_value,
    inspected,
    parse_outcome,
)
from secondpass_ray.workers import Crew, Workers
from secondpass_ray.workers import crew as crew_of

LOCAL_ROWS, SERVICE_ROWS = 256, 32
"""Maximum rows of a block, for local methods and for services, which are slower."""


PIECES = 50
"""Minimum number of parts per worker, as the workers finish up to 1.4 parts apart."""


class JobError(SecondPassError, RuntimeError):
    """A job could not be finished; the finished parts are in its folder."""


@dataclass(frozen=True)
class Job:
    """The input, configuration and resources of a job.

    Attributes:
        source: the input.
        output: path or URI of the folder.
        config: the configuration; its variables and keys are read by the workers.
        choices: options of all rows.
        workers: number and resources of the workers.
        budget: the limits of what it may spend, including earlier runs.
        context_hash: hash of the file that the context was read from.
        block: maximum number of rows of a block; None: by the method.
    """

    source: JobInput
    output: str
    config: Mapping[str, Any]
    choices: Choices
    workers: Workers = field(default_factory=Workers)
    budget: Budget = field(default_factory=Budget)
    context_hash: str = ""
    block: int | None = None


@dataclass
class JobResult:
    """The result of a job.

    Attributes:
        rows: number of rows of the input.
        done: number of rows in the output.
        counts: their counts for the summary.
        workers: number of workers; 0 if nothing was left to do.
        exhausted: whether rows were left out because the budget is used up.
    """

    rows: int
    done: int
    counts: Counter[str] = field(default_factory=Counter)
    workers: int = 0
    exhausted: bool = False


def run_job(
    job: Job,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = lambda _label, _done, _total: None,
    warn: Callable[[str], None] = lambda _message: None,
) -> JobResult:
    """Rank all rows of an input, and write them to a folder.

    Args:
        job: the job.
        resume: continue the job in the folder.
        force: delete the job in the folder.
        progress: called with a label, the number of rows done, and the total.
        warn: called with each warning.

    Raises:
        ConfigurationError: the configuration holds a key.
        InputError: an argument or the input is wrong, or the folder has another job.
        JobError: the configuration is wrong, or a block could not be ranked.
        MissingExtraError: Ray is not installed.
        OSError: a file cannot be read or written.
    """
    check_keys(job.config)
    imported()
    job.source.check()
    output = located(job.output)
    for name in job.source.names():
        if is_within(output, name) or is_within(name, output):
            raise InputError(
                f"{job.output}: is in the folder of the input, or has it; name another"
            )
    workers = job.workers
    facts = None if workers.address else _checked(inspected(job.config, job.budget))
    with JobFolder(located(job.output)) as folder:
        state = folder.state(resume=resume, force=force)
        cpus = (workers.count or 1) * workers.cpus
        with connected(workers.address, cpus) as ray, _errors_of(ray):
            if facts is None:
                remote = ray.remote(num_cpus=0)(inspected)
                facts = _checked(ray.get(remote.remote(dict(job.config), job.budget)))
            crew = crew_of(ray, workers)
            stamps = job.source.stamps()
            made_of = _made_of(job.choices, job.context_hash, facts["hash"])
            if state is None:
                most = job.block or (SERVICE_ROWS if facts["asks"] else LOCAL_ROWS)
                blocks, digest = job.source.prepare(folder.name, most, progress)
                piece = job.block or _piece(sum(it.rows for it in blocks), crew.count, most)
                folder.begin({**made_of, "input": digest}, blocks, piece)
            else:
                folder.check(state, {**made_of, "input": job.source.hash()})
                blocks, piece = state["blocks"], state["piece"]
            parts, counts = folder.done()
            result = JobResult(
                sum(block.rows for block in blocks), sum(part.rows for part in parts), counts
            )
            todo = [*missing(blocks, parts, job.block or piece)]
            if folder.lacks_copies(item.block for item in todo):
                most = max(block.rows for block in blocks)
                blocks, digest = job.source.prepare(folder.name, most, progress)
                folder.begin({**made_of, "input": digest}, blocks, piece)
                todo = [*missing(blocks, parts, job.block or piece)]
            if todo:
                crew = replace(crew, count=min(crew.count, len(todo)))
                result.workers = crew.count
                progress("Ranking", result.done, result.rows)
                coordinator = _coordinator(ray, job, folder, counts, crew.count)
                for outcome in _outcomes(ray, job, todo, crew, coordinator):
                    _count(result, outcome, warn)
                    progress("Ranking", result.done, result.rows)
                if job.source.stamps() != stamps:
                    message = "the input was changed while the job read it; use --resume, which"
                    raise JobError(f"{message} compares its content")
        if result.done == result.rows or not result.exhausted:
            folder.finish(result.rows)
    return result


def _made_of(choices: Choices, context: str, configuration: str) -> dict[str, str]:
    """Hashes of everything except the input that must not change when a job is continued."""
    options = [dict(choices.options), choices.text, choices.timings, choices.batch]
    return {
        "configuration": configuration,
        "version": hash_of_value(__version__),
        "context": hash_of_value(context),
        "choice of options": hash_of_value(options),
    }


def _piece(rows: int, workers: int, most: int) -> int:
    """Number of rows of a part: small enough that workers finish at about the same time."""
    return max(1, min(most, math.ceil(rows / (workers * PIECES))))


def _count(result: JobResult, outcome: Outcome, warn: Callable[[str], None]) -> None:
    """Add the outcome of a block to the result.

    Raises:
        JobError: the block failed.
    """
    for message in outcome.warnings:
        warn(message)
    if outcome.failed:
        raise JobError(f"{outcome.failed}; what is done is kept, use --resume to continue")
    result.done += outcome.rows
    result.counts.update(outcome.counts or {})
    result.exhausted |= outcome.exhausted


def _coordinator(ray: Any, job: Job, folder: JobFolder, counts: Counter[str], workers: int) -> Any:
    """The actor that all workers share, with the amounts that earlier runs have spent."""
    spent = folder.spent().or_more(Amounts(*tokens_and_cost(counts)))
    # Ray's default is 1,000 calls: if as many waited, the one that releases them could not run.
    actor = ray.remote(num_cpus=0, max_concurrency=2 * workers + 10)(Coordinator)
    return actor.remote(folder.name, job.budget, spent)


def _outcomes(
    ray: Any, job: Job, todo: Sequence[Todo], crew: Crew, coordinator: Any
) -> Iterator[Outcome]:
    """Start the workers, and yield the outcome of each block when it is finished."""
    _silence(ray)
    # One block of Ray Data for each of the job, so that Ray retries single blocks.
    blocks = ray.data.from_items(
        [{TODO: dump_todo(item)} for item in todo], override_num_blocks=len(todo)
    )
    config = within_budget(job.config, job.budget)
    outcomes = blocks.map_batches(
        BlockWorker,
        batch_size=1,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=crew.count),
        num_cpus=crew.cpus,
        num_gpus=crew.gpus or None,
        fn_constructor_kwargs={
            "config": with_share(config, job.workers.concurrency, crew.count),
            "choices": asdict(job.choices),
            "folder": located(job.output),
            "cpus": crew.cpus,
            "coordinator": coordinator,
            "budget": bool(job.budget),
        },
    )
    for batch in outcomes.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        for text in batch[OUTCOME].to_pylist():
            yield parse_outcome(text)


@contextmanager
def _errors_of(ray: Any) -> Iterator[None]:
    try:
        yield
    except ray.exceptions.RayError as error:
        # Without its message, which has addresses of machines and tracebacks.
        message = f"Ray could not go on ({type(error).__name__}); use --resume to continue"
        raise JobError(message) from None


def _silence(ray: Any) -> None:
    """Keep Ray Data from printing; the driver shows its own progress."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    if "error" in facts:
        raise JobError(facts["error"])
    return facts
