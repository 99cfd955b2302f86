"""Mutation testing: changes the code in one place at a time, and checks whether a test fails.

The mutants are those of mutmut, but not its runner, which only mutates functions without
decorators: no constants, properties or class bodies. Each mutant runs in a forked process against
the tests that reach its function, the fastest first. A change within a function replaces its code
in a process that has already collected all tests; for other changes the module and its tests are
imported again. mutation.toml lists the modules and their tests.

    python tools/mutation.py blending ledger    # these modules; default: all
    python tools/mutation.py --again ledger     # only mutants that survived the last run
    python tools/mutation.py --timeouts --limit 60 ledger    # only those that timed out
    python tools/mutation.py --matrix ledger    # which tests kill what, which are needed
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gc
import importlib
import inspect
import json
import os
import re
import resource
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "mutation"
CONFIGURATION = Path(__file__).with_suffix(".toml")
_MEMORY = 8 << 30
_ZIP = re.compile(r",\s*(strict=\w+)?\)")
"""``strict=True`` of ``zip`` asserts equal lengths, which correct input never violates."""
_SURVIVED = ("survived", "not covered")
_NOT_HERE = 98
"""Exit code: the code cannot be replaced in place."""


# ---------------------------------------------------------------------- mutants


@dataclass
class Mutant:
    """One change of the code.

    Attributes:
        lines: the first and the last of the function that it is in; None outside of functions.
    """

    line: int
    lines: tuple[int, int] | None
    before: str
    after: str
    outcome: str = ""
    seconds: float = 0.0


@dataclass
class _Task:
    """A mutant to test.

    Attributes:
        code: of the whole module.
        tests: those to run, in this order.
        limit: seconds.
    """

    mutant: Mutant
    code: str
    tests: list[str]
    limit: float


class _Finder(cst.CSTVisitor):
    """Collects the mutations of each node by mutmut's operators."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.CSTNode, cst.CSTNode, int, tuple[int, int] | None]] = []
        self._functions: list[tuple[int, int]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_left_alone(node):
            return False
        if isinstance(node, cst.FunctionDef):
            place = self.get_metadata(PositionProvider, node)
            self._functions.append((place.start.line, place.end.line))
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                mutated = list(operator(node))
                if operator is operator_string:
                    mutated = mutated[:1]  # the others change the case only
                position = self.get_metadata(PositionProvider, node, None)
                line = position.start.line if position else 0
                function = self._functions[0] if self._functions else None
                self.found += [(node, one, line, function) for one in mutated]
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef) and not _is_left_alone(original_node):
            self._functions.pop()


def _is_left_alone(node: cst.CSTNode) -> bool:
    """Whether a node is not mutated, as types, decorators, imports and messages."""
    if isinstance(node, cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom):
        return True
    if isinstance(node, cst.SimpleString):
        return " " in node.value  # messages; what they say is tested where it matters
    if isinstance(node, cst.AnnAssign):
        return isinstance(node.annotation.annotation, cst.Name) and (
            node.annotation.annotation.value == "TypeAlias"
        )
    if isinstance(node, cst.If):
        return isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING"
    if isinstance(node, cst.Assign):
        target, value = node.targets[0].target, node.value
        if isinstance(target, cst.Name) and target.value == "__all__":
            return True  # only for type checkers
        return (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Name)
            and value.func.value == "TypeVar"
        )
    return False


def mutants_of(path: Path) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with the code of the whole module."""
    code = path.read_text(encoding="utf-8")
    wrapper = MetadataWrapper(cst.parse_module(code))
    finder = _Finder()
    wrapper.visit(finder)
    for node, mutated, line, function in finder.found:
        changed = cst.ensure_type(wrapper.module.deep_replace(node, mutated), cst.Module).code
        try:
            compile(changed, str(path), "exec")
        except SyntaxError:
            continue
        diff = list(difflib.unified_diff(code.splitlines(), changed.splitlines(), n=0))[2:]
        before, after = (
            " ".join(one[1:].strip() for one in diff if one.startswith(sign)) for sign in "-+"
        )
        if _ZIP.sub(")", before) != _ZIP.sub(")", after):
            yield Mutant(line, function, before, after), changed


# ---------------------------------------------------------------------- running tests


class _Mutated(SourceFileLoader):
    """Loads changed code instead of that of the file."""

    def __init__(self, name: str, path: str, code: str) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, _name: str) -> CodeType:
        return compile(self.code, self.path, "exec", dont_inherit=True)


class _Import:
    """Finds the mutated module before the real one is found."""

    def __init__(self, name: str, path: Path, code: str) -> None:
        self.name, self.path, self.code = name, str(path), code

    def find_spec(self, name: str, *_more: Any) -> Any:
        if name != self.name:
            return None
        loader = _Mutated(name, self.path, self.code)
        return spec_from_file_location(name, self.path, loader=loader)


class _Selection:
    """Runs some of the collected tests, in the order given."""

    def __init__(self, chosen: Sequence[str]) -> None:
        self.order = {one: place for place, one in enumerate(chosen)}
        self.killers: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.killers.append(report.nodeid)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (one for one in items if one.nodeid in self.order),
            key=lambda one: self.order[one.nodeid],
        )


class _Baseline:
    """Runs the tests on unchanged code; records the duration of each and the lines it reaches."""

    def __init__(self, path: Path, deselect: Sequence[str]) -> None:
        from coverage import Coverage

        self.path, self.deselect = path, deselect
        self.coverage = Coverage(data_file=None, include=[str(path)], config_file=False)
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.coverage.start()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [one for one in items if not any(part in one.nodeid for part in self.deselect)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        began = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - began
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def result(self) -> dict[str, Any]:
        self.coverage.stop()
        lines = self.coverage.get_data().contexts_by_lineno(str(self.path))
        return {
            "seconds": self.seconds,
            "failed": self.failed,
            "tests_by_line": {line: [one for one in tests if one] for line, tests in lines.items()},
            "before_tests": [line for line, tests in lines.items() if "" in tests],
            "modules": [one for one in sys.modules if not one.startswith("secondpass")],
        }


class _Collected:
    """Runs chosen tests in forked processes, each with other code in some functions.

    Args:
        module: name of the module that has the functions.
        path: its file.
        tasks: as in :func:`_outcomes`.
        options: of the command line.
        pipe: file descriptor that the outcomes are written to, as lines of JSON.
    """

    def __init__(
        self,
        module: str,
        path: Path,
        tasks: Sequence[_Task],
        options: argparse.Namespace,
        pipe: int,
    ) -> None:
        self.module, self.path, self.tasks, self.options = module, path, tasks, options
        self.pipe = pipe
        self.killers: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.killers.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions: dict[CodeType, list[FunctionType]] = {}
        gc.unfreeze()  # conftest.py freezes what has been collected, which hides it
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__module__ == self.module:
                functions.setdefault(one.__code__, []).append(one)
        original = self.path.read_text(encoding="utf-8")
        gc.freeze()  # otherwise each child would scan all objects

        def run(task: _Task) -> int:
            changes = _changed_functions(original, task.code)
            if changes is None or not all(old in functions for old, _ in changes):
                return _NOT_HERE
            try:
                for old, new in changes:
                    for function in functions[old]:
                        function.__code__ = new
            except ValueError:  # it has other free variables
                return _NOT_HERE
            chosen = [items[one] for one in task.tests]
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.killers and not self.options.matrix:
                    return 1
            if self.options.matrix:
                _keep(task.mutant, self.killers)
            return bool(self.killers)

        # The first is the control, which is to end before the others begin.
        for first, tasks in ((0, self.tasks[:1]), (1, self.tasks[1:])):
            for number, outcome, seconds in _outcomes(tasks, self.options, run):
                line = json.dumps([first + number, outcome, seconds])
                os.write(self.pipe, line.encode() + b"\n")
        return True


def _changed_functions(before: str, after: str) -> list[tuple[CodeType, CodeType]] | None:
    """The functions that differ between two versions of a module; None if something else does."""
    changes = []
    scopes = [tuple(compile(code, "", "exec", dont_inherit=True) for code in (before, after))]
    while scopes:
        old, new = scopes.pop()
        inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
        if _own_code(old) != _own_code(new) or len(inner[0]) != len(inner[1]):
            return None
        for pair in zip(*inner, strict=True):
            if not pair[0].co_flags & inspect.CO_OPTIMIZED:  # the body of a class
                scopes.append(pair)
            elif pair[0] != pair[1]:
                changes.append(pair)
    return changes


def _own_code(scope: CodeType) -> tuple[Any, ...]:
    """The code of a module or class without the functions in it."""
    values = [repr(one) for one in scope.co_consts if not isinstance(one, CodeType)]
    return scope.co_code, values, scope.co_names, scope.co_freevars, scope.co_cellvars


def _pytest(files: Sequence[str], plugin: object, *, stop: bool = True) -> int:
    options = ["-x"] if stop else []
    options += ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins are imported already
    return int(pytest.main([*options, *files], plugins=[plugin]))


def _forked(act: Callable[[], int]) -> int:
    """Fork a process that calls a function, without output, and exits with its result."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        code = act()
    finally:
        os._exit(code)


def _baseline(path: Path, files: Sequence[str], deselect: Sequence[str]) -> dict[str, Any]:
    target = RESULTS / f"baseline-{os.getpid()}.json"

    def act() -> int:
        plugin = _Baseline(path, deselect)
        code = _pytest(files, plugin)
        target.write_text(json.dumps(plugin.result()))
        return code

    code = os.waitstatus_to_exitcode(os.waitpid(_forked(act), 0)[1])
    found: dict[str, Any] = json.loads(target.read_text())
    target.unlink()
    if code:
        sys.exit(f"the tests fail without a change: {found['failed'] or code}")
    return found


def _preload(modules: Sequence[str]) -> None:
    """Import what the tests import, except the tested module and the tests themselves."""
    for name in modules:
        if name.startswith(("test", "conftest", "fake", "fault", "_")) or name == "__main__":
            continue
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.freeze()  # otherwise each child would scan all objects


# ---------------------------------------------------------------------- one module


def run(name: str, settings: dict[str, Any], options: argparse.Namespace) -> list[Mutant]:
    """All mutants of a module, with their outcomes."""
    path = ROOT / settings["file"]
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    found = _baseline(path, settings["tests"], settings["deselect"])
    _preload(found["modules"])
    seconds = {test: took for test, took in found["seconds"].items() if took <= settings["slowest"]}
    by_line = {int(line): set(tests) for line, tests in found["tests_by_line"].items()}
    known = {(one["before"], one["after"]) for one in settings["equivalent"]}
    again = _last_time(name, options)
    # Run like the mutants: otherwise every failure of this setup would count as killed.
    unchanged = path.read_text(encoding="utf-8")
    control = _forked(lambda: _tested(module, path, unchanged, sorted(seconds)))
    if os.waitstatus_to_exitcode(os.waitpid(control, 0)[1]):
        sys.exit("the tests fail without a change when they run as for a mutant")

    tasks: list[_Task] = []
    done: list[Mutant] = []
    for mutant, code in mutants_of(path):
        if again is not None and (mutant.before, mutant.after) not in again:
            continue
        done.append(mutant)
        tests = set(seconds)
        if mutant.lines is not None:
            first, last = mutant.lines
            reached = (by_line.get(line, set()) for line in range(first, last + 1))
            tests &= set().union(*reached)
        if (mutant.before, mutant.after) in known:
            mutant.outcome = "equivalent"
        elif not tests:
            mutant.outcome = "not covered"
        else:
            here = by_line.get(mutant.line, set())
            chosen = sorted(tests, key=lambda t: (t not in here, seconds[t]))
            # With a factor for other load on the machine.
            limit = options.limit + 10 * sum(seconds[one] for one in chosen)
            tasks.append(_Task(mutant, code, chosen, limit))

    quick = [task for task in tasks if task.mutant.lines is not None]
    control_task = _Task(Mutant(0, None, "", ""), unchanged, sorted(seconds), 3600)
    outcomes = _in_place(module, path, settings, [control_task, *quick], options)
    if (control_outcome := next(outcomes)[1]) != "survived":
        sys.exit(f"the tests fail without a change after the collection: {control_outcome}")
    before_tests = set(found["before_tests"])
    for number, outcome, took in outcomes:
        mutant = quick[number - 1].mutant
        # Lines that run before the tests, such as those that create parameters, need a new import.
        if outcome != "survived" or not before_tests & _body(mutant.lines):
            mutant.outcome, mutant.seconds = outcome, took
            _show(mutant)
    rest = [task for task in tasks if not task.mutant.outcome]

    def test(task: _Task) -> int:
        matrix_of = task.mutant if options.matrix else None
        return _tested(module, path, task.code, task.tests, matrix_of)

    for number, outcome, took in _outcomes(rest, options, test):
        mutant = rest[number].mutant
        mutant.outcome, mutant.seconds = outcome, took
        _show(mutant)
    if options.matrix:
        _show_matrix(name, seconds)
    return done


def _body(lines: tuple[int, int] | None) -> set[int]:
    """The lines of a function without the first, which runs at its definition."""
    first, last = lines or (0, 0)
    return set(range(first + 1, last + 1))


def _show(mutant: Mutant) -> None:
    if mutant.outcome in _SURVIVED:
        print(f"  line {mutant.line}: {mutant.outcome}", flush=True)
        print(f"    - {mutant.before}\n    + {mutant.after}", flush=True)


def _outcomes(
    tasks: Sequence[_Task], options: argparse.Namespace, act: Callable[[_Task], int]
) -> Iterator[tuple[int, str, float]]:
    """Run each task in a separate process; yield number, outcome and seconds as they end.

    The outcome is empty if the code could not be replaced in place.
    """
    waiting = list(enumerate(tasks))
    under_way: dict[int, tuple[int, float]] = {}
    while waiting or under_way:
        while waiting and len(under_way) < options.jobs:
            number, task = waiting.pop(0)
            under_way[_forked(partial(act, task))] = number, time.perf_counter()
        time.sleep(0.002)
        for pid, (number, began) in list(under_way.items()):
            seconds = time.perf_counter() - began
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                outcome = {0: "survived", 5: "not covered", _NOT_HERE: ""}.get(code, "killed")
            elif seconds > tasks[number].limit:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                outcome = "timeout"
            else:
                continue
            del under_way[pid]
            yield number, outcome, seconds


def _in_place(
    module: str,
    path: Path,
    settings: dict[str, Any],
    tasks: Sequence[_Task],
    options: argparse.Namespace,
) -> Iterator[tuple[int, str, float]]:
    """As :func:`_outcomes`, in processes forked from one that has collected all tests."""
    ours, theirs = os.pipe()
    plugin = _Collected(module, path, tasks, options, theirs)
    pid = _forked(lambda: _pytest(settings["tests"], plugin))
    os.close(theirs)
    with os.fdopen(ours) as lines:
        for line in lines:
            number, outcome, seconds = json.loads(line)
            yield number, outcome, seconds
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        sys.exit(f"the process that collected the tests ended with {code}")


def _tested(
    module: str, path: Path, code: str, chosen: Sequence[str], matrix_of: Mutant | None = None
) -> int:
    sys.meta_path.insert(0, _Import(module, path, code))
    files = list(dict.fromkeys(one.partition("::")[0] for one in chosen))
    plugin = _Selection(chosen)
    result = _pytest(files, plugin, stop=matrix_of is None)
    if matrix_of is not None:
        # A file that cannot be imported with the mutant is killed by each of its tests.
        _keep(matrix_of, plugin.killers or (chosen if result else []))
    return result


# ---------------------------------------------------------------------- the matrix


def _keep(mutant: Mutant, killers: Sequence[str]) -> None:
    """Add the tests that kill a mutant to the matrix of this run."""
    line = json.dumps({"line": mutant.line, "after": mutant.after, "killers": [*killers]})
    with open(RESULTS / "matrix.jsonl", "ab", buffering=0) as file:  # by several processes
        file.write(line.encode() + b"\n")


def smallest(matrix: Sequence[dict[str, Any]]) -> list[str]:
    """The functions of a small set of tests that kills all mutants that any test kills.

    Greedy: each time the function that kills most of what is left. A test that alone kills a
    mutant is always among them.

    Args:
        matrix: for each mutant, ``killers``: the ids of the tests that kill it.
    """
    left = [{test.partition("[")[0] for test in row["killers"]} for row in matrix]
    chosen = []
    while left := [killers for killers in left if killers]:
        counts = Counter(test for killers in left for test in killers)
        best = min(counts, key=lambda test: (-counts[test], test))
        chosen.append(best)
        left = [killers for killers in left if best not in killers]
    return chosen


def _show_matrix(name: str, tests: Iterable[str]) -> None:
    """Print how many mutants each test function kills, and whether it is in the smallest set."""
    path = (RESULTS / "matrix.jsonl").replace(RESULTS / f"{name}.matrix.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    needed = set(smallest(rows))
    kills = Counter(
        test for row in rows for test in {one.partition("[")[0] for one in row["killers"]}
    )
    for test in sorted({one.partition("[")[0] for one in tests}):
        print(f"  {'needed' if test in needed else '      '} {kills[test]:4} {test}")


def _last_time(name: str, options: argparse.Namespace) -> set[tuple[str, str]] | None:
    """The mutants to run again because of their last outcome; None: all."""
    if not (options.again or options.timeouts):
        return None
    outcomes = (_SURVIVED if options.again else ()) + (("timeout",) if options.timeouts else ())
    saved = json.loads((RESULTS / f"{name}.json").read_text())
    return {(one["before"], one["after"]) for one in saved if one["outcome"] in outcomes}


def _summary(name: str, mutants: Sequence[Mutant], began: float) -> str:
    counts = dict.fromkeys(("killed", "timeout", "survived", "not covered", "equivalent"), 0)
    for mutant in mutants:
        counts[mutant.outcome] += 1
    tried = len(mutants) - counts["equivalent"]
    caught = counts["killed"] + counts["timeout"]
    took = time.perf_counter() - began
    parts = ", ".join(f"{count} {one}" for one, count in counts.items() if count)
    return (
        f"{name}: {caught / max(tried, 1):.1%} of {tried} ({parts}) "
        f"in {took:.0f} s, {took / max(tried, 1):.2f} s each"
    )


def main() -> None:
    configuration = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))
    modules = configuration["modules"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help=f"default: all. Some of: {', '.join(modules)}")
    parser.add_argument(
        "--again", action="store_true", help="only mutants that survived the last run"
    )
    parser.add_argument(
        "--timeouts", action="store_true", help="only mutants that timed out in the last run"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=5,
        help="seconds per mutant, in addition to ten times the duration of its tests (default: 5)",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the mutants without running them"
    )
    parser.add_argument(
        "--matrix", action="store_true", help="run all tests of each mutant; print which are needed"
    )
    parser.add_argument("-j", "--jobs", type=int, default=1, help="number of concurrent mutants")
    options = parser.parse_args()
    unknown = set(options.modules) - set(modules)
    if unknown:
        parser.error(f"no such module: {', '.join(sorted(unknown))}")
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))  # another copy may be installed
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    RESULTS.mkdir(parents=True, exist_ok=True)
    summaries = []
    for name in options.modules or modules:
        settings = {
            "slowest": configuration["slowest"],
            "deselect": configuration["deselect"],
            "equivalent": [one for one in configuration["equivalent"] if one["module"] == name],
            **modules[name],
        }
        if options.list:
            for mutant, _ in mutants_of(ROOT / settings["file"]):
                print(f"{name}:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}")
            continue
        print(name, flush=True)
        began = time.perf_counter()
        mutants = run(name, settings, options)
        if not (options.again or options.timeouts):
            saved = json.dumps([asdict(one) for one in mutants], indent=1)
            (RESULTS / f"{name}.json").write_text(saved)
        summaries.append(_summary(name, mutants, began))
        print(summaries[-1], flush=True)
    print("\n".join(["", *summaries]))


if __name__ == "__main__":
    main()
