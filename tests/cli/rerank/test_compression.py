"""Compressed files, by their names, and lines of text."""

import gzip

import pytest

from command_requests import LEXICAL, json_lines, requests


def test_compressed_output(secondpass, tmp_path):
    stdin = json_lines(requests(5))
    plain = secondpass(*LEXICAL, stdin=stdin).out
    told = secondpass(*LEXICAL, "-o", tmp_path / "out.gz", "--batch", 2, stdin=stdin)
    assert told.code == 0
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == plain


@pytest.mark.parametrize("done", [0, 2, 4])
def test_compressed_output_is_resumed(secondpass, tmp_path, done):
    given, out = requests(6), tmp_path / "out.jsonl.gz"
    call = [*LEXICAL, "-o", out, "--batch", 2, "--resume"]
    secondpass(*call, stdin=json_lines(given[:done]))
    with out.open("ab") as file:
        file.write(b"an incomplete part")
    secondpass(*call, stdin=json_lines(given))
    whole = tmp_path / "whole.jsonl.gz"
    secondpass(*LEXICAL, "-o", whole, "--batch", 2, stdin=json_lines(given))
    assert out.read_bytes() == whole.read_bytes()


def test_a_compressed_run(secondpass, trec, tmp_path):
    _, files = trec
    arguments = [part for pair in files.items() for part in pair]
    plain = secondpass(*LEXICAL, *arguments).out
    compressed = []
    for option, path in files.items():
        packed = tmp_path / f"{path.name}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        compressed += [option, packed]
    told = secondpass(*LEXICAL, *compressed)
    assert (told.code, told.out) == (0, plain)
    assert plain


def test_lines_are_texts(secondpass):
    stdin = b'a banana\n\n{"text": "no banana"}\r\n[1]\n5\n'
    (told,) = secondpass(*LEXICAL, "-q", "a banana", "--lines", stdin=stdin).lines()
    texts = [item["text"] for item in sorted(told["ranking"], key=lambda item: item["position"])]
    assert texts == ["a banana", '{"text": "no banana"}', "[1]", "5"]
    assert told["ranking"][0]["text"] == "a banana"
    assert told["ranking"][0]["id"] is None
