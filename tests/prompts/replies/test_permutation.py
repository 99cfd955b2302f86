"""The reader of orders in JSON."""

import pytest

from reply_cases import (
    CUT_REPLIES,
    FROM_1,
    INDEX_ORDERS,
    NONE,
    OPAQUE,
    ORDER,
    ORDERS,
    O,
    check,
    order_of,
)
from secondpass.effects import Completion
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.permutation import Permutation


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
        "Error [3]: rate limit exceeded",
        "Document [2] is the best.",
        '{"error": "overloaded", "retry_after": [3]}',
    ],
)
def test_number_in_prose_is_no_order(reply):
    check(lambda: order_of(reply, FROM_1), NONE)


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


def test_format_reads_orders():
    assert Permutation().read(Completion(O), OPAQUE).places == ORDER


@pytest.mark.parametrize(
    ("count", "reply", "expected"),
    [
        (2, "I think [2, 1] is it.", (1, 0)),
        (3, "I think [2, 1] is it.", NONE),
        (6, "I think [2, 1, 3] is it.", (1, 0, 2)),
        (7, "I think [2, 1, 3] is it.", NONE),
        (8, "I think [2, 1, 3] is it.", NONE),
        (8, "I think [2, 1, 3, 4] is it.", (1, 0, 2, 3)),
    ],
)
def test_order_in_prose_has_half_of_the_indices(count, reply, expected):
    labels = Labels([str(number + 1) for number in range(count)], 1)
    check(lambda: order_of(reply, labels), expected)
