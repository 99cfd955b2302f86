"""Wrong configurations of methods that ask a model: refused when they are given, in words that name
the setting, and show no key."""

import copy
import json
import math
import pickle
import sys
import traceback

import jsonschema
import pytest

from fake_provider import FakeProvider
from secondpass import Candidate, ConfigurationError, MissingExtraError, Reranker
from secondpass.config import json_schema
from secondpass.errors import NotSerializableError

KEY = "sk-test-SECRET-123"
NAN, INFINITE = math.nan, math.inf


def changed(path, value):
    """A configuration that works, but for the value at this path."""
    config = {
        "method": {
            "type": "graded",
            "llm": {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"},
        },
        "limits": {"deadline": 1.0},
    }
    here = config
    *way, last = path.split(".")
    for step in way:
        here = here.setdefault(step, {})
    here[last] = value
    return config


WRONG = {
    "limits.deadline": [0, -1, NAN, "soon", [], True],
    "limits.calls": [0, -1, 1.5, NAN, "many", True],
    "limits.tokens": [0, -5, 0.5, NAN, "all"],
    "limits.cost": [0, -0.1, NAN, "cheap"],
    "limits.concurrency": [0, -1, 2.5, None, "8 at once"],
    "limits.retries": [-1, 0.5, None, "two"],
    "limits.repair": [-1, 2, 0.5, None, "yes"],
    "limits.dead_line": [5],
    "limits": [5, "none", [1]],
    "method.llm": [None, 5, "openai", [], {}, {"model": "m"}],
    "method.llm.type": [None, 5, "open_ai", "os.system", "builtins:eval", "", ["openai"]],
    "method.llm.model": [None, "", 5, ["m"]],
    "method.llm.base_url": ["", "localhost:8000", "ftp://host", "file:///etc/passwd", 5],
    "method.llm.api_key_env": ["", 5],
    "method.llm.api_key": ["", "  ", 5, ["k"]],
    "method.llm.temperature": [-0.1, 2.5, NAN, INFINITE, "hot"],
    "method.llm.max_tokens": [0, -1, 1.5, "all"],
    "method.llm.timeout": [0, -1, NAN, None, "long"],
    "method.llm.structured": ["yaml", None, True, ""],
    "method.llm.prices": [5, {"input": 1}, {"input": -1, "output": 1}, {"input": NAN, "output": 1}],
    "method.llm.zork": [1],
    "method.llm.context_window": [0, -1, "big"],
    "method.llm.options": [5, "x", ["x"]],
    "method.scale": [[], [0], [10, 0], [5, 5], [0, NAN], [0, INFINITE], "0-10", [0, 5, 10], 10],
    "method.batch_size": [0, -1, 1.5, "all"],
    "method.reply": ["xml", None, "permutation"],
    "method.labels": ["uuid", None, 5],
    "method.bare": ["perhaps", 7],
    "method.prompt": [5, "be kind", {"criteria": "one"}, {"guidelines": 5}, {"zork": 1}],
    "method.prompt.user": ["no placeholder", "{query} {", "{query} {documents} {zork}", 5],
    "method.prompt.system": ["{zork}", "{"],
    "method.windows": [5],
    "method.type": ["grade", "secondpass.strategies.graded:Graded", "os.system"],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [(path, value) for path, values in WRONG.items() for value in values],
    ids=repr,
)
def test_a_wrong_setting_is_refused_and_named(path, value):
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(changed(path, copy.deepcopy(value)))
    told = str(caught.value)
    assert path.rpartition(".")[2] in told
    assert len(told) < 2000


METHODS = {
    "window of one": {"type": "listwise", "window": 1},
    "window negative": {"type": "listwise", "window": -5},
    "stride of none": {"type": "listwise", "stride": 0},
    "stride as wide as the window": {"type": "listwise", "window": 10, "stride": 10},
    "stride wider than the window": {"type": "listwise", "window": 10, "stride": 15},
    "a scale for an order": {"type": "listwise", "scale": [0, 10]},
    "grades asked for as an order": {"type": "graded", "reply": "permutation"},
    "a bare object": {"type": "graded", "reply": "keyed", "bare": True},
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_settings_that_do_not_go_together_are_refused(method):
    llm = {"type": "openai", "model": "m"}
    with pytest.raises(ConfigurationError):
        Reranker.from_config({"method": {**method, "llm": llm}})


STAGES = {
    "none": [],
    "one": [{"type": "lexical"}],
    "no list": {"type": "lexical"},
    "of strings that are no names": ["zork", "lexical"],
    "of numbers": [1, 2],
    "that widen": [{"type": "lexical", "depth": 5}, {"type": "lexical", "depth": 10}],
    "with a depth of none": [{"type": "lexical"}, {"type": "lexical", "depth": 0}],
    "without a model": [{"type": "lexical"}, {"type": "graded"}],
}


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
def test_stages_that_are_none_are_refused(stages):
    with pytest.raises(ConfigurationError, match="stages"):
        Reranker.from_config({"method": {"type": "cascade", "stages": stages}})


def test_a_limit_of_cost_needs_prices():
    config = changed("limits.cost", 0.01)
    with pytest.raises(ConfigurationError, match="prices"):
        Reranker.from_config(config)


def test_a_kind_that_is_misspelt_is_named_with_the_right_one():
    with pytest.raises(ConfigurationError, match="anthropic"):
        Reranker.from_config(changed("method.llm.type", "antropic"))


def test_a_key_and_the_name_of_its_variable_are_one_too_many():
    config = changed("method.llm.api_key", KEY)
    config["method"]["llm"]["api_key_env"] = "SOME_KEY"
    with pytest.raises(ConfigurationError, match="api_key") as caught:
        Reranker.from_config(config)
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("method.llm.zork", 1),
        ("method.llm.model", None),
        ("method.llm.temperature", "hot"),
        ("method.llm.base_url", "nowhere"),
        ("limits.deadline", -1),
        ("method.llm.prices", {"input": -1, "output": 0}),
    ],
)
def test_no_error_shows_the_key_that_stands_beside_the_mistake(path, value):
    config = changed(path, value)
    config["method"]["llm"]["api_key"] = KEY
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(config)
    error = caught.value
    shown = [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
    assert KEY not in "".join(shown)
    assert KEY not in repr(error.__context__) + repr(error.__cause__)


def test_a_key_in_the_wrong_place_is_not_shown():
    """A key put where the name of its variable belongs is a likely mistake."""
    with pytest.raises(ConfigurationError, match="api_key_env: give the name") as caught:
        Reranker.from_config(changed("method.llm.api_key_env", KEY))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google"])
def test_a_key_given_in_python_is_never_shown_or_written(kind):
    llm = {"type": kind, "model": "m", "base_url": "http://127.0.0.1:1", "api_key": KEY}
    one = Reranker.from_config({"method": {"type": "graded", "llm": llm}})
    shown = [repr(one), repr(one.method), repr(one.method.llm), repr(vars(one.method.llm))]
    assert KEY not in "".join(shown)
    with pytest.raises(NotSerializableError) as caught:
        one.to_config()
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert "api_key" in str(caught.value)


def test_a_configuration_goes_there_and_back():
    config = {
        "method": {
            "type": "cascade",
            "stages": [
                {"type": "lexical", "depth": 50},
                {
                    "type": "listwise",
                    "depth": 20,
                    "window": 10,
                    "stride": 5,
                    "llm": {
                        "type": "anthropic",
                        "model": "m",
                        "api_key_env": "SOME_KEY",
                        "prices": {"input": 1.0, "output": 2.0},
                    },
                },
            ],
        },
        "limits": {"deadline": 5.0, "calls": 3, "retries": 1, "repair": 0},
    }
    assert Reranker.from_config(config).to_config() == config


YAML = {
    "broken": "method: [1, 2\n",
    "a tab": "method:\n\ttype: graded\n",
    "an object of Python": "method: !!python/object/apply:os.system ['true']\n",
    "an object of Python elsewhere": "method: {type: !!python/name:os.system }\n",
    "an unknown tag": "method: !secret x\n",
    "a key twice": "method: {type: graded}\nmethod: {type: lexical}\n",
    "a key twice within": "method: {type: lexical, type: graded}\n",
    "no mapping": "- 5\n",
    "nothing": "",
    "only a comment": "# nothing\n",
    "two documents": "method: lexical\n---\nmethod: lexical\n",
    "an alias without an anchor": "method: *other\n",
    "an alias to itself": "method: &a {type: graded, llm: *a}\n",
    "billions of laughs": "\n".join(
        ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 6)]
        + ["method: *a5"]
    ),
    "deep nesting": "method: " + "[" * 5000,
    "numbers for keys": "5: 6\n",
    "a null for the method": "method:\n",
    "a zero byte": "method: lexical\x00\n",
}


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_yaml_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "rerank.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(path)
    assert "rerank.yaml" in str(caught.value)
    assert len(str(caught.value)) < 5000


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "rerank.yaml"
    path.write_bytes(b"method: \xff\xfe\n")
    with pytest.raises(ConfigurationError, match=r"rerank\.yaml"):
        Reranker.from_config(path)


@pytest.mark.parametrize("name", ["zork", "", "../default", "default.yaml", "os.system", None, 5])
def test_a_preset_that_there_is_not_is_refused(name):
    with pytest.raises(ConfigurationError, match="preset"):
        Reranker.from_preset(name)


PACKAGES = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai"}


@pytest.fixture
def uninstalled(monkeypatch):
    """Makes it look as if the SDK of a provider were not installed."""

    def remove(kind):
        for name in [*sys.modules]:
            if name == PACKAGES[kind] or name.startswith(PACKAGES[kind] + "."):
                monkeypatch.delitem(sys.modules, name)

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name == PACKAGES[kind]:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])

    return remove


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_missing_sdk_is_told_with_what_to_install(kind, uninstalled):
    uninstalled(kind)
    llm = {"type": kind, "model": "m"}
    with pytest.raises(MissingExtraError, match=rf"secondpass\[{kind}\]"):
        Reranker.from_config({"method": {"type": "graded", "llm": llm}})


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_missing_sdk_leaves_the_ranking_to_a_fallback(kind, uninstalled):
    uninstalled(kind)
    llm = {"type": kind, "model": "m", "api_key": KEY}
    one = Reranker.from_config({"method": {"type": "graded", "llm": llm}, "fallback": ["lexical"]})
    ranking = one.rerank("cat", ["dog", "cat"])
    assert ranking.order == (1, 0)
    assert ranking.report.status == "degraded"
    assert {issue.code for issue in ranking.report.issues} == {"missing_extra"}


FUNCTIONS = {
    "returns nothing": lambda messages: None,
    "returns a number": lambda messages: 5,
    "returns bytes": lambda messages: b"{}",
    "returns itself": lambda messages: messages,
    "takes no argument": lambda: "{}",
    "raises with the passage": lambda messages: 1 / len(messages[-1]["content"][:0]),
    "raises an odd error": lambda messages: (_ for _ in ()).throw(KeyError(KEY)),
    "raises StopIteration": lambda messages: next(iter(())),
    "raises MemoryError": lambda messages: (_ for _ in ()).throw(MemoryError()),
    "raises RecursionError": lambda messages: (_ for _ in ()).throw(RecursionError(KEY)),
    "raises TimeoutError": lambda messages: (_ for _ in ()).throw(TimeoutError(KEY)),
    "returns a generator": lambda messages: (part for part in "{}"),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_that_is_no_model_raises_nothing(function):
    one = Reranker.from_config(
        {"method": {"type": "graded", "llm": function}, "limits": {"retries": 0}}
    )
    ranking = one.rerank("q", [Candidate("a", id="a"), "b"])
    assert ranking.order == (0, 1)
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues
    assert KEY not in str(ranking.report.to_dict())


@pytest.mark.parametrize("llm", [5, "a string", object(), Reranker, int])
def test_what_is_no_model_is_refused(llm):
    with pytest.raises(ConfigurationError, match="llm"):
        Reranker.from_config({"method": {"type": "graded", "llm": llm}})


def test_a_preset_of_a_model_names_no_key(tmp_path):
    """A configuration with the key's variable is written out without the key."""
    with FakeProvider() as provider:
        config = {
            "method": {"type": "graded", "llm": provider.llm("openai", api_key_env="SOME_KEY")}
        }
        assert Reranker.from_config(config).to_config() == config


def merging(levels, width):
    """Mappings each of which merges the one before it many times."""
    lines = ["a0: &a0 {k0: 1}"]
    for level in range(1, levels):
        parts = ",".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} {{<<: [{parts}]}}")
    return "\n".join(lines)


BOUNDED = {
    "merge keys": merging(14, 5),
    "more merge keys": "\n".join(
        f"b{n}: {{<<: [{','.join(['*a'] * 300)}]}}" if n else f"a: &a {{{'k: 1, j: 2'}}}"
        for n in range(300)
    ),
    "a mapping merged into itself": "method: &a {<<: *a}",
    "a number without end": "method: lexical\ndepth: 0x" + "f" * 5000,
    "a number too large": "method: lexical\nfloor: 1" + "0" * 399,
    "a float that overflows": "method: lexical\nfloor: " + "1:" * 180 + "1.5",
    "nested lists": "method: lexical\norder: " + "[" * 100 + "]" * 100,
    "cascades of cascades": "method: "
    + "{type: cascade, stages: [lexical, " * 60
    + "x"
    + "]}" * 60,
    "a large file": "method: lexical\n" + "# comment\n" * 30_000,
    "a variable as the file": "env: PATH",
    "a variable of an impossible name": 'method: lexical\ndepth: {env: "A\\ud800"}',
    "an impossible name of a key": 'method: lexical\n"\\ud800": 1',
    "a default that is a list": "method: lexical\nfallback: {env: UNSET_, default: [lexical]}",
    "two keys that are equal": "method: {1: a, 0x1: b}",
}


@pytest.mark.parametrize("text", BOUNDED.values(), ids=BOUNDED)
def test_small_files_end_at_once(tmp_path, text):
    path = tmp_path / "rerank.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(path)
    assert "rerank.yaml" in str(caught.value)
    str(caught.value).encode()


def test_a_variable_that_describes_a_bomb_is_a_text(monkeypatch):
    monkeypatch.setenv("DEPTH", merging(14, 5).replace("\n", ", "))
    with pytest.raises(ConfigurationError, match="DEPTH"):
        Reranker.from_config({"method": "lexical", "depth": {"env": "DEPTH"}})


def test_merge_keys(tmp_path):
    path = tmp_path / "rerank.yaml"
    path.write_text(
        "method: &base {type: lexical, k1: 1.0, b: 0.1}\n"
        "fallback:\n"
        "  - &second {<<: *base, k1: 2.0}\n"
        "  - {<<: *second, b: 0.5}\n"
        "  - {<<: [*second, *base], floor: 1.0}\n"
    )
    assert Reranker.from_config(path).to_config()["fallback"] == [
        {"type": "lexical", "k1": 2.0, "b": 0.1},
        {"type": "lexical", "k1": 2.0, "b": 0.5},
        {"type": "lexical", "k1": 2.0, "b": 0.1, "floor": 1.0},
    ]


def test_a_mapping_merged_before_it_is_read(tmp_path):
    path = tmp_path / "rerank.yaml"
    path.write_text(
        "method:\n"
        "  <<: &second\n"
        "    <<: &first {type: lexical, k1: 1.0}\n"
        "    k1: 2.0\n"
        "  k1: 3.0\n"
        "fallback: [*second, *first]\n"
    )
    written = Reranker.from_config(path).to_config()
    assert written["method"]["k1"] == 3.0
    assert [stage["k1"] for stage in written["fallback"]] == [2.0, 1.0]


SECRETS = {
    "openai": ("api_key", lambda one: {"type": "graded", "llm": {"type": "openai", **one}}),
    "cross_encoder": ("token", lambda one: {"type": "cross_encoder", **one}),
    "endpoint": ("api_key", lambda one: {"type": "endpoint", "api": "jina", **one}),
    "no kind": ("api_key", lambda one: {"type": "zork", **one}),
}


@pytest.mark.parametrize(("name", "method"), SECRETS.values(), ids=SECRETS)
def test_a_key_in_a_file_is_refused(tmp_path, name, method):
    path = tmp_path / "rerank.yaml"
    for value in (KEY, {"env": "SOME_KEY", "default": KEY}):
        path.write_text(json.dumps({"method": method({"model": "m", name: value})}))
        with pytest.raises(ConfigurationError, match=f"{name}_env") as caught:
            Reranker.from_config(path)
        assert KEY not in str(caught.value)


@pytest.mark.parametrize(("name", "method"), [*SECRETS.values()][:3], ids=[*SECRETS][:3])
def test_a_key_in_python_or_a_variable_is_taken(tmp_path, monkeypatch, name, method):
    assert Reranker.from_config({"method": method({"model": "m", name: KEY})})
    monkeypatch.setenv("SOME_KEY", KEY)
    path = tmp_path / "rerank.yaml"
    path.write_text(json.dumps({"method": method({"model": "m", name: {"env": "SOME_KEY"}})}))
    assert Reranker.from_config(path)


def test_a_key_over_a_preset_in_a_file_is_refused(tmp_path):
    path = tmp_path / "rerank.yaml"
    path.write_text(f"preset: scallop\nmethod: {{llm: {{api_key: {KEY}}}}}\n")
    with pytest.raises(ConfigurationError, match=r"method\.llm\.api_key: .*'api_key_env'"):
        Reranker.from_config(path)


def test_a_missing_extra_is_an_import_error():
    error = MissingExtraError("openai", "the model")
    assert isinstance(error, ImportError)
    assert isinstance(error, RuntimeError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.extra, str(again)) == (MissingExtraError, "openai", str(error))


@pytest.mark.parametrize("value", ["x", "a", "lexcial-preset"])
def test_a_variable_that_is_wrong_spoils_no_message(monkeypatch, value):
    monkeypatch.setenv("PRESET", value)
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"preset": {"env": "PRESET"}})
    message = str(caught.value)
    assert message.startswith("configuration: preset: no preset is named what it holds; ")
    assert "accurate, attune" in message
    assert "lexical, llama_cpp, mixedbread" in message
    assert "lexcial" not in message


def test_a_number_of_a_variable_is_not_shown(monkeypatch):
    monkeypatch.setenv("DEPTH", "-54321")
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"method": "lexical", "depth": {"env": "DEPTH"}})
    assert "54321" not in str(caught.value)


def test_a_string_where_a_list_is_expected():
    with pytest.raises(ConfigurationError, match=r"render\.fields: must be a list, not 'text'"):
        Reranker.from_config({"method": "lexical", "render": {"fields": "text"}})


def test_far_words_are_not_suggested():
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config({"method": "lexical", "model": "x"})
    assert "did you mean" not in str(caught.value)


def test_the_schema_knows_orders_laid_over_those_of_a_preset():
    config = {"preset": "objlib", "orders": {"learn": {"window": 3}}, "order": "learn"}
    assert Reranker.from_config(config).order.window == 3
    validate = jsonschema.Draft202012Validator(json_schema())
    assert validate.is_valid(config)
    assert not validate.is_valid({**config, "orders": {"learn": {"windw": 3}}})
    assert not validate.is_valid({**config, "orders": {"other": {"window": 3}}})
