"""Tests mirror the modules: each module with functions or methods has a test file of its name."""

import re
from pathlib import Path

import pytest

import rooms

TESTS = Path(__file__).parent

ELSEWHERE: dict[str, dict[str, str]] = {
    "secondpass": {"effects.py": "test_ranking_pass.py"},
}
"""Modules without a file of their name, and the file that tests them through what uses them.

``effects`` has only records and protocols.
"""


def has_logic(path: Path) -> bool:
    """Whether a module defines a function, or a class with methods. Parsing all takes a second."""
    return re.search(r"^(?:    )?(?:async )?def ", path.read_text("utf-8"), re.M) is not None


FOLDERS = {
    "secondpass": ".",
    "secondpass_evaluation": "evaluation",
    "secondpass_ray": "ray",
    "secondpass_server": "server",
}
"""The folder of the tests of each package."""


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
    for package, folder in FOLDERS.items():
        root = rooms.PACKAGE.parent / package
        modules = [
            path.relative_to(root).as_posix() for path in root.rglob("*.py") if has_logic(path)
        ]
        elsewhere = ELSEWHERE.get(package, {})
        modules = [module for module in modules if module != "__init__.py"]
        assert untested(modules, elsewhere, TESTS / folder) == []


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
