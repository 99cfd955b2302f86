"""Values of questions: windows, estimates, and what is not shown."""

import pytest

from secondpass.questions import Completion, Estimate, Prompt, Recall, Turn, Windows


@pytest.mark.parametrize(
    ("body", "span", "shown"),
    [((0, 6), (2, 4), "cd"), ((2, 4), (2, 3), "abcef"), ((2, 6), (4, 6), "abef")],
)
def test_the_text_of_a_window_has_what_is_around_the_body(body, span, shown):
    assert Windows([span], body).text("abcdef", span) == shown


def test_tokens():
    assert Estimate(10, 2.5).tokens == 12.5


def test_texts_are_not_shown():
    for value in (
        Turn("user", "which owl"),
        Prompt("which owl", (Turn("user", "which owl"),), {"owl": 1}),
        Completion("which owl", logprobs=[{"owl": -1.0}]),
        Recall(lambda: "owl", str, str),
    ):
        assert "owl" not in repr(value)
