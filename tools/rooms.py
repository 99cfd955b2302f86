"""Checks the import graph of the packages: circles, and imports of higher rooms by lower ones.

    python tools/rooms.py            # prints circles and upward imports
    python tools/rooms.py --picture  # writes docs/rooms.svg

Imports in functions and under TYPE_CHECKING count, too, and so do import paths in strings, such as
``"secondpass.strategies.graded:Graded"``.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "secondpass"
SOURCES = (ROOT / "src", *sorted((ROOT / "integrations").glob("*/src")))

ROOMS: tuple[tuple[str, ...], ...] = (
    ("errors", "attributes"),
    ("settings",),
    ("types", "questions", "effects", "markup"),
    ("limits",),
    ("concurrency",),
    ("storage",),
    ("ranking",),
    ("prompts",),
    ("services",),
    ("asking",),
    ("llms",),
    ("scorers.hub",),
    ("scorers.checks",),
    ("scorers.tokens",),
    ("scorers.batching", "scorers.runtimes", "scorers.families"),
    ("scorers.embedding", "scorers.torch"),
    ("scorers",),
    ("orderings", "exporting"),
    ("strategies",),
    ("apis",),
    ("built_in",),
    ("reranker_settings", "reranker"),
    ("config",),
    ("formats",),
    ("adapters",),
    ("extend",),
    ("cli",),
)
"""The rooms of the core, lowest first. A module imports only from its own row and those before."""

_NESTED = {room for row in ROOMS for room in row if "." in room}

Graph = Mapping[str, frozenset[str]]


def import_graph(*sources: Path, package: str = "") -> dict[str, frozenset[str]]:
    """Each module with the modules that it imports.

    Args:
        sources: folders that are on the import path; without any, that of secondpass.
        package: the folder in them that is read; all by default.
    """
    modules = {
        _name(path, source): path
        for source in sources or (PACKAGE.parent,)
        for path in sorted((source / package).rglob("*.py"))
        if path.name != "__main__.py"
    }
    return {
        module: frozenset(_imports(path, modules)) - {module} for module, path in modules.items()
    }


def circles(graph: Graph) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    reachable: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for module in graph.get(waiting.pop(), ()):
                if module not in seen:
                    seen.add(module)
                    waiting.append(module)
        reachable[start] = seen
    groups = {
        tuple(sorted(b for b in reachable[a] if a in reachable.get(b, ())))
        for a in graph
        if a in reachable[a]
    }
    return [list(group) for group in sorted(groups)]


def room_of(module: str) -> str | None:
    """The module or folder that a module belongs to; None for the package itself.

    A folder in a folder is a room if :data:`ROOMS` names it.
    """
    parts = module.split(".")
    nested = ".".join(parts[1:3])
    if nested in _NESTED:
        return nested
    return parts[1] if len(parts) > 1 else None


def upward_imports(graph: Graph) -> list[tuple[str, str]]:
    """Imports of a higher room of the core by a lower one."""
    level: dict[str | None, int] = {
        room: number for number, row in enumerate(ROOMS) for room in row
    }
    level[None] = level["extend"]  # the package has what callers need, its public modules too
    return sorted(
        (a, b)
        for a, imported in graph.items()
        for b in imported
        if b.partition(".")[0] == PACKAGE.name and level[room_of(a)] < level[room_of(b)]
    )


def room_graph(graph: Graph) -> dict[str, frozenset[str]]:
    """The rooms, each with those that it imports."""
    rooms: dict[str, set[str]] = {}
    for a, imported in graph.items():
        for b in imported:
            pair = room_of(a), room_of(b)
            if None not in pair and pair[0] != pair[1]:
                rooms.setdefault(str(pair[0]), set()).add(str(pair[1]))
    return {room: frozenset(others) for room, others in rooms.items()}


def room_sizes(graph: Graph) -> dict[str, int]:
    """The number of modules of each room that is a folder."""
    sizes: dict[str, int] = {}
    for module in graph:
        if module.count(".") > 1:
            room = str(room_of(module))
            sizes[room] = sizes.get(room, 0) + 1
    return sizes


def _name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{path}:{node.lineno}: relative imports are not followed")
            base = node.module or ""
            inside = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in modules else base for name in inside]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            names = [node.value.partition(":")[0]]
        else:
            continue
        yield from (name for name in names if name in modules)


def main() -> int:
    """Print errors, or write the picture."""
    parser = argparse.ArgumentParser(description="Check the import graph of secondpass.")
    parser.add_argument("--picture", action="store_true", help="write docs/rooms.svg")
    arguments = parser.parse_args()
    graph = {a: names for a, names in import_graph().items() if a.split(".")[0] == "secondpass"}
    if arguments.picture:
        from rooms_picture import picture

        svg = picture(room_graph(graph), room_sizes(graph))
        (ROOT / "docs" / "rooms.svg").write_text(svg, encoding="utf-8")
        return 0
    wrong = [f"circle: {', '.join(group)}" for group in circles(import_graph(*SOURCES))]
    wrong += [f"upward: {a} imports {b}" for a, b in upward_imports(graph)]
    print("\n".join(wrong) or "no circles, no upward imports")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
