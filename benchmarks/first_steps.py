"""Measures the time from an empty environment to an evaluation report, by the README's steps.

Starts in an empty environment without pip's cache, as a newcomer does. Installs what the README
says, runs its first example, then the lines of "The command": reranks a file, indexes and queries a
folder of documents (the pages of docs/), and evaluates a small suite. The wheel is built
beforehand. Needs an idle machine and the package index. Fails if the steps take more than five
minutes, or if they install torch.

    python benchmarks/first_steps.py
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "tests" / "docs" / "files"
LIMIT = 300.0
"""Time limit of all steps together, in seconds."""
FENCE = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def steps_of(page: str) -> list[tuple[str, str]]:
    """The language and the code of each step: install lines, the first example, the command.

    Args:
        page: the README. Its console blocks count if they begin with an install line and run
            `secondpass`, or come before the first example.
    """
    steps: list[tuple[str, str]] = []
    for language, code in FENCE.findall(page):
        lines = code.splitlines()
        first_example = all(kind == "console" for kind, _ in steps)
        if language == "console" and lines[0].startswith("pip install"):
            steps += [("console", line.partition(" #")[0].strip()) for line in lines]
        elif language == "python" and first_example:
            steps.append(("python", code))
    return steps


def measure(steps: list[tuple[str, str]], folder: Path, wheels: Path) -> list[tuple[str, float]]:
    """Seconds to create the environment and to run each step in `folder`."""
    bin_folder = folder / ".venv" / "bin"
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {
        **inherited,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_CACHE_DIR": "1",
        "XDG_CACHE_HOME": str(folder / ".cache"),
    }
    commands = [("python -m venv", [sys.executable, "-m", "venv", ".venv"])]
    for language, code in steps:
        if language == "python":
            commands.append(("the first example", ["python", "-c", code]))
        else:
            commands.append((code, ["bash", "-euc", code]))
    return [(name, run(name, command, folder, environment)) for name, command in commands]


def run(name: str, command: list[str], folder: Path, environment: Mapping[str, str]) -> float:
    """Seconds that a command takes in `folder`; exits with its output if it fails."""
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    started = time.perf_counter()
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LIMIT,
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stdout}{done.stderr}")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--keep", metavar="FOLDER", type=Path, help="run in this folder and keep it"
    )
    parsed = parser.parse_args()
    steps = steps_of((ROOT / "README.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        wheels, folder = Path(scratch) / "wheels", parsed.keep or Path(scratch) / "project"
        build = ["pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
        subprocess.run([sys.executable, "-m", *build], check=True)
        shutil.copytree(FILES, folder, ignore=shutil.ignore_patterns("docs"))
        shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.svg"))
        seconds = measure(steps, folder, wheels)
        installed = {path.name for path in folder.glob(".venv/lib/*/site-packages/*")}
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores\n")
    print("| step | s |\n| --- | ---: |")
    for name, value in seconds:
        print(f"| `{name}` | {value:.1f} |")
    total = sum(value for _, value in seconds)
    print(f"| all | {total:.1f} |")
    if "torch" in installed:
        print("Failed: torch was installed", file=sys.stderr)
        return 1
    if total > LIMIT:
        print(f"Failed: the steps took more than {LIMIT:.0f} s", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
