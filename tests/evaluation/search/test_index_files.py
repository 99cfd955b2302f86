"""The files of an index are checked before they are used."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from letter_embedder import LetterEmbedder, ids
from secondpass.formats.errors import IndexFaultError
from secondpass_evaluation.search.index import open_index
from secondpass_evaluation.search.indexing import build_index
from secondpass_evaluation.search.selection import MANIFEST, is_index


def parts(index: Path) -> list[Path]:
    return sorted(path for path in index.glob("parts-*/**/*") if path.is_file())


def test_every_part_is_checked(index) -> None:
    results = parts(index)
    assert len(results) >= 9
    for path in results:
        content = path.read_bytes()
        name = path.relative_to(next(index.glob("parts-*"))).as_posix()
        flipped = bytes([content[0] ^ 1]) + content[1:]
        for damaged, message in [
            (content[:-1], "was changed: its size differs"),
            (b"", "was changed: its size differs"),
            (flipped, "was changed"),
            (None, "is missing"),
        ]:
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises(IndexFaultError, match=f"its part {name} {message}.*To rebuild it"):
                open_index(index, LetterEmbedder(), stale_ok=True)
        path.write_bytes(content)
    assert open_index(index, LetterEmbedder())


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_manifest_is_refused_or_equivalent(index, data) -> None:
    path = index / MANIFEST
    content = path.read_bytes()
    position = data.draw(st.integers(0, len(content) - 1))
    put = data.draw(st.binary(max_size=2))
    cut = data.draw(st.sampled_from([0, 1, len(content)]))
    path.write_bytes(content[:position] + put + content[position + cut :])
    try:
        try:
            assert ids(open_index(index, LetterEmbedder()).retrieve("owl", 1, "lexical"))
        except IndexFaultError as error:
            assert str(error).startswith(str(index))
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("{}", "cannot be read"),
        ('{"format": "secondpass index", "version": 9}', "version 9; this program reads 3"),
        ('{"format": "secondpass index", "version": 1}', "version 1; this program reads 3"),
        ('{"format": "secondpass index", "version": 3}', "was changed"),
    ],
)
def test_other_manifests_are_refused(index, manifest, message) -> None:
    (index / MANIFEST).write_text(manifest)
    with pytest.raises(IndexFaultError, match=message):
        open_index(index, LetterEmbedder())
    assert build_index(index.parent / "docs", index, LetterEmbedder()).made
    assert open_index(index, LetterEmbedder())


def test_folder_without_an_index(docs, tmp_path) -> None:
    assert not is_index(docs)
    with pytest.raises(IndexFaultError, match=r"is not an index: it has no secondpass-index\.json"):
        open_index(docs)
    with pytest.raises(IndexFaultError, match="is not an index"):
        open_index(docs / "owls.md")
    with pytest.raises(FileNotFoundError):
        open_index(tmp_path / "absent")
    half = tmp_path / "half"
    (half / f"parts-{'0' * 32}").mkdir(parents=True)
    assert is_index(half)
    with pytest.raises(IndexFaultError, match="is incomplete: indexing was interrupted"):
        open_index(half)
    build_index(docs, half)
    assert [path.name for path in half.glob("parts-0*")] in ([], [next(half.glob("parts-*")).name])
    assert len([*half.glob("parts-*")]) == 1
