"""Requests as JSON lines."""

import io
import json

import pytest

from secondpass import Candidate, InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.lines import Line
from secondpass.formats.requests import (
    InputRequest,
    batches,
    read_candidate,
    read_requests,
    read_single_request,
    read_text,
)


def accept(_options):
    pass


def read(*values, warn=None, check=accept):
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    stream = io.BytesIO("\n".join(lines).encode())
    options = {"check_options": check, "warn": warn or [].append}
    return list(read_requests(stream, "in", text_needed=True, **options))


def test_a_request():
    (request,) = read(
        {
            "id": 7,
            "query": "owls",
            "candidates": ["a", {"_id": 3, "text": "b", "score": 0.5, "year": 9}],
            "context": {"user": 1},
            "top_k": 2,
        }
    )
    assert (request.query_id, request.query, request.context) == (7, "owls", {"user": 1})
    assert request.candidates == [Candidate("a"), Candidate("b", 3, 0.5, {"year": 9})]
    assert request.options == {"top_k": 2}
    assert "owls" not in repr(request)


GOOD = {"query": "q", "candidates": []}
WRONG = [
    ([{"text": "a"}], "1: has no 'query'; to rank these lines as candidates, give --query"),
    ([{"candidates": []}], "1: needs a 'query': a string; the line has only 'candidates'"),
    ([{"question": "q"}], "1: needs a 'query': a string; rename 'question' to 'query'"),
    ([{"query": None}], "1: needs a 'query': a string, not None"),
    ([{}], "1: needs a 'query': a string; the line has no key"),
    ([{"query": "q"}], "1: needs 'candidates': a list; the line has only 'query'"),
    ([{"query": "q", "candidates": None}], "1: needs 'candidates': a list, not None"),
    *(
        (
            [{"query": "q", key: ["a"]}],
            f"needs 'candidates': a list; rename '{key}' to 'candidates'",
        )
        for key in ("documents", "passages", "contexts")
    ),
    ([{**GOOD, "candidates": ["a", 5]}], "1: candidate 2: must be an object or a string, not 5"),
    ([{**GOOD, "candidates": [{"text": "a", "score": "1"}]}], "1: the score must be a number"),
    ([{**GOOD, "candidates": [{"text": "a", "originalScore": "1"}]}], "score must be a number"),
    ([{**GOOD, "candidates": [{"id": "a"}]}], "1: candidate 1: "),
    ([{**GOOD, "id": [1]}], "1: 'id' must be a string or an integer"),
    ([{**GOOD, "id": "a", "query_id": "b"}], "1: has 'query_id' and 'id', and they differ"),
    ([{**GOOD, "id": "a"}, GOOD], "2: has no 'query_id', unlike earlier lines"),
    ([GOOD, {**GOOD, "id": "a"}], "2: has a 'query_id', unlike earlier lines"),
    ([{**GOOD, "id": "a"}, "", {**GOOD, "id": "a"}], "3: id 'a' was given before, in line 1"),
    (["[]"], "1: must be a JSON object"),
]


@pytest.mark.parametrize(("lines", "message"), WRONG, ids=[row[1][:40] for row in WRONG])
def test_wrong_requests(lines, message):
    with pytest.raises(FormatError) as caught:
        read(*lines)
    assert str(caught.value).startswith("in:")
    assert message in str(caught.value)


def test_wrong_options_are_errors_of_their_line():
    def check(options):
        raise InputError(f"top_k: is {options['top_k']}")

    with pytest.raises(FormatError, match=r"^in:1: top_k: is 0$"):
        read({**GOOD, "top_k": 0}, check=check)


def test_unknown_keys_are_warned_of_once_and_up_to_a_limit():
    warnings = []
    unknown = {f"key {number}": 1 for number in range(30)}
    first = {**GOOD, "querry": 1}
    assert len(read(first, first, {**GOOD, **unknown}, warn=warnings.append)) == 3
    assert warnings[0].startswith("in:1: the key 'querry' is unknown, and ignored; did you mean '")
    assert len(warnings) == 11
    assert warnings[-1] == "further unknown keys of requests are ignored, too"


def test_batches_end_by_count_and_by_size():
    requests = [InputRequest(None, "q", [], None, b"", size) for size in (1, 1, 1, 9, 1, 1)]
    assert [[item.size for item in batch] for batch in batches(requests, 3, 5)] == [
        [1, 1, 1],
        [9],
        [1, 1],
    ]
    assert list(batches([], 3, 5)) == []


def test_the_candidates_of_one_query():
    request = read_single_request(io.BytesIO(b"one\r\n\ntwo"), "in", "q", read_text)
    assert request.candidates == [Candidate("one"), Candidate("two")]
    assert (request.query_id, request.size) == (None, 6)
    same = read_single_request(io.BytesIO(b"one\ntwo\n"), "in", "q", read_text)
    assert same.digest == request.digest
    other = read_single_request(io.BytesIO(b"one\ntwo!\n"), "in", "q", read_text)
    assert other.digest != request.digest


def test_a_candidate_of_a_line():
    line = Line("in", 2, '{"id": "a", "text": "b"}')
    assert read_candidate(line, text_needed=True) == Candidate("b", "a")
    for text, message in (("[]", "is a list; put each"), ('{"candidates": []}', "--query")):
        with pytest.raises(FormatError, match=f"in:2: .*{message}"):
            read_candidate(Line("in", 2, text), text_needed=True)
