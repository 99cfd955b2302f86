"""Templates of requests to described APIs, and places in their responses.

Templates are JSON values with placeholders. A placeholder is a whole string, such as ``$query``;
texts are never formatted into others. ``$$`` at the beginning of a string becomes ``$``. A member
whose placeholder has no value, such as ``$instruction`` in a call without one, is left out, and an
object that has lost all of its members with it. A list of one element that contains ``$document``,
``$index`` or ``$id`` is repeated for each document; so is an object whose only key is ``$id``, as
its members.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any

from secondpass.errors import Problem
from secondpass.settings import describe, suggestion, yaml_text

PLACEHOLDERS: Mapping[str, str] = {
    "query": "the query",
    "queries": "the query once for each document, as a list",
    "instructed_query": "the instruction of the call, if there is one, a line break, and the query",
    "documents": "the texts of the documents, as a list",
    "document": "the text of one document, inside a list of one element, which is repeated",
    "index": "its index, counted from 0, beside `$document`",
    "id": "its index as a string, beside `$document`; responses then name it by that string",
    "count": "the number of documents",
    "model": "the setting `model`",
    "instruction": "the instruction of the call",
    "raw_scores": "the setting `raw_scores`",
    "document_tokens": "the setting `document_tokens`",
}
"""What each placeholder stands for."""

QUERIES = frozenset({"query", "queries", "instructed_query"})
DOCUMENTS = frozenset({"documents", "document"})
EACH = frozenset({"document", "index", "id"})
"""Placeholders that have a value for each document."""
FIXED = QUERIES | EACH | {"documents", "model", "count"}
"""Placeholders that options cannot replace, unless the member is ``$count`` alone."""
IN_OPTIONS = PLACEHOLDERS.keys() - EACH
"""Placeholders that options may have."""

_ABSENT = object()
_KEY = "$id"
"""The only placeholder that may be a key."""


def placeholder(value: object) -> str | None:
    """The name of the placeholder that a value is, known or not; None if it is none."""
    if isinstance(value, str) and value.startswith("$") and not value.startswith("$$"):
        return value[1:]
    return None


def placeholders(template: Any) -> set[str]:
    """The names of all placeholders in a template."""
    return {name for _, name, _ in _occurrences(template, (), False)}


def problems(template: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the template of a request to a rerank API."""
    found = [*misplaced(template, PLACEHOLDERS)]
    yield from found
    names = placeholders(template) if not found else QUERIES | DOCUMENTS
    if not names & QUERIES:
        yield Problem((), "must contain the query: the placeholder '$query'")
    if not names & DOCUMENTS:
        message = "the placeholder '$documents', or a list of one element with '$document'"
        yield Problem((), f"must contain the documents: {message}")


def misplaced(
    template: Any, known: Collection[str], each: Collection[str] = EACH
) -> Iterator[Problem]:
    """What no template may have: values that JSON has not, and placeholders that have no value.

    ``known`` are the placeholders that have a value; ``each`` those with one for each repetition.
    """
    if (size := yaml_text.too_large(template)) is not None:
        yield Problem((), size)
        return
    yield from _not_json(template, ())
    for path, name, repeated in _occurrences(template, (), False):
        if name not in known:
            hint = suggestion(f"${name}", [f"${other}" for other in known])
            yield Problem(path, f"'${name}' is no placeholder{hint}")
        elif name in each and not repeated:
            yield Problem(path, f"the placeholder '${name}' must stand in a list of one element")


def lookup(value: Any, place: str) -> Any:
    """The value at a place, such as ``usage.total_tokens``; None if there is none."""
    for name in place.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def merged(template: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """A template with further members, mapping by mapping."""
    result = dict(template)
    for key, part in further.items():
        known = result.get(key)
        both = isinstance(known, Mapping) and isinstance(part, Mapping)
        result[key] = merged(known or {}, part) if both else part
    return result


def filled(
    template: Mapping[str, Any],
    values: Mapping[str, Any],
    documents: Sequence[str],
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The JSON object of a request; ``values`` has the values of the other placeholders."""
    whole = {
        **values,
        "documents": list(documents),
        "count": len(documents),
        "queries": [values["query"]] * len(documents),
    }
    items = [{"document": text, "index": n, "id": str(n)} for n, text in enumerate(documents)]
    return laid_over(template, fill(template, whole, items), fill(options or {}, whole))


def fill(
    template: Mapping[str, Any],
    values: Mapping[str, Any],
    items: Sequence[Mapping[str, Any]] = (),
    each: Collection[str] = EACH,
) -> dict[str, Any]:
    """The JSON object that a template describes; ``{}`` if no member has a value.

    ``values`` has the values of the placeholders, None for no value. ``items`` has, for each
    repetition, the values of the placeholders in ``each``.
    """
    result = _filled(template, values, items, frozenset(each))
    return {} if result is _ABSENT else result


def laid_over(
    template: Mapping[str, Any], body: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """A request with further members, mapping by mapping.

    An instruction follows one that is set in ``options``. ``$raw_scores`` is not replaced.
    """
    result = dict(body)
    for key, option in options.items():
        part = template.get(key)
        if isinstance(part, Mapping) and isinstance(option, Mapping):
            result[key] = laid_over(part, result.get(key, {}), option)
        elif part == "$instruction" and key in result and option:
            result[key] = f"{option}\n{result[key]}"
        elif part != "$raw_scores" or key not in result:
            result[key] = option
    return result


def occupied(
    template: Mapping[str, Any],
    options: Mapping[str, Any],
    fixed: Set[str] = FIXED,
    path: str = "",
) -> list[str]:
    """The members of options, joined by dots, that would replace a placeholder that is fixed."""
    names: list[str] = []
    for key, option in options.items():
        part, name = template.get(key), f"{path}{key}"
        if isinstance(part, Mapping) and isinstance(option, Mapping):
            names += occupied(part, option, fixed, f"{name}.")
        elif placeholders(part) & fixed and part != "$count":
            names.append(name)
    return names


def _occurrences(
    template: Any, path: tuple[str | int, ...], repeated: bool
) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    """Each placeholder: its path, its name, and whether it is inside a repeated element."""
    if isinstance(template, Mapping):
        for key, part in template.items():
            is_repeated = repeated or [*template] == [_KEY]
            if key == _KEY:
                yield (*path, key), "id", is_repeated
            yield from _occurrences(part, (*path, str(key)), is_repeated)
    elif isinstance(template, list | tuple):
        for index, part in enumerate(template):
            yield from _occurrences(part, (*path, index), repeated or len(template) == 1)
    elif (name := placeholder(template)) is not None:
        yield path, name, repeated


def _not_json(template: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """The parts that JSON does not have, and placeholders in the place of keys."""
    if isinstance(template, Mapping):
        for key, part in template.items():
            if not isinstance(key, str):
                yield Problem(path, f"keys must be words, not {describe(key)}")
            elif placeholder(key) in PLACEHOLDERS and [*template] != [_KEY]:
                yield Problem((*path, key), "must be a word: placeholders stand for values only")
            yield from _not_json(part, (*path, str(key)))
    elif isinstance(template, list | tuple):
        for index, part in enumerate(template):
            yield from _not_json(part, (*path, index))
    else:
        try:
            json.dumps(template, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError):
            yield Problem(path, "must be a value that JSON has")


def _filled(
    template: Any,
    values: Mapping[str, Any],
    items: Sequence[Mapping[str, Any]],
    each: Set[str],
) -> Any:
    """The value that a part of a template describes; ``_ABSENT`` if it has none."""
    if isinstance(template, Mapping):
        return _filled_object(template, values, items, each)
    if isinstance(template, list | tuple):
        if len(template) == 1 and placeholders(template) & each - values.keys():
            return [_filled(template[0], {**values, **item}, (), each) for item in items]
        elements = (_filled(part, values, items, each) for part in template)
        return [part for part in elements if part is not _ABSENT]
    if (name := placeholder(template)) is not None:
        value = values.get(name)
        return _ABSENT if value is None else value
    is_escaped = isinstance(template, str) and template.startswith("$$")
    return template[1:] if is_escaped else template


def _filled_object(
    template: Mapping[str, Any],
    values: Mapping[str, Any],
    items: Sequence[Mapping[str, Any]],
    each: Set[str],
) -> Any:
    if [*template] == [_KEY]:
        part = template[_KEY]
        if "id" in values:  # within a repetition
            return {values["id"]: _filled(part, values, (), each)}
        return {item["id"]: _filled(part, {**values, **item}, (), each) for item in items}
    parts = {key: _filled(part, values, items, each) for key, part in template.items()}
    kept = {key: part for key, part in parts.items() if part is not _ABSENT}
    return _ABSENT if parts and not kept else kept
