"""``secondpass judge``: a model grades pools, a person grades some of them again."""

import json
import sys

import pytest
import typer

from fake_provider import FakeProvider, content_filtered, good, refusing
from judged_folders import GRADES, POOLS, QUERIES, mark, write_folder
from secondpass import InputError, Reranker
from secondpass_evaluation.cli.judge import (
    folder_journal,
    open_inputs,
    pool_rerankers,
    print_judgements,
)
from secondpass_evaluation.cli.suite_options import DocumentOptions, VectorOptions
from secondpass_evaluation.judging.judge import Judgements
from secondpass_evaluation.judging.labels import locked

PASSAGES = [
    {"_id": f"d{number}", "text": f"{fruit} grow on trees in garden {number}"}
    for number, fruit in enumerate(["apples", "pears", "plums", "cherries"] * 4)
]
LOG = [
    {"query": f"where do {fruit} grow in garden {number}", "user": 7}
    for number, fruit in enumerate(["apples", "pears", "plums", "cherries"] * 3)
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
    mark = json.loads((call.folder / "qrels.judged-by.json").read_text())
    assert (mark["model"], mark["template"], mark["documents"]) == ("m", "umbrela-1", 16)
    lines = (call.folder / "qrels.txt").read_text().splitlines()
    assert [len(line.split()) for line in lines] == [4] * 16
    suite = ["eval", call.folder, "--corpus", call.corpus, "--mode", "lexical", "-p", "lexical"]
    measured = json.loads(secondpass(*suite, "--json").out)
    assert "judged by the model m" in measured["notes"][0]
    assert measured["judged_by"]["model"] == "m"
    assert measured["corrected"] == []


def test_a_dry_run_asks_nothing(call, provider):
    told = call("--dry-run", "--json", "--pool", "lexical")
    assert told.code == 0, told.err
    assert json.loads(told.out)["total"]["calls"] >= 24
    assert json.loads(told.out)["queries"] == 12
    assert provider.calls == 0
    assert not call.folder.exists()


def test_what_has_no_grade_is_asked_again(call, provider):
    grading = good(lambda text: len(text) % 4)

    def is_about_plums(request):
        return "plums grow" in request.messages[-1]

    provider.play(refusing(is_about_plums, content_filtered(), grading))
    told = call("--json")
    assert told.code == 0, told.err
    ungraded = json.loads(told.out)["ungraded"]
    assert f"{ungraded} documents have no grade; --resume asks again" in told.flat
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
    ("options", "message"),
    [
        ([], "missing QUERIES, or --ask"),
        (["--ask", 3], "has no judgements of a model"),
        (["queries.tsv"], "--config or --preset"),
        (["queries.tsv", "-p", "lexical"], "missing --corpus"),
    ],
)
def test_wrong_arguments(secondpass, write, tmp_path, monkeypatch, options, message):
    write("queries.tsv", "q\tpears\n")
    monkeypatch.chdir(tmp_path)
    told = secondpass("judge", *options, "--into", "suite")
    assert told.code in {1, 2}
    assert message in told.flat


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


RANKING = Reranker("lexical").rerank("pears", ["pears", "plums"])


def finish(folder, *keys, **options):
    """Finish rankings with a new journal; the number of those before."""
    with opened(folder, **options) as journal:
        before = len(journal)
        for key in keys:
            journal.add(key, RANKING)
    return before


def opened(folder, *, resume=False, force=False, dry_run=False):
    return folder_journal(folder, resume=resume, force=force, dry_run=dry_run)


@pytest.mark.parametrize("what", ["journal", "judgements"])
def test_judgements_are_neither_continued_nor_replaced_unasked(tmp_path, capsys, what):
    if what == "journal":
        finish(tmp_path, "a")
    else:
        write_folder(tmp_path)
    with pytest.raises(typer.Exit) as stop, opened(tmp_path):
        pytest.fail("it begins")
    assert stop.value.exit_code == 1
    assert "already has judgements; use --resume to continue" in capsys.readouterr().err


def test_resume_and_force_exclude_each_other(tmp_path, capsys):
    with pytest.raises(typer.Exit) as stop, opened(tmp_path, resume=True, force=True):
        pytest.fail("it begins")
    assert stop.value.exit_code == 2
    assert "--resume, --force: give one of them" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("finished", [0, 1])
def test_after_an_interruption_the_way_to_continue_is_said(tmp_path, capsys, error, finished):
    def interrupted():
        with opened(tmp_path) as journal:
            for number in range(finished):
                journal.add(str(number), RANKING)
            raise error

    with pytest.raises(error):
        interrupted()
    said = f"what is finished is in {tmp_path / 'rankings.jsonl'}; continue with --resume\n"
    assert capsys.readouterr().err == said * finished


def test_nobody_reviews_what_is_being_judged(tmp_path):
    write_folder(tmp_path)
    with (
        opened(tmp_path, resume=True),
        pytest.raises(InputError, match="another process"),
        locked(tmp_path),
    ):
        pytest.fail("it begins")


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
    """The queries, the parts of the suite, and what makes a retriever."""
    searched = open_inputs(str(source), DocumentOptions(**options), 2)
    return searched.suite.queries, vars(searched.suite), searched.retriever


def found(make_retriever):
    retriever = make_retriever(VectorOptions(), lambda *_: None)
    return retriever and [item.id for item in retriever.retrieve("pears", 1, "lexical")]


def test_a_folder_has_queries_a_corpus_and_candidates(data, write, tmp_path):
    queries, documents, retriever = inputs(data)
    assert queries == {"q": "pears"}
    assert {item.id: item.text for item in documents["corpus"]} == TEXTS
    assert documents["candidates"] is None
    assert found(retriever) == ["d1"]
    assert found(inputs(data, corpus=tmp_path / "other.jsonl")[2]) == ["o"]
    write("data/candidates.jsonl", [{"query_id": "q", "candidates": [{"id": "d2"}]}])
    _, documents, _ = inputs(data)
    assert [item.text for item in documents["candidates"]["q"]] == [TEXTS["d2"]]
    run = write("run.trec", "q 0 d1 1 2.0 t\n")
    _, documents, _ = inputs(data, run=run)
    assert [item.id for item in documents["candidates"]["q"]] == ["d1"]


@pytest.mark.parametrize(
    ("files", "source", "code", "message"),
    [
        (["empty/corpus.jsonl"], "empty", 1, "has no queries (queries.jsonl, queries.tsv)"),
        (["few/queries.jsonl"], "few", 2, "missing --corpus, or QUERIES as a folder"),
        (["queries.jsonl"], "queries.jsonl", 2, "missing --corpus, or QUERIES as a folder"),
    ],
    ids=["no queries", "folder without a corpus", "file without a corpus"],
)
def test_missing_inputs(write, tmp_path, capsys, files, source, code, message):
    for name in files:
        write(name, [{"_id": "q", "text": "pears"}])
    with pytest.raises(typer.Exit) as stop:
        inputs(tmp_path / source)
    assert stop.value.exit_code == code
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------------- the output


def judged(*, cost=None, stopped="", **changes):
    settings = {"calls": 1234, "cost": cost, "stopped": stopped}
    return Judgements(QUERIES, GRADES, mark(**changes), POOLS, **settings)


def test_judgements_are_counted_by_grade(capsys):
    print_judgements(judged(cost=0.123456, model="m\x1b", documents=5000), as_json=False)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines() == [
        "m\\x1b judged 5,000 documents of 3 of 9 queries: 1 of grade 0, 2 of grade 1, "
        "1 of grade 2, 1 of grade 3",
        "1,234 calls, cost 0.1235",
    ]
    print_judgements(judged(), as_json=False)
    assert "1,234 calls\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("judgements", "warning"),
    [
        (judged(stopped="the budget was spent"), "the budget was spent"),
        (judged(ungraded=1500), "1,500 documents have no grade; --resume asks again about them"),
        (
            judged(grades={0: 5}),
            "no document is judged relevant, so these judgements cannot measure anything",
        ),
    ],
    ids=["stopped", "no grade", "nothing relevant"],
)
def test_warnings(capsys, judgements, warning):
    print_judgements(judgements, as_json=False)
    assert capsys.readouterr().err == f"warning: {warning}\n"
