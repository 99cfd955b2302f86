"""A suite on a few topics, in which a search by words ranks the worst passages first."""

from dataclasses import replace

from fakes import ByTable, InOrder, number_of
from secondpass import Candidate
from secondpass_evaluation import Suite, make_suite

TOPICS = ("owls", "seas", "cats", "figs", "bees", "elms")


def passages(*grades: int) -> list[Candidate]:
    """For each topic as many as there are grades; a text begins with its grade."""
    return [
        Candidate(f"{grade} wombats see {topic}", f"{topic}-{grade}")
        for grade in grades
        for topic in TOPICS
    ]


def suite_of(corpus=None, **parts) -> Suite:
    qrels = {f"q-{topic}": {f"{topic}-{grade}": grade for grade in range(4)} for topic in TOPICS}
    corpus = passages(0, 1, 2, 3) if corpus is None and not parts else corpus
    queries = {f"q-{topic}": topic for topic in TOPICS}
    return make_suite("wombats", queries, qrels, corpus=corpus, **parts)


SUITE = suite_of()


class ByGrade(ByTable):
    """Scores a passage by its grade, the highest first, or last by a negative sign."""

    sign = 1

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [float(self.sign * number_of(text)) for text in documents]


def failing(error: BaseException):
    def fails(*_: object) -> None:
        raise error

    return fails


def figures(comparison) -> list[object]:
    """All figures except times."""
    return [replace(result, cost=replace(result.cost, seconds={})) for result in comparison.results]


CANDIDATES = dict.fromkeys(SUITE.queries, SUITE.corpus[:12])
FIRST_IS_BEST = InOrder([float(-index) for index in range(24)])
"""Keeps the input order."""
