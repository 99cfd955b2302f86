"""Decides what ranking passes need done next: scorer calls and questions. It performs no I/O.

:func:`schedule` advances passes side by side. It yields commands and is sent their outcomes; the
drivers in :mod:`secondpass.asking.drivers` carry the commands out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from secondpass.asking.gate import Gate
from secondpass.concurrency.admission import Claim
from secondpass.concurrency.turns import Sharing
from secondpass.effects import Ask, Plan, Score
from secondpass.errors import DeadlineError, MethodError, reraise_exit, with_article
from secondpass.questions import Answer, ListScores, RawScores
from secondpass.ranking.diagnostics import log_exception
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.observers import Operation
from secondpass.ranking.scoring import is_finite, member

T = TypeVar("T")

# ---------------------------------------------------------------------- commands and outcomes


@dataclass(frozen=True, slots=True)
class ScorerCall:
    """A command to call a scorer once for several (query, documents), each with its ledger."""

    scorer: Any
    requests: Sequence[tuple[str, list[str]]]
    ledgers: Sequence[Ledger]
    instruction: str | None = field(default=None, repr=False)
    at_most: int | None = None
    """Number of texts of a part that takes an unknown time; None if lists are not divided."""

    @property
    def keywords(self) -> dict[str, str]:
        return {} if self.instruction is None else {"instruction": self.instruction}

    @property
    def pairs(self) -> int:
        """Number of documents of all requests."""
        return sum(len(documents) for _, documents in self.requests)

    @property
    def sharing(self) -> Sharing | None:
        """What its passes have of the scorer if they call it in turns: that of the first one."""
        sharing = self.ledgers[0].sharing
        return sharing if sharing is not None and sharing.scorer is self.scorer else None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The running operation of each observed ranking."""
        return tuple(ledger.operations[-1] for ledger in self.ledgers if ledger.operations)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the latest deadline of its passes; None if one of them has none."""
        return _longest(ledger.seconds_left for ledger in self.ledgers)

    @property
    def scorer_seconds_left(self) -> float | None:
        """:attr:`seconds_left`, if the scorer has scored something by then."""
        return _longest(ledger.scorer_seconds_left for ledger in self.ledgers)

    def end_keeping(self) -> None:
        """Give the scorer the time that was kept in case that it scores nothing."""
        for ledger in self.ledgers:
            ledger.end_keeping()


def _longest(seconds: Iterable[float | None]) -> float | None:
    known = []
    for value in seconds:
        if value is None:
            return None
        known.append(value)
    return max(known)


class CallScorer(ScorerCall):
    """Command: score all requests in one call, with ``score_many`` if there are several.

    Of one request, whose pass takes turns (:attr:`Ledger.sharing`), the scorer may be called with
    the first texts only. Outcome: :class:`CalledScores`.
    """

    __slots__ = ()

    def with_first(self, count: int) -> CallScorer:
        """A call with the first texts of its only request."""
        ((query, documents),) = self.requests
        return replace(self, requests=[(query, documents[:count])])


class CallLists(ScorerCall):
    """Command: score all requests with ``score_lists``, until the deadline if there is one.

    Outcome: a :class:`PartialList` per request, or a MethodError if there are no scores.
    """

    __slots__ = ()
    member = "score_lists"


class CallBatches(ScorerCall):
    """Command: score the documents of one request with ``score_batches`` until the deadline.

    Outcome: :class:`PartialScores`.
    """

    __slots__ = ()
    member = "score_batches"


class CalledScores(NamedTuple):
    """What a call of a scorer has returned, which is not validated."""

    results: list[list[Any]] | MethodError  # the scores of each request
    texts: int  # number of texts, of all requests, with which the scorer was to be called


class PartialScores(NamedTuple):
    """The scores of some documents, which are not validated."""

    scores: Mapping[int, Any]  # by index of the document
    error: MethodError  # why the other documents, if any, have no score


class PartialList(NamedTuple):
    """The scores of one list of documents, which are not validated."""

    result: ListScores
    error: MethodError | None  # why some documents have no score; None if the scorer left them out


@dataclass(frozen=True, slots=True)
class StartQuestions:
    """Command: start asking the questions of pass ``number``. Outcome: None, at once."""

    number: int
    effect: Ask[Any, Any]
    ledger: Ledger
    gate: Gate

    def failed(self, error: MethodError) -> list[Answer[Any]]:
        """An answer with this error for each question."""
        return [Answer(error=error)] * len(self.effect.questions)


class WaitForAnswers:
    """Command: wait until started questions of at least one pass are answered.

    Outcome: a list of (number of the pass, answers).
    """


Command: TypeAlias = CallScorer | CallBatches | CallLists | StartQuestions | WaitForAnswers


def scoring_deadline_error(ledgers: Sequence[Ledger] = ()) -> DeadlineError:
    """The outcome of a scorer call that the deadline cut off."""
    return DeadlineError(_passed(_deadline(ledgers), ledgers))


def scoring_time_error(ledgers: Sequence[Ledger], claim: Claim, reason: str) -> DeadlineError:
    """The error of texts of a claim that a call left out, or that got no call.

    Args:
        ledgers: those of the call.
        claim: what it claimed.
        reason: why they were left out if its deadline has not come yet.
    """
    limit = _deadline(ledgers)
    if time.monotonic() >= claim.deadline:
        return DeadlineError(_passed(limit, ledgers))
    return DeadlineError(f"not scored: {reason} before {limit.rstrip(',')}{_loaded(ledgers)}")


def _passed(limit: str, ledgers: Sequence[Ledger]) -> str:
    """That a limit passed before texts were scored, and whether because of a model's loading."""
    loads = [ledger.loading.running for ledger in ledgers if ledger.loading is not None]
    running = [seconds for seconds in loads if seconds is not None]
    if not running:
        return f"{limit} passed before these were scored{_loaded(ledgers)}"
    so_far = f"{max(running):.2g} s so far"
    return f"{limit} passed while the model was being loaded ({so_far}); {_WARM_UP}"


def _loaded(ledgers: Sequence[Ledger]) -> str:
    """``; …`` if a good part of the time went into the loading of models."""
    for ledger in ledgers:
        seconds = 0.0 if ledger.loading is None else ledger.loading.seconds
        deadline = ledger.limits.deadline
        if deadline is not None and seconds > _MUCH * deadline:
            return f"; {seconds:.2g} s of it went into loading the model: {_WARM_UP}"
    return ""


_WARM_UP = "call warm_up() when the process starts"
_MUCH = 0.1
"""Share of a ranking's time from which on the loading of a model may be why it did not suffice."""


def question_deadline_error(ledger: Ledger, missed: Literal["asked", "answered"]) -> DeadlineError:
    """The error of a question that was not asked, or not answered, before its deadline."""
    if ledger.kept.late or (missed == "asked" and ledger.question_seconds_left):
        return DeadlineError("not asked: too little time is left for an answer")
    return DeadlineError(f"{_deadline([ledger])} passed before this was {missed}")


def _deadline(ledgers: Sequence[Ledger]) -> str:
    """The deadline with its seconds, unless rankings that share a call have different ones."""
    different = {ledger.limits.deadline for ledger in ledgers}
    value = different.pop() if len(different) == 1 else None
    whole = "the deadline" if value is None else f"the deadline of {value:g} s"
    kept = next((seconds for it in ledgers if (seconds := it.kept.seconds) > 0), None)
    if kept is None:
        return whole
    return f"{whole}, of which {round(kept, 2):g} s are kept for other methods,"


# ---------------------------------------------------------------------- passes


@dataclass(slots=True)
class Pass(Generic[T]):
    """A running plan, its ledger, and the gate that its questions go through."""

    plan: Plan[T]
    ledger: Ledger
    gate: Gate


def schedule(passes: Sequence[Pass[T]]) -> Generator[Command, Any, list[T]]:
    """Advance every plan to its next effect, carry out all of those, and repeat until all end."""
    results: dict[int, T] = {}
    to_score: dict[int, Score] = {}
    to_ask: dict[int, Ask[Any, Any]] = {}
    asking = 0

    def advance(number: int, result: Any) -> None:
        plan = passes[number].plan
        try:
            effect: object = plan.send(result)
            while not isinstance(effect, Score | Ask):
                message = f"the method yielded {with_article(type(effect).__name__)}, not an effect"
                effect = plan.throw(MethodError(message, "unknown_effect"))
        except StopIteration as stop:
            results[number] = stop.value
        else:
            if isinstance(effect, Score):
                to_score[number] = effect
            else:
                to_ask[number] = effect

    def start_questions() -> Generator[StartQuestions, Any, None]:
        nonlocal asking
        for number in sorted(to_ask):
            item = passes[number]
            yield StartQuestions(number, to_ask.pop(number), item.ledger, item.gate)
            asking += 1

    try:
        for number, item in enumerate(passes):
            item.ledger.waiting = len(passes) > 1
            advance(number, None)
        while to_score or to_ask or asking:
            yield from start_questions()
            if not to_score:
                answered = yield WaitForAnswers()
                asking -= len(answered)
                for number, answers in answered:
                    advance(number, answers)
                continue
            scorings = {
                number: _Scoring(effect, passes[number].ledger)
                for number, effect in to_score.items()
            }
            to_score.clear()
            for numbers in _groups(scorings):
                group = [scorings[number] for number in numbers]
                for scoring in group:
                    scoring.ledger.rounds += 1
                if group[0].in_batches:
                    yield from _score_in_batches(group[0])
                else:
                    yield from _score(group)
                # A pass that shares no call advances before the next scorer is called.
                for number in numbers:
                    advance(number, scorings[number].raw)
                yield from start_questions()  # whose time runs while others are scored
    finally:
        for item in passes:
            _close(item.plan)
    return [results[number] for number in range(len(passes))]


def _close(plan: Plan[Any]) -> None:
    """Close a plan, ignoring what a method does at its end; no effect if the plan has ended."""
    try:
        plan.close()
    except BaseException as error:
        reraise_exit(error)
        log_exception(error, "a method that was closed")


# ---------------------------------------------------------------------- scores


@dataclass(slots=True)
class _Scoring:
    """A Score effect in progress."""

    effect: Score
    ledger: Ledger
    raw: RawScores = field(default_factory=lambda: RawScores([], called=False))

    def offers(self, name: str) -> bool:
        """Whether the scorer has this optional method."""
        return callable(member(self.effect.scorer, name, None))

    @property
    def in_lists(self) -> bool:
        """Whether the scorer is called by ``score_lists``."""
        return self.offers("score_lists")

    @property
    def in_batches(self) -> bool:
        """Whether it is one call of ``score_batches``, which no other pass shares."""
        divisible = self.effect.at_most is not None and not self.in_lists
        return self.ledger.timed and divisible and self.offers("score_batches")

    @property
    def mergeable(self) -> bool:
        """Whether a call may score texts of other passes, too."""
        if self.in_lists:
            return not self.ledger.timed
        return not self.in_batches and self.offers("score_many")

    def count_call(self, pairs: int, error: MethodError | None) -> None:
        """Count a call, unless the error says that it was not made."""
        if not getattr(error, "sent", True):
            return
        self.raw.called = True
        self.ledger.calls += 1
        self.ledger.pairs += pairs


_Outcome: TypeAlias = list[Any] | PartialList | MethodError


@dataclass(slots=True)
class _Slice:
    """Successive texts of one effect, for a single call."""

    scoring: _Scoring
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def split(self, count: int) -> tuple[_Slice, _Slice]:
        """The first ``count`` texts, and the rest."""
        middle = self.start + count
        return replace(self, stop=middle), replace(self, start=middle)

    def count_call(self, outcome: _Outcome) -> None:
        """Count a call; of a list, only the texts that were scored."""
        scored = len(self)
        if isinstance(outcome, PartialList):
            scored -= len(_unscored(outcome.result))
        error = outcome if isinstance(outcome, MethodError) else None
        self.scoring.count_call(scored, error)

    def add_outcome(self, outcome: _Outcome) -> None:
        raw = self.scoring.raw
        if isinstance(outcome, MethodError):
            raw.values.extend([None] * len(self))
            raw.failures.append((self.start, self.stop, outcome))
        elif isinstance(outcome, PartialList):
            self._add_list(outcome.result, outcome.error)
        else:
            raw.values.extend(outcome)
            if any(map(is_finite, outcome)):
                self.scoring.ledger.end_keeping()

    def _add_list(self, result: ListScores, error: MethodError | None) -> None:
        raw = self.scoring.raw
        raw.values.extend(result.scores)
        raw.issues, raw.original, raw.spans = result.issues, result.original, result.spans
        raw.order_scores = result.order_scores
        raw.known, raw.encoded, raw.pieces = result.known, result.encoded, result.pieces
        if error is None:
            return
        # If the original order is kept, it does not matter which texts have no score.
        missed = [] if raw.original == 1 else _unscored(result)
        raw.failures.extend((index, index + 1, error) for index in missed)
        if not missed and not isinstance(error, DeadlineError):
            raw.troubles.append(error)


def _groups(scorings: dict[int, _Scoring]) -> list[list[int]]:
    """Numbers of the passes whose texts go to one scorer together, with one instruction."""
    groups: dict[tuple[int, str | None], list[int]] = {}
    for number, scoring in scorings.items():
        shared = scoring.effect.scorer if scoring.mergeable else scoring
        groups.setdefault((id(shared), scoring.effect.instruction), []).append(number)
    return list(groups.values())


def _score_in_batches(scoring: _Scoring) -> Generator[CallBatches, PartialScores, None]:
    """Score what the deadline allows in one call; all other texts are failures."""
    effect, ledger, raw = scoring.effect, scoring.ledger, scoring.raw
    ledger.start_clock()
    partial = PartialScores({}, scoring_deadline_error([ledger]))
    if ledger.seconds_left != 0:
        requests = [(effect.query, list(effect.texts))]
        partial = yield CallBatches(effect.scorer, requests, [ledger], effect.instruction)
        scoring.count_call(len(partial.scores), partial.error)
    for index in range(len(effect.texts)):
        raw.values.append(partial.scores.get(index))
        if index not in partial.scores:
            raw.failures.append((index, index + 1, partial.error))


def _score(group: list[_Scoring]) -> Generator[CallScorer | CallLists, Any, None]:
    """Score the texts of passes with their common scorer, in as few calls as deadlines allow."""
    for slices in _split_into_calls(group):
        live = []
        for part in slices:
            part.scoring.ledger.start_clock()
            if part.scoring.ledger.seconds_left == 0:
                part.add_outcome(scoring_deadline_error([part.scoring.ledger]))
            else:
                live.append(part)
        if len(live) > 1:
            outcome, _ = yield from _outcome(_call(live))
            if not isinstance(outcome, MethodError):
                for part, result in zip(live, outcome, strict=True):
                    part.count_call(result)
                    part.add_outcome(result)
                continue
            # One request may have failed the call for all of them, so each is tried alone.
            message = f"scoring several queries in one call failed: {outcome}"
            error = MethodError(message, "batch_failed")
            for part in live:
                part.count_call(outcome)
                part.scoring.raw.troubles.append(error)
        for part in live:
            yield from _score_alone(part)


def _score_alone(part: _Slice) -> Generator[CallScorer | CallLists, Any, None]:
    """Score the texts of a slice: in one call, or in turns, of which each may have a part of them.

    After the deadline no turn begins, so that the rest fails.
    """
    while len(part):
        outcome, count = yield from _outcome(_call([part]))
        result = outcome if isinstance(outcome, MethodError) else outcome[0]
        called, part = part.split(count)
        called.count_call(result)
        called.add_outcome(result)


def _outcome(
    call: CallScorer | CallLists,
) -> Generator[CallScorer | CallLists, Any, tuple[list[Any] | MethodError, int]]:
    """The outcome of a call, and the number of its texts with which the scorer was to be called."""
    texts = call.pairs  # before the call, because the scorer may change the lists
    outcome = yield call
    return outcome if isinstance(outcome, CalledScores) else (outcome, texts)


def _split_into_calls(group: list[_Scoring]) -> list[list[_Slice]]:
    """Split texts into calls: one for all; with a deadline, as many texts per call as it allows.

    Lists are never split.
    """
    most = sys.maxsize
    if any(scoring.ledger.timed for scoring in group) and not group[0].in_lists:
        most = _most_per_call(group) or sys.maxsize
    calls: list[list[_Slice]] = []
    room = 0  # number of texts that the last call may still have
    for scoring in group:
        count = len(scoring.effect.texts)
        for start in range(0, count, most):
            part = _Slice(scoring, start, min(start + most, count))
            if len(part) > room:
                calls.append([])
                room = most
            calls[-1].append(part)
            room -= len(part)
    return calls


def _most_per_call(group: list[_Scoring]) -> int | None:
    """How many texts a call may have; None for no limit.

    A call in turn has as many of these as there is time for when its turn begins.
    """
    sharing = group[0].ledger.sharing
    if sharing is None:
        return group[0].effect.at_most
    if len(group) == 1:
        return sharing.batch_size
    claims = [scoring.ledger.new_claim() for scoring in group]
    return sharing.most_together(min(claim.deadline - claim.asked for claim in claims))


def _unscored(result: ListScores) -> list[int]:
    return [index for index, score in enumerate(result.scores) if score is None]


def _call(slices: list[_Slice]) -> CallScorer | CallLists:
    """The command that scores these texts of several passes with their common scorer."""
    first = slices[0].scoring
    command = CallLists if first.in_lists else CallScorer
    requests = [
        (part.scoring.effect.query, list(part.scoring.effect.texts[part.start : part.stop]))
        for part in slices
    ]
    ledgers = [part.scoring.ledger for part in slices]
    effect = first.effect
    return command(effect.scorer, requests, ledgers, effect.instruction, effect.at_most)
