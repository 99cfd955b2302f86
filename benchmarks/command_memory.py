"""Measures the memory of ``secondpass rerank`` on a large file (Linux).

    python benchmarks/command_memory.py
    python benchmarks/command_memory.py --queries 100 1000

Ranks files of queries with 100 candidates each with ``lexical``, and prints their size and the peak
of the resident memory of the process. This process stays small, because the peak of a child is at
least what its parent had when it started.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

CANDIDATES = 100
WORDS = 56  # about 500 bytes of JSON for each candidate
LEXICON = [f"term{number}" for number in range(2_000)]


def write_requests(path: Path, queries: int, candidates: int = CANDIDATES) -> Path:
    draw = random.Random(1)
    with path.open("w") as file:
        for number in range(queries):
            found = [
                {"id": f"d{place}", "text": " ".join(draw.choices(LEXICON, k=WORDS))}
                for place in range(candidates)
            ]
            query = " ".join(draw.choices(LEXICON, k=6))
            request = {"query_id": f"q{number}", "query": query, "candidates": found}
            file.write(json.dumps(request) + "\n")
    return path


def peak(path: Path, output: Path) -> float:
    """Peak of the resident memory of the command, in MB."""
    command = [sys.executable, "-m", "secondpass", "rerank", str(path), "--preset", "lexical"]
    command.append("--strict")
    messages = output.with_suffix(".stderr")
    with output.open("wb") as file, messages.open("wb") as errors:
        process = subprocess.Popen(command, stdout=file, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{messages.read_text()}the command ended with {process.returncode}")
    return used.ru_maxrss * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queries", type=int, nargs="+", default=[100, 1_000])
    options = parser.parse_args()
    print(f"| queries of {CANDIDATES} candidates | file, MB | peak of the memory, MB |")
    print("| ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for queries in options.queries:
            path = write_requests(Path(folder) / "requests.jsonl", queries)
            memory = peak(path, Path(folder) / "ranked.jsonl")
            print(f"| {queries:,} | {path.stat().st_size / 1e6:.0f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
