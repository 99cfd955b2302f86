"""What ``secondpass eval`` prints and writes, and how it continues an interrupted run."""

import json
import re

import pytest
from rich.cells import cell_len

from fruit_suite import QUERIES, systems
from terminals import on_a_terminal


def test_files_are_written_once_unless_forced(secondpass, given_suite, tmp_path):
    out = tmp_path / "results"
    call = ["eval", given_suite, "--preset", "lexical", "--into", out]
    told = secondpass(*call)
    assert told.code == 0
    assert told.out.startswith("# suite")
    for name in ("results.json", "per_query.csv", "report.md", "report.html"):
        assert (out / name).stat().st_size
    assert "Plots need matplotlib" in (out / "report.html").read_text()
    assert (out / "runs" / "given+rerank.trec").exists()
    assert f"written: {out / 'results.json'}" in told.flat
    again = secondpass(*call)
    assert (again.code, "use --force to overwrite" in again.flat) == (1, True)
    assert secondpass(*call, "--force").code == 0


def test_a_screen_by_default_and_the_rest_with_details(secondpass, given_suite):
    call = ["eval", given_suite, "--preset", "lexical"]
    brief, whole = secondpass(*call).out, secondpass(*call, "--details").out
    assert brief.splitlines()[2].startswith("**")
    assert len(brief.splitlines()) < 12
    assert "## " not in brief
    assert "## Queries that given+rerank makes better" in whole
    assert brief.splitlines()[2].split(".")[0] == whole.splitlines()[2].split(".")[0]


@pytest.mark.parametrize("width", [60, 80, 130])
def test_no_figure_is_cut_on_a_terminal(given_suite, width):
    call = ["eval", given_suite, "--details", "--compare", f"{'long-name-' * 4}=lexical"]
    shown = on_a_terminal(*call, columns=width)
    tables = shown[shown.index("Overview") : shown.index("Queries that")]
    assert "…" not in tables
    assert all(cell_len(line) <= width for line in tables.splitlines())
    whole = on_a_terminal(*call, columns=400)
    rows = [line for line in whole.splitlines() if line.startswith("given")]
    figures = {
        word for line in rows for word in line.split() if re.fullmatch(r"[+-]?\d\.\d{4}", word)
    }
    assert figures
    assert figures <= set(re.findall(r"[+-]?\d\.\d{4}", tables))


def test_no_finished_ranking_is_lost(secondpass, given_suite, tmp_path, interrupted):
    stopped_at = 6
    out = tmp_path / "out"
    call = ["eval", given_suite, "--into", out, "--shuffles", "1"]
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


def test_an_interrupted_run_needs_resume_or_force(secondpass, given_suite, tmp_path, interrupted):
    out = tmp_path / "out"
    call = ["eval", given_suite, "--into", out, "--preset", "lexical"]
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

    call = ["eval", given_suite, "--config", graded, "--into", tmp_path / "out"]
    with monkeypatch.context() as patch:
        patch.setattr("secondpass_evaluation.journal.Journal.add", stopping)
        told = secondpass(*call)
        assert (told.code, "answers.sqlite; continue with --resume" in told.flat) == (130, True)
    before = provider.calls
    assert secondpass(*call, *option).code == 0
    whole = 2 * len(QUERIES)
    assert provider.calls == before + whole - (0 if asked_again else before)


def test_an_interrupted_run_that_replaces_results_is_continued(
    secondpass, given_suite, tmp_path, interrupted
):
    out = tmp_path / "out"
    call = ["eval", given_suite, "--into", out]
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
    call = ["eval", given_suite, "--into", out, "--preset", "lexical", "--json"]
    with monkeypatch.context() as patch:
        patch.setattr("secondpass_evaluation.comparison.page.page", failing)
        stopped = secondpass(*call)
    assert (stopped.code, "continue with --resume" in stopped.flat) == (code, True)
    assert (out / "results.json").exists()
    begun = interrupted(0)
    resumed = secondpass(*call, "--resume")
    assert (resumed.code, begun) == (0, [])
    assert (out / "report.html").exists()
    assert not (out / "rankings.jsonl").exists()


def test_an_interrupted_run_without_a_folder_says_what_keeps_rankings(
    secondpass, given_suite, interrupted
):
    interrupted(2)
    told = secondpass("eval", given_suite, "--preset", "lexical")
    kept = "finished rankings are kept only with --into\n"
    assert (told.code, told.err.endswith(f"{kept}secondpass: stopped\n")) == (130, True)


def test_finished_rankings_are_not_estimated(secondpass, given_suite, tmp_path, monkeypatch):
    def interrupted(_comparison):
        raise KeyboardInterrupt

    def pairs(*arguments):
        return json.loads(secondpass(*arguments, "--dry-run").out)["total"]["pairs"]

    begin = ["eval", given_suite, "--compare", "lexical"]
    call = [*begin, "--into", tmp_path / "out"]
    with monkeypatch.context() as patch:
        patch.setattr("secondpass_evaluation.experiment.corrected_results", interrupted)
        assert secondpass(*call).code == 130
    journal = tmp_path / "out" / "rankings.jsonl"
    kept = journal.read_bytes()
    assert pairs(*call, "--resume") == 0
    assert pairs(*call, "--resume", "--shuffles", 1) == pairs(*begin) > 0
    assert journal.read_bytes() == kept
