"""Logs, reports and reprs have no text of queries, passages and replies."""

import pytest

from fakes import Model, always, graded, judge
from scripted_services import ranked_by
from secondpass import Reranker
from secondpass.questions import Completion
from secondpass.strategies.graded import Graded

SECRETS = ("sk-secret-key", "wombats", "burrow", "the reply said")

FOREIGN = [
    ValueError("sk-secret-key"),
    KeyError("wombats"),
    RuntimeError("the reply said burrow"),
    type("OwnError", (Exception,), {})("sk-secret-key"),
]


SHOWN = "with strict, the exception is raised"


def check_private(ranking, records):
    (record,) = records
    for text in [record.getMessage(), repr(ranking), repr(ranking.report.to_dict())]:
        assert not any(secret in text for secret in SECRETS)


@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_foreign_errors_show_only_their_class(error, asynchronous, caplog):
    def function(messages):
        raise error

    ranking = ranked_by(Reranker(Graded(function)), asynchronous, ["wombats burrow"])
    (issue,) = ranking.report.issues
    assert (issue.code, issue.message) == (
        "llm_raised",
        f"the model raised {type(error).__name__}; {SHOWN}",
    )
    check_private(ranking, caplog.records)


@pytest.mark.parametrize(
    "reply",
    ["the reply said wombats", '{"wombats": 3}', '{"zzzz": 99}', "<think>burrow", "", "[1, 2]"],
)
def test_reports_and_logs_hold_no_text(reply, caplog):
    reranker = Reranker(Graded(Model(always(reply))))
    ranking = reranker.rerank("wombats burrow", ["the wombats", "a burrow"])
    assert ranking.report.status == "unchanged"
    check_private(ranking, caplog.records)


def test_reprs_of_prompts_hide_text():
    _, asks = judge(Graded(Model()), ["5 wombats burrow"], graded)
    prompt = asks[0].questions[0].request
    completion = Completion("the reply said wombats")
    assert "wombats" not in repr(prompt) + repr(completion) + repr(prompt.turns)
