"""Measures a stranger's first minutes: from an empty environment to an evaluation of own questions.

Starts in an empty folder without pip's cache, as a newcomer does, with wheels that are built
beforehand. Runs the README's install lines, as they are after a release, its first example, and its
commands as they are printed.
Then the stranger's own documents: the pages of docs/ and the descriptions of all installed packages
are indexed, and ten questions about them are searched, reranked and evaluated. Needs an idle
machine and the package index. Fails if it takes more than five minutes, or if torch is installed.

    python benchmarks/first_steps.py
    python benchmarks/first_steps.py --readme        only the README, as `make check-wheels` runs it
    python benchmarks/first_steps.py --demo          only `make demo`, in a new clone of this commit

With pip's cache filled, the last one takes what `make demo` takes beside the downloads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from install_lines import written

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
LIMIT = 300.0
"""Time limit of all steps together, in seconds."""
FENCE = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


QUESTIONS = {
    "How do I serve a reranker to clients of Cohere's API?": "docs/serve.md",
    "What does the code model_not_loaded mean?": "docs/troubleshooting.md",
    "Replace LlamaIndex's SentenceTransformerRerank": "docs/coming-from.md",
    "Rerank millions of lists on several machines": "docs/how-to/ray.md",
    "See the time of each stage in OpenTelemetry": "docs/monitoring.md",
    "Cut the results where nothing relevant follows": "docs/thresholds.md",
    "Can somebody read my API key in a log?": "docs/security.md",
    "Print coloured tables in the terminal": "packages/rich.md",
    "Which package runs ONNX models?": "packages/onnxruntime.md",
    "Fast keyword search in Python with sparse matrices": "packages/bm25s.md",
}
"""Questions and the file that answers each, in the stranger's documents."""

PACKAGES = """
from importlib.metadata import distributions
from pathlib import Path
folder = Path("own/packages")
folder.mkdir()
for one in distributions():
    text = one.metadata.get_payload()
    if text and text.strip():
        (folder / f"{one.metadata['Name'].lower()}.md").write_text(text, encoding="utf-8")
"""
"""Writes the description of each installed package, which is its README."""

OWN = [
    "secondpass index own --into own.index",
    'secondpass query "Can somebody read my API key in a log?" --corpus own.index --rerank'
    " --preset embedded",
    "secondpass eval questions.jsonl --corpus own.index --preset embedded --into own.results",
]


def steps_of(page: str) -> list[tuple[str, str]]:
    """The language and the code of each step: install lines, the first example, the command.

    Args:
        page: the README. Its console blocks count if they run `secondpass`, or come before the
            first example; lines that need a clone do not.
    """
    steps: list[tuple[str, str]] = []
    for language, code in FENCE.findall(page):
        lines = [
            written(line, released=True)
            for line in code.splitlines()
            if not line.startswith(("git ", "make ", ". "))
        ]
        first_example = all(kind == "console" for kind, _ in steps)
        is_ours = first_example or any(line.startswith("secondpass ") for line in lines)
        if language == "console" and is_ours:
            steps += [("console", line) for line in lines]
        elif language == "python" and first_example:
            steps.append(("python", code))
    return steps


def write_own(folder: Path) -> None:
    """Write the stranger's documents, without those of packages, and the questions."""
    shutil.copytree(
        ROOT / "docs", folder / "own" / "docs", ignore=shutil.ignore_patterns("*.svg", "data")
    )
    lines = [json.dumps({"query": text, "relevant": [path]}) for text, path in QUESTIONS.items()]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure(steps: list[tuple[str, str]], folder: Path, wheels: Path) -> list[tuple[str, float]]:
    """Seconds to create the environment and to run each step in `folder`."""
    bin_folder = folder / ".venv" / "bin"
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {
        **inherited,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONSTRAINT": str(CONSTRAINTS),
        "PIP_NO_CACHE_DIR": "1",
        "XDG_CACHE_HOME": str(folder / ".cache"),
    }
    commands = [("python -m venv", [sys.executable, "-m", "venv", ".venv"])]
    for language, code in steps:
        if language == "python":
            name = "descriptions of packages" if code == PACKAGES else "the first example"
            commands.append((name, ["python", "-c", code]))
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


def make_demo() -> None:
    """Print the time of `make demo` in a new clone."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "secondpass"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        started = time.perf_counter()
        command = ["make", "demo", f"PYTHON={sys.executable}"]
        subprocess.run(command, cwd=folder, env=environment, check=True)
        seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"make demo: {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--keep", metavar="FOLDER", type=Path, help="run in this folder and keep it"
    )
    parser.add_argument(
        "--wheels", metavar="FOLDER", type=Path, help="install these wheels instead of new ones"
    )
    parser.add_argument("--readme", action="store_true", help="run only the README")
    parser.add_argument("--demo", action="store_true", help="run only `make demo`, in a new clone")
    parsed = parser.parse_args()
    if parsed.demo:
        make_demo()
        return 0
    steps = steps_of((ROOT / "README.md").read_text(encoding="utf-8"))
    if not parsed.readme:
        steps += [("python", PACKAGES), *(("console", line) for line in OWN)]
    with tempfile.TemporaryDirectory() as scratch:
        wheels = parsed.wheels or Path(scratch) / "wheels"
        folder = parsed.keep or Path(scratch) / "project"
        if parsed.wheels is None:
            build = ["pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
            subprocess.run([sys.executable, "-m", *build], check=True)
        folder.mkdir(parents=True)
        if not parsed.readme:
            write_own(folder)
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
    if total > LIMIT and not parsed.readme:
        print(f"Failed: the steps took more than {LIMIT:.0f} s", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
