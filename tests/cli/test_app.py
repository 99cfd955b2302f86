"""Help, versions, and what the command imports."""

import inspect
import json

import pytest
import typer

import secondpass as package
from command_calls import python
from secondpass import MissingExtraError
from secondpass.cli import app

COMMANDS = sorted(app.COMMANDS)


def test_the_help_groups_commands_with_whole_summaries(secondpass):
    told = secondpass("--help")
    assert told.code == 0
    lines = told.out.partition("\nRank:\n")[2].splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    assert names == list(app.COMMANDS)  # a line for each, so that none is wrapped or cut
    assert [line for line in lines if "…" in line or "..." in line] == []
    headings = [line.rstrip(":") for line in lines if line and not line.startswith(" ")]
    assert ["Rank", *headings] == list(app.GROUPS)


@pytest.mark.parametrize("command", [*COMMANDS, "config validate", "config show"])
def test_help_is_whole_and_has_no_types_of_python(secondpass, command):
    told = secondpass(*command.split(), "-h" if "config" in command else "--help")
    assert (told.code, told.err) == (0, "")
    assert f"Usage: secondpass {command}" in told.out
    assert "..." not in told.flat.replace("]...", "")
    assert "<list[" not in told.out.partition("Options:")[2]
    assert "[[" not in told.out


def test_the_version_is_the_package_s(secondpass):
    assert secondpass("--version").out == f"secondpass {package.__version__}\n"


def test_a_similar_command_is_suggested(secondpass):
    told = secondpass("rernk")
    assert (told.code, told.out) == (2, "")
    suggests = "suggest_commands" in inspect.signature(typer.Typer).parameters  # newer ones do
    assert ("rerank" in told.flat) is suggests


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_packages_it_says_how_to_get_them(missing):
    told = python(f"""
import sys
from secondpass.cli import main
sys.modules[{missing!r}] = None
sys.argv = ["secondpass", "presets"]
main()
""")
    assert told.returncode == 1
    assert MissingExtraError("cli", "it").command in told.stderr
    assert "Traceback" not in told.stderr


IMPORTS = """
import json, sys
imported, found = set(), {}
def record(step):
    found[step] = sorted({*sys.modules} - imported)
    imported.update(sys.modules)
import secondpass
record("library")
from secondpass.cli import main
for command in sys.argv[1].split():
    sys.argv = ["secondpass", command, "--help"]
    try: main()
    except SystemExit: record(command)
print(json.dumps(found))
"""
"""What a process imports for the library, and then for the help of one command after another."""


@pytest.fixture(scope="module")
def imports():
    """Imported modules by what imports them first: the library, then ``eval`` and the others."""
    commands = ["eval", *(name for name in COMMANDS if name != "eval"), "--help"]
    done = python(IMPORTS, " ".join(commands))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_library_imports_nothing_of_the_command(imports):
    ours = ("typer", "rich", "click", "secondpass.cli")
    assert [name for name in imports["library"] if name.startswith(ours)] == []


def test_help_imports_nothing_slow(imports):
    """A model runtime or a Markdown parser would double the CPU time."""
    slow = "numpy scipy torch onnxruntime openvino openai matplotlib httpx asyncio yaml pygments"
    assert [name for names in imports.values() for name in names if name in slow.split()] == []
    assert "secondpass_evaluation.search.retrieval" not in imports["library"] + imports["eval"]


def test_a_command_imports_no_other(imports):
    of_commands = {path.partition(":")[0] for path in app.COMMANDS.values()}
    for command in COMMANDS:
        module = app.COMMANDS[command].partition(":")[0]
        assert of_commands.intersection(imports[command]) <= {module}


def test_help_imports_no_other_package(imports):
    """The packages beside the core are imported by their own commands only."""
    for command in COMMANDS:
        own = app.COMMANDS[command].partition(".")[0]
        packages = {name.partition(".")[0] for name in imports[command]}
        assert {name for name in packages if name.startswith("secondpass")} <= {"secondpass", own}
