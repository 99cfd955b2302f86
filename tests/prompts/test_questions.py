"""Questions: their words, their schema, their size."""

from dataclasses import replace

import pytest

from fakes import Model, shown_in, task_of
from secondpass import Candidate, MethodError
from secondpass.effects import Task
from secondpass.prompts.labels import replace_secret
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.numbers import Keyed, Scores
from secondpass.prompts.template import Prompting
from secondpass.questions import Completion, RenderedText

SCORES = Scores(0, 100)


def questions(texts, form=None, llm=None, of_call=None, **prompting):
    return Questions(
        replace(task_of(texts, query="how deep"), instruction=of_call),
        llm or Model(),
        Prompting(**prompting).completed("You judge.", "Judge all {count}, {lowest} to {highest}."),
        form or Keyed(SCORES),
        scale=(0, 10),
    )


def test_prompt():
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
    assert question.request.turns[0].role == "user"
    assert question.request.schema == Keyed(SCORES).schema([first, second])
    assert question.documents == 2


def test_criteria_guidelines_and_instruction():
    question = questions(
        ["a"], criteria=["depth {x}"], guidelines=["be fair"], instruction="Take {count} of them."
    ).about([0])
    assert question.request.system.endswith(
        "What counts:\n- depth {x}\n\nGuidelines of this domain:\n- be fair"
    )
    assert "\n\nTake 1 of them.\n\n" in question.request.turns[0].text


def test_instruction_does_not_hold_itself():
    question = questions(["a"], instruction="Take {count}.{instruction}").about([0])
    assert "\n\nTake 1.\n\n" in question.request.turns[0].text


# ---------------------------------------------------------------------- instruction of a call

OF_CALL = (
    "For this query, the operator of the search adds what counts as relevant:\n"
    "<instruction>prefer owls</instruction>"
)


PLACES = {
    "configured instruction": ({"instruction": "Take {count}."}, f"\n\nTake 1.\n\n{OF_CALL}\n\n"),
    "no instruction": ({"instruction": ""}, f"</doc>\n\n{OF_CALL}\n\nThe query"),
    "system template": (
        {"system": "{instruction}", "user": "{query} {documents}{reply}"},
        f"Judge all 1, 0 to 10.\n\n{OF_CALL}<query>",
    ),
    "templates without a place": (
        {"system": "{reply}", "user": "{query} {documents}"},
        f"</doc>\n\n{OF_CALL}",
    ),
    "function without a place": ({"user": lambda values: "Q"}, f"Q\n\n{OF_CALL}"),
    "function with a place": (
        {"user": lambda values: f"{values['instruction']} Q"},
        f"{OF_CALL} Q",
    ),
    "function that changes it": (
        {"user": lambda values: values["instruction"].replace("Judge", "Rate")},
        f"Rate all 1, 0 to 10.\n\n{OF_CALL}",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_instruction_of_a_call_is_in_every_prompt_once(case):
    prompting, expected = PLACES[case]
    request = questions(["a"], of_call="prefer owls", **prompting).about([0]).request
    text = request.system + request.turns[0].text
    assert expected in text
    assert text.count("prefer owls") == 1


def test_processes_differ_in_labels_only():
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


# ---------------------------------------------------------------------- size


@pytest.mark.parametrize(
    ("prompting", "text", "left"),
    [
        ({"passage_characters": 3}, "wombat", "wom"),
        ({"passage_characters": 6}, "wombat", "wombat"),
        ({"passage_characters": 5}, RenderedText("wombat!!", ((6, 8),)), "wom!!"),
    ],
)
def test_passages_are_cut(prompting, text, left):
    assert list(shown_in(questions([text], **prompting).about([0]).request).values()) == [left]


def tokens_of(*texts):
    return questions(texts).about(range(len(texts))).estimate.tokens


def test_what_just_fits_is_not_cut():
    text = "a" * 4000
    fitting = int(tokens_of(text))
    for window, cut in ((fitting, False), (fitting - 1, True)):
        question = questions([text], llm=Model(context_window=window)).about([0])
        assert (list(shown_in(question.request).values()) != [text]) is cut


@pytest.mark.parametrize("tokens", [300, 500, 800])
def test_a_margin_is_left(tokens):
    window = int(tokens_of("")) + tokens
    question = questions(["a" * 8000], llm=Model(context_window=window)).about([0])
    (cut,) = shown_in(question.request).values()
    assert 0.94 * tokens < len(cut) / 4 <= 0.95 * tokens + 1


def test_shrinks_to_half():
    question = questions(["a" * 4000, "b" * 100]).about([0, 1])
    sizes = []
    while question is not None:
        sizes.append(sum(map(len, shown_in(question.request).values())))
        question = question.shrink()
    assert sizes == [4100, 2050]  # not twice


@pytest.mark.parametrize("text", ["a" * 200, ""])
def test_too_long_for_the_context_window(text):
    with pytest.raises(MethodError, match="does not fit into the 50 tokens") as caught:
        questions([text], llm=Model(context_window=50)).about([0])
    assert caught.value.code == "too_long"


def test_ids_are_those_of_the_indices():
    candidates = [Candidate(text="a", id="x"), Candidate(text="b", id="y")]
    task = Task("q", ["a", "b"], candidates)
    prompting = Prompting().completed("You judge.", "Judge.")
    question = Questions(task, Model(), prompting, Keyed(SCORES, "id")).about([1])
    assert shown_in(question.request) == {"y": "b"}
    assert question.read(Completion('{"y": 3}')).values == (3,)
