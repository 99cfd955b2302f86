"""The reference system `tactician`: a bare list of ids, asked for with the project's context.

Every row of its table goes through the real SDK to a provider on the loopback interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import json
import logging
import os
from types import SimpleNamespace

import pytest

import fake_provider as fake
from secondpass import Candidate, ConfigurationError, Reranker, RerankError, config

KEY = "sk-test-SECRET"
QUERY = "database for the web shop"


@pytest.fixture
def provider(server, monkeypatch):
    """A provider, its key, and nothing else in the environment that clients or presets look at."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_BASE_URL", "TACTICIAN_LLM_MODEL", "TACTICIAN_RERANK_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(
        importlib.import_module("secondpass.runtime.dispatch"), "_FIRST_PAUSE", 0.01
    )
    server.schemaless = []
    server.play()
    return server


@pytest.fixture
def tactician(provider):
    """Makes rerankers of the preset that ask the provider."""
    with contextlib.ExitStack() as stack:

        def make(llm=None, **overrides):
            llm = {"base_url": provider.base_url("openai"), **(llm or {})}
            reranker = Reranker.from_preset("tactician", method={"llm": llm}, **overrides)
            stack.callback(reranker.close)
            return reranker

        yield make


def tactic(name, **fields):
    return {
        "id": name,
        "type": "storage",
        "output": f"{name} output",
        "description": f"how to {name}",
        "tags": ["sql", "backend"],
        "match": ["schema", "hosting"],
        "subtasks": [{"id": "one"}, {"id": "two"}, {"id": "three"}],
        **fields,
    }


def tactics(count=4):
    return [tactic(f"t{at}") for at in range(count)]


def nodes(completed=3, pending=4):
    done = [
        {"id": f"done-{at}", "type": "decision", "output": f"result {at}", "status": "completed"}
        for at in range(completed)
    ]
    todo = [
        {"id": f"todo-{at}", "type": "task", "output": f"goal {at}", "status": "pending"}
        for at in range(pending)
    ]
    return done + todo


def says(text):
    """A step: the model's reply is this text."""
    return lambda request: [fake.http(200, fake.envelope(request, text))]


def backwards(request):
    """A step: all ids, the last first."""
    return says(json.dumps(request.labels[::-1]))(request)


def ids(ranking):
    return [item.id for item in ranking]


def logged(caplog):
    return [record for record in caplog.records if record.name == "secondpass"]


# ---------------------------------------------------------------------- settings


def test_the_defaults(provider):
    reranker = Reranker.from_preset("tactician")
    assert reranker.depth == 10
    assert reranker.tail == "keep"
    assert reranker.log_level == "warning"
    assert not reranker.strict
    llm = reranker.method.llm
    assert (llm.model, llm.base_url) == ("gpt-4.1-mini", None)
    assert llm.key_variables == ("OPENAI_API_KEY",)


@pytest.mark.parametrize(
    ("name", "value", "depth", "model"),
    [
        ("TACTICIAN_RERANK_LIMIT", "3", 3, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", " 25 ", 25, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", "012", 12, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", "", 10, "gpt-4.1-mini"),
        ("TACTICIAN_RERANK_LIMIT", "  ", 10, "gpt-4.1-mini"),
        ("TACTICIAN_LLM_MODEL", "qwen3:8b", 10, "qwen3:8b"),
        ("TACTICIAN_LLM_MODEL", "4", 10, "4"),
        ("TACTICIAN_LLM_MODEL", "", 10, "gpt-4.1-mini"),
    ],
)
def test_the_variables(provider, tactician, rank, monkeypatch, name, value, depth, model):
    monkeypatch.setenv(name, value)
    provider.play(backwards)
    rank(tactician(), QUERY, tactics(30))
    [request] = provider.requests
    assert len(request.labels) == depth
    assert request.body["model"] == model


@pytest.mark.parametrize(
    "value",
    [
        "many",
        "7.5",
        "1e1",
        "true",
        "null",
        "[3]",
        "{a: 1}",
        "1:30",
        "0",
        "-3",
    ],
)
def test_a_limit_that_is_none_is_refused(provider, monkeypatch, value):
    monkeypatch.setenv("TACTICIAN_RERANK_LIMIT", value)
    with pytest.raises(ConfigurationError, match="TACTICIAN_RERANK_LIMIT") as caught:
        Reranker.from_preset("tactician")
    assert "depth" in str(caught.value)


def test_arguments_stand_over_the_variables(provider, tactician, monkeypatch):
    monkeypatch.setenv("TACTICIAN_RERANK_LIMIT", "many")
    monkeypatch.setenv("TACTICIAN_LLM_MODEL", "another")
    reranker = tactician({"model": "mine"}, depth=4)
    assert (reranker.depth, reranker.method.llm.model) == (4, "mine")


def test_the_variables_are_read_when_the_reranker_is_made(provider, tactician, monkeypatch):
    reranker = tactician()
    monkeypatch.setenv("TACTICIAN_RERANK_LIMIT", "2")
    assert reranker.depth == 10
    assert tactician().depth == 2


def test_what_is_sent(provider, tactician, rank):
    provider.play(backwards)
    rank(tactician(), QUERY, tactics())
    [request] = provider.requests
    assert request.path == "/openai/v1/chat/completions"
    assert request.key == KEY
    assert request.body["model"] == "gpt-4.1-mini"
    # No schema: those are for objects, and what is asked for is an array.
    assert request.body.keys() == {"model", "messages", "temperature"}


def test_a_compatible_server_needs_no_key(provider, tactician, rank, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    provider.play(backwards)
    ranking = rank(
        tactician({"base_url": provider.base_url("compatible"), "model": "local"}), QUERY, tactics()
    )
    assert ids(ranking) == ["t3", "t2", "t1", "t0"]
    assert provider.requests[0].flavour == "compatible"


def test_the_address_may_come_from_the_sdks_variable(provider, rank, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url("openai"))
    provider.play(backwards)
    reranker = Reranker.from_preset("tactician")
    assert ids(rank(reranker, QUERY, tactics())) == ["t3", "t2", "t1", "t0"]
    reranker.close()


# ---------------------------------------------------------------------- the prompt


def test_the_fields_of_a_candidate(provider, tactician, rank):
    provider.play(backwards)
    rank(tactician(), QUERY, [tactic("pg", internal="not shown", score=0.7), tactic("redis")])
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
def test_fields_of_other_shapes(provider, tactician, fields, shown):
    provider.play(backwards)
    tactician().rerank(QUERY, [tactic("odd", **fields), tactic("usual")])
    text = provider.requests[0].documents["odd"]
    name = next(iter(fields))
    assert (shown in text) if shown else (f"{name}:" not in text)


def test_candidates_with_little_to_show(provider, tactician, rank):
    provider.play(backwards)
    ranking = rank(tactician(), QUERY, [{"id": "bare"}, {"id": "text", "text": "a text"}])
    assert provider.requests[0].documents == {"bare": "id: bare", "text": "id: text\ntext: a text"}
    assert ids(ranking) == ["text", "bare"]


def test_a_text_that_is_the_description_is_shown_once(provider, tactician):
    provider.play(backwards)
    repeated = tactic("same", text="how to same\n")
    other = tactic("other", text="another text")
    tactician().rerank(QUERY, [repeated, other])
    shown = provider.requests[0].documents
    assert shown["same"].count("how to same") == 1
    assert "description: how to same" in shown["same"]
    assert "text: another text" in shown["other"]


def test_the_query_and_the_counts(provider, tactician, rank):
    provider.play(backwards)
    rank(tactician(), QUERY, tactics(13), context=nodes(3, 4))
    said = "\n".join(provider.requests[0].messages)
    assert f"<query>{QUERY}</query>" in said
    assert "Completed: 3" in said
    assert "Pending: 4" in said
    assert "The 10 documents are tactics" in said
    assert "Reply with ONLY a JSON array" in said
    assert '["<id>", "<id>", ...]' in said
    assert provider.requests[0].labels == [f"t{at}" for at in range(10)]


def context_of(request):
    _system, user = request.messages
    return user.partition("<context>")[2].partition("</context>")[0].splitlines()


def test_the_context(provider, tactician, rank):
    provider.play(backwards)
    rank(tactician(), QUERY, tactics(), context=nodes(2, 2))
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


@pytest.mark.parametrize("pending", [0, 1, 9, 10, 11, 60])
def test_all_outputs_and_ten_goals(provider, tactician, pending):
    provider.play(backwards)
    tactician().rerank(QUERY, tactics(), context=nodes(120, pending))
    lines = context_of(provider.requests[0])
    assert lines[:2] == ["Completed: 120", f"Pending: {pending}"]
    assert [line for line in lines if "result" in line] == [f"- result {at}" for at in range(120)]
    assert [line for line in lines if "todo" in line] == [
        f"- todo-{at} / goal {at} / task" for at in range(min(pending, 10))
    ]


@pytest.mark.parametrize(
    "shape",
    [
        lambda given: {"name": "shop", "nodes": given},
        tuple,
        lambda given: {node["id"]: node for node in given},
        lambda given: {node["id"]: {**node, "id": None} for node in given},
        lambda given: {"nodes": {node["id"]: node for node in given}},
        lambda given: [SimpleNamespace(**node) for node in given],
        lambda given: [
            {**node, "status": None, "completed": node["status"] == "completed"} for node in given
        ],
    ],
    ids=[
        "a project",
        "a tuple",
        "by id",
        "by id alone",
        "a project by id",
        "objects",
        "flags",
    ],
)
def test_nodes_of_other_shapes(provider, tactician, shape):
    provider.play(backwards)
    reranker = tactician()
    for given in (nodes(), shape(nodes())):
        reranker.rerank(QUERY, tactics(), context=given)
    first, second = provider.requests
    assert first.messages == second.messages


def test_a_context_in_words(provider, tactician, rank):
    provider.play(backwards)
    ranking = rank(tactician(), QUERY, tactics(), context="The shop has no database yet.")
    assert ranking.report.status == "ok"
    assert context_of(provider.requests[0]) == ["The shop has no database yet."]


def test_nodes_with_little_to_show(provider, tactician):
    provider.play(backwards)
    project = [{"id": "a", "status": "completed"}, {"id": "b"}, {"status": "pending", "type": "x"}]
    tactician().rerank(QUERY, tactics(), context=project)
    assert context_of(provider.requests[0]) == [
        "Completed: 1",
        "Pending: 2",
        "Outputs of completed nodes:",
        "Pending goals (id / output / type):",
        "- b / - / -",
        "- - / - / x",
    ]


def test_without_a_project_there_is_no_context(provider, tactician, rank):
    provider.play(backwards)
    ranking = rank(tactician(), QUERY, tactics())
    assert not any("<context>" in text for text in provider.requests[0].messages[1:])
    assert ranking.report.status == "ok"


def test_the_number_of_goals_can_be_another(provider):
    provider.play(backwards)
    llm = {"base_url": provider.base_url("openai")}
    prompt = {"context": {"type": "project", "pending": 2}}
    with contextlib.closing(
        Reranker.from_preset("tactician", method={"llm": llm, "prompt": prompt})
    ) as reranker:
        reranker.rerank(QUERY, tactics(), context=nodes(1, 9))
    assert len([line for line in context_of(provider.requests[0]) if "todo" in line]) == 2


def test_the_same_input_gives_the_same_bytes(provider, tactician):
    provider.play(backwards)
    for reranker in (tactician(), tactician()):
        for _ in range(2):
            # Copies, so that nothing can depend on which object it was.
            reranker.rerank(QUERY, copy.deepcopy(tactics()), context=copy.deepcopy(nodes()))
    assert len({json.dumps(request.body) for request in provider.requests}) == 1
    assert provider.calls == 4


def test_outputs_that_are_sets_have_one_order(provider, tactician):
    provider.play(backwards)
    # Equal sets, iterated differently: 0 and 8 fall into the same place of a small table.
    for output in ({0, 8}, {8, 0}):
        project = [{"id": "a", "output": output, "status": "completed"}]
        tactician().rerank(QUERY, tactics(), context=project)
    first, second = provider.requests
    assert first.messages == second.messages


# ---------------------------------------------------------------------- the reply

READ = {
    "valid": ('["t2", "t0", "t3", "t1"]', "t2 t0 t3 t1"),
    "as it was": ('["t0", "t1", "t2", "t3"]', "t0 t1 t2 t3"),
    "missing ids keep their old order": ('["t3"]', "t3 t0 t1 t2"),
    "two are missing": ('["t2", "t1"]', "t2 t1 t0 t3"),
    "unknown ids are ignored": ('["x9", "t2", "t0", "nope", "t3", "t1"]', "t2 t0 t3 t1"),
    "unknown and missing": ('["x9", "t2"]', "t2 t0 t1 t3"),
    "an id of the tail is unknown": ('["t4", "t3", "t2", "t1", "t0"]', "t3 t2 t1 t0"),
    "twice: the first counts": ('["t3", "t1", "t3", "t0", "t2"]', "t3 t1 t0 t2"),
    "fenced": ('```json\n["t2", "t0", "t3", "t1"]\n```', "t2 t0 t3 t1"),
    "in prose": ('Here you are: ["t2", "t0", "t3", "t1"]. Enjoy!', "t2 t0 t3 t1"),
    "in an object": ('{"order": ["t2", "t0", "t3", "t1"]}', "t2 t0 t3 t1"),
    "things that are no ids": ('["t2", null, 7, {"a": 1}, ["t0"], "t1"]', "t2 t1 t0 t3"),
}


@pytest.mark.parametrize(("reply", "head"), READ.values(), ids=READ)
def test_replies_that_are_read(provider, tactician, rank, reply, head):
    provider.play(says(reply))
    ranking = rank(tactician(depth=4), QUERY, tactics(6))
    assert ids(ranking) == [*head.split(), "t4", "t5"]
    assert provider.calls == 1


def test_what_a_reply_leaves_out_or_makes_up_is_told(provider, tactician, rank, caplog):
    provider.play(says('["x9", "t2"]'))
    ranking = rank(tactician(), QUERY, tactics(3))
    told = {issue.code: issue.ids for issue in ranking.report.issues}
    assert told == {"not_in_reply": ("t0", "t1"), "unknown_label": ()}
    assert [item.status for item in ranking] == ["scored", "backfilled", "backfilled"]
    assert ranking.report.status == "partial"
    [record] = logged(caplog)
    assert record.levelno == logging.WARNING


def test_ids_that_repeat_or_are_numbers(provider, tactician, rank):
    provider.play(lambda request: says(json.dumps([12, *request.labels[::-1][:2]]))(request))
    given = [tactic("same"), tactic("same"), tactic(12)]
    ranking = rank(tactician(), QUERY, given)
    assert ranking.order == (2, 1, 0)
    assert ids(ranking) == ["12", "same", "same"]


def test_everything_of_a_candidate_comes_back(provider, tactician, rank):
    provider.play(backwards)
    given = tactics()
    before = copy.deepcopy(given)
    for item in rank(tactician(), QUERY, given, context=nodes()):
        fields = {key: value for key, value in before[item.position].items() if key != "id"}
        assert item.metadata == {**fields, "rerank_score": item.rerank_score}
    assert given == before


# ---------------------------------------------------------------------- the head and the limit


def test_the_limit_of_the_output_comes_last(provider, tactician, rank):
    found = [
        tactic(f"t{at}", heuristic=at % 7, ready=at % 3 != 0) for at in range(30)
    ]  # as a search finds them
    ready = [one for one in found if one["ready"]]
    baseline = sorted(ready, key=lambda one: -one["heuristic"])
    provider.play(backwards)
    ranking = rank(tactician(), QUERY, baseline, top_k=12)
    names = [one["id"] for one in baseline]
    assert provider.requests[0].labels == names[:10]  # not cut to the limit before
    assert ids(ranking) == [*names[:10][::-1], *names[10:12]]
    assert ids(rank(tactician(), QUERY, baseline, top_k=3)) == names[9:6:-1]


@pytest.mark.parametrize("depth", [2, 3, 10, 40])
def test_candidates_beyond_the_limit_keep_their_order(provider, tactician, rank, depth):
    provider.play(backwards)
    ranking = rank(tactician(depth=depth), QUERY, tactics(15))
    head = min(depth, 15)
    assert list(ranking.order) == [*reversed(range(head)), *range(head, 15)]
    assert [item.status for item in ranking] == ["scored"] * head + ["tail"] * (15 - head)
    assert ranking.report.status == "ok"
    assert ranking.report.usage.calls == 1


@pytest.mark.parametrize("count", [0, 1])
def test_where_there_is_nothing_to_order_nothing_is_asked(provider, tactician, rank, count):
    ranking = rank(tactician(), QUERY, tactics(count), context=nodes())
    assert len(ranking) == count
    assert (ranking.report.status, ranking.report.issues, provider.calls) == ("ok", (), 0)


# ---------------------------------------------------------------------- faults

FAULTS = {
    "500": (fake.status(500), "server_error"),
    "429": (fake.status(429), "rate_limited"),
    "401": (fake.status(401), "authentication"),
    "404": (fake.status(404), "not_found"),
    "no credit": (fake.status(429, error_code="insufficient_quota"), "quota"),
    "reset": (fake.raw(fake.End.RESET), "connection"),
    "a web page": (fake.page(), "bad_response"),
    "prose": (says("t2 is the best, then t0."), "reply_refused"),
    "broken JSON": (says('["t2", "t0'), "reply_refused"),
    "two arrays": (says('["t2", "t0"] or ["t0", "t2"]'), "reply_refused"),
    "an empty array": (says("[]"), "reply_refused"),
    "unknown ids only": (says('["x", "y"]'), "reply_refused"),
    "an object": (says('{"t2": 1, "t0": 2}'), "reply_refused"),
    "nothing": (says(""), "empty_reply"),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("step", "code"), FAULTS.values(), ids=FAULTS)
def test_faults(provider, tactician, rank, caplog, step, code, strict):
    provider.play(step)
    reranker = tactician(strict=strict)
    if strict:
        with pytest.raises(RerankError, match=code) as caught:
            rank(reranker, QUERY, tactics(12), context=nodes())
        ranking = caught.value.ranking
    else:
        ranking = rank(reranker, QUERY, tactics(12), context=nodes())
        [record] = logged(caplog)
        assert record.levelno == logging.WARNING
        assert code in record.getMessage()
        assert not any(secret in record.getMessage() for secret in (KEY, QUERY, "result 0"))
    assert ids(ranking) == [f"t{at}" for at in range(12)]
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues[-1].code == code
    assert ranking.report.usage.calls == provider.calls


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("value", [None, "", " "])
def test_without_a_key(provider, rank, monkeypatch, caplog, value, strict):
    if value is None:
        monkeypatch.delenv("OPENAI_API_KEY")
    else:
        monkeypatch.setenv("OPENAI_API_KEY", value)
    # No address either, so a request would leave this machine: the key is looked for first.
    reranker = Reranker.from_preset("tactician", strict=strict)
    if strict:
        with pytest.raises(RerankError, match="OPENAI_API_KEY"):
            rank(reranker, QUERY, tactics())
        return
    ranking = rank(reranker, QUERY, tactics())
    assert ids(ranking) == ["t0", "t1", "t2", "t3"]
    [issue] = ranking.report.issues
    assert (issue.code, provider.calls) == ("no_key", 0)
    [record] = logged(caplog)
    assert record.levelno == logging.WARNING
    assert "OPENAI_API_KEY" in record.getMessage()


def test_a_passing_fault_is_overcome(provider, tactician, rank):
    provider.play(fake.status(503), says("no idea"), backwards)
    ranking = rank(tactician(), QUERY, tactics())
    assert ids(ranking) == ["t3", "t2", "t1", "t0"]
    assert ranking.report.status == "ok"
    assert [issue.code for issue in ranking.report.issues] == ["asked_again", "asked_again"]


@pytest.mark.parametrize("context", [7, {"goals": []}, {"nodes": None}, ["a goal"]])
def test_a_context_that_is_no_project(provider, tactician, rank, caplog, context):
    ranking = rank(tactician(), QUERY, tactics(), context=context)
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

    reranker = Reranker.from_preset("tactician", method={"llm": client})
    assert ids(rank(reranker, QUERY, tactics(2), context=nodes())) == ["t1", "t0"]
    [[system, user]] = seen
    assert (system["role"], user["role"]) == ("system", "user")
    assert "goal 0" in user["content"]


def test_an_asynchronous_fake_client(rank):
    async def client(messages):
        await asyncio.sleep(0)
        return '["t1", "t0"]'

    reranker = Reranker.from_preset("tactician", method={"llm": client})
    assert ids(rank(reranker, QUERY, tactics(2))) == ["t1", "t0"]


def of_the_preset(provider, **prompt):
    method = {"llm": {"base_url": provider.base_url("openai")}, "prompt": prompt}
    return config.preset("tactician", method=method)


@pytest.mark.parametrize("fault", [False, True])
def test_in_haystack(provider, fault):
    haystack = pytest.importorskip("haystack")
    rankers = pytest.importorskip("haystack_integrations.components.rankers.secondpass")
    provider.play(fake.status(404) if fault else backwards)
    ranker = rankers.SecondPassRanker(of_the_preset(provider))
    documents = [haystack.Document(id=one.pop("id"), content=None, meta=one) for one in tactics(12)]
    outputs = [
        ranker.run(query=QUERY, documents=documents, context=nodes(), top_k=11),
        asyncio.run(ranker.run_async(query=QUERY, documents=documents, context=nodes(), top_k=11)),
    ]
    ranker.close()
    for output in outputs:
        order = [*range(10), 10] if fault else [*reversed(range(10)), 10]
        assert [one.id for one in output["documents"]] == [f"t{at}" for at in order]
        assert output["report"]["status"] == ("unchanged" if fault else "ok")
    for request in provider.requests:
        assert "output: t3 output" in request.documents["t3"]
        assert "- result 2" in context_of(request)


@pytest.mark.parametrize("fault", [False, True])
def test_in_llama_index(provider, fault):
    schema = pytest.importorskip("llama_index.core.schema")
    postprocessor = pytest.importorskip("llama_index.postprocessor.secondpass")
    provider.play(fake.status(404) if fault else backwards)
    rerank = postprocessor.SecondPassRerank(of_the_preset(provider), top_n=11)
    given = [
        schema.NodeWithScore(node=schema.TextNode(id_=one.pop("id"), metadata=one))
        for one in tactics(12)
    ]
    outputs = [
        rerank.rerank_nodes(given, QUERY, context=nodes()),
        asyncio.run(rerank.arerank_nodes(given, QUERY, context=nodes())),
    ]
    with rerank.query_settings(context=nodes()):  # as in an engine
        outputs.append((rerank.postprocess_nodes(given, query_str=QUERY), outputs[0][1]))
    rerank.close()
    for ranked, report in outputs:
        order = [*range(10), 10] if fault else [*reversed(range(10)), 10]
        assert [one.node.node_id for one in ranked] == [f"t{at}" for at in order]
        assert report.status == ("unchanged" if fault else "ok")
    for request in provider.requests:
        assert "output: t3 output" in request.documents["t3"]
        assert "- result 2" in context_of(request)


def test_adapters_show_a_description_once(provider):
    haystack = pytest.importorskip("haystack")
    rankers = pytest.importorskip("haystack_integrations.components.rankers.secondpass")
    schema = pytest.importorskip("llama_index.core.schema")
    postprocessor = pytest.importorskip("llama_index.postprocessor.secondpass")
    provider.play(backwards)
    given = [(one.pop("id"), one["description"], one) for one in tactics(2)]
    ranker = rankers.SecondPassRanker(of_the_preset(provider))
    documents = [haystack.Document(id=name, content=text, meta=one) for name, text, one in given]
    ranker.run(query=QUERY, documents=documents)
    ranker.close()
    rerank = postprocessor.SecondPassRerank(of_the_preset(provider))
    found = [schema.TextNode(id_=name, text=text, metadata=one) for name, text, one in given]
    rerank.rerank_nodes([schema.NodeWithScore(node=node) for node in found], QUERY)
    rerank.close()
    for request in provider.requests:
        assert request.documents["t0"].count("how to t0") == 1


@pytest.mark.integration
@pytest.mark.skipif(not os.environ.get("OPENAI_API_KEY"), reason="needs OPENAI_API_KEY")
def test_live():
    reranker = Reranker.from_preset("tactician", strict=True)
    given = [
        Candidate("", "paint-the-office", metadata={"description": "choose colours, buy paint"}),
        Candidate("", "choose-database", metadata={"description": "compare databases, pick one"}),
    ]
    ranking = reranker.rerank("database", given, context=nodes())
    reranker.close()
    assert ids(ranking)[0] == "choose-database"
