"""Files by path or URI: names, and files that are there whole or not at all."""

import pytest

from secondpass.errors import InputError
from secondpass_ray.inputs import JobInput
from secondpass_ray.storage import is_within, joined, located


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


def test_stamps_of_paths_and_uris_are_the_same(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"query": "x"}\n')
    (stamp,) = JobInput(str(path)).stamps().values()
    assert JobInput(path.as_uri()).stamps() == {path.as_uri(): stamp}


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
