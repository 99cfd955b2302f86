"""Without a package, an example says in a sentence what to install."""

import subprocess
import sys

import missing_package
import pytest

from example_commands import EXAMPLES, ROOT, commands
from secondpass import MissingExtraError

PROGRAMS = sorted(
    path
    for path in EXAMPLES.rglob("*.py")
    if 'if __name__ == "__main__":' in path.read_text("utf-8")
)
SENTENCE = "{name}: the package {package} is not installed. Run this in the root of the repository:"


def name_of(path):
    program = path.parent if path.stem == "__main__" else path
    return program.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PROGRAMS, ids=name_of)
def test_the_head_says_how_to_install_and_to_run(path):
    lines = commands(path)
    installs = [line for line in lines if line.startswith("pip install ")]
    runs = lines[len(installs) :]
    assert lines[: len(installs)] == installs != []
    module = f"cd examples && python -m {path.relative_to(EXAMPLES).with_suffix('').as_posix()}"
    starts = (f"python {name_of(path)}", module.replace("/", "."))
    assert runs
    assert [line for line in runs if not line.startswith(starts)] == []


COPIED = EXAMPLES / "langchain_compressor.py"  # into projects, where `missing_package` is not


@pytest.mark.parametrize("path", [path for path in PROGRAMS if path != COPIED], ids=name_of)
def test_without_any_package(path):
    """``-S`` leaves out what is installed, ``-E`` what PYTHONPATH names."""
    command, folder = [path], ROOT
    if path.stem in ("over_coprocess", "validate"):
        command, folder = ["-m", f"{path.parent.name}.{path.stem}"], EXAMPLES
    done = subprocess.run(
        [sys.executable, "-SE", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    first, *lines = done.stderr.splitlines()
    package = first.partition("package ")[2].partition(" ")[0]
    assert first == SENTENCE.format(name=name_of(path), package=package)
    assert lines == [f"    {line}" for line in commands(path) if line.startswith("pip ")]
    assert (done.returncode, done.stdout) == (1, "")


def raised(path, statement):
    """An error that a statement in a program raises."""
    with pytest.raises(Exception) as info:  # noqa: PT011 - the statements raise different ones
        exec(compile(statement, path, "exec"), {"MissingExtraError": MissingExtraError})
    return info.value


NEWS = EXAMPLES / "recipes/news.py"


@pytest.mark.parametrize(
    ("statement", "beginning"),
    [
        ("import no_such_package", "the package no_such_package is not installed."),
        ("raise MissingExtraError('embedded', 'it')", "it needs packages that are not installed."),
        ("from secondpass import no_such_name", None),
        ("raise ValueError", None),
    ],
)
def test_which_errors_are_explained(statement, beginning):
    message = missing_package.message(raised(NEWS, statement))
    assert message == (
        beginning
        and f"examples/recipes/news.py: {beginning} Run this in the root of the repository:\n"
        f"    {commands(NEWS)[0]}"
    )


def test_other_programs_keep_their_traceback(tmp_path):
    assert missing_package.message(raised(tmp_path / "other.py", "import no_such_package")) is None
