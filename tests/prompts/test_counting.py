"""Counted questions: their estimates are those of rendered ones."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Model, task_of
from secondpass import Candidate, MethodError
from secondpass.asking.planning import TextTokens
from secondpass.effects import Prompt, Task, Turn
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.numbers import Keyed, Scores
from secondpass.prompts.replies.permutation import Permutation, Ranked
from secondpass.prompts.template import Prompting


def counted(task):
    return replace(task, text_tokens=TextTokens())


FORMATS = [
    *(Permutation(labels) for labels in ("opaque", "id", "index0", "index1")),
    Permutation(bare=True),
    Keyed(Scores(0, 10)),
    Ranked("index1"),
]
PROMPTINGS = [
    {},
    {"criteria": ["freshness {x}"], "guidelines": ["é"]},
    {"passage_characters": 7},
    {"user": "{query}{documents}{reply}"},
    {
        "user": "{documents}\n\n{query}\n\n{documents} {count}",
        "system": "{documents}{reply}{instruction}",
    },
    {"instruction": "{documents}"},
    {"system": "", "instruction": ""},
    {"user": lambda values: f"{values['documents']}\n{len(values['documents'])}"},
    {"system": lambda values: f"{values['count']} wombats"},
]
TEXTS = st.text(st.sampled_from("aB é€\n\r<[]'\"/\u200b\ufe0f\U0001f600\udc00\x07{}"), max_size=30)
WORDS = st.text(st.sampled_from("aé<\n {"), max_size=9)


def outcome(task, form, prompting, window, groups):
    """What a dry run uses of the questions about groups, or their errors; and their prompts."""
    llm = Model() if window is None else Model(context_window=window)
    completed = Prompting(**prompting).completed("You judge.", "Judge all {count}.")
    questions = Questions(task, llm, completed, form)
    outcomes, prompts = [], []
    for group in groups:
        try:
            question = questions.about(group)
        except MethodError as error:
            outcomes.append((error.code, str(error)))
        else:
            outcomes.append((question.estimate, question.documents, question.shortened))
            prompts.append(question.request)
    return outcomes, prompts


@given(
    st.lists(st.tuples(TEXTS, st.sampled_from([1, 4, 60])), min_size=1, max_size=6),
    st.data(),
    st.sampled_from(FORMATS),
    st.sampled_from(PROMPTINGS),
    st.sampled_from([None, None, 90, 300, 500]),
    st.tuples(WORDS, WORDS, WORDS),
)
def test_estimates_are_those_of_rendered_questions(parts, data, form, prompting, window, words):
    texts = [text * times for text, times in parts]
    query, context, instruction = words
    candidates = [Candidate(text, id=data.draw(st.none() | TEXTS)) for text in texts]
    task = Task(query, texts, candidates, context or None, instruction=instruction or None)
    indices = st.lists(st.integers(0, len(texts) - 1), min_size=0, max_size=12)
    groups = data.draw(st.lists(indices, min_size=1, max_size=4))
    usual = outcome(task, form, prompting, window, groups)
    of_dry_run = outcome(counted(task), form, prompting, window, groups)
    assert of_dry_run[0] == usual[0]
    rendered = any(map(callable, prompting.values()))
    assert rendered == any(prompt.turns[0].text for prompt in of_dry_run[1]) or not usual[1]


def test_texts_cut_to_the_context_window_are_not_kept():
    texts = [letter * 9000 for letter in "abc"]
    task = counted(task_of(texts))
    groups = [[0, 1, 2], [1, 2], [2]]
    _, prompts = outcome(task, Permutation(), {}, 900, groups)
    assert len(prompts) == 3
    lengths = [length for _, length in task.text_tokens]
    assert min(lengths) < 1500
    kept = [text for text, _ in task.text_tokens]
    assert len(kept) > len(texts)
    assert {id(text) for text in kept} == {id(text) for text in texts}


def test_a_counted_question_cannot_be_read():
    completed = Prompting().completed("You judge.", "Judge.")
    question = Questions(counted(task_of(["a"])), Model(), completed, Permutation()).about([0])
    # One turn, as in all prompts, for strategies that add to it.
    assert question.request == Prompt("", (Turn("user", ""),))
    assert question.shrink() is None
    with pytest.raises(RuntimeError, match="dry run"):
        question.read(None)
