"""Rerank in a long-running process: ``secondpass rerank --batch 1``.

For applications in other languages. A request is a line of JSON on the process's standard input,
its ranking the next line of its standard output::

    {"query": "cats", "candidates": [{"id": "a", "text": "dogs"}, {"id": "b", "text": "cats"}]}
    {"query": "cats", "ranking": [{"rank": 1, "id": "b", …}, …], "report": {"status": "ok", …}}

To measure the time of a request, without a model::

    pip install -e ".[cli]"
    python examples/coprocess.py
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

import missing_package  # noqa: F401 - says what to install
import typer  # noqa: F401 - the command in the other process needs it


class Coprocess:
    """The process, which runs until :meth:`close`. Threads take turns.

    Args:
        options: of ``secondpass rerank``, such as ``--preset blended_scores``.
    """

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "secondpass", "rerank", "--batch", "1", "--quiet"]
        self._process = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._lock = threading.Lock()

    def rerank(
        self, query: str, candidates: Sequence[Mapping[str, Any]], **settings: Any
    ) -> dict[str, Any]:
        """Rank candidates for a query.

        Args:
            query: the search query.
            candidates: in the retriever's order, each with ``id``, ``text`` and ``score``.
            settings: of this request: ``context``, ``top_k``, ``depth``, ``order``, ``floor``.

        Returns:
            ``ranking`` and ``report``. If the model fails, ``report.status`` says so.

        Raises:
            RuntimeError: the process has ended, for example after a malformed request.
        """
        stdin, stdout = self._pipes
        request = json.dumps({"query": query, "candidates": list(candidates), **settings})
        with self._lock:
            try:
                stdin.write(request + "\n")
                stdin.flush()
                line = stdout.readline()
            except BrokenPipeError:
                line = ""
        if not line:
            raise RuntimeError("secondpass rerank has ended; its standard error says why")
        result: dict[str, Any] = json.loads(line)
        return result

    def close(self) -> int:
        """End the process; returns its exit code."""
        stdin, stdout = self._pipes
        with suppress(BrokenPipeError):
            stdin.close()
        stdout.close()
        return self._process.wait()

    @property
    def _pipes(self) -> tuple[IO[str], IO[str]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        return stdin, stdout

    def __enter__(self) -> Coprocess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def llm_options(llm: Mapping[str, Any]) -> list[str]:
    """The command-line options for these settings of a language model."""
    return [f"--set=method.llm.{name}={json.dumps(value)}" for name, value in llm.items()]


def main() -> None:
    """Measure the time of a request without a model."""
    candidates = [{"id": str(n), "text": f"memory {n} about tea and rain"} for n in range(20)]
    seconds = []
    with Coprocess("--preset", "lexical") as coprocess:
        for number in range(201):
            started = time.perf_counter()
            coprocess.rerank(f"memory {number}", candidates)
            seconds.append(time.perf_counter() - started)
    print(f"first request, including the start of the process: {seconds[0]:.2f} s")
    print(f"next 200 requests: {1000 * statistics.median(seconds[1:]):.1f} ms each (median)")


if __name__ == "__main__":
    main()
