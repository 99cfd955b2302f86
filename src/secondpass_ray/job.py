"""``secondpass job``: Ray Data reads requests, workers rank them, and Ray Data writes part files.

The folder of a job has the part files that are complete, and ``_job.json``: hashes of what must not
change when the job is run again, which ranks the rows that the part files do not have.
"""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secondpass import InputError, SecondPassError, __version__
from secondpass.config import load
from secondpass.formats.files import open_locked
from secondpass.formats.requests import InputRequest
from secondpass.settings.environment import fill
from secondpass.settings.keys import with_hidden_keys
from secondpass_ray.budget import (
    SPENT,
    Amounts,
    Budget,
    Keeper,
    Spending,
    check_budget,
    within_budget,
)
from secondpass_ray.ranking import (
    NOT_A_REQUEST,
    Choices,
    Row,
    RowRanker,
    describe_error,
    use_cpus,
)
from secondpass_ray.starting import Workers, check_keys, connected, crew, with_share
from secondpass_ray.storage import (
    files_in,
    is_uri,
    is_within,
    located,
    make_folder,
    naming,
    read_file,
    write_whole,
)

STATE = "_job.json"
_LOCK = ".job.lock"

_IN_FLIGHT = 2
"""Batches that wait for a worker, one of which it ranks: more would wait at the end for one."""


class JobError(SecondPassError, RuntimeError):
    """A job could not be finished; the finished parts are in its folder."""


@dataclass(frozen=True)
class Job:
    """The input, configuration and resources of a job.

    Attributes:
        config: its variables and keys are read by the workers.
        batch: number of rows that are ranked together, and written to one file.
        id_key: key of requests by whose value a row is known; None: by its file and number.
        budget: the limits of what it may spend, including earlier runs.
        context_hash: hash of the file that the context was read from.
    """

    source: str
    output: str
    config: Mapping[str, Any]
    choices: Choices
    batch: int = 64
    id_key: str | None = None
    workers: Workers = field(default_factory=Workers)
    budget: Budget = field(default_factory=Budget)
    context_hash: str = ""


@dataclass
class JobResult:
    """The result of a job.

    Attributes:
        rows: number of rows of the output.
        before: number of rankings in it that were there before.
        left: number of rows that were left out because the budget is used up.
        counts: of all rows, for the summary.
    """

    rows: int
    before: int
    left: int
    counts: Counter[str]


def run_job(
    job: Job, *, bars: bool = False, warn: Callable[[str], None] = lambda _message: None
) -> JobResult:
    """Rank the rows of an input that an output does not have, and add them to it.

    Raises:
        ConfigurationError: the configuration holds a key.
        InputError: an argument or the input is wrong, or the folder is of another job.
        JobError: the configuration is wrong, or rows could not be ranked.
    """
    check_keys(job.config)
    source, output, workers = located(job.source), located(job.output), job.workers
    if is_within(output, source) or is_within(source, output):
        raise InputError(f"{job.output}: is in the folder of the input, or has it; name another")
    if not is_uri(source) and not Path(source).is_dir() and not Path(source).is_file():
        raise InputError(f"{source}: there is no such file or folder")
    facts = None if workers.address else _checked(inspected(job.config, job.budget))
    with (
        _locked(output),
        connected(workers.address, (workers.count or 1) * workers.cpus) as ray,
        _errors_of(ray),
    ):
        _quiet(ray, bars=bars)
        if facts is None:
            remote = ray.remote(num_cpus=0)(inspected)
            facts = _checked(ray.get(remote.remote(dict(job.config), job.budget)))
        _begin(job, output, facts["hash"])
        return _ranked(ray, job, source, output, warn)


def _ranked(ray: Any, job: Job, source: str, output: str, warn: Callable[[str], None]) -> JobResult:
    """Run the job's Dataset, and sum up what it wrote."""
    from secondpass_ray.files import FREE, Parts, Requests, read_output

    team = crew(ray, job.workers)
    cpus = int(ray.cluster_resources().get("CPU", 1))
    done = read_output(output, cpus)
    spent = _spent(output).or_more(done.spent) if job.budget else Amounts()
    # Ray's default is 1,000 calls: if as many waited, the one that releases them could not run.
    actor = ray.remote(num_cpus=0, max_concurrency=2 * team.count + 10)(Keeper)
    keeper = actor.remote(output, job.budget, spent)
    with naming(source):
        requests = Requests(source, job.batch, job.id_key, ray.put(done.known))
    config = with_share(within_budget(job.config, job.budget), job.workers.concurrency, team.count)
    sink = Parts(output)
    ray.data.read_datasource(requests, override_num_blocks=requests.files(), **FREE).map_batches(
        JobWorker,
        batch_size=1,  # a row of the Dataset is a batch
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(
            size=team.count, max_tasks_in_flight_per_actor=_IN_FLIGHT
        ),
        num_cpus=team.cpus,
        num_gpus=team.gpus or None,
        fn_constructor_kwargs={
            "config": config,
            "choices": job.choices,
            "cpus": team.cpus,
            "keeper": keeper,
            "budget": bool(job.budget),
        },
    ).write_datasink(sink, ray_remote_args=FREE, concurrency=max(1, team.count // 2))
    result = JobResult(
        len(done.known.keys), len(done.known.keys) - done.counts[NOT_A_REQUEST], 0, done.counts
    )
    for outcome in sink.outcomes:
        result.rows += outcome["rows"]
        result.left += outcome["left"]
        result.counts.update(outcome["counts"])
    for message in dict.fromkeys(text for outcome in sink.outcomes for text in outcome["warnings"]):
        warn(message)
    expected = {*done.parts, *(outcome["name"] for outcome in sink.outcomes if outcome["rows"])}
    _check_parts(output, expected)
    if job.id_key is not None:
        read_output(output, cpus)  # an id that is there twice is an error
    return result


def _check_parts(output: str, expected: set[str]) -> None:
    """Check that an output has the part files that it should have, and no others."""
    found = {name for name in files_in(output) if name.startswith("part-")}
    if others := found ^ expected:
        problem = "was written or deleted by another process while the job ran; run it again"
        raise JobError(f"{output}: {min(others)} {problem}")


class JobWorker:
    """An actor that ranks batches with its own reranker, within its share of the budget.

    Variables and keys are read in this process.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        choices: Choices,
        cpus: int,
        keeper: Any,
        budget: bool,
    ) -> None:
        use_cpus(cpus)
        reranker = load(config)
        self._ranker = RowRanker(reranker, choices)
        self._keeper = keeper
        self._spending = Spending(reranker, choices.options) if budget else None

    def __call__(self, batches: Any) -> Any:
        """Rank batches of rows; the result has a part for each."""
        import pyarrow

        from secondpass_ray.files import PART

        try:
            parts = [self._part(batch) for batch in batches.to_pylist()]
        except Exception as error:  # without text of rows, as Ray logs the message
            raise JobError(describe_error(error)) from None
        return pyarrow.Table.from_pylist(parts, PART)

    def _part(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        from secondpass_ray.files import part_name, rows_of

        rows = rows_of(batch)
        self._ranker.warnings.clear()
        lines, counts = self._lines(rows)
        written = rows[: len(lines)]
        outcome = {
            "name": part_name(written) if written else "",
            "rows": len(written),
            "left": len(rows) - len(written),
            "counts": counts,
            "warnings": self._ranker.warnings,
        }
        return {
            "name": outcome["name"],
            "lines": "".join(lines).encode("utf-8", "backslashreplace"),
            "outcome": json.dumps(outcome),
        }

    def _lines(self, rows: list[Row]) -> tuple[list[str], Counter[str]]:
        """The lines of the rows, or with a budget of as many as fit, from the first."""
        ranker, spending = self._ranker, self._spending
        parsed = [ranker.parse(row) for row in rows]
        batch, need = f"{rows[0].source}:{rows[0].line}", Amounts()
        if spending is not None:
            need = spending.need([item for item in parsed if isinstance(item, InputRequest)])
        fitting = self._ask("hold", batch, len(rows), need)
        limited = None if spending is None else spending.limited(need)
        ranked = ranker.lines(rows[:fitting], parsed[:fitting], limited)
        if spending is not None:
            self._ask("settle", batch, spending.spent(ranked.usages, need))
        return ranked.lines, ranked.counts

    def _ask(self, method: str, *arguments: Any) -> Any:
        import ray

        try:
            return ray.get(getattr(self._keeper, method).remote(*arguments))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # the message of Ray's error is a traceback


# ---------------------------------------------------------------------- the folder


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Make the folder. A local one is locked, so that one process at a time uses it."""
    with ExitStack() as stack:
        if not is_uri(folder) and Path(folder).is_file():
            raise InputError(f"{folder}: is a file; name a folder")
        make_folder(folder)
        if not is_uri(folder):
            lock = Path(folder) / _LOCK
            stack.enter_context(open_locked(lock, "a+b"))
            # Deleted while it is locked: afterwards another process may have locked it.
            stack.callback(lock.unlink, missing_ok=True)
        yield


def _begin(job: Job, folder: str, configuration: str) -> None:
    """Write ``_job.json``, or check that it is of the same job."""
    choices = job.choices
    made_of = {
        "configuration": configuration,
        "version": _hash(__version__),
        "context": _hash(job.context_hash),
        "--id": _hash(job.id_key),
        "choice of options": _hash(
            [dict(choices.options), choices.text, choices.timings, job.batch]
        ),
    }
    content = read_file(folder, STATE)
    if content is None:
        if parts := [name for name in files_in(folder) if name.startswith("part-")]:
            raise InputError(f"{folder}: has {parts[0]}, but no {STATE}; name another folder")
        write_whole(folder, STATE, json.dumps(made_of).encode() + b"\n")
        return
    try:
        before = dict(json.loads(content))
    except (TypeError, ValueError):
        raise InputError(f"{folder}: {STATE} was changed; name another folder") from None
    if other := [name for name in made_of if before.get(name) != made_of[name]]:
        problem = f"was begun with another {' and another '.join(other)}; name another folder"
        raise InputError(f"{folder}: {problem}")


def _spent(folder: str) -> Amounts:
    """The amounts that earlier runs with a budget have spent."""
    content = read_file(folder, SPENT)
    if content is None:
        return Amounts()
    try:
        record = json.loads(content)
        return Amounts(float(record["tokens"]), float(record["cost"]))
    except (LookupError, TypeError, ValueError):
        raise InputError(f"{folder}: {SPENT} was changed; name another folder") from None


def inspected(config: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
    """Build a reranker like a worker.

    Returns:
        ``error`` if it cannot be built or has no bounds for the budget; otherwise the ``hash`` of
        the configuration with the values of its variables but without keys and the budget, which
        can differ between runs.
    """
    try:
        check_budget(load(config), budget)
        load(within_budget(config, budget))
        return {"hash": _hash(with_hidden_keys(fill(config)[0]))}
    except Exception as error:
        return {"error": describe_error(error)}


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    if "error" in facts:
        raise JobError(facts["error"])
    return facts


# ---------------------------------------------------------------------- Ray


def _quiet(ray: Any, *, bars: bool) -> None:
    """Keep Ray Data from printing more than its progress bars."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = bars
    context.print_on_execution_start = False
    context.raise_original_map_exception = True  # or its message is lost
    # Batches stay apart, however small: what is not written yet would be ranked again.
    context.target_max_block_size = 1 << 20
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are raised, too
    # Such as that there are fewer batches than workers.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"ray\.data\.")


@contextmanager
def _errors_of(ray: Any) -> Iterator[None]:
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        raise JobError(f"{describe_error(error.cause)}; {_KEPT}") from None
    except ray.exceptions.RayError as error:
        # Without its message, which has addresses of machines and tracebacks.
        problem = f"Ray could not go on ({type(error).__name__})"
        raise JobError(f"{problem}; {_KEPT}") from None


_KEPT = "what is done is kept, run the job again to continue"
