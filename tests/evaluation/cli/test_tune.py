"""``secondpass tune``: what is written, what is not, and what it exits with."""

import json

import pytest
from rich.cells import cell_len

from secondpass.config import load
from terminals import on_a_terminal
from tuning_suites import FIRST, LAST, folder_of


@pytest.fixture
def last(tmp_path):
    return folder_of(LAST, tmp_path / "last")


def test_what_is_adopted_is_written_with_its_evidence(secondpass, last, tmp_path):
    into, report = tmp_path / "rerank.yaml", tmp_path / "report.html"
    told = secondpass("tune", last, "--try", "lexical", "--into", into, "--report", report)
    assert told.code == 0
    assert "**Adopt lexical, depth 20, no blend, at " in told.out
    assert f"written: {into}" in told.flat
    assert f"written: {report}" in told.flat
    text = into.read_text()
    assert text.startswith("# Written by secondpass tune")
    assert "secondpass tune" in " ".join(text.split("# Command:")[1].split())
    assert load(into).depth == 20
    note = "depth 20: all candidates, up to 6 a query, were reranked; a greater depth could not"
    assert note in " ".join(text.replace("#", "").split())
    assert "Adopt lexical" in report.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "report.html",
                                                                "rerank.yaml"]  # fmt: skip


@pytest.mark.parametrize("width", [80, 130])
def test_each_reranker_is_a_row_on_a_terminal(last, width):
    call = ("tune", last, "--try", "accurate_reranker=lexical", "--quiet")
    shown = on_a_terminal(*call, columns=width)
    assert all(cell_len(line) <= width for line in shown.splitlines())
    figures, outcome = [
        line.split() for line in shown.splitlines() if line.startswith("accurate_reranker")
    ]
    assert len(figures) == 8  # the interval is three words
    assert outcome[1:4] == ["depth", "20,", "no"]


def test_nothing_is_written_if_the_first_stage_is_kept(secondpass, tmp_path):
    into = tmp_path / "rerank.yaml"
    suite = folder_of(FIRST, tmp_path / "first")
    told = secondpass("tune", suite, "--try", "lexical", "--into", into, "--json")
    assert told.code == 0
    assert json.loads(told.out)["adopted"] is None
    assert f"{into} is not written: nothing is adopted" in told.flat
    assert not into.exists()


@pytest.mark.parametrize("file", ["rerank.yaml", "report.html"])
def test_a_file_is_overwritten_only_by_force(secondpass, last, tmp_path, file):
    kept = tmp_path / file
    kept.write_text("kept")
    option = "--into" if file.endswith("yaml") else "--report"
    call = ["tune", last, "--try", "lexical", option, kept]
    told = secondpass(*call)
    assert told.code == 1
    assert told.flat == f"secondpass: {kept}: already exists; use --force to overwrite it"
    assert kept.read_text() == "kept"
    assert secondpass(*call, "--force").code == 0
    assert kept.read_text() != "kept"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--into", "rerank.json"], 1, "must end in .yaml or .yml"),
        (["--report", "report.txt"], 2, "must end in .html"),
        (["--report", "folder.html", "--force"], 1, "folder.html: is a folder"),
        (["--resume"], 2, "--resume: needs --into"),
        (["--try", "=lexical"], 2, "write NAME=WHAT, or WHAT alone"),
        (["--try", "none.yaml"], 1, "--try none.yaml: there is no such file"),
        (["--try", "lexicall"], 1, "no preset is named 'lexicall'; did you mean 'lexical'?"),
        (["--rankings", "kept.jsonl", "--resume"], 2, "--rankings, --resume: give one of them"),
    ],
)
def test_wrong_options(secondpass, last, tmp_path, monkeypatch, options, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    told = secondpass("tune", last, "--try", "lexical", *options)
    assert (told.code, message in told.flat) == (code, True), told.err


def test_too_few_queries_are_named_as_typed(secondpass, last):
    told = secondpass("tune", last, "--try", "lexical", "--limit", "1")
    assert told.code == 1
    assert f"{last}: has 1 judged query; tuning needs 30 or more" in told.flat


def test_a_suite_is_needed(secondpass):
    told = secondpass("tune")
    assert (told.code, "missing SUITE" in told.flat) == (2, True)


def test_nothing_that_could_be_tried_is_an_error(secondpass, last, tmp_path):
    """A folder without a model; a limit that leaves nothing is no error."""
    told = secondpass("tune", last, "--try", tmp_path / "lexicall")
    assert (told.code, "no reranker could be tried" in told.flat) == (1, True)
    assert "| lexicall |" in told.out
    assert told.out.splitlines()[2].startswith("**Nothing was reranked, so nothing is decided")
    assert secondpass("tune", last, "--try", tmp_path / "lexicall", "--latency", "1e-9").code == 1
    assert secondpass("tune", last, "--try", "lexical", "--latency", "1e-9").code == 0


def test_an_interrupted_run_is_continued(secondpass, last, tmp_path, monkeypatch):
    from secondpass_evaluation.tuning import tuning as choosing

    into = tmp_path / "rerank.yaml"
    journal = tmp_path / "rerank.yaml.rankings.jsonl"
    call = ["tune", last, "--try", "lexical", "--into", into]

    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(choosing.selections, "select", interrupted)
        assert secondpass(*call).code == 130
    assert journal.exists()
    told = secondpass(*call)
    assert (told.code, "use --resume to continue it" in told.flat) == (1, True)
    told = secondpass(*call, "--resume")
    assert (told.code, "30 finished rankings were read from" in told.flat) == (0, True)
    assert (into.exists(), journal.exists()) == (True, False)


def test_kept_rankings_are_not_made_again(secondpass, last, tmp_path):
    """With another limit or measure, and without a file that is written."""
    rankings = tmp_path / "rankings.jsonl"
    call = ["tune", last, "--try", "lexical", "--rankings", rankings]
    first = secondpass(*call)
    assert (first.code, "were read" in first.flat) == (0, False), first.err
    kept = rankings.read_bytes()
    for options in (["--cost", "0.1"], ["--measure", "RR", "--smallest-gain", "0.2"]):
        again = secondpass(*call, *options)
        assert again.code == 0
        assert f"30 finished rankings were read from {rankings}" in again.flat
        assert rankings.read_bytes() == kept


def test_a_store_that_is_new_is_named(secondpass, last, write, tmp_path):
    """Also by the other commands that name configurations in their own way."""
    store = tmp_path / "new.store"
    config = write("stored.yaml", f"method: {{type: embedded, store: '{store}'}}\n")
    line = f"{store} is a new, empty store; `secondpass store DOCS --into {store}` fills it"
    for command in (
        ["tune", last, "--try", config, "--depths", 2],
        ["eval", last, "--config", config, "--limit", 1],
        ["calibrate", last, "--config", config, "--limit", 9],
    ):
        told = secondpass(*command)
        assert (told.code, told.flat.count(line)) == (0, 1), told.err
        store.unlink()
