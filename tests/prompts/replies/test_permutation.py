"""Readers of orders: in JSON, and as models trained for listwise reranking write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reply_cases import (
    BASE_0,
    BASE_1,
    CUT_REPLIES,
    DRAFT,
    FROM_0,
    FROM_1,
    IDS,
    NONE,
    OPAQUE,
    OPEN,
    ORDERS,
    check,
    order_of,
)
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.permutation import read_ranked
from secondpass.questions import Completion


@pytest.mark.parametrize(("reply", "expected"), ORDERS.values(), ids=ORDERS)
def test_orders(reply, expected):
    check(lambda: order_of(reply), expected)


INDEX_ORDERS = [
    (FROM_1, "[2, 3, 1]", (1, 2, 0)),
    (FROM_1, "[2.0, 3, 1]", (1, 2, 0)),
    (FROM_1, '{"scores": [2, 3, 1]}', NONE),
    (FROM_1, '{"ranks": ["2", "3", "1"]}', NONE),
    (FROM_1, '{"scores": [{"index": 2}, {"index": 3}]}', (1, 2)),
    (FROM_1, "[2.5, 3, 1]", (2, 0)),
    (FROM_1, "[true, 3]", (2,)),
    (FROM_1, "[1, 2, 0]", BASE_1),
    (FROM_1, "[0, 1]", BASE_1),
    (FROM_1, "[0, 1, 2, 3]", (0, 1, 2)),
    (FROM_1, "[-1, 2]", (1,)),
    (FROM_1, "[1e400, 2]", (1,)),
    (FROM_1, "[1" + "0" * 5000 + ", 2]", (1,)),
    (FROM_1, '["\uff12", 3]', (2,)),
    (FROM_1, '["02", 3]', (1, 2)),
    (FROM_1, '["rank 2", 3]', (2,)),
    (FROM_1, "[2] > [3] > [1]", NONE),
    (FROM_1, "[2], [3], [1]", NONE),
    (FROM_1, "[2]\n[3]\n[1]", NONE),
    (FROM_1, "[2]\n[3]", NONE),
    (FROM_1, "[2.0, 1.0, 0.0]", BASE_1),
    (FROM_1, '["0", "1", "2"]', BASE_1),
    (FROM_1, '["[2]", "[1]", "[0]"]', BASE_1),
    (FROM_0, '["3", "2", "1"]', BASE_0),
    (FROM_0, "[-1, 0, 1]", BASE_0),
    (FROM_0, "[2, 1, 0, -1]", (2, 1, 0)),
    (FROM_0, '[{"index": 3}, {"index": 2}, {"index": 1}]', BASE_0),
    (FROM_1, "Based on [1] and [2]: [2, 1, 3]", (1, 0, 2)),
    (FROM_1, "Based on [1, 2]: [2, 1, 3]", (1, 0, 2)),
    (FROM_0, "[1, 2, 0]", (1, 2, 0)),
    (FROM_0, "[2, 3, 1]", BASE_0),
    (FROM_0, "[3, 2, 1, 0]", (2, 1, 0)),
    (IDS, '["A&quot;B", "ünïcode", "DOC  1"]', (1, 2, 0)),
    (IDS, '["a\\"b", "doc 1"]', (1, 0)),
]
"""Labels, reply, order."""


@pytest.mark.parametrize(("labels", "reply", "expected"), INDEX_ORDERS)
def test_orders_of_other_labels(labels, reply, expected):
    check(lambda: order_of(reply, labels), expected)


@pytest.mark.parametrize(("reply", "_scores", "expected"), CUT_REPLIES)
def test_cut_replies(reply, _scores, expected):
    check(lambda: order_of(reply, cut=True), expected)


@pytest.mark.parametrize(
    "reply",
    [
        '```json\n{"ranking": ["b2c"]}\n```',
        '<think>hm</think>{"ranking": ["b2c"]}',
        'The order is {"ranking": ["b2c"]}',
    ],
)
def test_order_of_one(reply):
    check(lambda: order_of(reply), (1,))


# ---------------------------------------------------------------------- ``[2] > [1] > [3]``


ESCAPED = Labels(["a&lt;b&gt;", "x&gt;y", "c"], None)

TWO_ORDERS = "it holds more than one order"
INTERRUPTED = "its order is interrupted"
OUTSIDE = "it has documents in brackets that are not in its order"
BASE = "its numbers do not count from 1"

# labels, reply, places or why it is refused
REPLIES = [
    (FROM_1, "[2] > [1] > [3]", (1, 0, 2)),
    (FROM_1, "[2] > [1]\n> [3]", (1, 0, 2)),
    (FROM_1, "Sure! [2] > [1] > [3]. I hope this helps.", (1, 0, 2)),
    (FROM_1, "<think>[1] > [2]</think>[2] > [1] > [3]", (1, 0, 2)),
    (FROM_1, "**[2] > [1] > [3]**\n\n[2] names it, [1] and [3] do not.", (1, 0, 2)),
    (FROM_1, "[Doc 2] > [Doc 1] > [Doc 3]", (1, 0, 2)),
    (FROM_1, "2 > 1 > 3", (1, 0, 2)),
    (FROM_1, "[2] > [1]", (1, 0)),
    (FROM_1, "[2] > [1] > [2] > [3]", (1, 0, 2)),
    (FROM_1, "[2] > [9] > [1] > [3]", (1, 0, 2)),
    (FROM_1, "[2] > [1] > [3]\n[2] > [1] > [3]", (1, 0, 2)),
    (FROM_1, '{"ranking": [2, 1, 3]}', (1, 0, 2)),
    (FROM_1, "**2 > 1 > 3**", (1, 0, 2)),
    (FROM_1, "INDEX [2] > [1] > [3]", (1, 0, 2)),
    (FROM_1, "=[2] > [1] > [3]", INTERRUPTED),
    (FROM_1, "2", NONE),
    (FROM_1, "[2] > 1", NONE),
    (OPAQUE, "[b2c] > [k4t] > [z9x]", (1, 0, 2)),
    (OPAQUE, "b2c > k4t > z9x", (1, 0, 2)),
    (ESCAPED, "[c] > [a&lt;b&gt;] > [x>y]", (2, 0, 1)),
    (ESCAPED, "[c] > [a<b>] > [x>y]", (2, 0, 1)),
    (ESCAPED, "c > a&lt;b&gt; > x&gt;y", (2, 0, 1)),
    (ESCAPED, "[c > d] [c] > [a<b>] > [x>y]", (2, 0, 1)),
    (FROM_0, "[1] > [0] > [2]", (1, 0, 2)),
    (FROM_1, "[2] > [1] > [3]\nNo: [3] > [1] > [2]", TWO_ORDERS),
    (FROM_1, "[2] > [1] [3] > [1]", TWO_ORDERS),
    (FROM_1, "[2] > [1], [3]", OUTSIDE),
    (FROM_1, "[1][2] > [1]", "its order is interrupted"),
    (FROM_1, "[1], [2] > [1]", "its order is interrupted"),
    (FROM_1, "Of [1] and [2], the order is [2] > [1] > [3]", (1, 0, 2)),
    (FROM_1, "[2] > [1]\n[2]", "its order is interrupted"),
    (FROM_1, "[2] > [1] = [3]", OUTSIDE),
    (FROM_1, "[2] = [1] > [3]", OUTSIDE),
    (FROM_1, "[2] > [1] > ", INTERRUPTED),
    (FROM_1, "[2] > [1] > ...", INTERRUPTED),
    (FROM_1, "[2] > [1] > 3", INTERRUPTED),
    (FROM_1, "3 > [2] > [1]", INTERRUPTED),
    (FROM_1, "[2] >= [1] > [3]", OUTSIDE),
    (FROM_1, "[2] < [1] < [3]", NONE),
    (FROM_1, "[2] > [1] > [0]", BASE),
    (FROM_1, "2 > 1 > 0", NONE),
    (FROM_0, "[3] > [1] > [2]", "its numbers do not count from 0"),
    (
        FROM_1,
        "[9] > [8] > [7] > [6] > [2]",
        "it has more labels that were not shown than were shown",
    ),
    (FROM_1, "[9] > [8] > [2]", (1,)),
    (FROM_1, "[9] > [8]", NONE),
    (FROM_1, "2, 1, 3", NONE),
    (FROM_1, "[2], [1], [3]", NONE),
    (FROM_1, "[2]", (1,)),
    (FROM_1, "The best is [2].", NONE),
    (FROM_1, "1. [2]\n2. [1]\n3. [3]", NONE),
    (FROM_1, "<think>[2] > [1]", "it ends in the middle of thinking"),
    (FROM_1, "", "it is empty"),
    (FROM_1, "[1] > " * 10_000, INTERRUPTED),
    (FROM_1, "[" * 50_000, None),
    (FROM_1, "> " * 20_000, NONE),
]


@pytest.mark.parametrize(("labels", "reply", "expected"), REPLIES)
def test_ranked(labels, reply, expected):
    if isinstance(expected, tuple):
        assert read_ranked(Completion(reply), labels).places == expected
        return
    with pytest.raises(ReplyError) as caught:
        read_ranked(Completion(reply), labels)
    assert expected is None or str(caught.value) == expected


CUT_CHAINS = [
    ("[2] > [1] > [", (1, 0)),
    ("[2] > [1] > [3", (1, 0)),
    ("[2] > [1] >", (1, 0)),
    ("[2] > [1]", (1, 0)),
    ("Best first: [2] > [1] > [", (1, 0)),
    ("Best first: [2] > [1] > [3]", (1, 0, 2)),
    ("[2] > [1] > [3]\n\nThe second names it, and", (1, 0, 2)),
    ("<think>Hm.</think>[2] > [1] > [3]", (1, 0, 2)),
    ("First: [2] > [1] > [3]. Wait, the", DRAFT),
    ("<think>Hm.</think>[2] > [1] > [3] because", DRAFT),
    ("[2] > [1] > [3]\n\nOr: [", OPEN),
    ("2 > 1 > 3", (1, 0)),  # the last may be the beginning of 30
    ("2 > 1 >", (1, 0)),
]


@pytest.mark.parametrize(("reply", "expected"), CUT_CHAINS)
def test_cut_chains(reply, expected):
    completion = Completion(reply, cut=True)
    check(lambda: read_ranked(completion, FROM_1).places, expected)
    if isinstance(expected, tuple):
        assert read_ranked(completion, FROM_1).cut


def test_counts():
    order = read_ranked(Completion("[2] > [9] > [2] > [1]"), FROM_1)
    assert (order.doubled, order.unknown) == (1, 1)


def test_single_document():
    assert read_ranked(Completion("[1]"), Labels(["1"], 1)).places == (0,)
    assert read_ranked(Completion("It is [doc 1]."), Labels(["doc 1"], None)).places == (0,)
    with pytest.raises(ReplyError, match=NONE):
        read_ranked(Completion("It is [doc 1]."), Labels(["doc 1", "doc 2"], None))


chains = st.lists(
    st.sampled_from(["[1]", "[2]", "[3]", "[0]", "[4]", ">", " > ", "=", ", ", "\n", "[", "]"]),
    max_size=12,
).map("".join)


@given(chains, st.booleans())
def test_chains_are_read_whole(reply, cut):
    """What is accepted names the documents in the order in which the reply does."""
    try:
        order = read_ranked(Completion(reply, cut), FROM_1)
    except ReplyError:
        return
    written = [int(character) - 1 for character in reply if character in "123"]
    assert list(order.places) == list(dict.fromkeys(written))[: len(order.places)]
    if not order.cut:
        assert set(order.places) == set(written)
