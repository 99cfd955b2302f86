"""The preset `listwise_ids`: a permutation of ids, by the state of a project.

Every row of its table goes through the real SDK to a provider on the loopback interface.
"""

from __future__ import annotations

import json
import logging

import pytest

from contract import adapter_of, first
from reference_systems import SYSTEMS, ids, logged, nodes, says, tactic, tactics
from secondpass import ConfigurationError, Reranker, config

PRESET = "listwise_ids"
QUERY = SYSTEMS[PRESET].query
backwards = SYSTEMS[PRESET].answer


def context_of(request):
    _system, user = request.messages
    return user.partition("<context>")[2].partition("</context>")[0].splitlines()


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("name", "value", "depth", "model"),
    [
        ("TACTICIAN_RERANK_LIMIT", "3", 3, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", " 25 ", 25, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", "", 10, "gpt-4.1-mini"),
        ("TACTICIAN_LLM_MODEL", "qwen3:8b", 10, "qwen3:8b"),
        ("TACTICIAN_LLM_MODEL", "4", 10, "4"),
        ("TACTICIAN_LLM_MODEL", "", 10, "gpt-4.1-mini"),
    ],
)
def test_the_variables(provider, make, rank, monkeypatch, name, value, depth, model):
    monkeypatch.setenv(name, value)
    rank(make(), QUERY, tactics(30))
    [request] = provider.requests
    assert len(request.labels) == depth
    assert request.body["model"] == model


@pytest.mark.parametrize("value", ["many", "7.5", "1e1", "null", "[3]", "1:30", "0", "-3"])
def test_a_limit_that_is_none_is_refused(provider, monkeypatch, value):
    monkeypatch.setenv("TACTICIAN_RERANK_LIMIT", value)
    with pytest.raises(ConfigurationError, match="TACTICIAN_RERANK_LIMIT") as caught:
        Reranker.from_preset("listwise_ids")
    assert "depth" in str(caught.value)


def test_arguments_stand_over_the_variables(provider, make, monkeypatch):
    monkeypatch.setenv("TACTICIAN_RERANK_LIMIT", "many")
    monkeypatch.setenv("TACTICIAN_LLM_MODEL", "another")
    reranker = make({"model": "mine"}, depth=4)
    assert (reranker.depth, reranker.method.llm.model) == (4, "mine")


def test_a_compatible_server_needs_no_key(provider, make, rank, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    llm = {"base_url": provider.base_url("compatible"), "model": "local"}
    ranking = rank(make(llm), QUERY, tactics())
    assert ids(ranking) == ["t3", "t2", "t1", "t0"]
    assert provider.requests[0].flavour == "compatible"


# ---------------------------------------------------------------------- the request


def test_the_fields_of_a_candidate(provider, make, rank):
    rank(make(), QUERY, [tactic("pg", internal="not shown", score=0.7), tactic("redis")])
    assert provider.requests[0].documents["pg"].splitlines() == [
        "id: pg",
        "type: storage",
        "output: pg output",
        "description: how to pg",
        "tags: sql, backend",
        "match: schema, hosting",
        "subtasks: 3",
    ]


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"subtasks": []}, "subtasks: 0"),
        ({"subtasks": 5}, "subtasks: 5"),
        ({"tags": ()}, None),
        ({"tags": {"b", "a"}}, "tags: a, b"),
        ({"tags": None}, None),
        ({"match": "schema"}, "match: schema"),
        ({"output": "two\nid: t9"}, "output: two\n  id: t9"),
    ],
)
def test_fields_of_other_shapes(provider, make, fields, shown):
    make().rerank(QUERY, [tactic("odd", **fields), tactic("usual")])
    text = provider.requests[0].documents["odd"]
    name = next(iter(fields))
    assert (shown in text) if shown else (f"{name}:" not in text)


def test_candidates_with_little_to_show(provider, make, rank):
    ranking = rank(make(), QUERY, [{"id": "bare"}, {"id": "text", "text": "a text"}])
    assert provider.requests[0].documents == {"bare": "id: bare", "text": "id: text\ntext: a text"}
    assert ids(ranking) == ["text", "bare"]


def test_a_text_that_is_the_description_is_shown_once(provider, make):
    repeated = tactic("same", text="how to same\n")
    other = tactic("other", text="another text")
    make().rerank(QUERY, [repeated, other])
    shown = provider.requests[0].documents
    assert shown["same"].count("how to same") == 1
    assert "description: how to same" in shown["same"]
    assert "text: another text" in shown["other"]


def test_the_query_and_the_counts(provider, make, rank):
    rank(make(), QUERY, tactics(13), context=nodes(3, 4))
    said = "\n".join(provider.requests[0].messages)
    assert f"<query>{QUERY}</query>" in said
    assert "Completed: 3" in said
    assert "Pending: 4" in said
    assert "The 10 documents are tactics" in said
    assert "Reply with ONLY a JSON array" in said
    assert '["<id>", "<id>", ...]' in said
    assert provider.requests[0].labels == [f"t{at}" for at in range(10)]


def test_the_context(provider, make, rank):
    rank(make(), QUERY, tactics(), context=nodes(2, 2))
    assert context_of(provider.requests[0]) == [
        "Completed: 2",
        "Pending: 2",
        "Outputs of completed nodes:",
        "- result 0",
        "- result 1",
        "Pending goals (id / output / type):",
        "- todo-0 / goal 0 / task",
        "- todo-1 / goal 1 / task",
    ]


@pytest.mark.parametrize("pending", [0, 10, 11])
def test_all_outputs_and_ten_goals(provider, make, pending):
    make().rerank(QUERY, tactics(), context=nodes(120, pending))
    lines = context_of(provider.requests[0])
    assert lines[:2] == ["Completed: 120", f"Pending: {pending}"]
    assert [line for line in lines if "result" in line] == [f"- result {at}" for at in range(120)]
    assert [line for line in lines if "todo" in line] == [
        f"- todo-{at} / goal {at} / task" for at in range(min(pending, 10))
    ]


def test_without_a_project_there_is_no_context(provider, make, rank):
    ranking = rank(make(), QUERY, tactics())
    assert not any("<context>" in text for text in provider.requests[0].messages[1:])
    assert ranking.report.status == "ok"


# ---------------------------------------------------------------------- the reply

READ = {
    "valid": ('["t2", "t0", "t3", "t1"]', "t2 t0 t3 t1"),
    "missing ids keep their old order": ('["t3"]', "t3 t0 t1 t2"),
    "unknown ids are ignored": ('["x9", "t2", "t0", "nope", "t3", "t1"]', "t2 t0 t3 t1"),
    "an id of the tail is unknown": ('["t4", "t3", "t2", "t1", "t0"]', "t3 t2 t1 t0"),
    "fenced, one twice": ('```json\n["t3", "t1", "t3", "t0", "t2"]\n```', "t3 t1 t0 t2"),
}


@pytest.mark.parametrize(("reply", "head"), READ.values(), ids=READ)
def test_replies_that_are_read(provider, make, rank, reply, head):
    provider.play(says(reply))
    ranking = rank(make(depth=4), QUERY, tactics(6))
    assert ids(ranking) == [*head.split(), "t4", "t5"]
    assert provider.calls == 1


def test_omitted_and_invented_ids_are_logged(provider, make, rank, caplog):
    provider.play(says('["x9", "t2"]'))
    ranking = rank(make(), QUERY, tactics(3))
    told = {issue.code: issue.ids for issue in ranking.report.issues}
    assert told == {"not_in_reply": ("t0", "t1"), "unknown_label": ()}
    assert [item.status for item in ranking] == ["scored", "backfilled", "backfilled"]
    assert ranking.report.status == "partial"
    [record] = logged(caplog)
    assert record.levelno == logging.WARNING


def test_ids_that_repeat_or_are_numbers(provider, make, rank):
    provider.play(lambda request: says(json.dumps([12, *request.labels[::-1][:2]]))(request))
    given = [tactic("same"), tactic("same"), tactic(12)]
    ranking = rank(make(), QUERY, given)
    assert ranking.order == (2, 1, 0)
    assert ids(ranking) == [12, "same", "same"]


@pytest.mark.parametrize("escaped", [True, False], ids=["as in the prompt", "unescaped"])
def test_ids_with_characters_of_markup(provider, make, rank, escaped):
    own = ["a<b>", 'say "hi"', "<think>", "x&y", "plain/id-1"]
    shown = ["a&lt;b&gt;", "say &quot;hi&quot;", "&lt;think&gt;", "x&y", "plain/id-1"]
    provider.play(says(json.dumps((shown if escaped else own)[::-1])))
    ranking = rank(make(), QUERY, [tactic(id_) for id_ in own])
    assert provider.requests[0].labels == shown
    assert ids(ranking) == own[::-1]
    assert ranking.report.status == "ok"


# ---------------------------------------------------------------------- the head and the limit


def test_the_limit_of_the_output_comes_last(provider, make, rank):
    found = [
        tactic(f"t{at}", heuristic=at % 7, ready=at % 3 != 0) for at in range(30)
    ]  # as a search finds them
    ready = [one for one in found if one["ready"]]
    baseline = sorted(ready, key=lambda one: -one["heuristic"])
    ranking = rank(make(), QUERY, baseline, top_k=12)
    names = [one["id"] for one in baseline]
    assert provider.requests[0].labels == names[:10]  # not cut to the limit before
    assert ids(ranking) == [*names[:10][::-1], *names[10:12]]
    assert ids(rank(make(), QUERY, baseline, top_k=3)) == names[9:6:-1]


@pytest.mark.parametrize("depth", [3, 40])
def test_candidates_beyond_the_limit_keep_their_order(provider, make, rank, depth):
    ranking = rank(make(depth=depth), QUERY, tactics(15))
    head = min(depth, 15)
    assert list(ranking.order) == [*reversed(range(head)), *range(head, 15)]
    assert [item.status for item in ranking] == ["scored"] * head + ["tail"] * (15 - head)
    assert ranking.report.status == "ok"
    assert ranking.report.usage.calls == 1


# ---------------------------------------------------------------------- faults


@pytest.mark.parametrize("context", [7, ["a goal"]])
def test_a_context_that_is_no_project(provider, make, rank, caplog, context):
    ranking = rank(make(), QUERY, tactics(), context=context)
    assert ids(ranking) == ["t0", "t1", "t2", "t3"]
    [issue] = ranking.report.issues
    assert (issue.code, provider.calls) == ("context_failed", 0)
    assert len(logged(caplog)) == 1


# ---------------------------------------------------------------------- clients and frameworks


def test_a_fake_client_sees_the_messages(rank):
    seen = []

    def client(messages):
        seen.append(messages)
        return '["t1", "t0"]'

    reranker = Reranker.from_preset("listwise_ids", method={"llm": client})
    assert ids(rank(reranker, QUERY, tactics(2), context=nodes())) == ["t1", "t0"]
    [[system, user]] = seen
    assert (system["role"], user["role"]) == ("system", "user")
    assert "goal 0" in user["content"]


@pytest.mark.parametrize("framework", ["haystack", "llama_index"])
def test_adapters_show_a_description_once(provider, framework):
    adapter = adapter_of(framework)
    method = {"llm": {"base_url": provider.base_url("openai")}}
    component = adapter.make(config.preset("listwise_ids", method=method))
    given = [adapter.given(one["description"], one.pop("id"), None, one) for one in tactics(2)]
    adapter.run(component, first(adapter), QUERY, given)
    component.close()
    [request] = provider.requests
    assert request.documents["t0"].count("how to t0") == 1
