"""A draft is never the answer: not in thinking, in any notation, nor where a reply broke off."""

import json

from hypothesis import given
from hypothesis import strategies as st

from reply_marks import MARKS
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order, read_ranked
from secondpass.questions import Completion

NAMES = ["k4t", "b2c", "z9x"]
LABELS = Labels(NAMES, None)
DRAFT, FINAL = (0, 1, 2), (2, 1, 0)
"""Places of the documents, best first. No document has the same place in both."""

PROSE = st.sampled_from(["Hm, ", "So: ", "First thought:\n", "Wait, b2c is about ", "k4t? [1] "])
QUOTED = st.sampled_from([mark for pair in MARKS for mark in pair])
NOISE = st.lists(PROSE | QUOTED, max_size=3).map("".join)


def grades(places):
    return json.dumps({NAMES[place]: 9 - 3 * rank for rank, place in enumerate(places)})


def rows(places):
    return "\n".join(
        json.dumps({"id": NAMES[place], "score": 9 - 3 * rank}) for rank, place in enumerate(places)
    )


def order(places):
    return json.dumps({"ranking": [NAMES[place] for place in places]})


def chain(places):
    return " > ".join(f"[{NAMES[place]}]" for place in places)


def places_by_score(completion, labels):
    values = read_scores(completion, labels, 0, 10).values
    known = [place for place, value in enumerate(values) if value is not None]
    return tuple(sorted(known, key=lambda place: -values[place]))


FORMS = st.sampled_from(
    [
        (grades, places_by_score),
        (rows, places_by_score),
        (order, lambda completion, labels: read_order(completion, labels).places),
        (chain, lambda completion, labels: read_ranked(completion, labels).places),
    ]
)


def read_by(form, reply, cut):
    """The places that a reader finds; None if it refuses the reply."""
    try:
        return form[1](Completion(reply, cut), LABELS)
    except ReplyError:
        return None


def is_part_of(places, expected):
    """Whether these are the first of the expected ones, as where a reply broke off."""
    return places is None or places == expected[: len(places)]


@given(FORMS, st.sampled_from(MARKS), PROSE, st.sampled_from(["", "\n", " so "]))
def test_thinking_before_an_answer_is_not_read(form, marks, before, after):
    start, end = marks
    thought = f"{start}W{before}{form[0](DRAFT)}{after}{end}"
    assert read_by(form, f"{thought}\n{form[0](FINAL)}", False) == FINAL
    assert read_by(form, thought, False) is None


@given(FORMS, st.sampled_from(MARKS), NOISE, NOISE, NOISE, st.data())
def test_a_draft_in_thinking_is_never_the_answer(form, marks, before, after, rest, data):
    """Whatever is quoted in the thinking, and wherever the reply breaks off."""
    start, end = marks
    thought = f"{start}W{before}{form[0](DRAFT)}{after} so"
    whole = f"{thought}{end}{form[0](FINAL)}{rest}"
    stop = data.draw(st.integers(len(thought), len(whole)))
    for reply, cut in ((whole, False), (whole[:stop], True)):
        assert is_part_of(read_by(form, reply, cut), FINAL)


@given(FORMS, PROSE, PROSE, st.booleans(), st.data())
def test_a_draft_in_a_reply_that_broke_off_is_never_the_answer(form, before, after, fenced, data):
    draft = f"```json\n{form[0](DRAFT)}\n```" if fenced else form[0](DRAFT)
    start = f"{before}{draft}\n{after.strip()}"
    whole = f"{start} {form[0](FINAL)}"
    stop = data.draw(st.integers(len(start), len(whole)))
    assert is_part_of(read_by(form, whole[:stop], True), FINAL)


@given(FORMS, PROSE, st.data())
def test_an_answer_at_the_very_start_stays_one(form, after, data):
    after = after.replace("[1] ", "")
    reply = f"{form[0](FINAL)}\n\n{after}"
    stop = data.draw(st.integers(len(form[0](FINAL)), len(reply)))
    assert read_by(form, reply[:stop], True) == FINAL
