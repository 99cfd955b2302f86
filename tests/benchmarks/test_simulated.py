"""The benchmark by simulation: each part prints its table, and says where a target is missed."""

import runpy
import sys
from pathlib import Path

import pytest

from secondpass_evaluation.tuning import tuning as choosing

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def rows(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("evaluate", "RESAMPLES"):  # which the script replaces
        monkeypatch.setattr(choosing, name, getattr(choosing, name))

    def rows(*parts, simulations=1):
        arguments = ["--simulations", simulations, "--resamples", 19, "--parts", *parts]
        monkeypatch.setattr(sys, "argv", ["simulated.py", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(FOLDER / "simulated.py"), run_name="__main__")
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
        assert ended.value.code == any("MISSED" in line for line in lines)
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    return rows


def test_equal_scores_are_found(rows):
    shares = {tuple(row[:2]): row[2] for row in rows("equal_scores")[2:]}
    assert shares["10%", "500"].startswith("100.0%")


def test_judging(rows, monkeypatch):
    import simulated_judges

    first, *_, last = simulated_judges.cells()
    monkeypatch.setattr(simulated_judges, "cells", lambda: [first, last])
    _, _, *printed = rows("judged", simulations=3)
    assert [row[1:3] for row in printed] == [["200", "20"], ["400", "40"]] * 2
    assert {len(row) for row in printed} == {9}
    assert [row[-1] == "no target" for row in printed] == [False, False, True, True]


def test_a_missed_target_is_an_error(rows, monkeypatch):
    import secondpass_evaluation

    class Alarming:
        alarms = (1,)

    monkeypatch.setattr(secondpass_evaluation, "drift", lambda *_: Alarming())
    assert {row[-1] for row in rows("repeated_rankings")[2:]} == {"MISSED"}
