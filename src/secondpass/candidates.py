"""What callers hand in, made into candidates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from secondpass.errors import InputError
from secondpass.types import Candidate, CandidateLike, Ranked

_OWN_KEYS = frozenset({"text", "content", "id", "score", "metadata"})
_TEXT_KEYS = ("snippet", "page_content", "passage", "body", "chunk", "document", "description")
"""What other tools call the text of a document."""


def to_candidates(given: Iterable[CandidateLike], *, text_needed: bool = True) -> list[Candidate]:
    """Make a candidate of each string, mapping, Candidate or Ranked, in order.

    Args:
        given: what the caller handed in.
        text_needed: whether a mapping without a text is a mistake. It is none where other fields
            are shown to the method.

    Raises:
        InputError: naming the candidate's position and the field that is wrong.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(
            f"candidates: give a sequence of strings, mappings or Candidates, not {kind_of(given)}"
        )
    return [
        one
        if type(one) is Candidate and type(one.metadata) is dict
        else _checked(one, position, text_needed)
        for position, one in enumerate(given)
    ]


def _checked(given: object, position: int, text_needed: bool) -> Candidate:
    """The candidate that something stands for.

    Raises:
        InputError: it stands for none, or raises when it is read.
    """
    try:
        candidate = _to_candidate(given, position, text_needed)
        if type(candidate.metadata) is not dict:
            dict(candidate.metadata or {})  # it will be copied, so see whether it can be
    except InputError:
        raise
    except Exception as error:
        # A foreign mapping may raise anything, and quote a passage.
        message = f"candidates[{position}]: cannot be read ({type(error).__name__})"
    else:
        return candidate
    raise InputError(message)


def _to_candidate(given: object, position: int, text_needed: bool) -> Candidate:
    if isinstance(given, str):
        return Candidate(given)
    if isinstance(given, Candidate):
        if given.metadata is not None and not isinstance(given.metadata, Mapping):
            raise InputError(
                f"candidates[{position}].metadata: give a mapping, not {kind_of(given.metadata)}"
            )
        return given
    if isinstance(given, Ranked):
        return given.candidate
    if isinstance(given, Mapping):
        return _from_mapping(given, f"candidates[{position}]", text_needed)
    raise InputError(
        f"candidates[{position}]: give a string, a mapping or a Candidate, not {kind_of(given)}"
    )


def _from_mapping(given: Mapping[str, Any], where: str, text_needed: bool) -> Candidate:
    if "text" in given and "content" in given:
        raise InputError(f"{where}: has both 'text' and 'content'; keep one, name the other apart")
    if text_needed and "text" not in given and "content" not in given:
        # No more and no longer ones: keys can be passages, where a mapping was turned around.
        keys = ", ".join(f"{str(key)[:20]!r}" for key in [*given][:5]) or "none"
        near = next((key for key in _TEXT_KEYS if isinstance(given.get(key), str)), None)
        shown = f"[{near}]" if near else "[title, body]"
        hint = f"set render.fields to show others in its place, such as {shown}"
        raise InputError(f"{where}: has no 'text'; its keys are: {keys}; {hint}")
    metadata = given.get("metadata")
    if metadata is None:
        metadata = {}
    elif not isinstance(metadata, Mapping):
        raise InputError(f"{where}.metadata: give a mapping, not {kind_of(metadata)}")
    extra = {key: value for key, value in given.items() if key not in _OWN_KEYS}
    both = [key for key in extra.keys() & metadata.keys() if not _same(extra[key], metadata[key])]
    if both:
        names = ", ".join(sorted(map(str, both)))
        raise InputError(
            f"{where}: {names} stands both beside and inside 'metadata', with other values"
        )
    identifier = given.get("id")
    return Candidate(
        text=given["text"] if "text" in given else given.get("content"),  # type: ignore[arg-type]
        id=None if identifier is None else str(identifier),
        score=given.get("score"),
        metadata={**extra, **metadata},
    )


def _same(one: object, other: object) -> bool:
    if one is other or all(isinstance(x, float) and math.isnan(x) for x in (one, other)):
        return True
    try:
        if getattr(one, "shape", None) != getattr(other, "shape", None):
            return False
        equal: Any = one == other
        return bool(equal.all() if hasattr(equal, "all") else equal)
    except Exception:  # foreign values may raise anything
        return False


def retrieval_score(candidate: Candidate) -> float | None:
    """The retriever's score as a finite float, or None where there is no usable one."""
    score = candidate.score
    if type(score) is float:
        return score if math.isfinite(score) else None
    if score is None or isinstance(score, bool | str | bytes):
        return None
    try:
        if str(getattr(score, "dtype", "")).removeprefix("torch.") == "bool":
            return None  # numpy's True is no bool, but it is no score either
        number = float(score)
    except Exception:  # a foreign __float__ may raise anything
        return None
    return number if math.isfinite(number) else None


def field_value(candidate: Candidate, name: str) -> Any:
    """``text``, ``id``, ``score`` or a metadata value by name; None where there is none.

    A dot goes into nested mappings (``source.title``) where no metadata key has the whole name.
    ``metadata.text`` is the metadata key that the candidate's own field would hide. A foreign
    mapping that raises has no value.
    """
    if name == "text":
        return candidate.text if isinstance(candidate.text, str) else None
    if name == "id":
        return candidate.id
    if name == "score":
        return candidate.score
    try:
        return _metadata_value(candidate.metadata, name)
    except Exception:
        return None


def _metadata_value(value: Any, name: str) -> Any:
    if value is not None and name in value:
        return value[name]
    for step in name.removeprefix("metadata.").split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def keep_best_of_each_id(candidates: Sequence[Candidate]) -> tuple[list[int], list[int]]:
    """Input positions to keep, in order, and those left out as duplicates.

    Of the candidates that share an id the one with the highest retrieval score is kept (the first
    of equals; a score beats none), in the place of the first of them. Candidates without an id are
    all kept.
    """
    kept: list[int] = []
    left: list[int] = []
    place: dict[str, int] = {}
    for position, candidate in enumerate(candidates):
        try:
            first = place.setdefault(candidate.id, len(kept)) if candidate.id is not None else None
        except Exception:  # an id that cannot be a key; a foreign __hash__ may raise anything
            first = None
        if first is None or first == len(kept):
            kept.append(position)
            continue
        rival = kept[first]
        if _score_or_lowest(candidate) > _score_or_lowest(candidates[rival]):
            kept[first] = position
            left.append(rival)
        else:
            left.append(position)
    return kept, sorted(left)


def _score_or_lowest(candidate: Candidate) -> float:
    score = retrieval_score(candidate)
    return -math.inf if score is None else score


def kind_of(value: object) -> str:
    """What a value is, without showing it: it may be a query or a passage."""
    return "nothing" if value is None else f"a {type(value).__name__}"
