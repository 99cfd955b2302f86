"""The order of a list that was judged in part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass.ranking.partial_results import completed, failed, merged
from secondpass.types import Issue

CASES = {
    "all are judged": ("cab", "abc", "cab"),
    "none is": ("", "abc", "abc"),
    "half: the others keep their places": ("db", "abcd", "adcb"),
    "less than half: the same": ("d", "abcd", "abcd"),
    "a head, as before a deadline": ("cba", "abcdefg", "cbadefg"),
    "more than half of the list, from its head": ("dcba", "abcdefg", "dcbaefg"),
    # 4 judged to each unjudged one, which count a quarter
    "the first fifth is missing": ("jihgfedc", "abcdefghij", "jaibhgfedc"),
    "one in the middle is missing": ("edba", "abcde", "edbac"),
    "every third is missing": ("ihfecb", "abcdefghi", "iahfecbdg"),
}


@pytest.mark.parametrize(("judged", "incoming", "expected"), CASES.values(), ids=CASES)
def test_judged_and_unjudged_are_merged_by_rank(judged, incoming, expected):
    numbers = [incoming.index(letter) for letter in judged]
    order = merged(numbers, range(len(incoming)))
    assert "".join(incoming[number] for number in order) == expected


@st.composite
def partial_lists(draw):
    """The judged candidates, best first, and all in the incoming order."""
    incoming = draw(st.permutations(range(draw(st.integers(1, 30)))))
    return draw(st.lists(st.sampled_from(incoming), unique=True)), incoming


@examples(100)
@given(partial_lists())
def test_each_part_keeps_its_order_and_at_most_half_keep_all_places(lists):
    judged, incoming = lists
    order = merged(judged, incoming)
    assert sorted(order) == sorted(incoming)
    assert [item for item in order if item in judged] == judged
    unjudged = [item for item in incoming if item not in judged]
    assert [item for item in order if item not in judged] == unjudged
    if len(judged) <= len(unjudged):
        assert [order.index(item) for item in unjudged] == [*map(incoming.index, unjudged)]


@pytest.mark.parametrize(
    ("code", "unknown", "order"),
    [
        ("timeout", {0, 1}, [0, 1, 4, 2, 3, 5]),
        ("no_text", set(), [4, 2, 3, 0, 1, 5]),
        ("declined", set(), [4, 2, 3, 0, 1, 5]),
    ],
)
def test_what_no_failed_call_left_unjudged_stands_behind(code, unknown, order):
    issues = [Issue(code, "why", (0, 1)), Issue("not_in_reply", "why", (3,))]
    status = ["unjudged", "unjudged", "scored", "backfilled", "scored", "tail"]
    assert failed([0, 1], issues) == unknown
    assert completed([4, 2], range(6), status, issues) == order
