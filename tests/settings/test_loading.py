"""Configurations to rerankers and back."""

import copy
import json
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable
from secondpass import ConfigurationError, NotSerializableError, Reranker, config
from secondpass.cli.options import configuration
from secondpass.reranker_settings import PresetName
from secondpass.settings.overrides import Override

FULL = {
    "method": {"type": "lexical", "k1": 0.9, "b": 0.4},
    "depth": 50,
    "blend": {"original": 0.4, "normalize": "rrf", "rrf_k": 10},
    "floor": 0.05,
    "probabilities": {"scores": [0.0, 1.0], "values": [0.0, 0.5]},
    "order": {
        "type": "tiers",
        "field": "difficulty",
        "tiers": ["introductory", "intermediate", "advanced"],
        "default": "intermediate",
        "window": 20,
    },
    "fallback": [
        {"type": "embedded", "floor": 0.1},
        {"type": "lexical", "blend": {"original": 0.5, "normalize": "minmax"}},
    ],
    "render": {"fields": ["title", "text"], "max_characters": 500},
    "limits": {"deadline": 20},
    "top_k": 10,
    "tail": "drop",
    "dedupe": True,
    "candidate_multiplier": 3,
    "strict": True,
    "log_level": "debug",
}


@given(st.sets(st.sampled_from(sorted(set(FULL) - {"method"}))))
def test_round_trips_are_exact(keys):
    part = {key: FULL[key] for key in FULL if key == "method" or key in keys}
    before = copy.deepcopy(part)
    assert Reranker.from_config(part).to_config() == part
    assert part == before


def test_a_full_round_trip(tmp_path):
    assert Reranker.from_config(FULL).to_config() == FULL
    path = tmp_path / "rerank.yaml"
    path.write_text(yaml.safe_dump(FULL))
    for place in (path, str(path)):
        assert Reranker.from_config(place).to_config() == FULL


@pytest.mark.parametrize("name", config.preset_names())
def test_presets_round_trip(name):
    settings = Reranker.from_preset(name).to_config()
    assert Reranker.from_config(settings).to_config() == settings


# ---------------------------------------------------------------------- what is written out


class Own(Reranker):
    def __init__(self) -> None:
        super().__init__("lexical")


UNNAMED = {
    "subclass": (Own, "Own has no registered name"),
    "scorer": (
        lambda: Reranker(ByTable()),
        "method: a ByTable has no registered name, so it cannot be written out; give its class "
        "one, by an entry point of the group secondpass.methods",
    ),
    "function": (
        lambda: Reranker("lexical", order=lambda items: items),
        "order: a function has no registered name, so it cannot be written out$",
    ),
    "fallback": (
        lambda: Reranker("lexical", fallback=[ByTable()]),
        "fallback.method: a ByTable has no registered name",
    ),
    "key": (
        lambda: Reranker({"type": "cross_encoder", "model": "some/m", "token": "hf-SECRET"}),
        "^to_config: method.token: a key cannot be written out; name its environment variable",
    ),
}


@pytest.mark.parametrize(("make", "message"), UNNAMED.values(), ids=UNNAMED)
def test_what_has_no_name_is_not_written(make, message):
    with pytest.raises(NotSerializableError, match=message) as caught:
        make().to_config()
    assert "SECRET" not in str(caught.value)


def test_defaults_are_left_out_and_empty_mappings_kept():
    assert Reranker("lexical", limits={}, render={}).to_config() == {"method": {"type": "lexical"}}
    reranker = Reranker({"type": "cross_encoder", "model": "m", "model_kwargs": {}})
    assert reranker.to_config()["method"]["model_kwargs"] == {}


# ---------------------------------------------------------------------- wrong configurations

GRADED = {"type": "graded", "llm": {"type": "openai", "model": "m"}}
TIERS = {"type": "tiers", "field": "d"}


def lexical(**settings):
    return {"type": "lexical", **settings}


WRONG = [
    # a change to a working configuration; how the message begins
    ({"depht": 3}, "depht: unknown key; did you mean 'depth'?"),
    ({"method": None}, "method: give a scorer"),
    ({"method": {"kind": "lexical"}}, "method.type: is required; did you mean 'type' in"),
    ({"method": {"kind": "zork"}}, "method.type: is required; known are: cross_encoder"),
    ({"method": {"type": 3}}, "method.type: must be a name, not 3"),
    (
        {"method": {"type": "crossencoder"}},
        "method.type: no method is named 'crossencoder'; did you",
    ),
    ({"method": {"type": "os.system"}}, "method.type: no method is named 'os.system'"),
    ({"method": lexical(k_1=1)}, "method.k_1: unknown key; did you mean 'k1'?"),
    ({"method": lexical(b=2)}, "method.b: must be less than or equal to 1, not 2"),
    ({"depth": 0}, "depth: must be greater than or equal to 1, not 0"),
    ({"depth": "10"}, "depth: must be a whole number, not '10'"),
    ({"depth": True}, "depth: must be a whole number, not True"),
    ({"floor": float("nan")}, "floor: must be a finite number, not nan"),
    ({"limits": {"deadline": 0}}, "limits.deadline: must be greater than 0, not 0"),
    ({"limits": {"deadline": float("inf")}}, "limits.deadline: must be a finite number"),
    ({"limits": {"dedline": 1}}, "limits.dedline: unknown key; did you mean 'deadline'?"),
    ({"depth": "none"}, "depth: must be a whole number, not 'none'; to switch it off, write None"),
    (
        {"blend": "off"},
        "blend: must be a mapping such as {original: 0.3, normalize: minmax}, not 'off'; to switch "
        "it off, write None",
    ),
    ({"fallback": "none"}, "fallback: no method is named 'none'; to switch it off, write []"),
    ({"fallback": False}, "fallback: must be a list, not False; to switch it off, write []"),
    (
        {"terms": "off"},
        "terms: give a list of mappings with a 'type', not 'off'; to switch it off, write []",
    ),
    ({"strict": "no"}, "strict: must be true or false, not 'no'; to switch it off, write False"),
    ({"limits": {"deadline": "Off"}}, "limits.deadline: must be a number, not 'Off'; to switch "),
    ({"limits": 2}, "limits: must be a mapping such as {deadline: 2}, not 2; its keys are: "),
    ({"limits": "2"}, "limits: must be a mapping, not '2'; its keys are: "),
    (
        {"blend": 0.3},
        "blend: must be a mapping such as {original: 0.3, normalize: minmax}, not 0.3",
    ),
    ({"blend": {}}, "blend.original: is required"),
    ({"blend": {"original": 0.4}}, "blend.normalize: 'none' cannot make scores of kind 'unb"),
    ({"order": "middle_lost"}, "order: no ordering is named 'middle_lost'"),
    ({"order": {**TIERS, "tiers": []}}, "order.tiers: "),
    ({"order": {**TIERS, "tiers": ["a"], "default": "b"}}, "order.default: 'b' is not one of the"),
    ({"fallback": {"type": "lexical"}}, "fallback: must be a list, not a dict"),
    ({"fallback": ["lexical", {"type": "lexicla"}]}, "fallback[1].type: no method is named 'lex"),
    ({"fallback": [lexical(blend={"original": 0.5})]}, "fallback[0].blend.normalize: 'none'"),
    (
        {"render": {"fields": "text"}},
        "render.fields: must be a list such as [title, text], not 'text'",
    ),
    ({"method": {**GRADED, "scale": 5}}, "method.scale: must be a list, not 5"),
    ({"method": {**GRADED, "scale": [0]}}, "method.scale: must have at least 2 items, not 1"),
    ({"tail": "cut"}, "tail: must be 'keep' or 'drop', not 'cut'"),
    ({5: 1}, "keys must be words, not 5"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_problems_have_their_place(change, message):
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"method": {"type": "lexical"}, **change})
    assert str(caught.value).startswith("configuration: " + message)
    assert len(caught.value.problems) == 1


HINTS = [
    (
        lambda: Reranker("cross_encoder", model="m"),
        r"model: .*use Reranker\({'type': 'cross_encoder', 'model': …}\)",
    ),
    (lambda: Reranker.from_preset("default", model="m"), "it is a setting of the method: "),
    (lambda: Reranker.from_preset("listwise_guided", model="m"), r"'llm': {'model': …}"),
    (
        lambda: Reranker.from_config({"method": "lexical", "k1": 1}),
        r"'method: {type: lexical, k1: …}'",
    ),
    (lambda: Reranker("cohere"), r"is a preset.*from_preset\('cohere'\)"),
    (lambda: Reranker("lexical", fallback="cohere"), r"fallback\[0\].*is a preset"),
    (lambda: Reranker.from_config({"method": "cohere"}), "'preset: cohere'"),
    (lambda: Reranker.from_config("embedded"), r"no such file.*from_preset\('embedded'\)"),
    (lambda: Reranker.from_config("graded"), r"no such file.*is a method"),
    (
        lambda: Reranker.from_preset("graded"),
        r"it is a method, use Reranker\({'type': 'graded', 'llm': {'type': 'openai', 'mod",
    ),
    (lambda: config.resolve("cross_encoder"), "it is a method"),
    (lambda: config.resolve(7), "give a preset name"),
    (lambda: config.resolve("lexicl"), "no preset is named 'lexicl'"),
    (lambda: config.resolve("lexicl.yaml"), "no such file"),
    (lambda: Reranker("lexical", model="x"), "setting of the method .*, not of 'lexical': "),
]


@pytest.mark.parametrize(("make", "message"), HINTS, ids=[message[:40] for _, message in HINTS])
def test_hints(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


# ---------------------------------------------------------------------- resolve


def test_resolves_each_kind(tmp_path):
    path = tmp_path / "own.yml"
    path.write_text("method: lexical")
    top_k = {"top_n": Override(2, ("top_k",))}
    for source in ("lexical", {"method": "lexical"}, path, str(path)):
        assert config.resolve(source, flat=top_k).to_config() == {
            "method": {"type": "lexical"},
            "top_k": 2,
        }
    ready = Reranker("lexical")
    assert config.resolve(ready) is ready


# ---------------------------------------------------------------------- orders by name

ORDERS = {
    "learn": {"type": "tiers", "field": "level", "tiers": ["a", "b"]},
    "research": "none",
    "none": "lost_in_the_middle",
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_s_name_is_written(name):
    described = {"method": {"type": "lexical"}, "order": name, "orders": ORDERS}
    reranker = Reranker.from_config(described)
    settings = reranker.to_config()
    assert settings["order"] == name
    assert Reranker.from_config(settings).to_config() == settings
    assert reranker.order == reranker.orders[name]


# ---------------------------------------------------------------------- files and presets


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
    "wrong setting": ("method: lexical\ndepth: many", "depth: must be a whole number, not 'many'"),
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
    "impossible key": ('method: lexical\n"\\ud800": 1', "must be Unicode"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_wrong_files_are_named(path, text, message):
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert len(str(caught.value)) < 5000
    str(caught.value).encode()


def test_values_of_files_are_named_as_the_file_writes_them(path):
    settings = {"method": "lexical", "tail": None, "depth": True, "limits": {"deadline": False}}
    settings |= {"blend": {"normalize": "a, not None"}, "fallback": [None]}
    path.write_text(json.dumps(settings))
    for load in (Reranker.from_config, config.resolve):
        with pytest.raises(ConfigurationError) as caught:
            load(path)
        messages = {problem.path[0]: problem.message for problem in caught.value.problems}
        assert messages["tail"] == "must be 'keep' or 'drop', not null"
        assert messages["depth"] == "must be a whole number, not true"
        hint = "; to switch it off, write null"
        assert messages["limits"] == f"must be a number, not false{hint}"
        assert messages["blend"].endswith(", not 'a, not None'")
        assert messages["fallback"].endswith(", not null")
        with pytest.raises(ConfigurationError, match=r"tail: must be 'keep' or 'drop', not None"):
            load(settings)
    path.write_text("preset: null")
    with pytest.raises(ConfigurationError, match=r"give the name of a preset, not null$"):
        Reranker.from_config(path)


def test_unreadable_files(path, tmp_path):
    with pytest.raises(ConfigurationError, match="there is no such file"):
        Reranker.from_config(path)
    with pytest.raises(ConfigurationError, match="is a folder; name a file"):
        Reranker.from_config(tmp_path)
    path.write_bytes(b"method: \xff\xfe\n")
    with pytest.raises(ConfigurationError, match=r"rerank\.yaml: is not UTF-8: byte 9 is 0xff"):
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
        path.write_text(json.dumps({"method": method({"model": "some/m", name: value})}))
        with pytest.raises(ConfigurationError, match=f"{name}_env") as caught:
            Reranker.from_config(path)
        assert KEY not in str(caught.value)
    if method({})["type"] != "zork":
        monkeypatch.setenv("SOME_KEY", KEY)
        assert Reranker.from_config({"method": method({"model": "some/m", name: KEY})})
        path.write_text(
            json.dumps({"method": method({"model": "some/m", name: {"env": "SOME_KEY"}})})
        )
        assert Reranker.from_config(path)


# ---------------------------------------------------------------------- presets


UNKNOWN = {
    "misspelt": ("embeded", "no preset is named 'embeded'; did you mean 'embedded'?"),
    "far": ("nothere", "no preset is named 'nothere'; known are: "),
    "path": ("../default", "no preset is named '../default'"),
    "file name": ("default.yaml", "no preset is named 'default.yaml'"),
    "empty": ("", "no preset is named ''"),
    "None": (None, "give the name of a preset, not None"),
    "number": (7, "give the name of a preset, not 7"),
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


def ways_to(preset, model, folder):
    """The method of a preset with another model, by each way to say so."""
    beside = {"preset": preset, "method": {"model": model}}
    bare, extended = folder / "bare.yaml", folder / "extended.yaml"
    bare.write_text(json.dumps({"preset": preset}))
    extended.write_text(json.dumps(beside))
    flat = {"model": Override(model, ("method.model", "method.llm.model"))}
    option = [f"method.model={json.dumps(model)}"]
    variable = {"preset": preset, "method": {"model": {"env": "OTHER_MODEL"}}}
    return [
        Reranker.from_preset(preset, method={"model": model}),
        Reranker.from_config(beside),
        Reranker.from_config(extended),
        Reranker.from_config(variable),
        config.resolve(extended),
        config.resolve(bare, flat=flat),
        config.resolve(preset, flat=flat),
        config.resolve({"preset": preset}, flat=flat),
        config.load(configuration(preset, None, option)),
        config.load(configuration(None, bare, option)),
        config.load(configuration(None, extended, option)),
    ]


OTHER_MODELS = {
    # a preset, the name of another model, what is left of the settings of the method
    "default": ("default", "other/model", {}),
    "accurate_local": ("accurate_local", "other/model", {}),
    "the same": (
        "default",
        "cross-encoder/ettin-reranker-32m-v1",
        {"max_length": 512},
    ),
    "settings for any model": (
        "cross_encoder_hybrid",
        "other/model",
        {"cache_folder": "kb/rag/models", "precision": "exact"},
    ),
    "kind of scores": ("jina", "jina-reranker-v3", {"api": "jina"}),
}


@pytest.mark.parametrize(("preset", "model", "rest"), OTHER_MODELS.values(), ids=OTHER_MODELS)
def test_settings_for_the_model_of_a_preset_go_with_it(preset, model, rest, tmp_path, monkeypatch):
    monkeypatch.setenv("OTHER_MODEL", model)
    monkeypatch.setenv("JINA_API_KEY", "k")
    whole = Reranker.from_preset(preset).to_config()
    for reranker in ways_to(preset, model, tmp_path):
        written = reranker.to_config()
        named = written["method"]["model"]
        assert named in (model, {"env": "OTHER_MODEL"})
        method = {"type": whole["method"]["type"], "model": named, **rest}
        assert written == {**whole, "method": method}


def test_what_is_set_beside_another_model_stays(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("preset: default\nmethod: {max_length: 64}\n")
    flat = {"model": Override("m", ("method.model",))}
    for reranker in (
        Reranker.from_preset("default", method={"model": "m", "max_length": 64}),
        config.resolve(path, flat=flat),
        config.load(configuration(None, path, ["method.model=m"])),
    ):
        assert reranker.method.scorer.max_length == 64
        assert reranker.method.scorer.model == "m"
    path.write_text("method: {type: cross_encoder, model: own, max_length: 64}\n")
    reranker = config.load(configuration(None, path, ["method.model=m"]))
    assert reranker.method.scorer.max_length == 64


def test_the_tokenizer_s_name_for_a_length_replaces_that_of_a_preset():
    kwargs = {"model_max_length": 128}
    for reranker in (
        Reranker.from_preset("default", method={"tokenizer_kwargs": kwargs}),
        config.resolve("default", flat={"t": Override(kwargs, ("method.tokenizer_kwargs",))}),
    ):
        assert reranker.method.scorer.token_limit == 128


def test_no_preset_has_constants_that_were_fitted_to_the_scores_of_a_model():
    for name in config.preset_names():
        whole = config.preset(name)
        if "model" in whole["method"]:
            assert not {"blend", "floor", "probabilities", "terms", "when"} & whole.keys()


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


def test_editors_know_the_presets():
    assert list(get_args(PresetName)) == config.preset_names()


def test_presets_are_listed_with_their_purposes():
    purposes = config.presets()
    assert list(purposes) == config.preset_names()
    assert all(purposes.values())
    assert purposes["lexical"].startswith("BM25 over the candidates, for tests. For ")
    assert Reranker.from_preset("embedded").depth == 50  # docs/evidence.md, "How deep"
