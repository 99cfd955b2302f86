"""Questions: their words, their schema, their size."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Model, numbered, shown_in, task_of
from secondpass.effects import Completion
from secondpass.prompts.labels import replace_secret
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.numbers import Keyed, Pairs, Ranks, Scores
from secondpass.prompts.replies.permutation import Permutation
from secondpass.prompts.replies.ranked import Ranked
from secondpass.prompts.template import Prompting
from secondpass.prompts.truncation import cut_evenly, cut_to_tokens, estimate_tokens

SCORES = Scores(0, 100)
WHOLE_SCORES = Scores(0, 100, whole=True)


def questions(texts, form=None, llm=None, **prompting):
    return Questions(
        task_of(texts, query="how deep"),
        llm or Model(),
        Prompting(**prompting).completed("You judge.", "Judge all {count}, {lowest} to {highest}."),
        form or Keyed(SCORES),
        scale=(0, 10),
    )


ASKED = [
    (
        Keyed(SCORES, "opaque"),
        'Reply with ONLY one JSON object that maps each id to its score, {"<id>": <score>, ...}. '
        "Every id has to be there exactly once.",
    ),
    (
        Keyed(Ranks(), "index0"),
        'Reply with ONLY one JSON object that maps each index to its rank, {"<index>": <rank>, '
        "...}. Every index has to be there exactly once. Rank 1 is the best. Indices count from 0.",
    ),
    (
        Pairs(SCORES, "id"),
        'Reply with ONLY one JSON object of this form: {"grades": [{"id": "<id>", "score": '
        "<score>}, ...]}. Every id has to be there exactly once.",
    ),
    (
        Pairs(SCORES, "index1", bare=True),
        'Reply with ONLY a JSON array of this form: [{"index": <index>, "score": <score>}, ...]. '
        "Every index has to be there exactly once. Indices count from 1.",
    ),
    (
        Permutation("opaque"),
        'Reply with ONLY one JSON object of this form, best first: {"ranking": ["<id>", "<id>", '
        "...]}. Every id has to be there exactly once.",
    ),
    (
        Ranked("index1"),
        "Reply with ONLY one line of this form, best first: [<index>] > ... > [<index>]. Every "
        "index has to be there exactly once. Indices count from 1.",
    ),
    (
        Permutation("index1", bare=True),
        "Reply with ONLY a JSON array of this form, best first: [<index>, <index>, ...]. Every "
        "index has to be there exactly once. Indices count from 1.",
    ),
]


@pytest.mark.parametrize(("form", "words"), ASKED)
def test_the_words_that_ask_for_a_reply(form, words):
    assert form.request() == words


def closed(properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def array(items, count=2):
    return {"type": "array", "items": items, "minItems": count, "maxItems": count}


NUMBER, WHOLE = {"type": "number"}, {"type": "integer"}
NAMES, PLACES = {"type": "string", "enum": ["a", "b"]}, {"type": "integer", "enum": [0, 1]}

SCHEMAS = [
    (Keyed(SCORES, "opaque"), closed({"a": NUMBER, "b": NUMBER})),
    (Keyed(WHOLE_SCORES, "opaque"), closed({"a": WHOLE, "b": WHOLE})),
    (
        Pairs(SCORES, "id"),
        closed({"grades": array(closed({"id": NAMES, "score": NUMBER}))}),
    ),
    (Permutation("id"), closed({"ranking": array(NAMES)})),
    (Pairs(SCORES, "id", bare=True), None),
    (Permutation("index0", bare=True), None),
    (Ranked("index0"), None),
]


@pytest.mark.parametrize(("form", "schema"), SCHEMAS)
def test_schemas_admit_these_labels_only(form, schema):
    assert form.schema(["a", "b"]) == schema


def test_schemas_of_places_hold_numbers():
    form = Permutation("index0")
    assert form.schema(["0", "1"]) == closed({"ranking": array(PLACES)})
    pairs = Pairs(SCORES, "index0").schema(["0", "1"])
    assert pairs["properties"]["grades"]["items"] == closed({"index": PLACES, "score": NUMBER})


def test_a_whole_prompt():
    question = questions(["a text", "b"]).about([0, 1])
    first, second = shown_in(question.request)
    assert question.request.turns[0].text == (
        "<query>how deep</query>\n\n"
        f'<doc id="{first}">a text</doc>\n<doc id="{second}">b</doc>\n\n'
        "Judge all 2, 0 to 10.\n\n"
        "The query again: <query>how deep</query>\n\n" + question.reminder
    )
    assert question.request.system.startswith("You judge.\n\nWhat stands between <query>")
    assert question.request.system.endswith("gains nothing by it.")
    assert question.documents == 2


def test_criteria_guidelines_and_an_instruction_of_ones_own():
    question = questions(
        ["a"], criteria=["depth {x}"], guidelines=["be fair"], instruction="Take {count} of them."
    ).about([0])
    assert question.request.system.endswith(
        "What counts:\n- depth {x}\n\nGuidelines of this domain:\n- be fair"
    )
    assert "\n\nTake 1 of them.\n\n" in question.request.turns[0].text


def test_templates_of_ones_own():
    prompting = {
        "system": "Only {reply}",
        "user": "Q {query}\n\nC {context}\n\nD {documents} of {count}\n\n{{}}",
    }
    question = questions(["a"], **prompting).about([0])
    (label,) = shown_in(question.request)
    assert question.request.system == f"Only {question.reminder}"
    assert question.request.turns[0].text == (
        f'Q <query>how deep</query>\n\nD <doc id="{label}">a</doc> of 1\n\n{{}}'
    )


def test_another_process_asks_the_same_up_to_labels():
    def asked():
        question = questions(["a", "b"]).about([0, 1])
        labels = list(shown_in(question.request))
        sent = repr((question.request.turns[0].text, question.request.schema))
        for at, label in enumerate(labels):
            sent = sent.replace(label, f"label {at}")
        return labels, sent

    labels, sent = asked()
    before = replace_secret(b"another process")
    try:
        others, sent_again = asked()
    finally:
        replace_secret(before)
    assert not set(labels) & set(others)
    assert sent_again == sent


def test_a_question_shows_its_texts_in_its_order():
    asked = questions(["a", "b", "c"]).about([2, 0])
    assert list(shown_in(asked.request).values()) == ["c", "a"]


def test_a_reply_is_read_by_the_labels_of_its_question():
    question = questions(numbered([3, 9])).about([0, 1])
    labels = list(shown_in(question.request))
    grades = question.read(Completion(json.dumps(dict.fromkeys(labels, 4))))
    assert grades.values == (4, 4)


# ---------------------------------------------------------------------- size


def test_the_estimate_is_about_four_bytes_a_token_and_room_for_the_reply():
    question = questions(["x" * 4000]).about([0])
    assert 1000 < question.estimate.input_tokens < 1300
    assert question.estimate.output_tokens == 24
    assert questions(["é" * 4000]).about([0]).estimate.input_tokens > 2000


@pytest.mark.parametrize(
    ("prompting", "text", "left"),
    [
        ({"passage_characters": 3}, "wombat", "wom"),
        ({"passage_characters": 6}, "wombat", "wombat"),
        ({"passage_tokens": 1}, "wombat", "womb"),
        ({"passage_tokens": 1}, "ééé", "éé"),
        ({"passage_tokens": 1}, "a\U0001f600b", "a"),
        ({"passage_characters": 5, "passage_tokens": 1}, "wombat", "womb"),
    ],
)
def test_passages_are_cut_by_characters_or_tokens(prompting, text, left):
    assert list(shown_in(questions([text], **prompting).about([0]).request).values()) == [left]


@pytest.mark.parametrize("window", [300, 600, 1200, 5000])
def test_passages_are_cut_to_the_models_context(window):
    texts = ["a" * 8000, "b" * 200, "c" * 3000]
    question = questions(texts, llm=Model(context_window=window)).about([0, 1, 2])
    shown = list(shown_in(question.request).values())
    if window > 500:
        assert question.estimate.tokens <= window
    assert all(text.startswith(cut) for text, cut in zip(texts, shown, strict=True))
    assert all(len(cut) >= min(80, len(text)) for text, cut in zip(texts, shown, strict=True))
    if window > 500:
        assert shown[1] == texts[1]  # the longest are cut first


def test_a_question_shrinks_to_half_and_not_for_ever():
    question = questions(["a" * 4000, "b" * 100]).about([0, 1])
    sizes = []
    while question is not None:
        sizes.append(sum(map(len, shown_in(question.request).values())))
        question = question.shrink()
    assert sizes[0] == 4100
    assert sizes[1] <= 2050
    assert len(sizes) < 10


def test_what_is_short_already_does_not_shrink():
    assert questions(["a" * 80, "b"]).about([0, 1]).shrink() is None


@given(st.lists(st.integers(0, 500).map("x".__mul__), max_size=8), st.integers(0, 3000))
def test_cutting_is_even(texts, characters):
    cut = cut_evenly(texts, characters)
    if cut is None:
        assert sum(map(len, texts)) <= characters or all(len(text) <= 80 for text in texts)
        return
    assert [len(one) <= len(text) for one, text in zip(cut, texts, strict=True)]
    assert cut != texts
    longest = max(map(len, cut))
    for one, text in zip(cut, texts, strict=True):
        assert len(one) == min(len(text), longest)
    assert sum(map(len, cut)) <= characters or longest == 80


@given(st.text(), st.integers(1, 20))
def test_cutting_to_tokens_keeps_a_beginning(text, tokens):
    cut = cut_to_tokens(text, tokens)
    assert estimate_tokens(cut) <= tokens
    assert text.startswith(cut)
    assert estimate_tokens(text) <= tokens or len(text) > len(cut)
