"""Properties of the readers, by generated replies."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from reply_cases import ORDERS, SCORES
from sampling import examples
from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order

# More than other properties have: this one holds up the promise of strict readers.
BULK = 5 * examples(20).max_examples

NAMES = ["k4t", "b2c", "z9x", "d7f", "m3p"]
labels_of = st.integers(1, 5).map(lambda count: Labels(NAMES[:count], None))

prose = st.sampled_from(
    [
        "",
        "Sure! ",
        "Here are the 5 documents, best first:\n",
        "\n\nI hope this helps.",
        "(3 of 4) ",
        "k4t > b2c",
        "1. k4t",
        " // done",
        "\u2028\u200b",
        "Grade: 7/10. ",
    ]
)
thoughts = st.sampled_from(
    [
        "",
        "<think>k4t? 3.</think>",
        '<think>["b2c"] {"k4t": 1}</think>\n',
        "so...</think>",
        "<THINK></THINK>",
    ]
)


odd_numbers = st.one_of(
    st.integers(-2, 12),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=2),
    st.just(10**400),
    st.sampled_from(["3", "٣", "³", [3], {"score": 3}]),
)
odd_labels = st.one_of(
    st.sampled_from([*NAMES, *map(str.upper, NAMES), "k4t ", "zz", "", "ranking", "grades", "id"]),
    st.text(max_size=3),
)
odd_json = st.recursive(
    odd_numbers | odd_labels,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(odd_labels, inner, max_size=4),
        st.fixed_dictionaries({"id": odd_labels, "score": inner}),
        st.fixed_dictionaries({"ranking": st.lists(odd_labels, max_size=6)}),
        st.fixed_dictionaries({"grades": st.dictionaries(odd_labels, odd_numbers, max_size=6)}),
    ),
    max_leaves=5,
)


@st.composite
def broken(draw, text):
    """A text with a piece cut out, or something put in."""
    at = draw(st.integers(0, len(text)))
    if draw(st.booleans()):
        return text[:at] + text[draw(st.integers(at, len(text))) :]
    return (
        text[:at]
        + draw(st.sampled_from([",", "}", "]", "'", '"', "\\", "NaN", "[", "{", "\x00"]))
        + text[at:]
    )


whole_replies = st.one_of(
    odd_json.map(json.dumps),
    st.tuples(thoughts, prose, odd_json, prose).map(
        lambda parts: "".join([*parts[:2], json.dumps(parts[2]), parts[3]])
    ),
    st.tuples(odd_json, odd_json).map(lambda two: f"{json.dumps(two[0])} {json.dumps(two[1])}"),
    st.sampled_from(
        [reply for reply, _ in [*SCORES.values(), *ORDERS.values()] if len(reply) < 300]
    ),
    st.text(max_size=30),
    st.text(alphabet='[]{}",:k4tb2c 0123456789\\', max_size=40),
)
replies = st.one_of(whole_replies, whole_replies.flatmap(broken))


@settings(max_examples=BULK)
@given(labels_of, replies, st.booleans())
def test_any_reply_is_read_or_refused(labels, reply, cut):
    completion = Completion(reply, cut)
    try:
        grades = read_scores(completion, labels, 0, 10)
    except ReplyError as error:
        assert not any(name in str(error) for name in NAMES)
    else:
        assert len(grades.values) == len(labels)
        for value in grades.values:
            assert value is None or (type(value) is float and 0 <= value <= 10)
        assert any(value is not None for value in grades.values)
        assert all(grades.values[at] is None for at in grades.refused)
        assert not grades.cut or cut
    try:
        order = read_order(completion, labels)
    except ReplyError:
        return
    assert order.places
    assert len(set(order.places)) == len(order.places)
    assert all(0 <= at < len(labels) for at in order.places)
