"""Rows of the input, what an output has of them, and the names of part files."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.formats.errors import FormatError
from secondpass_ray.ranking import Row

pytest.importorskip("ray.data")  # the folder of this file may be found as `ray`
import numpy
import ray

from secondpass_ray import files
from secondpass_ray.files import Known, Requests, identity_of, part_name

pytestmark = pytest.mark.long

BLANK = st.sampled_from([b"\n", b"  \r\n", "\u00a0\n".encode(), b"\t\n"])
OBJECT = st.builds(
    lambda number, end: json.dumps({"query": number}).encode() + end,
    st.integers(),
    st.sampled_from([b"\n", b"\r\n"]),
)


@given(lines=st.lists(st.one_of(BLANK, OBJECT), max_size=30), mark=st.booleans())
def test_rows_are_the_lines_that_are_not_blank(lines, mark):
    content = b"\xef\xbb\xbf" * mark + b"".join(lines)
    expected = [
        (number, text.encode().strip())
        for number, text in enumerate(content.decode("utf-8-sig").split("\n"), 1)
        if text.strip()
    ]
    found = [
        (number, text.strip().removeprefix(b"\xef\xbb\xbf"))
        for number, text in files._lines(io.BytesIO(content))
    ]
    assert found == expected


def record(row, digest="d", **more):
    return {"file": "a", "row": row, "digest": digest, **more}


def known(records):
    keys = numpy.array([identity_of(one) for one in records], "S16")
    digests = numpy.array([one["digest"] for one in records], "U16")
    order = numpy.argsort(keys)
    return Known(keys[order], digests[order])


@given(there=st.sets(st.integers(1, 99)), asked=st.sets(st.integers(1, 99)))
def test_what_is_missing_and_what_is_there_are_all_rows(there, asked):
    rows = [record(row) for row in sorted(asked)]
    missing = known([record(row) for row in there]).missing(rows)
    assert {one["row"] for one, wanted in zip(rows, missing, strict=True) if wanted} == (
        asked - there
    )


def test_a_row_that_has_changed_is_an_error():
    with pytest.raises(FormatError, match="a:2: has changed since it was ranked; name another"):
        known([record(1), record(2)]).missing([record(1), record(2, "other")])


def test_an_id_is_known_in_any_file():
    found = known([record(1, id=7), record(2, id="7")])
    asked = [{**record(9, id=7), "file": "b"}, record(1), record(1, id="8")]
    assert found.missing(asked) == [False, True, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"key": "a"}', "a"),
        (b'{"key": 5}', 5),
        (b'{"key": true}', None),
        (b"{}", None),
        (b"[1]", None),
        (b"{", None),
    ],
)
def test_ids_in_requests(text, expected):
    assert files._id_in(text, "key") == expected


def test_names_of_parts_are_in_order_and_differ():
    def name(file, *rows, **more):
        return part_name([Row(file, row, b"", {"file": file, "row": row, **more}) for row in rows])

    assert name("in.jsonl", 1, 64) == "part-in.jsonl-000000000001-000000000064-ab51a0ff.jsonl"
    assert name("in.jsonl", 1, 2, 64) != name("in.jsonl", 1, 64) != name("in.jsonl", 1, 64, id=5)
    long = [f"{'x' * 300}{number}" for number in range(2)]
    places = [(file, row) for file in ["a/b", "a_b", "a%2Fb", *long] for row in (1, 65, 1000000)]
    names = [name(file, row, row) for file, row in places]
    assert len(set(names)) == len(names)
    assert all(len(one) < 255 and "/" not in one for one in names)
    assert sorted(names[:3]) == names[:3]


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/data/in.jsonl", "/data/in.jsonl", "in.jsonl"),
        ("/data/in/a/b.jsonl", "/data/in", "a/b.jsonl"),
        ("bucket/in/b.jsonl", "bucket/in/", "b.jsonl"),
    ],
)
def test_files_are_named_within_the_input(path, root, expected):
    """As messages about rows are part of the output, which says nothing of this machine."""
    assert files._relative(path, root) == expected


def test_batches_end_by_rows_and_by_bytes(monkeypatch):
    monkeypatch.setattr(files, "_MOST_BYTES", 8)
    rows = [(number, b"x" * size) for number, size in enumerate([1, 1, 1, 9, 1, 7, 1], 1)]
    found = [[number for number, _ in batch] for batch in files._batches(rows, 2)]
    assert found == [[1, 2], [3, 4], [5, 6], [7]]


def test_a_datasource_holds_no_key(cluster, tmp_path):
    (tmp_path / "a.jsonl").write_text("{}\n")
    source = Requests(str(tmp_path), 5, None, ray.put(Known([], [])))
    assert b"sk-hidden" not in ray.cloudpickle.dumps(source)
