"""Questions to a person about a model's judgements, and what the answers give."""

import json
import re

import pytest

from judged_folders import write_folder
from secondpass_evaluation.cli import judge as review
from secondpass_evaluation.judging.folder import Review

DOCUMENTS = [("q2", "a"), ("q2", "c"), ("q1", "a"), ("q1", "b"), ("q3", "b")]
"""In the order in which they are asked about."""
AGAIN = "warning: answer one of 0, 1, 2, 3"


@pytest.fixture
def ask(secondpass, tmp_path):
    """Call the command for a number of queries, with these lines of input."""
    write_folder(tmp_path)

    def asked(count, *lines, options=()):
        stdin = b"".join(line + b"\n" for line in lines)
        told = secondpass("judge", "--into", tmp_path, "--ask", count, *options, stdin=stdin)
        assert told.code == 0, told.err
        return told

    asked.folder = tmp_path
    return asked


@pytest.fixture
def answers(ask):
    """All answers in the file, in the order of the questions."""

    def read():
        people = Review(ask.folder).people
        return [people.get(query, {}).get(document) for query, document in DOCUMENTS]

    return read


def test_queries_are_asked_about_in_their_random_order(ask, answers):
    told = ask(2, b"3", b"0", b"2", b"1")
    assert answers() == [3, 0, 2, 1, None]
    assert re.findall(r"query . of ., document . of .", told.err) == [
        "query 1 of 2, document 1 of 2",
        "query 1 of 2, document 2 of 2",
        "query 2 of 2, document 1 of 2",
        "query 2 of 2, document 2 of 2",
    ]
    assert "plums text a Grade" in told.flat
    assert "complete: 2 of 3 queries" in told.out


def test_a_document_that_has_an_answer_is_not_asked_about_again(ask, answers):
    ask(1, b"3")
    told = ask(1, b"1")
    assert "document 2 of 2" in told.err
    assert "document 1 of 2" not in told.err
    assert answers()[:2] == [3, 1]
    assert "Grade" not in ask(1, b"0").err
    assert answers()[:2] == [3, 1]


ANSWERS = {
    # lines of input, answers in the file, and what is said
    "going back": ([b"3", b"b", b"2", b"0"], [2, 0], "document 2 of 2"),
    "nothing before the first": ([b"b", b"1", b"0"], [1, 0], f"{AGAIN} or q"),
    **{
        name: ([b"3", *lines], [3], "a person has judged 1 document")
        for name, lines in {"q": [b"q", b"0"], "Q": [b" Q ", b"0"], "end": []}.items()
    },
    **{
        repr(line): ([line, b" 2 ", b"0"], [2, 0], AGAIN)
        for line in (b"", b"4", b"\xff", "\u00b2".encode())
    },
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_answers_do(case, ask, answers):
    lines, expected, said = ANSWERS[case]
    told = ask(1, *lines)
    assert answers() == [*expected, *[None] * (len(DOCUMENTS) - len(expected))]
    assert said in told.err + told.out
    assert "1 documents" not in told.out
    assert (AGAIN in told.err) == said.startswith(AGAIN)
    assert "Grade (0, 1, 2, 3, b or q)" in told.err
    assert told.err.count("document 1 of 2") == (2 if case == "going back" else 1)


def test_ctrl_c_keeps_the_answers(ask, answers, monkeypatch):
    show = review._show

    def stopping(*arguments):
        if answers()[0] is not None:
            raise KeyboardInterrupt
        show(*arguments)

    monkeypatch.setattr(review, "_show", stopping)
    assert "complete: 0 of 3 queries" in ask(1, b"3", b"0").out
    assert answers() == [3, None, None, None, None]


def test_more_queries_than_there_are(ask):
    told = ask(4, *[b"1"] * 5)
    assert "warning: --ask 4: the folder has 3 queries" in told.err
    assert "query 3 of 3" in told.err
    assert "complete: 3 of 3 queries" in told.out
    assert "warning" not in ask(3).err


def test_summary(ask):
    assert "agreement" not in ask(1).out
    record = json.loads(ask(3, b"1", b"3", b"2", b"0", b"1", options=["--json"]).out)
    assert record == {"queries": 3, "documents": 5, "kappa": 1.0, "of": 3, "needed": 6}
    assert ask(3).out.splitlines() == [
        "a person has judged 5 documents; agreement with the model 1.00 (1: always, 0: no more "
        "than by chance)",
        "complete: 3 of 3 queries",
        "to correct the figures, at least 6 complete queries are needed",
    ]


def test_terminal_escapes_are_shown_escaped(ask):
    pool = ask.folder / "pool.jsonl"
    pool.write_text(
        pool.read_text()
        .replace("text ", "\\u001b[2Jgrow \\u202eon ")
        .replace("plums", "\\u001b[1m")
    )
    told = ask(1)
    assert "\x1b" not in told.err
    assert "\\x1b[2Jgrow \\u202eon" in told.err
    assert "\\x1b[1m" in told.err
