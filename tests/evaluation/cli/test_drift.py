"""``secondpass drift``."""

import json

import pytest

from monitored_days import days_of
from secondpass.formats.lines import write_lines
from secondpass.monitoring.ranking_days import days_to_lines


@pytest.fixture
def days(tmp_path):
    """Writes a file of rankings; its path."""

    def written(name, *parts):
        path = tmp_path / name
        write_lines(path, [line for part in parts for line in days_to_lines(part)])
        return path

    return written


@pytest.fixture
def month(days):
    """Scores are higher from the 15th on."""
    return days(
        "month.jsonl",
        days_of(60, day="2026-11-07"),
        days_of(60, day="2026-11-14", seed=1),
        days_of(60, day="2026-11-15", seed=2, change=lambda score: score + 5),
        days_of(60, day="2026-11-30", seed=3, change=lambda score: score + 5),
    )


def test_no_change(secondpass, days):
    outcome = secondpass(
        "drift", days("a.jsonl", days_of(60)), days("b.jsonl", days_of(60, seed=1))
    )
    message = "No change was found (60 rankings before, 60 after, 4 comparisons).\n"
    assert (outcome.code, outcome.out) == (0, message)


def test_a_change(secondpass, days):
    changed = days_of(60, seed=1, change=lambda score: score + 5, version="2.0")
    outcome = secondpass("drift", days("a.jsonl", days_of(60)), days("b.jsonl", changed))
    assert outcome.code == 3
    verdict, head, *rows = outcome.out.splitlines()
    assert verdict == "Changed: scores (60 rankings before, 60 after)."
    assert head.split() == ["what", "method", "before", "after", "shift", "p"]
    assert sorted(row.split("  ")[0] for row in rows) == [
        "highest rerank score",
        "median rerank score",
    ]
    note, step = outcome.err.splitlines()
    assert note == "note: version of secondpass: 1.0 before, 2.0 after"
    assert step.startswith("next: look at the model: its version, prompt,")


@pytest.mark.parametrize(
    ("options", "rankings", "code"),
    [
        (["--after", "2026-11-15.."], (120, 120), 3),
        (["--before", "..2026-11-14"], (120, 120), 3),
        (["--before", "2026-11-07", "--after", "2026-11-14"], (60, 60), 0),
        (["--before", "2026-11-15", "--after", "2026-11-16..2026-11-30"], (60, 60), 0),
        (["--after", "2026-11-30"], (180, 60), 3),
    ],
)
def test_days_of_one_file(secondpass, month, options, rankings, code):
    outcome = secondpass("drift", month, *options, "--json")
    record = json.loads(outcome.out)
    assert (record["before"], record["after"]) == rankings
    assert outcome.code == code


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "missing B, or the days of the two periods: --before, --after"),
        (["--before", "2026-11-15.."], 2, "the first period must end before the second begins"),
        (
            ["--before", "2026-11-07..2026-11-14", "--after", "2026-11-14"],
            2,
            "the first period must end before the second begins",
        ),
        (["--after", "yesterday"], 2, "--after: must be days such as 2026-11-01..2026-11-14"),
        (["--after", "2026-11-15..2026-11-07"], 2, "--after: 2026-11-15 is after 2026-11-07"),
        (["--after", "2026-12-01.."], 1, "after: 0 rankings; at least 20 are needed"),
        (["month.jsonl"], 2, "A and B are the same: name another, or the days"),
        (["other.jsonl"], 1, "other.jsonl:1: is not a line of a monitor: `format` must be 1"),
    ],
)
def test_errors(secondpass, write, tmp_path, monkeypatch, month, options, code, message):
    monkeypatch.chdir(tmp_path)
    write("other.jsonl", '{"id": 1}\n')
    outcome = secondpass("drift", month, *options)
    assert message in outcome.flat
    assert (outcome.code, outcome.out) == (code, "")
