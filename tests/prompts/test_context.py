"""Contexts: what a caller tells of the situation, as text."""

from collections import UserDict
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType, SimpleNamespace

import pytest

from fakes import Model, graded, in_answer, play
from secondpass import Candidate, ConfigurationError, Reranker
from secondpass.effects import Task
from secondpass.prompts.context import ProjectContext, plain_context, to_context_builder
from secondpass.prompts.template import Prompting
from secondpass.strategies.graded import Graded

PLAIN = [
    (None, ""),
    ("", ""),
    ("as it is\n\n  here", "as it is\n\n  here"),
    ({"goal": "dig", "depth": 3}, "goal: dig\ndepth: 3"),
    ({"tags": ["a", "b"], "none": None, "no": False}, "tags: a, b\nnone: \nno: False"),
    (MappingProxyType({"a": 1}), "a: 1"),
    ({"a": "two\nlines   here"}, "a: two lines here"),
    (["a", "b\nc"], "- a\n- b c"),
    (("a",), "- a"),
    ([], ""),
    ({}, ""),
    (7, "7"),
]


@pytest.mark.parametrize(("context", "text"), PLAIN, ids=[repr(row[0])[:30] for row in PLAIN])
def test_plain_contexts(context, text):
    assert plain_context(context) == text


class Status(Enum):
    DONE = "completed"
    OPEN = "in_progress"


@dataclass
class Node:
    id: str
    type: str
    output: object
    status: object = "pending"


NODES = [
    {"id": "n1", "type": "research", "output": "a survey", "status": "completed"},
    {"id": "n2", "type": "code", "output": ["a", "b"], "status": "COMPLETED"},
    Node("n3", "test", "tests\nof it", Status.OPEN),
    Node("n4", "docs", None, Status.DONE),
    {"id": "n5", "output": None},
    {"id": "n6", "completed": True, "output": "done", "status": "pending"},
    {"id": "n7", "completed": False, "status": "completed"},
]

TEXT = """\
Completed: 4
Pending: 3
Outputs of completed nodes:
- a survey
- a, b
- done
Pending goals (id / output / type):
- n3 / tests of it / test
- n5 / - / -
- n7 / - / -"""


def test_project_nodes():
    build = ProjectContext()
    assert build(NODES) == TEXT
    assert build({"nodes": NODES}) == TEXT
    assert build(None) == ""
    assert build([]).startswith("Completed: 0\nPending: 0")
    assert build({}) == build([])


BY_ID = {f"n{at}": {"type": "task", "output": f"goal {at}", "status": "pending"} for at in range(3)}


@pytest.mark.parametrize(
    "context",
    [
        BY_ID,
        MappingProxyType(BY_ID),
        {"nodes": BY_ID},
        SimpleNamespace(nodes=BY_ID),
        [{"id": key, **node} for key, node in BY_ID.items()],
        {key: SimpleNamespace(**node) for key, node in BY_ID.items()},
        {f"key of {key}": {"id": key, **node} for key, node in BY_ID.items()},
        {at: {"id": f"n{at}", **BY_ID[f"n{at}"]} for at in range(3)}.values(),
    ],
)
def test_nodes_in_a_list_and_by_id(context):
    lines = ProjectContext()(context).splitlines()
    assert lines[:2] == ["Completed: 0", "Pending: 3"]
    assert lines[4:] == [f"- n{at} / goal {at} / task" for at in range(3)]


def test_pending_limit():
    nodes = [{"id": f"n{at}"} for at in range(30)]
    assert ProjectContext()(nodes).count("\n- ") == 10
    assert ProjectContext(pending=2)(nodes).endswith("- n0 / - / -\n- n1 / - / -")
    assert ProjectContext(pending=0)(nodes).endswith("(id / output / type):")


WITHOUT_NODES = [
    "two\nlines",
    {"goals": []},
    {"nodes": "text"},
    {"nodes": 3},
    {"a": {"id": "a"}, "b": "text"},
    {"id": "a", "status": "completed"},
    UserDict(product="a shop", goal="find orders"),
]


@pytest.mark.parametrize("context", WITHOUT_NODES)
def test_project_without_nodes(context):
    assert ProjectContext()(context) == plain_context(context)


@pytest.mark.parametrize(
    "context", [{"nodes": None}, UserDict(nodes=None, name="shop"), SimpleNamespace(nodes=None)]
)
def test_project_without_any_node_yet(context):
    assert ProjectContext()(context) == ProjectContext()([])


def test_context_builders():
    builder = ProjectContext()
    assert to_context_builder(builder) is builder
    assert to_context_builder(plain_context) is plain_context
    assert isinstance(to_context_builder("project"), ProjectContext)
    assert to_context_builder({"type": "project", "pending": 3}).pending == 3
    assert to_context_builder(None) is None


@pytest.mark.parametrize("value", ["nothing", 7, {}, ProjectContext])
def test_no_context_builder(value):
    with pytest.raises(ConfigurationError):
        to_context_builder(value)


def asked(context, builder=None):
    method = Graded(Model(), prompt=Prompting(context=builder))
    task = Task("q", ["1 a"], [Candidate("1 a")], context)
    _, asks = play(method.judge(task), in_answer(graded))
    return asks[0].questions[0].request.turns[0].text


@pytest.mark.parametrize(
    ("context", "builder", "start"),
    [
        (None, None, "<query>q</query>\n\n"),
        ("", None, "<query>q</query>\n\n"),
        (" \n ", None, "<query>q</query>\n\n"),
        ({}, None, "<query>q</query>\n\n"),
        ("a goal", None, "<context>a goal</context>\n\n<query>q</query>\n\n"),
        ({"goal": "dig"}, None, "<context>goal: dig</context>\n\n<query>"),
        ({"goal": "dig"}, lambda one: one["goal"], "<context>dig</context>\n\n<query>"),
        (None, lambda one: "always", "<context>always</context>\n\n<query>"),
        (None, "project", "<query>q</query>\n\n"),
        ([{"id": "n"}], "project", "<context>Completed: 0\nPending: 1\n"),
    ],
)
def test_context_stands_first(context, builder, start):
    assert asked(context, builder).startswith(start)


def raising(context):
    raise KeyError("sk-secret")


class Unshowable:
    def __str__(self):
        raise ValueError("sk-secret")


@pytest.mark.parametrize(
    ("context", "builder", "message"),
    [
        ("c", raising, "the context builder raised KeyError"),
        ("c", lambda context: None, "the context builder returned a NoneType, not a string"),
        ("c", lambda context: 7, "the context builder returned an int, not a string"),
        (7, "project", "context: give a string, a list of nodes or a mapping, not an int"),
        (
            [{"id": "a"}, 2],
            "project",
            "context[1]: a node is a mapping, or an object with one of id",
        ),
        (["a", 2], "project", "context[0]: a node is a mapping, or "),
        (Unshowable(), None, "the context builder raised ValueError"),
    ],
)
def test_failing_builder_is_reported(context, builder, message):
    model = Model()
    reranker = Reranker(Graded(model, prompt=Prompting(context=builder)), log_level="debug")
    ranking = reranker.rerank("q", ["1 a", "2 b"], context=context)
    assert (ranking.report.status, ranking.order) == ("unchanged", (0, 1))
    (issue,) = ranking.report.issues
    assert issue.code == "context_failed"
    assert issue.message.startswith(message)
    assert "sk-secret" not in repr(ranking.report)
    assert model.prompts == []
