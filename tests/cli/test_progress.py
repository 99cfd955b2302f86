"""Progress bars move by themselves, by a clock that tests set."""

import io
from itertools import pairwise

import pytest
from rich.console import Console
from rich.progress import Progress

from secondpass.cli.progress import columns


@pytest.mark.parametrize("total", [None, 1, 50])
@pytest.mark.parametrize("step", [0.3, 0.7, 0.9])
def test_a_bar_changes_within_a_second_without_a_finished_step(total, step):
    now = 0.0
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    bars = Progress(*columns(), console=console, get_time=lambda: now, auto_refresh=False)
    bars.add_task("reading files", total=total)
    lines = []
    for _ in range(5):
        with console.capture() as captured:
            console.print(bars.get_renderable())
        lines.append(captured.get())
        now += step
    assert all(before != after for before, after in pairwise(lines))
