"""Tests mirror the modules: each module with functions or methods has a test file of its name."""

import re
from pathlib import Path

import pytest

import rooms

TESTS = Path(__file__).parent

ELSEWHERE: dict[str, str] = {
    "_moved.py": "test_rooms.py",
    "effects.py": "test_ranking_pass.py",
}
"""Modules that have no file of their name, because what they do shows in another one's tests."""

NOT_YET: dict[str, str] = {
    "adapters/http_server/admission.py": "adapters/http_server/test_hostile.py",
    "adapters/http_server/application.py": "adapters/http_server/test_service.py",
    "adapters/http_server/connections.py": "adapters/http_server/test_hostile.py",
    "adapters/http_server/errors.py": "adapters/http_server/test_bodies.py",
    "adapters/http_server/fields.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/metrics.py": "adapters/http_server/test_service.py",
    "adapters/http_server/server.py": "adapters/http_server/test_drain.py",
    "adapters/http_server/settings.py": "adapters/http_server/test_service.py",
    "adapters/http_server/shapes/__init__.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/shapes/base.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/shapes/cohere.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/shapes/common.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/shapes/jina.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/shapes/mixedbread.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/shapes/tei.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/shapes/voyage.py": "adapters/http_server/test_shapes.py",
    "adapters/http_server/workers.py": "adapters/http_server/test_drain.py",
    "adapters/mcp_server/records.py": "adapters/mcp_server/test_tools.py",
    "adapters/ray/configurations.py": "adapters/ray/test_running.py",
    "adapters/ray/inputs.py": "adapters/ray/test_running.py",
    "adapters/ray/parts.py": "adapters/ray/test_folder.py",
    "adapters/ray/replica.py": "adapters/ray/test_serving.py",
    "adapters/ray/scanning.py": "adapters/ray/test_blocks.py",
    "adapters/ray/staging.py": "adapters/ray/test_folder.py",
    "adapters/ray/storage.py": "adapters/ray/test_folder.py",
    "adapters/ray/worker.py": "adapters/ray/test_inspection.py",
    "adapters/request_batches.py": "adapters/mcp_server/test_tools.py",
    "adapters/span_attributes.py": "adapters/test_opentelemetry.py",
    "cli/app.py": "cli/test_command.py",
    "cli/commands/evaluate.py": "cli/test_eval.py",
    "cli/commands/mcp.py": "adapters/mcp_server/test_transports.py",
    "cli/commands/presets.py": "cli/test_command.py",
    "cli/commands/schema.py": "cli/test_command.py",
    "cli/commands/serve.py": "adapters/http_server/test_drain.py",
    "cli/compared.py": "cli/test_eval.py",
    "cli/configurations.py": "config/test_files.py",
    "cli/evaluation_output.py": "cli/test_eval.py",
    "cli/first_stages.py": "cli/test_eval_corpus.py",
    "cli/judging.py": "cli/test_judge.py",
    "cli/monitored.py": "cli/test_drift.py",
    "cli/network.py": "cli/test_command.py",
    "cli/options.py": "cli/test_command_line.py",
    "cli/plans.py": "cli/test_plan.py",
    "cli/rankings.py": "cli/rerank/test_formats.py",
    "cli/rerank_input.py": "cli/rerank/test_formats.py",
    "cli/resuming.py": "cli/rerank/test_resuming.py",
    "cli/review.py": "cli/test_judge.py",
    "cli/running.py": "cli/test_command.py",
    "cli/search_results.py": "cli/test_query.py",
    "cli/served.py": "adapters/http_server/test_drain.py",
    "cli/suite_options.py": "cli/test_eval.py",
    "cli/vectors.py": "formats/test_files.py",
    "concurrency/callbacks.py": "runtime/test_observers.py",
    "concurrency/sqlite_connection.py": "runtime/test_answer_file.py",
    "evaluation/calibration/fingerprint.py": "evaluation/calibration/test_calibrating.py",
    "evaluation/calibration/mapping.py": "evaluation/calibration/test_calibrating.py",
    "evaluation/calibration/result.py": "evaluation/calibration/test_calibrating.py",
    "evaluation/costs.py": "evaluation/test_results.py",
    "evaluation/environment.py": "evaluation/test_provenance.py",
    "evaluation/gates/regrets.py": "evaluation/gates/test_learning.py",
    "evaluation/judging/correction.py": "evaluation/judging/test_judge.py",
    "evaluation/judging/folder.py": "evaluation/judging/test_judge.py",
    "evaluation/judging/grading.py": "evaluation/judging/test_judge.py",
    "evaluation/judging/labels.py": "evaluation/judging/test_judge.py",
    "evaluation/judging/pool_file.py": "evaluation/judging/test_judge.py",
    "evaluation/judging/review.py": "evaluation/judging/test_judge.py",
    "evaluation/period_tests.py": "evaluation/test_drift.py",
    "evaluation/progress.py": "evaluation/test_notebook.py",
    "evaluation/report/cells.py": "evaluation/report/test_tables.py",
    "evaluation/report/corrected.py": "evaluation/report/test_tables.py",
    "evaluation/report/files.py": "evaluation/report/test_tables.py",
    "evaluation/report/front.py": "evaluation/report/test_tables.py",
    "evaluation/report/overview.py": "evaluation/report/test_tables.py",
    "evaluation/report/queries.py": "evaluation/report/test_tables.py",
    "evaluation/report/svg.py": "evaluation/report/test_tables.py",
    "evaluation/report/text.py": "evaluation/report/test_tables.py",
    "evaluation/report/tuning.py": "evaluation/report/test_tables.py",
    "evaluation/tuning/checks.py": "evaluation/tuning/test_tuning.py",
    "evaluation/tuning/choosing.py": "evaluation/tuning/test_tuning.py",
    "evaluation/tuning/records.py": "evaluation/tuning/test_tuning.py",
    "evaluation/tuning/trials.py": "evaluation/tuning/test_tuning.py",
    "scorers/embedded_pairs.py": "scorers/test_embedded.py",
    "scorers/engines/cached_pairs.py": "scorers/engines/test_pairs.py",
    "scorers/engines/conversion.py": "scorers/engines/test_exporting.py",
    "scorers/engines/copies.py": "scorers/engines/test_sharing.py",
    "scorers/engines/light.py": "scorers/engines/test_files.py",
    "scorers/engines/sqlite_scores.py": "scorers/engines/test_score_cache.py",
    "scorers/engines/torch_pairs.py": "scorers/engines/test_pairs.py",
    "scorers/engines/torch_vectors.py": "scorers/test_late_interaction.py",
    "scorers/engines/vector_scores.py": "scorers/test_late_interaction.py",
    "scorers/engines/workers.py": "scorers/engines/test_joining_failures.py",
    "scorers/minilm.py": "scorers/test_embedded.py",
    "scorers/minilm_graph.py": "scorers/test_embedded.py",
}
"""The same, of modules whose tests should move to a file of their name."""


def has_logic(path: Path) -> bool:
    """Whether a module defines a function, or a class with methods. Parsing all takes a second."""
    return re.search(r"^(?:    )?(?:async )?def ", path.read_text("utf-8"), re.M) is not None


def places(module: str) -> list[str]:
    """The file and the folder that may have the tests of a module."""
    path = Path(module).with_suffix("")
    if path.name == "__init__":  # the package is tested in the folder of its name
        return [str(path.parent)]
    folder = path.parent
    if folder == Path("cli/commands"):
        folder = Path("cli")
    return [str(folder / f"test_{path.name}.py"), str(folder / path.name)]


def is_tested(module: str, tests: Path = TESTS) -> bool:
    """Whether there is a file or a folder of the module's name."""
    return any((tests / place).exists() for place in places(module))


def untested(modules: list[str], elsewhere: dict[str, str], tests: Path = TESTS) -> list[str]:
    """What is wrong with the tests of modules and with the tables, sorted."""
    missing = [
        f"{module} has none of {' and '.join(places(module))}"
        for module in modules
        if module not in elsewhere and not is_tested(module, tests)
    ]
    for module, file in elsewhere.items():
        if module not in modules:
            missing.append(f"{module} is no module with logic")
        elif is_tested(module, tests):
            missing.append(f"{module} has a file of its own")
        elif not (tests / file).is_file():
            missing.append(f"{file}, of {module}, does not exist")
    return sorted(missing)


def test_each_module_has_a_test_file():
    modules = [
        path.relative_to(rooms.PACKAGE).as_posix()
        for path in sorted(rooms.PACKAGE.rglob("*.py"))
        if not rooms.is_shim(path) and has_logic(path)
    ]
    assert not ELSEWHERE.keys() & NOT_YET.keys()
    assert untested(modules, {**ELSEWHERE, **NOT_YET}) == []


@pytest.mark.parametrize("table", [ELSEWHERE, NOT_YET], ids=["ELSEWHERE", "NOT_YET"])
def test_tables_are_sorted(table):
    assert list(table) == sorted(table)


@pytest.fixture
def tests(tmp_path):
    """A file of the name of ``room/a.py``, a folder of that of ``room/b.py``, and a command's."""
    for name in ("room/test_a.py", "room/b/test_x.py", "cli/test_plan.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


MODULES = ["cli/commands/plan.py", "room/__init__.py", "room/a.py", "room/b.py", "room/c.py"]
C_IS_MISSING = "room/c.py has none of room/test_c.py and room/c"


@pytest.mark.parametrize(
    ("elsewhere", "wrong"),
    [
        ({}, [C_IS_MISSING]),
        ({"room/c.py": "room/test_a.py"}, []),
        ({"room/c.py": "room/test_z.py"}, ["room/test_z.py, of room/c.py, does not exist"]),
        ({"room/a.py": "room/test_a.py"}, ["room/a.py has a file of its own", C_IS_MISSING]),
        ({"room/d.py": "room/test_a.py"}, [C_IS_MISSING, "room/d.py is no module with logic"]),
    ],
    ids=["without an entry", "right", "no such file", "needless", "no such module"],
)
def test_what_is_missing_is_found(tests, elsewhere, wrong):
    assert untested(MODULES, elsewhere, tests) == wrong


@pytest.mark.parametrize(
    ("text", "logic"),
    [
        ("X = 1", False),
        ("class A:\n    x: int = 1", False),
        ("class A(Exception):\n    '''Text.'''", False),
        ("class A:\n    def f(self): ...", True),
        ("def f(): ...", True),
        ("async def f(): ...", True),
    ],
)
def test_modules_with_logic(tmp_path, text, logic):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert has_logic(path) is logic
