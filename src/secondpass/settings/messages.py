"""Wording of messages about settings: descriptions of values, and suggestions."""

from __future__ import annotations

import builtins
import os
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from secondpass.errors import ConfigurationError, Problem, printable, with_article

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

REQUIRED = "is required"
"""Message about a setting that is absent and has no default."""
NO_LIST = "must be a list"
"""Beginning of the message about a string in place of a list."""
UNKNOWN_KEY = "unknown key"
"""Message about a setting that does not exist, before its hint."""
COMING_FROM = "https://github.com/secondpass/secondpass/blob/main/docs/coming-from.md"
"""The page with the names, parameters and objects of other packages, for hints about them."""
_MAX_QUOTED = 60
"""Characters of a value that a message quotes."""


def describe(value: object) -> str:
    """What a value is: short plain values are quoted, others named by their type."""
    if value is None or isinstance(value, str | int | float | bool):
        try:
            text = repr(value)
        except Exception:  # an integer of thousands of digits, or a foreign subclass
            text = ""
        if 0 < len(text) <= _MAX_QUOTED:
            return text
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value)
    if hasattr(builtins, kind.__name__) and kind.__module__ != "builtins":
        return with_article(f"{kind.__module__}.{kind.__name__}")  # such as numpy's bool
    return with_article(kind.__name__)


_OF_FILES = {"None": "null", "True": "true", "False": "false"}


def of_file(problems: Sequence[Problem]) -> list[Problem]:
    """Problems of values that a YAML or JSON file has, in its words: ``null``, not ``None``."""
    return [
        Problem(
            problem.path,
            re.sub(
                r"(?:(?<=, not )|(?<=, write ))(None|True|False)(?=$|;)",
                lambda value: _OF_FILES[value[0]],
                problem.message,
            ),
        )
        for problem in problems
    ]


_COMPRESSED = {
    b"\x1f\x8b": "gunzip",
    b"BZh": "bunzip2",
    b"\xfd7zXZ": "unxz",
    b"(\xb5/\xfd": "unzstd",
}
"""Beginning of a compressed file -> the command that decompresses it."""


def not_utf8(path: str | PathLike[str], error: UnicodeDecodeError) -> str:
    """What is wrong with text that is not UTF-8, with its byte, and how to convert its file."""
    import shlex

    raw = error.object[error.start]
    is_wide = error.object[:2] in {b"\xff\xfe", b"\xfe\xff"}
    problem = f"is not UTF-8: byte {error.start + 1} is 0x{raw:02x}; convert it"
    convert = f"iconv -f {'utf-16' if is_wide else 'latin1'} -t utf-8"
    for beginning, decompress in _COMPRESSED.items():
        if error.object.startswith(beginning):
            problem, convert = "is compressed; decompress it", decompress
    if os.path.exists(path):  # rather than standard input
        convert += f" < {shlex.quote(printable(fspath(path)))} > new-file"
    return f"{problem}: `{convert}`"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


ALIKE = 0.8
"""Similarity of a misspelt name where any other word is as likely."""

_ELSEWHERE = {
    **dict.fromkeys(("bm25", "sparse", "keyword", "keywords"), "lexical"),
    **dict.fromkeys(("dense", "embedding", "embeddings", "semantic"), "vector"),
    **dict.fromkeys(("age", "date", "freshness", "newness", "time"), "recency"),
}
"""Names of searches and of terms elsewhere -> the name here."""
_SHORT = 4
"""Below this number of characters, a few in common say little."""


def did_you_mean(word: object, known: Sequence[str], least: float = 0.65) -> str:
    """``; did you mean 'x'?`` if a known word is similar; else empty, also if it is no string.

    Case, and hyphens for underscores, make no difference.
    """
    if not isinstance(word, str):
        return ""
    if (meant := _ELSEWHERE.get(_folded(word))) in known:
        return f"; {'BM25' if word.casefold() == 'bm25' else 'that'} is {meant!r}"
    similar = most_similar(word, known, max(least, 0.7 if len(word) < _SHORT else 0.0))
    return "" if similar is None else f"; did you mean {similar!r}?"


def most_similar(word: str, known: Sequence[str], least: float = 0.65) -> str | None:
    """The known word that is most similar, if its similarity (0 to 1) is at least ``least``.

    Case, and hyphens for underscores, make no difference.
    """
    import difflib  # for errors only

    if len(word) > _MAX_QUOTED:
        return None
    by_folded = {_folded(item): item for item in reversed(known)}
    similar = difflib.get_close_matches(_folded(word), by_folded, n=1, cutoff=least)
    return by_folded[similar[0]] if similar else None


def _folded(word: str) -> str:
    return word.casefold().replace("-", "_")


def suggestion(
    word: str, known: Sequence[str], *, leads_to_page: bool = False, least: float = 0.65
) -> str:
    """``; did you mean 'x'?`` if a known word is similar, else the list of known words.

    ``least`` is its similarity at least, 0 to 1. ``leads_to_page`` adds the page about other
    packages to the list, for words that may be theirs.
    """
    if not known:
        return ""
    page = f"; coming from another package: {COMING_FROM}" if leads_to_page else ""
    listed = f"; known are: {', '.join(map(printable, sorted({*known})))}{page}"
    return did_you_mean(word, known, least) or listed


def too_many_by_position(call: str, names: Sequence[str]) -> str:
    """What a function takes by position, where it was passed more."""
    listed = f"only {', '.join(names)} by position" if names else "no argument by position"
    return f"{call} takes {listed}"


_THEIR_METHODS = (
    "rank",
    "rerank",
    "predict",
    "compute_score",
    "score",
    "compress_documents",
    "run",
)
"""Methods of rerankers of other packages."""
_OF_PAIRS = ("predict", "compute_score", "score")
"""Those that take pairs, and return a score for each."""


def hint_elsewhere(value: object, *, is_method: bool = True) -> str:
    """``; …`` what to write in place of a reranker of another package, or its class; else empty.

    ``is_method`` is whether the value stands for a method, else for a whole configuration.
    """
    kind = value if isinstance(value, type) else type(value)
    is_ours = kind.__module__.startswith("secondpass.")
    if is_ours or not any(callable(getattr(kind, name, None)) for name in _THEIR_METHODS):
        return ""
    method = "{'type': 'cross_encoder', 'model': …}"
    instead = method if is_method else f"{{'method': {method}}}"
    scores = next((name for name in _OF_PAIRS if callable(getattr(kind, name, None))), None)
    use = ""
    if kind.__name__ in {"CrossEncoder", "HuggingFaceCrossEncoder"}:
        use = f"use {instead}; "
    elif scores is not None and is_method:
        pairs = "[(query, text) for text in documents]"
        use = "put it into a class, whose score_pairs(self, query, documents) returns "
        use += f"model.{scores}({pairs}); "
    return f"; {use}coming from another package: {COMING_FROM}"


def problems_of(error: ValidationError, hint: Callable[[str], str]) -> list[Problem]:
    """The problems that pydantic lists.

    Args:
        error: raised by the model of a configurable class.
        hint: what to add to the message about an unknown key.
    """
    problems: list[Problem] = []
    for detail in error.errors(include_url=False):
        path, kind = detail["loc"], detail["type"]
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, ConfigurationError):
            problems.extend(problem.under(path) for problem in cause.problems)
        elif kind == "extra_forbidden":
            problems.append(Problem(path, UNKNOWN_KEY + hint(str(path[-1]))))
        elif kind == "missing":
            problems.append(Problem(path, REQUIRED))
        elif kind == "sequence_str":
            problems.append(Problem(path, f"{NO_LIST}, not {describe(detail['input'])}"))
        else:
            message = reworded(detail["msg"])
            if kind not in _WITH_SIZE:
                message += f", not {describe(detail['input'])}"
            if kind == "literal_error":
                known = re.findall(r"'([^']+)'", str(detail.get("ctx", {}).get("expected", "")))
                message += did_you_mean(detail["input"], known)
            problems.append(Problem(path, message))
    return problems


_OFF = frozenset({"none", "null", "off", "no", "false", "disabled"})


def means_off(value: object) -> bool:
    """Whether a value that a setting does not take is meant to switch it off."""
    return value is False or (isinstance(value, str) and value.casefold() in _OFF)


def off_value(model: type[BaseModel], name: str) -> str | None:
    """What switches a setting off, as Python writes it: None, an empty list or False, if any."""
    field = model.model_fields.get(name)
    if field is None:
        return None
    if type(None) in typing.get_args(field.annotation):
        return "None"
    return "[]" if field.default == () else "False" if field.default is False else None


def with_off_hint(problem: Problem, settings: Mapping[str, Any], model: type[BaseModel]) -> Problem:
    """The problem, with what to write if the value is meant to switch the setting off."""
    name = problem.path[0] if problem.path else None
    if not means_off(settings.get(str(name))) or (off := off_value(model, str(name))) is None:
        return problem
    message = problem.message.partition(";")[0]
    return Problem(problem.path[:1], f"{message}; to switch it off, write {off}")


_WITH_SIZE = frozenset({"too_short", "too_long"})
"""Types of pydantic's errors whose message says what the value has."""
_WORDS = {
    "an instance of Sequence": "a list",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a string",
    "a valid boolean": "true or false",
    "a valid dictionary": "a mapping",
    "a valid list": "a list",
    "a valid tuple": "a list",
    " after validation": "",
}


def reworded(message: str) -> str:
    """A message of pydantic in plain words, as a continuation of the setting's name."""
    for prefix in ("Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    if "unicode" in message:
        return "must be Unicode"
    message = re.sub(r", (?:unable to (?:parse|interpret)|got a number) .*", "", message)
    message = re.sub(r"^[A-Z]\w+ should ", "must ", message)
    message = re.sub(r"^.+ is not one of ('.+')\.$", r"must be one of \1", message)  # typer's
    message = "is required" if message == "Field required" else message
    for word, plain in _WORDS.items():
        message = message.replace(word, plain)
    return message
