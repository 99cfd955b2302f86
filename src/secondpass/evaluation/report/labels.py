"""Where the names of points go in a plot, so that they can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from secondpass.evaluation.report.parts import shortened
from secondpass.evaluation.report.svg import INK, MUTED

_LONGEST = 30
_WIDTH, _HEIGHT = 0.56, 1.1
"""Of a letter, of a line, by the size of the font."""


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: _Box) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return wide * high if wide > 0 and high > 0 else 0.0

    def outside(self, other: _Box) -> float:
        area = (self.right - self.left) * (self.top - self.bottom)
        return area - self.overlap(other)


_Side: TypeAlias = Literal["left", "right", "center"]
_Place: TypeAlias = tuple[float, float, _Side]
_SIDES: tuple[tuple[float, _Side], ...] = ((9, "left"), (-9, "right"))
_BESIDE: tuple[_Place, ...] = (
    (7, 0, "left"),
    (-7, 0, "right"),
    (0, 11, "center"),
    (0, -11, "center"),
)
_PLACES: tuple[_Place, ...] = _BESIDE + tuple(
    (x, sign * y, side)
    for y in (11, 22, 33, 44, 55, 70, 85)
    for sign in (1, -1)
    for x, side in _SIDES
)


def put_labels(
    axes: Any,
    points: Sequence[tuple[float, float, str]],
    *,
    size: float = 8.5,
    lines: Sequence[tuple[float, float, float]] = (),
    level: float | None = None,
) -> None:
    """Write each point's name beside it, where it covers least.

    Args:
        axes: with their final limits.
        points: x, y, name.
        size: of the font.
        lines: x, and the two ends of upright lines, which are better not written over.
        level: y of a line from side to side, which is better not written over either.
    """
    axes.figure.draw_without_rendering()  # lays the figure out
    frame = _Box(*axes.get_window_extent().extents)
    at = [tuple(map(float, axes.transData.transform((x, y)))) for x, y, _ in points]
    taken = [_Box(x - 4, y - 4, x + 4, y + 4) for x, y in at]
    for x, low, high in lines:
        ends = axes.transData.transform([(x, low), (x, high)])
        taken.append(_Box(ends[0][0] - 0.7, ends[0][1], ends[0][0] + 0.7, ends[1][1]))
    if level is not None:
        middle = float(axes.transData.transform((points[0][0], level))[1])
        taken.append(_Box(frame.left, middle - 0.5, frame.right, middle + 0.5))
    for index in sorted(range(len(points)), key=lambda one: (-at[one][1], at[one][0])):
        text = shortened(points[index][2], _LONGEST)
        across, up = at[index]
        wide, high = len(text) * size * _WIDTH, size * _HEIGHT
        others = [box for one, box in enumerate(taken) if one != index]
        boxes = {place: _box(across, up, wide, high, place) for place in _PLACES}
        x, y, side = best = min(
            _PLACES,
            key=lambda place, boxes=boxes, others=others: (  # type: ignore[misc]
                sum(boxes[place].overlap(other) for other in others)
                + 3 * boxes[place].outside(frame)
                + abs(place[1]) * 0.4
            ),
        )
        taken.append(boxes[best])
        note = axes.annotate(
            text,
            points[index][:2],
            (x, y),
            textcoords="offset points",
            ha=side,
            va="center_baseline",
            fontsize=size,
            color=INK,
            annotation_clip=False,
            arrowprops=(
                {"arrowstyle": "-", "color": MUTED, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
                if abs(y) > 11
                else None
            ),
        )
        note.set_in_layout(False)
        note.set_gid(f"label-{index}")


def _box(across: float, up: float, wide: float, high: float, place: _Place) -> _Box:
    x, y, side = place
    left = across + x - {"left": 0.0, "right": wide, "center": wide / 2}[side]
    return _Box(left, up + y - high / 2, left + wide, up + y + high / 2)
