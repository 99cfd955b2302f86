"""Files by path or URI: names, and files that are there whole or not at all."""

import pytest

from secondpass.errors import InputError
from secondpass_ray.inputs import JobInput
from secondpass_ray.storage import (
    NewFile,
    delete,
    files_in,
    is_temporary,
    is_within,
    joined,
    kind_of,
    located,
    make_folder,
    write_whole,
)


@pytest.mark.parametrize("query", ["sv=1&sig=SECRET", "X-Amz-Signature=SECRET", "token=SECRET"])
def test_signed_addresses_are_refused(query):
    with pytest.raises(InputError, match="must not hold a key") as caught:
        located(f"https://store/in.jsonl?{query}")
    assert "SECRET" not in str(caught.value)
    assert located("s3://store/in.jsonl?region=a&endpoint_override=b")


def test_stamps_of_paths_and_uris_are_the_same(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"query": "x"}\n')
    (stamp,) = JobInput(str(path)).stamps().values()
    assert JobInput(path.as_uri()).stamps() == {path.as_uri(): stamp}


def test_a_password_in_an_address_is_refused():
    with pytest.raises(InputError, match="must not hold a user name") as caught:
        located("s3://user:SECRET@store/in.jsonl")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("s3://store/out", "s3://store/out/x"),
        ("s3://store/out/", "s3://store/out/x"),
        ("s3://store/out?region=a", "s3://store/out/x?region=a"),
        ("/data/out", "/data/out/x"),
    ],
)
def test_names_within_a_folder(folder, name):
    assert joined(folder, "x") == name
    assert is_within(name, folder)
    assert not is_within(folder, name)
    assert not is_within(joined(folder, "x").replace("/out/", "/out-2/"), folder)


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    with NewFile(str(tmp_path)) as new:
        new.write(b"a part")
        (temporary,) = files_in(str(tmp_path))
        assert is_temporary(temporary)
    assert files_in(str(tmp_path)) == {}
    write_whole(str(tmp_path), "x", b"all")
    assert files_in(str(tmp_path)) == {"x": 3}


def test_kinds_and_deletion(tmp_path):
    folder = str(tmp_path / "a" / "b")
    assert kind_of(folder) is None
    make_folder(folder)
    assert kind_of(folder) == "folder"
    write_whole(folder, "x", b"")
    assert kind_of(joined(folder, "x")) == "file"
    for _ in range(2):
        delete(joined(folder, "x"))
    assert kind_of(joined(folder, "x")) is None
