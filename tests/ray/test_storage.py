"""Files by path or URI: names, and files that are there whole or not at all."""

import io

import pytest

from secondpass.errors import InputError
from secondpass_ray import storage
from secondpass_ray.storage import files_in, is_within, located, read_file, write_whole


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("https://store/in.jsonl?sv=1&sig=SECRET", "must not hold a key"),
        ("https://store/in.jsonl?X-Amz-Signature=SECRET", "must not hold a key"),
        ("https://store/in.jsonl?token=SECRET", "must not hold a key"),
        ("s3://user:SECRET@store/in.jsonl", "must not hold a user name"),
    ],
)
def test_addresses_with_secrets_are_refused(name, problem):
    with pytest.raises(InputError, match=problem) as caught:
        located(name)
    assert "SECRET" not in str(caught.value)
    assert located("s3://store/in.jsonl?region=a&endpoint_override=b")


@pytest.mark.parametrize("by_uri", [False, True], ids=["path", "uri"])
def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch, by_uri):
    pytest.importorskip("pyarrow")
    folder = tmp_path.as_uri() if by_uri else str(tmp_path)
    assert read_file(folder, "a") is None
    for content in (b"one", b"two"):
        write_whole(folder, "a", content)
        assert read_file(folder, "a") == content
    system, path = storage._resolved(folder)
    killed = type("Killed", (), {"__getattr__": lambda _, name: getattr(system, name)})()
    killed.move = lambda *_: None
    monkeypatch.setattr(storage, "_resolved", lambda _folder: (killed, path))
    write_whole(folder, "b", b"three")
    # The incomplete file has a name that Ray Data does not read.
    assert [name for name in files_in(folder) if not name.startswith(".")] == ["a"]
    assert read_file(folder, "b") is None


def test_object_stores_show_whole_files_only(monkeypatch):
    """So nothing is renamed there, which is a copy."""
    written = {}

    class Store:
        type_name = "s3"

        def open_output_stream(self, name):
            stream = io.BytesIO()
            stream.close = lambda: written.update({name: stream.getvalue()})
            return stream

    monkeypatch.setattr(storage, "_resolved", lambda _folder: (Store(), "bucket/out/"))
    write_whole("s3://bucket/out/", "a", b"one")
    assert written == {"bucket/out/a": b"one"}


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
    assert is_within(name, folder)
    assert is_within(folder, folder)
    assert not is_within(folder, name)
    assert not is_within(name.replace("/out/", "/out-2/"), folder)
