"""The response cache: answers that services gave before, in a file.

An answer is found by a hash of its question (:mod:`secondpass.runtime.answer_keys`). What is stored
is the value that was read from the reply, which names documents by their places: no text, no
label and no key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, TypeVar

from secondpass.concurrency.lazy import ForkLock
from secondpass.concurrency.left_behind import Call
from secondpass.errors import ConfigurationError
from secondpass.questions import Answer, Question
from secondpass.runtime.answer_keys import NotStorableError, answer_key, service_key
from secondpass.settings import Nested, configurable, describe, from_mapping, model_of

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MinLen

    from secondpass.runtime.answer_file import AnswerFile

T = TypeVar("T")

_MAX_MB = 1_000_000
_MAX_WAIT = 1.0
"""Seconds that a round of questions waits for the file, at most, before and after."""


class Books(Protocol):
    """What the cache needs of the ledger of a ranking."""

    cached: int

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
        self._found_before: float | None = None
        self._namespace = ""
        self._lock, self._writing = ForkLock(), ForkLock()
        self._file: AnswerFile | None = None
        self._waiting: dict[bytes, str | None] = {}
        self._writes = False
        self._failures: dict[str, str] = {}

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
        cache._namespace, cache._found_before = namespace, before
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
        texts = await self._in_thread(lambda: self._read(list(keys.values())), books)
        self._report(books)
        values: dict[int, Any] = {}
        for index, key in keys.items():
            text = (texts or {}).get(key)
            recall = questions[index].recall
            if text is not None and recall is not None:
                with suppress(Exception):  # a damaged row, or the user's own code
                    values[index] = recall.load(json.loads(text))
        books.cached += len(values)
        return values

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
                self._write_soon({key: text})

    def forget(self, service: object, questions: Sequence[Question[Any, Any]]) -> None:
        """Delete the answers to these questions, soon."""
        with suppress(NotStorableError):  # then there are none
            start = service_key(service, self._namespace)
            self._write_soon({answer_key(start, question): None for question in questions})

    async def written(self, books: Books) -> None:
        """Wait until answers are written, but no longer than a moment, and report a failure."""
        if self._waiting:
            await self._in_thread(self._write, books)
        self._report(books)

    def delete(self) -> None:
        """Close and remove the file.

        Raises:
            OSError: it cannot be removed.
        """
        self.close()
        for suffix in ("", "-wal", "-shm"):
            Path(self.path + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Write what is not yet written, and close the file. A later call opens it again."""
        self._write()
        if self._file is not None:
            self._try("close")

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

    # ------------------------------------------------------------------ the file

    def _read(self, keys: list[bytes]) -> dict[bytes, str]:
        """The texts of these keys, also of those that wait to be written."""
        if not keys:
            return {}
        with self._lock:
            waiting = {key: self._waiting[key] for key in keys if key in self._waiting}
        if self._found_before is not None:
            waiting = {}
        found: dict[bytes, str | None] = self._try("get_many", keys, self._found_before)
        return {key: text for key, text in {**(found or {}), **waiting}.items() if text is not None}

    def _write_soon(self, texts: Mapping[bytes, str | None]) -> None:
        """Store texts in a thread. Several that come meanwhile are written together."""
        from secondpass.concurrency.threads import start

        with self._lock:
            self._waiting.update(texts)
            writes, self._writes = self._writes, True
        if not writes:
            call = Call(self._write)
            call.leave()  # the end of the process waits for it
            start(call)

    def _write(self) -> None:
        with self._writing:  # one at a time, so that none writes what another one writes
            with self._lock:
                texts = dict(self._waiting)
                self._writes = False
            if not texts:
                return
            self._try("put_many", texts)
            with self._lock:  # now they are found in the file
                for key, text in texts.items():
                    if self._waiting.get(key) is text:
                        self._waiting.pop(key, None)

    def _try(self, method: str, *args: Any) -> Any:
        """The result of a method of the file; None if that cannot be used."""
        from secondpass.runtime.answer_file import AnswerFile, AnswerFileError  # imports sqlite3

        with self._lock:
            if self._file is None:
                age = None if self.max_age_days is None else self.max_age_days * 86400
                self._file = AnswerFile(self.path, self.max_mb * 1_000_000, age)
            file = self._file
        try:
            result = getattr(file, method)(*args)
        except AnswerFileError as error:
            self._failures[method] = str(error)
            return None
        self._failures.pop(method, None)
        return result

    async def _in_thread(self, call: Callable[[], T], books: Books) -> T | None:
        """The result of a call in a thread; None if that takes longer than a moment."""
        from secondpass.concurrency.threads import in_thread, with_timeout

        seconds = books.question_seconds_left
        if seconds == 0:
            return None
        work = Call(call)
        try:
            return await with_timeout(in_thread(work), min(_MAX_WAIT, seconds or _MAX_WAIT))
        except TimeoutError:
            work.leave()
            self._failures["wait"] = f"{Path(self.path).name!r} did not answer in time"
            return None

    def _report(self, books: Books) -> None:
        late = self._failures.pop("wait", None)
        for failure in dict.fromkeys(filter(None, [late, *self._failures.values()])):
            books.add_issue("cache_failed", f"the response cache {failure}")
        if self._file is not None and self._file.set_aside is not None:
            name, self._file.set_aside = self._file.set_aside, None
            message = f"a damaged or outdated file was set aside as {name!r}, and a new one begun"
            books.add_issue("cache_set_aside", message)


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
