"""What is a terminal, and what of a text is safe to show on one."""

import io

import pytest
from rich.console import Console
from rich.file_proxy import FileProxy

from secondpass.cli.console import escaped, excerpt, on_terminal, one_line


class _Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


class _OldFileProxy(FileProxy):
    """As of rich before 14.1."""

    def isatty(self):
        return False


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("proxy", [FileProxy, _OldFileProxy])
def test_what_rich_shows_progress_on_is_the_terminal_behind_it(terminal, proxy):
    stream = _Stream(terminal)
    assert on_terminal(stream) is terminal
    assert on_terminal(proxy(Console(file=stream), stream)) is terminal
    assert not on_terminal(None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("ab\u202ecd", "ab\\u202ecd"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\ud800", "\\ud800"),
        ("é 日本", "é 日本"),
    ],
    ids=["line feed", "escape", "override", "isolate", "surrogate", "letters"],
)
def test_control_characters_are_escaped(text, shown):
    assert escaped(text) == shown
    assert one_line(text) == shown.replace("\n", " ")


@pytest.mark.parametrize(
    ("span", "shown"), [(None, "abc def"), ((0, 3), "abc def"), ((4, 7), "…def")]
)
def test_a_text_is_shown_from_its_best_part_on(span, shown):
    assert excerpt("abc def", span) == shown


def test_what_a_table_shows_of_a_text_ends_at_a_word():
    shown = excerpt("word \n" * 1000, None)
    assert shown.endswith("word …")
    assert 200 < len(shown) <= 242
