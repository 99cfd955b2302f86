"""Tactics to rank, and replies about them."""

from __future__ import annotations

import json

from reference_replies import says

KEY = "sk-test-SECRET"
QUERY = "database for the web shop"


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
    return [tactic(f"t{index}") for index in range(count)]


def nodes(completed=3, pending=4):
    done = [
        {
            "id": f"done-{index}",
            "type": "decision",
            "output": f"result {index}",
            "status": "completed",
        }
        for index in range(completed)
    ]
    todo = [
        {"id": f"todo-{index}", "type": "task", "output": f"goal {index}", "status": "pending"}
        for index in range(pending)
    ]
    return done + todo


def backwards(request):
    """A step: all ids, the last first."""
    return says(json.dumps(request.labels[::-1]))(request)


def ids(ranking):
    return [item.id for item in ranking]


def context_of(request):
    _system, user = request.messages
    return user.partition("<context>")[2].partition("</context>")[0].splitlines()
