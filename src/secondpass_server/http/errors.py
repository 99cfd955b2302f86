"""The errors with which requests are answered."""

from __future__ import annotations

from collections.abc import Mapping

from secondpass import Ranking
from secondpass.settings import counted


class RequestError(Exception):
    """A request that is not answered with a ranking.

    The message has no text of the request; ``kind`` is a stable identifier for programs. Without a
    status, it is the API's for invalid requests.
    """

    def __init__(
        self,
        status: int | None,
        message: str,
        kind: str = "invalid_request",
        *,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.headers = dict(headers or {})
        self.close = close


class TooManyTextsError(RequestError):
    """A request has more texts than the server accepts."""

    def __init__(self, field: str, count: int, most: int) -> None:
        self.count = count
        self.most = most
        super().__init__(
            None, f"{field}: has {counted(count, 'text')}; at most {most} are accepted"
        )


class IncompleteError(RequestError):
    """A ranking failed, or is not complete although the request demands it."""

    def __init__(
        self, status: int, message: str, model: str, ranking: Ranking, headers: Mapping[str, str]
    ) -> None:
        super().__init__(status, message, "incomplete", headers=headers)
        self.model = model
        self.ranking = ranking


class ClientGoneError(Exception):
    """The client has closed the connection."""
