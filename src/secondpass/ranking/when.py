"""Decides for each query whether the pass runs, from the first stage's results, without a model.

If the first stage is certain, reranking rarely changes its top. Certainty is estimated from the
query and the retrieval scores, as in query performance prediction: by the lead of the first score
over the second, and by its distance from the others in standard deviations (Shtok, Kurland, Carmel,
Raiber and Markovits, "Predicting query performance by query-drift estimation", ACM TOIS 2012, use
the latter for a whole list). The right thresholds depend on the retriever.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.errors import ConfigurationError, Problem
from secondpass.ranking.candidates import field_value, first_stage_scores, retrieval_score
from secondpass.settings import Nested, configurable, from_mapping, nested
from secondpass.types import Candidate

if TYPE_CHECKING:
    from annotated_types import Ge, Le, Len

_SCORES_READ = 20
"""Number of retrieval scores, from the first, for ``margin`` and ``top_zscore``."""
_FEWEST = 3
"""Minimum number of candidates; the margin of two is always 1."""
_PASSAGES_READ = 10


class Unknown(Exception):  # noqa: N818 - no error: the pass runs
    """A number cannot be computed for this query; the message says why, if that is unusual.

    It holds no text of query and candidates.
    """


@configurable
@dataclass(frozen=True)
class Range:
    """A condition on a number. At least one bound is set.

    Attributes:
        below: the number is less than this.
        at_least: the number is this or more.
    """

    below: float | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        if self.below is None and self.at_least is None:
            raise ConfigurationError("one of below, at_least is required")
        if self.below is not None and self.at_least is not None and self.below <= self.at_least:
            message = f"must be larger than at_least ({self.at_least:g})"
            raise ConfigurationError([Problem(("below",), message)])

    def failed(self, value: float) -> str | None:
        """The bound that the value violates, in words; None if the condition holds."""
        if self.below is not None and value >= self.below:
            return f"{value:.4g} is not below {self.below:g}"
        if self.at_least is not None and value < self.at_least:
            return f"{value:.4g} is not at least {self.at_least:g}"
        return None


@configurable
@dataclass(frozen=True)
class _Share(Range):
    """A condition on a number from 0 to 1, whose bounds are checked."""

    below: Annotated[float, Ge(0), Le(1)] | None = None
    at_least: Annotated[float, Ge(0), Le(1)] | None = None


@configurable
@dataclass(frozen=True)
class Agreement:
    """A condition on the agreement of retrievers, whose scores or ranks are in the metadata.

    The number is the share of their first candidates that two retrievers have in common, 0 to 1;
    for more than two, the mean over all pairs.

    Attributes:
        fields: metadata fields, one per retriever, with its score or rank of the candidate.
            Candidates that it did not retrieve have no such field.
        below: the agreement is less than this.
        at_least: the agreement is this or more.
        first: number of candidates of each retriever that are compared.
        ranks: whether the fields are ranks (the lowest is the best) instead of scores.
    """

    fields: Annotated[Sequence[str], Len(2)]
    below: Annotated[float, Ge(0), Le(1)] | None = None
    at_least: Annotated[float, Ge(0), Le(1)] | None = None
    first: Annotated[int, Ge(1)] = 10
    ranks: bool = False

    def __post_init__(self) -> None:
        Range(self.below, self.at_least)
        if len({*self.fields}) < len(self.fields):
            raise ConfigurationError([Problem(("fields",), "names a field twice")])

    def failed(self, value: float) -> str | None:
        """The bound that the value violates, in words; None if the condition holds."""
        return Range(self.below, self.at_least).failed(value)

    def value(self, candidates: Sequence[Candidate]) -> float:
        """The agreement.

        Raises:
            Unknown: no candidate has one of the fields.
        """
        firsts = []  # of each retriever, the indices of its first candidates
        for name in self.fields:
            values: dict[int, float] = {}
            for index, candidate in enumerate(candidates):
                value = _number(field_value(candidate, name))
                if value is not None:
                    values[index] = value if self.ranks else -value
            if not values:
                raise Unknown(f"no candidate has a number in the field {name!r}")
            best_first = sorted(values, key=values.__getitem__)
            firsts.append({*best_first[: self.first]})
        size = min(self.first, max(map(len, firsts)))
        shares = [len(one & other) / size for one, other in combinations(firsts, 2)]
        return math.fsum(shares) / len(shares)


_RANGE = nested(Range, optional=True)


def _build_share(value: Any) -> Any:
    built = _RANGE.build(value)
    if built is not None:
        from_mapping(_Share, {"below": built.below, "at_least": built.at_least})
    return built


_SHARE = Nested(_build_share, nested(_Share, optional=True).schema)


@configurable
@dataclass(frozen=True)
class When:
    """When the pass runs: for queries that meet every condition; others keep the input order.

    A condition whose number is not known, such as without retrieval scores, counts as met.

    Attributes:
        margin: lead of the first retrieval score over the second, as a share of its lead over the
            20th (or the last), 0 to 1. If it is low, several candidates are nearly as good as the
            first.
        top_zscore: distance of the first retrieval score from the mean of those up to the 20th, in
            standard deviations of these.
        top_score: the first retrieval score.
        agreement: of several retrievers, 0 to 1.
        words: number of words of the query, 0 or more.
        english: share of English function words in query and first ten candidates, 0 to 1. English
            sentences have more than 0.15.
        depth: number of candidates to judge for the other queries. 0 judges none.
    """

    margin: Annotated[Range | None, _SHARE] = None
    top_zscore: Annotated[Range | None, _RANGE] = None
    top_score: Annotated[Range | None, _RANGE] = None
    agreement: Annotated[Agreement | None, nested(Agreement, optional=True)] = None
    words: Annotated[Range | None, _RANGE] = None
    english: Annotated[Range | None, _SHARE] = None
    depth: Annotated[int, Ge(0)] = 0

    def __post_init__(self) -> None:
        if not [*self._conditions()]:
            names = ", ".join(field.name for field in fields(self) if field.name != "depth")
            raise ConfigurationError(f"one of {names} is required")

    def _conditions(self) -> Iterator[tuple[str, Range | Agreement]]:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Range | Agreement):
                yield field.name, value

    def decide(
        self, query: str, candidates: Sequence[Candidate]
    ) -> tuple[str | None, dict[str, str]]:
        """Decide for a query, by the candidates in the retriever's order.

        Returns:
            Why the pass does not run as usual, None if it does; and then, by condition, why its
            number is not known, where that is unusual.
        """
        unknown: dict[str, str] = {}
        for name, condition in self._conditions():
            try:
                if isinstance(condition, Agreement):
                    value = condition.value(candidates)
                else:
                    value = signal(name, query, candidates)
            except Unknown as reason:
                if str(reason):
                    unknown[name] = str(reason)
                continue
            if (failed := condition.failed(value)) is not None:
                return f"{name} {failed}", {}
        return None, unknown


WHEN = nested(When, optional=True)
"""A parameter whose value is the conditions of a pass."""


def signal(name: str, query: str, candidates: Sequence[Candidate]) -> float:
    """The number of the condition with this name, other than ``agreement``.

    Raises:
        Unknown: it is not known for this query.
    """
    match name:
        case "margin":
            return _margin(_scores(candidates))
        case "top_zscore":
            return _top_zscore(_scores(candidates))
        case "top_score":
            return _scores(candidates, fewest=1)[0]
        case "words":
            from secondpass.ranking.words import split_words

            return len(split_words(query))
        case "english":
            from secondpass.ranking.english import function_word_share  # 10 ms to import

            passages = [candidate.text for candidate in candidates[:_PASSAGES_READ]]
            texts = [query, *(text for text in passages if isinstance(text, str))]
            share = function_word_share(texts)
            if share is None:
                raise Unknown("query and candidates have no words")
            return share
        case _:
            raise NotImplementedError(f"no signal is named {name!r}")


def _scores(candidates: Sequence[Candidate], fewest: int = _FEWEST) -> list[float]:
    """The retrieval scores of the first candidates.

    Raises:
        Unknown: they say nothing about the order.
    """
    known = [retrieval_score(candidate) for candidate in candidates[:_SCORES_READ]]
    if len(known) < fewest:
        raise Unknown
    scores = [score for score in known if score is not None]
    if len(scores) < len(known):
        raise Unknown(f"{len(known) - len(scores)} of the first {len(known)} have no score")
    rises = any(later > earlier for earlier, later in pairwise(scores))
    if rises or first_stage_scores(candidates)[1]:
        raise Unknown("retrieval scores do not fall along the list")
    if fewest > 1 and not scores[0] / 2 > scores[-1] / 2:
        raise Unknown("all retrieval scores are equal")
    return scores


def _margin(scores: Sequence[float]) -> float:
    # Halved first: the difference of two large floats may overflow.
    first, second, last = scores[0] / 2, scores[1] / 2, scores[-1] / 2
    return (first - second) / (first - last)


def _top_zscore(scores: Sequence[float]) -> float:
    # Scaled to the list, so that no square overflows.
    lead, last = scores[0] / 2, scores[-1] / 2
    rest = [(score / 2 - last) / (lead - last) for score in scores[1:]]
    mean = math.fsum(rest) / len(rest)
    deviation = math.sqrt(math.fsum((item - mean) ** 2 for item in rest) / len(rest))
    if deviation == 0:
        raise Unknown("all retrieval scores but the first are equal")
    return (1 - mean) / deviation


def _number(value: object) -> float | None:
    return retrieval_score(Candidate("", score=value))  # type: ignore[arg-type]
