"""Collects the issues of a method, and words what questions and replies left unanswered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from secondpass.errors import LLMError, MethodError, ReplyError
from secondpass.questions import Answer
from secondpass.types import Issue


class IssueCollector:
    """Collects the issues of one method. Issues of equal code and message become one."""

    def __init__(self, method: str) -> None:
        self.method = method
        self._positions: dict[tuple[str, str], set[int]] = {}

    def add(self, code: str, message: str, positions: Sequence[int] = ()) -> None:
        """Add an issue that concerns these indices of the task."""
        self._positions.setdefault((code, message), set()).update(positions)

    def add_answer(self, answer: Answer[Any], indices: Sequence[int]) -> None:
        """Add the error of an answer about these indices, and those from which it recovered."""
        self.add_recovered(replace(answer, error=None))
        if answer.error is not None:
            self.add(answer.error.code, error_message(answer.error), indices)

    def add_recovered(self, answer: Answer[Any]) -> None:
        """Add all errors of an answer, as those after which something else was asked."""
        for error in (*answer.troubles, answer.error):
            if error is not None:
                self.add("asked_again", f"{error.code}: {error}")

    def issues(self) -> list[Issue]:
        """The issues, in the order in which they were first added."""
        return [
            Issue(code, message, tuple(sorted(positions)), (), self.method)
            for (code, message), positions in self._positions.items()
        ]


def error_message(error: MethodError) -> str:
    """The message of an error. That of a ReplyError speaks of the reply as "it"."""
    if isinstance(error, ReplyError) or error.code in {"reply_refused", "empty_reply"}:
        return f"the model's reply cannot be used: {error}"
    return str(error)


def unanswered(error: MethodError) -> MethodError:
    """The error of a method whose question failed with ``error``, which names the reply."""
    message = error_message(error)
    if isinstance(error, LLMError):
        return error.with_message(message)
    return ReplyError(message, error.code) if isinstance(error, ReplyError) else error


def why_missing(*, cut: bool) -> str:
    """Why a reply has nothing about some documents: it was cut, or leaves them out."""
    return "the reply broke off before them" if cut else "the reply leaves them out"
