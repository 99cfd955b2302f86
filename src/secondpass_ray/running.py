"""The driver of a job. It handles block positions, counts and errors, but no texts.

The folder of a job has its state and the parts that are done. ``job.json`` is written when the
input has been read, before anything is ranked.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from secondpass import InputError, SecondPassError, __version__
from secondpass.formats.files import open_locked
from secondpass.formats.totals import tokens_and_cost
from secondpass.settings import counted
from secondpass.types import Progress, no_progress
from secondpass_ray.blocks import Block
from secondpass_ray.configurations import check_keys, with_share, within_budget
from secondpass_ray.coordination import SPENT, Amounts, Budget, Coordinator
from secondpass_ray.inputs import JobInput, is_copy
from secondpass_ray.parts import Part, Todo, count_parts, is_of_part, missing, parts_in
from secondpass_ray.ranking import Choices
from secondpass_ray.starting import Crew, Workers, connected, imported
from secondpass_ray.starting import crew as crew_of
from secondpass_ray.storage import (
    delete,
    files_in,
    in_parallel,
    is_temporary,
    is_uri,
    is_within,
    joined,
    kind_of,
    located,
    make_folder,
    open_file,
    write_whole,
)
from secondpass_ray.worker import OUTCOME, TODO, BlockWorker, Outcome, hash_of_value, inspected

STATE = "job.json"
_LOCK = ".job.lock"
_FORMAT = 1
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class JobFolder:
    """The output folder. A local folder is locked, so that one process at a time uses it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stack = ExitStack()

    def __enter__(self) -> JobFolder:
        if kind_of(self.name) == "file":
            raise InputError(f"{self.name}: is a file; name a folder")
        make_folder(self.name)
        if not is_uri(self.name):
            self._stack.enter_context(open_locked(Path(self.name) / _LOCK, "a+b"))
        return self

    def __exit__(self, *_error: object) -> None:
        # Deleted while it is locked: afterwards another process may have locked it.
        if not is_uri(self.name):
            (Path(self.name) / _LOCK).unlink(missing_ok=True)
        self._stack.close()

    def state(self, *, resume: bool, force: bool) -> dict[str, Any] | None:
        """The content of ``job.json``; None for a new job, for which ``force`` deletes the old."""
        files = self._files()
        if force:
            # The state first: parts without a state are never used for another job.
            self._delete([STATE])
            self._delete(name for name in files if _is_ours(name))
            files = self._files()
        if STATE not in files:
            # Left by a job that was interrupted while it read its input.
            self._delete(name for name in files if is_temporary(name) or is_copy(name))
            files = self._files()
            if files:
                hint = f"it has no {STATE}, but {next(iter(files))}"
                raise InputError(f"{self.name}: is not the folder of a job: {hint}; name another")
            return None
        if not resume:
            hint = "use --resume to continue it, or --force to start again"
            raise InputError(f"{self.name}: already has a job; {hint}")
        try:
            with open_file(joined(self.name, STATE)) as file:
                state = json.load(file)
            if state["format"] != _FORMAT:
                raise ValueError
            dict(state["made_of"])
            state["piece"] = int(state["piece"])
            state["blocks"] = [Block(*values) for values in state["blocks"]]
        except _UNREADABLE:
            problem = "is not a valid state of a job"
            raise InputError(
                f"{joined(self.name, STATE)}: {problem}; use --force to start again"
            ) from None
        return dict(state)

    def check(self, state: Mapping[str, Any], made_of: Mapping[str, str]) -> None:
        """Check that a job is continued with the input and settings that it was begun with."""
        before = state["made_of"]
        if other := [name for name in made_of if before.get(name) != made_of[name]]:
            problem = f"was begun with another {' and another '.join(other)}"
            raise InputError(f"{self.name}: {problem}; use --force to start again")

    def begin(self, made_of: Mapping[str, str], blocks: Sequence[Block], piece: int) -> None:
        """Write the state of a new job, whose input and settings have these hashes."""
        state = {
            "format": _FORMAT,
            "made_of": dict(made_of),
            "rows": sum(block.rows for block in blocks),
            "piece": piece,
            "blocks": [astuple(block) for block in blocks],
        }
        write_whole(self.name, STATE, json.dumps(state).encode() + b"\n")

    def done(self) -> tuple[list[Part], Counter[str]]:
        """The finished parts, and their counts for the summary.

        Incomplete files of killed processes are deleted, and parts whose rows a larger part has.
        """
        files = self._files()
        parts, useless = parts_in(self.name, files)
        counts = count_parts(self.name, parts, files)
        self._delete([*useless, *filter(is_temporary, files)])
        return parts, counts

    def spent(self) -> Amounts:
        """The amounts that earlier runs with a budget have spent."""
        if SPENT not in self._files():
            return Amounts()
        try:
            with open_file(joined(self.name, SPENT)) as file:
                record = json.load(file)
            return Amounts(float(record["tokens"]), float(record["cost"]))
        except _UNREADABLE:
            problem = f"{SPENT} was changed since it was written"
            raise InputError(f"{self.name}: {problem}; use --force to start again") from None

    def lacks_copies(self, blocks: Iterable[Block]) -> bool:
        """Whether copies that blocks refer to were deleted, as at the end of a job."""
        copies = {joined(self.name, name) for name in self._files() if is_copy(name)}
        return any(
            is_within(block.file, self.name) and block.file not in copies for block in blocks
        )

    def finish(self, rows: int) -> None:
        """Check that the parts have these rows, and delete copies and what workers have left."""
        files = self._files()
        parts, useless = parts_in(self.name, files)
        if (written := sum(part.rows for part in parts)) != rows:
            problem = f"its parts have {counted(written, 'row')}, and the input has {rows:,}"
            raise InputError(f"{self.name}: {problem}; use --resume, or --force to start again")
        self._delete([*useless, *filter(is_temporary, files), *filter(is_copy, files)])

    def _delete(self, names: Iterable[str]) -> None:
        in_parallel(delete, [joined(self.name, name) for name in names])

    def _files(self) -> dict[str, int]:
        return {name: size for name, size in files_in(self.name).items() if name != _LOCK}


def _is_ours(name: str) -> bool:
    return name in {STATE, SPENT} or is_of_part(name) or is_copy(name) or is_temporary(name)


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
        config: its variables and keys are read by the workers.
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
        rows, done: numbers of rows of the input and of the output.
        counts: of the rows, for the summary.
        exhausted: whether rows were left out because the budget is used up.
    """

    rows: int
    done: int
    counts: Counter[str] = field(default_factory=Counter)
    exhausted: bool = False


def run_job(
    job: Job,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = no_progress,
    warn: Callable[[str], None] = lambda _message: None,
) -> JobResult:
    """Rank all rows of an input, and write them to a folder; continue or delete a job in it.

    Raises:
        ConfigurationError: the configuration holds a key.
        InputError: an argument or the input is wrong, or the folder has another job.
        JobError: the configuration is wrong, or a block could not be ranked.
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
                rows = sum(block.rows for block in blocks)
                # Small enough that workers finish at about the same time.
                piece = job.block or max(1, min(most, math.ceil(rows / (crew.count * PIECES))))
                folder.begin({**made_of, "input": digest}, blocks, piece)
            else:
                folder.check(state, {**made_of, "input": job.source.hash()})
                blocks, piece = state["blocks"], state["piece"]
                rows = sum(block.rows for block in blocks)
            parts, counts = folder.done()
            result = JobResult(rows, sum(part.rows for part in parts), counts)
            todo = [*missing(blocks, parts, job.block or piece)]
            if folder.lacks_copies(item.block for item in todo):
                most = max(block.rows for block in blocks)
                blocks, digest = job.source.prepare(folder.name, most, progress)
                folder.begin({**made_of, "input": digest}, blocks, piece)
                todo = [*missing(blocks, parts, job.block or piece)]
            if todo:
                crew = replace(crew, count=min(crew.count, len(todo)))
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


def _count(result: JobResult, outcome: Outcome, warn: Callable[[str], None]) -> None:
    """Add the outcome of a block to the result."""
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
        [{TODO: json.dumps(asdict(item))} for item in todo], override_num_blocks=len(todo)
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
            "choices": job.choices,
            "folder": located(job.output),
            "cpus": crew.cpus,
            "coordinator": coordinator,
            "budget": bool(job.budget),
        },
    )
    for batch in outcomes.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        for text in batch[OUTCOME].to_pylist():
            yield Outcome(**json.loads(text))


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
