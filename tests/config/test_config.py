"""Configurations: round trips, presets, and what is said of wrong ones."""

import copy
from pathlib import Path
from typing import Annotated

import jsonschema
import pytest
import yaml
from annotated_types import Ge
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable
from secondpass import ConfigurationError, NotSerializableError, Reranker, config
from secondpass.config.overrides import Override
from secondpass.settings import configurable, model_of, registry

FULL = {
    "method": {"type": "lexical", "k1": 0.9, "b": 0.4},
    "depth": 50,
    "blend": {"original": 0.4, "normalize": "rrf", "rrf_k": 10},
    "floor": 0.05,
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


def test_the_round_trip_is_exact():
    given = copy.deepcopy(FULL)
    assert Reranker.from_config(given).to_config() == FULL
    assert given == FULL


@given(st.sets(st.sampled_from(sorted(set(FULL) - {"method"}))))
def test_the_round_trip_is_exact_for_any_part(keys):
    part = {key: FULL[key] for key in FULL if key == "method" or key in keys}
    assert Reranker.from_config(part).to_config() == part


def test_through_a_yaml_file(tmp_path):
    path = tmp_path / "rerank.yaml"
    path.write_text(yaml.safe_dump(FULL))
    for place in (path, str(path)):
        assert Reranker.from_config(place).to_config() == FULL
        assert config.resolve(place, flat={"top_n": Override(3, ("top_k",))}).to_config() == {
            **FULL,
            "top_k": 3,
        }


@pytest.mark.parametrize("name", config.preset_names())
def test_every_preset_round_trips_and_fits_the_schema(name):
    reranker = Reranker.from_preset(name)
    written = reranker.to_config()
    assert Reranker.from_config(written).to_config() == written
    validator = jsonschema.Draft202012Validator(config.json_schema())
    validator.validate(config.preset(name))
    validator.validate(written)


def test_the_presets_are_these():
    assert {"default", "embedded", "lexical", "polymarket"} <= set(config.preset_names())


def test_the_schema_refuses_what_the_configuration_refuses():
    schema = config.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(FULL)
    for wrong in (
        {},
        {**FULL, "depht": 3},
        {**FULL, "depth": 0},
        {**FULL, "method": {"type": "lexicla"}},
        {**FULL, "method": {"type": "lexical", "k2": 1}},
        {**FULL, "blend": {"original": 2}},
        {**FULL, "fallback": [{"type": "lexical", "flor": 0.1}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(wrong)
        with pytest.raises(ConfigurationError):
            Reranker.from_config(wrong)


def test_a_bare_name_is_a_method_of_that_kind():
    assert Reranker("lexical").to_config() == {"method": {"type": "lexical"}}
    assert Reranker.from_config({"method": "lexical"}).to_config() == {
        "method": {"type": "lexical"}
    }


def test_overrides_are_merged_mapping_by_mapping():
    reranker = Reranker.from_preset("lexical", method={"k1": 2.0}, top_k=5)
    assert reranker.to_config() == {"method": {"type": "lexical", "k1": 2.0}, "top_k": 5}
    reranker = Reranker.from_preset("polymarket", method={"type": "lexical"})
    assert reranker.to_config() == {"method": {"type": "lexical"}, "depth": 50}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"depht": 3}, "depht: unknown key; did you mean 'depth'?"),
        ({"method": None}, "method: give a scorer"),
        ({"method": {"kind": "lexical"}}, "method.type: is required; known are: cross_encoder"),
        ({"method": {"type": 3}}, "method.type: must be a name, not 3"),
        (
            {"method": {"type": "crossencoder"}},
            "method.type: no kind is named 'crossencoder'; did you mean 'cross_encoder'?",
        ),
        ({"method": {"type": "os.system"}}, "method.type: no kind is named 'os.system'"),
        ({"method": {"type": "lexical", "k_1": 1}}, "method.k_1: unknown key; did you mean 'k1'?"),
        (
            {"method": {"type": "lexical", "b": 2}},
            "method.b: must be less than or equal to 1, not 2",
        ),
        ({"depth": 0}, "depth: must be greater than or equal to 1, not 0"),
        ({"depth": -1}, "depth: must be greater than or equal to 1, not -1"),
        ({"depth": "10"}, "depth: must be a valid integer, not '10'"),
        ({"depth": True}, "depth: must be a valid integer, not True"),
        ({"floor": float("nan")}, "floor: must be a finite number, not nan"),
        ({"limits": {"deadline": 0}}, "limits.deadline: must be greater than 0, not 0"),
        ({"limits": {"deadline": float("inf")}}, "limits.deadline: must be a finite number"),
        ({"limits": {"dedline": 1}}, "limits.dedline: unknown key; did you mean 'deadline'?"),
        ({"limits": 20}, "limits: give a mapping or a Limits, not 20"),
        ({"blend": {}}, "blend.original: is required"),
        ({"blend": {"original": 0.4}}, "blend.normalize: 'none' cannot make scores of kind 'unb"),
        (
            {"blend": {"original": 0.4, "normalize": "sigmoid"}},
            "blend.normalize: 'sigmoid' cannot make scores of kind 'unbounded' comparable; "
            "choose one of: minmax, zscore, rrf",
        ),
        ({"order": "middle_lost"}, "order: no ordering is named 'middle_lost'"),
        ({"order": {"type": "tiers", "field": "d", "tiers": []}}, "order.tiers: "),
        (
            {"order": {"type": "tiers", "field": "d", "tiers": ["a"], "default": "b"}},
            "order.default: 'b' is none of the tiers",
        ),
        ({"fallback": {"type": "lexical"}}, "fallback: "),
        (
            {"fallback": ["lexical", {"type": "lexicla"}]},
            "fallback[1].type: no kind is named 'lexicla'; did you mean 'lexical'?",
        ),
        (
            {"fallback": [{"type": "lexical", "blend": {"original": 0.5}}]},
            "fallback[0].blend.normalize: 'none' cannot",
        ),
        ({"render": {"fields": "text"}}, "render.fields: "),
        (
            {"method": {"type": "cross_encoder", "model": "m", "token_env": 5}},
            "method.token_env: give the name of a variable or a list of names, not 5",
        ),
        (
            {"method": {"type": "cross_encoder", "model": "m", "token_env": ["A", 1]}},
            "method.token_env: give the name of a variable, not the key",
        ),
        (
            {"method": {"type": "graded", "llm": {"type": "openai", "model": "m"}, "scale": 5}},
            "method.scale: must be a list, not 5",
        ),
        (
            {"method": {"type": "graded", "llm": {"type": "openai", "model": "m"}, "scale": [0]}},
            "method.scale: must have at least 2 items, not 1",
        ),
        ({"tail": "cut"}, "tail: must be 'keep' or 'drop', not 'cut'"),
        ({5: 1}, "keys must be words, not 5"),
    ],
)
def test_every_problem_is_told_with_its_place(change, told):
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({**{"method": {"type": "lexical"}}, **change})
    assert str(caught.value).startswith("configuration: " + told)
    assert len(caught.value.problems) == 1


def test_all_problems_are_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"method": {"type": "lexical", "b": 7, "k1": -1}, "dept": 1})
    assert str(caught.value) == (
        "configuration: 3 problems\n"
        "  method.k1: must be greater than or equal to 0, not -1\n"
        "  method.b: must be less than or equal to 1, not 7\n"
        "  dept: unknown key; did you mean 'depth'?"
    )


def test_python_arguments_are_checked_as_files_are():
    with pytest.raises(ConfigurationError, match=r"Reranker: blend\.original: must be less"):
        Reranker(ByTable(), blend={"original": 3})
    with pytest.raises(ConfigurationError, match="Reranker: depht: unknown key"):
        Reranker(ByTable(), depht=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("method: [", "not YAML at line 1"),
        ("a: b: c", "not YAML at line 1, column 5"),
        ("", "must hold a mapping, not nothing"),
        ("- a", "must hold a mapping, not a list"),
        ("just words", "must hold a mapping, not 'just words'"),
        ("method: !!python/object/apply:os.system [ls]", "not YAML at line 1"),
        ("method: lexical\ndepth: 5\ndepth: 7", "not YAML at line 3, column 1: the key 'depth'"),
        ("render: {prefix: 2024-13-45}", "not YAML: ValueError"),
        ("method: !!int abc", "not YAML: ValueError"),
        ("depth: !!int ''", "not YAML: IndexError"),
        ("depth: !!bool many", "not YAML: KeyError"),
        ("depth: !!timestamp today", "not YAML: AttributeError"),
        ("[" * 5000, "not YAML: RecursionError"),
        ("method: {type: lexical}\ndepth: many", "depth: must be a valid integer, not 'many'"),
    ],
)
def test_broken_files_are_told_by_name_and_line(text, told, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(path)
    assert str(caught.value).startswith(f"{path}: {told}")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no such file"):
        Reranker.from_config(tmp_path / "absent.yaml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Reranker.from_config(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Reranker.from_config(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("embeded", "no preset is named 'embeded'; did you mean 'embedded'?"),
        ("../default", "no preset is named '../default'"),
        (None, "no preset is named nothing"),
        (7, "no preset is named 7"),
    ],
)
def test_unknown_presets(name, told):
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_preset(name)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("reranker", "told"),
    [
        (Reranker(ByTable()), "method: a ByTable has no registered name"),
        (Reranker("lexical", order=lambda items: items), "order: a function has no registered"),
        (
            Reranker("lexical", fallback=[ByTable()]),
            "fallback.method: a ByTable has no registered name",
        ),
    ],
)
def test_objects_without_a_name_cannot_be_written(reranker, told):
    with pytest.raises(NotSerializableError, match=told):
        reranker.to_config()


class TestResolve:
    def test_each_kind(self, tmp_path):
        path = tmp_path / "own.yml"
        path.write_text("method: lexical")
        ready = Reranker("lexical")
        top_k = {"top_n": Override(2, ("top_k",))}
        assert config.resolve(ready) is ready
        for spec in ("lexical", {"method": "lexical"}, path, str(path)):
            assert config.resolve(spec, flat=top_k).to_config() == {
                "method": {"type": "lexical"},
                "top_k": 2,
            }

    def test_what_it_refuses(self):
        with pytest.raises(ConfigurationError, match=r"top_n: .*ready Reranker; set 'top_k'"):
            config.resolve(Reranker("lexical"), flat={"top_n": Override(3, ("top_k",))})
        with pytest.raises(ConfigurationError, match="give a preset name"):
            config.resolve(7)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="no preset is named 'lexicl'"):
            config.resolve("lexicl")
        with pytest.raises(ConfigurationError, match="no such file"):
            config.resolve("lexicl.yaml")


@configurable
class Added:
    model_name = "added"

    def __init__(self, *, size: Annotated[int, Ge(1)] = 3) -> None:
        self.size = size

    def score_pairs(self, query, documents):
        return [float(self.size)] * len(documents)


def test_other_packages_add_kinds_by_entry_point(monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint("added", f"{Added.__module__}:{Added.__qualname__}", "secondpass.methods")
    monkeypatch.setattr(EntryPoint, "load", lambda self: Added)
    monkeypatch.setattr(registry, "_added", lambda family: {"added": point})
    reranker = Reranker.from_config({"method": {"type": "added", "size": 4}})
    assert reranker.rerank("q", ["a"])[0].rerank_score == 4.0
    assert reranker.to_config() == {"method": {"type": "added", "size": 4}}
    with pytest.raises(ConfigurationError, match=r"method\.size: must be greater"):
        Reranker.from_config({"method": {"type": "added", "size": 0}})
    assert model_of(Added).model_json_schema()["properties"]["size"]["minimum"] == 1


def test_a_name_may_stand_for_a_class_that_is_defined_elsewhere(monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint("added", "elsewhere:Added", "secondpass.methods")
    monkeypatch.setattr(EntryPoint, "load", lambda self: Added)
    monkeypatch.setattr(registry, "_added", lambda family: {"added": point})
    assert Reranker("added").to_config() == {"method": {"type": "added"}}


def test_a_broken_package_is_told_and_does_not_spoil_the_schema(monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint("broken", "no_such_package:Any", "secondpass.methods")
    monkeypatch.setattr(registry, "_added", lambda family: {"broken": point})
    with pytest.raises(ConfigurationError, match=r"'broken' cannot be loaded \(ModuleNotFound"):
        Reranker("broken")
    assert "broken" in str(config.json_schema())


def test_a_reranker_of_another_class_is_not_written_as_if_it_were_ours():
    class Own(Reranker):
        def __init__(self) -> None:
            super().__init__("lexical")

    with pytest.raises(NotSerializableError, match="Own has no registered name"):
        Own().to_config()


def test_a_mapping_that_is_empty_on_purpose_is_kept():
    written = Reranker({"type": "cross_encoder", "model": "m", "prompts": {}}).to_config()
    assert written["method"]["prompts"] == {}


def test_keyword_settings_are_keyword_only():
    with pytest.raises(TypeError, match="at most 1 positional"):
        Reranker("lexical", 5)  # type: ignore[misc]


def test_every_shipped_kind_can_be_imported():
    for family in ("methods", "orderings"):
        for name in registry.names(family):
            cls = registry.kind(family, name)
            assert model_of(cls).model_json_schema()["additionalProperties"] is False
            assert Path(cls.__module__.replace(".", "/")).parts[0] == "secondpass"


@pytest.mark.parametrize(
    "config",
    [
        {"method": "lexical", "depth": {"env": "SOME_VARIABLE"}},
        {"method": "lexical", "order": {"env": "SOME_VARIABLE"}},
        {"method": {"type": {"env": "SOME_VARIABLE"}}},
        {"method": {"type": "lexical", "k1": {"env": "SOME_VARIABLE", "default": 1.2}}},
    ],
)
def test_what_a_wrong_variable_holds_is_not_shown(config, monkeypatch):
    monkeypatch.setenv("SOME_VARIABLE", "sk-live-SECRET")
    with pytest.raises(ConfigurationError, match="SOME_VARIABLE") as caught:
        Reranker.from_config(config)
    assert "SECRET" not in str(caught.value)


def test_options_of_others_are_no_variables():
    llm = {"type": "openai", "model": "m", "options": {"metadata": {"env": "prod"}}}
    config = {"method": {"type": "graded", "llm": llm}}
    assert Reranker.from_config(config).to_config() == config


def test_a_method_object_may_have_settings_beside_it():
    reranker = Reranker("lexical", fallback=[{"method": ByTable({"b": 9.0}), "floor": 0.5}])
    assert reranker.fallback[0].floor == 0.5


class TestOrderByName:
    ORDERS = {  # noqa: RUF012
        "learn": {"type": "tiers", "field": "level", "tiers": ["a", "b"]},
        "research": "none",
        "none": "lost_in_the_middle",
    }

    @pytest.mark.parametrize("name", ["learn", "research", "none"])
    def test_it_is_used_and_written(self, name):
        config = {"method": {"type": "lexical"}, "order": name, "orders": self.ORDERS}
        reranker = Reranker.from_config(config)
        written = reranker.to_config()
        assert written["order"] == name
        assert Reranker.from_config(written).to_config() == written
        assert reranker.order == reranker.orders[name]

    def test_over_a_preset(self):
        reranker = Reranker.from_preset("objlib", order="learn")
        assert reranker.order is reranker.orders["learn"]
        assert reranker.to_config()["order"] == "learn"
        assert {**reranker.to_config(), "order": None}.items() >= (
            Reranker.from_preset("objlib").to_config().items()
        )

    def test_it_orders(self):
        found = [{"text": "cat", "level": level} for level in "bab"]
        reranker = Reranker("lexical", order="learn", orders=self.ORDERS)
        assert reranker.rerank("cat", found).order == (1, 0, 2)
        assert reranker.rerank("cat", found, order="research").order == (0, 1, 2)

    def test_an_unknown_name(self):
        with pytest.raises(
            ConfigurationError, match=r"order: no ordering .*; did you mean 'learn'"
        ):
            Reranker("lexical", order="laern", orders=self.ORDERS)

    def test_a_registered_name(self):
        written = Reranker("lexical", order="lost_in_the_middle").to_config()
        assert written["order"] == {"type": "lost_in_the_middle"}


class TestPresetInAConfiguration:
    def test_it_is_extended(self, tmp_path):
        path = tmp_path / "own.yaml"
        path.write_text("preset: polymarket\nmethod: {device: cpu}\ndepth: 7\n")
        want = Reranker.from_preset("polymarket", method={"device": "cpu"}, depth=7).to_config()
        assert Reranker.from_config(path).to_config() == want
        assert config.resolve(path).to_config() == want
        mapping = {"preset": "polymarket", "method": {"device": "cpu"}, "depth": 7}
        assert Reranker.from_config(mapping).to_config() == want
        assert "preset" not in want

    def test_a_type_replaces_a_mapping(self):
        written = Reranker.from_config({"preset": "embedded", "method": {"type": "lexical"}})
        assert written.to_config()["method"] == {"type": "lexical"}
        assert written.to_config()["blend"]["normalize"] == "minmax"

    def test_by_a_variable(self, monkeypatch):
        described = {"preset": {"env": "RERANK_PRESET", "default": "lexical"}, "top_k": 2}
        assert Reranker.from_config(described).method.name.startswith("lexical")
        monkeypatch.setenv("RERANK_PRESET", "polymarket")
        assert Reranker.from_config(described).depth == 50
        monkeypatch.setenv("RERANK_PRESET", "sk-SECRET")
        with pytest.raises(ConfigurationError, match="RERANK_PRESET") as caught:
            Reranker.from_config(described)
        assert "SECRET" not in str(caught.value)

    def test_parameters_stand_over_the_preset_and_not_over_the_mapping(self):
        described = {"preset": "polymarket", "top_k": 3}
        depth = {"depth": Override(5, ("depth",))}
        assert config.resolve(described, flat=depth).depth == 5
        with pytest.raises(ConfigurationError, match="sets 'top_k'"):
            config.resolve(described, flat={"top_n": Override(5, ("top_k",))})

    @pytest.mark.parametrize(
        ("described", "message"),
        [
            (
                {"preset": "embeded"},
                "preset: no preset is named 'embeded'; did you mean 'embedded'",
            ),
            (
                {"preset": "cross_encoder"},
                "preset: no preset is named 'cross_encoder'; it is a met",
            ),
            ({"preset": 5}, "preset: no preset is named 5"),
            ({"method": {"preset": "x"}}, "method.preset: a preset can be named only at the top"),
            (
                {"method": {"type": "lexical", "preset": "x"}},
                "method.preset: unknown key; a preset can be named only at the top",
            ),
            (
                {"method": "lexical", "fallback": [{"preset": "x"}]},
                "fallback[0].preset: a preset can be named only at the top",
            ),
            ({"preset": "embedded", "dept": 5}, "dept: unknown key; did you mean 'depth'"),
        ],
    )
    def test_what_is_refused(self, described, message):
        for load in (Reranker.from_config, config.resolve):
            with pytest.raises(ConfigurationError) as caught:
                load(described)
            assert str(caught.value).startswith(f"configuration: {message}")

    def test_a_preset_over_a_preset(self):
        with pytest.raises(ConfigurationError, match="cannot extend another"):
            Reranker.from_preset("embedded", preset="lexical")

    def test_a_language_model_that_is_given(self):
        async def complete(prompt):
            raise NotImplementedError

        model = type("Model", (), {"name": "given", "complete": staticmethod(complete)})()
        assert config.resolve({"preset": "attune"}, llm=model).method.llm is model


class TestHints:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Reranker("cross_encoder", model="m"), "model: .*did you mean 'method.model'"),
            (lambda: Reranker.from_preset("default", model="m"), "did you mean 'method.model'"),
            (lambda: Reranker.from_preset("attune", model="m"), "did you mean 'method.llm.model'"),
            (lambda: Reranker.from_config({"method": "lexical", "k1": 1}), "mean 'method.k1'"),
            (lambda: Reranker("cohere"), r"is a preset.*from_preset\('cohere'\)"),
            (lambda: Reranker("lexical", fallback="cohere"), r"fallback\[0\].*is a preset"),
            (lambda: Reranker.from_config({"method": "cohere"}), "'preset: cohere'"),
            (lambda: Reranker.from_config("embedded"), r"no such file.*from_preset\('embedded'\)"),
            (lambda: Reranker.from_config("graded"), r"no such file.*is a method"),
            (lambda: Reranker.from_preset("graded"), r"it is a method: use Reranker\('graded'\)"),
            (lambda: config.resolve("cross_encoder"), "it is a method"),
        ],
    )
    def test_where_the_other_meaning_fits(self, make, message):
        with pytest.raises(ConfigurationError, match=message):
            make()


def test_a_fallback_may_be_named_alone():
    want = {"method": {"type": "lexical"}, "fallback": [{"type": "embedded"}]}
    assert Reranker("lexical", fallback="embedded").to_config() == want
    assert Reranker.from_config({"method": "lexical", "fallback": "embedded"}).to_config() == want


def test_a_fallback_named_alone_may_ask_the_model_that_is_given():
    class Model:
        name = "given"

        async def complete(self, prompt):
            raise NotImplementedError

    reranker = config.resolve({"method": "lexical", "fallback": "listwise"}, llm=Model())
    assert reranker.fallback[0].method.llm.name == "given"


def test_a_variable_takes_the_place_of_a_variable():
    described = config.preset("tactician", depth={"env": "UNSET_DEPTH"})
    assert described["depth"] == {"env": "UNSET_DEPTH"}


def test_every_setting_of_others_is_left_alone():
    """What a mapping of anything holds is not looked into for variables."""
    from secondpass.settings.environment import FOREIGN

    for family in ("methods", "llms", "orderings", "contexts"):
        for name in registry.names(family):
            properties = model_of(registry.kind(family, name)).model_json_schema()["properties"]
            for key, part in properties.items():
                options = part.get("anyOf", [part])
                if any(option.get("additionalProperties") is True for option in options):
                    assert key in FOREIGN


def test_the_command_sets_an_order_and_reads_a_preset_in_a_file(tmp_path):
    from secondpass.cli.configurations import configuration

    described = configuration("objlib", None, ["order=learn"])
    assert Reranker.from_config(described).to_config()["order"] == "learn"
    path = tmp_path / "own.yaml"
    path.write_text("preset: polymarket\n")
    described = configuration(None, path, ["method.device=cpu"])
    assert described == config.preset("polymarket", method={"device": "cpu"})
    with pytest.raises(ConfigurationError, match="use --preset"):
        configuration("objlib", None, ["preset=embedded"])
