"""The built-in descriptions, compared with what the clients of their authors send."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secondpass.apis.decision_descriptions import DECISION_APIS
from secondpass.apis.decisions import Decisions
from secondpass.apis.wire import RerankRequest, request_url
from secondpass.prompts.labels import replace_secret

CLIENTS = json.loads(
    (Path(__file__).parents[2] / "support" / "decision_clients.json").read_text(encoding="utf-8")
)
"""What the clients send; written by ``tools/verify_rerank_apis.py --record``."""
BODIES = [(api, name) for api, client in CLIENTS.items() for name in client["bodies"]]
NUMBERS = ["3 a", "9 b", "5 c"]
LEVELS = ["none of it", "some of it", "all of it"]
INSTRUCTIONS = {"graded": "Rate {document}.", "yes_no": "{document} answers it."}


@pytest.fixture(autouse=True)
def _recorded_labels():
    before = replace_secret(b"verification")
    yield
    replace_secret(before)


def test_each_has_a_client():
    assert set(DECISION_APIS) == set(CLIENTS)
    assert len(BODIES) == 4 * len(CLIENTS)


@pytest.mark.parametrize("name", DECISION_APIS)
def test_what_it_was_checked_against(name):
    known = DECISION_APIS[name].verified
    assert (known.by, known.version) == (CLIENTS[name]["package"], CLIENTS[name]["version"])


@pytest.mark.parametrize(("api", "name"), BODIES)
def test_bodies_are_those_of_the_client(api, name):
    layout, question = name.split()
    theirs = CLIENTS[api]["bodies"][name]
    method = Decisions(
        api,
        model=theirs["model"],
        layout=layout,
        question=question,
        instructions=INSTRUCTIONS[question],
        levels=LEVELS if question == "graded" else None,
    )
    texts = NUMBERS[:1] if layout == "each" else NUMBERS
    assert method._body(RerankRequest("q", texts), ()) == theirs


@pytest.mark.parametrize("name", DECISION_APIS)
def test_addresses_and_keys_are_those_of_the_client(name):
    api, client = DECISION_APIS[name], CLIENTS[name]
    assert request_url(api, "http://h", None, "m") == f"http://h{client['path']}"
    header = "authorization: Bearer" if api.auth is None else api.auth.header
    assert client["key"] == header


@pytest.mark.parametrize("name", DECISION_APIS)
def test_renaming_reaches_requests_and_responses(name):
    api = DECISION_APIS[name]
    renamed = api.renamed({"answers": "results", "model": "engine", "instructions": "ask"})
    assert renamed.answers == "results"
    assert renamed.request.keys() - api.request.keys() == {"engine"}
    assert "ask" in renamed.yes_no.question
    assert "ask" in renamed.graded.question
    assert renamed.yes_no.question["ask"] == "$instructions"
    assert api.renamed({}) is api
