"""``secondpass eval``: modes, rerankers, files, and what cannot run."""

import json
import platform
import re
import shlex
import sys

import pytest

from fake_provider import FakeProvider
from secondpass import Reranker
from secondpass.evaluation import Journal
from secondpass.search.embedders import EmbeddedEmbedder
from terminals import on_a_terminal

DOCUMENTS = {
    "moon": "The moon moves around the earth.",
    "pear": "A pear is a sweet fruit.",
    "banana": "A banana is a fruit rich in potassium.",
    "train": "Trains run on rails between towns.",
    "bread": "Bread is baked from flour and water.",
    "river": "A river carries water to the sea.",
}
QUERIES = {"q1": "fruit with potassium", "q2": "what goes around the earth", "q3": "baked flour"}
QRELS = {"q1": {"banana": 2, "pear": 1}, "q2": {"moon": 1}, "q3": {"bread": 1}}


@pytest.fixture
def suite(write, tmp_path):
    write("suite/corpus.jsonl", [{"_id": one, "text": text} for one, text in DOCUMENTS.items()])
    write("suite/queries.jsonl", [{"_id": one, "text": text} for one, text in QUERIES.items()])
    lines = [f"{q} 0 {d} {grade}\n" for q, judged in QRELS.items() for d, grade in judged.items()]
    write("suite/qrels.tsv", "".join(lines))
    return tmp_path / "suite"


@pytest.fixture
def given_suite(suite):
    """The same with a first stage's results of its own, which need no search."""
    lines = [
        {"query_id": query, "candidates": [{"id": one, "score": 1} for one in DOCUMENTS]}
        for query in QUERIES
    ]
    (suite / "candidates.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return suite


def systems(told):
    return {one["name"]: one for one in json.loads(told.out)["systems"]}


def test_without_a_reranker_three_modes_run_and_the_fourth_is_told(secondpass, suite):
    told = secondpass("eval", suite, "--json", "--no-cache")
    found = systems(told)
    assert told.code == 0
    assert {name: one["status"] for name, one in found.items()} == {
        "vector": "ran",
        "lexical": "ran",
        "hybrid": "ran",
        "hybrid+rerank": "not_run",
    }
    assert found["hybrid+rerank"]["reason"] == "no reranker"
    assert "hybrid+rerank is not run: no reranker" in told.flat


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
    told = secondpass("eval", given_suite, "another", "--json")
    assert told.code == 2
    assert "only one is allowed" in told.flat
    assert "a preset needs --preset or --compare before it" in told.flat


def test_a_pipe_gets_markdown_whatever_asks_for_colour(secondpass, given_suite, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    told = secondpass("eval", given_suite, "--preset", "lexical").out
    assert told.startswith("# suite: 3 queries\n")
    assert "| system |" in told


def test_one_reranker_is_called_rerank_and_several_by_their_names(secondpass, given_suite, write):
    one = systems(secondpass("eval", given_suite, "--json", "--preset", "lexical"))
    assert list(one) == ["given", "given+rerank"]
    assert one["given+rerank"]["means"]["nDCG@10"] > one["given"]["means"]["nDCG@10"]
    config = write("mine.yaml", "method: lexical\nfloor: 0.001\n")
    many = systems(
        secondpass(
            "eval",
            given_suite,
            "--json",
            *("--preset", "lexical", "--config", config, "--compare", f"own={config}"),
            *("--compare", config, "--compare", "lexical", "--compare", "again=lexical"),
        )
    )
    assert list(many) == [
        "given",
        *(f"given+{name}" for name in ("lexical", "mine", "own", "mine-2", "lexical-2", "again")),
    ]
    named = systems(secondpass("eval", given_suite, "--json", "--compare", f"own={config}"))
    assert list(named) == ["given", "given+own"]


@pytest.mark.parametrize(
    ("options", "depth"),
    [
        (["--compare", "lexical", "--rerank-top-n", "2"], 2),
        (["--compare", "lexical", "--set", "depth=3"], 3),
        (["--config", "without.yaml"], 50),
        (["--config", "with.yaml"], 4),
        (["--config", "with.yaml", "--rerank-top-n", "2"], 2),
    ],
)
def test_how_many_are_judged(secondpass, given_suite, write, monkeypatch, tmp_path, options, depth):
    monkeypatch.chdir(tmp_path)
    write("without.yaml", "method: lexical")
    write("with.yaml", "method: lexical\ndepth: 4")
    found = systems(secondpass("eval", given_suite, "--json", *options))
    assert found["given+rerank"]["usage"]["pairs"] == len(QUERIES) * min(depth, len(DOCUMENTS))


def test_a_reranker_that_cannot_run_is_listed_with_the_reason(
    secondpass, given_suite, tmp_path, monkeypatch
):
    pytest.importorskip("sentence_transformers")  # imports tokenizers itself
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    told = secondpass(
        *("eval", given_suite, "--json", "--preset", "lexical", "--preset", "embedded"),
        *("--rerank-model", tmp_path / "no-model"),
    )
    found = systems(told)
    assert told.code == 0
    assert found["given+lexical"]["status"] == "ran"
    assert 'pip install "secondpass[embedded]"' in found["given+embedded"]["reason"]
    assert "no-model' cannot be loaded" in found["given+no-model"]["reason"]
    assert "warning: given+embedded is not run" in told.err
    assert "warning: given+no-model is not run: no model can be loaded" in told.err


def test_without_the_embedded_model_vectors_are_not_run_with_the_command(
    secondpass, suite, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    told = secondpass("eval", suite, "--json", "--preset", "lexical")
    found = systems(told)
    assert [one["status"] for one in found.values()] == ["not_run", "ran", "not_run", "ran"]
    assert 'pip install "secondpass[embedded]"' in found["vector"]["reason"]
    assert list(found)[-1] == "lexical+rerank"


def test_the_vectors_are_kept_and_a_broken_file_is_made_anew(secondpass, suite, tmp_path):
    cache = tmp_path / "cache"
    call = ["eval", suite, "--mode", "vector", "--json", "--cache", cache]
    first = secondpass(*call)
    (file,) = cache.iterdir()
    assert f"cached in {file}" in first.flat
    second = secondpass(*call)
    assert f"read from {file}" in second.flat
    kept = file.read_bytes()
    file.write_bytes(kept[:100])
    third = secondpass(*call)
    assert f"cached in {file}" in third.flat
    assert file.read_bytes() == kept
    means = [systems(one)["vector"]["means"] for one in (first, second, third)]
    assert means[0] == means[1] == means[2]


def test_where_vectors_were_kept_the_model_is_loaded_before_queries_are_timed(
    secondpass, suite, tmp_path, monkeypatch
):
    call = ["eval", suite, "--mode", "vector", "--json", "--cache", tmp_path / "cache"]
    secondpass(*call)
    asked = []
    embed = EmbeddedEmbedder.embed
    monkeypatch.setattr(
        EmbeddedEmbedder, "embed", lambda own, texts: asked.extend(texts) or embed(own, texts)
    )
    secondpass(*call)
    assert asked[0] not in QUERIES.values()
    assert asked[1:] == [*QUERIES.values()]


def test_a_cache_that_cannot_be_written_is_told(secondpass, suite, write):
    told = secondpass("eval", suite, "--mode", "vector", "--cache", write("a-file", "x"))
    assert told.code == 0
    assert "cannot cache the vectors" in told.flat


def test_vectors_are_kept_in_a_folder_of_the_platform(secondpass, suite, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert secondpass("eval", suite, "--mode", "vector").code == 0
    assert len([*(tmp_path / "xdg" / "secondpass").iterdir()]) == 1


@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid", "given"])
def test_rerankers_stand_behind_the_mode_that_is_asked_for(secondpass, given_suite, mode):
    call = ["eval", given_suite, "--json", "--no-cache", "--preset", "lexical", "--mode", mode]
    assert list(systems(secondpass(*call))) == [mode, f"{mode}+rerank"]


def test_of_the_modes_that_are_asked_for_rerankers_stand_behind_one_that_runs(
    secondpass, suite, monkeypatch
):
    call = ["eval", suite, "--json", "--preset", "lexical", "--mode", "lexical", "--mode", "hybrid"]
    assert list(systems(secondpass(*call, "--no-cache"))) == ["lexical", "hybrid", "hybrid+rerank"]
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    found = systems(secondpass(*call))
    assert {name: one["status"] for name, one in found.items()} == {
        "lexical": "ran",
        "hybrid": "not_run",
        "lexical+rerank": "ran",
    }


def test_each_reranker_is_closed_when_it_has_been_measured(
    secondpass, given_suite, write, monkeypatch
):
    config = write("mine.yaml", "method: {type: lexical}\nfloor: 0.1\n")
    done = []
    rank, close = Reranker.rerank, Reranker.close
    monkeypatch.setattr(Reranker, "rerank", lambda *a, **k: done.append(0) or rank(*a, **k))
    monkeypatch.setattr(Reranker, "close", lambda one: done.append("closed") or close(one))
    call = ["eval", given_suite, "--json", "--preset", "lexical", "--compare", f"method={config}"]
    found = systems(secondpass(*call))
    assert list(found) == ["given", "given+lexical", "given+method"]
    assert done == [0, 0, 0, "closed"] * 2
    assert found["given+method"]["config"]["floor"] == 0.1


def test_options_reach_the_comparison(secondpass, given_suite):
    call = ["eval", given_suite, "--preset", "lexical", "--json", "--limit", "2", "--shuffles", "2"]
    call += ["--measure", "RR", "--measure", "P@1", "--test", "t", "--seed", "3", "--depth", "5"]
    told = secondpass(*call, "--baseline", "given+rerank", "--concurrency", "2")
    found = json.loads(told.out)
    assert (found["queries"], found["measures"]) == (2, ["RR", "P@1"])
    assert found["baseline"] == "given+rerank"
    settings = {name: found["settings"][name] for name in ("test", "shuffles", "seed", "depth")}
    assert settings == {"test": "t", "shuffles": 2, "seed": 3, "depth": 5}
    assert systems(told)["given+rerank"]["stability"]["shuffles"] == 2


def test_files_are_written_once_unless_forced(secondpass, given_suite, tmp_path):
    out = tmp_path / "results"
    call = ["eval", given_suite, "--preset", "lexical", "--out", out]
    told = secondpass(*call)
    assert told.code == 0
    assert told.out.startswith("# suite")
    for name in ("results.json", "per_query.csv", "report.md", "report.html"):
        assert (out / name).stat().st_size
    assert "Plots need matplotlib" in (out / "report.html").read_text()
    assert (out / "runs" / "given_rerank.trec").exists() or (
        out / "runs" / "given+rerank.trec"
    ).exists()
    assert f"written: {out / 'results.json'}" in told.flat
    again = secondpass(*call)
    assert (again.code, "use --force to overwrite" in again.flat) == (1, True)
    assert secondpass(*call, "--force").code == 0


def test_ids_that_do_not_fit_into_trecs_files_cost_no_figures(secondpass, write, tmp_path):
    write("suite/corpus.jsonl", [{"_id": "a b", "text": "fruit"}, {"_id": "c", "text": "sea"}])
    asked = write("suite/asked.jsonl", [{"query": "fruit", "relevant": ["a b"]}])
    told = secondpass("eval", asked, "--mode", "lexical", "--json", "--out", tmp_path / "out")
    assert (told.code, "document id 'a b' has white space" in told.flat) == (1, True)
    assert systems(told)["lexical"]["means"]["RR"] == 1.0
    assert (tmp_path / "out" / "report.html").exists()


def test_parts_may_be_named_one_by_one(secondpass, suite, write):
    run = write(
        "run", "".join(f"{q} Q0 {d} 1 {-at} t\n" for q in QUERIES for at, d in enumerate(DOCUMENTS))
    )
    files = ["--queries", suite / "queries.jsonl", "--qrels", suite / "qrels.tsv"]
    files += ["--corpus", suite / "corpus.jsonl"]
    told = secondpass("eval", *files, "--run", run, "--preset", "lexical", "--json")
    assert list(systems(told)) == ["given", "given+rerank"]
    told = secondpass("eval", *files, "--mode", "lexical", "--json")
    assert systems(told)["lexical"]["status"] == "ran"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "missing SUITE, or --queries and --qrels"),
        (["nowhere/x.jsonl"], 1, "nowhere/x.jsonl: there is no such file or folder"),
        (["beir/nosuch"], 1, "beir/nosuch: there is no such file or folder"),
        (["suite", "--preset", "lexcal"], 1, "no preset is named 'lexcal'; did you mean 'lexical'"),
        (["suite", "--compare", "lexcal"], 1, "no preset is named 'lexcal'"),
        (["suite", "--compare", "a="], 1, "write NAME=WHAT"),
        (["suite", "--config", "gone.yaml"], 1, "gone.yaml: there is no such file"),
        (["suite", "--preset", "lexical", "--set", "dept=3"], 1, "dept"),
        (["suite", "--measure", "nDGC@10"], 1, "measure 'nDGC@10': is unknown"),
        (["suite", "--mode", "nosuch"], 2, "--mode"),
        (["suite", "--test", "z"], 2, "--test"),
        (["suite", "--mode", "lexical", "--baseline", "gone"], 1, "baseline: 'gone' is none of"),
        (
            ["suite", "--mode", "lexical", "--out", "suite/qrels.tsv"],
            1,
            "suite/qrels.tsv: File exists",
        ),
        (["suite", "--qrels", "empty"], 1, "there are no judgements"),
        (["suite", "--qrels", "other"], 1, "the ids do not match"),
        (["suite", "--qrels", "broken"], 1, "broken:2: must have four fields"),
        (["suite", "--corpus", "mixed"], 1, "mixed:1: has both '_id' and 'id', and they differ"),
        (["suite", "--corpus", "line17"], 1, "line17:17: is not JSON"),
        (["suite", "--mode", "given"], 1, "nothing could be measured"),
    ],
)
def test_what_cannot_be_measured_is_told(
    secondpass, suite, write, tmp_path, monkeypatch, arguments, code, told
):
    monkeypatch.chdir(tmp_path)
    write("empty", "")
    write("other", "q8 0 moon 1")
    write("broken", "q1 0 moon 1\nq1 0 moon")
    write("mixed", [{"_id": "a", "id": "b", "text": "x"}])
    write("line17", "".join(f'{{"_id": "{n}", "text": "x"}}\n' for n in range(16)) + "{broken")
    outcome = secondpass("eval", *arguments)
    assert (outcome.code, told in outcome.flat) == (code, True), outcome.err


def test_a_reranker_whose_server_is_down_is_not_measured(secondpass, given_suite, write, tmp_path):
    endpoint = {"type": "endpoint", "api": "vllm", "model": "m", "base_url": "http://127.0.0.1:9"}
    down = write("down.yaml", json.dumps({"method": endpoint, "limits": {"retries": 0}}))
    told = secondpass("eval", given_suite, "--config", down, "--preset", "lexical", "--json")
    found = systems(told)
    assert told.code == 0
    assert found["given+down"]["status"] == "not_measured"
    assert found["given+down"]["statuses"] == {"unchanged": 3}
    assert "warning: given+down is not measured: nothing was judged: 3 of 3 rankings" in told.flat
    told = secondpass("eval", given_suite, "--config", down, "--out", tmp_path / "out", "--details")
    assert "| given+rerank | nothing was judged: 3 of 3 rankings" in told.out
    assert "| **" not in told.out  # no row is the best
    page = (tmp_path / "out" / "report.html").read_text()
    assert "No reranker was measured" in page
    assert "best reranker" not in page


def test_rerankers_stand_behind_each_mode_that_is_asked_for(secondpass, suite):
    call = ["eval", suite, "--json", "--no-cache", "--preset", "lexical"]
    stages = ["--behind", "vector", "--behind", "lexical"]
    assert list(systems(secondpass(*call, *stages))) == [
        "vector", "lexical", "hybrid", "vector+rerank", "lexical+rerank",
    ]  # fmt: skip


def test_a_screen_by_default_and_the_rest_with_details(secondpass, given_suite):
    call = ["eval", given_suite, "--preset", "lexical"]
    brief, whole = secondpass(*call).out, secondpass(*call, "--details").out
    assert brief.splitlines()[2].startswith("**")
    assert len(brief.splitlines()) < 12
    assert "## " not in brief
    assert "## Queries that given+rerank makes better" in whole
    assert brief.splitlines()[2].split(".")[0] == whole.splitlines()[2].split(".")[0]


def test_the_report_says_when_how_and_where(secondpass, given_suite, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "an-ordinary-word")
    out = tmp_path / "out"
    call = ["eval", given_suite, "--preset", "lexical", "--out", out, "--limit", "2"]
    assert secondpass(*call, "--cache", tmp_path / "an-ordinary-word").code == 0
    settings = json.loads((out / "results.json").read_text())["settings"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", settings["date"])
    assert settings["command"].startswith(f"secondpass eval {given_suite} --preset lexical")
    assert shlex.split(settings["command"])[-1] == str(tmp_path / "***")
    assert settings["versions"].keys() >= {"secondpass", "python", "ir-measures"}
    assert settings["machine"]["cores"] >= 1
    assert settings["date"] in (out / "report.html").read_text()
    for file in out.glob("*.*"):
        assert "an-ordinary-word" not in file.read_text()
    assert platform.node() not in settings["machine"].values()


def test_no_file_has_a_key_of_a_configuration(secondpass, given_suite, write, tmp_path, plots):
    secret, out = "s3cret-value", tmp_path / "out"
    endpoint = {"type": "endpoint", "api": "vllm", "model": "m"}
    endpoint["base_url"] = f"http://127.0.0.1:9/v1?code={secret}"
    llm = {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:9"}
    llm["options"] = {"extra_headers": {"X-Gateway": secret}}
    limits = {"retries": 0}
    call = ["eval", given_suite, "--out", out, "--json", "--compare", "lexical"]
    for name, method in (("a", endpoint), ("b", {"type": "listwise", "llm": llm})):
        described = json.dumps({"method": method, "limits": limits})
        call += ["--config", write(f"{name}.yaml", described)]
    told = secondpass(*call)
    assert told.code == 0
    assert (
        systems(told)["given+a"]["config"]["method"]["base_url"] == "http://127.0.0.1:9/v1?<hidden>"
    )
    page = (out / "report.html").read_text()
    assert "&lt;hidden&gt;" in page
    assert '<svg class="chart"' in page
    for text in (told.out, told.err, *(file.read_text() for file in out.glob("*.*"))):
        assert secret not in text


def test_a_name_in_brackets_is_shown_on_a_terminal(given_suite):
    shown = on_a_terminal("eval", str(given_suite), "--compare", "[/b]\x1b[31m=lexical")
    assert "given+[/b]" in shown
    assert "\x1b[31m=lexical" not in shown
    assert "error" not in shown


# ------------------------------------------------------------------ the cost beforehand


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with FakeProvider() as running:
        yield running


@pytest.fixture
def graded(write, provider):
    """A configuration that asks the provider, two questions a query; an input token costs 1."""
    prices = "{input: 1000000, output: 0}"
    return write(
        "graded.yaml",
        "method: {type: graded, batch_size: 5, "
        f"llm: {{type: openai, model: m, prices: {prices}, "
        f"base_url: '{provider.base_url('openai')}'}}}}\n",
    )


def announced(told):
    """The calls that each system is said to take, and the cost."""
    found = re.findall(r"(\S+) will ask m: (\d+) calls?, .*?, cost about ([\d.e+]+)", told.flat)
    return {name: (int(calls), float(cost)) for name, calls, cost in found}


def test_what_models_will_cost_is_said_before_they_are_asked(
    secondpass, given_suite, graded, provider
):
    call = ["eval", given_suite, "--json", "--preset", "lexical", "--config", graded]
    planned = json.loads(secondpass(*call, "--dry-run").out)
    assert provider.calls == 0
    told = secondpass(*call)
    assert told.code == 0
    assert json.loads(told.out)["queries"] == len(QUERIES)  # standard output has only the results
    assert announced(told) == {
        "given+graded": (provider.calls, pytest.approx(planned["total"]["cost"], rel=1e-3))
    }
    assert provider.calls == 2 * len(QUERIES)
    assert "Tokens are estimated at four bytes each" in told.flat
    both = secondpass(*call, "--compare", f"second={graded}", "--shuffles", "1")
    assert {name: calls for name, (calls, _) in announced(both).items()} == {
        "given+graded": 4 * len(QUERIES),
        "given+second": 4 * len(QUERIES),
    }
    assert f"in total: {8 * len(QUERIES)} calls" in both.flat


def test_local_models_cost_nothing(secondpass, given_suite):
    told = secondpass("eval", given_suite, "--preset", "lexical", "--preset", "embedded")
    assert (told.code, told.err) == (0, "")


@pytest.mark.parametrize("shuffles", [0, 1])
def test_rankings_that_are_finished_cost_nothing(
    secondpass, given_suite, graded, provider, interrupted, tmp_path, shuffles
):
    call = ["eval", given_suite, "--config", graded, "--out", tmp_path / "out"]
    call += ["--shuffles", shuffles]
    interrupted(2 + 2 * shuffles)
    assert secondpass(*call).code == 130
    before = provider.calls
    interrupted(0)
    told = secondpass(*call, "--resume")
    assert told.code == 0
    ((calls, _),) = announced(told).values()
    finished = 1 + 2 * shuffles
    assert before == 2 * finished
    assert calls == provider.calls - before == 2 * (len(QUERIES) * (1 + shuffles) - finished)


# ------------------------------------------------------------------ an interrupted run


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C during the ranking of this number, counted from 1; all that were begun are counted."""

    def arm(number):
        begun = []
        rank = Reranker.rerank

        def stopping(*arguments, **options):
            begun.append(1)
            if len(begun) == number:
                raise KeyboardInterrupt
            return rank(*arguments, **options)

        monkeypatch.setattr(Reranker, "rerank", stopping)
        return begun

    return arm


@pytest.mark.parametrize("stopped_at", [2, 4, 6])
def test_no_finished_ranking_is_lost(secondpass, given_suite, tmp_path, interrupted, stopped_at):
    out = tmp_path / "out"
    call = ["eval", given_suite, "--out", out, "--shuffles", "1"]
    call += ["--compare", "a=lexical", "--compare", "b=lexical"]
    whole = secondpass(*call[:2], *call[4:], "--json")
    interrupted(stopped_at)
    stopped = secondpass(*call)
    assert stopped.code == 130
    assert f"finished rankings are in {out / 'rankings.jsonl'}" in stopped.flat
    begun = interrupted(0)
    resumed = secondpass(*call, "--resume", "--json")
    assert resumed.code == 0
    assert len(begun) == 2 * 2 * len(QUERIES) - (stopped_at - 1)
    assert f"{stopped_at - 1} finished ranking" in resumed.flat
    for name, one in systems(resumed).items():
        expected = systems(whole)[name]
        assert one.pop("seconds").keys() == expected.pop("seconds").keys()
        assert one == expected
    assert not (out / "rankings.jsonl").exists()


def test_an_interrupted_run_is_neither_overwritten_nor_continued_unasked(
    secondpass, given_suite, tmp_path, interrupted
):
    out = tmp_path / "out"
    call = ["eval", given_suite, "--out", out, "--preset", "lexical"]
    interrupted(2)
    assert secondpass(*call).code == 130
    kept = (out / "rankings.jsonl").read_bytes()
    begun = interrupted(0)
    again = secondpass(*call)
    assert (again.code, "use --resume to continue it, or --force" in again.flat) == (1, True)
    assert (out / "rankings.jsonl").read_bytes() == kept
    assert secondpass(*call, "--force").code == 0
    assert len(begun) == len(QUERIES)
    assert secondpass(*call, "--resume").code == 1  # it is complete


@pytest.mark.parametrize(("option", "asked_again"), [((), True), (("--resume",), False)])
def test_answers_of_an_interrupted_run_are_used_on_request_only(
    secondpass, given_suite, graded, provider, tmp_path, monkeypatch, option, asked_again
):
    """Even if it has no finished ranking."""

    def stopping(*_args):
        raise KeyboardInterrupt

    call = ["eval", given_suite, "--config", graded, "--out", tmp_path / "out"]
    with monkeypatch.context() as patch:
        patch.setattr("secondpass.evaluation.journal.Journal.add", stopping)
        assert secondpass(*call).code == 130
    before = provider.calls
    assert secondpass(*call, *option).code == 0
    whole = 2 * len(QUERIES)
    assert provider.calls == before + whole - (0 if asked_again else before)


def test_an_interrupted_run_that_was_to_replace_results_is_continued(
    secondpass, given_suite, tmp_path, interrupted
):
    out = tmp_path / "out"
    call = ["eval", given_suite, "--out", out]
    assert secondpass(*call, "--compare", "old=lexical").code == 0
    interrupted(3)
    stopped = secondpass(*call, "--compare", "new=lexical", "--force")
    assert (stopped.code, "continue with --resume" in stopped.flat) == (130, True)
    begun = interrupted(0)
    again = secondpass(*call, "--compare", "new=lexical")
    assert (again.code, "use --resume to continue it" in again.flat) == (1, True)
    resumed = secondpass(*call, "--compare", "new=lexical", "--resume", "--json")
    assert (resumed.code, len(begun)) == (0, 1)
    assert "given+new" in systems(resumed)


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (OSError(28, "No space left"), 1)]
)
def test_what_stops_the_writing_of_files_costs_no_ranking(
    secondpass, given_suite, tmp_path, interrupted, monkeypatch, error, code
):
    def failing(_comparison):
        raise error

    out = tmp_path / "out"
    call = ["eval", given_suite, "--out", out, "--preset", "lexical", "--json"]
    with monkeypatch.context() as patch:
        patch.setattr("secondpass.evaluation.report.files.page.page", failing)
        stopped = secondpass(*call)
    assert (stopped.code, "continue with --resume" in stopped.flat) == (code, True)
    assert (out / "results.json").exists()
    begun = interrupted(0)
    resumed = secondpass(*call, "--resume")
    assert (resumed.code, begun) == (0, [])
    assert (out / "report.html").exists()
    assert not (out / "rankings.jsonl").exists()


def test_files_that_cannot_be_written_are_an_error_though_the_output_is_closed(
    secondpass, given_suite, tmp_path, monkeypatch
):
    def failing(*_arguments, **_options):
        raise BrokenPipeError

    (tmp_path / "out" / "results.json").mkdir(parents=True)
    monkeypatch.setattr("secondpass.cli.evaluation_output.write", failing)
    told = secondpass(
        "eval", given_suite, "--preset", "lexical", "--out", tmp_path / "out", "--force"
    )
    assert (told.code, "results.json" in told.flat) == (1, True)


@pytest.mark.parametrize("option", [[], ["--resume"], ["--force"]])
def test_two_runs_at_once_share_no_folder(secondpass, given_suite, tmp_path, interrupted, option):
    out = tmp_path / "out"
    out.mkdir()
    begun = interrupted(0)
    with Journal(out / "rankings.jsonl") as journal:
        told = secondpass("eval", given_suite, "--preset", "lexical", "--out", out, *option)
        assert (told.code, "another process is writing to it" in told.flat) == (1, True)
        journal.add("a", Reranker("lexical").rerank("a", ["a"]))
    assert begun == [1]
    assert (out / "rankings.jsonl").stat().st_size


@pytest.mark.parametrize("option", ["--resume", "--force"])
def test_rankings_of_another_command_are_not_lost(secondpass, given_suite, tmp_path, option):
    file = tmp_path / "out" / "rankings.jsonl"
    call = ["rerank", "-p", "lexical", "-q", "owl", "--output", file]
    file.parent.mkdir()
    assert secondpass(*call, stdin=b'"an owl"\n').code == 0
    content = file.read_bytes()
    told = secondpass("eval", given_suite, "-p", "lexical", "--out", file.parent, option)
    assert (told.code, "is not a file of finished rankings" in told.flat) == (1, True)
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--resume"], "--resume: needs --out"),
        (["--resume", "--force", "--out", "x"], "--resume, --force: give one of them"),
    ],
)
def test_resume_needs_a_folder(secondpass, given_suite, options, told):
    outcome = secondpass("eval", given_suite, *options)
    assert (outcome.code, told in outcome.flat) == (2, True)
