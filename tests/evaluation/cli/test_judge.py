"""``secondpass judge``: a model grades pools, a person grades some of them again."""

import json
import sys

import pytest

from fake_provider import FakeProvider, content_filtered, good, refusing
from judged_folders import GRADES, POOLS, QUERIES, mark, write_folder
from secondpass_evaluation.cli.judge import open_inputs, pool_rerankers, print_judgements
from secondpass_evaluation.cli.suite_options import DocumentOptions, VectorOptions
from secondpass_evaluation.judging.judge import Judgements
from secondpass_evaluation.judging.labels import locked

FRUITS = ["apples", "pears", "plums", "cherries"]
PASSAGES = [
    {"_id": f"d{number}", "text": f"{fruit} grow on trees in garden {number}"}
    for number, fruit in enumerate(FRUITS * 4)
]
LOG = [
    {"query": f"where do {fruit} grow in garden {number}", "user": 7}
    for number, fruit in enumerate(FRUITS * 3)
]


@pytest.fixture
def provider():
    with FakeProvider(good(lambda text: len(text) % 4)) as running:
        yield running


@pytest.fixture
def call(secondpass, write, provider, tmp_path):
    """The command that judges the log, with more options."""
    log = write("log.jsonl", [*LOG, {"question": "Where do APPLES  grow in garden 0"}])
    corpus = write("corpus.jsonl", PASSAGES)
    llm = json.dumps(provider.llm("openai", prices={"input": 1, "output": 1}))
    config = write("judge.yaml", f"method: {{type: graded, llm: {llm}}}\n")

    def called(*options, stdin=b""):
        arguments = ["judge", log, "--corpus", corpus, "-c", config, "--mode", "lexical"]
        folder = ["--into", tmp_path / "suite", "--depth", 2, "--quiet"]
        return secondpass(*arguments, *folder, *options, stdin=stdin)

    called.folder, called.corpus = tmp_path / "suite", corpus
    return called


def test_a_folder_is_a_marked_suite(call, secondpass):
    told = call("--sample", 8, "--json")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert (found["sampled_from"], found["queries"], found["documents"]) == (12, 8, 16)
    suite = ["eval", call.folder, "--corpus", call.corpus, "--mode", "lexical", "-p", "lexical"]
    measured = json.loads(secondpass(*suite, "--json").out)
    assert "judged by the model m" in measured["notes"][0]
    assert measured["judged_by"]["model"] == "m"
    assert measured["corrected"] == []


def test_a_dry_run_asks_nothing(call, provider):
    told = call("--dry-run", "--json", "--pool", "lexical")
    assert told.code == 0, told.err
    estimate = json.loads(told.out)
    assert (estimate["queries"], estimate["total"]["calls"] >= 24) == (12, True)
    assert provider.calls == 0
    assert not call.folder.exists()


def test_the_limits_of_one_ranking_do_not_bound_the_judge(call, provider, tmp_path):
    """Neither what its method does besides: a real run makes the calls of the dry run."""
    llm = provider.llm("openai", prices={"input": 1, "output": 1})
    stages = [{"type": "lexical", "depth": 3}, {"type": "graded", "depth": 1, "llm": llm}]
    config = {
        "method": {"type": "cascade", "stages": stages},
        "limits": {"deadline": 1e-6, "calls": 1, "tokens": 1, "cost": 1e-9},
        "fallback": ["lexical"],
        "depth": 1,
        "top_k": 1,
    }
    (tmp_path / "judge.yaml").write_text(json.dumps(config))
    planned, told = call("--dry-run", "--json"), call("--json")
    assert (planned.code, told.code) == (0, 0), planned.err + told.err
    estimate = json.loads(planned.out)
    found = json.loads(told.out)
    assert (found["documents"], found["ungraded"]) == (24, 0)
    assert found["calls"] == estimate["total"]["calls"] == 24


@pytest.mark.parametrize("count", [2, 12])
def test_the_next_command_can_be_pasted(call, count):
    told = call("--sample", count)
    command = (
        f"`secondpass judge --into {call.folder} --ask {count}` lets you judge {count} queries"
    )
    assert f"next: {command}; `eval` then corrects its figures" in told.flat


@pytest.mark.parametrize(
    "method",
    ["embedded", "{type: graded, llm: {type: openai, model: m, api_key_env: NO_SUCH_KEY}}"],
)
def test_what_cannot_judge_leaves_no_folder(call, provider, tmp_path, method):
    (tmp_path / "judge.yaml").write_text(f"method: {method}\n")
    for _ in range(2):
        assert call().code == 1
        assert not call.folder.exists()
    call.folder.mkdir()
    assert call().code == 1
    assert not [*call.folder.iterdir()]


def test_what_has_no_grade_is_asked_again(call, provider):
    grading = good(lambda text: len(text) % 4)

    def is_about_plums(request):
        return "plums grow" in request.messages[-1]

    provider.play(refusing(is_about_plums, content_filtered(), grading))
    told = call("--json")
    assert told.code == 0, told.err
    ungraded = json.loads(told.out)["ungraded"]
    assert f"{ungraded} documents without a grade; --resume asks" in told.flat
    provider.play(grading)
    again = json.loads(call("--resume", "--json").out)
    assert (again["documents"], again["ungraded"]) == (24, 0)
    assert 0 < provider.calls == ungraded


def test_files_of_others_are_not_overwritten_or_taken_for_the_models(call, provider, write):
    path = write("suite/qrels.tsv", "mine\n")
    told = call()
    assert told.code == 1
    assert "has qrels.tsv, which is not marked as a model's" in told.flat
    assert path.read_text() == "mine\n"
    assert provider.calls == 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "missing QUERIES, or --ask"),
        (["--ask", 3], 1, "has no judgements of a model"),
        (["queries.jsonl"], 2, "missing --config or --preset"),
        (["queries.jsonl", "-p", "lexical"], 2, "missing --corpus, or QUERIES as a folder"),
        (["few", "-p", "lexical"], 2, "missing --corpus, or QUERIES as a folder"),
        (["empty", "-p", "lexical"], 1, "has no queries (queries.jsonl, queries.tsv)"),
        (["few", "-p", "lexical", "--ask", 3, "--dry-run"], 2, "--ask, --dry-run: give one of"),
        (["few", "-p", "lexical", "--resume", "--force"], 2, "--resume, --force: give one of them"),
    ],
)
def test_errors(secondpass, write, tmp_path, monkeypatch, options, code, message):
    for name in ("queries.jsonl", "few/queries.jsonl", "empty/corpus.jsonl"):
        write(name, [{"_id": "q", "text": "pears"}])
    monkeypatch.chdir(tmp_path)
    told = secondpass("judge", *options, "--into", "suite")
    assert (told.code, message in told.flat) == (code, True), told.err


def test_a_dry_run_with_resume_counts_only_what_is_left(call, provider):
    assert call("--sample", 5).code == 0
    asked = provider.calls
    estimate = json.loads(call("--dry-run", "--resume", "--sample", 8, "--json").out)
    assert (estimate["queries"], estimate["total"]["calls"]) == (8, 6)
    assert call("--sample", 8, "--resume").code == 0
    assert provider.calls == asked + 6


def test_a_model_with_its_key_in_a_variable_is_resumed(call, provider, monkeypatch, tmp_path):
    monkeypatch.setenv("JUDGE_KEY", "k-1")
    llm = json.dumps({**provider.llm("openai"), "api_key": {"env": "JUDGE_KEY"}})
    (tmp_path / "judge.yaml").write_text(f"method: {{type: graded, llm: {llm}}}\n")
    assert call("--sample", 5).code == 0
    told = call("--sample", 8, "--resume")
    assert "5 finished rankings were read" in told.flat
    assert provider.calls == 16


# ---------------------------------------------------------------------- the pool

GRADED = "{type: graded, llm: {type: openai, model: m, api_key_env: JUDGE_KEY}}"


@pytest.fixture
def configurations(write, monkeypatch):
    """YAML files of pools; each value of ``--pool``."""
    monkeypatch.setenv("JUDGE_KEY", "k")
    texts = {
        "local": "method: lexical",
        "asking": f"method: {GRADED}",
        "falling_back": f"method: lexical\nfallback: [{GRADED}]",
        "absent": "method: {type: cross_encoder, model: nowhere, backend: torch}",
    }
    return {name: f"{name}={write(f'{name}.yaml', text)}" for name, text in texts.items()}


@pytest.mark.parametrize("name", ["asking", "falling_back"])
def test_what_asks_a_service_is_in_no_estimate(configurations, capsys, name):
    pool = [configurations[name], configurations["local"]]
    assert pool_rerankers(pool, dry_run=False).keys() == {name, "local"}
    assert capsys.readouterr().err == ""
    assert pool_rerankers(pool, dry_run=True).keys() == {"local"}
    warning = f"warning: --pool {name}: asks a service, so its results are not in this estimate\n"
    assert capsys.readouterr().err == warning


def test_all_of_the_pool_must_load(call, provider, configurations, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    told = call("--pool", configurations["local"], "--pool", configurations["absent"])
    assert (told.code, "absent: " in told.flat, provider.calls) == (1, True, 0)


# ---------------------------------------------------------------------- the journal


def test_judgements_are_neither_continued_nor_replaced_unasked(call, tmp_path):
    """Neither what a run has finished nor what it has written."""
    assert call().code == 0
    for absent in ("rankings.jsonl", "qrels.txt"):
        path = (call.folder / absent).rename(tmp_path / absent)
        told = call()
        assert (told.code, "already has judgements; use --resume to" in told.flat) == (1, True)
        path.rename(call.folder / absent)
    assert call("--force").code == 0


@pytest.mark.parametrize("finished", [0, 2])
def test_after_an_interruption_the_way_to_continue_is_said(call, interrupted, finished):
    interrupted(finished + 1)
    told = call()
    hint = f"what is finished is in {call.folder / 'rankings.jsonl'}; continue with --resume"
    assert (told.code, hint in told.flat) == (130, finished > 0)
    interrupted(0)
    told = call("--resume")
    assert (told.code, f"{finished} finished rankings were read" in told.flat) == (0, finished > 0)


def test_nobody_reviews_what_is_being_judged(call):
    call.folder.mkdir()
    write_folder(call.folder)
    with locked(call.folder):
        told = call("--resume")
    assert (told.code, "another process" in told.flat) == (1, True)


# ---------------------------------------------------------------------- the inputs

TEXTS = {"d1": "pears grow on trees", "d2": "plums grow in gardens"}


@pytest.fixture
def data(write, tmp_path):
    """A folder with queries, and two corpora."""
    write("data/queries.jsonl", [{"_id": "q", "text": "pears"}])
    write("data/corpus.jsonl", [{"_id": name, "text": text} for name, text in TEXTS.items()])
    write("other.jsonl", [{"_id": "o", "text": "pears at sea"}])
    return tmp_path / "data"


def inputs(source, **options):
    """The suite, and the best passage that a search of its corpus finds."""
    searched = open_inputs(str(source), DocumentOptions(**options), 2)
    retriever = searched.retriever(VectorOptions(), lambda *_: None)
    (found,) = retriever.retrieve("pears", 1, "lexical")
    return searched.suite, found.id


def test_a_folder_has_queries_a_corpus_and_candidates(data, write, tmp_path):
    suite, found = inputs(data)
    assert suite.queries == {"q": "pears"}
    assert {item.id: item.text for item in suite.corpus} == TEXTS
    assert (suite.candidates, found) == (None, "d1")
    assert inputs(data, corpus=tmp_path / "other.jsonl")[1] == "o"
    write("data/candidates.jsonl", [{"query_id": "q", "candidates": [{"id": "d2"}]}])
    assert [item.text for item in inputs(data)[0].candidates["q"]] == [TEXTS["d2"]]
    run = write("run.trec", "q 0 d1 1 2.0 t\n")
    assert [item.id for item in inputs(data, run=run)[0].candidates["q"]] == ["d1"]


# ---------------------------------------------------------------------- the output


def judged(stopped="", **changes):
    return Judgements(QUERIES, GRADES, mark(**changes), POOLS, 0.123456, 1234, stopped)


def test_judgements_are_counted_by_grade(capsys):
    many = judged("the budget was spent", model="m\x1b", documents=5000, ungraded=1500)
    print_judgements(many, as_json=False)
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "m\\x1b judged 5,000 documents of 3 of 9 queries: 1 of grade 0, 2 of grade 1, "
        "1 of grade 2, 1 of grade 3",
        "1,234 calls, cost 0.1235",
    ]
    assert printed.err.splitlines() == [
        "warning: the budget was spent",
        "warning: 1,500 documents without a grade; --resume asks about them again",
    ]


def test_judgements_without_a_relevant_document_are_warned_of(capsys):
    print_judgements(judged(grades={0: 5}), as_json=False)
    warning = "no document was judged relevant, so nothing can be measured with these judgements"
    assert capsys.readouterr().err == f"warning: {warning}\n"
