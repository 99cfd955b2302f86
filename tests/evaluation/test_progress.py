"""The bar that shows how far a comparison is."""

import io
import sys

import pytest

from secondpass.errors import InputError
from secondpass_evaluation import progress as progress_module
from secondpass_evaluation.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def bars(progress, stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(progress) as report:
        for done in range(1, 7):
            report("lexical", done, 6)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("progress", "stream", "shown"),
    [
        (None, io.StringIO, False),
        (None, Terminal, True),
        (False, Terminal, False),
        (True, Terminal, True),
        (True, io.StringIO, True),
    ],
)
def test_progress_is_shown_on_terminals_and_on_request(progress, stream, shown, monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert ("lexical  6/6" in bars(progress, stream(), monkeypatch)) is shown


def test_progress_in_a_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert "lexical  6/6" in bars(None, io.StringIO(), monkeypatch)


def test_a_bar_is_cleared(monkeypatch):
    written = bars(True, Terminal(), monkeypatch)
    assert written.endswith("\r")
    assert written.split("\r")[-2].strip() == ""


def test_files_get_a_line_for_each_system(monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert bars(True, io.StringIO(), monkeypatch) == "lexical  6/6\n"


def test_progress_without_standard_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with progress_bar(True) as report:
        report("x", 1, 2)


def test_progress_of_another_kind():
    with pytest.raises(InputError, match="progress: give True, False or a function, not 'yes'"):
        progress_bar("yes").__enter__()


def test_a_function_is_called_with_each_step():
    def step(name, done, count):
        raise AssertionError("not called here")

    with progress_bar(step) as report:
        assert report is step


def test_the_bar_fills(monkeypatch):
    monkeypatch.setattr(progress_module, "_INTERVAL", 0.0)
    lines = bars(True, Terminal(), monkeypatch).split("\r")[1:7]
    assert [line.count("#") for line in lines] == [4, 8, 12, 16, 20, 24]
    assert {len(line.split()[0]) for line in lines} == {24}
    assert lines[2].endswith("  lexical  3/6")


def test_the_bar_changes_at_intervals_and_at_the_end(monkeypatch):
    monkeypatch.setattr(progress_module, "_INTERVAL", 60.0)
    written = bars(True, Terminal(), monkeypatch)
    assert [part for part in ("1/6", "2/6", "5/6", "6/6") if part in written] == ["1/6", "6/6"]
