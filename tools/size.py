"""Prints how much there is to read, and how much there is between a caller and the work.

python tools/size.py
"""

from __future__ import annotations

import ast
import json
import os
import re
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any

import rooms
from secondpass import Reranker
from secondpass.effects import Ask
from secondpass.ranking.candidates import to_request

PUBLIC = (
    "secondpass",
    "secondpass.adapters",
    "secondpass.config",
    "secondpass.extend",
    "secondpass_evaluation",
    "secondpass_ray",
    "secondpass_server",
)
"""Where public names are imported from, without the adapters."""

_PASSAGES = [f"passage {number}" for number in range(30)]
_RUNS = 15
_FIRST = """
import secondpass, time
imported = time.process_time()
secondpass.Reranker("lexical").rerank("a query", ["one text", "another query"])
print(imported, time.process_time())
"""


class _Own:
    """A scorer of the caller."""

    def score_pairs(self, _query: str, texts: list[str]) -> list[float]:
        return [float(len(text)) for text in texts]


def modules_crossed() -> dict[str, int]:
    """By way to rank, the files of these sources with code that the second ranking runs."""
    own, listwise = Reranker(_Own()), _listwise()
    calls: dict[str, Callable[[], Any]] = {
        "own scorer": lambda: own.rerank("query", _PASSAGES, top_k=3),
        "listwise": lambda: listwise.rerank("query", _PASSAGES),
    }
    try:
        from haystack import Document

        from haystack_integrations.components.rankers.secondpass import SecondPassRanker
    except ImportError:  # the adapter is not installed
        pass
    else:
        ranker = SecondPassRanker("lexical")
        ranker.warm_up()
        documents = [Document(content=passage) for passage in _PASSAGES]
        calls["SecondPassRanker.run"] = lambda: ranker.run("query", documents, top_k=3)
    return {name: len(_files_of_second(call)) for name, call in calls.items()}


def _files_of_second(call: Callable[[], Any]) -> set[str]:
    sources = tuple(map(str, rooms.SOURCES))
    files: set[str] = set()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(sources):
            files.add(file)

    threading.setprofile(profile)  # for the thread of the event loop, which the first call starts
    sys.setprofile(profile)
    try:
        call()
        files.clear()
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return files


def nested_generators() -> int:
    """How many generators a question of ``listwise`` passes, from the method to the scheduler."""
    reranker = _listwise()
    (item,) = reranker._passes(
        [to_request("query", _PASSAGES, text_needed=True)], reranker._settings({})
    )
    generator: Generator[Any, Any, Any] | None = item.plan
    if not isinstance(next(item.plan), Ask):
        raise AssertionError("the first effect is no question")
    number = 0
    while generator is not None:
        number += 1
        generator = getattr(generator, "gi_yieldfrom", None)
    item.plan.close()
    return number


def _listwise() -> Reranker:
    def model(messages: list[dict[str, str]]) -> str:
        """Rank the passages in the order in which they are shown."""
        return json.dumps({"ranking": re.findall(r'<doc id="(\w+)">', messages[-1]["content"])})

    return Reranker({"type": "listwise", "llm": model})


def start_ms() -> tuple[float, float]:
    """Milliseconds of CPU of a new process, with compiled modules: medians of 15.

    Returns:
        Until secondpass is imported, and until a first ``lexical`` ranking is there.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times: list[list[float]] = []
    for _ in range(_RUNS + 1):
        ended = subprocess.run(
            [sys.executable, "-c", _FIRST],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env=environment,
        )
        times.append([1000 * float(word) for word in ended.stdout.split()])
    imported, ranked = map(statistics.median, zip(*times[1:], strict=True))
    return imported, ranked


def lines_and_modules(*sources: Path) -> tuple[int, int]:
    """How many lines and Python files there are under folders."""
    files = [path for source in sources for path in source.rglob("*.py")]
    return sum(path.read_text("utf-8").count("\n") for path in files), len(files)


def spread_classes(*sources: Path) -> list[str]:
    """Classes that exist only as the base of one class in another file."""
    defined: dict[str, set[Path]] = {}
    named: dict[str, set[Path]] = {}
    created: set[str] = set()
    bases: dict[str, list[Path]] = {}
    for path in (path for source in sources for path in source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Name):
                named.setdefault(node.id, set()).add(path)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                created.add(node.func.id)
            elif isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, set()).add(path)
                for base in node.bases:
                    name = base.value if isinstance(base, ast.Subscript) else base
                    if isinstance(name, ast.Name):
                        bases.setdefault(name.id, []).append(path)
    return sorted(
        name
        for name, paths in defined.items()
        if name not in created
        and len(paths) == len(bases.get(name, ())) == 1
        and {*bases[name]} != paths
        and named[name] <= {*paths, *bases[name]}
    )


def words(page: str) -> int:
    """Words of a Markdown page, with code and tables, without comments and addresses of links."""
    page = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    page = re.sub(r"^\[[\w-]+\]: .*$", "", page, flags=re.MULTILINE)
    return sum(any(map(str.isalnum, word)) for word in page.split())


def words_by_hand() -> tuple[int, int]:
    """Words of the README, and of the docs without what is generated from the code."""
    generated = {rooms.ROOT / "docs/settings.md", *(rooms.ROOT / "docs/api").glob("*.md")}
    pages = {*(rooms.ROOT / "docs").rglob("*.md")} - generated
    readme = words((rooms.ROOT / "README.md").read_text(encoding="utf-8"))
    return readme, sum(words(page.read_text(encoding="utf-8")) for page in pages)


def main() -> None:
    """Print the figures."""
    lines, modules = lines_and_modules(rooms.PACKAGE)
    print(f"core: {lines:,} lines, {modules} modules")
    print(f"all source: {lines_and_modules(*rooms.SOURCES)[0]:,} lines")
    crossed = ", ".join(f"{name} {number}" for name, number in modules_crossed().items())
    print(f"modules crossed, second call: {crossed}")
    print(f"nested generators of a listwise question: {nested_generators()}")
    imported, ranked = start_ms()
    print(f"import secondpass + first lexical ranking, CPU ms: {ranked:.0f}; import {imported:.0f}")
    print(f"classes spread over files: {len(spread_classes(*rooms.SOURCES))}")
    circles = len(rooms.circles(rooms.import_graph(*rooms.SOURCES)))
    print(f"circles and upward imports: {circles}")
    print(f"public import paths: {len(PUBLIC)}")
    readme, docs = words_by_hand()
    print(f"words written by hand: README {readme:,}, docs {docs:,}")


if __name__ == "__main__":
    main()
