"""Progress bars move by themselves, by a clock that tests set."""

import io
import os
import subprocess
import sys
from itertools import pairwise

import pytest
from rich.console import Console
from rich.progress import Progress

from secondpass.cli.console import bars_of_packages, info, result_console, write
from secondpass.cli.progress import columns, progress_bars
from terminals import left_on_screen, shown_by


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


@pytest.mark.parametrize("shown", [True, False])
def test_bars_of_other_packages_vanish_when_they_are_done(shown):
    """On a terminal they are shown until then, elsewhere not at all."""
    pytest.importorskip("tqdm")
    before = {**os.environ}
    with bars_of_packages(shown=shown):
        code = "from tqdm import tqdm\nfor _ in tqdm(range(3), desc='weights'): pass"
        call = [sys.executable, "-c", code]
        told = subprocess.run(call, capture_output=True, timeout=60, check=True)
    *parts, last = told.stderr.decode().split("\r")
    assert any("weights" in part for part in parts) is shown
    assert (parts[-1].strip() if parts else "", last) == ("", "")
    assert {**os.environ} == before


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


def test_whatever_is_printed_beside_bars_stays_on_the_screen(monkeypatch):
    def run(_stdin, stdout, stderr):
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "stderr", stderr)
        with progress_bars() as progress:
            for number in range(4):
                progress(f"task {number}", number, 9)
            result_console().print("a table")
            write("a result\n")
            info("a message")
            sys.stdout.write("of another package\n")
            progress("task 0", 9, 9)

    lines = left_on_screen(shown_by(run)).splitlines()
    assert [line for line in lines if line] == [
        "a table",
        "a result",
        "a message",
        "of another package",
    ]
