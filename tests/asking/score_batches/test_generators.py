"""What the generator of a scorer may do."""

import asyncio
import contextvars
import threading
import time

import pytest

from batch_scorers import InBatches, both, ends, in_twos, raises, rerank, scores_of
from secondpass.errors import MethodError, MissingExtraError

ENDED = "not scored: the scorer found too little time left before the deadline of 60 s"


def after(count, act):
    """A generator of ``count`` documents that ends with ``act``."""

    def generate(documents, _deadline):
        for index in range(count):
            yield [(0, index, float(index))]
        yield from act()

    return generate


own = MethodError("mine", "my_code")
missing = MissingExtraError("models", "scoring")
GENERATORS = {
    # what generates; scores, code and message of the issue
    "complete": (in_twos, 4, None, None),
    "list": (lambda documents, _: list(in_twos(documents, 0)), 4, None, None),
    "list, too short": (lambda *_: [[(0, 0, 0.0)]], 1, "deadline", ENDED),
    "ends early": (after(3, ends), 3, "deadline", ENDED),
    "exception": (after(2, raises(LookupError("sk-key"))), 2, "scorer_raised", "LookupError"),
    "StopIteration": (after(2, raises(StopIteration())), 2, "scorer_raised", "RuntimeError"),
    "cancelled": (after(1, raises(asyncio.CancelledError())), 1, "scorer_raised", "Cancelled"),
    "own error": (after(2, raises(own)), 2, "my_code", "mine"),
    "no package": (after(2, raises(missing)), 2, "missing_extra", "pip install"),
    "unknown": (after(2, lambda: [[(0, 9, 1.0)]]), 2, "score_index", "does not exist"),
    "repeated": (after(2, lambda: [[(0, 1, 1.0)]]), 1, "score_repeated", "twice"),
    "all fail": (after(0, raises(own)), 0, "my_code", "mine"),
    "ends at once": (after(0, ends), 0, "deadline", ENDED),
    "no generator": (lambda *_: 1.0, 0, "scores_no_list", "float, not a generator"),
    "None": (lambda *_: None, 0, "scores_no_list", "NoneType, not a generator"),
    "raises when called": (lambda *_: 1 / 0, 0, "scorer_raised", "ZeroDivisionError"),
}


@both
@pytest.mark.parametrize(
    ("generate", "count", "code", "message"), GENERATORS.values(), ids=GENERATORS
)
def test_scores_so_far_are_kept(asynchronous, generate, count, code, message):
    ranking = rerank(asynchronous, InBatches(generate))
    assert scores_of(ranking) == {index: float(index) for index in range(count)}
    report = ranking.report
    expected = "ok" if count == 4 else "partial" if count else "unchanged"
    assert (report.status, report.usage.calls, report.usage.pairs) == (expected, 1, count)
    if code is None:
        assert report.issues == ()
    else:
        (issue,) = report.issues
        assert issue.code == code
        assert message in issue.message
        assert "sk-key" not in issue.message
        # If nothing is scored, the issue concerns the whole method.
        assert issue.positions == (tuple(range(count, 4)) if count else ())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exits_pass_in_sync_calls_only(error):
    scorer = InBatches(after(2, raises(error)))
    with pytest.raises(error):
        rerank(False, scorer)
    assert {issue.code for issue in rerank(True, scorer).report.issues} == {"scorer_raised"}


@both
def test_scorers_get_monotonic_time(asynchronous):
    deadlines = []

    def generate(documents, deadline):
        deadlines.append(deadline - time.monotonic())
        yield from in_twos(documents, deadline)

    assert rerank(asynchronous, InBatches(generate)).report.status == "ok"
    assert 30 < deadlines[0] <= 60


variable = contextvars.ContextVar("variable", default=None)


@both
def test_generator_stays_in_one_thread_and_context(asynchronous):
    seen = []

    def look():
        seen.append((threading.get_ident(), variable.get()))

    def generate(documents, deadline):
        look()
        variable.set("scorer's")
        try:
            yield from in_twos(documents, deadline)
            yield [(0, 9, 1.0)]
        finally:
            look()

    token = variable.set("caller's")
    try:
        rerank(asynchronous, InBatches(generate))
        assert variable.get() == "caller's"
    finally:
        variable.reset(token)
    (thread, first), (same_thread, last) = seen
    assert (first, last) == ("caller's", "scorer's")
    assert thread == same_thread != threading.get_ident()
