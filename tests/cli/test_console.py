"""What is a terminal, and what of a text is safe to show on one."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.file_proxy import FileProxy

from secondpass.cli.console import escaped, excerpt, on_terminal, one_line
from terminals import on_a_terminal


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


NAME = "k\x1b]0;T\x07\x9b2J\u202e\u2066"
CALLS = [
    ("config", "show", "c.yaml"),
    ("config", "validate", "unknown.yaml"),
    ("config", "show", "unknown.yaml"),
    ("config", "validate", f"{NAME}.yaml"),
    ("plan", "--config", "c.yaml"),
    ("doctor", "--config", "c.yaml", "--network"),
    ("doctor", "--config", "c.yaml", "--network", "--json"),
    ("doctor", NAME),
    ("rerank", "--config", "c.yaml", "lines.jsonl"),
    ("rerank", "--config", "c.yaml", "lines.jsonl", "--format", "jsonl"),
    ("rerank", "--config", "c.yaml", "lines.jsonl", "--explain", f"a{NAME}"),
    ("rerank", "--preset", "lexical", "found.jsonl", "--query", "k", "--text"),
    ("pack", "--preset", "lexical", "found.jsonl", "--query", "k"),
    ("pack", "--preset", "lexical", "found.jsonl", "--query", "k", "--json"),
    ("pack", "--preset", "lexical", "lines.jsonl"),
    ("rerank", "--preset", "lexical", f"{NAME}.jsonl"),
    ("rerank", "--preset", "lexical", "--set", f"{NAME}=1", "lines.jsonl"),
    ("rerank", "--preset", NAME, "lines.jsonl"),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: " ".join(call).replace(NAME, "NAME"))
def test_no_name_of_a_user_controls_the_terminal(tmp_path, monkeypatch, call):
    """Names of files and settings, ids and models, in results and in errors."""
    monkeypatch.chdir(tmp_path)
    name = json.dumps(NAME)
    method = f"{{type: endpoint, api: tei, base_url: 'http://127.0.0.1:9', model: {name}}}"
    limits = "limits: {retries: 0}"
    Path("c.yaml").write_text(f"method: {method}\n{limits}\nrender: {{fields: [{name}, text]}}\n")
    Path("unknown.yaml").write_text(f"method: {{type: lexical, {name}: 1}}\n{name}: 2\n")
    for path in (f"{NAME}.yaml", f"{NAME}.jsonl"):
        Path(path).write_text("x: 1\n")
    candidates = [{"id": f"{letter}{NAME}", "text": NAME, NAME: NAME} for letter in "ab"]
    line = {"id": NAME, "query": NAME, "candidates": candidates}
    Path("lines.jsonl").write_text(json.dumps(line) + "\n")
    Path("found.jsonl").write_text("".join(json.dumps(each) + "\n" for each in candidates))
    shown = on_a_terminal(*call)
    assert "k" in shown  # of the name
    assert not {*shown} & {*"\x07\x9b\u202e\u2066"}
    assert "\x1b]" not in shown
