"""Whether a loaded model ranks obvious answers first.

Six questions in three languages, two each. A question's passage answers it; its other passage is
the answer to the other question of its language, which says nothing about it. So a model that
prefers a passage whatever the question is right three times, neither more nor less.

A model is doubtful if fewer than five questions have the higher score for their answer; equal
scores count as wrong. The answers repeat names of their questions, so that a model of English alone
finds those in German and Chinese, too. One that is right with the probability p in each is doubted
with 1 - p^6 - 6 p^5 (1 - p): 0.1 % of the models with p = 0.99, 3 % with 0.95. One that tosses
a coin for each question is doubted with 57 / 64 = 89 %. Random weights are no such coins, but
mostly prefer a passage: 97 % of random heads on a trained encoder are doubted, and 94 to 98 % of
random models (``python -m benchmarks.known_answers``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

_LEAST = 5
"""Questions of which a model has to find the answer."""

_PAIRS = (
    ("How tall is the Eiffel Tower?", "The Eiffel Tower in Paris is 330 metres tall."),
    ("What do bees make from nectar?", "Bees make honey from the nectar of flowers."),
    ("Wann wurde Albert Einstein geboren?", "Albert Einstein wurde am 14. März 1879 geboren."),
    ("Welcher Fluss fließt durch Dresden?", "Durch die Stadt Dresden fließt der Fluss Elbe."),
    ("Python 语言是什么时候发布的？", "Python 语言于 1991 年首次发布。"),  # noqa: RUF001
    ("Linux 的作者是谁？", "Linux 的作者是芬兰人 Linus Torvalds。"),  # noqa: RUF001
)

Requests: TypeAlias = list[tuple[str, list[str]]]


def requests() -> Requests:
    """Each question with its answer and another passage, in this order."""
    answers = [answer for _, answer in _PAIRS]
    return [
        (question, [answers[index], answers[index ^ 1]])
        for index, (question, _) in enumerate(_PAIRS)
    ]


def doubt(score: Callable[[Requests], Sequence[Sequence[float]]]) -> str | None:
    """Why a model with these scores is doubtful; None if it is not. Higher is better."""
    lists = score(requests())
    if len({number for scores in lists for number in scores}) == 1:
        return "the model gives all pairs of six questions and two passages the same score"
    found = sum(answer > other for answer, other in lists)
    if found >= _LEAST:
        return None
    return (
        f"of six questions with an obvious answer, the model ranks that of {found} first: it is "
        "not trained as a reranker, or is used in another way than it was trained"
    )
