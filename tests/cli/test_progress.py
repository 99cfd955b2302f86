"""Progress bars move by themselves, by a clock that tests set."""

import io
from itertools import pairwise

import pytest
from rich.console import Console
from rich.progress import Progress

from secondpass.cli.progress import columns, progress_bars


def test_lines_in_a_pipe_say_how_long_it_still_takes(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr("secondpass.cli.progress.time.monotonic", lambda: clock[-1])
    with progress_bars() as progress:
        for seconds, done in ((0.0, 100), (10.0, 150), (20.0, 200), (40.0, 300)):
            clock.append(seconds)
            progress("encoding", done, 400)
        clock.append(60.0)
        progress("reading", 7, None)
    assert capsys.readouterr().err.splitlines() == [
        "encoding: 200 of 400, about 40 s left",
        "encoding: 300 of 400, about 20 s left",
        "reading: 7",
    ]


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
