"""The library: grades, then an order for the query, also when the model fails."""

import pytest
from learning_search.search import search
from scripted_model import NAME, ScriptedModel

QUERY = "Does determinism exclude free choice?"
LEVELS = ["introductory", "intermediate", "advanced"]


def levels(ranking):
    return [LEVELS.index(item.metadata.get("difficulty", "intermediate")) for item in ranking]


def test_research_is_the_order_of_the_grades():
    ranking = search(QUERY, "research")
    grades = [item.rerank_score for item in ranking]
    assert ranking.report.status == "ok"
    assert grades == sorted(grades, reverse=True)
    assert NAME in ranking.report.method


def test_learn_begins_with_what_is_easy():
    ranking = search(QUERY, "learn")
    assert levels(ranking) == sorted(levels(ranking))
    assert len(set(levels(ranking))) == 3
    for level in range(3):
        grades = [
            i.rerank_score for i, at in zip(ranking, levels(ranking), strict=True) if at == level
        ]
        assert grades == sorted(grades, reverse=True)


@pytest.mark.parametrize("mode", ["learn", "research"])
def test_a_model_that_fails(mode, caplog):
    ranking = search(QUERY, mode, fails=True)
    assert ranking.report.status == "unchanged"
    assert not ranking.report.left_out
    assert "reply_refused" in caplog.text
    if mode == "research":
        assert ranking.order == tuple(range(len(ranking)))
    else:
        assert levels(ranking) == sorted(levels(ranking))


def test_the_prompt(served):
    with ScriptedModel() as model:
        served(model)
        search(QUERY, "research")
    [prompt] = model.prompts
    assert "philosophical relevance" in prompt.instructions.lower()
    assert "Philosophical depth" in prompt.system
    assert prompt.query == QUERY
