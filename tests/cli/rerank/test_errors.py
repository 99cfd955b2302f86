"""Input that cannot be read, and calls that cannot be carried out."""

import pytest

from command_requests import LEXICAL, json_lines, requests

GOOD = {"query": "x", "candidates": ["a", "b"]}


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        (json_lines(requests(16)) + b"{broken\n", "standard input:17: is not JSON"),
        (b"\xff\n", "standard input:1: is not UTF-8"),
        (b"[1]\n", "standard input:1: must be a JSON object, not"),
        (
            json_lines([GOOD]) + b'{"query": "x", "candidates": [{"text": "a", "text": "b"}]}',
            "standard input:2: the key 'text' is there twice",
        ),
        (b"[" * 100_000, "standard input:1: is not JSON that can be parsed: it is nested"),
        (
            b'{"query": "x", "candidates": [{"text": "a", "score": NaN}]}',
            "NaN is not a JSON number",
        ),
        (json_lines([GOOD, GOOD | {"top_k": 0}]), "standard input:2: top_k: must be 1 or more"),
        (json_lines([GOOD, GOOD | {"order": "larn"}]), "standard input:2: order: no ordering is"),
    ],
    ids=range(8),
)
def test_invalid_lines_are_named_by_number(secondpass, stdin, told):
    outcome = secondpass(*LEXICAL, stdin=stdin)
    assert outcome.code == 1
    assert told in outcome.flat


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (
            ["How do I cancel?"],
            1,
            "How do I cancel?: there is no such file or folder; if it is the query, write --query "
            "'How do I cancel?'",
        ),
        (["nowhere.jsonl", "-q", "x"], 1, "nowhere.jsonl: there is no such file or folder"),
        (["--context", "nowhere"], 1, "nowhere: there is no such file or folder"),
        (["--context", "broken.yaml"], 1, "broken.yaml: not JSON; as YAML: not YAML at line 2"),
        (["--context", "twice.json"], 1, "twice.json: the key 'b' is there twice"),
        (["--context", "latin-1"], 1, "latin-1: is not UTF-8: byte "),
        (["."], 1, ".: is a folder; name a file"),
        (["-o", "."], 1, ".: is a folder; name a file"),
        (["-o", "no/such/folder"], 1, "no/such/folder: its folder does not exist"),
        (["-f", "trec", "--tag", "a b"], 1, "'a b' has white space"),
        (["--tag", "mine"], 2, "--tag: needs --format trec"),
        (
            ["-q", " "],
            2,
            "--query: is empty, perhaps an unset variable of the shell; a query in JSON",
        ),
        (["-q", "a", "--run", "x"], 2, "--query, --run: give one of them"),
        (["--lines"], 2, "--lines: needs --query"),
        (["x", "--run", "x"], 2, "FILE, --run: give one of them"),
        (["--run", "x", "--queries", "x"], 2, "--run: needs --queries and --corpus"),
        (["--corpus", "x"], 2, "--queries, --corpus: need --run"),
        (["--resume"], 2, "--resume: needs --output"),
        (["--dry-run", "--resume", "-o", "x"], 2, "--dry-run, --resume: give one of them"),
        (["--json", "-f", "trec"], 2, "--json, --format: give one of them"),
        (["--resume", "--force", "-o", "x"], 2, "--resume, --force: give one of them"),
        (["--top-k", "0"], 2, "--top-k"),
        (["--batch", "many"], 2, "--batch"),
        (["--format", "xml"], 2, "--format"),
        (["--nosuch"], 2, "--nosuch"),
        (["--order", "lost_in_the_midle"], 2, "--order: no ordering is named 'lost_in_the_midle'"),
        (["--order", "{type: tiers"], 2, "--order: write a name, or a mapping"),
        (["--order", "{type: tiers}"], 2, "--order: "),
        (["--order", ""], 2, "--order: no ordering is named ''"),
        (["-p", "lexical"], 2, "--preset: give it once"),
        (["-q", "x", "-q", "y"], 2, "--query: give it once"),
    ],
)
def test_invalid_calls(secondpass, write, tmp_path, monkeypatch, arguments, code, told):
    monkeypatch.chdir(tmp_path)
    write("broken.yaml", "a: [1\nb: 2")
    write("twice.json", '{"a": [{"b": 1, "b": 2}]}')
    write("latin-1", b"\xff")
    outcome = secondpass(*LEXICAL, *arguments)
    assert (outcome.code, told in outcome.flat) == (code, True), outcome.err


def test_rankings_not_ok_are_counted_and_fail_under_strict(secondpass, write):
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
