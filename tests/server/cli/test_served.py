"""The rerankers of a server, by the model names that clients use."""

import pytest

from secondpass import config
from secondpass_server.cli.served import ServedModels

LEXICAL = config.preset("lexical")


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
