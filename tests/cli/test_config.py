"""``secondpass config`` and ``presets``: nothing is run."""

import json
import os
import re
from pathlib import Path

import pytest

from command_calls import python
from secondpass import MissingExtraError
from secondpass.config import json_schema, preset_purpose
from terminals import on_a_terminal

KEY = "sk-test-SECRET-123"
SERVED = "method: {type: graded, llm: {type: openai, model: m, api_key: {env: MY_KEY}}}\n"


@pytest.fixture
def here(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MY_KEY", raising=False)
    write("good.yaml", "preset: embedded\ndepth: 30\n")
    write("served.yaml", SERVED)
    write("wrong.yaml", "method: {type: lexical, k9: 1}\ndept: 3\n")
    write("broken.yaml", "method: lexical\n  depth: [")
    return tmp_path


@pytest.mark.parametrize("command", ["validate", "show"])
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["wrong.yaml"], 1, "wrong.yaml: 2 problems"),
        (["wrong.yaml"], 1, "dept: unknown key; did you mean 'depth'?"),
        (["broken.yaml"], 1, "broken.yaml: not YAML at line 2"),
        (["gone.yaml"], 1, "gone.yaml: there is no such file"),
        (["good.yaml", "--set", "depth=many"], 1, "good.yaml: --set depth: must be a whole number"),
        (["good.yaml", "--set", "depth"], 1, "write KEY=VALUE"),
        (["--preset", "embeded"], 1, "did you mean 'embedded'"),
        (["--preset", "lexical", "--set", "method.k1=-1"], 1, "lexical: --set method.k1: "),
        ([], 2, "missing FILE, or --preset"),
        (["good.yaml", "--preset", "lexical"], 2, "FILE, --preset: give one of them"),
    ],
)
def test_what_is_wrong_has_its_place(secondpass, here, command, arguments, code, message):
    told = secondpass("config", command, *arguments)
    assert (told.code, message in told.flat, told.out) == (code, True, ""), told.err


def test_problems_can_be_read_by_programs(secondpass, here):
    told = secondpass("config", "validate", "good.yaml", "wrong.yaml", "--json")
    assert told.code == 1
    good, wrong = json.loads(told.out)
    valid = {"configuration": "good.yaml", "valid": True, "problems": []}
    assert good == {**valid, "missing": None, "warnings": []}
    assert (wrong["configuration"], wrong["valid"]) == ("wrong.yaml", False)
    paths = [problem["path"] for problem in wrong["problems"]]
    assert sorted(paths) == [["dept"], ["method", "k9"]]


def test_missing_packages_are_a_warning(secondpass, here, monkeypatch):
    from secondpass.concurrency import lazy

    monkeypatch.setattr(lazy, "is_installed", lambda module: module != "openai")
    told = secondpass("config", "validate", "served.yaml")
    assert (told.code, told.out) == (0, "served.yaml: valid\n")
    assert "warning: served.yaml: " in told.flat
    assert MissingExtraError("openai", "it").command in told.flat
    (record,) = json.loads(secondpass("config", "validate", "served.yaml", "--json").out)
    assert "pip install" in record["missing"]
    wrong = secondpass("config", "validate", "served.yaml", "--set", "method.llm.timeout=-1")
    assert (wrong.code, "method.llm.timeout" in wrong.flat) == (1, True)


FALLBACKS = {
    "fallback: [lexical]": ["fallback[0]"],
    "fallback: lexical": ["fallback"],
    "fallback: [embedded, {type: lexical, k1: 2.0}]": ["fallback[1]"],
    "fallback: [embedded]": [],
    "fallback: [{type: lexical, blend: {original: 0.7, normalize: minmax}}]": [],
}


@pytest.mark.parametrize("fallback", FALLBACKS)
def test_a_fallback_that_ranks_worse_than_none_is_a_warning(secondpass, write, fallback):
    file = write("mine.yaml", f"method: embedded\n{fallback}\n")
    checked = secondpass("config", "validate", file, "--json")
    [record] = json.loads(checked.out)
    assert (checked.code, record["valid"]) == (0, True)
    assert [text.partition(":")[0] for text in record["warnings"]] == FALLBACKS[fallback]
    assert all(f"warning: {file}: {text}" in checked.flat for text in record["warnings"])
    assert secondpass("config", "validate", file).out == f"{file}: valid\n"


def test_a_file_with_a_key_is_refused(secondpass, write):
    file = write("key.yaml", SERVED.replace("{env: MY_KEY}", KEY))
    for command in ("validate", "show"):
        told = secondpass("config", command, file)
        assert (told.code, KEY in told.out + told.err) == (1, False)
        assert "a file cannot hold a key; name its variable in 'api_key_env'" in told.flat


def test_nothing_heavy_is_imported_and_no_connection_is_opened(tmp_path):
    """For presets of each kind, in a process in which a connection is an error."""
    (tmp_path / "served.yaml").write_text(SERVED)
    code = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('a connection')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from secondpass.cli import main\n"
        "names = sys.argv[1].split()\n"
        "for command in 'validate', 'show':\n"
        "    for what in ['served.yaml'], *(['-p', name] for name in names):\n"
        "        sys.argv = ['secondpass', 'config', command, *what]\n"
        "        try: main()\n"
        "        except SystemExit as stop: assert not stop.code, what\n"
        "heavy = ('torch', 'onnxruntime', 'openvino', 'numpy', 'scipy', 'transformers', 'openai',\n"
        "         'anthropic', 'google.genai', 'httpx', 'tokenizers', 'sentence_transformers')\n"
        "assert not [name for name in heavy if name in sys.modules], sys.modules.keys()\n"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(("_KEY", "_TOKEN", "_URL"))
    }
    presets = "embedded cross_encoder_hybrid listwise_guided cohere"
    done = python(code, presets, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


def test_presets_begin_with_those_of_the_readme(secondpass):
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    table = readme[readme.index("## Which model") : readme.index("## What it costs")]
    first = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert [*json.loads(secondpass("presets").out)][: len(first)] == first


def test_presets_are_listed_one_a_line_or_as_json(secondpass):
    names = json.loads(secondpass("presets").out)
    assert names == json.loads(secondpass("presets", "--json").out)
    shown = on_a_terminal("presets", columns=80)
    heading, *rows = shown.partition("\n`secondpass presets NAME` shows")[0].splitlines()
    assert heading.split() == ["preset", "extra", "purpose"]
    assert [line.split()[0] for line in rows] == [*names]
    summaries = [line[heading.index("purpose") :] for line in rows]
    assert summaries == [purpose.split(". ")[0].removesuffix(".") for purpose in names.values()]


def test_a_preset_on_a_terminal_says_what_it_is_for():
    shown = " ".join(on_a_terminal("presets", "lexical", columns=80).split())
    assert shown == f"method: type: lexical {preset_purpose('lexical')}"


def test_the_schema_is_plain_json_in_a_terminal():
    text = on_a_terminal("config", "schema", "--json")
    assert json.loads(text) == json_schema()
    assert len(text) <= 300_000  # editors read it with each configuration


def test_terms_that_weigh_much_or_on_relative_scores_are_warned_of(secondpass, write, here):
    terms = "terms: [{{type: number, field: a, high: 1, weight: {}}}]\n"
    api = "method: {type: endpoint, api: cohere, model: m}\n"
    write("fine.yaml", api + terms.format(0.2))
    write("heavy.yaml", "method: lexical\nfallback: [embedded]\n" + terms.format(0.3))
    told = secondpass("config", "validate", "fine.yaml", "heavy.yaml", "--json")
    fine, heavy = json.loads(told.out)
    assert fine["warnings"] == []
    first, *relative = heavy["warnings"]
    assert first.startswith("terms: their weights are 0.3 in all; above 0.2")
    assert [line.partition(",")[0] for line in relative] == [
        "terms: with method lexical (unbounded)",
        "terms: with fallback all-MiniLM-L6-v2-int8 (similarity)",
    ]


@pytest.mark.parametrize(
    ("preset", "extra"),
    [
        ("embedded", "embedded"),
        ("multilingual", "multilingual"),
        ("default", "openvino"),
        ("cohere", "remote"),
        ("cheap", "embedded, openai"),
        ("lexical", "none"),
    ],
)
def test_presets_say_which_extra_they_need(preset, extra):
    shown = on_a_terminal("presets", env={"COLUMNS": "400", "NO_COLOR": "1"})
    assert re.search(rf"^{preset} +{extra}  ", shown, re.MULTILINE), shown
