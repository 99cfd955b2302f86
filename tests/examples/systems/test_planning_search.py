"""The planning tool: heuristic, filter, reranking for the state of the project, limit."""

import pytest
from planning_search import validate
from planning_search.__main__ import main
from planning_search.search import STORE, Store
from scripted_model import NAME, ScriptedModel

HEURISTIC = ["tune-database", "shard-database", "choose-database", "create-tables"]


@pytest.fixture
def store():
    return Store.read(STORE)


def shown(out):
    """The tactics that were printed, in order."""
    return [line.split()[1] for line in out.splitlines() if line[0].isdigit()]


def names(tactics):
    return [tactic["id"] for tactic in tactics]


# ---------------------------------------------------------------------- heuristic


def test_words_of_the_query_count_by_field(store):
    assert sorted(names(store.search("database"))[:4]) == sorted(HEURISTIC)
    assert names(store.search("warehouse")) == ["rent-warehouse"]
    assert store.search("submarine") == []
    scores = [tactic["score"] for tactic in store.search("database orders")]
    assert scores == sorted(scores, reverse=True)


def test_only_tactics_that_can_be_begun(store):
    ready = names(store.search("database", only_ready=True))
    assert set(ready) == {"shard-database", "choose-database"}
    assert [name for name in names(store.search("database")) if name in ready] == ready


def test_a_dependency_that_is_completed_makes_a_tactic_ready(store):
    for node in store.nodes:
        if node["id"] == "storage":
            node["status"] = "completed"
    assert "create-tables" in names(store.search("database", only_ready=True))


# ---------------------------------------------------------------------- reranking


def test_what_the_model_sees(store, served, capsys):
    with ScriptedModel() as model:
        served(model)
        assert main(["database", "--llm-rerank", "--limit", "2"]) == 0
    [prompt] = model.prompts
    assert list(prompt.documents) == names(store.search("database"))  # more than the limit
    assert "Completed: 3" in prompt.context
    assert "storage / Which database product keeps orders and stock / decision" in prompt.context
    assert "match: hosting, schema-sketch" in prompt.documents["choose-database"]
    assert "subtasks: 2" in prompt.documents["choose-database"]
    out = capsys.readouterr().out
    assert len(shown(out)) == 2
    assert out.endswith("ok: ordered by listwise by served\n")


def test_the_filter_comes_before_the_model(served):
    with ScriptedModel() as model:
        served(model)
        main(["database", "--llm-rerank", "--ready"])
    assert set(model.prompts[0].documents) == {"shard-database", "choose-database"}


def test_a_model_that_fails_keeps_the_order(store, served, capsys, caplog):
    with ScriptedModel(fails=True) as model:
        served(model)
        assert main(["database", "--llm-rerank"]) == 0
    out = capsys.readouterr().out
    assert shown(out) == names(store.search("database"))[:5]
    assert out.endswith("unchanged: ordered by the heuristic\n")
    assert "reply_refused" in caplog.text


# ---------------------------------------------------------------------- validation and coprocess


def test_the_validation_script(tmp_path, capsys):
    output = tmp_path / "review.md"
    assert validate.main(["--output", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert text.startswith(f'# Search for "database"\n\nok: ordered by listwise by {NAME}.\n')
    rows = [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert len(rows) == 5
    assert "Completed: 3" in text
    assert '"status": "ok"' in text
    assert "Scripted model" in capsys.readouterr().err
