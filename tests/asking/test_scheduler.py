"""The scheduler, driven by sending outcomes in."""

import time

import pytest

from batch_scorers import InBatches, in_twos
from batch_scorers import drive as commands_of
from secondpass.asking.gate import Gate
from secondpass.asking.scheduler import (
    CallBatches,
    CalledScores,
    CallScorer,
    PartialScores,
    Pass,
    StartQuestions,
    WaitForAnswers,
    question_deadline_error,
    scoring_deadline_error,
    scoring_time_error,
)
from secondpass.concurrency.admission import Claim
from secondpass.effects import Ask, Score
from secondpass.errors import MethodError
from secondpass.limits import Limits
from secondpass.questions import Answer, Estimate, Question
from secondpass.ranking.ledger import Ledger

GATE = Gate(1)


class Single:
    """A scorer that takes one request per call. Nothing here calls it."""


class Merging:
    def score_many(self, requests):
        raise AssertionError


def plan(*effects):
    """A plan that returns the results of its effects."""
    results = []
    for effect in effects:
        results.append((yield effect))
    return results


def pass_of(*effects, overdue=False, **limits):
    ledger = Ledger(Limits(**limits), time.perf_counter() - (3600 if overdue else 0))
    return Pass(plan(*effects), ledger, GATE)


def score(scorer, count, query="q", at_most=None, instruction=None):
    texts = [f"{query}{number}" for number in range(count)]
    return Score(scorer, query, texts, at_most, instruction)


def ask(count=1):
    question = Question("request", str, None, lambda: None, Estimate(1, 1), 1)
    return Ask("service", [question] * count)


def lengths(call):
    """A score for each text: its length."""
    return [[len(text) for text in documents] for _, documents in call.requests]


def drive(passes, call_scorer=lengths, wait=None):
    """The results of passes, and the commands on the way."""
    started = []

    def outcome(command):
        if isinstance(command, CallScorer):
            return CalledScores(call_scorer(command), command.pairs)
        if isinstance(command, StartQuestions):
            started.append(command)
            return None
        if wait is not None:
            return wait(started)
        command = started.pop(0)
        return [(command.number, [Answer(command.number)])]

    return commands_of(passes, outcome)


def sizes(commands):
    """How many texts of each request go into each call."""
    return [[len(documents) for _, documents in call.requests] for call in commands]


def used(item):
    return item.ledger.calls, item.ledger.rounds, item.ledger.pairs


# ---------------------------------------------------------------------- scorer calls


single, merging, other = Single(), Merging(), Merging()
GROUPS = {
    "same single": ([single, single], [[1], [2]]),
    "same merging": ([merging, merging], [[1, 2]]),
    "two merging": ([merging, other], [[1], [2]]),
    "mixed": ([merging, single, merging], [[1, 3], [2]]),
}


@pytest.mark.parametrize(("scorers", "expected"), GROUPS.values(), ids=GROUPS)
def test_calls_merge_by_scorer(scorers, expected):
    passes = [
        pass_of(score(scorer, index + 1, f"q{index}")) for index, scorer in enumerate(scorers)
    ]
    results, commands = drive(passes)
    assert sizes(commands) == expected
    assert [raw.values for (raw,) in results] == [
        [3] * (index + 1) for index in range(len(scorers))
    ]
    assert [used(item) for item in passes] == [(1, 1, index + 1) for index in range(len(scorers))]


def test_calls_merge_by_instruction():
    words = ["owls", None, "owls", "cats"]
    passes = [pass_of(score(merging, 1, f"q{i}", None, word)) for i, word in enumerate(words)]
    _, commands = drive(passes)
    assert [(call.instruction, len(call.requests)) for call in commands] == [
        ("owls", 2),
        (None, 1),
        ("cats", 1),
    ]
    assert [call.keywords for call in commands] == [
        {"instruction": "owls"},
        {},
        {"instruction": "cats"},
    ]
    assert "owls" not in repr(commands)


CALLS = {
    # numbers of texts, at_most, deadline; numbers of texts per call
    "unlimited": ([5], 3, None, [[5]]),
    "no at_most": ([5], None, 60, [[5]]),
    "parts": ([5], 2, 60, [[2], [2], [1]]),
    "exact parts": ([4], 2, 60, [[2], [2]]),
    "no texts": ([0], 2, 60, []),
    "merged": ([5, 2], 3, None, [[5, 2]]),
    "merged without at_most": ([5, 2, 1], None, 60, [[5, 2, 1]]),
    "merged parts": ([5, 2, 1], 3, 60, [[3], [2], [2, 1]]),
    "rest is used": ([4, 1, 1, 1], 3, 60, [[3], [1, 1, 1], [1]]),
}


@pytest.mark.parametrize(("counts", "at_most", "deadline", "expected"), CALLS.values(), ids=CALLS)
def test_texts_are_split_into_calls(counts, at_most, deadline, expected):
    scorer = Merging()
    passes = [pass_of(score(scorer, count, "q", at_most), deadline=deadline) for count in counts]
    results, commands = drive(passes)
    assert sizes(commands) == expected
    assert [len(raw.values) for (raw,) in results] == counts
    assert [item.ledger.pairs for item in passes] == counts


def test_failed_part_keeps_the_rest():
    error = MethodError("no", "no")
    outcomes = iter([[[1, 2]], error, [[5]]])
    item = pass_of(score(Single(), 5, at_most=2), deadline=60)
    ((raw,),), _ = drive([item], lambda _: next(outcomes))
    assert raw.values == [1, 2, None, None, 5]
    assert raw.failures == [(2, 4, error)]
    assert used(item) == (3, 1, 5)


def test_failed_merged_call_is_tried_singly():
    scorer = Merging()
    error = MethodError("poison", "scorer_raised")

    def outcome(call):
        return error if any("b0" in documents for _, documents in call.requests) else lengths(call)

    passes = [pass_of(score(scorer, 2, "a")), pass_of(score(scorer, 1, "b"))]
    results, commands = drive(passes, outcome)
    assert sizes(commands) == [[2, 1], [2], [1]]
    (first,), (second,) = results
    assert (first.values, first.failures) == ([2, 2], [])
    assert (second.values, second.failures) == ([None], [(0, 1, error)])
    for (raw,) in results:
        assert [(one.code, str(one)) for one in raw.troubles] == [
            ("batch_failed", "scoring several queries in one call failed: poison")
        ]
    assert [used(item) for item in passes] == [(2, 1, 4), (2, 1, 2)]


def test_overdue_pass_is_not_scored():
    late = pass_of(score(Single(), 2), deadline=5, overdue=True)
    ((raw,),), commands = drive([late])
    assert commands == []
    ((start, stop, error),) = raw.failures
    assert (start, stop, error.code) == (0, 2, "deadline")
    assert str(error) == "the deadline of 5 s passed before these were scored"
    assert used(late) == (0, 1, 0)


def test_clock_starts_with_first_call():
    scorer = Single()
    passes = [pass_of(score(scorer, 1), deadline=5, overdue=True) for _ in range(2)]
    waiting = []

    def outcome(call):
        waiting.append([item.ledger.waiting for item in passes])
        return lengths(call)

    results, _ = drive(passes, outcome)
    assert waiting == [[False, True], [False, False]]
    assert [raw.values for (raw,) in results] == [[2], [2]]


DEADLINES = {
    "none": ([None], None),
    "one": ([60], 60),
    "latest": ([60, 900], 900),
    "one without": ([60, None], None),
    "passed": ([1e-9], 0),
}


@pytest.mark.parametrize(("deadlines", "expected"), DEADLINES.values(), ids=DEADLINES)
def test_call_knows_when_it_is_overdue(deadlines, expected):
    call = CallScorer(Single(), [], [Ledger(Limits(deadline=one)) for one in deadlines])
    if expected is None:
        assert call.seconds_left is None
    else:
        assert expected - 30 < call.seconds_left <= expected


# ---------------------------------------------------------------------- batches


class Raising:
    @property
    def score_batches(self):
        raise LookupError


def every_score(command):
    if isinstance(command, CallBatches):
        ((_, documents),) = command.requests
        return PartialScores(dict.fromkeys(range(len(documents)), 1.0), MethodError("?"))
    return [[1.0] * len(documents) for _, documents in command.requests]


batched = InBatches(in_twos, score_many=list)
COMMANDS = {
    # scorer, texts per call at most, deadline; the command
    "deadline": (batched, 32, 60, CallBatches),
    "no deadline": (batched, 32, None, CallScorer),
    "not pointwise": (batched, None, 60, CallScorer),
    "no such method": (Raising(), 32, 60, CallScorer),
}


@pytest.mark.parametrize(("scorer", "most", "deadline", "kind"), COMMANDS.values(), ids=COMMANDS)
def test_batches_are_asked_for_with_a_deadline(scorer, most, deadline, kind):
    item = pass_of(score(scorer, 3, at_most=most), deadline=deadline)
    ((raw,),), (command,) = commands_of([item], every_score)
    assert type(command) is kind
    assert (raw.values, raw.failures, raw.called) == ([1.0] * 3, [], True)
    assert used(item) == (1, 1, 3)
    assert command.requests == [("q", ["q0", "q1", "q2"])]
    assert command.ledgers == [item.ledger]


def test_each_pass_has_its_own_batches_and_clock():
    passes = [pass_of(score(batched, 3, at_most=2), deadline=60, overdue=True) for _ in range(2)]
    waiting = []

    def outcome(command):
        waiting.append([item.ledger.waiting for item in passes])
        assert command.ledgers[0] is passes[len(waiting) - 1].ledger
        assert 30 < command.seconds_left <= 60
        return every_score(command)

    results, _ = commands_of(passes, outcome)
    assert waiting == [[False, True], [False, False]]
    assert [raw.failures for (raw,) in results] == [[], []]


# ---------------------------------------------------------------------- questions


def test_questions_start_before_scoring():
    """All questions are started, then all scorers called, and then the answers are waited for."""
    asking = ask()
    passes = [pass_of(score(Single(), 1), ask()), pass_of(asking), pass_of(ask(), ask())]
    results, commands = drive(passes)
    kinds = [type(command) for command in commands]
    first = [StartQuestions, StartQuestions, CallScorer, StartQuestions]
    assert kinds == [*first, WaitForAnswers, WaitForAnswers, StartQuestions, *[WaitForAnswers] * 2]
    assert [command.number for command in commands if isinstance(command, StartQuestions)] == [
        1,
        2,
        0,
        2,
    ]
    start = commands[0]
    assert (start.effect, start.ledger, start.gate) == (asking, passes[1].ledger, GATE)
    assert results[1] == [[Answer(1)]]
    assert results[2] == [[Answer(2)], [Answer(2)]]


# ---------------------------------------------------------------------- other effects


def test_unknown_effect_is_thrown_back():
    def confused():
        try:
            yield "something"
        except MethodError as error:
            return error.code, str(error)

    ((code, message),), _ = drive([Pass(confused(), Ledger(), GATE)])
    assert (code, message) == ("unknown_effect", "the method yielded a str, not an effect")


# ---------------------------------------------------------------------- errors


def ledger_of(deadline, ago=0):
    return Ledger(Limits(deadline=deadline), time.perf_counter() - ago)


@pytest.mark.parametrize("missed", ["asked", "answered"])
def test_the_error_of_a_late_question_mentions_time_kept_for_others(missed):
    error = question_deadline_error(ledger_of(10, ago=20), missed)
    message = f"the deadline of 10 s passed before this was {missed}"
    assert (error.code, str(error)) == ("deadline", message)
    late = ledger_of(10)
    late.keep_time(False)
    late.started -= 20
    kept = "the deadline of 10 s, of which 2 s are kept for other methods, passed before"
    assert str(question_deadline_error(late, missed)) == f"{kept} this was {missed}"
    assert str(scoring_deadline_error([late])) == f"{kept} these were scored"


TOO_LATE = {  # deadline of a claim, from now
    "passed": (-1, "the deadline of 9 s passed before these were scored"),
    "before": (9, "not scored: why before the deadline of 9 s"),
}


@pytest.mark.parametrize(("deadline", "message"), TOO_LATE.values(), ids=TOO_LATE)
def test_the_error_of_texts_that_were_left_out(deadline, message):
    claim = Claim(time.monotonic() + deadline)
    error = scoring_time_error([Ledger(Limits(deadline=9))], claim, "why")
    assert (error.code, str(error)) == ("deadline", message)


def test_different_deadlines_of_one_call_are_not_named():
    same, other = [ledger_of(2), ledger_of(2)], [ledger_of(2), ledger_of(3)]
    assert str(scoring_deadline_error(same)).startswith("the deadline of 2 s passed")
    assert str(scoring_deadline_error(other)).startswith("the deadline passed")


def test_the_error_of_texts_that_were_left_out_mentions_time_kept_for_others():
    ledger, now = ledger_of(10), time.monotonic()
    ledger.keep_time(False)
    error = scoring_time_error([ledger], Claim(now + 8), "why")
    assert str(error) == (
        "not scored: why before the deadline of 10 s, of which 2 s are kept for other methods"
    )


def test_the_error_of_a_question_that_has_too_little_time():
    late = ledger_of(100)
    message = "not asked: too little time is left for an answer"
    assert str(question_deadline_error(late, "asked")) == message
    late.keep_time(False)
    late.started -= 95
    late.keep_time(True)
    assert late.kept.late
    assert str(question_deadline_error(late, "answered")) == message
