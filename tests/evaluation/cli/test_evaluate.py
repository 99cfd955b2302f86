"""``secondpass eval``: modes, rerankers, what cannot run, and the cost beforehand."""

import json
import platform
import re
import shlex
from pathlib import Path

import pytest

from fruit_suite import QUERIES, announced, systems
from secondpass_evaluation.cli.suite_options import configurations, reranker_specs
from terminals import on_a_terminal


def test_files_to_compare_may_follow_each_other(secondpass, given_suite, write):
    first = str(write("first.yaml", "method: lexical\n"))
    second = str(write("second.yaml", "method: lexical\ndepth: 2\n"))
    for places in (
        ["eval", given_suite, "--compare", first, second],
        ["eval", "--compare", first, second, given_suite],
        ["eval", given_suite, first, second],
    ):
        found = systems(secondpass(*places, "--json"))
        assert list(found) == ["given", "given+first", "given+second"]
    parts = [("--queries", "queries.jsonl"), ("--qrels", "qrels.tsv"), ("--corpus", "corpus.jsonl")]
    options = [one for name, file in parts for one in (name, given_suite / file)]
    told = secondpass("eval", *options, "--mode", "lexical", "--json", "--compare", first, second)
    assert {"lexical+first", "lexical+second"} <= set(systems(told))


def test_options_reach_the_comparison(secondpass, given_suite):
    call = ["eval", given_suite, "--preset", "lexical", "--json", "--limit", "2", "--shuffles", "2"]
    call += ["--measure", "RR", "--measure", "P@1", "--seed", "3", "--depth", "5"]
    told = secondpass(*call, "--baseline", "given+rerank", "--concurrency", "2")
    found = json.loads(told.out)
    assert (found["queries"], found["measures"]) == (2, ["RR", "P@1"])
    assert found["baseline"] == "given+rerank"
    settings = {name: found["settings"][name] for name in ("shuffles", "seed", "depth")}
    assert settings == {"shuffles": 2, "seed": 3, "depth": 5}
    assert systems(told)["given+rerank"]["stability"]["shuffles"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "missing SUITE, a folder or file with judged questions"),
        (
            ["--queries", "suite/queries.jsonl"],
            2,
            "missing SUITE, a folder or file with judged questions",
        ),
        (
            ["--qrels", "suite/qrels.tsv"],
            2,
            "missing SUITE, a folder or file with judged questions",
        ),
        (
            ["--queries", "asked.jsonl"],
            2,
            "--queries asked.jsonl: has judgements (`relevant`); give it as SUITE, without --q",
        ),
        (["--queries", "broken"], 2, "missing SUITE"),
        (["suite", "lexical"], 2, "only one is allowed, not suite and lexical; a preset needs"),
        (["suite", "--resume"], 2, "--resume: needs --into"),
        (["suite", "--resume", "--force", "--into", "x"], 2, "--resume, --force: give one of them"),
        (["beir/nosuch"], 1, "beir/nosuch: there is no such file or folder"),
        (["suite", "--preset", "lexcal"], 1, "no preset is named 'lexcal'; did you mean 'lexical'"),
        (["suite", "--config", "gone.yaml"], 1, "gone.yaml: there is no such file"),
        (["suite", "--config", "wrong.yaml"], 1, "wrong.yaml: dept: unknown key"),
        (["suite", "--rerank-model", "org/m", "--set", "dept=3"], 1, "rerank: --set dept: unknown"),
        (["suite", "--compare", "=lexical"], 1, "write NAME=WHAT, or WHAT alone"),
        (["suite", "--compare", "name="], 1, "write NAME=WHAT, or WHAT alone"),
        (
            ["suite", "--compare", "a=lexical", "--compare", "a=embedded"],
            1,
            "--compare a=embedded: another has the name 'a'",
        ),
        (["suite", "--measure", "nDGC@10"], 1, "measure 'nDGC@10': is unknown"),
        (["suite", "--mode", "nosuch"], 2, "--mode"),
        (["suite", "--baseline", "lexicla", "-p", "lexical"], 1, "did you mean 'lexical'?"),
        (
            ["suite", "--preset", "lexical", "--set", "blend=0.3"],
            1,
            "write --set blend.original=0.3 --set blend.normalize=minmax",
        ),
        (["."], 1, "; did you mean suite?"),
        (
            ["suite/deep"],
            1,
            "`secondpass example FOLDER` writes an example, and `secondpass judge`",
        ),
        (
            ["suite", "--mode", "given", "--into", "broken"],
            1,
            "--into broken: is a file; name a folder",
        ),
        (["suite", "--qrels", "broken"], 1, "broken:2: must have four fields"),
        (["suite", "--mode", "given"], 1, "nothing could be measured"),
    ],
)
def test_what_cannot_be_measured_is_told(
    secondpass, suite, write, tmp_path, monkeypatch, arguments, code, told
):
    monkeypatch.chdir(tmp_path)
    write("asked.jsonl", '{"query": "moon", "relevant": ["moon"]}\n')
    write("broken", "q1 0 moon 1\nq1 0 moon")
    write("wrong.yaml", "method: lexical\ndept: 3\n")
    write("suite/deep/page.md", "A page.")
    outcome = secondpass("eval", *arguments)
    assert (outcome.code, told in outcome.flat) == (code, True), outcome.err


@pytest.mark.parametrize(
    ("rerankers", "code"),
    [([], 0), (["missing"], 1), (["missing", "lexical"], 0)],
    ids=["none named", "none ran", "one of two ran"],
)
def test_a_reranker_that_never_ran_is_said_first(
    secondpass, given_suite, tmp_path, rerankers, code
):
    """With the reason, and without a verdict; the exit code is 1 if no other one ran."""
    missing = f"missing={tmp_path / 'none.yaml'}"
    (tmp_path / "none.yaml").write_text(
        f"method: {{type: cross_encoder, model: '{tmp_path / 'none'}'}}\n"
    )
    options = [missing if name == "missing" else name for name in rerankers]
    told = secondpass("eval", given_suite, *(x for it in options for x in ("--compare", it)))
    assert told.code == code
    assert ("secondpass: no reranker was measured" in told.flat) == bool(code)
    first = told.out.splitlines()[2].replace("\\", "")
    assert first.startswith("**Nothing was reranked") == ("lexical" not in rerankers)
    assert ("given+missing is not run: no model can be loaded" in first) == bool(rerankers)
    shown = on_a_terminal(
        "eval", given_suite, *(x for it in options for x in ("--compare", it)), columns=200
    )
    assert shown.count("is not run: no model") == bool(rerankers)


def test_the_report_says_when_how_and_where(secondpass, given_suite, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "an-ordinary-word")
    out = tmp_path / "out"
    call = ["eval", given_suite, "--preset", "lexical", "--into", out, "--limit", "2"]
    assert secondpass(*call, "--cache", tmp_path / "an-ordinary-word").code == 0
    settings = json.loads((out / "results.json").read_text())["settings"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", settings["date"])
    assert settings["command"].startswith(f"secondpass eval {given_suite} --preset lexical")
    assert shlex.split(settings["command"])[-1] == str(tmp_path / "***")
    assert settings["date"] in (out / "report.html").read_text()
    for file in out.glob("*.*"):
        assert "an-ordinary-word" not in file.read_text()
    assert platform.node() not in settings["machine"].values()


def test_a_model_that_only_its_fallback_replaced_is_an_error(secondpass, given_suite, write):
    model = {"type": "cross_encoder", "model": str(write("none", ""))}
    config = write("away.yaml", json.dumps({"method": model, "fallback": ["lexical"]}))
    told = secondpass("eval", given_suite, "--config", config)
    assert (told.code, "secondpass: no reranker was measured" in told.flat) == (1, True)
    assert "**given+rerank was not measured: the model " in told.out
    assert secondpass("eval", given_suite, "-c", config, "--preset", "lexical").code == 0


def test_no_file_has_a_key_of_a_configuration(secondpass, given_suite, write, tmp_path):
    secret, out = "s3cret-value", tmp_path / "out"
    endpoint = {"type": "endpoint", "api": "vllm", "model": "m"}
    endpoint["base_url"] = f"http://127.0.0.1:9/v1?code={secret}"
    llm = {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:9"}
    llm["options"] = {"extra_headers": {"X-Gateway": secret}}
    call = ["eval", given_suite, "--into", out, "--json"]
    for name, method in (("a", endpoint), ("b", {"type": "listwise", "llm": llm})):
        described = json.dumps({"method": method, "limits": {"retries": 0}})
        call += ["--config", write(f"{name}.yaml", described)]
    told = secondpass(*call)
    assert (told.code, "secondpass: no reranker was measured" in told.flat) == (1, True)
    method = systems(told)["given+a"]["config"]["method"]
    assert method["base_url"] == "http://127.0.0.1:9/v1?<hidden>"
    assert "&lt;hidden&gt;" in (out / "report.html").read_text()
    for text in (told.out, told.err, *(file.read_text() for file in out.glob("*.*"))):
        assert secret not in text


def test_a_name_in_brackets_is_shown_on_a_terminal(given_suite):
    shown = on_a_terminal("eval", str(given_suite), "--compare", "[/b]\x1b[31m=lexical")
    assert "given+[/b]" in shown
    assert "\x1b[31m=lexical" not in shown
    assert "error" not in shown


# ------------------------------------------------------------------ the cost beforehand


def test_what_models_will_cost_is_said_before_they_are_asked(
    secondpass, given_suite, graded, provider, tmp_path
):
    call = ["eval", given_suite, "--json", "--preset", "lexical", "--config", graded]
    planned = json.loads(secondpass(*call, "--dry-run", "--into", tmp_path / "out").out)
    assert (provider.calls, (tmp_path / "out").exists()) == (0, False)
    assert planned["queries"] == len(QUERIES)
    assert planned["systems"].keys() == {"given+lexical", "given+graded"}
    of_graded = planned["systems"]["given+graded"]["total"]
    assert planned["total"]["calls"] == of_graded["calls"] == 2 * len(QUERIES)
    told = secondpass(*call)
    assert json.loads(told.out)["queries"] == len(QUERIES)  # standard output has only the results
    cost = pytest.approx(of_graded["cost"], rel=1e-3)
    assert announced(told) == {"given+graded": (2 * len(QUERIES), cost)}
    assert provider.calls == 2 * len(QUERIES)
    assert "Tokens are an estimate: four bytes each" in told.flat


def test_the_costs_of_several_models_are_summed(secondpass, given_suite, graded):
    call = ["eval", given_suite, "--json", "--config", graded, "--compare", f"second={graded}"]
    call += ["--shuffles", "1"]
    told = secondpass(*call)
    calls = {name: calls for name, (calls, _cost) in announced(told).items()}
    assert calls == {"given+graded": 4 * len(QUERIES), "given+second": 4 * len(QUERIES)}
    assert f"in total: {8 * len(QUERIES)} calls" in told.flat
    planned = json.loads(secondpass(*call, "--dry-run").out)
    assert planned["total"]["calls"] == 8 * len(QUERIES)


# ------------------------------------------------------------------ the rerankers of the options


MINE = Path("a/mine.yaml")
CROSS_ENCODER = {"method": {"type": "cross_encoder", "model": "org/model"}}


@pytest.mark.parametrize(
    ("presets", "configs", "compared", "models", "specs"),
    [
        ([], [], [], [], {}),
        (["lexical"], [], [], [], {"rerank": "lexical"}),
        ([], [MINE], [], [], {"rerank": MINE}),
        ([], [], [], ["org/model"], {"rerank": CROSS_ENCODER}),
        ([], [], ["a/mine.yaml"], [], {"rerank": MINE}),
        ([], [], ["own=a/mine.yaml"], [], {"own": MINE}),
        ([], [], ["own=lexical"], [], {"own": "lexical"}),
        (["lexical"], [], ["lexical"], [], {"lexical": "lexical", "lexical-2": "lexical"}),
        (["fast"], [MINE], [], ["org/model"],
         {"fast": "fast", "mine": MINE, "model": CROSS_ENCODER}),
    ],
    ids=["none", "preset", "file", "model", "path", "named file", "named preset", "twice", "all"],
)  # fmt: skip
def test_names_of_rerankers(presets, configs, compared, models, specs):
    assert reranker_specs(presets, configs, compared, models) == specs


def test_settings_and_depth_are_laid_over_each_configuration():
    specs = {"words": "lexical", "own": {"method": "lexical"}}
    configs = configurations(specs, ["dedupe=true"], 3)
    assert [(one["dedupe"], one["depth"]) for one in configs.values()] == [(True, 3)] * 2


def test_an_error_leaves_no_new_folder(secondpass, suite, write, tmp_path):
    config = write("c.yaml", "method: lexical\n")
    qrels = write("suite/qrels.tsv", "q1 0 nothing 1\n")
    told = secondpass("eval", suite, "--mode", "lexical", "-c", config, "--into", tmp_path / "r")
    assert (told.code, (tmp_path / "r").exists(), qrels.exists()) == (1, False, True)
