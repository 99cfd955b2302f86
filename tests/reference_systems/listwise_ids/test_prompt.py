"""The prompt."""

from __future__ import annotations

import pytest

from tactic_candidates import QUERY, backwards, context_of, ids, nodes, tactic, tactics


def test_the_fields_of_a_candidate(provider, listwise_ids, rank):
    provider.play(backwards)
    rank(listwise_ids(), QUERY, [tactic("pg", internal="not shown", score=0.7), tactic("redis")])
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
def test_fields_of_other_shapes(provider, listwise_ids, fields, shown):
    provider.play(backwards)
    listwise_ids().rerank(QUERY, [tactic("odd", **fields), tactic("usual")])
    text = provider.requests[0].documents["odd"]
    name = next(iter(fields))
    assert (shown in text) if shown else (f"{name}:" not in text)


def test_candidates_with_little_to_show(provider, listwise_ids, rank):
    provider.play(backwards)
    ranking = rank(listwise_ids(), QUERY, [{"id": "bare"}, {"id": "text", "text": "a text"}])
    assert provider.requests[0].documents == {"bare": "id: bare", "text": "id: text\ntext: a text"}
    assert ids(ranking) == ["text", "bare"]


def test_a_text_that_is_the_description_is_shown_once(provider, listwise_ids):
    provider.play(backwards)
    repeated = tactic("same", text="how to same\n")
    other = tactic("other", text="another text")
    listwise_ids().rerank(QUERY, [repeated, other])
    shown = provider.requests[0].documents
    assert shown["same"].count("how to same") == 1
    assert "description: how to same" in shown["same"]
    assert "text: another text" in shown["other"]


def test_the_query_and_the_counts(provider, listwise_ids, rank):
    provider.play(backwards)
    rank(listwise_ids(), QUERY, tactics(13), context=nodes(3, 4))
    said = "\n".join(provider.requests[0].messages)
    assert f"<query>{QUERY}</query>" in said
    assert "Completed: 3" in said
    assert "Pending: 4" in said
    assert "The 10 documents are tactics" in said
    assert "Reply with ONLY a JSON array" in said
    assert '["<id>", "<id>", ...]' in said
    assert provider.requests[0].labels == [f"t{at}" for at in range(10)]


def test_the_context(provider, listwise_ids, rank):
    provider.play(backwards)
    rank(listwise_ids(), QUERY, tactics(), context=nodes(2, 2))
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
def test_all_outputs_and_ten_goals(provider, listwise_ids, pending):
    provider.play(backwards)
    listwise_ids().rerank(QUERY, tactics(), context=nodes(120, pending))
    lines = context_of(provider.requests[0])
    assert lines[:2] == ["Completed: 120", f"Pending: {pending}"]
    assert [line for line in lines if "result" in line] == [f"- result {at}" for at in range(120)]
    assert [line for line in lines if "todo" in line] == [
        f"- todo-{at} / goal {at} / task" for at in range(min(pending, 10))
    ]


def test_without_a_project_there_is_no_context(provider, listwise_ids, rank):
    provider.play(backwards)
    ranking = rank(listwise_ids(), QUERY, tactics())
    assert not any("<context>" in text for text in provider.requests[0].messages[1:])
    assert ranking.report.status == "ok"
