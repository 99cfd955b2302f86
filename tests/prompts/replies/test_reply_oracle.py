"""Generated replies against an oracle that knows what they were generated of.

A reply is generated as rows: a document (None for one that was not shown) and what stands for its
number. The oracle applies the rules of docs/language-models.md to the rows, without reading the
reply, and returns a ranking of all documents, or ``REFUSE``.
"""

import json
import math
import re
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sampling import examples
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order, read_ranked
from secondpass.questions import Completion

REFUSE = "refuse"
SLACK = 1e-4
LOW, HIGH = 0, 10
COUNT = 4
NAMES = {None: ["k4t", "b2c", "z9x", "d7f"], 0: list("0123"), 1: list("1234")}
BULK = settings(max_examples=2 * examples(20).max_examples)


class Row(NamedTuple):
    """A document with its number.

    Attributes:
        label: of the document, as it is written.
        written: stands for its number.
        document: its place; None for one that was not shown.
        number: as meant; None for what is none, "unit" for one of another scale.
        index: what the label states, if labels are indices.
    """

    label: Any
    written: Any
    document: int | None
    number: Any
    index: int | None


class Case(NamedTuple):
    """The rows of a reply about labels of which the first is this index, or which are none."""

    first: int | None
    rows: list[Row]

    @property
    def labels(self):
        return Labels(NAMES[self.first], self.first)

    @property
    def is_shifted(self):
        """Whether indices were counted from another number than the first."""
        if self.first is None:
            return False
        written, last = {row.index for row in self.rows}, self.first + COUNT - 1
        up = last + 1 in written and self.first not in written
        down = self.first - 1 in written and last not in written
        return up or down


def ranking(best_first):
    """Those that the reply states, then all others as they were shown."""
    return (*best_first, *(index for index in range(COUNT) if index not in best_first))


def is_finite(number):
    return type(number) in {int, float} and math.isfinite(number)


def by_grades(case):
    """The ranking that grades give."""
    known = [row for row in case.rows if row.document is not None]
    numbers = [row.number for row in known]
    strangers = sum(row.document is None and row.number is not None for row in case.rows)
    if case.is_shifted or "unit" in numbers or strangers > COUNT:
        return REFUSE
    if any(not LOW - SLACK <= one <= HIGH + SLACK for one in filter(is_finite, numbers)):
        return REFUSE
    grades = {}
    for document in {row.document for row in known}:
        given_numbers = [row.number for row in known if row.document == document]
        if all(map(is_finite, given_numbers)):
            on_scale = {min(max(one, LOW), HIGH) for one in given_numbers}
            if len(on_scale) == 1:
                grades[document] = on_scale.pop()
    if not grades:
        return REFUSE
    return ranking(sorted(grades, key=lambda one: (-grades[one], one)))


def by_order(case, numbered):
    """The ranking that an order gives, its rows with numbers beside or without."""
    documents = [row.document for row in case.rows if row.document is not None]
    if case.is_shifted or not documents or len(case.rows) - len(documents) > COUNT:
        return REFUSE
    if numbered:
        numbers = [row.number for row in case.rows]
        if not all(map(is_finite, numbers)) or numbers != sorted({*numbers}, reverse=True):
            return REFUSE
        if len(set(documents)) < len(documents):
            return REFUSE
    return ranking(list(dict.fromkeys(documents)))


SPELLINGS = [
    lambda label: label,
    lambda label: str(label).upper(),
    lambda label: f"[{label}]",
    lambda label: f"doc {label}",
    lambda label: f"id: {label}",
    lambda label: f" {label} ",
]
# what is written, what it means
NUMBERS = st.one_of(
    st.integers(0, 10).map(lambda n: (n, n)),
    st.integers(0, 10).map(lambda n: (str(n), n)),
    st.integers(0, 10).map(lambda n: ([n], n)),
    st.integers(0, 10).map(lambda n: ({"value": n}, n)),
    st.floats(0, 10).map(lambda n: (n, n)),
    st.sampled_from(
        [
            (None, None),
            (True, None),
            ("high", None),
            ([3, 4], None),
            (math.nan, None),
            (math.inf, None),
            (95, 95),
            ("95", 95),
            ([-1], -1),
            ("95%", 95),
            ("7/10", "unit"),
            (10.00005, 10.00005),
        ]
    ),
)
# A document, by its place; beyond the last and before the first: one that was not shown.
documents = st.integers(-1, COUNT) | st.integers(0, COUNT - 1)


@st.composite
def cases(draw, numbers=NUMBERS):
    """Rows of documents, of which each that was not shown is there once."""
    first = draw(st.sampled_from([None, 0, 1]))
    spell = draw(st.sampled_from(SPELLINGS))
    rows = {}
    for number, document in enumerate(draw(st.lists(documents, min_size=1, max_size=6))):
        written, meant = draw(numbers)
        known = 0 <= document < COUNT
        if first is not None:
            label = index = document + first
        else:
            label, index = NAMES[None][document] if known else f"q{document + 1}q", None
        row = Row(spell(label), written, document if known else None, meant, index)
        rows.setdefault(number if known else row.label, row)
    return Case(first, list(rows.values()))


STRICT = [
    lambda text: text,
    lambda text: f"```json\n{text}\n```",
    lambda text: f"Sure, best first:\n{text}\nDone.",
    lambda text: f"<think>Hm, {{}}</think>{text}",
    lambda text: f"analysisWe try {{}}.assistantfinal{text}",
    json.dumps,
    lambda text: f"\ufeff{text}",
]
SPOILED = [
    lambda text: re.sub(r"([}\]])$", r",\1", text),
    lambda text: text.replace('"', "'"),
    lambda text: text.replace(", ", " ", 1),
    lambda text: text.replace(", ", " "),
    lambda text: re.sub(r'"(\w+)"', r"\1", text),
    lambda text: text.replace(", ", ", // so\n"),
    lambda text: text.replace("null", "None").replace("true", "True"),
    lambda text: text[:-2],
    lambda text: text.replace("]", "", 1),
    lambda text: text.replace("}", "", 1),
    lambda text: text.replace('"', "", 1),
    lambda text: text.replace(":", "", 1),
    lambda text: text.replace(",", ":", 1),
]


def grades_read(reply, labels):
    try:
        values = read_scores(Completion(reply), labels, LOW, HIGH).values
    except ReplyError:
        return REFUSE
    known = [at for at, value in enumerate(values) if value is not None]
    return ranking(sorted(known, key=lambda at: (-values[at], at)))


def order_read(reply, labels, read=read_order):
    try:
        return ranking(read(Completion(reply), labels).places)
    except ReplyError:
        return REFUSE


def graded_text(form, rows):
    if form == "keyed":  # an object that may have keys twice, as models write them
        members = [f"{json.dumps(str(row.label))}: {json.dumps(row.written)}" for row in rows]
        return f"{{{', '.join(members)}}}"
    pairs = [{"id": row.label, "score": row.written} for row in rows]
    if form == "lines":
        return "\n".join(map(json.dumps, pairs))
    return json.dumps({"grades": pairs} if form == "pairs" else pairs)


def order_text(form, rows):
    if form == "numbered":
        return json.dumps([{"id": row.label, "score": row.written} for row in rows])
    if form == "rows":
        return json.dumps({"ranking": [{"id": row.label} for row in rows]})
    return json.dumps({"ranking": [row.label for row in rows]})


SCORE_FORMS = st.sampled_from(["keyed", "pairs", "bare"])
ORDER_FORMS = st.sampled_from(["numbered", "rows", "labels"])
BESIDE = st.integers(0, 20).map(lambda n: (n, n)) | st.sampled_from([(None, None), (True, None)])


@BULK
@given(cases(), SCORE_FORMS, st.sampled_from(STRICT))
def test_scores(case, form, wrap):
    assert grades_read(wrap(graded_text(form, case.rows)), case.labels) == by_grades(case)


@BULK
@given(cases(), SCORE_FORMS | st.just("lines"), st.sampled_from(SPOILED))
def test_scores_in_almost_json(case, form, spoil):
    read = grades_read(spoil(graded_text(form, case.rows)), case.labels)
    assert read in {REFUSE, by_grades(case)}


@BULK
@given(cases(BESIDE), ORDER_FORMS, st.sampled_from(STRICT[:2]))
def test_orders(case, form, wrap):
    read = order_read(wrap(order_text(form, case.rows)), case.labels)
    assert read == by_order(case, form == "numbered")


@BULK
@given(cases(BESIDE), ORDER_FORMS, st.sampled_from([*SPOILED, *STRICT]))
def test_orders_in_almost_json(case, form, spoil):
    read = order_read(spoil(order_text(form, case.rows)), case.labels)
    assert read in {REFUSE, by_order(case, form == "numbered")}


@BULK
@given(cases(BESIDE))
def test_chains(case):
    reply = " > ".join(f"[{str(row.label).strip('[]')}]" for row in case.rows)
    read = order_read(reply, case.labels, read_ranked)
    expected = by_order(case, False)
    assert read == expected or (len(case.rows) == 1 and read == REFUSE)


@given(cases(), cases(), st.sampled_from(["keyed", "pairs"]), st.sampled_from([None, *SPOILED]))
def test_two_answers(case, other, form, spoil):
    if case.first != other.first:
        return
    second = graded_text(form, other.rows)
    reply = f"{graded_text(form, case.rows)}\nNo: {spoil(second) if spoil else second}"
    wanted = {by_grades(case), by_grades(other)}
    if spoil is None:
        read = grades_read(reply, case.labels)
        assert read == REFUSE or read in wanted
        if REFUSE not in wanted and len(wanted) == 2:
            assert read == REFUSE
