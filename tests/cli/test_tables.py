"""Tables on terminals of several widths: no number, rank, id or name is cut."""

import re
from itertools import takewhile

import pytest
from rich.cells import cell_len
from rich.console import Console

from secondpass.cli.console import _wrapped
from secondpass.cli.tables import FittedTable, plain_table
from terminals import on_a_terminal, shown_at

WIDTHS = (60, 80, 130)
LONG = "a long passage about bananas, potassium and other things " * 9


def test_the_width_is_that_of_the_terminal(write):
    """In a process of its own, which asks the terminal and not a variable."""
    path = write("in.jsonl", [{"id": "banana", "text": LONG}, {"id": "moon", "text": "moon"}])
    shown = shown_at(60, "rerank", path, "-q", "bananas", "-p", "lexical")
    assert re.search(r"^# +was +final +id +text$", shown, re.MULTILINE)
    assert re.search(r"^1 +1 +\d\.\d{4} +banana +a long passage", shown, re.MULTILINE)


@pytest.mark.parametrize("width", WIDTHS)
def test_rank_id_and_score_are_shown_beside_the_text(write, width):
    candidates = [{"id": "guide/bananas.md#12", "text": LONG}, {"id": "moon", "text": "moon"}]
    path = write("in.jsonl", candidates)
    call = ("rerank", path, "-q", "bananas potassium", "-p", "lexical")
    lines = on_a_terminal(*call, columns=width).splitlines()
    heading = next(line for line in lines if line.startswith("#"))
    assert heading.split() == ["#", "was", "final", "id", "text"]
    rows = [line for line in lines if re.match(r"\d+ +\d+ +-?\d+\.\d{4} ", line)]
    assert len(rows) == len(candidates)
    assert all(cell_len(line) <= width for line in lines)
    ids = "".join(line[heading.index("id") : heading.index("text")].strip() for line in lines[2:])
    assert "guide/bananas.md#12" in ids


@pytest.mark.parametrize("width", WIDTHS)
def test_messages_wrap_between_words(listwise_plan, width):
    """Warnings and notes on standard error; in a pipe, each is one line."""
    call = ("plan", "-c", listwise_plan, "--candidates", "100", "--compare")
    lines = on_a_terminal(*call, columns=width).splitlines()
    whole = on_a_terminal(*call, columns=1000)
    assert all(cell_len(line) <= width for line in lines)
    assert {*" ".join(lines).split()} >= {*whole[whole.index("100 candidates") :].split()}


def test_an_error_wraps_between_words_and_paths_and_code_stay_whole():
    path = "folder/" * 12 + "in.jsonl"
    shown = on_a_terminal("rerank", path, "-q", "x", "-p", "lexical", columns=60)
    assert f"{path}:" in shown.splitlines()
    code = "`secondpass rerank in.jsonl --query words`"
    pieces = _wrapped(f"{'word ' * 5}{code} {'word ' * 20}\n  indented", 60).splitlines()
    assert any(code in piece for piece in pieces)
    assert pieces[-1] == "  indented"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_plan_has_every_number(listwise_plan, width):
    call = ("plan", "-c", listwise_plan, "--candidates", "100")
    shown = on_a_terminal(*call, columns=width)
    assert all(cell_len(line) <= width for line in shown.splitlines() if "tokens" not in line)
    whole = on_a_terminal(*call, columns=300)
    row = next(line for line in whole.splitlines() if line.startswith("listwise"))
    assert set(row.split()) <= set(re.split(r"[\s]+|, ", shown))


def test_a_plan_of_stages_is_a_table_and_says_what_it_counts():
    shown = on_a_terminal("plan", "-p", "cheap", "--candidates", "100", columns=80)
    lines = shown.splitlines()
    assert lines[0].split() == "method candidates calls rounds in out cost".split()
    assert [line.split() for line in lines[1:4]] == [
        ["all-MiniLM-L6-v2-int8", "50", "0", "0"],
        ["graded", "by", "gpt-4.1-nano", "10", "1", "1", "1,244", "96", "0.0001628"],
        ["total", "1", "1", "1,244", "96", "0.0001628"],
    ]
    shown = " ".join(shown.split())
    assert "that its method gets; in and out are tokens." in shown
    assert "Cost is in the currency of `prices`" in shown


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", [("presets",), ("doctor",)])
def test_names_are_whole(command, width):
    lines = on_a_terminal(*command, columns=width).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    whole = on_a_terminal(*command, columns=1000)
    assert table_names(lines) == table_names(whole.splitlines())


def table_names(lines):
    """The names of rows, without the message that follows them."""
    rows = takewhile(lambda line: not line.startswith("`"), lines)
    return [line.split()[0] for line in rows if line[:1].islower()]


def test_a_number_is_never_folded_and_texts_share_the_rest():
    table = plain_table("name", "text", numbers=["tokens in, about", "seconds"])
    table.add_row("n" * 30, "words " * 30, "1,234,567", "0.25")
    lines = printed(table, 60)
    assert lines[0].split() == ["tokens"]
    assert any("1,234,567" in line and line.endswith("0.25") for line in lines)
    start = next(line.index("text") for line in lines if "text" in line)
    assert "".join(line[:start].strip() for line in lines[2:]) == "n" * 30


def test_a_table_that_does_not_fit_is_printed_as_paragraphs():
    table = plain_table("name", numbers=["one", "two", "three", ""])
    table.add_row("lexical", "1,000,000", "", "2,000,000", "7")
    assert " ".join(printed(table, 30)).split() == (
        "name lexical, one 1,000,000, three 2,000,000, 7".split()
    )


def test_an_empty_line_follows_each_row_and_not_the_headings():
    table = FittedTable(spaced=True)
    table.add_column("#", number=True)
    table.add_column("text")
    table.add_row("1", "one")
    table.add_row("2", "two")
    assert printed(table, 60) == ["#  text", "1  one", "", "2  two", ""]


def test_a_column_without_any_number_is_left_out():
    table = plain_table("name", "text", numbers=["one", "two"])
    table.add_row("a", "", "", "2")
    table.add_row("b", "", "", "")
    assert [line.split() for line in printed(table, 60)] == [
        ["name", "text", "two"],
        ["a", "2"],
        ["b"],
    ]


def test_headings_alone_and_nothing():
    assert printed(plain_table("name", numbers=["one"]), 60) == ["name  one"]
    assert printed(FittedTable(), 60) == [""]


def printed(table, width):
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.fixture
def listwise_plan(write, unasked):
    address = unasked.base_url("openai")
    return write(
        "listwise.yaml",
        "method: {type: listwise, llm: {type: openai, model: m, "
        f"prices: {{input: 1, output: 1}}, base_url: '{address}'}}}}\n",
    )
