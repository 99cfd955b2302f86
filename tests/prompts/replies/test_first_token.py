"""Probabilities of words at the first token of an answer."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.errors import ReplyError
from secondpass.prompts.replies.first_token import is_answered, word_probabilities
from secondpass.questions import Completion

WORDS = ("Yes", "No")


def logs(*tokens):
    return tuple({text: math.log(value) for text, value in token.items()} for token in tokens)


def read(text, *tokens, words=WORDS):
    return word_probabilities(Completion(text, logprobs=logs(*tokens) if tokens else None), words)


READ = {
    "both": ("Yes", [{"Yes": 0.75, "No": 0.125}], (0.75, 0.125), 0.125),
    "one": ("Yes", [{"Yes": 0.75, "Maybe": 0.0625}], (0.75, None), 0.0625),
    "the other": ("No.", [{"No": 0.5}, {".": 1.0}], (None, 0.5), 0.5),
    "neither": ("Sure", [{"Sure": 0.75}], (None, None), 0.25),
    "case and space": (
        "YES",
        [{"YES": 0.25, "yes": 0.125, " Yes": 0.25, "\u2581no": 0.125, "\u0120NO\n": 0.125}],
        (0.625, 0.25),
        0.125,
    ),
    "longer words": ("Yes", [{"Yes": 0.5, "Yesterday": 0.25, "Not": 0.125}], (0.5, None), 0.125),
    "space before": ("\n Yes", [{"\n": 0.75, "No": 0.25}, {" Yes": 0.5}], (0.5, None), 0.5),
    "thinking in the text": (
        "<think>No?</think>\n\nYes",
        [{"<think>": 1.0}, {"No": 0.9}, {"?": 1.0}, {"</think>": 1.0}, {"\n\n": 1.0}, {"Yes": 0.5}],
        (0.5, None),
        0.5,
    ),
    "thinking that only ends": (
        "No? Yes...</think>\n\nYes",
        [{"No": 0.9}, {"? Yes...": 1.0}, {"</think>": 1.0}, {"\n\n": 1.0}, {"Yes": 0.5}],
        (0.5, None),
        0.5,
    ),
    "thinking that only ends, in the text alone": ("Hm</think>No", [{"No": 0.5}], (None, 0.5), 0.5),
    "an end tag behind the answer": (
        "<think>Hm</think>Yes</think>",
        [{"<think>Hm": 1.0}, {"</think>": 1.0}, {"Yes": 0.5}, {"</think>": 1.0}],
        (0.5, None),
        0.5,
    ),
    "the same word before and behind": (
        "yes</think> Yes",
        [{"yes": 0.9}, {"</think>": 1.0}, {" Yes": 0.5}],
        (0.5, None),
        0.5,
    ),
    "thinking in the tokens alone": (
        "Yes",
        [{"Hm": 1.0}, {"</think>\n": 1.0}, {"Yes": 0.5, "No": 0.5}],
        (0.5, 0.5),
        0.0,
    ),
    "harmony in the text": (
        "<|channel|>analysis<|message|>No?<|end|><|start|>assistant<|channel|>final<|message|>Yes",
        [
            *({token: 1.0} for token in ("<|channel|>", "analysis", "<|message|>", "No", "?")),
            *({token: 1.0} for token in ("<|end|>", "<|start|>", "assistant", "<|channel|>")),
            *({"final": 1.0}, {"<|message|>": 1.0}, {"Yes": 0.5}),
        ],
        (0.5, None),
        0.5,
    ),
    "harmony in the tokens alone": (
        "Yes",
        [{"analysis": 1.0}, {"We": 1.0}, {"assistant": 1.0}, {"final": 1.0}, {"Yes": 0.5}],
        (0.5, None),
        0.5,
    ),
    "thinking of Mistral": (
        "[THINK]No?[/THINK]Yes",
        [{"[THINK]": 1.0}, {"No": 0.9}, {"?": 1.0}, {"[/THINK]": 1.0}, {"Yes": 0.5}],
        (0.5, None),
        0.5,
    ),
    "a token of two words": ("Yes sir", [{"Yes sir": 0.5, "No": 0.25}], (None, 0.25), 0.25),
}


@pytest.mark.parametrize(("text", "tokens", "listed", "unlisted"), READ.values(), ids=READ)
def test_words(text, tokens, listed, unlisted):
    found = read(text, *tokens)
    assert found.listed == pytest.approx(listed)
    assert found.unlisted == pytest.approx(unlisted)


REFUSED = {
    "no log probabilities": ("Yes", [], "no_logprobs", False),
    "nothing": ("", [{"": 1.0}], "empty_reply", True),
    "thinking that does not end": ("<think>No", [{"<think>": 1.0}], "reply_refused", True),
    "another word before the end of thinking": (
        "No</think>Yes",
        [{"No": 0.9}, {"</think>": 1.0}, {"Yes": 0.9}],
        "reply_refused",
        True,
    ),
    "nothing behind the end of thinking": (
        "Yes</think>",
        [{"Yes": 0.9}, {"</think>": 1.0}],
        "empty_reply",
        True,
    ),
    "those of another text": ("Yes", [{"Okay": 0.5}], "no_logprobs", False),
    "thinking that is not marked": ("Yes", [{"No": 0.5}, {"Yes": 0.5}], "no_logprobs", False),
}


@pytest.mark.parametrize(("text", "tokens", "code", "repairable"), REFUSED.values(), ids=REFUSED)
def test_refused(text, tokens, code, repairable):
    with pytest.raises(ReplyError) as caught:
        read(text, *tokens)
    assert (caught.value.code, caught.value.repairable) == (code, repairable)


@given(st.dictionaries(st.sampled_from(["Yes", "no", " No", "x", "?"]), st.floats(-9999, 0)))
def test_probabilities_are_bounded(token):
    completion = Completion("Yes", logprobs=({"Yes": -0.5, **token},))
    found = word_probabilities(completion, WORDS)
    lowest = min(math.exp(value) for value in completion.logprobs[0].values())
    assert 0 <= found.unlisted <= lowest
    assert found.listed[0] == pytest.approx(math.exp(completion.logprobs[0]["Yes"]))


ANSWERED = [
    "Yes",
    "yes ",
    "\nNo\n\nThe passage",
    "Yes \nThe",
    "No. The",
    "Yes!",
    "<think></think>No.",
    "<|channel|>final<|message|>Yes\n",
]
CUT_BEFORE = [
    *("", "\n", "<think>The query", "Okay, the user", "No, wait, I need to look at"),
    *("No... wait", "Yes because", "Yesterday. The"),
    *("<|channel|>analysis<|message|>Yes", "analysisYes", "[THINK]Yes"),
]


@pytest.mark.parametrize("reply", [*ANSWERED, *CUT_BEFORE])
def test_whether_a_cut_reply_has_its_answer(reply):
    assert is_answered(reply, WORDS) is (reply in ANSWERED)
