"""``secondpass judge``: a model grades pools, a person grades some of them again."""

import json

import pytest

from fake_provider import FakeProvider, content_filtered, good, refusing
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


def test_judgements_of_texts_that_have_changed_are_named(call, secondpass):
    assert call("--sample", 2).code == 0
    lines = [json.loads(line) for line in call.corpus.read_text().splitlines()]
    texts = [line["text"] for line in lines]
    for line, text in zip(lines, [*texts[1:], texts[0]], strict=True):
        line["text"] = text  # as if a section had been inserted or removed
    call.corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    suite = [call.folder, "--corpus", call.corpus, "--mode", "lexical"]
    measured = json.loads(secondpass("eval", *suite, "-p", "lexical", "--json").out)
    judged = {line.split()[2] for line in (call.folder / "qrels.txt").read_text().splitlines()}
    note = measured["notes"][1]
    assert f"{len(judged)} of {len(judged)} judged documents have another text" in note
    assert any(repr(name) in note for name in judged)


def test_a_person_corrects_the_figures(call, secondpass):
    told = call("--ask", 7, stdin=b"3\n0\n" * 3)
    assert told.code == 0, told.err
    assert "3 of 12 queries are complete" in told.out
    answers = b"x\n1\nb\n2\n0\n" + b"0\n2\n" * 9
    again = secondpass("judge", "--into", call.folder, "--ask", 7, stdin=answers)
    assert again.code == 0, again.err
    assert "answer one of 0, 1, 2, 3" in again.err
    assert "7 of 12 queries are complete" in again.out
    suite = ["eval", call.folder, "--corpus", call.corpus, "--mode", "lexical", "-p", "lexical"]
    measured = json.loads(secondpass(*suite, "--json").out)
    first = measured["corrected"][0]
    assert (first["mean"]["people"], first["mean"]["queries"]) == (7, 12)
    assert first["mean"]["low"] <= first["mean"]["mean"] <= first["mean"]["high"]
    assert "by which the figures are corrected" in secondpass(*suite).out


def test_a_dry_run_asks_nothing(call, provider):
    told = call("--dry-run", "--json", "--pool", "lexical")
    assert told.code == 0, told.err
    assert json.loads(told.out)["total"]["calls"] >= 24
    assert json.loads(told.out)["queries"] == 12
    assert provider.calls == 0
    assert not call.folder.exists()


def test_what_is_finished_is_not_asked_again(call, provider):
    assert call("--sample", 5).code == 0
    asked = provider.calls
    refused = call("--sample", 8)
    assert refused.code == 1
    assert "already has judgements; use --resume" in refused.flat
    assert call("--sample", 8, "--resume").code == 0
    assert (asked, provider.calls) == (10, 16)


def test_what_has_no_grade_is_asked_again(call, provider):
    grading = good(lambda text: len(text) % 4)

    def is_about_plums(request):
        return "plums grow" in request.messages[-1]

    provider.play(then=refusing(is_about_plums, content_filtered(), grading))
    told = call("--json")
    assert told.code == 0, told.err
    ungraded = json.loads(told.out)["ungraded"]
    assert f"{ungraded} documents have no grade; --resume asks again" in told.flat
    provider.play(then=grading)
    again = json.loads(call("--resume", "--json").out)
    assert (again["documents"], again["ungraded"]) == (24, 0)
    assert 0 < provider.calls == ungraded


def test_nothing_is_judged_while_a_person_is_asked(call, provider):
    assert call("--sample", 1).code == 0
    asked = provider.calls
    with locked(call.folder):
        told = call("--resume")
    assert told.code == 1
    assert "another process is writing to it" in told.flat
    assert provider.calls == asked
    assert call("--resume").code == 0


def test_a_budget_stops(call):
    told = call("--budget", 0.0000001, "--json")
    assert told.code == 0, told.err
    assert "the budget of 1e-07 was spent after 1 of 12 queries" in told.flat
    assert json.loads(told.out)["queries"] == 1


def test_judgements_of_people_are_not_overwritten(call, write):
    write("suite/qrels.txt", "q 0 d 1\n")
    told = call("--force")
    assert told.code == 1
    assert "has qrels.txt, which is not marked as a model's and is not overwritten" in told.flat


@pytest.mark.parametrize("name", ["queries.jsonl", "pool.jsonl", "qrels.tsv", "qrels/test.tsv"])
def test_files_of_others_are_not_overwritten_or_taken_for_the_models(call, provider, write, name):
    path = write(f"suite/{name}", "mine\n")
    told = call()
    assert told.code == 1
    assert f"has {name}, which is not marked as a model's" in told.flat
    assert path.read_text() == "mine\n"
    assert provider.calls == 0


def test_ids_that_cannot_be_written_cost_nothing(call, provider, write):
    write("log.jsonl", [{"query": "pears", "id": "a b"}])
    told = call()
    assert told.code == 1
    assert "query id 'a b' has white space" in told.flat
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


def test_a_method_without_a_language_model_is_refused(secondpass, write):
    corpus, queries = write("corpus.jsonl", PASSAGES), write("queries.tsv", "q\tpears\n")
    told = secondpass(
        "judge", queries, "--corpus", corpus, "-p", "lexical", "--into", corpus.parent / "suite"
    )
    assert told.code == 1
    assert "lexical asks no language model" in told.flat


def test_a_run_is_judged(call, secondpass, write, tmp_path):
    run = write("run.trec", "q 0 d3 1 2.0 t\nq 0 d5 2 1.0 t\n")
    queries = write("queries.tsv", "q\tcherries\nr\tplums\n")
    config = ["-c", tmp_path / "judge.yaml", "--corpus", call.corpus, "--run", run]
    told = secondpass("judge", queries, *config, "--into", call.folder, "--json")
    assert told.code == 0, told.err
    assert json.loads(told.out)["pools"] == ["given"]
    lines = (call.folder / "qrels.txt").read_text().splitlines()
    assert {line.split()[2] for line in lines} == {"d3", "d5"}


def test_a_budget_of_nothing_is_refused(call):
    told = call("--budget", 0)
    assert told.code == 1
    assert "budget: must be a number above 0" in told.flat


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
