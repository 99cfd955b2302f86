"""The response cache: earlier answers of services, in a file.

Only the value read from a reply is stored, which identifies documents by place: no text, no label
and no key of a service. It is found by a hash (:mod:`secondpass.asking.answer_keys`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from secondpass.asking.answer_keys import NotStorableError, answer_key, service_key
from secondpass.errors import ConfigurationError, reraise_exit
from secondpass.questions import Answer, Question
from secondpass.ranking.ledger import Ledger
from secondpass.settings import Nested, configurable, describe, from_mapping, model_of
from secondpass.storage import Layout
from secondpass.storage.store import Store

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MinLen

_MAX_MB = 1_000_000  # of the cache of a run, which is to have no limit

LAYOUT = Layout(
    name="response cache",
    application=0x73707261,
    version=2,
    schema=(
        "CREATE TABLE answers (used INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "
        "checksum INTEGER NOT NULL, value BLOB NOT NULL, written REAL NOT NULL)",
    ),
    table="answers",
    dated=True,
)


@configurable
class ResponseCache:
    """Stores the answers of language models and rerank APIs in a SQLite file.

    The key of an answer includes everything that it depends on: the query, the texts in their
    order, the prompt, the service, its model and parameters, and the version of secondpass. Any
    number of threads, event loops and processes may use one file. If it cannot be used, the report
    has an issue (``cache_failed``), and the service is asked: a damaged file stops no program.

    Args:
        path: of the file; created if it does not exist, and for its owner only. An existing file is
            used only if it is empty, or a response cache of the same user. Any other is not
            touched, also if its first bytes are damaged, as it may be a file of the user's.
        max_mb: maximum size of the file in 1e6 bytes; the least recently used answers are deleted.
        max_age_days: days after which an answer is no longer used; None for no limit.
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
        self._store = Store(path, LAYOUT, max_mb * 1_000_000, max_age)
        self._namespace = ""

    @classmethod
    def of_run(cls, path: Path, namespace: str = "", *, before: float | None = None) -> Self:
        """The cache of a run that can be resumed, without limits of size and age.

        The file is created with the first answer.

        Answers of another namespace are not returned, nor those stored since the time ``before``,
        so that equal questions of one run are all asked.

        Raises:
            ConfigurationError: as :meth:`check`.
        """
        cache = cls(str(path), max_mb=_MAX_MB, max_age_days=None)
        cache.check()
        cache._namespace, cache._store.found_before = namespace, before
        cache._store.created_by_reading = False
        return cache

    def check(self) -> None:
        """Raise a ConfigurationError if the path is that of something else."""
        self._store.check()

    # ------------------------------------------------------------------ for a round of questions

    async def find(
        self, service: object, questions: Sequence[Question[Any, Any]], ledger: Ledger
    ) -> dict[int, Any]:
        """The stored values, by index of the question."""
        keys = self._keys(service, questions, ledger)
        stored = await self._store.read([*keys.values()], _seconds_left(ledger))
        self._report(ledger)
        values: dict[int, Any] = {}
        for index, key in keys.items():
            data = stored.get(key)
            recall = questions[index].recall
            if data is not None and recall is not None:
                try:
                    values[index] = recall.load(json.loads(data))
                except BaseException as error:  # the user's own code may raise anything
                    reraise_exit(error)
        ledger.cached += len(values)
        return values

    def first_of_equal(
        self, service: object, questions: Sequence[Question[Any, Any]], ledger: Ledger
    ) -> list[int]:
        """For each question, the index of the first question that is equal to it.

        In a run that can be resumed, no questions are equal: it asks each of them.
        """
        firsts = list(range(len(questions)))
        if len(questions) < 2 or self._store.found_before is not None:
            return firsts
        first_of_key: dict[bytes, int] = {}
        for index, key in self._keys(service, questions, ledger).items():
            firsts[index] = first_of_key.setdefault(key, index)
        return firsts

    def keep(
        self, service: object, question: Question[Any, Any], answer: Answer[Any], ledger: Ledger
    ) -> None:
        """Store an answer in the background, if it can be stored."""
        if is_doubtful(answer):
            return
        key = self._keys(service, [question], ledger).get(0)
        if key is None or question.recall is None:
            return
        try:
            data = question.recall.dump(answer.value)
            text = None if data is None else json.dumps(data, separators=(",", ":"))
        except BaseException as error:  # the user's own code may raise anything
            reraise_exit(error)
            message = f"the answers of {_name(service)} are not stored: "
            ledger.add_issue("not_cached", f"{message}dump raised {type(error).__name__}")
            return
        if text is not None:
            self._store.write_soon({key: text.encode()})

    def forget(self, service: object, questions: Sequence[Question[Any, Any]]) -> None:
        """Delete the answers to these questions in the background."""
        with suppress(NotStorableError):  # then there are none
            start = service_key(service, self._namespace)
            self._store.write_soon({answer_key(start, question): None for question in questions})

    async def written(self, ledger: Ledger) -> None:
        """Wait a second at most until answers are written, and report an error."""
        await self._store.written(_seconds_left(ledger))
        self._report(ledger)

    def delete(self) -> None:
        """Close and remove the file."""
        self._store.delete()

    def close(self) -> None:
        """Write what is not yet written, and close the file. A later call opens it again."""
        self._store.close()

    # ------------------------------------------------------------------ keys

    def _keys(
        self, service: object, questions: Sequence[Question[Any, Any]], ledger: Ledger
    ) -> dict[int, bytes]:
        """The keys of questions whose answers can be stored, by index."""
        try:
            start = service_key(service, self._namespace)
            return {index: answer_key(start, question) for index, question in enumerate(questions)}
        except NotStorableError as error:
            message = f"the answers of {_name(service)} are not stored: {error}"
            ledger.add_issue("not_cached", message)
            return {}

    def _report(self, ledger: Ledger) -> None:
        for issue in self._store.issues():
            ledger.add_issue(issue.code, issue.message)


def _seconds_left(ledger: Ledger) -> float | None:
    """Seconds until the deadline; None without one, and while the clock has not started."""
    return None if ledger.waiting else ledger.question_seconds_left


def is_doubtful(answer: Answer[Any]) -> bool:
    """Whether a reply had scores on another scale, so that no answer of its round can be used."""
    errors = [answer.error, *answer.troubles]
    return any(error is not None and error.code == "score_out_of_range" for error in errors)


def _name(service: object) -> str:
    return repr(getattr(service, "name", type(service).__name__))


def to_response_cache(value: object) -> ResponseCache | None:
    """The response cache of a path or a mapping, or itself; else a ConfigurationError."""
    if value is None or isinstance(value, ResponseCache):
        return value
    if isinstance(value, str | os.PathLike):
        value = {"path": os.fspath(value)}
    if isinstance(value, Mapping):
        cache: ResponseCache = from_mapping(ResponseCache, value)
        return cache
    raise ConfigurationError(f"give a path, a mapping or a ResponseCache, not {describe(value)}")


def _schema() -> dict[str, Any]:
    path = {"type": "string", "minLength": 1}
    return {"anyOf": [path, model_of(ResponseCache).model_json_schema(), {"type": "null"}]}


RESPONSE_CACHE = Nested(to_response_cache, _schema)
