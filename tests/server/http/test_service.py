"""Models, deadlines, strict requests, clients that leave, the bounded queue, and logs."""

import contextlib
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fakes import Answering, ByTable, InOrder, raising
from raw_http import request, until
from secondpass import ConfigurationError, Issue, Reranker
from secondpass.concurrency.turns import WIDTH
from secondpass.errors import MethodError, ModelLoadError
from secondpass.questions import ListScores
from secondpass_server.http import service
from secondpass_server.http.application import create_app
from secondpass_server.http.errors import RequestError
from secondpass_server.http.service import Service
from secondpass_server.http.settings import ServerSettings

BODY = {"query": "q", "documents": ["a", "ccc", "bb"]}
MARKER = "wombats of 1899"


def order(response):
    return [row["index"] for row in response.json()["results"]]


# ---------------------------------------------------------------------- models


@pytest.mark.parametrize(
    ("model", "strict", "answers"),
    [
        ("long", False, "long"),
        ("first", False, "first"),
        ("rerank-v3.5", False, "long"),
        (None, False, "long"),
        ("", False, "long"),
        ("first", True, "first"),
    ],
)
def test_models(model, strict, answers, serving):
    rerankers = {"long": Reranker(ByTable()), "first": Reranker(InOrder([3, 2, 1]))}
    server = serving(rerankers, strict_models=strict)
    response = server.post("/v1/rerank", {**BODY, "model": model})
    assert response.headers["secondpass-model"] == response.json()["model"] == answers
    assert order(response) == ([1, 2, 0] if answers == "long" else [0, 1, 2])
    names = [row["id"] for row in server.get("/v1/models").json()["data"]]
    assert names == ["long", "first"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("rerank-v3.5", "model: there is none of this name; known are: first"),
        ("frst", "model: there is none of this name; did you mean 'first'?"),
        (None, "model: is required; known are: first"),
    ],
)
def test_models_that_are_not_served(model, message):
    served = Service({"first": Reranker(ByTable())}, ServerSettings(strict_models=True))
    with pytest.raises(RequestError) as caught:
        served.choose(model)
    assert (caught.value.status, caught.value.message) == (404, message)


@pytest.mark.parametrize("names", [[], [""], [" a"], ["a\n"], ["é"]])
def test_servers_have_models_with_names_that_headers_can_hold(names):
    message = "printable ASCII" if names else "at least one reranker"
    with pytest.raises(ConfigurationError, match=message):
        create_app({name: Reranker(ByTable()) for name in names})


def test_not_ready_until_the_models_are_loaded(serving):
    loaded = threading.Event()
    server = serving(Reranker(ByTable(warm_up=lambda: loaded.wait(60))))
    assert server.get("/ready").json() == {"status": "loading"}
    assert [server.get(path).status_code for path in ("/ready", "/health")] == [503, 200]
    loaded.set()
    until(lambda: server.get("/ready").status_code == 200)


def test_a_model_that_failed_is_not_loading(serving, monkeypatch, caplog):
    """Nor is one of which only a fallback is loaded, which ranks."""

    class Broken(ByTable):
        fails = True

        def warm_up(self):
            if self.fails:
                raise ModelLoadError(f"no such model: {MARKER}")

    monkeypatch.setattr(service, "_RETRY_LOADING", 0.01)
    server = serving(Reranker(Broken()))
    until(lambda: server.get("/ready").json() == {"status": "a model failed"})
    assert server.get("/ready").status_code == 503
    forgiving = serving(Reranker(Broken(), fallback=[ByTable()]))
    until(lambda: "only a fallback of the model 'm' could be loaded" in caplog.text)
    assert forgiving.get("/ready").status_code == 503
    assert forgiving.post("/v1/rerank", BODY).status_code == 200
    Broken.fails = False
    until(lambda: server.get("/ready").json() == {"status": "ready"})


# ---------------------------------------------------------------------- thresholds

QUERY = "where do wombats live"
GOOD = "Wombats live in burrows in the forests of Australia."
BAD = ["Bread is baked from flour and water.", "The stock market fell on Monday."]


def test_thresholds_and_scores_do_not_depend_on_the_list(serving):
    # By minmax, the score of a single candidate is 0.5, and that of the best of any two is 1.
    presets = {
        "all": Reranker.from_preset("embedded"),
        "good": Reranker.from_preset("embedded", floor=0.6),
    }
    server = serving(presets)

    def ranked(model, documents):
        body = {"model": model, "query": QUERY, "documents": documents}
        response = server.post("/cohere/v2/rerank", body)
        assert response.headers["secondpass-scores"] == "rerank"
        rows = response.json()["results"]
        threshold = response.json()["secondpass"]["threshold"]
        assert threshold == ({"at": 0.6, "on": "rerank"} if model == "good" else None)
        return {documents[row["index"]]: row["relevance_score"] for row in rows}

    alone, among = ranked("good", [GOOD]), ranked("good", [*BAD, GOOD])
    assert [*alone] == [*among] == [GOOD]
    assert 0.6 < alone[GOOD] == pytest.approx(among[GOOD], abs=0.01)
    assert ranked("good", BAD) == {}
    assert max(ranked("all", BAD).values()) < 0.3


# ---------------------------------------------------------------------- deadlines, strict

DEADLINES = {
    "header": ({}, {}, {"secondpass_deadline": "0.1"}),
    "server": ({"deadline": 0.1}, {}, {}),
    "reranker": ({}, {"limits": {"deadline": 0.1}}, {}),
    "shortest": ({"deadline": 0.1}, {"limits": {"deadline": 60}}, {"secondpass_deadline": "60"}),
}


@pytest.mark.parametrize("case", DEADLINES)
def test_nothing_is_scored_at_the_deadline(case, serving, held):
    settings, config, headers = DEADLINES[case]
    server = serving(Reranker.from_config({"method": held, **config}), **settings)
    assert server.post("/v1/rerank", BODY, **headers).status_code == 504
    response = server.post("/v1/rerank", BODY, **headers, secondpass_strict="false")
    assert response.status_code == 200
    assert order(response) == [0, 1, 2]
    assert response.headers["secondpass-status"] == "unchanged"
    assert response.headers["secondpass-issues"] == "deadline"


FAILING = Answering(raising(OSError("the address 10.0.0.7")))
PARTIAL = Answering(lambda count: [0.5, float("nan"), 0.7])
ANSWERS = {
    # scorer and settings of the reranker, server, header: status, and that of the ranking
    "failed": (FAILING, {}, {}, None, 503, "unchanged"),
    "failed, forgiving server": (FAILING, {}, {"forgiving": True}, None, 200, "unchanged"),
    "failed, forgiving client": (FAILING, {}, {}, "false", 200, "unchanged"),
    "failed, strict client": (FAILING, {}, {"forgiving": True}, "true", 503, "unchanged"),
    "partial": (PARTIAL, {}, {}, None, 200, "partial"),
    "partial, strict client": (PARTIAL, {}, {}, "true", 503, "partial"),
    "partial, strict reranker": (PARTIAL, {"strict": True}, {}, None, 503, "partial"),
    "partial, forgiving client": (PARTIAL, {"strict": True}, {}, "false", 200, "partial"),
    "fallback": (FAILING, {"fallback": [ByTable()]}, {}, None, 200, "degraded"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_failed_and_incomplete_rankings(case, serving):
    scorer, config, settings, header, status, report = ANSWERS[case]
    server = serving(Reranker(scorer, **config), **settings)
    headers = {} if header is None else {"secondpass_strict": header}
    response = server.post("/cohere/v2/rerank", BODY, **headers)
    assert response.status_code == status
    assert response.headers["secondpass-status"] == report
    assert len(response.json().get("results", ())) == (3 if status == 200 else 0)
    # A ranking that failed counts, too.
    metrics = server.get("/metrics").text
    assert f'secondpass_rankings_total{{model="m",status="{report}"}} 1.0' in metrics
    why = "fallback" if report == "degraded" else None
    assert response.headers.get("secondpass-degraded-by") == why
    assert ('secondpass_degraded_total{by="fallback",model="m"} 1.0' in metrics) == bool(why)


def test_what_a_method_declines_is_no_failure(serving):
    """A method that keeps the order on purpose, and documents without any text."""
    kept = ListScores([0.0] * 3, [Issue("not_for_me", "another language")], 1.0)
    declining = ByTable(score_lists=lambda requests, deadline: iter([[kept]]))
    textless = {"render": {"fields": ["title?"]}}
    for reranker in (Reranker(declining), Reranker(FAILING, **textless)):
        response = serving(reranker).post("/v1/rerank", BODY)
        assert (response.status_code, order(response)) == (200, [0, 1, 2])
        assert response.headers["secondpass-status"] == "unchanged"


@pytest.mark.parametrize("text", ["", " \n", "\u200b"])
@pytest.mark.parametrize(
    ("path", "field", "score"),
    [
        ("/v1/rerank", "documents", "relevance_score"),
        ("/cohere/v2/rerank", "documents", "relevance_score"),
        ("/tei/rerank", "texts", "score"),
    ],
)
def test_a_document_without_a_visible_character_is_returned_last(path, field, score, text, serving):
    scorer = ByTable({"a": 0.1, "b": 0.7}, score_kind="probability")
    response = serving(Reranker(scorer)).post(path, {"query": "q", field: ["a", text, "b"]})
    rows = response.json()
    rows = rows if isinstance(rows, list) else rows["results"]
    assert [(row["index"], row[score]) for row in rows] == [(2, 0.7), (0, 0.1), (1, 0.0)]
    assert response.headers["secondpass-status"] == "partial"
    assert response.headers["secondpass-issues"] == "no_text"


@pytest.mark.parametrize("shown", [False, True])
def test_clients_get_codes_and_the_log_the_messages(shown, serving, caplog):
    """Messages may name internal addresses, variables of keys and paths of models."""
    error = MethodError("no answer from http://10.0.0.7:9/", "unreachable")
    server = serving(Reranker(Answering(raising(error))), issue_messages=shown)
    for headers in ({}, {"secondpass_strict": "true"}, {"secondpass_strict": "false"}):
        caplog.clear()
        response = server.post("/v1/rerank", BODY, **headers)
        assert response.headers["secondpass-issues"] == "unreachable"
        assert "unreachable" in response.text
        assert ("10.0.0.7" in response.text) == shown
        assert "10.0.0.7" in caplog.text


def test_exceptions_show_nothing(serving, caplog):
    """A scorer's exceptions are issues; those of other code are 500, without their message."""
    server = serving(Reranker(Answering(raising(ValueError(MARKER)))))
    response = server.post("/v1/rerank", {"query": MARKER, "documents": [MARKER]})
    assert response.status_code == 503
    assert response.headers["secondpass-issues"] == "scorer_raised"
    server.service.rerankers["m"].arerank = lambda *args, **options: raising(OSError(MARKER))(0)
    response = server.post("/v1/rerank", {"query": MARKER, "documents": [MARKER]})
    assert response.status_code == 500
    assert response.json()["message"] == "ranking raised OSError"
    logged = [f"{record.getMessage()} {record.exc_info}" for record in caplog.records]
    assert logged
    assert not [text for text in (response.text, *logged) if MARKER in text]


# ---------------------------------------------------------------------- clients that leave


def test_a_client_that_leaves_ends_its_ranking(serving, held):
    server = serving(Reranker(held), max_requests=1)
    with server.connect() as connection:
        connection.sendall(request(BODY))
        until(lambda: held.running)
    # Its place is free, although its scorer still runs.
    until(lambda: "499" in server.get("/metrics").text)
    assert held.running == 1
    held.go.set()
    assert order(server.post("/v1/rerank", BODY)) == [1, 2, 0]


def test_others_are_answered_soon_after_many_clients_have_left(serving):
    """The scorer does not go on with their long lists."""
    scored = []

    class Slow:
        pointwise = True

        def score_pairs(self, query, documents):
            for document in documents:
                time.sleep(0.02)
                scored.append(document)
            return [1.0] * len(documents)

    server = serving(Reranker(Slow()))
    body = {"query": "q", "documents": [f"text {number}" for number in range(100)]}
    with contextlib.ExitStack() as stack:
        for _ in range(3 * WIDTH):
            stack.enter_context(server.connect()).sendall(request(body))
        until(lambda: scored)
    assert server.post("/v1/rerank", BODY).status_code == 200
    assert len(scored) < 60 * WIDTH


# ---------------------------------------------------------------------- the queue


def test_more_requests_than_fit_are_refused_and_none_is_lost(serving, held):
    server = serving(Reranker(held), max_requests=3)
    with ThreadPoolExecutor(12) as pool:
        sent = [pool.submit(server.post, "/v1/rerank", BODY) for _ in range(12)]
        until(lambda: sum(one.done() for one in sent) == 9)
        held.go.set()
        responses = [one.result(60) for one in sent]
    codes = sorted(response.status_code for response in responses)
    assert codes == [200] * 3 + [429] * 9
    for response in responses:
        if response.status_code == 429:
            assert int(response.headers["retry-after"]) >= 1
            assert "3 requests are under way" in response.json()["message"]
        else:
            assert order(response) == [1, 2, 0]
    assert server.post("/v1/rerank", BODY).status_code == 200


# ---------------------------------------------------------------------- logs


def test_nothing_of_a_request_is_logged(serving, caplog):
    caplog.set_level(logging.INFO)
    server = serving(Reranker(Answering(lambda count: None)))
    for path in ("/v1/rerank", "/tei/rerank", "/voyage/v1/rerank", f"/{MARKER}"):
        body = {"query": MARKER, "documents": [MARKER], "texts": [MARKER], "instruction": MARKER}
        response = server.post(path, body)
        assert MARKER not in response.text
        assert MARKER not in json.dumps(dict(response.headers))
    logged = [record for record in caplog.records if record.name != "httpx"]
    assert not [record for record in logged if MARKER in record.getMessage()]
