"""Wrong configurations of methods that ask a language model: the error names the setting and shows
no key."""

import copy
import math
import sys
import traceback

import pytest

from secondpass import ConfigurationError, MissingExtraError, Reranker
from secondpass.config import load
from secondpass.errors import NotSerializableError
from secondpass.settings import yaml_text

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
    "method.llm": [None, 5, "openai", [], {}, {"model": "m"}, object(), Reranker, int],
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
    with pytest.raises(MissingExtraError, match=rf"\.\[{kind}\]"):
        Reranker.from_config({"method": {"type": "graded", "llm": llm}})


NAME = "k\x1b]0;T\x07\x9b2J\u202e\u2066\r\nsecondpass: all is well"
HOSTILE = {
    "unknown key": {"method": "lexical", NAME: 1},
    "unknown keys": {"method": "lexical", NAME: 1, "x": 2},
    "in a method": {"method": {"type": "lexical", NAME: 1}},
    "in a list": {"method": "lexical", "fallback": [{"type": "lexical", NAME: 1}]},
    "unknown kind": {"method": {"type": NAME}},
    "unknown field": {"method": "lexical", "limits": {NAME: 1}},
    "names of orderings": {"method": "lexical", "orders": {NAME: "diverse"}, "order": "x"},
    "unknown ordering": {"method": "lexical", "order": NAME},
    "unknown variable": {"method": "lexical", "depth": {"env": NAME}},
    "variable": {"method": "lexical", "depth": {"env": "NO_SUCH", NAME: 1}},
    "value": {"method": "lexical", "depth": NAME},
    "base_url": {"method": {"type": "endpoint", "api": "tei", "base_url": NAME}},
    "api": {"method": {"type": "endpoint", "api": NAME}},
    "reserved option": {
        "method": {"type": "endpoint", "api": "tei", "base_url": "http://h", "options": {NAME: {}}}
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_a_file_cannot_control_a_terminal(name, tmp_path):
    """Neither in Python's traceback nor in a log: a name begins no line of its own."""
    path = tmp_path / f"c{NAME[:5]}.yaml"
    path.write_text(yaml_text.write(HOSTILE[name]))
    try:
        load(path)
    except ConfigurationError as error:
        message = str(error)
        assert not {*message} & {*"\x1b\x07\x9b\u202e\u2066\r"}
        assert "\nsecondpass" not in message
    else:
        assert name == "reserved option"  # options may have any names
