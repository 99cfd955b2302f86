"""Inputs, journal, estimates and output of ``secondpass judge``."""

import json
import sys

import pytest
import typer

from judged_folders import GRADES, POOLS, QUERIES, mark, write_folder
from secondpass import Candidate, InputError, Reranker
from secondpass.asking.dry_run import Expected
from secondpass_evaluation.cli.first_stages import IndexStage
from secondpass_evaluation.cli.judge import (
    DryRunDoneError,
    folder_journal,
    open_inputs,
    pool_rerankers,
    print_judgements,
    stop_before_asking,
)
from secondpass_evaluation.cli.suite_options import DocumentOptions
from secondpass_evaluation.judging.judge import Judgements
from secondpass_evaluation.judging.labels import locked
from secondpass_evaluation.search.indexing import build_index

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


@pytest.mark.parametrize("pool", [None, []])
def test_without_a_pool_there_is_no_reranker(pool):
    assert pool_rerankers(pool, dry_run=False) == {}


@pytest.mark.parametrize("name", ["asking", "falling_back"])
def test_what_asks_a_service_is_in_no_estimate(configurations, capsys, name):
    pool = [configurations[name], configurations["local"]]
    assert pool_rerankers(pool, dry_run=False).keys() == {name, "local"}
    assert capsys.readouterr().err == ""
    assert pool_rerankers(pool, dry_run=True).keys() == {"local"}
    warning = f"warning: --pool {name}: asks a service, so its results are not in this estimate\n"
    assert capsys.readouterr().err == warning


def test_all_of_the_pool_must_load(configurations, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(typer.Exit) as stop:
        pool_rerankers([configurations["local"], configurations["absent"]], dry_run=False)
    assert stop.value.exit_code == 1
    assert "--pool absent: " in capsys.readouterr().err


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


def test_finished_rankings_are_kept_for_a_larger_sample(tmp_path, capsys):
    into = tmp_path / "new" / "suite"
    assert finish(into, "a") == 0
    assert finish(into, "b", resume=True) == 1
    assert capsys.readouterr().err == ""
    with opened(into, resume=True) as journal:
        assert len(journal) == 2
        journal.find("a", "pears", [Candidate("pears"), Candidate("plums")])
    assert f"1 finished rankings were read from {into}" in capsys.readouterr().err
    assert finish(into, force=True) == 0
    assert finish(into) == 0  # an empty folder again


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


def test_a_dry_run_reads_a_journal_and_creates_none(tmp_path):
    into = tmp_path / "suite"
    for resume in (False, True):
        with opened(into, resume=resume, dry_run=True) as journal:
            assert journal is None
    assert not into.exists()
    finish(into, "a")
    with opened(into, resume=True, dry_run=True) as journal:
        assert "a" in journal
    with opened(into, dry_run=True) as journal:
        assert journal is None


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


def found(make_retriever, stages=("lexical",)):
    retriever = make_retriever({*stages}, None, lambda *_: None)
    return retriever and [item.id for item in retriever.retrieve("pears", 1, "lexical")]


def test_a_folder_has_queries_a_corpus_and_candidates(data, write, tmp_path):
    queries, documents, retriever = inputs(data)
    assert queries == {"q": "pears"}
    assert {item.id: item.text for item in documents["corpus"]} == TEXTS
    assert documents["candidates"] is None
    assert found(retriever) == ["d1"]
    assert found(inputs(data, corpus=tmp_path / "other.jsonl")[2]) == ["o"]
    write("data/candidates.jsonl", [{"query_id": "q", "candidates": [{"id": "d2"}]}])
    _, documents, retriever = inputs(data)
    assert [item.text for item in documents["candidates"]["q"]] == [TEXTS["d2"]]
    assert found(retriever, stages=()) is None  # those candidates are judged
    run = write("run.trec", "q 0 d1 1 2.0 t\n")
    _, documents, _ = inputs(data, run=run)
    assert [item.id for item in documents["candidates"]["q"]] == ["d1"]


def test_an_index_and_a_folder_of_documents_are_searched(data, write, tmp_path):
    queries = data / "queries.jsonl"
    build_index(data / "corpus.jsonl", tmp_path / "index", None)
    _, documents, retriever = inputs(queries, corpus=tmp_path / "index")
    assert {item.id for item in documents["corpus"]} == {*TEXTS}
    assert found(retriever) == ["d1"]
    assert isinstance(retriever(set(), None, lambda *_: None), IndexStage)
    write("docs/pears.txt", "Pears grow. " * 30)
    _, documents, retriever = inputs(queries, corpus=tmp_path / "docs", passage_size=200)
    assert len(documents["corpus"]) > 1
    assert found(retriever)[0].startswith("pears.txt#")


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


def test_json_has_the_same_numbers(capsys):
    print_judgements(judged(cost=0.5, stopped="the budget was spent"), as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "model": "m",
        "template": "umbrela-1",
        "sampled_from": 9,
        "queries": 3,
        "documents": 5,
        "grades": {"0": 1, "1": 2, "2": 1, "3": 1},
        "ungraded": 0,
        "pools": ["lexical"],
        "calls": 1234,
        "cost": 0.5,
        "stopped": "the budget was spent",
    }


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


def test_a_dry_run_ends_with_its_estimate(capsys):
    with pytest.raises(DryRunDoneError) as done:
        stop_before_asking([Expected("m", calls=12, pairs=40)])
    done.value.show(3, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["queries"], printed["total"]["calls"]) == (3, 12)
