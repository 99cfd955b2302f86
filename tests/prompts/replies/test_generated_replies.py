"""Properties of the readers, by generated replies."""

import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import shown_in
from reply_cases import ORDERS, SCORES, order_of, scores_of
from sampling import examples
from secondpass import Reranker
from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

CASES = [*SCORES.values(), *ORDERS.values()]
# Ten times what the profile gives other properties: these hold up the promise of strict readers.
BULK = 10 * examples(20).max_examples

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
_THOUGHTS = re.compile(r".*</think>", re.S | re.I)
fences = st.sampled_from(
    [("", ""), ("```json\n", "\n```"), ("```\n", "```"), ("**", "**"), ("`", "`")]
)


GRADED = [
    lambda grades, pairs, strange: {**strange, **grades},
    lambda grades, pairs, strange: {"grades": grades},
    lambda grades, pairs, strange: {"grades": grades, "note": "5 of 5"},
    lambda grades, pairs, strange: pairs,
    lambda grades, pairs, strange: {"grades": pairs},
    lambda grades, pairs, strange: {"results": pairs},
]
ORDERED = [
    lambda shown, doubled: doubled,
    lambda shown, doubled: {"ranking": doubled},
    lambda shown, doubled: {"order": doubled},
    lambda shown, doubled: [{"id": name} for name in shown],
    lambda shown, doubled: [name.upper() for name in shown],
]
wrappings = st.tuples(thoughts, prose, fences, st.sampled_from([None, 1]), prose)


def wrapped(value, wrapping):
    """A value as JSON, in any wrapping that is well known."""
    thought, before, (opening, closing), indent, after = wrapping
    return f"{thought}{before}{opening}{json.dumps(value, indent=indent)}{closing}{after}"


@st.composite
def clear(draw):
    """(labels, grades, reply for them, order, reply for it), each reply of one meaning."""
    shown = draw(st.lists(st.sampled_from(NAMES), min_size=2, unique=True))
    labels = Labels(NAMES, None)
    numbers = st.integers(0, 10) | st.floats(0, 10)
    grades = dict(zip(shown, draw(st.lists(numbers, min_size=5, max_size=5)), strict=False))
    strange = draw(st.sampled_from([{}, {"zz": 3}, {"none": 10, "q1q": 0}]))
    pairs = [{"id": name, "score": grade} for name, grade in grades.items()]
    doubled = [*shown, *shown[: draw(st.integers(0, 2))], *strange]
    graded = draw(st.sampled_from(GRADED))(grades, pairs, strange)
    ordered = draw(st.sampled_from(ORDERED))(shown, doubled)
    wrapping = draw(wrappings)
    return labels, grades, wrapped(graded, wrapping), shown, wrapped(ordered, wrapping)


@settings(max_examples=BULK // 2)
@given(clear())
def test_clear_replies_are_read_exactly(case):
    labels, grades, graded, order, ordered = case
    values = scores_of(graded, labels)
    assert values == tuple(grades.get(name) for name in labels.names)
    assert [labels.names[at] for at in order_of(ordered, labels)] == order


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


@examples(20)
@given(clear(), clear())
def test_two_answers_are_refused(one, other):
    both = Labels(NAMES, None)
    for read, at in ((scores_of, 2), (order_of, 4)):
        first, second = (_THOUGHTS.sub("", case[at]) for case in (one, other))
        if read(first, both) != read(second, both):
            with pytest.raises(ReplyError, match="more than one"):
                read(f"{first}\n{second}", both)


KINDS = [
    (Graded, {}),
    (Graded, {"labels": "index1", "reply": "pairs"}),
    (Graded, {"labels": "id", "batch_size": 2}),
    (Listwise, {"window": 3, "stride": 2}),
    (Listwise, {"labels": "index0", "reply": "pairs"}),
    (Listwise, {"labels": "id", "bare": True}),
    (Listwise, {"reply": "keyed"}),
]


class Saying:
    """Says what it was given, with the labels that it is shown in the place of ``NAMES``.

    It is asynchronous and never waits: a thread for each example would take most of the time.
    """

    name = "saying"

    def __init__(self, reply, cut):
        self.reply = reply
        self.cut = cut

    async def complete(self, prompt):
        said = self.reply
        for name, label in zip(NAMES, shown_in(prompt), strict=False):
            said = said.replace(name, label)
        return Completion(said, self.cut)


@settings(max_examples=BULK // 4)
@given(st.sampled_from(KINDS), replies, st.integers(1, 5), st.booleans())
def test_rerankers_never_lose_or_raise(kind, reply, count, cut):
    method, given_settings = kind
    reranker = Reranker(
        method(Saying(reply, cut), **given_settings), limits={"repair": 0}, log_level="debug"
    )
    candidates = [{"text": f"passage {at}", "id": NAMES[at]} for at in range(count)]
    ranking = reranker.rerank("query", candidates)
    assert sorted(ranking.order) == list(range(count))
    for item in ranking:
        score = item.rerank_score
        assert (item.status == "scored") == (score is not None)
        assert score is None or (type(score) is float and math.isfinite(score))
    unscored = {item.position for item in ranking if item.status != "scored"}
    told = {at for issue in ranking.report.issues for at in issue.positions}
    if ranking.report.status == "unchanged":
        assert ranking.report.issues
        assert ranking.order == tuple(range(count))
    elif ranking[0].status == "tail":
        assert (count, ranking.report.issues) == (1, ())  # a single candidate, left alone
    else:
        assert unscored <= told
        assert ranking.report.status == ("partial" if unscored else "ok")
