"""What is read, and how rankings are written."""

import hashlib
import re

import pytest

from command_requests import LEXICAL, json_lines, requests
from secondpass import Reranker
from secondpass.cli.rerank_input import read_context
from terminals import on_a_terminal

FRUIT = [
    {"id": "moon", "text": "The moon moves around the earth.", "score": 3},
    {"id": "pear", "text": "A pear is a fruit.", "score": 2, "page": 7},
    {"id": "banana", "text": "A banana is a fruit rich in potassium.", "score": 1},
]


def test_candidates_of_one_query_come_ranked_with_all_their_data(secondpass):
    told = secondpass(*LEXICAL, "--query", "fruit potassium", stdin=json_lines(FRUIT))
    (ranked,) = told.lines()
    assert [one["id"] for one in ranked["ranking"]] == ["banana", "pear", "moon"]
    assert [one["rank"] for one in ranked["ranking"]] == [1, 2, 3]
    assert (ranked["ranking"][1]["text"], ranked["ranking"][1]["score"]) == (FRUIT[1]["text"], 2)
    assert ranked["ranking"][1]["metadata"] == {"page": 7}
    assert ranked["report"]["status"] == "ok"
    assert "seconds" not in ranked["report"]
    assert told.code == 0
    assert "1 query in" in told.err
    assert "1 ok, 0 partial, 0 degraded, 0 unchanged" in told.err


def test_a_candidate_without_a_visible_character_comes_last(secondpass):
    blank = {"id": "blank", "text": " \u200b\n", "score": 9}
    told = secondpass(*LEXICAL, "--query", "fruit", stdin=json_lines([blank, *FRUIT]))
    (ranked,) = told.lines()
    last = ranked["ranking"][-1]
    assert (last["id"], last["status"], last["text"]) == ("blank", "unjudged", blank["text"])
    assert [issue["code"] for issue in ranked["report"]["issues"]] == ["no_text"]


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_many_requests_match_the_library_in_order(secondpass, write, batch):
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


@pytest.mark.parametrize(("options", "missing"), [((), "query"), (("-q", "x"), "candidate")])
def test_an_empty_file_is_no_success(secondpass, write, options, missing):
    empty = write("empty.jsonl", "")
    told = secondpass(*LEXICAL, empty, *options)
    reason = f"secondpass: {empty}: there is no {missing} in the input\n"
    assert (told.code, told.out, told.err) == (1, "", reason)


@pytest.mark.parametrize(("options", "code"), [((), 1), (("-q", "x"), 0)])
def test_an_empty_pipe_is_a_success_only_for_a_query(secondpass, options, code):
    """A search that finds nothing writes nothing; a job that failed writes no query."""
    told = secondpass(*LEXICAL, *options, stdin=b"")
    assert (told.code, bool(told.out)) == (code, not code)
    assert "in the input" in told.err


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


def test_texts_and_times_are_options(secondpass):
    call = (*LEXICAL, "-q", "x", "--no-text", "--timings")
    (ranked,) = secondpass(*call, stdin=json_lines(FRUIT)).lines()
    assert "seconds" in ranked["report"]
    assert not [item for item in ranked["ranking"] if "text" in item or "metadata" in item]


class Instructed:
    """Scores by whether the text has the last word of the instruction."""

    model_name = "instructed"
    takes_instruction = True

    def score_pairs(self, query, documents, *, instruction="owl"):
        word = instruction.split()[-1]
        return [float(document.split().count(word)) for document in documents]


def test_instruction_of_the_command_and_of_a_request(secondpass, monkeypatch):
    reranker = Reranker(Instructed(), log_level="debug")
    monkeypatch.setattr("secondpass.cli.options.load", lambda _config: reranker)
    animals = [{"id": word, "text": f"the {word}"} for word in ("cat", "owl", "dog")]
    own = [{}, {"instruction": "rather the dog"}, {"instruction": None}, {"instruction": " "}]
    stdin = json_lines({"query": "q", "candidates": animals, **one} for one in own)
    for options, first in (
        (["--instruction", "prefer the cat"], ["cat", "dog", "cat", "owl"]),
        ([], ["owl", "dog", "owl", "owl"]),
    ):
        told = secondpass(*LEXICAL, *options, stdin=stdin)
        assert [ranked["ranking"][0]["id"] for ranked in told.lines()] == first
        assert not [word for word in ("prefer", "rather") if word in told.out + told.err]


@pytest.mark.parametrize(
    ("content", "value"),
    [('{"a": [1]}', {"a": [1]}), ("a: [1]", {"a": [1]}), ("text", "text"), ("", None)],
    ids=["JSON", "YAML", "string", "empty"],
)
def test_a_context_is_json_or_yaml(secondpass, write, content, value):
    path = write("context", content)
    assert read_context(path) == (value, hashlib.sha256(content.encode()).hexdigest())
    call = (*LEXICAL, "-q", "x", "--context", path)
    assert secondpass(*call, stdin=json_lines(FRUIT)).code == 0


def test_lines_are_texts(secondpass):
    stdin = b'a banana\n\n{"text": "no banana"}\r\n[1]\n5\n'
    (told,) = secondpass(*LEXICAL, "-q", "a banana", "--lines", stdin=stdin).lines()
    texts = [item["text"] for item in sorted(told["ranking"], key=lambda item: item["position"])]
    assert texts == ["a banana", '{"text": "no banana"}', "[1]", "5"]
    assert (told["ranking"][0]["text"], told["ranking"][0]["id"]) == ("a banana", None)


FEW = "method: {type: graded, llm: {type: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}}\n"
"""A method that asks a service, which does not answer."""
ONLY = "warning: only the first 7 of 293 lines are reranked; --depth 293 reranks all"


@pytest.mark.parametrize(
    ("text", "options", "depth", "warning"),
    [
        (None, [], 293, ""),
        (None, ["--depth", 50], 50, ""),
        (None, ["--set", "depth=50"], 50, ""),
        ("preset: lexical\ndepth: 7\n", [], 7, ONLY),
        ("preset: embedded\nmethod: {type: lexical}\n", [], 293, ""),
        (FEW + "depth: 7\n", [], 7, ONLY),
        (FEW + "depth: 7\n", ["--depth", 7], 7, ""),
    ],
)
def test_lines_have_no_order_worth_keeping(secondpass, write, text, options, depth, warning):
    configured = LEXICAL if text is None else ["rerank", "--config", write("c.yaml", text)]
    stdin = "\n".join(["a banana", *["no fruit"] * 291, "an owl"]).encode()
    told = secondpass(*configured, "-q", "owl", "--lines", *options, stdin=stdin)
    (record,) = told.lines()
    assert record["report"]["depth_asked"] == depth
    assert record["report"]["beyond_depth"] == 293 - depth
    if depth == 293:
        assert record["ranking"][0]["text"] == "an owl"
    assert ("only the first" in told.flat) == bool(warning)
    assert warning in told.flat


def test_unknown_keys_are_warned_of_once_and_ignored(secondpass):
    first, second = requests(2)
    told = secondpass(*LEXICAL, stdin=json_lines([first | {"topk": 1}, second | {"topk": 2}]))
    assert [len(ranked["ranking"]) for ranked in told.lines()] == [4, 4]
    assert told.flat.count("the key 'topk'") == 1
    assert "input:1: the key 'topk' is unknown, and ignored; did you mean 'top_k'" in told.flat


def test_table_escapes_terminal_control_text(secondpass):
    stdin = json_lines([{"id": "a\x1b[2J", "text": "one\n\x1b]0;title\x07 two \u202e[bold]"}])
    told = secondpass(*LEXICAL, "-q", "\x1b[31mred", "--format", "table", stdin=stdin)
    assert told.code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(told.out)
    assert "\\x1b[31mred" in told.out
    assert "[bold]" in told.out


def test_an_explanation_is_indented_on_a_terminal(write):
    """What continues a line begins where the values begin."""
    file = write("a.jsonl", [{"id": "a", "text": "fruit", "score": 1}, {"text": "x", "score": 0}])
    call = ["rerank", file, "-q", "fruit", "-p", "embedded", "--explain", "a"]
    shown = on_a_terminal(*call, columns=50).split("'a': rank 1")[1].split("\n\n")[0]
    _, *lines = shown.splitlines()
    assert all(re.match(r"  (\S| {11}\S)", line) for line in lines), lines
    assert any(line.startswith(" " * 13) for line in lines)


def test_candidates_are_explained(secondpass):
    call = [*LEXICAL, "-q", "fruit potassium", "--explain", "banana"]
    (told,) = secondpass(*call, "-f", "jsonl", stdin=json_lines(FRUIT)).lines()
    (explanation,) = told["explanations"]
    ranks = {item["id"]: item["rank"] for item in told["ranking"]}
    assert (explanation["id"], explanation["rank"]) == ("banana", ranks["banana"])
    told = secondpass(*call, "-f", "table", "--top-k", "1", stdin=json_lines(FRUIT))
    assert "'banana': rank 1, of" in told.out
    assert "by lexical" in told.out


@pytest.mark.parametrize(
    ("candidates", "identifier", "hint"),
    [
        (FRUIT, "bananna", "; did you mean 'banana'?"),
        ([{"text": "a", "id": "cow"}], "1", "; ids are, for example: cow"),
    ],
)
def test_an_id_that_no_candidate_has(secondpass, candidates, identifier, hint):
    call = [*LEXICAL, "-q", "fruit", "--quiet", "--explain", identifier]
    told = secondpass(*call, stdin=json_lines(candidates))
    reason = f"secondpass: --explain {identifier}: no candidate has this id{hint}\n"
    assert (told.code, told.err, len(told.lines())) == (1, reason, 1)


@pytest.mark.parametrize(("query", "text"), [("cats", "Cats sleep."), ("bark", "…Owls bark.")])
def test_a_table_shows_the_text_from_its_best_part_on(secondpass, query, text):
    stdin = json_lines([{"text": "Cats sleep. " * 9 + "Owls bark."}])
    call = [*LEXICAL, "-q", query, "-f", "table", "--set", "passages={size: 20, overlap: 0}"]
    assert f" {text}" in secondpass(*call, stdin=stdin).out


LEFT_OUT = [
    # settings, what is below the table
    (["floor=0.9"], ["3 of 3 candidates are below the threshold 0.9 and left out; --explain ID "]),
    (["floor=0.9", "top_k=1"], ["3 of 3 candidates are below the threshold 0.9"]),
    (["top_k=2"], ["1 of 3 candidates is beyond top_k and left out; --explain ID shows its score"]),
    (["depth=1", "tail=drop"], ["2 of 3 candidates are beyond the depth and left out"]),
    ([], []),
]


@pytest.mark.parametrize(("settings", "lines"), LEFT_OUT)
def test_the_table_says_what_it_lacks(write, settings, lines):
    file, options = write("in.jsonl", FRUIT), [f"--set={setting}" for setting in settings]
    shown = on_a_terminal("rerank", file, "-q", "zebra", "-p", "lexical", *options, columns=100)
    seen = " ".join(shown.split())
    assert [line in seen for line in lines] == [True] * len(lines)
    assert seen.count("left out") == len(lines)
    if "top_k=2" in settings:
        asked = on_a_terminal("rerank", file, "-q", "zebra", "-p", "lexical", "-k", 2, columns=100)
        assert "left out" not in asked


@pytest.mark.parametrize(
    ("depth", "below", "summary"),
    [
        (2, "2 of 3 scored (depth 2); the others follow", "not scored: 1 candidate"),
        (3, "", ""),
    ],
)
def test_what_stands_beyond_the_depth_is_counted(secondpass, depth, below, summary):
    told = secondpass(
        *LEXICAL, "-q", "fruit", "-f", "table", "--depth", depth, stdin=json_lines(FRUIT)
    )
    assert below in told.out
    assert summary in told.flat
    assert ("scored" in told.out, "beyond" in told.flat) == (bool(below), bool(summary))
    (record,) = secondpass(*LEXICAL, "-q", "x", "--depth", depth, stdin=json_lines(FRUIT)).lines()
    assert record["report"]["beyond_depth"] == 3 - depth


def test_the_last_line_says_that_nothing_was_reranked(secondpass, write, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    text = "method: {type: graded, llm: {type: openai, model: m, api_key_env: NO_SUCH_KEY}}\n"
    call = ["rerank", write("in.jsonl", requests(2)), "-c", write("graded.yaml", text)]
    for options, code, hint in (
        ([], 0, " (--strict makes this an error)"),
        (["--quiet"], 0, " (--strict makes this an error)"),
        (["--strict"], 1, ""),
    ):
        told = secondpass(*call, *options)
        last = told.err.splitlines()[-1]
        assert (told.code, last) == (
            code,
            f"warning: nothing was reranked: the order is the input's{hint}",
        )
    packed = secondpass("pack", *call[1:])
    assert packed.err.splitlines()[-1].endswith("nothing was reranked: the order is the input's")
