"""The console blocks of a page, with the output that the page shows, and how they are run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from unset_models import MODEL_VARIABLES

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
