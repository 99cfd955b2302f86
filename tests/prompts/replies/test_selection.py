"""Selecting the answer of a reply: what stands beside it, before it and behind it."""

import pytest

from reply_cases import BROKEN, FROM_1, NONE, OPAQUE, VALUES, G, check, order_of, scores_of
from secondpass.effects import Completion
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import read_scores

INDICES = '{"1": 3, "2": 9, "3": 5}'

BESIDE = {
    "a label in square brackets": (" [b2c: see above]", VALUES),
    "two labels in one pair": (" [k4t: a, b2c: b oops]", BROKEN),
    "two labels in two pairs": (" [k4t: a b] [b2c: b c]", VALUES),
    "a label among words": (" [the b2c: above k4t: x y]", VALUES),
    "a label behind the brackets": (" [b2c: see above]. k4t: good", VALUES),
    "a label in braces": (" {b2c: see above}", BROKEN),
    "a label among words in braces": (" {see b2c: above}", BROKEN),
    "words in braces": (" {see below: above}", VALUES),
    "many pieces": (" {" + "x:" * 4998 + "}", VALUES),
    "too many pieces": (" {" + "x:" * 4999 + "}", BROKEN),
    "an unclosed bracket": ("\n[k4t is, b2c", BROKEN),
}


@pytest.mark.parametrize(("rest", "expected"), BESIDE.values(), ids=BESIDE)
def test_unread_brackets_behind(rest, expected):
    check(lambda: scores_of(G + rest), expected)


BESIDE_INDICES = {
    "the next index in braces": (" {see 4: x y}", BROKEN),
    "the one before in braces": (" {see 0: x y}", BROKEN),
    "another index in braces": (" {see 5: x y}", VALUES),
    "the next index in prose": (" [4: x y, 2: z w]", VALUES),
}


@pytest.mark.parametrize(("rest", "expected"), BESIDE_INDICES.values(), ids=BESIDE_INDICES)
def test_indices_in_unread_brackets(rest, expected):
    check(lambda: scores_of(INDICES + rest, FROM_1), expected)


def test_the_only_label_in_unread_brackets():
    single = Labels(["1"], 1)
    check(lambda: scores_of('{"1": 3} [1: x y]', single), BROKEN)
    check(lambda: scores_of('{"1": 3} [2: x y]', single), (3,))


def test_rows_that_break_off():
    rows = '{"id": "k4t", "score": 3}\n{"id": "b2c", "score": 9}'
    for rest, cut in (('\n{"id": "z9', True), ("", False)):
        scores = read_scores(Completion(rows + rest, cut=True), OPAQUE, 0, 10)
        assert (scores.values, scores.cut) == ((3, 9, None), cut)
    assert not read_scores(Completion(rows), OPAQUE, 0, 10).cut


# A single number in brackets is an order where nothing else stands beside it.
ALONE = {
    "alone": ("[2]", (1,)),
    "far behind": (" " * 50 + "[2]", (1,)),
    "too far behind": (" " * 51 + "[2]", NONE),
    "fenced": ("```json\n[2]\n```", (1,)),
    "fenced in capitals": ("```JSON\n[2]\n```", (1,)),
    "words before": ("It is [2]", NONE),
    "words behind": ("[2] is it", NONE),
    "words on the next line": ("[2]\nis it", (1,)),
    "brackets on the next line": ("[2]\nnot [x y: 3]", NONE),
}


@pytest.mark.parametrize(("reply", "expected"), ALONE.values(), ids=ALONE)
def test_numbers_in_prose(reply, expected):
    check(lambda: order_of(reply, FROM_1), expected)
