"""Generated replies against an oracle that knows what they were generated of.

A reply is generated as rows: a document (None for one that was not shown) and what stands for its
number. The oracle applies the rules of docs/language-models.md to the rows, without reading the
reply, and returns a ranking of all documents, or ``REFUSE``.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from sampling import examples
from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order, read_ranked

REFUSE = "refuse"
SLACK = 1e-4

Row: TypeAlias = tuple[int | None, Any]
"""A document with its number: as meant, None for what is none, "unit" for one of another scale."""


def ranking(best_first: Sequence[int], count: int) -> tuple[int, ...]:
    """Those that the reply states, then all others as they were shown."""
    return (*best_first, *(index for index in range(count) if index not in best_first))


def shifted(written: Sequence[int], first: int, count: int) -> bool:
    """Whether indices were counted from another number than ``first``."""
    last = first + count - 1
    up = last + 1 in written and first not in written
    down = first - 1 in written and last not in written
    return up or down


def by_grades(rows: Sequence[Row], count: int, low: float, high: float) -> tuple[int, ...] | str:
    """The ranking that grades give."""
    strangers = sum(1 for document, number in rows if document is None and number is not None)
    known = {document for document, _ in rows if document is not None}
    numbers = [number for document, number in rows if document is not None]
    if "unit" in numbers or strangers > count:
        return REFUSE
    finite = [number for number in numbers if number is not None and math.isfinite(number)]
    if any(not low - SLACK <= number <= high + SLACK for number in finite):
        return REFUSE
    grades: dict[int, float] = {}
    for document in known:
        given = [number for other, number in rows if other == document]
        if all(one is not None and math.isfinite(one) for one in given):
            on_scale = {min(max(one, low), high) for one in given}
            if len(on_scale) == 1:
                grades[document] = on_scale.pop()
    if not grades:
        return REFUSE
    return ranking(sorted(grades, key=lambda one: (-grades[one], one)), count)


def by_order(rows: Sequence[Row], count: int, numbered: bool) -> tuple[int, ...] | str:
    """The ranking that an order gives, its rows with numbers beside or without."""
    documents = [document for document, _ in rows if document is not None]
    if not documents or sum(1 for document, _ in rows if document is None) > count:
        return REFUSE
    if numbered:
        numbers = [number for _, number in rows]
        if any(type(number) not in {int, float} or not math.isfinite(number) for number in numbers):
            return REFUSE
        if any(numbers[index] <= numbers[index + 1] for index in range(len(numbers) - 1)):
            return REFUSE
        if len(set(documents)) < len(documents):
            return REFUSE
    return ranking(list(dict.fromkeys(documents)), count)


BULK = 2 * examples(20).max_examples
COUNT = 4
NAMES = {None: ["k4t", "b2c", "z9x", "d7f"], 0: list("0123"), 1: list("1234")}

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
def written(draw, numbers=NUMBERS):
    """(labels, first number, label spelled, number written, document and what is meant)."""
    first = draw(st.sampled_from([None, 0, 1]))
    spell = draw(st.sampled_from(SPELLINGS))
    rows = []
    for document in draw(st.lists(documents, min_size=1, max_size=6)):
        number, meant = draw(numbers)
        known = 0 <= document < COUNT
        if first is None:
            label = NAMES[None][document] if known else f"q{document + 1}q"
        else:
            label = document + first
        rows.append((spell(label), number, document if known else None, meant))
        rows[-1] = (*rows[-1], None if first is None else document + first)
    return Labels(NAMES[first], first), first, rows


STRICT = [
    lambda text: text,
    lambda text: f"```json\n{text}\n```",
    lambda text: f"Sure, best first:\n{text}\nDone.",
    lambda text: f"<think>Hm, {{}}</think>{text}",
    json.dumps,
    lambda text: f"\ufeff{text}",
]
LENIENT = [
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


def keyed(pairs):
    """A JSON object that may have keys twice, as models write them."""
    return "{" + ", ".join(f"{json.dumps(str(x))}: {json.dumps(n)}" for x, n in pairs) + "}"


def grades_read(reply, labels):
    try:
        values = read_scores(Completion(reply), labels, 0, 10).values
    except ReplyError:
        return REFUSE
    known = [at for at, value in enumerate(values) if value is not None]
    return ranking(sorted(known, key=lambda at: (-values[at], at)), len(labels))


def order_read(reply, labels, read=read_order):
    try:
        return ranking(read(Completion(reply), labels).places, len(labels))
    except ReplyError:
        return REFUSE


def expected_grades(first, rows):
    if first is not None and shifted([row[4] for row in rows], first, COUNT):
        return REFUSE
    return by_grades([(row[2], row[3]) for row in rows], COUNT, 0, 10)


def expected_order(first, rows, numbered):
    if first is not None and shifted([row[4] for row in rows], first, COUNT):
        return REFUSE
    # A row that is there twice says nothing new; strangers count once each.
    seen, unique = set(), []
    for row in rows:
        if row[2] is not None or row[0] not in seen:
            unique.append((row[2], row[3]))
        seen.add(row[0])
    if numbered:
        unique = [(row[2], row[3]) for row in rows]
    return by_order(unique, COUNT, numbered)


def graded_text(form, rows):
    if form == "keyed":
        return keyed([(row[0], row[1]) for row in rows])
    pairs = [{"id": row[0], "score": row[1]} for row in rows]
    if form == "lines":
        return "\n".join(map(json.dumps, pairs))
    return json.dumps({"grades": pairs} if form == "pairs" else pairs)


def strangers_once(rows):
    """Rows without a second one of the same stranger."""
    seen = set()
    return [row for row in rows if row[2] is not None or not (row[0] in seen or seen.add(row[0]))]


@settings(max_examples=BULK)
@given(written(), st.sampled_from(["keyed", "pairs", "bare"]), st.sampled_from(STRICT))
def test_scores(case, form, wrap):
    labels, first, rows = case
    rows = strangers_once(rows)
    read = grades_read(wrap(graded_text(form, rows)), labels)
    assert read == expected_grades(first, rows)


@settings(max_examples=BULK)
@given(written(), st.sampled_from(["keyed", "pairs", "bare", "lines"]), st.sampled_from(LENIENT))
def test_scores_in_almost_json(case, form, spoil):
    labels, first, rows = case
    rows = strangers_once(rows)
    read = grades_read(spoil(graded_text(form, rows)), labels)
    assert read in {REFUSE, expected_grades(first, rows)}


BESIDE = st.integers(0, 20).map(lambda n: (n, n)) | st.sampled_from([(None, None), (True, None)])


def order_text(rows, form):
    if form == "numbered":
        return json.dumps([{"id": row[0], "score": row[1]} for row in rows])
    if form == "rows":
        return json.dumps({"ranking": [{"id": row[0]} for row in rows]})
    return json.dumps({"ranking": [row[0] for row in rows]})


@settings(max_examples=BULK)
@given(
    written(BESIDE), st.sampled_from(["numbered", "rows", "labels"]), st.sampled_from(STRICT[:2])
)
def test_orders(case, form, wrap):
    labels, first, rows = case
    rows = strangers_once(rows)
    read = order_read(wrap(order_text(rows, form)), labels)
    assert read == expected_order(first, rows, form == "numbered")


@settings(max_examples=BULK)
@given(
    written(BESIDE),
    st.sampled_from(["numbered", "rows", "labels"]),
    st.sampled_from([*LENIENT, *STRICT]),
)
def test_orders_in_almost_json(case, form, spoil):
    labels, first, rows = case
    rows = strangers_once(rows)
    read = order_read(spoil(order_text(rows, form)), labels)
    assert read in {REFUSE, expected_order(first, rows, form == "numbered")}


@settings(max_examples=BULK)
@given(written(BESIDE))
def test_chains(case):
    labels, first, rows = case
    rows = strangers_once(rows)
    reply = " > ".join(f"[{str(row[0]).strip('[]')}]" for row in rows)
    expected = expected_order(first, rows, False)
    read = order_read(reply, labels, read_ranked)
    if len(rows) > 1:
        assert read == expected
    else:
        assert read in {REFUSE, expected}


@given(written(), written(), st.sampled_from(["keyed", "pairs"]), st.sampled_from([None, *LENIENT]))
def test_two_answers(one, other, form, spoil):
    labels, first, rows = one
    _, other_first, other_rows = other
    if first != other_first:
        return
    rows, other_rows = strangers_once(rows), strangers_once(other_rows)
    second = graded_text(form, other_rows)
    reply = f"{graded_text(form, rows)}\nNo: {spoil(second) if spoil else second}"
    read = grades_read(reply, labels)
    wanted = {expected_grades(first, rows), expected_grades(first, other_rows)}
    if spoil is None:
        assert read == REFUSE or read in wanted
        if REFUSE not in wanted and len(wanted) == 2:
            assert read == REFUSE
