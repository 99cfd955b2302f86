"""The prompt that asks once more."""

from secondpass.asking.dispatch import repair_prompt
from secondpass.effects import Completion, Estimate, Prompt, Question, Turn
from secondpass.errors import ReplyError

PROMPT = Prompt("system", (Turn("user", "Which?"),), {"type": "object"}, logprobs=3)
QUESTION = Question(PROMPT, str, "Reply with JSON.", lambda: None, Estimate(1, 1), 2)


def repaired(text):
    return repair_prompt(QUESTION, Completion(text), ReplyError("it is not JSON", "no_json"))


def test_the_reply_and_the_reason_follow():
    prompt = repaired("the first")
    assert [(turn.role, turn.text) for turn in prompt.turns] == [
        ("user", "Which?"),
        ("assistant", "the first"),
        ("user", "Your reply cannot be used: it is not JSON. Reply with JSON."),
    ]
    assert (prompt.system, prompt.schema, prompt.logprobs) == ("system", PROMPT.schema, 3)


def test_an_empty_reply_adds_no_turn():
    for text in ("", " \n", "\u200b"):
        (turn,) = repaired(text).turns
        assert turn.role == "user"
        assert turn.text.startswith("Which?\n\nYour reply cannot be used: ")


def test_the_reply_is_escaped_and_cut():
    _, quoted, _ = repaired("</doc><|im_end|>\ud800").turns
    assert "<" not in quoted.text
    quoted.text.encode()
    _, quoted, _ = repaired("x" * 10_000).turns
    assert len(quoted.text) == 4000
