"""The reader of orders in JSON."""

import pytest

from reply_cases import (
    CUT_REPLIES,
    INDEX_ORDERS,
    ORDERS,
    check,
    order_of,
)


@pytest.mark.parametrize(("reply", "expected"), ORDERS.values(), ids=ORDERS)
def test_orders(reply, expected):
    check(lambda: order_of(reply), expected)


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
