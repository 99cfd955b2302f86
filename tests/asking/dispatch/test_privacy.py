"""Logs, reports and reprs have no text of queries, passages and replies."""

import logging

import pytest

from fakes import Model, always, graded, in_answer, play, task_of
from scripted_services import ranked_by
from secondpass import Reranker
from secondpass.effects import Completion
from secondpass.strategies.graded import Graded

SECRETS = ("sk-secret-key", "wombats", "burrow", "the reply said")

FOREIGN = [
    ValueError("sk-secret-key"),
    KeyError("wombats"),
    RuntimeError("the reply said burrow"),
    type("OwnError", (Exception,), {})("sk-secret-key"),
]


def logged_by(act):
    """What is logged while something is done."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    loggers = [logging.getLogger("secondpass"), logging.getLogger("asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        return act(), lines
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_foreign_errors_show_only_their_class(error, asynchronous):
    def function(messages):
        raise error

    reranker = Reranker(Graded(function))

    ranking, lines = logged_by(lambda: ranked_by(reranker, asynchronous, ["wombats burrow"]))
    (issue,) = ranking.report.issues
    assert (issue.code, issue.message) == ("llm_raised", f"the model raised {type(error).__name__}")
    assert len(lines) == 1
    for text in [*lines, repr(ranking), repr(ranking.report.to_dict())]:
        assert not any(secret in text for secret in SECRETS)


@pytest.mark.parametrize(
    "reply",
    ["the reply said wombats", '{"wombats": 3}', '{"zzzz": 99}', "<think>burrow", "", "[1, 2]"],
)
def test_reports_and_logs_hold_no_text(reply):
    reranker = Reranker(Graded(Model(always(reply))))
    ranking, lines = logged_by(
        lambda: reranker.rerank("wombats burrow", ["the wombats", "a burrow"])
    )
    assert ranking.report.status == "unchanged"
    assert len(lines) == 1
    for text in [*lines, repr(ranking), repr(ranking.report.to_dict())]:
        assert not any(secret in text for secret in SECRETS)


def test_reprs_of_prompts_hide_text():
    _, asks = play(Graded(Model()).judge(task_of(["5 wombats burrow"])), in_answer(graded))
    prompt = asks[0].questions[0].request
    completion = Completion("the reply said wombats")
    assert "wombats" not in repr(prompt) + repr(completion) + repr(prompt.turns)
