"""The base class of the supported rerank APIs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from secondpass import Ranking
from secondpass.adapters.shared import ScoreRule
from secondpass_server.http.errors import RequestError
from secondpass_server.http.fields import Fields, RerankRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """A ranking, and the scores and report of its response.

    Attributes:
        id: unique id of the response.
        model: name of the reranker.
        request: the request.
        ranking: the ranking.
        scores: one per item, never rising.
        rule: how they were computed from the final scores.
        report: status, issues, usage and rule, for APIs whose response has a place for them.
    """

    id: str
    model: str
    request: RerankRequest
    ranking: Ranking
    scores: list[float]
    rule: ScoreRule
    report: dict[str, Any]

    @property
    def tokens(self) -> int | None:
        """Input tokens; None if they are unknown."""
        return self.ranking.report.usage.input_tokens

    def rows(self) -> Iterator[tuple[int, float, Any]]:
        """Index in the request, score and document of each item, best first."""
        for item, score in zip(self.ranking.items, self.scores, strict=True):
            yield item.position, score, self.request.documents[item.position]


class Shape(ABC):
    """One rerank API: how requests are read, and responses and errors are written.

    Attributes:
        name: prefix of its paths.
        paths: paths of rerank requests, after the prefix.
        invalid: status of the response to an invalid request.
    """

    name: ClassVar[str]
    paths: ClassVar[tuple[str, ...]] = ("/v1/rerank", "/rerank")
    invalid: ClassVar[int] = 400

    def read(self, fields: Fields) -> RerankRequest:
        """Read a request, with the names of the fields that have no effect.

        Raises:
            RequestError: it is not valid.
        """
        return replace(self.parse(fields), unused=fields.unused)

    @abstractmethod
    def parse(self, fields: Fields) -> RerankRequest:
        """Convert the fields of a request.

        Raises:
            RequestError: it is not valid.
        """

    @abstractmethod
    def response(self, answer: Answer) -> Any:
        """The body of a response."""

    @abstractmethod
    def error(self, error: RequestError) -> Any:
        """The body of an error response."""

    def unit_scores(self, request: RerankRequest) -> bool:  # noqa: ARG002
        """Whether the API promises scores within 0 to 1."""
        return False

    def status(self, error: RequestError) -> int:
        """The status of an error."""
        return self.invalid if error.status is None else error.status


def result_rows(
    answer: Answer,
    *,
    score: str = "relevance_score",
    document: str = "document",
    as_object: bool = True,
) -> list[dict[str, Any]]:
    """Rows with index and score, and with the document if it was requested.

    Args:
        answer: the answer.
        score: name of the field for the score.
        document: name of the field for the document.
        as_object: whether a string is returned as an object with a ``text``.
    """
    rows: list[dict[str, Any]] = []
    for index, value, item in answer.rows():
        row: dict[str, Any] = {"index": index, score: value}
        if answer.request.return_documents:
            row[document] = {"text": item} if as_object and isinstance(item, str) else item
        rows.append(row)
    return rows


def token_usage(answer: Answer) -> dict[str, int]:
    """The number of tokens; 0 if it is unknown, as the APIs demand numbers that clients add up.

    The report says what is known.
    """
    count = answer.tokens or 0
    return {"total_tokens": count, "prompt_tokens": count}
