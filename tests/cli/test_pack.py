"""``secondpass pack``: the best candidates of a query as one text for a prompt."""

import json

import pytest

FOUND = [
    {"id": "a", "text": "Stones are grey. Red apples are good. Green ones too.", "title": "Fruit"},
    {"id": "b", "text": "Trains run on rails, from one end to the other.", "doc": "t", "at": 0},
    {"id": "c", "text": "to the other. And back.", "doc": "t", "at": 34},
]
QUERY = "Who sells red apples?"
EMBEDDED = ["--preset", "embedded", "--set", "method.language=ignore"]


@pytest.fixture
def found(write):
    return write("found.jsonl", "".join(f"{json.dumps(each)}\n" for each in FOUND))


def test_the_text_for_a_query(secondpass, found):
    told = secondpass("pack", found, "-q", QUERY, "--tokens", 26, *EMBEDDED)
    assert told.code == 0
    assert told.out == "[1] Fruit\n[…] Red apples are good. Green ones too.\n"
    assert "1 of 3 candidates, 26 tokens" in told.flat
    assert "scored" not in told.flat
    told = secondpass("pack", found, "-q", QUERY, "--depth", 2, *EMBEDDED)
    assert "tokens; 2 of 3 scored (depth 2)" in told.flat


def test_what_fits_nowhere_is_told_with_the_tokens_that_it_needs(secondpass, found):
    call = ["pack", found, "-q", QUERY, "--quiet", "-p", "lexical", "--tokens"]
    told = secondpass(*call, 5)
    assert (told.code, told.out) == (0, "\n")
    warning = "warning: nothing fits: the first candidate needs {} tokens, --tokens is 5"
    needed = next(
        number
        for number in range(6, 99)
        if secondpass(*call, number).out.startswith("[1] Fruit\nSt")
    )
    assert told.err == warning.format(needed) + "\n"


def test_all_lines_are_scored_unless_a_depth_is_stated(secondpass, write):
    lines = write("lines.txt", "No fruit.\n" * 120 + "Red apples.\n")
    call = ["pack", lines, "-q", QUERY, "--lines", "--tokens", 16]
    told = secondpass(*call, "-p", "lexical")
    assert "Red apples." in told.out
    assert "scored" not in told.flat
    config = write("c.yaml", "method: lexical\ndepth: 100\n")
    told = secondpass(*call, "--config", config)
    assert "100 of 121 scored (depth 100)" in told.flat
    assert "warning: only the first 100 of 121 lines are reranked; --depth 121" in told.flat


def test_sources_as_json(secondpass, found):
    call = ["pack", found, "-q", QUERY, "--json", "-p", "lexical", "--neighbours", "doc", "at"]
    told = secondpass(*call, "--by-document")
    record = json.loads(told.out)
    assert record["passages"][1:] == [FOUND[1]["text"], "[…] And back."]
    assert [source["id"] for source in record["sources"]] == ["a", "b", "c"]
    assert record["left_out"] == {}


def test_many_queries_are_lines(secondpass, write):
    requests = [
        {"query_id": name, "query": QUERY, "candidates": FOUND[:number]}
        for name, number in (("one", 1), ("two", 2))
    ]
    file = write("requests.jsonl", "".join(f"{json.dumps(each)}\n" for each in requests))
    told = secondpass("pack", file, "-p", "lexical", "--quiet", "--batch", 1)
    records = [json.loads(line) for line in told.out.splitlines()]
    assert [(each["query_id"], len(each["sources"])) for each in records] == [
        ("one", 1),
        ("two", 2),
    ]


def test_tokens_are_those_of_a_tokenizer(secondpass, found, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    call = ["pack", found, "-q", QUERY, "--json", "-p", "lexical", "--tokenizer"]
    record = json.loads(secondpass(*call, tmp_path / "tokenizer.json").out)
    assert record["tokens"] == len(record["text"].split())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--tokens", "0"], 2, "--tokens"),
        (["--by-document", "--order", "none"], 2, "--by-document, --order: give one of them"),
        (["--tokenizer", "nosuch.json"], 1, "--tokenizer nosuch.json"),
    ],
)
def test_wrong_options(secondpass, found, arguments, code, message):
    told = secondpass("pack", found, "-q", QUERY, "-p", "lexical", *arguments)
    assert (told.code, message in told.flat, told.out) == (code, True, "")
