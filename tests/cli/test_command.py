"""The command as a whole: help, exit codes, streams, and that no traceback reaches anybody."""

import inspect
import json
import os
import pty
import subprocess
import sys

import pytest
import typer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import secondpass as package
from secondpass.cli import app
from terminals import on_a_terminal

COMMANDS = sorted(app.COMMANDS)
SCRIPT = [sys.executable, "-m", "secondpass"]
# Each example is a whole run of the command, so there are fewer of them than usual.
shared_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=settings().max_examples // 8,
)


def process(*arguments, stdin=b"", env=None, **options):
    return subprocess.run(
        [*SCRIPT, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
        **options,
    )


def python(code, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


# ---------------------------------------------------------------------- help and versions


def test_these_commands_there_are():
    assert {"rerank", "eval", "doctor", "presets", "schema"} <= set(COMMANDS)


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, ("--help", "-h")[number % 2]) for number, command in enumerate(COMMANDS)],
)
def test_every_command_has_help(secondpass, command, option):
    told = secondpass(command, option)
    assert told.code == 0
    assert f"Usage: secondpass {command}" in told.out
    assert "--help" in told.out
    assert told.err == ""


def test_the_help_names_every_command(secondpass):
    told = secondpass("--help")
    assert told.code == 0
    for command in COMMANDS:
        assert command in told.out


def test_the_version_is_the_package_s(secondpass):
    assert secondpass("--version").out == f"secondpass {package.__version__}\n"


def test_an_unknown_command_is_a_wrong_call(secondpass):
    told = secondpass("rerang")
    assert (told.code, "rerang" in told.flat) == (2, True)


def test_without_its_packages_it_says_how_to_get_them():
    for missing in ("typer", "rich"):
        told = python(
            f"import sys; sys.modules[{missing!r}] = None\n"
            "sys.argv = ['secondpass', 'presets']; from secondpass.cli import main; main()"
        )
        assert told.returncode == 1
        assert 'pip install "secondpass[cli]"' in told.stderr
        assert "Traceback" not in told.stderr


IMPORTS = """
import json, sys
imported, found = set(), {}
def record(step):
    found[step] = sorted({*sys.modules} - imported)
    imported.update(sys.modules)
import secondpass
record("library")
from secondpass.cli import main
for command in sys.argv[1].split():
    sys.argv = ["secondpass", command, "--help"]
    try: main()
    except SystemExit: record(command)
print(json.dumps(found))
"""
"""What a process imports for the library, and then for the help of one command after another."""


@pytest.fixture(scope="module")
def imports():
    """Imported modules by what imports them first: the library, then ``eval`` and the others."""
    commands = ["eval", *(name for name in COMMANDS if name != "eval"), "--help"]
    done = python(IMPORTS, " ".join(commands))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_library_imports_nothing_of_the_command(imports):
    ours = ("typer", "rich", "click", "secondpass.cli")
    assert [name for name in imports["library"] if name.startswith(ours)] == []


def test_help_imports_nothing_slow(imports):
    """A model runtime or a Markdown parser would double the CPU time."""
    slow = "numpy scipy torch onnxruntime openvino openai matplotlib httpx asyncio yaml pygments"
    assert [name for names in imports.values() for name in names if name in slow.split()] == []
    assert "secondpass.search.retrieval" not in imports["library"] + imports["eval"]


def test_a_command_imports_no_other(imports):
    modules = {
        command: [name for name in imports[command] if "cli.commands." in name]
        for command in COMMANDS
    }
    assert modules == {
        command: [f"secondpass.cli.commands.{app.COMMANDS[command].partition(':')[0]}"]
        for command in COMMANDS
    }


def test_a_similar_command_is_suggested(secondpass):
    told = secondpass("rernk")
    assert (told.code, told.out) == (2, "")
    suggests = "suggest_commands" in inspect.signature(typer.Typer).parameters  # newer ones do
    assert ("rerank" in told.flat) is suggests


def test_ctrl_c_is_told_as_such_whatever_a_library_makes_of_it():
    told = python(
        "import os, signal\n"
        "from secondpass.cli.running import run\n"
        "def command():\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt: raise ImportError('a module could not be loaded')\n"
        "run(command)"
    )
    assert (told.returncode, told.stderr) == (130, "secondpass: stopped\n")


# ---------------------------------------------------------------------- configurations


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--preset", "lexcal"], "no preset is named 'lexcal'; did you mean 'lexical'"),
        (["--preset", ""], "no preset is named"),
        (["--config", "gone.yaml"], "gone.yaml: there is no such file"),
        (["--config", "."], "cannot be read"),
        (["--config", "broken.yaml"], "broken.yaml: not YAML at line 2"),
        (["--config", "list.yaml"], "list.yaml: must hold a mapping"),
        (["--config", "good.yaml", "--set", "dept=3"], "dept: unknown key; did you mean 'depth'"),
        (["--config", "good.yaml", "--set", "depth=many"], "depth: "),
        (["--config", "good.yaml", "--set", "depth"], "write KEY=VALUE"),
        (["--config", "good.yaml", "--set", "=1"], "write KEY=VALUE"),
        (["--config", "good.yaml", "--set", "a..b=1"], "write KEY=VALUE"),
        (["--config", "good.yaml", "--set", "." * 100 + "=1"], "write KEY=VALUE"),
        (["--config", "good.yaml", "--set", "method.k9=1"], "method.k9"),
        (["--config", "good.yaml", "--set", "method=nosuch"], "no kind is named 'nosuch'"),
        (["--config", "good.yaml", "--set", "depth=&a [*a]"], "refers to itself"),
        (["--config", "good.yaml", "--set", "depth=2020-99-99"], "depth: "),
        (["--config", "good.yaml", "--set", "depth=!!int"], "depth: "),
        (["--config", "good.yaml", "--set", "depth=!!timestamp x"], "depth: "),
    ],
)
@pytest.mark.parametrize("command", ["rerank"])
def test_what_is_wrong_with_a_configuration_is_told(
    secondpass, write, tmp_path, monkeypatch, command, arguments, told
):
    monkeypatch.chdir(tmp_path)
    write("good.yaml", "method: lexical")
    write("broken.yaml", "method: lexical\n  depth: [")
    write("list.yaml", "- lexical")
    outcome = secondpass(command, *arguments)
    assert (outcome.code, told in outcome.flat, outcome.out) == (1, True, ""), outcome.err


@pytest.mark.parametrize(
    "setting", ["method..api_key=KEY", "api_key: KEY", "api_key KEY", f"{'a.' * 30}api_key=KEY"]
)
def test_a_setting_that_is_not_understood_is_named_without_its_value(secondpass, setting):
    told = secondpass("rerank", "--preset", "lexical", "--set", setting)
    assert (told.code, "write KEY=VALUE" in told.flat) == (1, True)
    assert "KEY" not in told.flat.replace("KEY=VALUE", "")


@pytest.mark.parametrize("command", ["rerank", "doctor"])
def test_a_preset_and_a_file_at_once_are_a_wrong_call(secondpass, write, command):
    outcome = secondpass(
        command, "--preset", "lexical", "--config", write("a.yaml", "method: lexical")
    )
    assert (outcome.code, outcome.out) == (2, ""), outcome.err
    assert "--preset, --config: give one of them" in outcome.flat


def test_presets_are_listed_one_a_line_for_whatever_reads_them(secondpass):
    told = secondpass("presets")
    names = json.loads(secondpass("presets", "--json").out)
    assert [line.split()[0] for line in told.out.splitlines()] == ["preset", *names]


# ---------------------------------------------------------------------- streams


def in_a_terminal(*arguments):
    """What the command shows in a terminal, as a process."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [*SCRIPT, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={
            **{k: v for k, v in os.environ.items() if k != "NO_COLOR"},
            "TERM": "xterm",
        },
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    run.wait(60)
    return shown.decode()


def test_colour_is_for_terminals_that_want_it(secondpass):
    arguments = ["presets", "lexical"]
    assert "\x1b[" in in_a_terminal(*arguments)
    assert "\x1b[" in on_a_terminal(*arguments)
    assert "\x1b[" not in secondpass(*arguments).out
    wrong = ["rerank", "--preset", "nosuch"]
    assert "\x1b[1;31m" in on_a_terminal(*wrong)
    assert "31m" not in on_a_terminal(*wrong, env={"NO_COLOR": "1"})
    assert "\x1b[" not in secondpass(*wrong).err


def test_a_variable_that_asks_for_colour_makes_no_terminal_of_a_pipe(secondpass, monkeypatch):
    call = ["rerank", "-p", "lexical", "-q", "a"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    told = secondpass(*call, stdin=b'"a"')
    assert json.loads(told.out)["report"]["status"] == "ok"
    assert "1 query in" in told.err
    assert "Reranking" not in told.err


def test_a_table_in_a_file_is_the_same_from_a_terminal_and_from_a_pipe(
    secondpass, tmp_path, monkeypatch
):
    candidates = tmp_path / "in.jsonl"
    candidates.write_text(json.dumps("a text that is long enough to be cut " * 9))
    call = ["rerank", "-p", "lexical", str(candidates), "-q", "text", "-f", "table", "-o"]
    on_a_terminal(*call, tmp_path / "one")
    monkeypatch.setenv("FORCE_COLOR", "1")
    secondpass(*call, tmp_path / "other")
    written = (tmp_path / "one").read_text()
    assert written == (tmp_path / "other").read_text()
    assert "be cut a text" in written
    assert "\x1b" not in written


def test_rankings_that_are_shown_have_no_bars_between_them(tmp_path):
    candidates = tmp_path / "in.jsonl"
    candidates.write_text('"a text"')
    shown = on_a_terminal("rerank", "-p", "lexical", candidates, "-q", "text")
    assert "a text" in shown
    assert "Reranking" not in shown


@pytest.mark.parametrize("command", [["schema"], ["presets"], ["rerank", "-q", "a", "--quiet"]])
def test_json_can_be_asked_for_in_a_terminal(tmp_path, command):
    if command[0] == "rerank":
        candidates = tmp_path / "in.jsonl"
        candidates.write_text('"a text"')
        command = [*command, "-p", "lexical", str(candidates)]
    assert json.loads(on_a_terminal(*command, "--json"))


def test_output_is_utf8_whatever_the_locale_says():
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    candidate = {"text": "Überfluß 日本 \ud83d\ude00 \ud800"}
    request = json.dumps({"query": "ß", "candidates": [candidate]})
    stdin = f"{request}\n{{é".encode()
    told = process("rerank", "-p", "lexical", "--batch", 1, stdin=stdin, env=env)
    (answer,) = map(json.loads, told.stdout.decode("utf-8").splitlines())
    assert answer["ranking"][0]["text"] == "Überfluß 日本 \U0001f600 \ud800"
    assert answer["query"] == "ß"
    error = told.stderr.decode("utf-8")
    assert (told.returncode, "is not JSON" in error, "\x1b" in error) == (1, True, False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
def test_a_full_disk_is_told():
    with open("/dev/full", "wb") as full:
        told = subprocess.run(
            [*SCRIPT, "presets"], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert told.returncode == 1
    assert told.stderr.decode().strip() == "secondpass: No space left on device"


def test_a_closed_standard_output_is_told():
    told = subprocess.run(
        ["sh", "-c", 'exec "$0" -m secondpass presets --json >&-', sys.executable],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 1
    assert told.stderr.decode().strip() == "secondpass: standard output: is closed"


def test_a_defect_is_told_as_one_and_shown_on_request(secondpass, monkeypatch):
    from secondpass.cli.commands import rerank

    def broken(*_arguments, **_settings):
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(rerank, "batches", broken)
    told = secondpass("rerank", "-p", "lexical", "-q", "x")
    assert told.code == 1
    assert "internal error: ZeroDivisionError: of ours" in told.flat
    monkeypatch.setenv("SECONDPASS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        secondpass("rerank", "-p", "lexical", "-q", "x")


# ---------------------------------------------------------------------- no tracebacks


def is_told(outcome):
    """An end that a person can make something of."""
    assert outcome.code in {0, 1, 2}, outcome.err
    assert "Traceback" not in outcome.err
    assert "internal error" not in outcome.err, outcome.err
    assert (
        outcome.code == 0
        or outcome.err
        or '"runs": false' in outcome.out
        or "cannot run" in outcome.out
    )


words = st.text(st.characters(exclude_characters="/~\0", codec="utf-8"), max_size=8)
options = st.sampled_from(
    "--query -q --run --queries --corpus --preset -p --config --set --top-k --depth --context "
    "--format -f --output -o --resume --force --no-text --timings --tag --batch --strict --quiet "
    "--qrels --compare --measure --limit --mode --behind --baseline --test --json --out --nosuch "
    "-- - --help".split()
)
values = st.sampled_from(
    [
        "lexical",
        "in.jsonl",
        "run.trec",
        "1",
        "0",
        "-3",
        "depth=2",
        "depth=x",
        "trec",
        "nowhere",
        ".",
    ]
)


@shared_folder
@given(
    st.sampled_from(["rerank", "doctor", "presets", "schema", "nosuch", ""]),
    st.lists(st.one_of(options, values, words), max_size=7),
)
@example("rerank", ["--output", "\ud800"])
@example("rerank", ["-o", "a\0b"])
def test_no_arguments_give_a_traceback(secondpass, write, tmp_path, monkeypatch, command, rest):
    monkeypatch.chdir(tmp_path)
    write("in.jsonl", [{"query": "a", "candidates": ["a", "b"]}])
    write("run.trec", "q1 Q0 d1 1 1 t\n")
    first = ["-p", "lexical"] if command in {"rerank", "doctor"} else []
    is_told(secondpass(command, *first, *rest))


@settings(shared_folder, max_examples=settings().max_examples // 10)
@given(st.lists(st.one_of(options, values, words), max_size=7))
def test_no_arguments_of_eval_give_a_traceback(secondpass, write, tmp_path, monkeypatch, rest):
    monkeypatch.chdir(tmp_path)
    write("in.jsonl", [{"query": "a", "relevant": ["d1"]}])
    write("corpus.jsonl", [{"_id": "d1", "text": "a"}, {"_id": "d2", "text": "b"}])
    call = ["in.jsonl", "--corpus", "corpus.jsonl", "--mode", "lexical"]
    is_told(secondpass("eval", *call, *rest))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "query_id query candidates id _id text content score metadata title x".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
candidates = st.lists(
    st.one_of(
        st.text(max_size=5),
        json_values,
        st.fixed_dictionaries({"text": st.text(max_size=5)}, optional={"id": st.text(max_size=2)}),
    ),
    max_size=3,
)
lines = st.lists(
    st.one_of(
        json_values.map(json.dumps),
        st.fixed_dictionaries(
            {"query": st.text(max_size=5), "candidates": candidates},
            optional={"query_id": json_values, "context": json_values},
        ).map(json.dumps),
        st.text(max_size=10),
    ),
    max_size=4,
).map(lambda parts: "\n".join(parts).encode("utf-8", "surrogatepass"))


@shared_folder
@given(st.one_of(st.binary(max_size=40), lines), st.sampled_from(["jsonl", "trec", "table"]))
@example(b"[" * 20_000, "jsonl")
@example(b'{"query": "x", "candidates": [' + b"9" * 5000 + b"]}", "jsonl")
@example(b'{"query": "\\ud800", "candidates": ["\\udfff"]}', "trec")
def test_no_input_gives_a_traceback_or_half_an_answer(secondpass, stdin, form):
    for query in ([], ["--query", "a"]):
        told = secondpass("rerank", "-p", "lexical", "-f", form, *query, stdin=stdin)
        is_told(told)
        if form == "jsonl":
            assert all(one["report"]["status"] for one in told.lines())


@shared_folder
@given(
    st.sampled_from(["run", "queries", "corpus"]),
    st.one_of(st.binary(max_size=40), lines, st.text("q1 Q0d\t\n", max_size=40).map(str.encode)),
)
def test_no_file_of_a_run_gives_a_traceback(secondpass, write, part, content):
    files = {
        "run": write("run", "q1 Q0 d1 1 1 t\n"),
        "queries": write("queries", "q1\ta\n"),
        "corpus": write("corpus", [{"_id": "d1", "text": "a"}]),
    }
    files[part] = write("any", content)
    call = [argument for name, path in files.items() for argument in (f"--{name}", path)]
    is_told(secondpass("rerank", "-p", "lexical", *call))


@shared_folder
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_no_configuration_gives_a_traceback(secondpass, write, content):
    config = write("any.yaml", content)
    is_told(secondpass("rerank", "-c", config, "-q", "a", stdin=b'"a"'))
