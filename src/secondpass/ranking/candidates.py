"""Conversion of what callers pass in to candidates and requests, and access to their values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from types import NoneType
from typing import Any, TypeAlias

from secondpass.errors import InputError, reraise_exit, with_article
from secondpass.ranking.scoring import to_float
from secondpass.types import Candidate, CandidateLike, Ranked

CheckedRequest: TypeAlias = tuple[str, list[Candidate], Any]
"""Query, candidates and context of one ranking."""

_FEWEST_DISTANCES = 3  # scores of fewer candidates may rise by chance
TEXT_KEYS = ("text", "page_content", "content")
"""Keys and attributes for the text: ``page_content`` is that of LangChain's documents."""
_CANDIDATE_KEYS = frozenset({"text", "content", "id", "score", "metadata"})
_SCORE_KEYS = ("score", "originalScore")
"""Keys for the retrieval score of a mapping or object; the first that is there counts."""
_MAPPING_SCORE_KEYS = (*_SCORE_KEYS, "_score")
_ID_KEYS = ("id", "_id")
"""Keys for the id of a mapping. ``_id`` is that of BEIR, MongoDB, Elasticsearch and OpenSearch."""
_LIKE_TEXT, _LONGEST_LIKE_TEXT = 0.8, 6
"""Similarity to ``text`` of a key that is a misspelling of it, 0 to 1; and its characters."""
_OTHER_TEXT_KEYS = ("snippet", "passage", "body", "chunk", "document", "description")
"""Keys for the text of a document in other tools, for a hint."""
_WITH_TEXT = frozenset({"_source", "document", "entity", "fields", "metadata", "payload"})
"""Keys of mappings with the text, in the results of search engines and vector databases."""


MISSING: Any = type("Missing", (), {})()
"""Stands for the argument ``candidates`` in a call without it."""


def to_candidates(
    values: Iterable[CandidateLike], *, text_needed: bool = True, name: str = "candidates"
) -> list[Candidate]:
    """Convert each string, mapping, Candidate, Ranked or object with a text to a candidate.

    The text of a mapping or object is ``text``, ``content`` or ``page_content``; the ``id``,
    ``score`` and ``metadata`` (or ``meta``) are read. If it has no metadata, its other attributes
    are used. Without a ``score``, ``originalScore`` is the retrieval score; so are, of a mapping,
    ``_score``, and ``_id`` its id. They are metadata as well.
    A mapping without a text is an error unless a method is shown other fields (``text_needed``);
    then its ``page_content`` is such a field. ``name`` is that of the argument, for messages.

    Raises:
        InputError: a value cannot be converted; the message gives its position and the field.
    """
    if values is MISSING:
        raise TypeError(f"missing 1 required positional argument: {name!r}")
    is_single = isinstance(values, str | bytes | Mapping) or _is_frame(values)
    if is_single or not isinstance(values, Iterable):
        raise InputError(
            f"{name}: give a sequence of strings, mappings or Candidates, "
            f"not {kind_of(values)}{_hint_instead_of_list(values)}"
        )
    return [
        value
        if type(value) is Candidate and type(value.metadata) is dict  # nothing is left to check
        else _to_candidate(value, f"{name}[{position}]", text_needed)
        for position, value in enumerate(values)
    ]


def _is_frame(value: object) -> bool:
    """Whether it is a pandas DataFrame, which iterates over the names of its columns."""
    return hasattr(value, "iterrows")


def _hint_instead_of_list(values: object) -> str:
    """``; …`` what to write, for something else than a list of candidates."""
    if _is_frame(values):
        return "; its rows are df.to_dict('records')"
    if isinstance(values, str):
        return "; for a single text, give [text]"
    if not isinstance(values, Mapping):
        return ""
    if any(key in values for key in TEXT_KEYS):
        return "; for a single one, give [candidate]"
    if values and all(isinstance(text, str) for text in values.values()):
        pairs = "for id, text in texts.items()"
        return f"; for texts by id, give [{{'id': id, 'text': text}} {pairs}]"
    return "; give a mapping for each candidate"


def as_candidate(item: object) -> Candidate:
    """The candidate of an item of any kind that an ordering is called with.

    One that cannot be converted, such as a document without a text, has its metadata at most.
    """
    if isinstance(item, Candidate):
        return item
    try:
        return to_candidates([item], text_needed=False)[0]  # type: ignore[list-item]
    except InputError:
        try:
            return Candidate("", metadata=_metadata_of(item) or {})
        except BaseException as error:  # foreign properties may raise anything
            reraise_exit(error)
            return Candidate("")


def to_request(
    query: str, candidates: Iterable[CandidateLike], context: Any = None, *, text_needed: bool
) -> CheckedRequest:
    """Check a query and convert its candidates; raises an InputError if one is wrong."""
    if not isinstance(query, str):
        is_swapped = isinstance(candidates, str) or candidates is MISSING
        hint = "; it comes first, then the candidates" if is_swapped else ""
        raise InputError(f"query: give a string, not {kind_of(query)}{hint}")
    return query, to_candidates(candidates, text_needed=text_needed), context


def to_requests(values: Iterable[Sequence[Any]], *, text_needed: bool) -> Iterator[CheckedRequest]:
    """Convert ``(query, candidates)`` and ``(query, candidates, context)`` tuples lazily."""
    if values is MISSING:
        raise TypeError("missing 1 required positional argument: 'requests'")
    is_single = isinstance(values, str | Mapping) or _is_frame(values)
    if is_single or not isinstance(values, Iterable):
        hint = "; for one query, use rerank(query, candidates)" if isinstance(values, str) else ""
        hint = "; give [*requests.items()]" if isinstance(values, Mapping) else hint
        raise InputError(f"requests: give (query, candidates) pairs, not {kind_of(values)}{hint}")
    for number, value in enumerate(values):
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) not in {2, 3}:
            is_alike = isinstance(value, Mapping) and "query" in value
            hint = "; use rerank_many([(it['query'], it['candidates']), …])" if is_alike else ""
            message = f"give (query, candidates), not {kind_of(value)}{hint}"
            raise InputError(f"requests[{number}]: {message}")
        try:
            request = to_request(*value, text_needed=text_needed)
        except InputError as error:
            raise InputError(f"requests[{number}].{error}") from None
        yield request


def _to_candidate(value: object, where: str, text_needed: bool) -> Candidate:
    try:
        candidate = _converted(value, where, text_needed)
        if type(candidate.metadata) is not dict:
            dict(candidate.metadata or {})  # the ranking will copy it
        return candidate
    except InputError:
        raise
    except BaseException as error:
        reraise_exit(error)
        # A foreign mapping may raise anything, and its message may quote a passage.
        reason = type(error).__name__
    raise InputError(f"{where}: cannot be read ({reason})")


def _converted(value: object, where: str, text_needed: bool) -> Candidate:
    if isinstance(value, str):
        return Candidate(value)
    if isinstance(value, Candidate):
        if value.metadata is not None:
            _check_metadata(value.metadata, where)
        return value
    if isinstance(value, Ranked):
        return value.candidate
    mapping = value if isinstance(value, Mapping) else _as_mapping(value)
    if mapping is not None:
        return _from_mapping(mapping, where, text_needed)
    hint = ""
    if isinstance(value, tuple) and len(value) == 2:
        hint = "; for a pair with a score, give {'text': …, 'score': …}; higher scores are better"
        if isinstance(value[1], str):
            hint = "; for an id and a text, give {'id': …, 'text': …}"
        elif hasattr(value[1], "to_dict"):  # of df.iterrows()
            hint = "; the rows of a DataFrame are df.to_dict('records')"
    elif isinstance(value, list):
        hint = "; for the candidates of several queries, use rerank_many"
    raise InputError(
        f"{where}: give a string, a mapping, a Candidate or an object with a text, "
        f"not {kind_of(value)}{hint}"
    )


def _as_mapping(value: object) -> dict[str, Any] | None:
    """The fields of an object with a text, or of a dataclass; None of any other object."""
    if isinstance(value, type):
        return None
    names = [field.name for field in fields(value)] if is_dataclass(value) else []
    text = _first_attribute(value, TEXT_KEYS, str)
    if text is None:
        mapping = {name: getattr(value, name) for name in names}
        if "metadata" not in mapping and isinstance(mapping.get("meta"), Mapping):
            mapping["metadata"] = mapping.pop("meta")
        return mapping or None
    metadata = _metadata_of(value)
    return {
        "text": text,
        "id": _first_attribute(value, ("id", "node_id")),
        "score": _first_attribute(value, _SCORE_KEYS),
        "metadata": _other_attributes(value, names) if metadata is None else metadata,
    }


def _other_attributes(value: object, names: Sequence[str]) -> dict[str, Any]:
    """The attributes of an object that are not read by themselves.

    ``names`` are the fields of a dataclass; without any, the public ones of its ``__dict__``.
    """
    if not names:
        names = [name for name in getattr(value, "__dict__", ()) if not name.startswith("_")]
    read = {*TEXT_KEYS, "id", "score", "metadata", "meta"}
    if getattr(value, "id", None) is None:
        read.add("node_id")  # which is its id
    return {name: getattr(value, name) for name in names if name not in read}


def _first_attribute(value: object, names: Iterable[str], kind: type = object) -> Any:
    """The first of these attributes that is of this kind; None if there is none."""
    found = (getattr(value, name, None) for name in names)
    return next((item for item in found if item is not None and isinstance(item, kind)), None)


def _metadata_of(value: object) -> Mapping[str, Any] | None:
    metadata: Mapping[str, Any] | None = _first_attribute(value, ("metadata", "meta"), Mapping)
    return metadata


def _is_like_text(key: object) -> bool:
    """Whether a key is a misspelt ``text``, such as ``txt`` or ``Text``."""
    from difflib import SequenceMatcher  # for errors only

    if not isinstance(key, str) or len(key) > _LONGEST_LIKE_TEXT:
        return False
    return SequenceMatcher(None, "text", key.lower()).ratio() >= _LIKE_TEXT


def _from_mapping(mapping: Mapping[str, Any], where: str, text_needed: bool) -> Candidate:
    if "text" in mapping and "content" in mapping:
        raise InputError(f"{where}: has both 'text' and 'content'; remove or rename one")
    text_key = next((key for key in ("text", "content") if key in mapping), None)
    if text_key is None and text_needed:
        if "page_content" not in mapping:
            raise InputError(f"{where}: {_no_text_message(mapping)}")
        text_key = "page_content"
    metadata = {} if mapping.get("metadata") is None else mapping["metadata"]
    _check_metadata(metadata, where)
    read = _CANDIDATE_KEYS | {text_key}
    extra = {key: value for key, value in mapping.items() if key not in read}
    in_both = extra.keys() & metadata.keys()
    conflicts = [key for key in in_both if not _equal(extra[key], metadata[key])]
    if conflicts:
        names = ", ".join(sorted(map(str, conflicts)))
        raise InputError(
            f"{where}: {names} is both beside and inside 'metadata', with different values"
        )
    return Candidate(
        text=None if text_key is None else mapping[text_key],  # type: ignore[arg-type]
        id=_first_value(mapping, _ID_KEYS),
        score=stated_score(mapping),
        metadata={**extra, **metadata},
    )


def _no_text_message(mapping: Mapping[str, Any]) -> str:
    """What is wrong with a mapping without a text, and a hint."""
    # A few short keys only: in a mapping with keys and values swapped, keys are passages.
    keys = ", ".join(f"{str(key)[:20]!r}" for key in [*mapping][:5]) or "none"
    similar = next((key for key in _OTHER_TEXT_KEYS if isinstance(mapping.get(key), str)), None)
    similar = similar or next(_nested_texts(mapping), None)
    if similar is None and isinstance(mapping.get("title"), str):
        similar = "title"
    example = f"[{similar}]" if similar else "[title, body]"
    hint = f"set render.fields to show other fields, such as {example}"
    misspelt = next(filter(_is_like_text, mapping), None)
    first = f"did you mean 'text', not {misspelt!r}? Otherwise" if misspelt else None
    first = first or "name the text 'text', or"
    return f"has no 'text'; its keys are: {keys}; {first} {hint}"


def _nested_texts(mapping: Mapping[str, Any]) -> Iterator[str]:
    """The paths of texts within its mappings."""
    for key, inner in mapping.items():
        if isinstance(inner, Mapping) and key in _WITH_TEXT:
            for name in (*TEXT_KEYS, *_OTHER_TEXT_KEYS):
                if isinstance(inner.get(name), str):
                    yield f"{key}.{name}"


def _check_metadata(metadata: object, where: str) -> None:
    if not isinstance(metadata, Mapping):
        raise InputError(f"{where}.metadata: give a mapping, not {kind_of(metadata)}")


def _equal(a: object, b: object) -> bool:
    if a is b or all(isinstance(x, float) and math.isnan(x) for x in (a, b)):
        return True
    try:
        if getattr(a, "shape", None) != getattr(b, "shape", None):
            return False
        equal: Any = a == b
        return bool(equal.all() if hasattr(equal, "all") else equal)
    except BaseException as error:  # foreign values may raise anything
        reraise_exit(error)
        return False


def stated_score(mapping: Mapping[str, Any]) -> Any:
    """The score that a mapping states: ``score``, ``originalScore``, or ``_score``, or None.

    ``_score`` is that of Elasticsearch and OpenSearch.
    """
    return _first_value(mapping, _MAPPING_SCORE_KEYS)


def _first_value(mapping: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The value of the first of these keys that has one; None if none has."""
    for key in keys:  # a generator took twice as long, for each candidate
        if (value := mapping.get(key)) is not None:
            return value
    return None


def retrieval_score(candidate: Candidate) -> float | None:
    """Return the retriever's score as a finite float; None if there is none."""
    score = candidate.score
    if type(score) is float:
        return score if math.isfinite(score) else None
    number = None if score is None else to_float(score)
    return number if number is not None and math.isfinite(number) else None


def unreadable_scores(candidates: Sequence[Candidate]) -> tuple[list[int], str]:
    """Positions of the retrieval scores that are no finite numbers, and the first one in words.

    None is not one of these. The words are ``nan``, ``inf``, ``-inf``, or those for a type: a value
    that is no number may be a passage.
    """
    scores = [candidate.score for candidate in candidates]
    kinds = {*map(type, scores)}
    # Nearly every list is of one of these kinds, which take half of the time of the loop below.
    if kinds == {NoneType} or (kinds == {float} and math.isfinite(sum(scores))):  # type: ignore[arg-type]
        return [], ""
    unreadable = [
        position
        for position, score in enumerate(scores)
        if score is not None
        and not (isinstance(score, float) and math.isfinite(score))
        and retrieval_score(candidates[position]) is None
    ]
    if not unreadable:
        return [], ""
    first = scores[unreadable[0]]
    number = to_float(first)
    return unreadable, kind_of(first) if number is None else str(number)


def first_stage_scores(
    candidates: Sequence[Candidate], *, fewest: int = _FEWEST_DISTANCES
) -> tuple[list[float | None], bool]:
    """The retrieval scores of a list, higher is better, and whether they were distances.

    At least so many scores that never fall along the list, the last above the first, are distances:
    a retriever returns the best first. ``1 - rank / n`` takes their place, for the rank in the list
    from 0 and its length n; a missing score stays None.
    """
    scores = [retrieval_score(candidate) for candidate in candidates]
    known = [score for score in scores if score is not None]
    falls = any(later < earlier for earlier, later in pairwise(known))
    if len(known) < fewest or falls or known[0] == known[-1]:
        return scores, False
    count = len(scores)
    by_rank = [None if score is None else 1 - rank / count for rank, score in enumerate(scores)]
    return by_rank, True


def field_value(candidate: Candidate, name: str) -> Any:
    """Return ``text``, ``id``, ``score`` or a metadata value by name; None if there is none.

    A dot reads nested mappings and objects (``source.title``) unless a metadata key has the whole
    name. ``metadata.text`` reads the metadata key ``text``, which the candidate's own field hides;
    so does ``meta.text``, unless there is a metadata key ``meta``.
    A mapping or an attribute that raises has no value; methods and private attributes are none.
    """
    if name == "text":
        return candidate.text if isinstance(candidate.text, str) else None
    if name == "id":
        return candidate.id
    if name == "score":
        return candidate.score
    try:
        return _metadata_value(candidate.metadata, name)
    except BaseException as error:
        reraise_exit(error)
        return None


def _metadata_value(value: Any, name: str) -> Any:
    if value is None:
        return None
    if name in value:
        return value[name]
    steps = name.split(".")
    names_metadata = steps[0] == "metadata" or (steps[0] == "meta" and "meta" not in value)
    if names_metadata and len(steps) > 1:
        del steps[0]
    for step in steps:
        value = _member(value, step)
    return value


def _member(value: Any, name: str) -> Any:
    """The value of a mapping's key or of an object's public attribute; None if it has none."""
    if isinstance(value, Mapping):
        return value.get(name)
    member = None if name.startswith("_") else getattr(value, name, None)
    return None if callable(member) else member


def keep_best_of_each_id(
    candidates: Sequence[Candidate], scores: Sequence[float | None]
) -> tuple[list[int], list[int]]:
    """Return the input positions to keep, in order, and those of duplicates.

    Of the candidates that share an id, the one with the highest of these scores is kept, at the
    place of the first of them; of equal scores, the first. A missing score is lower than any.
    Candidates without an id are all kept. 3 and "3" are the same id.
    """
    lowest = [-math.inf if score is None else score for score in scores]
    kept: list[int] = []
    duplicates: list[int] = []
    slots: dict[object, int] = {}
    for position, candidate in enumerate(candidates):
        try:
            identifier: Any = candidate.id  # another object than a string or number is its own key
            key = str(identifier) if isinstance(identifier, str | int) else identifier
            slot = None if key is None else slots.setdefault(key, len(kept))
        except BaseException as error:  # it is not hashable, or a foreign __hash__ raised
            reraise_exit(error)
            slot = None
        if slot is None or slot == len(kept):
            kept.append(position)
            continue
        rival = kept[slot]
        if lowest[position] > lowest[rival]:
            kept[slot] = position
            duplicates.append(rival)
        else:
            duplicates.append(position)
    return kept, sorted(duplicates)


def query_key(text: str) -> str:
    """The text without differences of case and white space: equal for repetitions of a query."""
    return " ".join(text.split()).casefold()


def comparable_id(identifier: Any) -> Any:
    """An id for comparisons: its ``str()``, as judgements and runs have ids; None if it is None.

    Raises:
        InputError: its ``str()`` raises.
    """
    try:
        return None if identifier is None else str(identifier)
    except BaseException as error:  # a foreign __str__ may raise anything
        reraise_exit(error)
        reason = type(error).__name__
    raise InputError(f"id: cannot be read ({reason})")


def kind_of(value: object) -> str:
    """Name the type of a value without showing it: it may be a query or a passage."""
    return "None" if value is None else with_article(type(value).__name__)
