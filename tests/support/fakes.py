"""Fake scorers and language models, and helpers to play plans."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from secondpass import Candidate
from secondpass.effects import Ask, Call, Judgement, Plan, Score, Task
from secondpass.errors import LLMError, MethodError
from secondpass.questions import Answer, Completion, Prompt, Question, RawScores
from secondpass.types import Issue


class ByTable:
    """Scores texts by a table; other texts by their length."""

    model_name = "by-table"

    def __init__(self, table: dict[str, Any] | None = None, **members: Any) -> None:
        self.table = table or {}
        self.calls: list[tuple[str, list[str]]] = []
        vars(self).update(members)

    def score_pairs(self, query: str, documents: list[str]) -> list[Any]:
        self.calls.append((query, list(documents)))
        return [self.table.get(document, float(len(document))) for document in documents]


class InOrder:
    """Returns the scores of a list, in order."""

    model_name = "in-order"

    def __init__(self, scores: Sequence[Any], **members: Any) -> None:
        self.scores = list(scores)
        vars(self).update(members)

    def score_pairs(self, query: str, documents: list[str]) -> list[Any]:
        return self.scores[: len(documents)]


class Answering:
    """Returns the result of a function of the number of documents, which may raise."""

    model_name = "answering"

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.answer = answer

    def score_pairs(self, query: str, documents: list[str]) -> Any:
        return self.answer(len(documents))


class Judging:
    """A method that returns a judgement, or raises an error; keeps its tasks."""

    name, score_kind, scale = "judging", "unbounded", None

    def __init__(self, judgement: Any, **members: Any) -> None:
        self.judgement = judgement
        self.tasks: list[Task] = []
        vars(self).update(members)

    def judge(self, task: Task) -> Plan[Judgement]:
        self.tasks.append(task)
        if isinstance(self.judgement, BaseException):
            raise self.judgement
        return self.judgement
        yield


def best_first(judgement: Judgement) -> list[int]:
    """The indices that have a score, best first."""
    scored = [index for index, score in enumerate(judgement.scores) if score is not None]
    return sorted(scored, key=lambda index: -judgement.scores[index])  # type: ignore[operator]


class Batching(ByTable):
    """Scores several requests in a call, and counts calls."""

    def __init__(self, table: dict[str, Any] | None = None) -> None:
        super().__init__(table)
        self.batches: list[int] = []

    def score_many(self, requests: Sequence[tuple[str, list[str]]]) -> list[list[Any]]:
        self.batches.append(len(requests))
        return [ByTable.score_pairs(self, query, documents) for query, documents in requests]


def raising(error: BaseException) -> Callable[[int], Any]:
    def answer(_count: int) -> Any:
        raise error

    return answer


ANSWERS: dict[str, Callable[[int], Any]] = {
    "none": lambda n: None,
    "a string": lambda n: "0.5",
    "a dict": lambda n: {0: 0.5},
    "empty": lambda n: [],
    "one too few": lambda n: [0.5] * (n - 1),
    "one too many": lambda n: [0.5] * (n + 1),
    "endless": lambda n: iter(float, 1.0),
    "strings": lambda n: ["0.5"] * n,
    "booleans": lambda n: [True] * n,
    "all nan": lambda n: [math.nan] * n,
    "huge integers": lambda n: [10**400] * n,
    "nested": lambda n: [[0.5]] * n,
    "a set": lambda n: {0.5 + index for index in range(n)},
    "another mapping": lambda n: MappingProxyType({float(index): index for index in range(n)}),
    "a bytearray": bytearray,
    "raises": raising(RuntimeError("passage text and sk-secret-key")),
    "raises a key error": raising(KeyError("sk-secret-key")),
    "raises memory error": raising(MemoryError()),
}
"""Invalid return values of a scorer, none of which has a usable score."""

odd_scores = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**30), 10**30),
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.just([0.5]),
    st.just(10**400),
)

odd_texts: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "same", "\x00", "\ud800", "a\u200bb", "</document>", "x" * 3000]),
    st.none(),
    st.integers(),
    st.binary(max_size=4),
)

odd_metadata = st.dictionaries(
    st.one_of(st.text(max_size=5), st.sampled_from(["rerank_score", "title"])),
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers())
    ),
    max_size=3,
)

candidates = st.builds(
    Candidate,
    text=odd_texts,
    id=st.one_of(st.none(), st.sampled_from(["a", "b", "a b", '"'])),
    score=st.one_of(st.none(), st.floats(), st.integers(-5, 5)),
    metadata=odd_metadata,
)

candidate_likes = st.one_of(
    candidates,
    st.text(max_size=10),
    st.fixed_dictionaries(
        {"text": odd_texts},
        optional={"id": st.text(max_size=3), "score": st.floats(), "url": st.text(max_size=3)},
    ),
)


# ---------------------------------------------------------------------- language models

Reply = str | Completion | BaseException
Shown = dict[str, str]
"""Passages by their labels in a prompt, in its order."""

_DOC = re.compile(r'<doc id="([^"]*)">(.*?)</doc>', re.S)


def shown_in(asked: Prompt | Sequence[Mapping[str, str]]) -> Shown:
    """The passages in a prompt, or in the messages of a function."""
    if isinstance(asked, Prompt):
        return dict(_DOC.findall(asked.turns[0].text))
    return dict(_DOC.findall(next(one["content"] for one in asked if one["role"] == "user")))


def number_of(text: str) -> int:
    """The grade of a passage of :func:`numbered`: the number at its start."""
    return int(text.split(" ", 1)[0])


def numbered(numbers: Sequence[int]) -> list[str]:
    """Passages that begin with their grade."""
    return [f"{number} wombats" for number in numbers]


def task_of(texts: Sequence[str], query: str = "wombats", **fields: Any) -> Task:
    """A task about these texts."""
    return Task(query, list(texts), [Candidate(text) for text in texts], **fields)


class Limited(Call):
    """The handle of a plan that :func:`play` plays, in place of that of a ranking.

    Args:
        rounds: number of rounds of one question that are left, by the number of past rounds; None:
            no limit.
    """

    def __init__(self, rounds: Callable[[int], int | None]) -> None:
        self.rounds = rounds
        self.asked = 0

    def rounds_left(self, questions: int = 1, *, repairs: bool = False) -> int | None:
        left = self.rounds(self.asked)
        return None if left is None else left // questions


def listening(task: Task, interims: list[Judgement]) -> Task:
    """The task, whose interim judgements are added to a list."""

    def relay(about: Task, judgement: Callable[[], Judgement]) -> Plan[None]:
        if about is heard:
            interims.append(judgement())
        return
        yield

    heard = replace(task, call=task.call.heard_by(relay))
    return heard


def graded(passages: Shown) -> str:
    """A correct reply with grades: the number of each passage."""
    return json.dumps({label: number_of(text) for label, text in passages.items()})


def ranked(passages: Shown) -> str:
    """A correct reply with an order: the highest number first."""
    return json.dumps({"ranking": sorted(passages, key=lambda label: -number_of(passages[label]))})


def failing(
    *numbers: int,
    error: MethodError | None = None,
    honest: Callable[[Shown], Reply] = ranked,
) -> Callable[[Shown], Reply]:
    """Replies correctly, except to the questions with these numbers, from 0."""
    asked = itertools.count()
    raised = error or LLMError("the server is down", "server_error")
    return lambda passages: raised if next(asked) in numbers else honest(passages)


def in_answer(reply: Callable[[Shown], Reply]) -> Callable[[Question[Any, Any]], Answer[Any]]:
    """The answer that the driver would return: the parsed reply, or a MethodError."""

    def answer(question: Question[Any, Any]) -> Answer[Any]:
        text = reply(shown_in(question.request))
        try:
            if isinstance(text, BaseException):
                raise text
            return Answer(question.read(Completion(text) if isinstance(text, str) else text))
        except MethodError as error:
            return Answer(error=error)

    return answer


def play(
    plan: Plan[Judgement],
    answer: Callable[[Question[Any, Any]], Answer[Any]],
    limited: Limited | None = None,
) -> tuple[Judgement, list[Ask[Any, Any]]]:
    """Send answers into a plan; return its result and its questions.

    Args:
        plan: the generator that a method's ``judge`` returns.
        answer: answers a question.
        limited: the handle of its task, if that counts the rounds.
    """
    asks: list[Ask[Any, Any]] = []
    try:
        effect = next(plan)
        while True:
            if isinstance(effect, Ask):
                asks.append(effect)
                if limited is not None:
                    limited.asked += 1
                effect = plan.send([answer(question) for question in effect.questions])
            else:
                assert isinstance(effect, Score)
                effect = plan.send(scored(effect))
    except StopIteration as stop:
        check_issues(stop.value.issues)
        return stop.value, asks


def judge(
    method: Any,
    texts: Sequence[str],
    reply: Callable[[Shown], Reply] = ranked,
    rounds: Callable[[int], int | None] = lambda _asked: None,
) -> tuple[Judgement, list[Ask[Any, Any]]]:
    """The judgement of a method about some texts, and its questions, by such replies."""
    limited = Limited(rounds)
    return play(method.judge(task_of(texts, call=limited)), in_answer(reply), limited)


def scored(effect: Score) -> RawScores:
    """The result of the driver for a Score effect."""
    count = len(effect.texts)
    try:
        return RawScores([*effect.scorer.score_pairs(effect.query, list(effect.texts))])
    except MethodError as error:
        return RawScores([None] * count, [(0, count, error)])


def check_issues(issues: Sequence[Issue]) -> None:
    """Check that every issue has a message and plain values."""
    for issue in issues:
        assert {type(issue.code), type(issue.message), type(issue.method)} == {str}
        assert {type(issue.positions), type(issue.ids)} == {tuple}
        assert len(issue.message) > 5


class Model:
    """A language model from a function; records prompts and the most concurrent calls.

    Args:
        reply: function of the passages that returns a string, a Completion, or an error to raise.
            A list of such functions is used in order; the last one is repeated.
        seconds: duration of a call.
        members: further attributes, such as ``prices``.
    """

    name = "model"

    def __init__(
        self,
        reply: Callable[[Shown], Reply] | Sequence[Callable[[Shown], Reply]] = graded,
        seconds: float = 0.0,
        **members: Any,
    ) -> None:
        self.replies = [reply] if callable(reply) else list(reply)
        self.seconds = seconds
        self.prompts: list[Prompt] = []
        self.under_way = 0
        self.most = 0
        vars(self).update(members)

    async def complete(self, prompt: Prompt) -> Completion:
        reply = self.replies[min(len(self.prompts), len(self.replies) - 1)]
        self.prompts.append(prompt)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.seconds)
            text = reply(shown_in(prompt))
        finally:
            self.under_way -= 1
        if isinstance(text, BaseException):
            raise text
        return Completion(text) if isinstance(text, str) else text


def always(reply: Reply) -> Callable[[Shown], Reply]:
    """Returns the same reply for all passages."""
    return lambda _shown: reply


def within_deadlines(rank: Callable[[float], Any], as_expected: Callable[[Any], bool]) -> Any:
    """The result of ``rank`` under the shortest deadline that a busy machine can meet.

    If no deadline is met, the result is that of the last one, and the test's assertion fails.
    """
    for deadline in (0.2, 1.0, 6.0, 40.0):
        result = rank(deadline)
        if as_expected(result):
            break
    return result
