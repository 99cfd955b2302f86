"""What the consoles of the READMEs cannot show: each search, and what the model is shown of it."""

import json

import pytest
from docs_search.search import DOCS, keyword_search
from docs_search.search import search as search_docs
from learning_search.search import search as search_passages
from memory_recall.__main__ import main as recall
from memory_recall.recall import Memory
from planning_search import validate
from planning_search.__main__ import main as plan
from planning_search.search import STORE, Store
from scripted_model import NAME, ScriptedModel

# ---------------------------------------------------------------------- the planning tool


@pytest.fixture
def store():
    return Store.read(STORE)


def names(tactics):
    return [tactic["id"] for tactic in tactics]


def test_words_of_the_query_count_by_field(store):
    first = {"tune-database", "shard-database", "choose-database", "create-tables"}
    assert set(names(store.search("database"))[:4]) == first
    assert names(store.search("warehouse")) == ["rent-warehouse"]
    assert store.search("submarine") == []
    scores = [tactic["score"] for tactic in store.search("database orders")]
    assert scores == sorted(scores, reverse=True)


def test_only_tactics_that_can_be_begun(store):
    ready = names(store.search("database", only_ready=True))
    assert set(ready) == {"shard-database", "choose-database"}
    assert [name for name in names(store.search("database")) if name in ready] == ready
    for node in store.nodes:
        if node["id"] == "storage":
            node["status"] = "completed"
    assert "create-tables" in names(store.search("database", only_ready=True))


def test_the_model_sees_more_than_the_limit_and_only_what_is_ready(store, served):
    with ScriptedModel() as model:
        served(model)
        assert plan(["database", "--llm-rerank", "--limit", "2"]) == 0
        assert plan(["database", "--llm-rerank", "--ready"]) == 0
    prompt, ready = model.prompts
    assert list(prompt.documents) == names(store.search("database"))
    assert "Completed: 3" in prompt.context
    assert "storage / Which database product keeps orders and stock / decision" in prompt.context
    assert "match: hosting, schema-sketch" in prompt.documents["choose-database"]
    assert "subtasks: 2" in prompt.documents["choose-database"]
    assert set(ready.documents) == {"shard-database", "choose-database"}


def test_the_validation_script(tmp_path):
    output = tmp_path / "review.md"
    assert validate.main(["--output", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert text.startswith(f'# Search for "database"\n\nok: ordered by listwise by {NAME}.\n')
    rows = [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert len(rows) == 5
    assert "Completed: 3" in text
    assert '"status": "ok"' in text


# ---------------------------------------------------------------------- the documentation assistant


@pytest.mark.parametrize(
    ("query", "preferred", "instead_of"),
    [
        ("publish a version to PyPI", "tool-release-prep.md", "task-package-publishing.md"),
        ("tests are failing in CI", "tool-fix-test.md", "task-ci-cd-pipeline.md"),
        ("coordinate agents to write documentation", "tool-doc-orchestrator.md", "use-agents.md"),
    ],
)
def test_the_guidelines_decide(query, preferred, instead_of):
    assert keyword_search(query, 9)[0]["path"] == instead_of
    _, ranking = search_docs(query)
    assert ranking.report.status == "ok"
    assert ranking[0].metadata["path"] == preferred


def test_paths_are_shown_to_the_model(served):
    with ScriptedModel() as model:
        served(model)
        search_docs("publish a version to PyPI")
        assert search_docs("zebra")[0] == 0
    [prompt] = model.prompts
    paths = [text.splitlines()[0].removeprefix("path: ") for text in prompt.documents.values()]
    assert set(paths) <= {path.name for path in DOCS.glob("*.md")}
    assert "tool-release-prep.md" in prompt.system


# ---------------------------------------------------------------------- the other two


def test_the_criteria_of_the_library_are_shown_to_the_model(served):
    with ScriptedModel() as model:
        served(model)
        search_passages("Does determinism exclude free choice?", "research")
    [prompt] = model.prompts
    assert "philosophical relevance" in prompt.instructions.lower()
    assert "Philosophical depth" in prompt.system
    assert prompt.query == "Does determinism exclude free choice?"


def test_the_search_of_memories_has_scores_from_0_to_1():
    memory = Memory()
    results = memory.search("What should I cook for Ana?")
    scores = [item["score"] for item in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(results) == len(memory.memories)
    assert len(memory.search("What should I cook for Ana?", 3)) == 3
    assert len(memory.search("xyzzy")) == len(memory.memories)  # by prominence and vectors


def test_the_fields_of_a_recalled_memory(capsys):
    assert recall(["What should I cook for Ana?", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert list(first) == ["id", "relevanceScore", "originalScore", "finalScore"]
    blended = 0.4 * first["originalScore"] + 0.6 * first["relevanceScore"]
    assert first["finalScore"] == pytest.approx(blended)
