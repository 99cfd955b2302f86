"""Exceptions of your own code: chained under strict, logged on request, otherwise only named."""

import asyncio
import json
import logging

import pytest

from fakes import Answering, Judging, Model, always, raising, shown_in
from secondpass import Issue, Ranking, Report, Reranker, RerankError
from secondpass.errors import LLMError, MethodError
from secondpass.ranking.diagnostics import log_issues, without_folders

SECRET = "passage text"
TEXTS = [SECRET, "other"]


class OwnError(Exception):
    pass


@pytest.fixture(autouse=True)
def _none_logged_before(monkeypatch):
    monkeypatch.setattr("secondpass.ranking.diagnostics._logged", set())


def broken(*_args, **_kwargs):
    raise OwnError(SECRET)


FAILED = MethodError("it failed", "own_code")
FAILED.__cause__ = OwnError(SECRET)


async def coroutine(messages):
    raise OwnError(SECRET)


def ranks(messages):
    return json.dumps({"ranking": [*shown_in(messages)]})


SETTINGS = {
    "scorer": {"method": Answering(raising(OwnError(SECRET)))},
    "method": {"method": Judging(OwnError(SECRET))},
    "method error": {"method": Judging(FAILED)},
    "function": {"method": {"type": "graded", "llm": broken}},
    "coroutine": {"method": {"type": "listwise", "llm": coroutine}},
    "one batch of many": {"method": {"type": "graded", "llm": broken, "batch_size": 1}},
    "context builder": {
        "method": {"type": "listwise", "llm": ranks, "prompt": {"context": broken}}
    },
    "stage": {
        "method": {"type": "cascade", "stages": ["lexical", {"type": "graded", "llm": broken}]}
    },
    "ordering": {"method": "lexical", "order": broken},
}


def test_a_record_is_one_line_that_no_name_can_forge(caplog):
    name = "m\x1b[2J\x9b\u202e\nERROR: all is lost"
    method = {"type": "endpoint", "api": "tei", "model": name, "base_url": "http://127.0.0.1:9"}
    Reranker(method, limits={"retries": 0}).rerank("q", TEXTS)
    (message,) = caplog.messages
    assert "model m\\x1b[2J\\x9b\\u202e\\nERROR: all is lost" in message
    assert message.isprintable()


LEVELS = [
    ("ok", ["asked_again", "batch_failed"], ["DEBUG"], "all were overcome"),
    ("ok", ["asked_again", "when_unknown"], ["ERROR"], "one was not"),
    ("partial", ["asked_again"], ["ERROR"], "candidates have no score"),
    ("partial", ["no_text"], [], "of some texts"),
    ("unchanged", ["no_text"], ["ERROR"], "of all texts"),
    ("ok", ["original_missing"], [], "of the input"),
    ("ok", ["field_missing"], ["ERROR"], "no candidate has it"),
]


@pytest.mark.parametrize(("status", "codes", "levels"), [row[:3] for row in LEVELS])
def test_issues_are_logged_at_the_level_or_at_debug(status, codes, levels, caplog):
    caplog.set_level(logging.DEBUG, "secondpass")
    report = Report(status, issues=tuple(Issue(code, "words") for code in codes))
    log_issues([Ranking("q", (), report)], "error")
    assert [record.levelname for record in caplog.records] == levels


@pytest.mark.parametrize("settings", [{"render": {"fields": ["titel", "text"]}}, {}])
def test_what_no_candidate_has_is_logged_once(settings, caplog):
    texts = [{"text": "a", "title": "b"}] if settings else ["", " "]
    reranker = Reranker("lexical", **settings)
    for _ in range(2):
        reranker.rerank("q", texts)
    (message,) = caplog.messages
    assert ("field_missing: no candidate has these fields of render: 'titel'" in message) == bool(
        settings
    )
    assert ("unchanged: no_text (2 of 2 candidates)" in message) == (not settings)


def test_a_text_that_is_missing_from_some_is_not_logged(caplog):
    Reranker("lexical", render={"fields": ["title?", "text"]}).rerank("q", ["a", ""])
    assert caplog.messages == []


def test_a_record_says_how_many_candidates_an_issue_concerns(caplog):
    issues = Issue("judged", "too long", (1, 3)), Issue("no_time", "it began too late")
    reports = [
        Report("partial", issues=issues, left_out={"top_k": (2, 3, 4)}),
        Report("partial", issues=(Issue("judged", "too long", (0,)), issues[1])),
    ]
    items = Reranker("lexical").rerank("q", TEXTS).items
    log_issues([Ranking("q", items, report) for report in reports], "error")
    assert caplog.messages == [
        "reranking is partial: judged (2 of 5 candidates): too long; no_time: it began too late",
        "reranking is partial: judged (1 of 2 candidates): too long; no_time: it began too late",
    ]
    (cause,) = {record.cause for record in caplog.records}
    assert cause == "partial; judged: too long; no_time: it began too late"


def rerank(settings, mode, **more):
    reranker = Reranker(**settings, log_level="debug", **more)
    if mode == "async":
        return asyncio.run(reranker.arerank("q", TEXTS))
    return reranker.rerank("q", TEXTS)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("case", SETTINGS)
def test_strict_chains_the_original(case, mode):
    with pytest.raises(RerankError) as caught:
        rerank(SETTINGS[case], mode, strict=True)
    assert isinstance(caught.value.__cause__, OwnError)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize(
    ("level", "parent", "logged"),
    [(logging.DEBUG, logging.NOTSET, True), (logging.NOTSET, logging.DEBUG, False)],
)
def test_traceback_is_logged_only_at_the_loggers_own_level(case, level, parent, logged, caplog):
    caplog.set_level(parent, "secondpass")
    caplog.set_level(level, "secondpass.diagnostics")
    rerank(SETTINGS[case], "sync")
    records = [one for one in caplog.records if one.name == "secondpass.diagnostics"]
    assert bool(records) == logged
    assert (SECRET in caplog.text) == logged


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_errors_of_services_are_not_chained(mode):
    model = Model(always(LLMError("down", "server_error")))
    with pytest.raises(RerankError) as caught:
        rerank({"method": {"type": "graded", "llm": model}}, mode, strict=True)
    assert caught.value.__cause__ is None
    # An object with `complete` may wrap an SDK, whose exceptions hold keys and prompts.
    model = Model(always(OwnError("sk-secret")))
    with pytest.raises(RerankError) as caught:
        rerank({"method": {"type": "graded", "llm": model}}, mode, strict=True)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


NAMES = {
    "BAAI/bge-reranker-base": "BAAI/bge-reranker-base",
    "/srv/models/bge": "bge",
    "/srv/my models/bge/": "bge",
    "./bge": "bge",
    "../models/bge": "bge",
    "~/models/bge.onnx": "bge.onnx",
    "C:\\Users\\me\\bge": "bge",
    "\\\\server\\share\\bge": "bge",
    "lexical, then graded by /models/qwen": "lexical, then graded by qwen",
    "/models/a, then ./a b/c, then BAAI/d": "a, then c, then BAAI/d",
    "data/models/bge": "bge",
    "ours at /srv/models/bge": "ours at bge",
    "/srv/stand by me/bge": "bge",
    "graded by /srv/stand by me/bge": "graded by bge",
    "x" * 300 + "/bge": "x" * 300 + "/bge",
    "https://host:80/v1/rerank": "https://host:80/v1/rerank",
    "/": "/",
    "": "",
}


@pytest.mark.parametrize(("name", "shown"), NAMES.items())
def test_names_have_no_folders(name, shown, tmp_path, monkeypatch):
    (tmp_path / "data/models/bge").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert without_folders(name) == shown
