"""TREC runs."""

import gzip
import sys

import pytest

from command_requests import LEXICAL, json_lines, small_files
from secondpass.formats.lines import read_lines
from secondpass.formats.reading import parse_run_line, trec_order


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


def test_compressed_files_of_a_run(secondpass, trec):
    _, files = trec
    plain = secondpass(*LEXICAL, *options(files)).out
    for option, path in files.items():
        files[option] = path.with_name(f"{path.name}.gz")
        files[option].write_bytes(gzip.compress(path.read_bytes()))
    told = secondpass(*LEXICAL, *options(files))
    assert (told.code, told.out) == (0, plain)


def test_run_output_keeps_its_order_when_read(secondpass, trec, tmp_path):
    given, files = trec
    target = tmp_path / "out.trec"
    told = secondpass(*LEXICAL, *options(files), "-f", "trec", "-o", target, "--tag", "mine")
    assert told.code == 0
    assert set(target.read_text().split("\n")[0].split()[::5]) == {"q0", "mine"}
    expected = {
        one["query_id"]: [item["id"] for item in one["ranking"]]
        for one in secondpass(*LEXICAL, stdin=json_lines(given)).lines()
    }
    scores = {query: {} for query in expected}
    for query, document, score in map(parse_run_line, read_lines(target)):
        scores[query][document] = score
    assert {query: [*trec_order(found)] for query, found in scores.items()} == expected


@pytest.mark.parametrize(
    ("part", "content", "told"),
    [
        (
            "--run",
            "q0 Q0 d0-0 1 1 t\nq1 Q0 d1-0 1 1 t\nq0 Q0 d0-1 2 1 t",
            "run:3: the lines of query 'q0' are not consecutive; sort the run",
        ),
        ("--queries", "q0 no tab", "queries:1: must be an id, a tab"),
        ("--corpus", '{"_id": 1, "text": "a"}\n{"_id": "1", "text": "b"}', "corpus:2: id '1' was"),
    ],
)
def test_invalid_runs_are_named_by_place(secondpass, write, trec, part, content, told):
    _, files = trec
    files[part] = write(part.removeprefix("--"), content)
    outcome = secondpass(*LEXICAL, *options(files))
    assert outcome.code == 1
    assert told in outcome.flat


def test_unsupported_fields_of_a_run_before_ranking(secondpass, write):
    """Or models would be asked, and paid, for rankings that cannot be written."""
    config = write("c.yaml", "method: {type: endpoint, api: tei, base_url: 'http://127.0.0.1:9'}")
    given = [
        {"query": "x", "candidates": [{"id": "a", "text": "x"}]},
        {"query": "x", "candidates": ["x"]},
    ]
    outcome = secondpass("rerank", "--config", config, "-f", "trec", stdin=json_lines(given))
    assert (outcome.code, "query 'q2': a candidate has no id" in outcome.flat) == (1, True)
    assert "warning" not in outcome.err


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_disk_full_while_indexing_a_corpus(secondpass, write, trec):
    _, files = trec
    files["--corpus"] = write(
        "corpus", "".join(f'{{"_id": "{"d" * 90}{at}", "text": ""}}\n' for at in range(40_000))
    )
    with small_files():
        told = secondpass(*LEXICAL, *options(files))
    assert told.code == 1
    assert "the offsets of its documents cannot be stored on disk" in told.err
