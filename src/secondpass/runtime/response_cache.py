"""The response cache: answers that services gave before, in a file.

An answer is found by a hash of its question (:mod:`secondpass.runtime.answer_keys`). What is stored
is the value that was read from the reply, which names documents by their places: no text, no
label and no key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

from secondpass.errors import ConfigurationError
from secondpass.questions import Answer, Question
from secondpass.runtime.answer_keys import NotStorableError, answer_key, service_key
from secondpass.runtime.answer_store import AnswerStore
from secondpass.settings import Nested, configurable, describe, from_mapping, model_of

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MinLen

_MAX_MB = 1_000_000


class Books(Protocol):
    """What the cache needs of the ledger of a ranking."""

    cached: int
    waiting: bool

    @property
    def question_seconds_left(self) -> float | None:
        """Seconds that questions have left; None without a deadline."""

    def add_issue(self, code: str, message: str) -> None:
        """Add an issue to the report."""


@configurable
class ResponseCache:
    """Stores the answers of language models and rerank APIs in a SQLite file.

    Answers are found again by everything that they depend on: the query, the texts in their order,
    the words of the prompt, the service, its model and parameters, and the version of secondpass.
    Any number of threads, event loops and processes may use one file. If it cannot be used, the
    report has an issue, and the service is asked.

    Args:
        path: of the file; created if it does not exist, readable by its owner only.
        max_mb: size of the file in 1e6 bytes; the answers used least recently are deleted.
        max_age_days: days after which an answer is not used any more; None: never.
    """

    def __init__(
        self,
        path: Annotated[str, MinLen(1)],
        *,
        max_mb: Annotated[int, Ge(1)] = 256,
        max_age_days: Annotated[float, Gt(0)] | None = 30.0,
    ) -> None:
        self.path = path
        self.max_mb = max_mb
        self.max_age_days = max_age_days
        max_age = None if max_age_days is None else max_age_days * 86400
        self._store = AnswerStore(path, max_mb * 1_000_000, max_age)
        self._namespace = ""

    @classmethod
    def of_run(cls, path: Path, namespace: str = "", *, before: float | None = None) -> Self:
        """The cache of a run that can be resumed, without limits.

        Args:
            path: of the file.
            namespace: answers that were stored under another one are not found.
            before: answers that were stored since this value of :func:`time.time` are not found,
                because the run is to ask twice what it asks twice.
        """
        cache = cls(str(path), max_mb=_MAX_MB, max_age_days=None)
        cache._namespace, cache._store.found_before = namespace, before
        return cache

    # ------------------------------------------------------------------ for a round of questions

    async def find(
        self, service: object, questions: Sequence[Question[Any, Any]], books: Books
    ) -> dict[int, Any]:
        """The values of the questions that were answered before, by index.

        Args:
            service: that would be asked.
            questions: one or more.
            books: of the ranking.
        """
        keys = self._keys(service, questions, books)
        texts = await self._store.read([*keys.values()], _seconds_left(books))
        self._report(books)
        values: dict[int, Any] = {}
        for index, key in keys.items():
            text = texts.get(key)
            recall = questions[index].recall
            if text is not None and recall is not None:
                with suppress(Exception):  # a damaged row, or the user's own code
                    values[index] = recall.load(json.loads(text))
        books.cached += len(values)
        return values

    def first_of_equal(
        self, service: object, questions: Sequence[Question[Any, Any]], books: Books
    ) -> list[int]:
        """For each question, the index of the first that has the same answer, or its own.

        In a run that can be resumed all differ: it is to ask twice what it asks twice.
        """
        own = range(len(questions))
        if len(questions) < 2 or self._store.found_before is not None:
            return [*own]
        keys = self._keys(service, questions, books)
        firsts: dict[bytes, int] = {}
        return [firsts.setdefault(keys[index], index) if index in keys else index for index in own]

    def keep(
        self, service: object, question: Question[Any, Any], answer: Answer[Any], books: Books
    ) -> None:
        """Store an answer, soon."""
        if is_doubtful(answer):
            return
        for key in self._keys(service, [question], books).values():
            assert question.recall is not None
            try:
                data = question.recall.dump(answer.value)
                text = None if data is None else json.dumps(data, separators=(",", ":"))
            except Exception as error:  # of a value of the user's
                message = f"the answers of {_name(service)} are not stored: "
                books.add_issue("not_cached", f"{message}{type(error).__name__} on writing one")
                return
            if text is not None:
                self._store.write_soon({key: text})

    def forget(self, service: object, questions: Sequence[Question[Any, Any]]) -> None:
        """Delete the answers to these questions, soon."""
        with suppress(NotStorableError):  # then there are none
            start = service_key(service, self._namespace)
            self._store.write_soon({answer_key(start, question): None for question in questions})

    async def written(self, books: Books) -> None:
        """Wait until answers are written, but no longer than a moment, and report a failure."""
        await self._store.written(_seconds_left(books))
        self._report(books)

    def delete(self) -> None:
        """Close and remove the file.

        Raises:
            OSError: it cannot be removed.
        """
        self._store.delete()

    def close(self) -> None:
        """Write what is not yet written, and close the file. A later call opens it again."""
        self._store.close()

    # ------------------------------------------------------------------ keys

    def _keys(
        self, service: object, questions: Sequence[Question[Any, Any]], books: Books
    ) -> dict[int, bytes]:
        """The keys of questions whose answers can be stored, by index."""
        try:
            start = service_key(service, self._namespace)
            return {index: answer_key(start, question) for index, question in enumerate(questions)}
        except NotStorableError as error:
            message = f"the answers of {_name(service)} are not stored: {error}"
            books.add_issue("not_cached", message)
            return {}

    def _report(self, books: Books) -> None:
        for issue in self._store.issues():
            books.add_issue(issue.code, issue.message)


def _seconds_left(books: Books) -> float | None:
    """Seconds until the deadline; None without one, and while the clock has not started."""
    return None if books.waiting else books.question_seconds_left


def is_doubtful(answer: Answer[Any]) -> bool:
    """Whether a reply had scores on another scale, so that none of its round is to be trusted."""
    errors = [answer.error, *answer.troubles]
    return any(error is not None and error.code == "score_out_of_range" for error in errors)


def _name(service: object) -> str:
    return repr(getattr(service, "name", type(service).__name__))


def to_response_cache(value: object) -> ResponseCache | None:
    """The response cache for a path, a mapping, or a cache.

    Raises:
        ConfigurationError: it is none of these, or a setting is wrong.
    """
    if value is None or isinstance(value, ResponseCache):
        return value
    if isinstance(value, str | os.PathLike):
        value = {"path": os.fspath(value)}
    if isinstance(value, Mapping):
        cache: ResponseCache = from_mapping(ResponseCache, value)
        return cache
    message = f"give a path, a mapping or a ResponseCache, not {describe(value)}"
    raise ConfigurationError(message)


def _schema() -> dict[str, Any]:
    path = {"type": "string", "minLength": 1}
    return {"anyOf": [path, model_of(ResponseCache).model_json_schema(), {"type": "null"}]}


RESPONSE_CACHE = Nested(to_response_cache, _schema)
