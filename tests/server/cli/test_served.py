"""The rerankers of a server, by the model names that clients use."""

import pytest

from secondpass import config
from secondpass_server.cli.served import ServedModels, note_depths
from secondpass_server.rerankers import load_all

LEXICAL = {**config.preset("lexical"), "depth": None}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine.yaml", "a=b.yaml"):
        (tmp_path / name).write_text("method: lexical\ndepth: 7\n")
    return {"method": "lexical", "depth": 7}


def test_presets_come_first_and_files_are_named_by_their_stem(mine):
    models = ServedModels(["lexical"], ["mine.yaml"]).read()
    assert models == {"lexical": LEXICAL, "mine": mine}
    assert list(models) == ["lexical", "mine"]


@pytest.mark.parametrize(
    ("presets", "files", "names"),
    [
        (["lexical=words"], None, ["words"]),
        (["lexical", "lexical=words"], None, ["lexical", "words"]),
        (None, ["mine.yaml=rerank-v3.5"], ["rerank-v3.5"]),
        (None, ["a=b.yaml"], ["a=b"]),
        (None, ["a=b.yaml=c"], ["c"]),
        (None, None, ["default"]),
    ],
    ids=["preset", "twice", "file", "sign in a path", "named sign in a path", "none"],
)
def test_model_names(mine, presets, files, names):
    assert list(ServedModels(presets, files).read()) == names


def test_settings_are_of_all(mine):
    models = ServedModels(["lexical"], ["mine.yaml"], ["depth=3"]).read()
    assert {model["depth"] for model in models.values()} == {3}


SERVICE = "method: {type: graded, llm: {type: openai, model: m}}\n"
FITTED = """method: lexical
floor: {at: 0.5, fitted: {method: lexical, depth: 100}}
"""
DEPTHS = [
    # a file, --set; the depth that is served
    ("preset: embedded\n", [], None),
    ("preset: embedded\ndepth: 50\n", [], 50),
    ("preset: embedded\n", ["depth=50"], 50),
    ("preset: embedded\n", ["depth=null"], None),
    ("method: lexical\n", [], None),
    ("method: lexical\n", ["method.b=0.5"], None),
    (SERVICE, [], 100),
    (SERVICE + "depth: 20\n", [], 20),
    ("method: lexical\nfallback: [{type: graded, llm: {type: openai, model: m}}]\n", [], 100),
    (FITTED, [], 100),
]


@pytest.mark.parametrize(("text", "settings", "depth"), DEPTHS)
def test_all_documents_are_scored_unless_a_depth_is_stated(tmp_path, text, settings, depth, capsys):
    (tmp_path / "m.yaml").write_text(text)
    rerankers = load_all(ServedModels(None, [str(tmp_path / "m.yaml")], settings).read())
    assert rerankers["m"].depth == depth
    note_depths(rerankers, 1000)
    told = capsys.readouterr().err
    assert (f"m: the first {depth} documents of a request" in told) == (depth is not None)
    note_depths(rerankers, 10)
    assert not capsys.readouterr().err
