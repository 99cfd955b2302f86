"""Whatever a model says is read, or refused with a `ReplyError`."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from reply_cases import ORDERS, SCORES
from sampling import examples
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order
from secondpass.questions import Completion

NAMES = ["k4t", "b2c", "z9x", "d7f", "m3p"]
AROUND = [
    "",
    "Sure! ",
    "Best first (3 of 4): ",
    "<think>k4t? 3.</think>",
    "so...</think>",
    "<think>k4t?",
    "<|channel|>analysis<|message|>k4t? 3.<|end|>",
    "<|start|>assistant<|channel|>final<|message|>",
    "analysisWe see k4t.assistantfinal",
    "<answer>",
    " // done",
]
NUMBERS = st.integers(-2, 12) | st.floats() | st.sampled_from([None, True, 10**400, "3", "٣", [3]])
LABELS = st.sampled_from([*NAMES, "K4T", "zz", "", "ranking", "grades", "id"]) | st.text(max_size=3)
VALUES = st.recursive(
    NUMBERS | LABELS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(LABELS, inner, max_size=4)
        | st.fixed_dictionaries({"id": LABELS, "score": inner})
        | st.fixed_dictionaries({"ranking": st.lists(LABELS, max_size=6)})
    ),
    max_leaves=5,
)
KNOWN = [reply for reply, _ in [*SCORES.values(), *ORDERS.values()] if len(reply) < 300]
WHOLE = st.one_of(
    st.builds(
        lambda before, value, after: f"{before}{json.dumps(value)}{after}",
        st.sampled_from(AROUND),
        VALUES,
        st.sampled_from(AROUND),
    ),
    st.tuples(VALUES, VALUES).map(lambda two: f"{json.dumps(two[0])} {json.dumps(two[1])}"),
    st.sampled_from(KNOWN),
    st.text(alphabet='[]{}",:k4tb2c 0123456789\\', max_size=40),
)


@st.composite
def broken(draw, text):
    """A text with a piece cut out, or something put in."""
    start = draw(st.integers(0, len(text)))
    stop = draw(st.integers(start, len(text)))
    return text[:start] + draw(st.sampled_from([*"\",}]'\\[{\x00", "NaN", ""])) + text[stop:]


@settings(max_examples=5 * examples(20).max_examples)  # it holds up the promise of strict readers
@given(st.integers(1, 5), st.one_of(WHOLE, WHOLE.flatmap(broken)), st.booleans())
def test_any_reply_is_read_or_refused(count, reply, cut):
    completion, labels = Completion(reply, cut), Labels(NAMES[:count], None)
    try:
        grades = read_scores(completion, labels, 0, 10)
    except ReplyError as error:
        assert not any(name in str(error) for name in NAMES)
    else:
        assert len(grades.values) == count
        assert all(one is None or (type(one) is float and 0 <= one <= 10) for one in grades.values)
        assert any(value is not None for value in grades.values)
        assert all(grades.values[index] is None for index in grades.refused)
        assert not grades.cut or cut
    try:
        order = read_order(completion, labels)
    except ReplyError:
        return
    assert order.places
    assert len(set(order.places)) == len(order.places)
    assert all(0 <= place < count for place in order.places)
