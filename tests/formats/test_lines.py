"""Lines of text and of JSON."""

import bz2
import gzip
import lzma
import shlex
import shutil
import subprocess
import sys

import pytest

from secondpass.formats.errors import FormatError
from secondpass.formats.lines import (
    Line,
    check_field,
    parse_json,
    read_json_lines,
    read_lines,
    write_lines,
)


def test_blank_lines_are_left_out_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n \n\ntwo\x0bthree\nlast")
    assert [(line.number, line.text) for line in read_lines(path)] == [
        (1, "one"),
        (4, "two\x0bthree"),
        (5, "last"),
    ]


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\xff\n")
    with pytest.raises(FormatError) as raised:
        list(read_lines(path))
    convert = f"`iconv -f latin1 -t utf-8 < {path} > new-file`"
    assert str(raised.value) == f"{path}:2: is not UTF-8: byte 1 is 0xff; convert it: {convert}"


@pytest.mark.parametrize(
    ("compress", "program"),
    [(gzip.compress, "gunzip"), (bz2.compress, "bunzip2"), (lzma.compress, "unxz")],
)
def test_a_compressed_file_of_another_name_says_so(tmp_path, monkeypatch, compress, program):
    """The command of the message decompresses it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").write_bytes(compress(b'{"a": 1}\n'))
    with pytest.raises(FormatError) as raised:
        list(read_lines("a b"))
    command = f"{program} < 'a b' > new-file"
    assert str(raised.value) == f"a b:1: is compressed; decompress it: `{command}`"
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    subprocess.run(command, shell=True, check=True, timeout=60)
    assert [line.text for line in read_lines("new-file")] == ['{"a": 1}']


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a b.csv", "id,text\n1,'one'\n"),
        ("a.tsv", "id\ttext\n1\t'one'\n"),
        ("a.json", '[\n {"id": "1", "text": "\'one\'"}\n]'),
    ],
)
def test_a_file_of_another_kind_says_how_to_convert_it(tmp_path, monkeypatch, name, content):
    """The command of the message makes JSON lines of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(FormatError, match="; convert the file: ") as raised:
        list(read_json_lines(name))
    command = str(raised.value).split("`")[1].replace("python", shlex.quote(sys.executable), 1)
    if shutil.which(command.split()[0]) is None:
        pytest.skip("jq is not installed")
    subprocess.run(command, shell=True, check=True, timeout=60)
    (record,) = [record for _, record in read_json_lines("new.jsonl")]
    assert record == {"id": "1", "text": "'one'"}


def test_objects(tmp_path):
    path = tmp_path / "a.jsonl"
    write_lines(path, ['{"a": 1}\n', "\n", '{"b": "ü"}\n'])
    assert [(line.number, value) for line, value in read_json_lines(path)] == [
        (1, {"a": 1}),
        (3, {"b": "ü"}),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{'a': 1}", "is not JSON: Expecting property name .* each line must be one value"),
        ("1 2", "is not JSON: Extra data at column 3"),
        ("[NaN]", "is not JSON: NaN is not a JSON number"),
        ("-Infinity", "is not JSON: -Infinity is not a JSON number"),
        ('{"score": -1e999}', "is not JSON: a number is too large"),
        ('{"score": 1' + "0" * 400 + "}", "is not JSON: a number is too large"),
        ('{"score": 1' + "0" * 5000 + "}", "is not JSON: a number is too large"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": 1, "b": [{"c": 2, "\\u0063": 2}]}', "the key 'c' is there twice"),
    ],
    ids=lambda text: text[:20],
)
def test_texts_that_are_not_json(text, problem):
    with pytest.raises(FormatError, match=f"a:7: .*{problem}"):
        parse_json(Line("a", 7, text))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "must be a string that is not empty"),
        (5, "must be a string that is not empty"),
        ("a b", "has white space"),
        ("a\u2028b", "has white space"),
        ("\ufeffa", "has a byte order mark or a null character"),
        ("a\0", "has a byte order mark or a null character"),
        ("a\ud800", "has a lone surrogate"),
    ],
    ids=repr,
)
def test_values_that_fit_no_field(value, problem):
    check_field("f", "id", "d-1/ü")
    with pytest.raises(FormatError, match=f"f: id .*{problem}"):
        check_field("f", "id", value)
