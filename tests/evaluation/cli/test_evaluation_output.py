"""What ``secondpass eval`` prints and writes, and how it continues an interrupted run."""

import pytest

from fruit_suite import QUERIES, announced, systems
from secondpass import Reranker
from secondpass_evaluation import Journal


def test_files_are_written_once_unless_forced(secondpass, given_suite, tmp_path):
    out = tmp_path / "results"
    call = ["eval", given_suite, "--preset", "lexical", "--into", out]
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
    told = secondpass("eval", asked, "--mode", "lexical", "--json", "--into", tmp_path / "out")
    assert (told.code, "document id 'a b' has white space" in told.flat) == (1, True)
    assert systems(told)["lexical"]["means"]["RR"] == 1.0
    assert (tmp_path / "out" / "report.html").exists()


def test_unwritable_files_are_an_error_if_the_output_is_closed(
    secondpass, given_suite, tmp_path, monkeypatch
):
    def failing(*_arguments, **_options):
        raise BrokenPipeError

    (tmp_path / "out" / "results.json").mkdir(parents=True)
    monkeypatch.setattr("secondpass_evaluation.cli.evaluate.write", failing)
    told = secondpass(
        "eval", given_suite, "--preset", "lexical", "--into", tmp_path / "out", "--force"
    )
    assert (told.code, "results.json" in told.flat) == (1, True)


def test_a_screen_by_default_and_the_rest_with_details(secondpass, given_suite):
    call = ["eval", given_suite, "--preset", "lexical"]
    brief, whole = secondpass(*call).out, secondpass(*call, "--details").out
    assert brief.splitlines()[2].startswith("**")
    assert len(brief.splitlines()) < 12
    assert "## " not in brief
    assert "## Queries that given+rerank makes better" in whole
    assert brief.splitlines()[2].split(".")[0] == whole.splitlines()[2].split(".")[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--resume"], "--resume: needs --into"),
        (["--resume", "--force", "--into", "x"], "--resume, --force: give one of them"),
    ],
)
def test_resume_needs_a_folder(secondpass, given_suite, options, told):
    outcome = secondpass("eval", given_suite, *options)
    assert (outcome.code, told in outcome.flat) == (2, True)


@pytest.mark.parametrize("stopped_at", [2, 6])
def test_no_finished_ranking_is_lost(secondpass, given_suite, tmp_path, interrupted, stopped_at):
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


def test_rankings_that_are_finished_cost_nothing(
    secondpass, given_suite, graded, provider, interrupted, tmp_path
):
    call = ["eval", given_suite, "--config", graded, "--into", tmp_path / "out"]
    call += ["--shuffles", 1]
    interrupted(4)
    assert secondpass(*call).code == 130
    before = provider.calls
    interrupted(0)
    told = secondpass(*call, "--resume")
    assert told.code == 0
    ((calls, _),) = announced(told).values()
    finished = 3
    assert before == 2 * finished
    assert calls == provider.calls - before == 2 * (2 * len(QUERIES) - finished)


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
        assert secondpass(*call).code == 130
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


@pytest.mark.parametrize("option", [["--resume"], ["--force"]])
def test_two_runs_at_once_share_no_folder(secondpass, given_suite, tmp_path, interrupted, option):
    out = tmp_path / "out"
    out.mkdir()
    begun = interrupted(0)
    with Journal(out / "rankings.jsonl") as journal:
        told = secondpass("eval", given_suite, "--preset", "lexical", "--into", out, *option)
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
    told = secondpass("eval", given_suite, "-p", "lexical", "--into", file.parent, option)
    assert (told.code, "is not a file of finished rankings" in told.flat) == (1, True)
    assert file.read_bytes() == content
