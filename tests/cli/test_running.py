"""The command as a process: its streams, and how it ends."""

import json
import os
import signal
import subprocess

import pytest
import typer
from typer.main import get_command

from command_calls import SCRIPT, process, python, started
from command_requests import LEXICAL, json_lines, requests
from secondpass import Issue, Ranking, Report
from secondpass.cli.app import app
from secondpass.cli.running import _log_warnings
from secondpass.ranking.diagnostics import log_issues


def test_answers_come_as_requests_do_and_ctrl_c_ends_it():
    with started(*LEXICAL, "--batch", "1") as run:
        for request in requests(3):
            run.stdin.write(json_lines([request]))
            run.stdin.flush()
            assert json.loads(run.stdout.readline())["query_id"] == request["query_id"]
        run.send_signal(signal.SIGINT)
        err = run.stderr.read()
    assert (run.returncode, err) == (130, b"secondpass: stopped\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("rerank --top-k ten", "--top-k: must be a whole number, not 'ten'"),
        ("rerank --top-k=0", "--top-k: must be greater than or equal to 1, not 0"),
        ("rerank -k 0", "--top-k: must be greater than or equal to 1, not 0"),
        ("rerank -f csv", "--format: must be one of 'jsonl', 'trec', 'table', not 'csv'"),
        (
            "rerank -f JSNL",
            "--format: must be one of 'jsonl', 'trec', 'table', not 'JSNL'; did you mean 'jsonl'?",
        ),
        (
            "eval x --mode vektor",
            "--mode: must be one of 'given', 'vector', 'lexical', 'hybrid', not 'vektor'; did you "
            "mean 'vector'?",
        ),
        (
            "calibrate x --per querry",
            "--per: must be one of 'query', 'document', not 'querry'; did you mean 'query'?",
        ),
        (
            "calibrate x --keep 90",
            "--keep: must be a number above 0 and below 1 (90 % is 0.9), not 90",
        ),
        (
            "calibrate x --keep 90%",
            "--keep: must be a number above 0 and below 1 (90 % is 0.9), not '90%'",
        ),
        ("calibrate x --keep 1000", "--keep: must be a number above 0 and below 1, not 1000"),
        (
            "rerank a.jsonl cancel pass",
            "cancel pass: unexpected; did you mean --query 'cancel pass'?",
        ),
        ("rerank a.jsonl -q x embedded", "embedded: unexpected; did you mean --preset embedded?"),
        ("tune a embedded", "embedded: unexpected; did you mean --try embedded?"),
        ("rerank a.jsonl -q x my.yaml", "my.yaml: unexpected; did you mean --config my.yaml?"),
        (
            "rerank a.jsonl --set depth 50",
            "50: unexpected; write --set KEY=VALUE without spaces, or put it between quotes",
        ),
        ("query cancel pass --corpus x", "pass: unexpected; put the question between quotes"),
        ("config schema x", "x: unexpected (see --help)"),
        ("tune a --preset embedded", "--preset: no such option; did you mean --try embedded?"),
        ("tune a --preset", "--preset: no such option; did you mean --try?"),
        ("rerank --model embedded", "--model: no such option; did you mean --preset embedded?"),
        ("rerank --model=embedded", "--model: no such option; did you mean --preset embedded?"),
        (
            "query hi --model embedded",
            "--model: no such option; did you mean --preset embedded?",
        ),
        ("tune a --mode vectors", "--mode: no such option; did you mean --behind?"),
        ("calibrate a --mode vector", "--mode: no such option; did you mean --behind?"),
        (
            "tune a --behind bm25",
            "--behind: must be one of 'given', 'vector', 'lexical', 'hybrid', not 'bm25'; BM25 is "
            "'lexical'",
        ),
        (
            "eval a --mode Dense",
            "--mode: must be one of 'given', 'vector', 'lexical', 'hybrid', not 'Dense'; that is "
            "'vector'",
        ),
        ("search cats", "search: no such command; did you mean query?"),
        ("evaluate a", "evaluate: no such command; did you mean eval?"),
        ("config search", "search: no such command (see --help)"),
        ("tune a --config x.yaml", "--config: no such option; did you mean --try?"),
        ("tune a --rerank-model m", "--rerank-model: no such option; did you mean --try?"),
        (
            "tune a --set depth=3",
            "--set: no such option; write the settings to a YAML file, and name it with --try",
        ),
        (
            "eval a --try x",
            "--try: no such option; did you mean --compare, --preset or --config?",
        ),
        ("rerank --compare x", "--compare: no such option; did you mean --preset?"),
        (
            "eval a --set depth=3",
            "--set, --rerank-top-n: need a reranker; name one with --preset or --config",
        ),
        ("rerank --top-k", "--top-k: needs a value"),
        ("rerank --quiet=3", "--quiet: takes no value"),
        ("rerank --topk 3", "--topk: no such option; did you mean --top-k?"),
        ("rerank --zzz", "--zzz: no such option (see --help)"),
        (
            "query hi --mode vectors",
            "--mode: no such option; did you mean --vector, --lexical or --hybrid?",
        ),
        (
            "rerank --model BAAI/bge-reranker-base",
            "--model: no such option; write --set method.type=cross_encoder --set method.model=…",
        ),
        (
            "rerank --rerank-model m",
            "--rerank-model: no such option; write --set method.type=cross_encoder --set "
            "method.model=…",
        ),
        ("rerankk", "rerankk: no such command; did you mean rerank?"),
        ("zzz", "zzz: no such command (see --help)"),
        ("--vers", "--vers: no such option; did you mean --version?"),
        ("config shw x", "shw: no such command; did you mean show?"),
        (
            "config rerank.yaml",
            "rerank.yaml: no such command; write config show rerank.yaml or config validate "
            "rerank.yaml",
        ),
        ("pack --budget many", "--budget: no such option; did you mean --tokens?"),
        ("rerank --top-n 3", "--top-n: no such option; did you mean --top-k?"),
        ("rerank --k 3", "--k: no such option; did you mean --top-k?"),
        ("rerank --threshold 3", "--threshold: no such option; write --set floor=…"),
        ("rerank --floor 3", "--floor: no such option; write --set floor=…"),
        ("rerank --deadline 2", "--deadline: no such option; write --set limits.deadline=…"),
        (
            "rerank --device cpu",
            "--device: no such option; write --set method.type=cross_encoder --set method.device=…",
        ),
        ("rerank --verbose", "--verbose: no such option; leave it out; the result has a report"),
        ("query hi --model m", "--model: no such option; did you mean --rerank-model?"),
        ("query hi --mode vector", "--mode: no such option; did you mean --vector?"),
        ("query hi --mode=vector", "--mode: no such option; did you mean --vector?"),
        ("rerank --fromat json", "--fromat: no such option; did you mean --format?"),
        ("rerank --no-txt", "--no-txt: no such option; did you mean --no-text?"),
        ("rerank --hlep", "--hlep: no such option; did you mean --help?"),
        ("query hi --depth 5", "--depth: no such option; did you mean --rerank-top-n?"),
        (
            "query hi --rerank-top-k 5",
            "--rerank-top-k: no such option; did you mean --rerank-top-n?",
        ),
        ("query vector --zzz 3", "--zzz: no such option (see --help)"),
        ("eval a --metric nDCG@10", "--metric: no such option; did you mean --measure?"),
        ("eval a --batch 4", "--batch: no such option; did you mean --concurrency?"),
        ("calibrate a --target 0.9", "--target: no such option; did you mean --keep?"),
        ("serve --log-level debug", "--log-level: no such option; write --set log_level=…"),
        ("tune a --try embedded --budget 3", "--budget: no such option (see --help)"),
        ("index a --chunk-size 9", "--chunk-size: no such option; did you mean --passage-size?"),
        ("index a --chunk 9", "--chunk: no such option; did you mean --passage-size?"),
        (
            "tune a --depths 5,10",
            "--depths: must be a whole number, not '5,10'; repeat the option: --depths 5 --depths "
            "10",
        ),
        ("tune a --depths 5 --depths b", "--depths: must be a whole number, not 'b'"),
        (
            "eval a --mode vector,lexical",
            "--mode: must be one of 'given', 'vector', 'lexical', 'hybrid', not 'vector,lexical'; "
            "repeat the option: --mode vector --mode lexical",
        ),
        ("version", "version: no such command; did you mean --version?"),
        (
            "export",
            "missing MODEL, such as secondpass export cross-encoder/ms-marco-MiniLM-L6-v2 --into "
            "models/minilm",
        ),
        ("serve --port x", "--port: must be a whole number, not 'x'"),
        ("job --preset", "--preset: needs a value"),
        ("config validate --preset", "--preset: needs a value"),
    ],
)
def test_wrong_arguments_are_in_the_words_of_settings(secondpass, arguments, message):
    told = secondpass(*arguments.split())
    assert (told.code, told.out, told.err) == (2, "", f"secondpass: {message}\n")


@pytest.mark.parametrize("preset", [[], ["--preset", "embedded"], ["--preset=embedded"]])
@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("query x --corpus c --rerank-top-k 20", "did you mean --rerank-top-n?"),
        ("query x --corpus c --depth 5", "did you mean --rerank-top-n?"),
        ("rerank a --fromat table", "did you mean --format?"),
        ("rerank a --stric", "did you mean --strict?"),
        ("rerank a --limit 3", "did you mean --top-k?"),
        ("rerank a --deadline 2", "write --set limits.deadline=…"),
        ("rerank a --model m", "write --set method.type=cross_encoder --set method.model=…"),
        ("rerank a --model jina", "did you mean --preset jina?"),
        ("eval a --metric nDCG@10", "did you mean --measure?"),
        ("calibrate a --target 0.9", "did you mean --keep?"),
        ("serve --log-level debug", "write --set log_level=…"),
    ],
)
def test_a_hint_is_about_the_option_whatever_else_the_line_has(secondpass, arguments, hint, preset):
    told = secondpass(*arguments.split(), *preset)
    assert (told.code, told.out) == (2, "")
    assert told.err.endswith(f": no such option; {hint}\n")


def commands(command=None, parent=None, path=()):
    """Each subcommand: its words, its click command and its context."""
    command = command or get_command(app)
    context = command.make_context(" ".join(path), [], parent=parent, resilient_parsing=True)
    if not hasattr(command, "list_commands"):
        context.resilient_parsing = False
        yield " ".join(path), command, context
        return
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), context, (*path, name))


def misspelt(option):
    """The option with one letter left out, doubled or replaced, or two swapped."""
    word = option.removeprefix("--")
    middle = len(word) // 2
    yield f"--{word[:middle]}{word[middle + 1 :]}"
    yield f"--{word}{word[-1]}"
    yield f"--{word[:middle]}x{word[middle + 1 :]}"
    yield f"--{word[: middle - 1]}{word[middle]}{word[middle - 1]}{word[middle + 1 :]}"


AS_NEAR = {("--context", "--cntext"), ("--id", "--di"), ("--id", "--ix")}
"""Misspelt options that another option is as similar to."""


@pytest.mark.parametrize(
    ("path", "command", "context"), [pytest.param(*it, id=it[0]) for it in commands()]
)
def test_each_misspelt_option_is_suggested(path, command, context, capsys):
    options = [
        name
        for option in command.get_params(context)
        if option.param_type_name == "option"
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    ]
    assert "--help" in options
    wrong = {}
    for option in options:
        for word in {*misspelt(option)} - {*options}:
            for line in ([word, "vector"], [word, "x", "--preset", "embedded", "--json"]):
                with pytest.raises(typer.Exit):
                    command.parse_args(context, list(line))
                message = " ".join(capsys.readouterr().err.split())
                expected = f"secondpass: {word}: no such option; did you mean {option}?"
                if message != expected:
                    wrong[(option, word)] = message
    assert {*wrong} - AS_NEAR == set(), wrong


def test_closed_output_pipe_is_not_an_error():
    with started(*LEXICAL, "--batch", "1") as run:
        first, second = requests(2)
        run.stdin.write(json_lines([first]))
        run.stdin.flush()
        run.stdout.readline()
        run.stdout.close()
        run.stdin.write(json_lines([second]))
        run.stdin.close()
        assert run.stderr.read() == b""
    assert run.returncode == 0


@pytest.mark.parametrize("swallowed", [False, True])
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_have_exit_codes_whatever_a_library_makes_of_them(name, code, swallowed):
    told = python(
        "import os, signal\n"
        "from secondpass.cli.running import run\n"
        "def command():\n"
        f"    try: os.kill(os.getpid(), signal.{name})\n"
        f"    except KeyboardInterrupt as error: raise {'OSError()' if swallowed else 'error'}\n"
        "run(command)"
    )
    assert (told.returncode, told.stderr) == (code, "secondpass: stopped\n")


def test_output_is_utf8_whatever_the_locale_says():
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    candidate = {"text": "Überfluß 日本 \ud83d\ude00 \ud800"}
    request = json.dumps({"query": "ß", "candidates": [candidate]})
    stdin = f"{request}\n{{é".encode()
    told = process("rerank", "-p", "lexical", "--batch", 1, stdin=stdin, **env)
    (answer,) = map(json.loads, told.stdout.decode("utf-8").splitlines())
    assert answer["ranking"][0]["text"] == "Überfluß 日本 \U0001f600 \ud800"
    assert answer["query"] == "ß"
    error = told.stderr.decode("utf-8")
    assert (told.returncode, "is not JSON" in error, "\x1b" in error) == (1, True, False)
    told = process(
        "rerank", "-p", "lexical", "-q", "ß", stdin=json.dumps(candidate).encode(), **env
    )
    assert json.loads(told.stdout)["query"] == "ß"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
def test_a_full_disk_is_told():
    with open("/dev/full", "wb") as full:
        told = subprocess.run(
            [*SCRIPT, "presets"], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert told.returncode == 1
    assert told.stderr.decode().strip() == "secondpass: standard output: No space left on device"


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


@pytest.mark.parametrize("words", [[], ["rerank"], ["config"], ["config", "show"]])
def test_help_is_a_command_too(secondpass, words):
    asked, expected = secondpass("help", *words), secondpass(*words, "--help")
    assert (asked.code, asked.out) == (0, expected.out)
    if words[:1] == ["config"]:
        assert secondpass("config", "help", *words[1:]).out == expected.out


def test_a_warning_is_shown_once_for_each_cause(capsys):
    def failed(code, *positions):
        issue = Issue(code, "no answer", positions)
        return Ranking("q", (), Report("unchanged", issues=(issue,), left_out={"tail": (0, 1, 2)}))

    with _log_warnings():
        log_issues([failed("a", 1), failed("a", 1, 2), failed("b", 1, 2)], "warning")
    assert capsys.readouterr().err == (
        "warning: reranking is unchanged: a (1 of 3 candidates): no answer\n"
        "warning: reranking is unchanged: b (2 of 3 candidates): no answer\n"
    )
