"""Lines of a monitor: what is written is read again, and what is wrong is named."""

import json
import os

import pytest

from monitored_days import days_of
from secondpass import InputError
from secondpass.formats import lines
from secondpass.formats.errors import FormatError
from secondpass.formats.files import lock, open_input
from secondpass.formats.lines import write_lines
from secondpass.monitoring import ranking_days
from secondpass.monitoring.ranking_days import (
    DayCounts,
    DayFiles,
    DayKey,
    days_to_lines,
    merge_days,
    read_days,
)


def key(day="2026-11-23", method="m"):
    return DayKey(day, "r", method, "logit", "0.1.0", None)


def counts(*statuses, issues=()):
    made = DayCounts()
    for status in statuses:
        made.add(0, status, issues, {"rerank.highest": 0.5, "rerank.lowest": -0.5})
    return made


def write(path, days):
    write_lines(path, days_to_lines(days))
    return path


def test_written_and_read(tmp_path):
    days = {key(): counts("ok", "partial", issues=["deadline"]), key(method=None): counts("ok")}
    assert read_days(write(tmp_path / "a.jsonl", days)) == days


def test_the_same_counts_make_the_same_lines():
    days = {key(): counts("ok"), key(method="a"): counts("ok"), key("2026-01-01"): counts("ok")}
    backwards = dict(reversed(days.items()))
    assert list(days_to_lines(days)) == list(days_to_lines(backwards))


def test_files_of_a_folder_and_their_lines_are_added(tmp_path):
    write(tmp_path / "2026-11-22.jsonl", {key("2026-11-22"): counts("ok")})
    write(tmp_path / "2026-11-23.jsonl", {key(): counts("ok")})
    lines = [*days_to_lines({key(): counts("ok")}), *days_to_lines({key(): counts("partial")})]
    write_lines(tmp_path / "2026-11-23.abc.jsonl", lines)
    (tmp_path / ".lock").touch()
    (tmp_path / ".2026-11-23.jsonl.abc.jsonl").write_text("half a fi")
    read = read_days(tmp_path)
    assert {each.day: read[each].rankings for each in read} == {"2026-11-22": 1, "2026-11-23": 3}


@pytest.mark.parametrize(
    ("first", "last", "days"),
    [
        (None, None, ["01", "02", "03"]),
        ("2026-11-02", None, ["02", "03"]),
        (None, "2026-11-02", ["01", "02"]),
        ("2026-11-02", "2026-11-02", ["02"]),
        ("2026-12-01", None, []),
    ],
)
def test_days_can_be_chosen(tmp_path, first, last, days):
    path = tmp_path / "a.jsonl"
    write(path, {key(f"2026-11-{day}"): counts("ok") for day in ("01", "02", "03")})
    assert [each.day[-2:] for each in read_days(path, first, last)] == days


def test_merging_changes_only_the_first():
    first, second = {key(): counts("ok")}, {key(): counts("ok"), key(method="b"): counts("ok")}
    merge_days(first, second)
    merge_days(first, second)
    assert [each.rankings for each in first.values()] == [3, 2]
    assert [each.rankings for each in second.values()] == [1, 1]


def test_codes_that_may_hold_text_are_not_kept_and_others_count_once_a_ranking():
    texts = ["the passage text", "Secret", "a" * 65, "sk-key", ""]
    issues = [*texts, "deadline", "deadline"]
    assert counts("ok", issues=issues).issues == {"other": 1, "deadline": 1}


def test_codes_are_bounded():
    made = DayCounts()
    for number in range(1000):
        made.add(number, "ok", [f"code_{number}"], {})
    assert len(made.issues) <= 201
    assert sum(made.issues.values()) == 1000


RECORD = json.loads(next(days_to_lines({key(): counts("ok")})))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "`format` must be 1"),
        ({"rankings": -1}, "a count must be an integer"),
        ({"rankings": True}, "a count must be an integer"),
        ({"statuses": {"ok": 0.5}}, "a count must be an integer"),
        ({"statuses": []}, "of the wrong type"),
        ({"day": "yesterday"}, "must be a day such as"),
        ({"day": "20261123"}, "must be a day such as"),
        ({"rankings": 0}, "counts more than"),
        ({"issues": {"busy": 1_000}}, "counts more than"),
        ({"sketches": {"a": [[1, 1_000]]}}, "counts more than"),
        ({"day": 3}, "."),
        ({"method": 3}, "of the wrong type"),
        ({"reranker": None}, "of the wrong type"),
        ({"sketches": {"a": [[1, 0]]}}, "count at least 1"),
        ({"sketches": {"a": 1}}, "of the wrong type"),
        ({"rankings": None}, "a count must be an integer"),
    ],
)
def test_wrong_lines_are_named(tmp_path, change, message):
    path = tmp_path / "a.jsonl"
    write_lines(path, [json.dumps(RECORD) + "\n", json.dumps(RECORD | change) + "\n"])
    with pytest.raises(FormatError, match=message) as raised:
        read_days(path)
    assert raised.value.line == 2


@pytest.mark.parametrize("name", sorted(RECORD))
def test_missing_values_are_named(tmp_path, name):
    path = tmp_path / "a.jsonl"
    write_lines(path, [json.dumps({k: v for k, v in RECORD.items() if k != name}) + "\n"])
    with pytest.raises(FormatError, match=f"`{name}`"):
        read_days(path)


def test_a_folder_without_files(tmp_path):
    with pytest.raises(InputError, match="no file"):
        read_days(tmp_path)


@pytest.mark.parametrize("day", ["yesterday", "20261123", "2026-02-30", 3])
@pytest.mark.parametrize("name", ["first", "last"])
def test_wrong_days(tmp_path, name, day):
    with pytest.raises(InputError, match=f"{name}: must be a day such as 2026-11-23, not"):
        read_days(tmp_path, **{name: day})


# ---------------------------------------------------------------------- files


DAY = "2026-11-23"


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def rankings(folder):
    return sum(counts.rankings for counts in read_days(folder).values())


def add(files, *days):
    for day in days:
        files.add(day, days_of(1, day=day))


def test_days_are_added_up(tmp_path):
    add(DayFiles(tmp_path, None), DAY, DAY)
    add(DayFiles(tmp_path, None), DAY)
    assert (names(tmp_path), rankings(tmp_path)) == ([f"{DAY}.jsonl"], 3)


def test_the_lock_is_free_although_a_forked_child_has_it_open(tmp_path, monkeypatch):
    copies = []

    def locked(file):
        lock(file)
        copies.append(os.dup(file.fileno()))

    monkeypatch.setattr(ranking_days, "lock", locked)
    add(DayFiles(tmp_path, None), DAY)
    try:
        with open(tmp_path / ".lock", "a+b") as file:
            lock(file)
    finally:
        os.close(*copies)


@pytest.mark.parametrize("content", ["not ours\n", '{"format": 2}\n', "{", "\0"])
def test_a_file_of_something_else_gets_one_neighbour(tmp_path, caplog, content):
    path = tmp_path / f"{DAY}.jsonl"
    path.write_text(content)
    add(DayFiles(tmp_path, None), DAY, DAY, DAY)
    assert path.read_text() == content
    assert len(caplog.records) == 1
    assert str(path) in caplog.text
    (other,) = set(names(tmp_path)) - {path.name}
    assert rankings(tmp_path / other) == 3


def unreadable(path):
    """Bytes that no user may read; even the tests' own user, who may be root."""
    path.write_text("{}")

    def refused(name, *rest):
        if name == path:
            raise PermissionError(13, "Permission denied", str(path))
        return open_input(name, *rest)

    return refused


@pytest.mark.parametrize("kind", ["a folder", "unreadable", "no UTF-8"])
def test_what_cannot_be_read_gets_one_neighbour(tmp_path, caplog, monkeypatch, kind):
    path = tmp_path / f"{DAY}.jsonl"
    if kind == "a folder":
        path.mkdir()
    elif kind == "unreadable":
        monkeypatch.setattr(lines, "open_input", unreadable(path))
    else:
        path.write_bytes(b"\xff\xfe\0")
    files = DayFiles(tmp_path, keep=1)
    add(files, DAY, DAY)
    (other,) = set(names(tmp_path)) - {path.name}
    assert rankings(tmp_path / other) == 2
    add(files, "2026-11-24")
    files.delete_old()
    assert names(tmp_path) == [path.name, "2026-11-24.jsonl"]
    (message,) = caplog.messages
    assert message.startswith("monitoring leaves a file as it is: ")


def test_its_own_file_is_spoiled_too(tmp_path, caplog):
    files = DayFiles(tmp_path, None)
    (tmp_path / f"{DAY}.jsonl").write_text("not ours")
    add(files, DAY)
    for path in tmp_path.glob("*.jsonl"):
        path.write_text("not ours")
    add(files, DAY, DAY)
    assert len(names(tmp_path)) == 3
    assert len(caplog.records) == 2


def test_what_a_killed_process_left_is_overwritten(tmp_path):
    (tmp_path / f".{DAY}.jsonl.tmp").write_text("half a li")
    add(DayFiles(tmp_path, None), DAY)
    assert (names(tmp_path), rankings(tmp_path)) == ([f"{DAY}.jsonl"], 1)


def test_days_are_kept_although_the_clock_was_wrong(tmp_path):
    files = DayFiles(tmp_path, 3)
    add(files, "2026-11-21", "2026-11-22", "2099-01-01")
    files.delete_old()
    assert names(tmp_path) == ["2026-11-21.jsonl", "2026-11-22.jsonl", "2099-01-01.jsonl"]
    add(files, "2026-11-23")
    files.delete_old()
    assert names(tmp_path) == ["2026-11-22.jsonl", "2026-11-23.jsonl", "2099-01-01.jsonl"]


@pytest.mark.parametrize("name", ["2001-01-01.jsonl", "2001-01-01-notes.jsonl", "2001-01-01.log"])
def test_the_files_of_something_else_are_not_deleted(tmp_path, name):
    (tmp_path / name).write_text("not ours\n")
    files = DayFiles(tmp_path, 1)
    add(files, "2026-11-22", "2026-11-23")
    files.delete_old()
    assert names(tmp_path) == [name, "2026-11-23.jsonl"]
