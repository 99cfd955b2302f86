"""A process that runs one engine, for the driver: JSON lines on stdin, JSON lines on stdout.

Commands, each answered by one line:

- ``{"do": "load", "row": {…}, "model": FOLDER, "scratch": FOLDER, "threads": N, "request": [QUERY,
  [PASSAGE, …]]}`` loads the engine and scores the request.
- ``{"do": "about"}``: versions, heavy packages that are imported, engines that secondpass reports.
- ``{"do": "score", "file": FILE, "index": I, "count": N}`` scores request I of a file with its
  first N passages: CPU and wall seconds, scores, peak memory in MB since the process started.
- ``{"do": "quit"}``

An error is answered by ``{"error": …}``. What a package prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def peak_memory(process: int | str = "self") -> float:
    """Largest resident memory of a process in MB.

    Not ``ru_maxrss``, which also counts the process that started this one.
    """
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc has no VmHWM")


def versions(packages: Iterable[str]) -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


class Worker:
    def __init__(self) -> None:
        self._engine: Any = None
        self._files: dict[str, Any] = {}

    def load(self, command: dict[str, Any]) -> dict[str, Any]:
        from benchmarks.speed.engines import ENGINES, Setup

        row, model, scratch = command["row"], Path(command["model"]), Path(command["scratch"])
        setup = Setup(row["settings"], model, scratch, command["threads"])
        self._engine = ENGINES[row["engine"]](setup)
        query, passages = command["request"]
        return {"scores": list(self._engine.prepare(query, passages)())}

    def about(self, _command: dict[str, Any]) -> dict[str, Any]:
        heavy = [name for name in ("torch", "transformers") if name in sys.modules]
        found = versions(type(self._engine).packages)
        engines = getattr(self._engine, "engines", [])
        return {"versions": found, "heavy": heavy, "engines": engines}

    def score(self, command: dict[str, Any]) -> dict[str, Any]:
        file = command["file"]
        if file not in self._files:
            self._files[file] = json.loads(Path(file).read_text(encoding="utf-8"))
        query, passages = self._files[file][command["index"]]
        call = self._engine.prepare(query, passages[: command.get("count")])
        cpu, wall = time.process_time(), time.perf_counter()
        scores = call()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        scores = [float(score) for score in scores]
        return {"cpu": cpu, "wall": wall, "scores": scores, "peak_mb": peak_memory()}


def main() -> None:
    # Packages print to stdout; replies go to a copy of it.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "quit":
            close = getattr(worker._engine, "close", None)
            if close is not None:
                close()
            break
        try:
            reply = getattr(worker, command["do"])(command)
        except (Exception, SystemExit) as error:
            text = " ".join(str(error).split())[:300]
            reply = {"error": f"{type(error).__name__}: {text}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
    # A package's background threads would otherwise keep the process.
    sys.stderr.flush()
    os._exit(0)
