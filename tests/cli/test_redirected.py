"""Progress bars on a terminal neither take nor overwrite results."""

import json

import pytest

from command_requests import requests
from terminals import check_full_disk, left_on_screen, on_a_terminal, redirected

TREC = ("--run", "RUN", "--queries", "QUERIES", "--corpus", "CORPUS")
COMMANDS = {
    "one query": ("rerank", "CANDIDATES", "-q", "w1 w2", "-p", "lexical"),
    "many queries": ("rerank", "REQUESTS", "-p", "lexical"),
    "a TREC run": ("rerank", "REQUESTS", "-p", "lexical", "--format", "trec"),
    "a dry run": ("rerank", "REQUESTS", "-p", "lexical", "--dry-run"),
    "a dry run of a TREC run": ("rerank", *TREC, "-p", "lexical", "--dry-run"),
    "packed": ("pack", "REQUESTS", "-p", "lexical"),
    "packed text": ("pack", "CANDIDATES", "-q", "w1 w2", "-p", "lexical"),
}


@pytest.fixture
def arguments(write):
    (query,) = requests(1)
    run = [f"q0 Q0 {it['id']} 1 {9 - rank} t\n" for rank, it in enumerate(query["candidates"])]
    files = {
        "RUN": write("run.trec", "".join(run)),
        "QUERIES": write("queries.tsv", f"q0\t{query['query']}\n"),
        "CORPUS": write("corpus.jsonl", query["candidates"]),
        "CANDIDATES": write("candidates.jsonl", requests(1)[0]["candidates"]),
        "REQUESTS": write("requests.jsonl", requests(3)),
    }
    return lambda name: [files.get(word, word) for word in COMMANDS[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_results_arrive_in_a_file_and_in_a_pipe(arguments, secondpass, name):
    expected = secondpass(*arguments(name))
    assert expected.code == 0, expected.err
    assert expected.out
    for target in ("file", "pipe"):
        code, out, shown = redirected(target, *arguments(name))
        assert (code, out) == (0, expected.out), shown
        assert json.dumps("candidates") not in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_an_error(arguments, name):
    check_full_disk(*arguments(name))


@pytest.mark.parametrize("name", ["a dry run", "a dry run of a TREC run"])
def test_a_table_on_the_terminal_is_not_overwritten(arguments, name):
    lines = left_on_screen(on_a_terminal(*arguments(name))).splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["model", "lexical"]
    assert "candidates. dry run" in lines[2]


def test_texts_are_not_between_bars(arguments):
    shown = left_on_screen(on_a_terminal(*arguments("packed")))
    assert [json.loads(line)["query_id"] for line in shown.splitlines() if line[:1] == "{"] == [
        "q0",
        "q1",
        "q2",
    ]
    assert "Packing" not in shown


def test_the_name_of_a_full_device_is_in_the_error(arguments):
    name, shown = arguments("many queries"), "/dev/full: No space left on device"
    code, _, seen = redirected("file", *name, "--output", "/dev/full")
    assert (code, shown in " ".join(seen.split())) == (1, True)
