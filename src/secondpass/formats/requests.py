"""Requests and rankings as JSON lines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.lines import (
    AnyPath,
    Line,
    decode_line,
    instead_of,
    parse_json,
    parse_object,
)
from secondpass.ranking.candidates import TEXT_KEYS, stated_score, to_candidates
from secondpass.ranking.options import CallOptions
from secondpass.ranking.result import Ranking, item_record
from secondpass.settings import describe, suggestion
from secondpass.types import TIMES, Candidate, Ranked

_CALL_OPTIONS = tuple(CallOptions.__annotations__)
_ID_KEYS = ("query_id", "id", "_id")
_KEYS = frozenset({"query", "candidates", "context", *_ID_KEYS, *_CALL_OPTIONS})
_LEFT_OUT_IF_EMPTY = {"stage_scores", "span", "probability", "metadata"}
_BATCH_SIZE = 32_000_000  # bytes of input after which a batch ends; it bounds the memory
_MAX_UNKNOWN = 10  # maximum number of unknown keys to warn about


@dataclass(frozen=True, slots=True)
class InputRequest:
    """A request to rerank, as it was read.

    Attributes:
        query_id: None if the input has no ids.
        candidates: in the order of the retriever.
        digest: hash of the input that the request was read from.
        size: size of that input in bytes.
        options: the call options of the request.
    """

    query_id: str | int | None
    query: str = field(repr=False)
    candidates: list[Candidate] = field(repr=False)
    context: Any = field(repr=False)
    digest: bytes
    size: int
    options: dict[str, Any] = field(default_factory=dict, repr=False)


def batches(
    requests: Iterable[InputRequest], count: int, size: int = _BATCH_SIZE
) -> Iterator[list[InputRequest]]:
    """Group requests: a batch ends at ``count`` requests, or when it has ``size`` bytes."""
    batch: list[InputRequest] = []
    batch_size = 0
    for request in requests:
        batch.append(request)
        batch_size += request.size
        if len(batch) == count or batch_size >= size:
            yield batch
            batch, batch_size = [], 0
    if batch:
        yield batch


def read_single_request(
    stream: BinaryIO, name: AnyPath, query: str, read: Callable[[Line], Candidate]
) -> InputRequest:
    """Read the candidates of one query, one per line, each with ``read``."""
    digest, size, candidates = hashlib.sha256(), 0, []
    for line, raw in raw_lines(stream, name):
        candidates.append(read(line))
        digest.update(raw + b"\n")
        size += len(raw)
    return InputRequest(None, query, candidates, None, digest.digest(), size)


def read_candidate(line: Line, *, text_needed: bool) -> Candidate:
    """The candidate in a line of JSON."""
    try:
        value = parse_json(line)
    except FormatError as error:
        if line.text.lstrip().startswith("{"):
            raise
        raise line.error(f"{error.problem}; for lines of plain text, add --lines") from None
    if isinstance(value, dict) and "candidates" in value:
        raise line.error("has 'candidates'; to rank them, leave out --query")
    if isinstance(value, list):
        raise line.error("is a list; put each candidate on its own line")
    return _candidate(line, value, text_needed)


def read_text(line: Line) -> Candidate:
    """A candidate with the line as its text."""
    return Candidate(line.text)


def read_requests(
    stream: BinaryIO,
    name: AnyPath,
    *,
    text_needed: bool,
    check_options: Callable[[Mapping[str, Any]], object],
    warn: Callable[[str], None],
) -> Iterator[InputRequest]:
    """Read requests, one per line, from a stream of this name. Unknown keys are only warned of.

    ``check_options`` raises an InputError if the call options of a request are wrong.

    Raises:
        FormatError: a line is not a request, an id is repeated, or only some lines have one.
    """
    seen: dict[str, int] = {}
    with_ids: bool | None = None
    unknown = UnknownKeys(warn)
    for line, raw in raw_lines(stream, name):
        request = parse_request(
            line, raw, text_needed=text_needed, check_options=check_options, unknown=unknown
        )
        identifier = request.query_id
        if with_ids is None:
            with_ids = identifier is not None
        elif with_ids != (identifier is not None):
            problem = "has no 'query_id'" if with_ids else "has a 'query_id'"
            raise line.error(f"{problem}, unlike earlier lines; give every line one, or none")
        if identifier is not None:
            line.check_new(identifier, seen)
        yield request


def parse_request(
    line: Line,
    raw: bytes,
    *,
    text_needed: bool,
    check_options: Callable[[Mapping[str, Any]], object],
    unknown: UnknownKeys,
) -> InputRequest:
    """The request in a line of JSON, ``raw`` without its line end; see :func:`read_requests`.

    ``unknown`` gets the keys that are ignored.
    """
    value = parse_object(line)
    if "query" not in value and any(key in value for key in TEXT_KEYS):
        raise line.error("has no 'query'; to rank these lines as candidates, give --query")
    query, items = value.get("query"), value.get("candidates")
    if not isinstance(query, str):
        raise line.error(f"needs a 'query': a string{instead_of(value, 'query')}")
    if not isinstance(items, list):
        raise line.error(f"needs 'candidates': a list{instead_of(value, 'candidates')}")
    identifier = _id(line, value, _ID_KEYS)
    candidates = [
        _candidate(line, item, text_needed, f"candidate {number}: ")
        for number, item in enumerate(items, 1)
    ]
    for key in value.keys() - _KEYS:
        unknown.add(line, key)
    options = {key: value[key] for key in _CALL_OPTIONS if value.get(key) is not None}
    try:
        check_options(options)
    except InputError as error:
        raise line.error(str(error)) from None
    digest = hashlib.sha256(raw).digest()
    return InputRequest(
        identifier, query, candidates, value.get("context"), digest, len(raw), options
    )


def raw_lines(stream: BinaryIO, name: AnyPath) -> Iterator[tuple[Line, bytes]]:
    """The lines that are not blank, decoded and raw.

    The raw line has no line end, so the last line hashes the same after the file has grown.
    """
    for number, raw in enumerate(stream, 1):
        line = decode_line(name, number, raw)
        if line.text.strip():
            yield line, raw.rstrip(b"\r\n")


class UnknownKeys:
    """Warns about each unknown key of requests once, up to a limit."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._seen: set[str] = set()
        self._warn = warn

    def add(self, line: Line, key: str) -> None:
        if key in self._seen or len(self._seen) > _MAX_UNKNOWN:
            return
        self._seen.add(key)
        if len(self._seen) > _MAX_UNKNOWN:
            self._warn("further unknown keys of requests are ignored, too")
            return
        hint = suggestion(key, sorted(_KEYS))
        self._warn(str(line.error(f"the key {key[:80]!r} is unknown, and ignored{hint}")))


def _candidate(line: Line, value: Any, text_needed: bool, where: str = "") -> Candidate:
    """Parse a candidate; ``_id`` is accepted for ``id``, as in corpora."""
    if isinstance(value, dict):
        identifier = _id(line, value, ("id", "_id"), where)
        score = stated_score(value)
        if isinstance(score, bool) or not isinstance(score, int | float | None):
            raise line.error(f"{where}the score must be a number, not {describe(score)}")
        value = {key: part for key, part in value.items() if key not in {"id", "_id"}}
        value["id"] = identifier
    elif not isinstance(value, str):
        raise line.error(f"{where}must be an object or a string, not {describe(value)}")
    try:
        return to_candidates([value], text_needed=text_needed)[0]
    except InputError as error:
        problem = str(error).removeprefix("candidates[0]").lstrip(".: ")
        raise line.error(where + problem) from None


def _id(line: Line, value: Mapping[str, Any], keys: tuple[str, ...], where: str = "") -> Any:
    """A string or an integer as given; None if there is none."""
    ids = {key: value[key] for key in keys if value.get(key) is not None}
    for key, item in ids.items():
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise line.error(f"{where}{key!r} must be a string or an integer, not {describe(item)}")
    if len({str(item) for item in ids.values()}) > 1:
        raise line.error(f"{where}has {' and '.join(map(repr, ids))}, and they differ")
    return next(iter(ids.values()), None)


def ranking_record(
    request: InputRequest, ranking: Ranking, *, text: bool, timings: bool
) -> dict[str, Any]:
    """The object of a line; with ``text`` also texts and metadata, with ``timings`` durations."""
    report = ranking.report.to_dict()
    if not timings:
        for name in TIMES:
            del report[name]
    record: dict[str, Any] = {} if request.query_id is None else {"query_id": request.query_id}
    record["query"] = request.query
    record["ranking"] = [ranked_record(item, text=text) for item in ranking]
    record["report"] = report
    return record


def ranked_record(item: Ranked, *, text: bool) -> dict[str, Any]:
    """An item as the commands write it: what is empty is left out, and the score is as it came."""
    record = {**item_record(item, text=text), "score": item.score}
    return {
        name: value
        for name, value in record.items()
        if name not in _LEFT_OUT_IF_EMPTY or value not in (None, [], {})
    }
