"""YAML files and presets, and configurations laid over each other."""

import json

import pytest

from secondpass import ConfigurationError, Reranker, config
from secondpass.settings.overrides import Override

KEY = "sk-test-SECRET-123"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rerank.yaml"


WRONG_FILES = {
    "broken": ("method: [", "not YAML at line 1"),
    "empty": ("", "must hold a mapping, not nothing"),
    "only a comment": ("# nothing\n", "must hold a mapping, not nothing"),
    "list": ("- a", "must hold a mapping, not a list"),
    "words": ("just words", "must hold a mapping, not 'just words'"),
    "wrong setting": ("method: lexical\ndepth: many", "depth: must be a valid integer, not 'many'"),
    "null method": ("method:\n", "method: give a scorer"),
    "number as a key": ("5: 6\n", "keys must be words, not 5"),
    "huge number": (
        "method: lexical\nfloor: 1" + "0" * 399,
        "not YAML at line 2, column 8: a num",
    ),
    "cascades of cascades": (
        "method: " + "{type: cascade, stages: [lexical, " * 60 + "x" + "]}" * 60,
        "is nested more than 64 deep",
    ),
    "variable as the file": ("env: PATH", "must be a mapping, and a variable gives"),
    "impossible key": ('method: lexical\n"\\ud800": 1', "must be a valid string"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_wrong_files_are_named(path, text, message):
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert len(str(caught.value)) < 5000
    str(caught.value).encode()


def test_unreadable_files(path, tmp_path):
    with pytest.raises(ConfigurationError, match="there is no such file"):
        Reranker.from_config(path)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Reranker.from_config(tmp_path)
    path.write_bytes(b"method: \xff\xfe\n")
    with pytest.raises(ConfigurationError, match=r"rerank\.yaml: cannot be read"):
        Reranker.from_config(path)


# ---------------------------------------------------------------------- keys

HOLDERS = {
    "openai": ("api_key", lambda key: {"type": "graded", "llm": {"type": "openai", **key}}),
    "cross_encoder": ("token", lambda key: {"type": "cross_encoder", **key}),
    "endpoint": ("api_key", lambda key: {"type": "endpoint", "api": "jina", **key}),
    "by a variable": ("token", lambda key: {"type": {"env": "KIND"}, **key}),
    "unknown": ("api_key", lambda key: {"type": "zork", **key}),
}


@pytest.mark.parametrize(("name", "method"), HOLDERS.values(), ids=HOLDERS)
def test_a_file_names_the_variable_of_a_key(path, monkeypatch, name, method):
    monkeypatch.setenv("KIND", "cross_encoder")
    for value in (KEY, {"env": "SOME_KEY", "default": KEY}):
        path.write_text(json.dumps({"method": method({"model": "m", name: value})}))
        with pytest.raises(ConfigurationError, match=f"{name}_env") as caught:
            Reranker.from_config(path)
        assert KEY not in str(caught.value)
    if method({})["type"] != "zork":
        monkeypatch.setenv("SOME_KEY", KEY)
        assert Reranker.from_config({"method": method({"model": "m", name: KEY})})
        path.write_text(json.dumps({"method": method({"model": "m", name: {"env": "SOME_KEY"}})}))
        assert Reranker.from_config(path)


# ---------------------------------------------------------------------- presets


UNKNOWN = {
    "misspelt": ("embeded", "no preset is named 'embeded'; did you mean 'embedded'?"),
    "path": ("../default", "no preset is named '../default'"),
    "file name": ("default.yaml", "no preset is named 'default.yaml'"),
    "empty": ("", "no preset is named ''"),
    "None": (None, "no preset is named nothing"),
    "number": (7, "no preset is named 7"),
}


@pytest.mark.parametrize(("name", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_presets(name, message):
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_preset(name)
    assert str(caught.value).startswith(message)


def test_overrides_are_merged():
    reranker = Reranker.from_preset("lexical", method={"k1": 2.0}, top_k=5)
    assert reranker.to_config() == {"method": {"type": "lexical", "k1": 2.0}, "top_k": 5}
    reranker = Reranker.from_preset("cross_encoder_hybrid", method={"type": "lexical"})
    assert reranker.to_config() == {"method": {"type": "lexical"}, "depth": 50}
    # A blend that is set explicitly expects scores.
    assert config.preset("embedded")["blend"]["optional"]
    assert "optional" not in config.preset("embedded", blend={"original": 0.1})["blend"]
    with pytest.raises(ConfigurationError, match="cannot extend another"):
        Reranker.from_preset("embedded", preset="lexical")


# ---------------------------------------------------------------------- the key `preset`


def test_a_preset_is_extended(path):
    path.write_text("preset: cross_encoder_hybrid\nmethod: {device: cpu}\ndepth: 7\n")
    changes = {"method": {"device": "cpu"}, "depth": 7}
    expected = Reranker.from_preset("cross_encoder_hybrid", **changes).to_config()
    for source in (path, {"preset": "cross_encoder_hybrid", **changes}):
        assert Reranker.from_config(source).to_config() == expected
        assert config.resolve(source).to_config() == expected
    assert "preset" not in expected


def test_parameters_override_only_the_preset():
    described = {"preset": "cross_encoder_hybrid", "top_k": 3}
    depth = {"depth": Override(5, ("depth",))}
    assert config.resolve(described, flat=depth).depth == 5
    with pytest.raises(ConfigurationError, match="sets 'top_k'"):
        config.resolve(described, flat={"top_n": Override(5, ("top_k",))})


AT_THE_TOP = "a preset can be named only at the top"
WRONG_PRESETS = {
    "misspelt": ({"preset": "embeded"}, "preset: no preset is named 'embeded'; did you mean"),
    "in a method": ({"method": {"preset": "x"}}, f"method.preset: {AT_THE_TOP}"),
    "beside a type": (
        {"method": {"type": "lexical", "preset": "x"}},
        f"method.preset: unknown key; {AT_THE_TOP}",
    ),
    "in a fallback": (
        {"method": "lexical", "fallback": [{"preset": "x"}]},
        f"fallback[0].preset: {AT_THE_TOP}",
    ),
    "a wrong key beside it": ({"preset": "embedded", "dept": 5}, "dept: unknown key; did you mean"),
}


@pytest.mark.parametrize(("described", "message"), WRONG_PRESETS.values(), ids=WRONG_PRESETS)
def test_wrong_presets(described, message):
    for load in (Reranker.from_config, config.resolve):
        with pytest.raises(ConfigurationError) as caught:
            load(described)
        assert str(caught.value).startswith(f"configuration: {message}")


def test_presets_are_listed_with_their_purposes():
    purposes = config.presets()
    assert list(purposes) == config.preset_names()
    assert all(purposes.values())
    assert purposes["lexical"].startswith("For tests and unordered lists: BM25")
    assert Reranker.from_preset("embedded").depth == 50  # docs/evidence.md, "How deep"
