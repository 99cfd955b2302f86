"""Progress bars on a terminal neither take nor overwrite results."""

import json
import re

import pytest

from fake_provider import FakeProvider, good
from fruit_suite import QUERIES
from terminals import check_full_disk, left_on_screen, on_a_terminal, redirected
from tuning_suites import LAST, folder_of

SUITE = ("SUITE", "--mode", "lexical")
JUDGED = ("judge", "LOG", "--corpus", "CORPUS", "-c", "JUDGE", "--mode", "lexical", "--into")
COMMANDS = {
    "eval": ("eval", *SUITE, "-p", "lexical"),
    "eval, JSON": ("eval", *SUITE, "-p", "lexical", "--json"),
    "eval, dry run": ("eval", *SUITE, "-p", "lexical", "--dry-run"),
    "tune": ("tune", "TUNED", "--try", "lexical"),
    "calibrate": ("calibrate", "SUITE", "--behind", "lexical", "-p", "lexical", "--keep", 0.5),
    "judge": (*JUDGED, "NEW"),
    "judge, dry run": (*JUDGED, "NEW", "--dry-run"),
    "index": ("index", "CORPUS", "--into", "NEW", "--words-only"),
    "store": ("store", "CORPUS", "--into", "NEW"),
    "query": ("query", "fruit", "--corpus", "CORPUS", "--lexical", "--rerank", "-p", "lexical"),
}
CHANGING = re.compile(r"\d+(\.\d+)?(e-?\d+)?|NEW\d*")
"""Times and sizes, and the path of the output."""


@pytest.fixture
def provider():
    with FakeProvider(good(lambda text: len(text) % 4)) as running:
        yield running


@pytest.fixture
def arguments(suite, write, provider, tmp_path):
    llm = json.dumps(provider.llm("openai", prices={"input": 1, "output": 1}))
    files = {
        "SUITE": suite,
        "CORPUS": suite / "corpus.jsonl",
        "LOG": write("log.jsonl", [{"query": query} for query in QUERIES.values()]),
        "TUNED": folder_of(LAST, tmp_path / "tuned"),
        "JUDGE": write("judge.yaml", f"method: {{type: graded, llm: {llm}}}\n"),
    }
    count = 0

    def filled(name):
        nonlocal count
        count += 1
        named = {**files, "NEW": tmp_path / f"NEW{count}"}
        return [named.get(word, word) for word in COMMANDS[name]]

    return filled


@pytest.mark.parametrize("name", COMMANDS)
def test_results_arrive_in_a_file_and_in_a_pipe(arguments, secondpass, name):
    expected = secondpass(*arguments(name))
    assert expected.code == 0, expected.err
    assert expected.out
    for target in ("file", "pipe"):
        code, out, shown = redirected(target, *arguments(name))
        assert code == 0, shown
        assert CHANGING.sub("", out) == CHANGING.sub("", expected.out)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_an_error(arguments, name):
    check_full_disk(*arguments(name))


HEADINGS = {"eval": "system ", "eval, dry run": "system ", "judge, dry run": "system "}
SHOWN = {
    "eval": "nDCG@10",
    "eval, dry run": "calls  pairs",
    "tune": "lexical",
    "calibrate": "floor:",
    "judge": "judged 5 documents",
    "judge, dry run": "tokens in",
    "index": "6 passages",
    "store": "6 passages",
    "query": "banana",
}
"""A part of the results on a terminal."""


@pytest.mark.parametrize("name", SHOWN)
def test_results_on_the_terminal_are_not_overwritten(arguments, name):
    shown = left_on_screen(on_a_terminal(*arguments(name)))
    assert SHOWN[name] in shown
    heading = HEADINGS.get(name, "")
    assert any(line.startswith(heading) for line in shown.splitlines())
    assert "\u2501" not in shown  # a bar
