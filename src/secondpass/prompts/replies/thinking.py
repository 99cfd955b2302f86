"""Separates the answer of a reply from the thinking before it.

Servers without a parser for a model leave its thinking in the text, between marks
(``data/thinking_marks.yaml``). A draft in it is never the answer. But a mark may also be quoted
from a passage. So only thinking at the beginning of a reply, between a start and an end mark, is
dropped. An answer in anything else that may be thinking makes the reply ambiguous.

Everything takes linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from secondpass.errors import ReplyError
from secondpass.prompts.replies.json_text import find_values
from secondpass.questions import Span
from secondpass.settings import yaml_text

MAX_LENGTH = 400_000
"""Characters of a reply. No answer about a few hundred passages is longer."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ReplyParts:
    """The parts of a reply."""

    answer: str  # the text outside of thinking
    doubtful: str = ""  # text that may be thinking or the answer: a mark may be quoted or missing
    follows_thinking: bool = False  # whether thinking that is not blank was taken out
    ends_in_thinking: bool = False  # whether some stands behind the answer

    def check_doubtful(self, answer: object, read: Callable[[str], object | None]) -> None:
        """Raise ReplyError if the doubtful part holds another answer.

        ``read`` returns the answer that a text holds; None if it holds none.
        """
        if self.doubtful and read(self.doubtful) not in (None, answer):
            raise ReplyError("it holds another answer, which may be a part of its thinking")


def split_reply(text: str) -> ReplyParts:
    """Separate the answer of a reply from its thinking.

    Control characters are replaced by spaces.

    Raises:
        ReplyError: the reply is too long, or ends within its thinking.
    """
    if len(text) > MAX_LENGTH:
        raise ReplyError("it is too long")
    text = _CONTROL.sub(" ", text)
    scan = _Scan(text)
    scan.run(_QuotedMarks(text))
    if scan.notation is not None and scan.is_leading:
        raise ReplyError("it ends in the middle of thinking")
    answer, doubtful = scan.texts(scan.answer), scan.texts(scan.doubtful)
    is_open = scan.notation is not None
    return ReplyParts(
        answer="\n".join(answer.values()),
        doubtful="\n".join(doubtful.values()),
        follows_thinking=scan.dropped or bool(doubtful),
        ends_in_thinking=is_open or max(doubtful, default=0) > max(answer, default=0),
    )


def answer_start(text: str) -> int:
    """Where the answer of a reply begins, after its thinking; 0 if it has no mark of thinking."""
    scan = _Scan(text)
    scan.run(lambda _start, _mark: False)
    return next(iter(scan.texts(scan.answer)), 0)


class _Scan:
    """Divides a text by its marks of thinking, from the beginning to the end.

    Attributes:
        answer: (start, stop) of the text outside of thinking.
        doubtful: (start, stop) of the text that may be thinking or the answer.
        dropped: whether thinking at the beginning, which is in neither, is not blank.
        notation: the name of the notation in which thinking began that has not ended.
        is_leading: whether all before is thinking.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.answer: list[Span] = []
        self.doubtful: list[Span] = []
        self.dropped = False
        self.notation: str | None = None
        self.is_leading = True
        self._has_start = False
        self._open = 0  # number of start marks without an end mark

    def run(self, is_quoted: Callable[[int, Span], bool]) -> None:
        """Read all marks; ``is_quoted`` says of one outside of thinking whether it is none."""
        start = 0  # of the current part
        for mark, (first, stop) in _marks().in_text(self.text):
            if self.notation is not None:
                if mark.starts == self.notation:
                    self._open += 1
                if self.notation not in mark.ends:
                    continue
                self._end_thinking(start, first)
                self.notation = None
                self._open -= 1
            elif is_quoted(start, (first, stop)):
                continue
            else:
                self._end_text(start, first, mark)
            start = stop
        if self.notation is None:
            self.answer.append((start, len(self.text)))
        else:
            self._end_thinking(start, len(self.text))

    def _end_text(self, start: int, stop: int, mark: _Mark) -> None:
        self.answer.append((start, stop))
        self.is_leading = self.is_leading and _is_blank(self.text[start:stop])
        self.notation = mark.starts
        if mark.starts is not None:
            self._has_start = True
            self._open += 1
            return
        if mark.is_frame:
            return
        start_is_missing = not self._has_start
        start_is_further_up = self._open > 0
        if mark.is_answer or start_is_missing or start_is_further_up:
            # The text before may be thinking.
            self.doubtful += self.answer
            self.answer = []
            self._open = max(0, self._open - 1)

    def _end_thinking(self, start: int, stop: int) -> None:
        if not self.is_leading:
            self.doubtful.append((start, stop))
        elif not _is_blank(self.text[start:stop]):
            self.dropped = True

    def texts(self, spans: Sequence[Span]) -> dict[int, str]:
        """The texts of spans that are not blank, by where they start."""
        texts = {start: self.text[start:stop] for start, stop in spans}
        return {start: text for start, text in texts.items() if not _is_blank(text)}


class _QuotedMarks:
    """Finds marks that are in a JSON value, such as a label that looks like one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts: list[int] = []  # of the JSON values, which do not overlap
        self.stops: list[int] | None = None

    def __call__(self, start: int, mark: Span) -> bool:
        """Whether a mark in the text from ``start`` on is quoted."""
        if self.stops is None:
            if _is_blank(self.text[start : mark[0]]):
                return False
            values = find_values(self.text[start:]).items
            self.starts = [start + value.start for value in values]
            self.stops = [start + value.stop for value in values]
        before = bisect_left(self.starts, mark[0])
        return before > 0 and mark[1] < self.stops[before - 1]


def _is_blank(text: str) -> bool:
    return not text.replace("\ufeff", "").strip()


# ---------------------------------------------------------------------- marks


@dataclass(slots=True)
class _Mark:
    """What a mark means.

    Attributes:
        starts: the name of the notation in which it starts thinking.
        ends: the names of those in which it ends thinking.
        is_answer: whether the answer begins behind it, wherever it stands.
        is_frame: whether it is ignored outside of thinking.
    """

    starts: str | None = None
    ends: frozenset[str] = frozenset()
    is_answer: bool = False
    is_frame: bool = False

    def add(self, notation: str, role: str) -> None:
        """Add what it means in one notation."""
        if role in {"start", "opening"}:
            self.starts = notation
        elif role == "frame":
            self.is_frame = True
        else:
            self.ends |= {notation}
            self.is_answer = role == "answer"


class _Marks:
    """All marks.

    A mark begins with a short token, such as ``<|channel|>``, by which it is looked up: a pattern
    of all marks would take ten times as long.
    """

    def __init__(self) -> None:
        notations = read_notations()
        self._marks: dict[str, _Mark] = {}
        self._by_token: dict[str, list[tuple[re.Pattern[str], _Mark]]] = {}
        self._openings: list[tuple[re.Pattern[str], _Mark]] = []
        for notation, roles in notations["marks"].items():
            for role, literals in roles.items():
                for literal in literals:
                    if role == "opening":
                        self._openings.append((_opening(literal), _Mark(starts=notation)))
                    else:
                        self._add(literal, notation, role)
        names = "|".join(map(_pattern, notations["tags"]))
        self._tag = re.compile(rf"<(/?)({names})(?:\s[^<>]*)?>", re.I)
        words = [re.escape(token) for token in self._by_token if token[0] != "<"]
        self._token = re.compile("|".join(["<[^<>]{1,200}>", *words]))

    def _add(self, literal: str, notation: str, role: str) -> None:
        if literal not in self._marks:
            mark = self._marks[literal] = _Mark()
            first, angle, _ = literal.partition(">")
            token = first + angle
            self._by_token.setdefault(token, []).append((re.compile(_pattern(literal)), mark))
        self._marks[literal].add(notation, role)

    def in_text(self, text: str) -> Iterator[tuple[_Mark, Span]]:
        """The marks of a text, with where each starts and stops."""
        stop = 0
        for pattern, mark in self._openings:
            if match := pattern.match(text):
                stop = match.end()
                yield mark, (match.start(), stop)
        for token in self._token.finditer(text):
            start = token.start()
            if start < stop:
                continue
            if tag := self._tag.fullmatch(token[0]):
                name, stop = tag[2].lower(), token.end()
                mark = _Mark(ends=frozenset({name})) if tag[1] == "/" else _Mark(starts=name)
                yield mark, (start, stop)
                continue
            for pattern, mark in self._by_token.get(token[0], ()):
                if match := pattern.match(text, start):
                    stop = match.end()
                    yield mark, (start, stop)
                    break


def _pattern(literal: str) -> str:
    """The pattern of a mark, in which ``*`` stands for anything in its line."""
    return re.escape(literal).replace(r"\*", r"[^\n]{0,100}?")


def _opening(literal: str) -> re.Pattern[str]:
    """The pattern of a mark at the beginning of a reply.

    After a word, a capital or a letter without case has to follow.
    """
    follows = r"(?=[^\W\d_a-z])" if literal[-1].isalpha() else ""
    return re.compile(rf"\s*{_pattern(literal)}{follows}")


_marks = cache(_Marks)


def read_notations() -> Mapping[str, Any]:
    """The content of ``data/thinking_marks.yaml``."""
    path = files("secondpass") / "data" / "thinking_marks.yaml"
    notations: Mapping[str, Any] = yaml_text.parse(path.read_text(encoding="utf-8"))
    return notations
