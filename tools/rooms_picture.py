"""Draws the rooms of the package and their imports, highest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise

WIDTH, MARGIN = 1000, 16
BOX_WIDTH, BOX_HEIGHT = 136, 42
ROW_HEIGHT = 92
STYLE = """
  .page { fill: #fff } .box { fill: #f3f6fa; stroke: #5b7083 } .folder { fill: #dbe7f3 }
  text { font: 13px system-ui, sans-serif; fill: #1c2833; text-anchor: middle }
  .small { font-size: 10.5px; fill: #51606d }
  path { fill: none; stroke: #9fb0c0; stroke-width: 1.2 }
"""

Edges = Mapping[str, frozenset[str]]


def picture(edges: Edges, sizes: Mapping[str, int]) -> str:
    """An SVG with a box for each room.

    An edge that follows from others (a imports b, b imports c, a imports c) is left out.

    Args:
        edges: each room with the rooms that it imports; without circles.
        sizes: modules in each room that is a folder.
    """
    rows = _rows(edges)
    edges = _reduced(edges)
    place: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        gap = (WIDTH - 2 * MARGIN - len(row) * BOX_WIDTH) / (len(row) + 1)
        for column, room in enumerate(row):
            x = MARGIN + gap + column * (BOX_WIDTH + gap)
            place[room] = x, MARGIN + number * ROW_HEIGHT
    height = 2 * MARGIN + (len(rows) - 1) * ROW_HEIGHT + BOX_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="The rooms of secondpass and their imports">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        *(_line(place[a], place[b]) for a in sorted(edges) for b in sorted(edges[a])),
        *(part for room in place for part in _box(room, place[room], sizes.get(room))),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _rows(edges: Edges) -> list[list[str]]:
    """Rooms by the length of the longest chain of imports above them, highest first.

    Within a row they stand near those that import them.
    """
    importers: dict[str, set[str]] = {}
    for room, others in edges.items():
        for other in others:
            importers.setdefault(other, set()).add(room)
    depth: dict[str, int] = {}

    def depth_of(room: str) -> int:
        if room not in depth:
            above = importers.get(room, ())
            depth[room] = 1 + max((depth_of(importer) for importer in above), default=-1)
        return depth[room]

    rooms = sorted({*edges, *importers})
    rows = [
        [room for room in rooms if depth_of(room) == level]
        for level in range(max(map(depth_of, rooms)) + 1)
    ]
    for above, row in pairwise(rows):
        center = {room: (column + 1) / (len(above) + 1) for column, room in enumerate(above)}
        row.sort(
            key=lambda room: (_mean(center[a] for a in above if room in edges.get(a, ())), room)
        )
    return rows


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.5


def _reduced(edges: Edges) -> dict[str, set[str]]:
    def reachable(start: str, without: str) -> set[str]:
        seen: set[str] = set()
        waiting = [other for other in edges.get(start, ()) if other != without]
        while waiting:
            room = waiting.pop()
            if room not in seen:
                seen.add(room)
                waiting.extend(edges.get(room, ()))
        return seen

    return {a: {b for b in others if b not in reachable(a, b)} for a, others in edges.items()}


def _line(upper: Sequence[float], lower: Sequence[float]) -> str:
    x1, y1 = upper[0] + BOX_WIDTH / 2, upper[1] + BOX_HEIGHT
    x2, y2 = lower[0] + BOX_WIDTH / 2, lower[1]
    bend = (ROW_HEIGHT - BOX_HEIGHT) * 0.9
    curve = f"C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="M{x1:.0f} {y1:.0f}{curve}"/>'


def _box(room: str, place: tuple[float, float], size: int | None) -> list[str]:
    x, y = place
    name = room if size is None else f"{room.replace('.', '/')}/"
    kind = "module" if size is None else f"{size} modules"
    middle = x + BOX_WIDTH / 2
    return [
        f'<rect class="box{"" if size is None else " folder"}" x="{x:.0f}" y="{y}" '
        f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>',
        f'<text x="{middle:.0f}" y="{y + 18}">{escape(name)}</text>',
        f'<text class="small" x="{middle:.0f}" y="{y + 33}">{kind}</text>',
    ]
