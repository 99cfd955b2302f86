"""``secondpass rerank``: what goes in, what comes out, and going on after a kill."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secondpass import Candidate, EngineInfo, Ranking, Report, Reranker
from secondpass.cli.commands.rerank import _counts, _summary
from secondpass.cli.rankings import Format, Formatter
from secondpass.cli.requests import InputRequest
from secondpass.evaluation import read_corpus, read_run

LEXICAL = ("rerank", "--preset", "lexical")
FRUIT = [
    {"id": "moon", "text": "The moon moves around the earth.", "score": 3},
    {"id": "pear", "text": "A pear is a fruit.", "score": 2, "page": 7},
    {"id": "banana", "text": "A banana is a fruit rich in potassium.", "score": 1},
]
shared_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=settings().max_examples // 10,
)


def json_lines(values):
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def requests(count, candidates=4, seed=0, words=30):
    """Requests whose words meet."""
    rng = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(40)]
    return [
        {
            "query_id": f"q{number}",
            "query": " ".join(rng.choices(vocabulary, k=4)),
            "candidates": [
                {"id": f"d{number}-{at}", "text": " ".join(rng.choices(vocabulary, k=words))}
                for at in range(candidates)
            ],
        }
        for number in range(count)
    ]


def process(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "secondpass", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


# ---------------------------------------------------------------------- what goes in and out


def test_candidates_of_one_query_come_ranked_with_all_their_data(secondpass):
    told = secondpass(*LEXICAL, "--query", "fruit potassium", stdin=json_lines(FRUIT))
    (ranked,) = told.lines()
    assert [one["id"] for one in ranked["ranking"]] == ["banana", "pear", "moon"]
    assert [one["rank"] for one in ranked["ranking"]] == [1, 2, 3]
    assert ranked["ranking"][1] | {"rerank_score": 0, "final_score": 0} == {
        "rank": 2,
        "id": "pear",
        "position": 1,
        "status": "scored",
        "score": 2,
        "rerank_score": 0,
        "final_score": 0,
        "text": "A pear is a fruit.",
        "metadata": {"page": 7},
    }
    assert ranked["report"]["status"] == "ok"
    assert "seconds" not in ranked["report"]
    assert told.code == 0
    assert "1 query in" in told.err
    assert "1 ok, 0 partial, 0 degraded, 0 unchanged" in told.err


def test_a_span_is_written_with_its_item():
    candidates = [Candidate("some text"), Candidate("other")]
    ranking = Reranker("lexical").rerank("text", candidates)
    items = (replace(ranking[0], span=(5, 9)), ranking[1])
    formatter = Formatter(Format.jsonl, False, False, "tag", None, True)
    request = InputRequest(None, "text", candidates, None, b"", 0)
    line = formatter.format_ranking(1, request, replace(ranking, items=items))
    first, second = json.loads(line)["ranking"]
    assert (first["span"], "span" in second) == ([5, 9], False)


@pytest.mark.parametrize(("span", "shown"), [((5, 9), "…text here"), ((0, 4), "some text here")])
def test_a_table_shows_the_text_from_its_span_on(span, shown):
    candidates = [Candidate("some text here")]
    ranking = Reranker("lexical").rerank("text", candidates)
    ranking = replace(ranking, items=(replace(ranking[0], span=span),))
    request = InputRequest(None, "text", candidates, None, b"", 0)
    formatter = Formatter(Format.table, True, False, "tag", None, True)
    assert formatter.format_ranking(1, request, ranking).rstrip().endswith(f" {shown}")


def test_a_candidate_may_be_a_string_or_have_its_id_as_corpora_do(secondpass):
    stdin = '\ufeff"a fruit"\n\n{"_id": 7, "text": "fruit fruit"}\r\n{"content": "x"}'.encode()
    (ranked,) = secondpass(*LEXICAL, "-q", "fruit", stdin=stdin).lines()
    assert sorted(str(one["id"]) for one in ranked["ranking"]) == ["7", "None", "None"]


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_many_requests_give_what_the_library_gives_in_their_order(secondpass, write, batch):
    given = requests(7)
    file = write("in.jsonl", given)
    told = secondpass(*LEXICAL, file, "--batch", batch).lines()
    assert [one["query_id"] for one in told] == [one["query_id"] for one in given]
    reranker = Reranker.from_preset("lexical")
    for one, request in zip(told, given, strict=True):
        alone = reranker.rerank(request["query"], request["candidates"])
        assert [item["id"] for item in one["ranking"]] == [item.id for item in alone]
        assert [item["final_score"] for item in one["ranking"]] == [
            item.final_score for item in alone
        ]


def test_standard_input_is_a_dash_too(secondpass):
    stdin = json_lines(requests(2))
    assert secondpass(*LEXICAL, "-", stdin=stdin).out == secondpass(*LEXICAL, stdin=stdin).out


def test_nothing_in_gives_nothing_out(secondpass):
    told = secondpass(*LEXICAL)
    assert (told.code, told.out) == (0, "")
    (empty,) = secondpass(*LEXICAL, "-q", "x").lines()
    assert empty["ranking"] == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--top-k", "1"], ["banana"]),
        (["--depth", "2"], ["pear", "moon", "banana"]),
        (["--set", "tail=drop", "--depth", "2"], ["pear", "moon"]),
        (["--set", "method.k1=0", "--set", "top_k=2"], ["banana", "pear"]),
    ],
)
def test_options_reach_the_ranking(secondpass, options, expected):
    told = secondpass(*LEXICAL, "-q", "fruit potassium", *options, stdin=json_lines(FRUIT))
    assert [one["id"] for one in told.lines()[0]["ranking"]] == expected


def test_texts_can_be_left_out_and_timings_put_in(secondpass):
    stdin = json_lines(FRUIT)
    (told,) = secondpass(*LEXICAL, "-q", "x", "--no-text", "--timings", stdin=stdin).lines()
    assert told["report"]["seconds"] >= 0
    assert not {"text", "metadata"} & set(told["ranking"][0])


def test_a_context_is_handed_on(secondpass, write, tmp_path):
    context = write("context.yaml", "nodes: []\n")
    told = secondpass(*LEXICAL, "-q", "x", "--context", context, stdin=json_lines(FRUIT))
    assert told.code == 0
    broken = write("broken.yaml", "a: [1\nb: 2")
    told = secondpass(*LEXICAL, "-q", "x", "--context", broken, stdin=json_lines(FRUIT))
    assert (told.code, "not JSON; as YAML: not YAML at line 2" in told.flat) == (1, True)


@pytest.mark.parametrize(
    "content", ["!!int ''", "!!bool x", "!!timestamp x", b"\xff", "a: \0", "a: 1\na: 2"]
)
def test_a_context_that_is_no_yaml_is_told(secondpass, write, content):
    context = write("context.yaml", content)
    told = secondpass(*LEXICAL, "-q", "x", "--context", context, stdin=json_lines(FRUIT))
    assert (told.code, "context.yaml: not JSON" in told.flat) == (1, True)


@pytest.mark.parametrize("content", ["{1: a, b: 2}", "[&a [1], *a]", "2020-01-01: {1: 2020-01-02}"])
def test_an_output_knows_any_context_again(secondpass, write, tmp_path, content):
    call = [*LEXICAL, "-q", "x", "-o", tmp_path / "out", "--resume", "--context"]
    stdin = json_lines(FRUIT)
    assert secondpass(*call, write("context.yaml", content), stdin=stdin).code == 0
    assert secondpass(*call, tmp_path / "context.yaml", stdin=stdin).code == 0
    told = secondpass(*call, write("context.yaml", "other"), stdin=stdin)
    assert (told.code, "was made with another context" in told.flat) == (1, True)


def test_what_json_has_no_number_for_is_null(secondpass):
    (told,) = secondpass(
        *LEXICAL, "-q", "x", stdin=b'{"text": "x", "score": 1e999, "far": [-1e999]}\n'
    ).lines()
    assert told["ranking"][0]["score"] is None
    assert told["ranking"][0]["metadata"] == {"far": [None]}


def test_a_table_shows_text_that_would_steer_a_terminal_as_it_is(secondpass):
    stdin = json_lines([{"id": "a\x1b[2J", "text": "one\n\x1b]0;title\x07 two \u202e[bold]"}])
    told = secondpass(*LEXICAL, "-q", "\x1b[31mred", "--format", "table", stdin=stdin)
    assert told.code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(told.out)
    assert "\\x1b[31mred" in told.out
    assert "[bold]" in told.out


def test_a_table_tells_how_many_are_hidden(secondpass):
    stdin = json_lines([f"text {number}" for number in range(12)])
    assert "and 2 more" in secondpass(*LEXICAL, "-q", "x", "-f", "table", stdin=stdin).out
    assert "more" not in secondpass(*LEXICAL, "-q", "x", "-f", "table", "-k12", stdin=stdin).out


# ---------------------------------------------------------------------- TREC runs


@pytest.fixture
def trec(write):
    given = requests(5)
    scores = {one["query_id"]: range(4, 0, -1) for one in given}
    run = "".join(
        f"{one['query_id']} Q0 {document['id']} {rank} {score} tag\n"
        for one in given
        for rank, (document, score) in enumerate(
            zip(one["candidates"], scores[one["query_id"]], strict=True), 1
        )
    )
    documents = [
        {"_id": document["id"], "text": document["text"], "title": f"T {document['id']}"}
        for one in given
        for document in one["candidates"]
    ]
    random.Random(1).shuffle(documents)
    files = {
        "--run": write("run.trec", run),
        "--queries": write(
            "queries.tsv", "".join(f"{q['query_id']}\t{q['query']}\n" for q in given)
        ),
        "--corpus": write("corpus.jsonl", [*documents, {"_id": "other", "text": "x"}]),
    }
    return given, files


def options(files):
    return [str(part) for pair in files.items() for part in pair]


def test_a_run_is_ranked_as_the_same_requests_are(secondpass, trec):
    given, files = trec
    told = secondpass(*LEXICAL, *options(files), "--batch", 2).lines()
    same = secondpass(*LEXICAL, stdin=json_lines(given)).lines()
    for one, other in zip(told, same, strict=True):
        assert one["query_id"] == other["query_id"]
        assert [item["id"] for item in one["ranking"]] == [item["id"] for item in other["ranking"]]
    best = told[0]["ranking"][0]
    assert best["metadata"] == {"title": f"T {best['id']}"}
    assert best["score"] == 4 - best["position"]


def test_a_run_comes_out_as_one_that_reads_in_the_same_order(secondpass, trec, tmp_path):
    given, files = trec
    target = tmp_path / "out.trec"
    told = secondpass(*LEXICAL, *options(files), "-f", "trec", "-o", target, "--tag", "mine")
    assert told.code == 0
    assert set(target.read_text().split("\n")[0].split()[::5]) == {"q0", "mine"}
    expected = {
        one["query_id"]: [item["id"] for item in one["ranking"]]
        for one in secondpass(*LEXICAL, stdin=json_lines(given)).lines()
    }
    assert {query: list(found) for query, found in read_run(target).items()} == expected


def test_the_order_of_a_run_is_that_of_its_scores(secondpass, write, trec):
    _, files = trec
    files["--run"] = write("run", "q0 Q0 d0-1 1 0.5 t\nq0 Q0 d0-0 2 0.5 t\nq0 Q0 d0-3 9 2 t\n")
    (told,) = secondpass(*LEXICAL, *options(files), "--set", "depth=1").lines()
    by_position = sorted(told["ranking"], key=lambda item: item["position"])
    assert [item["id"] for item in by_position] == ["d0-3", "d0-1", "d0-0"]


@pytest.mark.parametrize(
    ("part", "content", "told"),
    [
        (
            "--run",
            "q0 Q0 d0-0 1 1 t\nq1 Q0 d1-0 1 1 t\nq0 Q0 d0-1 2 1 t",
            "run:3: the lines of query 'q0' are not consecutive; sort the run",
        ),
        ("--run", "q0 Q0 d0-0 1 1 t\nq0 Q0 d0-0 2 1 t", "run:2: query 'q0' has document 'd0-0'"),
        ("--run", "q9 Q0 d0-0 1 1 t", "run:1: query 'q9' is not among the queries"),
        ("--run", "q0 Q0 d0-0 1 1 t\nq0 Q0 gone 2 1 t", "run:2: document 'gone' is not in"),
        ("--run", "q0 Q0 d0-0 1 nan t", "run:1: the score must be a finite number"),
        ("--run", "q0 Q0 d0-0 1 1 t\nq0 Q0 a 2 1e60 t", "run:2: document 'a': its score is beyond"),
        ("--run", "q0 Q0 d0-0 1 1_0 t", "run:1: the score must be a finite number"),
        ("--run", "q0 Q0 d0-0 one 1 t", "run:1: the rank must be an integer"),
        ("--run", "q0 d0-0 1 1 t", "run:1: must have six fields"),
        ("--queries", "q0 no tab", "queries:1: must be an id, a tab"),
        ("--corpus", '{"_id": 1, "text": "a"}\n{"_id": "1", "text": "b"}', "corpus:2: id '1' was"),
        ("--corpus", '{"_id": "d0-0", "text": 3}', "corpus:1: 'text' must be a string"),
        ("--corpus", '{"_id": "unused", "text": 3}', "corpus:1: 'text' must be a string"),
        ("--corpus", '{"_id": "d0-0", "id": "b", "text": "x"}', "and they differ"),
        ("--corpus", '{"text": "x"}', "corpus:1: needs an '_id' or 'id'"),
        ("--corpus", "[]", "corpus:1: must be a JSON object"),
        ("--corpus", b'{"_id": "a", "text": "x"}\n\n\xff', "corpus:3: is not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_run_is_told_with_its_place(
    secondpass, write, trec, part, content, told
):
    _, files = trec
    files[part] = write(part.removeprefix("--"), content)
    outcome = secondpass(*LEXICAL, *options(files))
    assert outcome.code == 1
    assert told in outcome.flat


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"query": "x", "candidates": ["no id"]}, "a candidate has no id"),
        ({"query": "x", "candidates": [{"id": "a b", "text": "x"}]}, "'a b' has white space"),
        ({"query_id": "a b", "query": "x", "candidates": []}, "'a b' has white space"),
    ],
)
def test_what_a_run_cannot_hold_is_told(secondpass, line, told):
    outcome = secondpass(*LEXICAL, "-f", "trec", stdin=json_lines([line]))
    assert (outcome.code, told in outcome.flat) == (1, True)


def test_what_a_run_cannot_hold_is_told_before_anything_is_ranked(secondpass, write):
    """Or models would be asked, and paid, for rankings that cannot be written."""
    config = write("c.yaml", "method: {type: endpoint, api: tei, base_url: 'http://127.0.0.1:9'}")
    given = [
        {"query": "x", "candidates": [{"id": "a", "text": "x"}]},
        {"query": "x", "candidates": ["x"]},
    ]
    outcome = secondpass("rerank", "--config", config, "-f", "trec", stdin=json_lines(given))
    assert (outcome.code, "query 'q2': a candidate has no id" in outcome.flat) == (1, True)
    assert "warning" not in outcome.err


def test_requests_without_ids_are_counted_in_a_run(secondpass):
    given = [{"query": "x", "candidates": [{"id": "a", "text": "x"}]}] * 2
    told = secondpass(*LEXICAL, "-f", "trec", stdin=json_lines(given))
    assert told.out == "q1 Q0 a 1 1.0 secondpass\nq2 Q0 a 1 1.0 secondpass\n"


def test_a_corpus_is_read_as_evaluations_read_it(secondpass, write, trec):
    _, files = trec
    line = {"_id": "d0-0", "text": "x", "title": "", "score": 3, "content": "c", "metadata": {}}
    files |= {"--run": write("run", "q0 Q0 d0-0 1 7 t\n"), "--corpus": write("corpus", [line])}
    (told,) = secondpass(*LEXICAL, *options(files)).lines()
    (candidate,) = read_corpus(files["--corpus"])
    assert told["ranking"][0]["metadata"] == candidate.metadata == {"score": 3, "content": "c"}
    assert told["ranking"][0]["score"] == 7


def test_a_run_can_come_through_a_pipe(secondpass, trec):
    _, files = trec
    expected = secondpass(*LEXICAL, *options(files)).out
    run = files["--run"].read_bytes()
    assert secondpass(*LEXICAL, *options({**files, "--run": "-"}), stdin=run).out == expected


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs descriptors with paths")
@pytest.mark.parametrize("part", ["--queries", "--corpus"])
def test_what_is_read_twice_cannot_come_through_a_pipe(secondpass, trec, part):
    _, files = trec
    pipe, end = os.pipe()
    os.write(end, files[part].read_bytes())
    os.close(end)
    files[part] = f"/dev/fd/{pipe}"
    told = secondpass(*LEXICAL, *options(files))
    os.close(pipe)
    assert (told.code, "must be a file, not a pipe" in told.flat) == (1, True)


def with_small_files(*arguments, stdin=b""):
    """The command where no file can have more than 4 kB."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from secondpass.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-B", "-c", code, *LEXICAL, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_a_disk_without_room_for_a_corpus_places_is_told(write, trec):
    _, files = trec
    files["--corpus"] = write(
        "corpus", "".join(f'{{"_id": "{"d" * 90}{at}", "text": ""}}\n' for at in range(40_000))
    )
    told = with_small_files(*options(files))
    assert told.returncode == 1
    assert b"the offsets of its documents cannot be stored on disk" in told.stderr


# ---------------------------------------------------------------------- what is wrong

LINE = {"query_id": "a", "query": "x", "candidates": []}


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        (json_lines(requests(16)) + b"{broken\n", "standard input:17: is not JSON"),
        (b"\xff\n", "standard input:1: is not UTF-8"),
        (b"[1]\n", "standard input:1: must be a JSON object, not"),
        (b"[" * 100_000, "standard input:1: is not JSON that can be parsed: it is nested"),
        (
            b'{"query": "x", "candidates": [{"text": "a", "score": NaN}]}',
            "NaN is not a JSON number",
        ),
        (json_lines([LINE, {**LINE, "query_id": None}]), ":2: has no 'query_id', unlike earlier"),
        (json_lines([{**LINE, "query_id": None}, LINE]), ":2: has a 'query_id', unlike earlier"),
        (json_lines([LINE, LINE]), ":2: id 'a' was given before, in line 1"),
        (json_lines([{**LINE, "id": "b"}]), "has 'query_id' and 'id', and they differ"),
        (json_lines([{**LINE, "query_id": [1]}]), "'query_id' must be a string or an integer"),
        (json_lines([{"text": "x"}]), "has no 'query'; to rank these lines as candidates, give"),
        (json_lines([{**LINE, "query": 3}]), "needs a 'query': a string, not"),
        (json_lines([{**LINE, "candidates": {}}]), "needs 'candidates': a list, not"),
        (json_lines([{**LINE, "candidates": ["a", 3]}]), "candidate 2: must be an object or a"),
        (json_lines([{**LINE, "candidates": [{"id": 1}]}]), "candidate 1: has no 'text'; its keys"),
        (
            json_lines([{**LINE, "candidates": [{"text": "a", "score": "1"}]}]),
            "candidate 1: the score must be a number, not",
        ),
        (
            json_lines([{**LINE, "candidates": [{"text": "a", "id": "1", "_id": 2}]}]),
            "candidate 1: has 'id' and '_id', and they differ",
        ),
        (
            json_lines([{**LINE, "candidates": [{"text": "a", "metadata": 1}]}]),
            "candidate 1: metadata: give a mapping",
        ),
    ],
    ids=range(18),
)
def test_what_is_wrong_with_a_line_is_told_with_its_number(secondpass, stdin, told):
    outcome = secondpass(*LEXICAL, stdin=stdin)
    assert outcome.code == 1
    assert told in outcome.flat


def test_lines_that_hold_more_than_one_value_or_less_are_told(secondpass):
    told = secondpass(*LEXICAL, "-q", "x", stdin=json.dumps(FRUIT).encode())
    assert "standard input:1: is a list; put each candidate on its own line" in told.flat
    told = secondpass(*LEXICAL, "-q", "x", stdin=json.dumps(FRUIT, indent=1).encode())
    assert "standard input:1: is not JSON: Expecting value at column 2; each line" in told.flat


def test_requests_under_query_are_told(secondpass):
    outcome = secondpass(*LEXICAL, "-q", "x", stdin=json_lines(requests(1)))
    assert outcome.code == 1
    assert "to rank them, leave out --query" in outcome.flat


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["nowhere.jsonl"], 1, "nowhere.jsonl: there is no such file or folder"),
        (["--context", "nowhere"], 1, "nowhere: there is no such file or folder"),
        (["."], 1, "Is a directory"),
        (["-o", "."], 1, "Is a directory"),
        (["-o", "no/such/folder"], 1, "there is no such file or folder"),
        (["-f", "trec", "--tag", "a b"], 1, "'a b' has white space"),
        (["--run", "r"], 2, "--run: needs --queries and --corpus"),
        (["--run", "r", "--queries", "q"], 2, "--run: needs --queries and --corpus"),
        (["--corpus", "c"], 2, "--queries, --corpus: need --run"),
        (["--run", "r", "-q", "x"], 2, "--query, --run: give one of them"),
        (["f", "--run", "r"], 2, "FILE, --run: give one of them"),
        (["--resume"], 2, "--resume: needs --output"),
        (["--resume", "-o", "-"], 2, "--resume: needs --output"),
        (["-q", " "], 2, "--query: is empty"),
        (["--json", "-f", "trec"], 2, "--json, --format: give one of them"),
        (["--resume", "--force", "-o", "x"], 2, "--resume, --force: give one of them"),
        (["--top-k", "0"], 2, "--top-k"),
        (["--batch", "many"], 2, "--batch"),
        (["--format", "xml"], 2, "--format"),
        (["--nosuch"], 2, "--nosuch"),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_told(
    secondpass, tmp_path, monkeypatch, arguments, code, told
):
    monkeypatch.chdir(tmp_path)
    outcome = secondpass(*LEXICAL, *arguments)
    assert (outcome.code, told in outcome.flat) == (code, True), outcome.err


def test_rankings_that_are_not_ok_are_counted_and_strict_fails_on_them(secondpass, write):
    config = write(
        "endpoint.yaml", "method: {type: endpoint, api: tei, base_url: http://127.0.0.1:9}"
    )
    call = ["rerank", "--config", config, "--set", "limits.retries=0"]
    told = secondpass(*call, stdin=json_lines(requests(2)))
    assert told.code == 0
    assert "0 ok, 0 partial, 0 degraded, 2 unchanged; issues:" in told.err
    assert told.err.count("warning: reranking is unchanged") == 1  # the same for both queries
    stopped = secondpass(*call, "--set", "strict=true", stdin=json_lines(requests(2)))
    assert (stopped.code, "requests 1 to 2: reranking is unchanged" in stopped.flat) == (1, True)
    strict = secondpass(*call, "--strict", "--quiet", stdin=json_lines(requests(2)))
    assert (strict.code, strict.out) == (1, told.out)
    assert secondpass(*LEXICAL, "--strict", stdin=json_lines(requests(2))).code == 0


# ---------------------------------------------------------------------- outputs and going on


@pytest.mark.parametrize("output", ["in.jsonl", "link", "../{}/in.jsonl"])
def test_what_is_read_is_not_written_over(secondpass, write, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    file = write("in.jsonl", requests(2))
    before = file.read_bytes()
    (tmp_path / "link").symlink_to(file)
    told = secondpass(*LEXICAL, file, "-o", output.format(tmp_path.name), "--force")
    assert (told.code, "is an input file; name another output" in told.flat) == (2, True)
    assert file.read_bytes() == before


def test_a_state_is_not_written_over_what_is_read(secondpass, write, tmp_path):
    file = write("out.state", requests(2))
    told = secondpass(*LEXICAL, file, "-o", tmp_path / "out")
    assert (told.code, "out.state is an input file; name another output" in told.flat) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("call", [["gone.jsonl"], ["broken.jsonl"]])
def test_an_output_is_left_alone_until_its_input_is_there(
    secondpass, write, tmp_path, monkeypatch, call
):
    monkeypatch.chdir(tmp_path)
    write("broken.jsonl", "{broken")
    assert secondpass(*LEXICAL, *call, "-o", "new").code == 1
    assert not (tmp_path / "new").exists()
    old = write("old", "precious")
    assert secondpass(*LEXICAL, *call, "-o", "old", "--force").code == 1
    assert old.read_text() == "precious"


def test_an_empty_output_is_begun(secondpass, write):
    """As mktemp makes one, and as a process leaves one that was killed before its state stood."""
    for option in ([], ["--resume"]):
        target = write("out", "")
        assert secondpass(*LEXICAL, "-o", target, *option, stdin=json_lines(requests(1))).code == 0
        assert json.loads(target.read_text())["query_id"] == "q0"
        (target.with_name("out.state")).unlink()


def test_a_dash_is_standard_output(secondpass, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = secondpass(*LEXICAL, "-o", "-", stdin=json_lines(requests(2)))
    assert [one["query_id"] for one in told.lines()] == ["q0", "q1"]
    assert list(tmp_path.iterdir()) == []


def test_an_input_without_a_last_line_end_may_grow(secondpass, write, tmp_path):
    lines = json_lines(requests(3))
    target = tmp_path / "out"
    call = [*LEXICAL, tmp_path / "in", "-o", target, "--resume"]
    write("in", lines.splitlines(keepends=True)[0].rstrip(b"\n"))
    assert secondpass(*call).code == 0
    write("in", lines)
    assert secondpass(*call).code == 0
    assert [json.loads(line)["query_id"] for line in target.read_text().splitlines()] == [
        "q0",
        "q1",
        "q2",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_an_output_that_a_disk_had_no_room_for_is_gone_on_with(secondpass, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    stdin = json_lines(requests(9))
    told = with_small_files("-o", cut, "--batch", "1", stdin=stdin)
    assert (told.returncode, f"{cut}: File too large" in told.stderr.decode()) == (1, True)
    for target in (whole, cut):
        assert secondpass(*LEXICAL, "-o", target, "--batch", 1, "--resume", stdin=stdin).code == 0
    assert cut.read_bytes() == whole.read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {
        "whole",
        "whole.state",
        "cut",
        "cut.state",
    }


def test_one_output_has_one_writer(secondpass, tmp_path):
    target = tmp_path / "out"
    lines = json_lines(requests(4)).splitlines(keepends=True)
    with process(*LEXICAL, "-o", target, "--batch", "1") as first:
        first.stdin.write(lines[0])
        first.stdin.flush()
        state = target.with_name("out.state")
        until = time.monotonic() + 60
        while not (state.exists() and json.loads(state.read_text())["requests"]):
            assert time.monotonic() < until
            time.sleep(0.02)
        for option in ("--resume", "--force"):
            second = secondpass(*LEXICAL, "-o", target, option, stdin=b"".join(lines))
            assert (second.code, "another process is writing to it" in second.flat) == (1, True)
        first.stdin.write(b"".join(lines[1:]))
        first.stdin.close()
    assert first.returncode == 0
    assert [json.loads(line)["query_id"] for line in target.read_text().splitlines()] == [
        "q0",
        "q1",
        "q2",
        "q3",
    ]


def test_an_output_that_is_there_stays_unless_it_is_forced(secondpass, tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    told = secondpass(*LEXICAL, "-o", target, stdin=json_lines(requests(1)))
    assert (told.code, target.read_text()) == (1, "mine")
    assert "already exists; use --force to overwrite it, or --resume to continue it" in told.flat
    told = secondpass(*LEXICAL, "-o", target, "--resume", stdin=json_lines(requests(1)))
    assert (told.code, target.read_text()) == (1, "mine")
    assert "cannot be resumed without its state file, out.jsonl.state" in told.flat
    assert secondpass(*LEXICAL, "-o", target, "--force", stdin=json_lines(requests(1))).code == 0
    assert json.loads(target.read_text())["query_id"] == "q0"


def test_an_output_that_is_no_file_is_written_as_it_goes(secondpass, tmp_path):
    assert secondpass(*LEXICAL, "-o", os.devnull, stdin=json_lines(requests(1))).code == 0
    assert not os.path.exists(f"{os.devnull}.state")


@shared_folder
@given(
    form=st.sampled_from(["jsonl", "trec", "table"]),
    done=st.integers(0, 9),
    junk=st.binary(max_size=200),
    batch=st.integers(1, 5),
)
def test_going_on_after_any_part_gives_the_bytes_of_an_undisturbed_run(
    secondpass, tmp_path, form, done, junk, batch
):
    given_ = json_lines(requests(9))
    first = b"".join(given_.splitlines(keepends=True)[:done])
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    call = [*LEXICAL, "-f", form, "--batch", batch]
    assert secondpass(*call, "-o", whole, "--force", stdin=given_).code == 0
    assert secondpass(*call, "-o", cut, "--force", stdin=first).code == 0
    with open(cut, "ab") as file:  # what was under way when it was killed
        file.write(junk)
    told = secondpass(*call, "-o", cut, "--resume", stdin=given_)
    assert told.code == 0
    assert cut.read_bytes() == whole.read_bytes()
    assert "9 queries in" in told.err
    assert "9 ok" in told.err


def test_going_on_without_an_output_begins_one_and_a_finished_one_stays(secondpass, tmp_path):
    target = tmp_path / "out"
    call = [*LEXICAL, "-o", target, "--resume"]
    assert secondpass(*call, stdin=json_lines(requests(3))).code == 0
    before = target.read_bytes()
    assert secondpass(*call, stdin=json_lines(requests(3))).code == 0
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (["--set", "method.k1=2"], requests(4), "was made with another configuration"),
        (["--top-k", "2"], requests(4), "was made with another choice of options"),
        (["-q", "x"], ["a"], "was made with another query"),
        ([], requests(4, seed=1), "its first 4 requests were different"),
        ([], requests(3), "has 4 requests, but the input has only 3"),
    ],
)
def test_an_output_of_something_else_is_not_gone_on_with(
    secondpass, tmp_path, arguments, stdin, told
):
    target = tmp_path / "out"
    assert secondpass(*LEXICAL, "-o", target, stdin=json_lines(requests(4))).code == 0
    before = target.read_bytes()
    outcome = secondpass(*LEXICAL, *arguments, "-o", target, "--resume", stdin=json_lines(stdin))
    assert outcome.code == 1
    assert told in outcome.flat
    assert "use --force to overwrite it" in outcome.flat
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    "state", ["", "{", "[]", "{}", '{"made_of": 3}', '{"made_of": {}, "requests": 1e999}', "\x00"]
)
def test_a_broken_state_is_told(secondpass, tmp_path, state):
    target = tmp_path / "out"
    secondpass(*LEXICAL, "-o", target, stdin=json_lines(requests(1)))
    (tmp_path / "out.state").write_text(state)
    outcome = secondpass(*LEXICAL, "-o", target, "--resume", stdin=json_lines(requests(1)))
    assert outcome.code == 1
    assert "is not a valid state file" in outcome.flat


@pytest.mark.parametrize("change", [lambda was: was[:10], lambda was: was[::-1] + b"more"])
def test_an_output_that_was_changed_is_told(secondpass, tmp_path, change):
    target = tmp_path / "out"
    secondpass(*LEXICAL, "-o", target, stdin=json_lines(requests(2)))
    changed = change(target.read_bytes())
    target.write_bytes(changed)
    outcome = secondpass(*LEXICAL, "-o", target, "--resume", stdin=json_lines(requests(2)))
    assert (outcome.code, "was changed since it was written" in outcome.flat) == (1, True)
    assert target.read_bytes() == changed


def killed_half_way(lines, target, *options):
    """Begin to rank, and kill the process when about half is done."""
    run = process(*LEXICAL, "-o", target, *options)
    state = target.with_name(f"{target.name}.state")
    half = len(lines) // 2
    run.stdin.write(b"".join(lines[:half]))
    run.stdin.flush()
    until = time.monotonic() + 120
    while not (state.exists() and json.loads(state.read_text())["requests"] > half // 2):
        assert time.monotonic() < until
        assert run.poll() is None
        time.sleep(0.02)
    run.kill()
    run.communicate()
    assert run.returncode == -signal.SIGKILL


def test_a_killed_process_is_gone_on_with(secondpass, write, tmp_path):
    file = write("in.jsonl", requests(40))
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    killed_half_way(file.read_bytes().splitlines(keepends=True), cut, "--batch", "3")
    assert secondpass(*LEXICAL, file, "-o", whole, "--batch", 3).code == 0
    assert cut.read_bytes() != whole.read_bytes()
    assert secondpass(*LEXICAL, file, "-o", cut, "--resume", "--batch", 3).code == 0
    assert cut.read_bytes() == whole.read_bytes()


MEASURED = """
import atexit, sys
from secondpass.cli import main
def told():
    peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    print(*peak, file=sys.stderr)
atexit.register(told)
main()
"""


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_a_thousand_queries_of_a_hundred_take_constant_memory_and_survive_a_kill(write, tmp_path):
    """The whole process stays under 250 MB, whatever the size of the input (here 50 MB)."""
    file = write("in.jsonl", requests(1000, candidates=100, words=120))
    whole, cut = tmp_path / "whole", tmp_path / "cut"

    def measured(*arguments):
        run = subprocess.run(
            [sys.executable, "-c", MEASURED, *LEXICAL, str(file), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(run.stderr.rpartition("VmHWM:")[2].split()[0])

    assert measured("-o", whole) < 250_000
    killed_half_way(file.read_bytes().splitlines(keepends=True), cut)
    assert measured("-o", cut, "--resume") < 250_000
    assert cut.read_bytes() == whole.read_bytes()


# ---------------------------------------------------------------------- as a process


def test_answers_come_as_requests_do_and_ctrl_c_ends_it():
    with process(*LEXICAL, "--batch", "1") as run:
        for request in requests(3):
            run.stdin.write(json_lines([request]))
            run.stdin.flush()
            assert json.loads(run.stdout.readline())["query_id"] == request["query_id"]
        run.send_signal(signal.SIGINT)
        err = run.stderr.read()
    assert run.returncode == 130
    assert err.decode().strip() == "secondpass: stopped"


def test_a_reader_that_has_seen_enough_is_no_fault():
    with process(*LEXICAL, "--batch", "1") as run:
        first, second = requests(2)
        run.stdin.write(json_lines([first]))
        run.stdin.flush()
        run.stdout.readline()
        run.stdout.close()
        run.stdin.write(json_lines([second]))
        run.stdin.close()
        assert run.stderr.read() == b""
    assert run.returncode == 0


def test_summary_names_engines():
    counts = Counter({"ok": 2, "issue deadline": 1})
    engine = EngineInfo("model", "openvino", "bfloat16", 2, "any", "fastest")
    ranking = Ranking("q", (), Report("partial", engines=(engine,)))
    counts.update(_counts([ranking, ranking]))
    assert _summary(4, counts, 1.0) == (
        "4 queries in 1.0 s: 2 ok, 2 partial, 0 degraded, 0 unchanged; issues: deadline (1); "
        "engines: model on openvino, bfloat16, threads: 2 (2)"
    )
