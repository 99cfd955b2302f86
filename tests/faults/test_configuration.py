"""Wrong configurations of methods that ask a language model: the error names the setting and shows
no key."""

import copy
import math
import pickle
import sys
import traceback

import pytest

from fake_provider import FakeProvider
from secondpass import Candidate, ConfigurationError, MissingExtraError, Reranker
from secondpass.errors import NotSerializableError

KEY = "sk-test-SECRET-123"
NAN, INFINITE = math.nan, math.inf


def changed(path, value):
    """A working configuration with this value at a path."""
    config = {
        "method": {
            "type": "graded",
            "llm": {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"},
        },
        "limits": {"deadline": 1.0},
    }
    part = config
    *steps, key = path.split(".")
    for step in steps:
        part = part.setdefault(step, {})
    part[key] = value
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


@pytest.mark.parametrize("path", WRONG)
def test_wrong_settings_are_named(path):
    for value in WRONG[path]:
        with pytest.raises(ConfigurationError) as caught:
            Reranker.from_config(changed(path, copy.deepcopy(value)))
        message = str(caught.value)
        assert path.rpartition(".")[2] in message, value
        assert len(message) < 2000, value


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
def test_contradicting_settings(method):
    llm = {"type": "openai", "model": "m"}
    with pytest.raises(ConfigurationError):
        Reranker.from_config({"method": {**method, "llm": llm}})


STAGES = {
    "none": [],
    "one": [{"type": "lexical"}],
    "no list": {"type": "lexical"},
    "of unknown names": ["zork", "lexical"],
    "of numbers": [1, 2],
    "that widen": [{"type": "lexical", "depth": 5}, {"type": "lexical", "depth": 10}],
    "with a depth of none": [{"type": "lexical"}, {"type": "lexical", "depth": 0}],
    "without a model": [{"type": "lexical"}, {"type": "graded"}],
}


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
def test_wrong_stages(stages):
    with pytest.raises(ConfigurationError, match="stages"):
        Reranker.from_config({"method": {"type": "cascade", "stages": stages}})


def test_a_cost_limit_needs_prices():
    config = changed("limits.cost", 0.01)
    with pytest.raises(ConfigurationError, match="prices"):
        Reranker.from_config(config)


def test_a_misspelt_kind_is_suggested():
    with pytest.raises(ConfigurationError, match="anthropic"):
        Reranker.from_config(changed("method.llm.type", "antropic"))


def test_a_key_beside_its_variable():
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
def test_no_error_shows_the_key(path, value):
    config = changed(path, value)
    config["method"]["llm"]["api_key"] = KEY
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(config)
    error = caught.value
    texts = [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
    assert KEY not in "".join(texts)
    assert KEY not in repr(error.__context__) + repr(error.__cause__)


def test_a_key_for_its_variable_is_not_shown():
    with pytest.raises(ConfigurationError, match="api_key_env: give the name") as caught:
        Reranker.from_config(changed("method.llm.api_key_env", KEY))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google"])
def test_a_key_from_python_is_never_shown_or_written(kind):
    llm = {"type": kind, "model": "m", "base_url": "http://127.0.0.1:1", "api_key": KEY}
    reranker = Reranker.from_config({"method": {"type": "graded", "llm": llm}})
    method = reranker.method
    texts = [repr(reranker), repr(method), repr(method.llm), repr(vars(method.llm))]
    assert KEY not in "".join(texts)
    with pytest.raises(NotSerializableError) as caught:
        reranker.to_config()
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert "api_key" in str(caught.value)


def test_round_trip():
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
def test_a_missing_sdk_names_its_extra(kind, uninstalled):
    uninstalled(kind)
    llm = {"type": kind, "model": "m"}
    with pytest.raises(MissingExtraError, match=rf"secondpass\[{kind}\]"):
        Reranker.from_config({"method": {"type": "graded", "llm": llm}})


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_missing_sdk_needs_a_fallback(kind, uninstalled):
    uninstalled(kind)
    llm = {"type": kind, "model": "m", "api_key": KEY}
    method = {"type": "graded", "llm": llm}
    reranker = Reranker.from_config({"method": method, "fallback": ["lexical"]})
    ranking = reranker.rerank("cat", ["dog", "cat"])
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
def test_wrong_functions_raise_nothing(function):
    method = {"type": "graded", "llm": function}
    reranker = Reranker.from_config({"method": method, "limits": {"retries": 0}})
    ranking = reranker.rerank("q", [Candidate("a", id="a"), "b"])
    assert ranking.order == (0, 1)
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues
    assert KEY not in str(ranking.report.to_dict())


@pytest.mark.parametrize("llm", [5, "a string", object(), Reranker, int])
def test_other_objects_are_no_models(llm):
    with pytest.raises(ConfigurationError, match="llm"):
        Reranker.from_config({"method": {"type": "graded", "llm": llm}})


def test_the_name_of_a_variable_is_written():
    with FakeProvider() as provider:
        llm = provider.llm("openai", api_key_env="SOME_KEY")
        config = {"method": {"type": "graded", "llm": llm}}
        assert Reranker.from_config(config).to_config() == config


def test_a_missing_extra_is_an_import_error():
    error = MissingExtraError("openai", "the model")
    assert isinstance(error, ImportError)
    assert isinstance(error, RuntimeError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.extra, str(again)) == (MissingExtraError, "openai", str(error))
