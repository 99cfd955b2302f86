"""The documentation assistant: pool, guidelines, paths, silence when the model fails."""

import pytest
from docs_search.__main__ import main
from docs_search.search import DOCS, keyword_search, search
from scripted_model import NAME, ScriptedModel

PUBLISH = "how do I publish a new version to PyPI"


def paths(ranking):
    return [item.metadata["path"] for item in ranking]


@pytest.mark.parametrize(
    ("query", "preferred", "instead_of"),
    [
        (PUBLISH, "tool-release-prep.md", "task-package-publishing.md"),
        ("tests are failing in CI", "tool-fix-test.md", "task-ci-cd-pipeline.md"),
        ("coordinate agents to write documentation", "tool-doc-orchestrator.md", "use-agents.md"),
    ],
)
def test_the_guidelines_decide(query, preferred, instead_of):
    assert keyword_search(query, 9)[0]["path"] == instead_of
    _, ranking = search(query)
    assert ranking.report.status == "ok"
    assert paths(ranking)[0] == preferred
    assert NAME in ranking.report.method


def test_paths_are_shown_to_the_model(served):
    with ScriptedModel() as model:
        served(model)
        search(PUBLISH)
    [prompt] = model.prompts
    names = {path.name for path in DOCS.glob("*.md")}
    for text in prompt.documents.values():
        assert text.startswith("path: ")
        assert text.splitlines()[0].removeprefix("path: ") in names
    assert "tool-release-prep.md" in prompt.system


def test_failure_is_silent(served, capfd):
    with ScriptedModel(fails=True) as model:
        served(model)
        assert main([PUBLISH, "--rerank"]) == 0
    streams = capfd.readouterr()
    assert streams.err == ""
    assert "ordered by the keyword search" in streams.out
    assert "reply_refused" in streams.out
    expected = [page["path"] for page in keyword_search(PUBLISH, 3)]
    assert [line.split()[1] for line in streams.out.splitlines()[:3]] == expected


def test_without_reranking_no_model_is_asked(capsys):
    assert main([PUBLISH, "--k", "2"]) == 0
    streams = capsys.readouterr()
    assert len(streams.out.splitlines()) == 2
    assert streams.err == ""


def test_nothing_found():
    seen, ranking = search("zebra")
    assert (seen, len(ranking), ranking.report.status) == (0, 0, "ok")
