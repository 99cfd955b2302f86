"""The bars of the figures of tools/size.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import size

TOOLS = Path(size.__file__).parent
MOST = {"own scorer": 18, "listwise": 40, "SecondPassRanker.run": 24}


def test_a_listwise_question_passes_few_generators():
    assert size.nested_generators() <= 5


def test_a_ranking_crosses_few_modules():
    code = "import json, size; print(json.dumps(size.modules_crossed()))"
    ended = subprocess.run(  # the thread of the event loop must be new
        [sys.executable, "-c", code],
        cwd=TOOLS,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    crossed = json.loads(ended.stdout)
    assert {name: number for name, number in crossed.items() if number > MOST[name]} == {}
    assert min(crossed.values()) > 10


@pytest.mark.parametrize(
    ("base", "other", "spread"),
    [
        ("class A: ...", "from a import A\nclass B(A): ...", ["A"]),
        ("class A: ...\nclass B(A): ...", "", []),
        ("class A: ...", "from a import A\nclass B(A): ...\nclass C(A): ...", []),
        ("class A: ...\na = A()", "from a import A\nclass B(A): ...", []),
    ],
    ids=["one subclass elsewhere", "in the same file", "two subclasses", "an instance"],
)
def test_classes_spread_over_files(tmp_path, base, other, spread):
    (tmp_path / "a.py").write_text(base)
    (tmp_path / "b.py").write_text(other)
    assert size.spread_classes(tmp_path) == spread


def test_words_are_counted_without_markup():
    page = "# A page\n\n<!-- a comment -->\n| a | 1 |\n| --- | - |\n\n[b]: https://example.org/b\n"
    assert size.words(page) == 4


def test_the_readme_is_short():
    readme, docs = size.words_by_hand()
    assert readme <= 1450
    assert docs > readme


def test_no_class_is_spread_over_files():
    assert size.spread_classes(*size.rooms.SOURCES) == []
