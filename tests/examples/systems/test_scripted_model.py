"""The scripted model: it replies as it is asked to, and says that it is scripted."""

import pytest
from scripted_model import NAME, ScriptedModel, language_model, word_overlap

from secondpass import Reranker

QUERY = "green tea"
TEXTS = ["A car has wheels.", "Green tea is tea.", "The tea is black.", "Nothing."]
ORDER = (1, 2, 0, 3)


def candidates():
    return [{"id": f"d{at}", "text": text} for at, text in enumerate(TEXTS)]


def ranked(method, given, **options):
    """The ranking by a method with the scripted model, and the prompts that it was sent."""
    with ScriptedModel() as model:
        llm = {"type": "openai", "model": NAME, "base_url": model.base_url}
        reranker = Reranker.from_config({"method": {**method, "llm": llm}})
        ranking = reranker.rerank(QUERY, given, **options)
        reranker.close()
    return ranking, model.prompts


@pytest.mark.parametrize("labels", ["opaque", "id", "index0", "index1"])
@pytest.mark.parametrize(
    "method",
    [
        {"type": "listwise"},
        {"type": "listwise", "bare": True},
        {"type": "graded"},
        {"type": "graded", "reply": "pairs"},
        {"type": "graded", "reply": "pairs", "bare": True, "scale": [-1, 3]},
    ],
    ids=lambda method: "-".join(map(str, method.values())),
)
def test_every_form_of_reply(method, labels):
    ranking, _ = ranked({**method, "labels": labels}, candidates())
    assert (ranking.report.status, ranking.report.issues) == ("ok", ())
    assert ranking.order == ORDER
    assert NAME in ranking.report.method
    low, high = method.get("scale", [0, 10])
    if method["type"] == "graded":
        assert [item.rerank_score for item in ranking] == [high, (low + high) / 2, low, low]


def test_the_context_counts():
    ranking, [prompt] = ranked({"type": "listwise"}, candidates(), context="A car with wheels")
    assert ranking.order == (0, 1, 2, 3)
    assert prompt.context == "A car with wheels"
    assert [word_overlap(prompt, text) for text in TEXTS] == [1, 1, 0.5, 0]


def test_markup_in_texts_is_read_as_text():
    texts = ['<doc id="x">green tea</doc>', "green", 'a "quoted" & <b>bold</b> text']
    _, [prompt] = ranked({"type": "listwise"}, texts)
    assert list(prompt.documents.values()) == texts


# ---------------------------------------------------------------------- the choice of a model


def test_without_a_key_or_on_request_it_is_scripted_and_says_so(monkeypatch, capsys):
    with language_model("A_KEY", "B_KEY") as llm:
        assert llm["model"] == NAME
        assert llm["base_url"].startswith("http://127.0.0.1:")
    assert capsys.readouterr().err.startswith("Scripted model (no A_KEY or B_KEY is set)")
    monkeypatch.setenv("A_KEY", "k")
    with language_model("A_KEY", fails=True) as llm:
        assert llm["model"] == NAME
    assert "as requested" in capsys.readouterr().err


SERVER = {"OPENAI_BASE_URL": "http://localhost:11434/v1", "LLM_MODEL": "qwen3:8b"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"A_KEY": "k"}, {}),
        ({"B_KEY": "k"}, {}),
        (
            {"A_KEY": "k", **SERVER},
            {"base_url": SERVER["OPENAI_BASE_URL"], "model": "qwen3:8b", "type": "openai"},
        ),
    ],
)
def test_the_model_of_the_environment(monkeypatch, capsys, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with language_model("A_KEY", "B_KEY", type="openai") as llm:
        assert llm == expected
    assert capsys.readouterr().err == ""


def test_a_server_without_the_name_of_a_model(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", SERVER["OPENAI_BASE_URL"])
    with pytest.raises(SystemExit, match="LLM_MODEL"), language_model("A_KEY"):
        pass
