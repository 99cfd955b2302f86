"""The commands in the READMEs and docstrings of the examples, and how to run one."""

from __future__ import annotations

import ast
import runpy
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = ("pip", "python", "uvicorn", "cd")


def commands(path: Path) -> list[str]:
    """The lines of console blocks of Markdown, and the indented command lines of a docstring."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        lines = (ast.get_docstring(ast.parse(text)) or "").splitlines()
        starts = tuple(f"    {program} " for program in PROGRAMS)
        return [line.strip() for line in lines if line.startswith(starts)]
    blocks = [block.partition("```")[0] for block in text.split("```console\n")[1:]]
    return [line for block in blocks for line in block.splitlines() if line]


def of_folder(folder: Path) -> list[str]:
    """The commands of all programs and pages of a folder, without repetitions."""
    paths = sorted([*folder.rglob("*.md"), *folder.rglob("*.py")])
    return list(dict.fromkeys(command for path in paths for command in commands(path)))


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run ``python SCRIPT …`` in this process, from the root of the repository; the exit code."""
    program, script, *arguments = shlex.split(command)
    assert program == "python"
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0
