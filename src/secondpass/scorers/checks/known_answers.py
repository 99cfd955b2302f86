"""Whether a loaded model ranks obvious answers first.

Six questions in three languages, two each. A question's passage answers it; its other passage is
the answer to the other question of its language, which says nothing about it. So a model that
prefers a passage whatever the question is right three times, neither more nor less.

A question counts if the model's vocabulary knows a word that its answer repeats and the other
passage has not: otherwise the two differ for the model by chance. With fewer than four that count,
the model is not asked, as one of Russian alone, whose vocabulary has Latin letters.

A model is doubtful if more than one question has not the higher score for its answer; equal scores
count as wrong. The answers repeat names of their questions, so that a model of English alone finds
those in German and Chinese, too. One that is right with the probability p in each is doubted with
1 - p^6 - 6 p^5 (1 - p): 0.1 % of the models with p = 0.99, 3 % with 0.95. One that tosses a coin
for each question is doubted with 57 / 64 = 89 %. Random weights are no such coins, but mostly
prefer a passage: 97 % of random heads on a trained encoder are doubted, and 94 to 98 % of random
models (``python -m benchmarks.known_answers``).

A model that gives the *other* passage the higher score in five questions is refused: its scores
mean the opposite, or another thing. A preference for passages makes three, a coin toss five with
7 / 64 = 11 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from secondpass.errors import ModelLoadError
from secondpass.settings import counted

_WRONG = 5
"""Questions with which a model is refused that prefers the other passage."""
_COUNTABLE = 4
"""Questions that have to count for a model to be asked."""

_PAIRS = (  # question, answer, words of both that the other answer of the language has not
    (
        "How tall is the Eiffel Tower?",
        "The Eiffel Tower in Paris is 330 metres tall.",
        ("tall", "Eiffel", "Tower"),
    ),
    (
        "What do bees make from nectar?",
        "Bees make honey from the nectar of flowers.",
        ("bees", "make", "nectar"),
    ),
    (
        "Wann wurde Albert Einstein geboren?",
        "Albert Einstein wurde am 14. März 1879 geboren.",
        ("Albert", "Einstein", "geboren"),
    ),
    (
        "Welcher Fluss fließt durch Dresden?",
        "Durch die Stadt Dresden fließt der Fluss Elbe.",
        ("Fluss", "fließt", "Dresden"),
    ),
    (
        "Python 语言是什么时候发布的？",  # noqa: RUF001
        "Python 语言于 1991 年首次发布。",
        ("Python", "语言", "发布"),
    ),
    (
        "Linux 的作者是谁？",  # noqa: RUF001
        "Linux 的作者是芬兰人 Linus Torvalds。",
        ("Linux", "作者"),
    ),
)

Requests: TypeAlias = list[tuple[str, list[str]]]


def requests() -> Requests:
    """Each question with its answer and another passage, in this order."""
    answers = [answer for _, answer, _ in _PAIRS]
    return [
        (question, [answers[index], answers[index ^ 1]])
        for index, (question, _, _) in enumerate(_PAIRS)
    ]


def doubt(
    score: Callable[[Requests], Sequence[Sequence[float]]], knows: Callable[[str], bool]
) -> str | None:
    """Why a model with these scores is doubtful; None if it is not, or is not asked.

    Args:
        score: the scores of the passages of each request; higher is better.
        knows: whether the model's vocabulary knows a word, and not only its letters.

    Raises:
        ModelLoadError: it ranks the other passage first.
    """
    countable = [index for index, (_, _, words) in enumerate(_PAIRS) if any(map(knows, words))]
    if len(countable) < _COUNTABLE:
        return None
    every = requests()
    lists = score([every[index] for index in countable])
    asked = "six questions" if len(countable) == len(every) else counted(len(countable), "question")
    if len({number for scores in lists for number in scores}) == 1:
        return f"the model gives all pairs of {asked} and two passages the same score"
    found = sum(answer > other for answer, other in lists)
    if sum(other > answer for answer, other in lists) >= _WRONG:
        raise ModelLoadError.final(
            f"of {asked} with an obvious answer, the model ranks that of {found} "
            "first, and otherwise another passage: its scores mean the opposite, or another thing; "
            "`known_answers: false` takes them as they are"
        )
    if found >= len(countable) - 1:
        return None
    return (
        f"of {asked} with an obvious answer, the model ranks that of {found} first: "
        "it is not trained as a reranker, or is used in another way than it was trained"
    )
