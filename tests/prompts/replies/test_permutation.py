"""The reader of orders in JSON."""

import pytest

from reply_cases import (
    BASE_0,
    BASE_1,
    CUT_REPLIES,
    FROM_0,
    FROM_1,
    IDS,
    NONE,
    ORDERS,
    check,
    order_of,
)


@pytest.mark.parametrize(("reply", "expected"), ORDERS.values(), ids=ORDERS)
def test_orders(reply, expected):
    check(lambda: order_of(reply), expected)


INDEX_ORDERS = [
    (FROM_1, "[2, 3, 1]", (1, 2, 0)),
    (FROM_1, '["2", "3", "1"]', (1, 2, 0)),
    (FROM_1, "[2.0, 3, 1]", (1, 2, 0)),
    (FROM_1, '{"scores": [2, 3, 1]}', NONE),
    (FROM_1, '{"ranks": ["2", "3", "1"]}', NONE),
    (FROM_1, '{"scores": [{"index": 2}, {"index": 3}]}', (1, 2)),
    (FROM_1, "[2.5, 3, 1]", (2, 0)),
    (FROM_1, "[true, 3]", (2,)),
    (FROM_1, "[1, 2, 0]", BASE_1),
    (FROM_1, "[0, 1]", BASE_1),
    (FROM_1, "[0, 1, 2, 3]", (0, 1, 2)),
    (FROM_1, "[4, 3, 2, 1]", (2, 1, 0)),
    (FROM_1, "[-1, 2]", (1,)),
    (FROM_1, "[1e400, 2]", (1,)),
    (FROM_1, "[NaN, 2]", (1,)),
    (FROM_1, "[1" + "0" * 5000 + ", 2]", (1,)),
    (FROM_1, '["\uff12", 3]', (2,)),
    (FROM_1, '["02", 3]', (1, 2)),
    (FROM_1, '["doc 2", 3]', (1, 2)),
    (FROM_1, '["rank 2", 3]', (2,)),
    (FROM_1, "[2] > [3] > [1]", NONE),
    (FROM_1, "[2], [3], [1]", NONE),
    (FROM_1, "2\n3\n1", NONE),
    (FROM_1, "[2]\n[3]\n[1]", NONE),
    (FROM_1, "[2]\n[3]", NONE),
    (FROM_1, "[3.0, 2.0, 1.0, 0.0]", (2, 1, 0)),
    (FROM_1, "[2.0, 1.0, 0.0]", BASE_1),
    (FROM_1, '["0", "1", "2"]', BASE_1),
    (FROM_1, '["doc 0", "doc 1", "doc 2"]', BASE_1),
    (FROM_1, '["[2]", "[1]", "[0]"]', BASE_1),
    (FROM_1, "[2, 3, 4]", BASE_1),
    (FROM_0, "[3.0, 2.0, 1.0]", BASE_0),
    (FROM_0, '["3", "2", "1"]', BASE_0),
    (FROM_0, "[-1, 0, 1]", BASE_0),
    (FROM_0, '["-1", "0", "1"]', BASE_0),
    (FROM_0, "[-1.0, 0.0, 1.0]", BASE_0),
    (FROM_0, "[2, 1, 0, -1]", (2, 1, 0)),
    (FROM_0, '[{"index": 3}, {"index": 2}, {"index": 1}]', BASE_0),
    (FROM_1, "Based on [1] and [2]: [2, 1, 3]", (1, 0, 2)),
    (FROM_1, "Based on [1, 2]: [2, 1, 3]", (1, 0, 2)),
    (FROM_1, "2, 3, 1", NONE),
    (FROM_1, "Error 429: try again in 3 seconds", NONE),
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
