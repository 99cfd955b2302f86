"""Every console block of the READMEs runs, and prints what the README shows."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import scripted_model

import example_commands
from unset_models import MODEL_VARIABLES

EXAMPLES = Path(scripted_model.__file__).parent
FOLDERS = ("planning_search", "learning_search", "local_rag", "docs_search", "memory_recall")


_CONSOLE = re.compile(r"```console\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Commands; and their standard output, if the page shows it."""

    commands: str
    output: str | None


def console_blocks(page: Path) -> list[Block]:
    found = _CONSOLE.findall(page.read_text(encoding="utf-8"))
    return [Block(commands, output or None) for commands, output in found]


def copied(folder: Path, into: Path) -> Path:
    """A copy of a folder without caches, for commands that write files."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(folder, into / folder.name, ignore=ignored))


def of_kind(program: str, path: Path) -> list[str]:
    """The commands in the docstring of an example that run a program, such as pip or python."""
    starts = (f"{program} ", f"cd examples && {program} ")
    return [line for line in example_commands.commands(path) if line.startswith(starts)]


def run(block: Block, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands of a block in a folder, by this interpreter, without keys."""
    paths = os.environ.get("PYTHONPATH", "")
    environment = {k: v for k, v in os.environ.items() if k not in MODEL_VARIABLES}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    if paths:  # relative ones are meant from here
        absolute = [str(Path(path).absolute()) for path in paths.split(os.pathsep) if path]
        environment["PYTHONPATH"] = os.pathsep.join(absolute)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def in_this_process(commands, patch):
    """Run ``export`` and ``python -m``: the exit codes. None if there is anything else."""
    codes = []
    for line in commands.splitlines():
        command, _, _ = line.partition(" || ")
        match shlex.split(command):
            case ["export", *variables]:
                for variable in variables:
                    patch.setenv(*variable.split("=", 1))
            case ["python", "-m", name, *arguments] if not name.endswith("over_coprocess"):
                module = importlib.import_module(name)
                if not hasattr(module, "main"):
                    module = importlib.import_module(f"{name}.__main__")
                codes.append(module.main(arguments))
            case _:
                return None
    return codes


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name != "local_rag"])
def test_blocks_without_other_programs(folder, tmp_path, monkeypatch, capsys):
    """Those of local_rag take too long; test_local_rag.py runs its commands, too."""
    monkeypatch.chdir(tmp_path)
    ran = 0
    for block in console_blocks(EXAMPLES / folder / "README.md"):
        with monkeypatch.context() as patch:
            codes = in_this_process(block.commands, patch)
        printed = capsys.readouterr().out
        if codes is not None:
            ran += 1
            assert codes[-1] == ("||" in block.commands)
            if block.output is not None:
                assert printed == re.sub("^exit code .*\n", "", block.output, flags=re.MULTILINE)
    assert ran > 1


@pytest.mark.long  # about thirty processes
@pytest.mark.parametrize("folder", FOLDERS)
def test_console_blocks(folder, tmp_path):
    examples = tmp_path / "examples"
    examples.mkdir()
    copied(EXAMPLES / folder, examples)
    for module in ("scripted_model.py", "coprocess.py", "missing_package.py"):
        (examples / module).write_bytes((EXAMPLES / module).read_bytes())
    install, *blocks = console_blocks(EXAMPLES / folder / "README.md")
    (line,) = of_kind("pip", EXAMPLES / folder / "__main__.py")
    assert install.commands == f"{line}\ncd examples\n"
    for block in blocks:
        done = run(block, examples)
        assert done.returncode == 0, done.stderr
        if block.output is not None:
            assert done.stdout == block.output


@pytest.mark.long  # twenty processes; in this one, the tests of each example run its command
def test_the_commands_of_the_table_and_of_programs_run_from_the_root(tmp_path):
    """As they are printed, one process each, in a copy, because some write files."""
    copied(EXAMPLES, tmp_path)
    (block,) = console_blocks(EXAMPLES / "README.md")
    install, *commands = block.commands.splitlines()
    assert install.startswith("pip install ")
    for folder in (*FOLDERS, "haystack", "llama_index"):
        for path in sorted((EXAMPLES / folder).glob("*.py")):
            commands += of_kind("python", path)
    for command in dict.fromkeys(commands):
        done = run(Block(command, None), tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout
