"""An opened index answers like a retriever in memory, unless it is stale."""

import json
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from letter_embedder import LetterEmbedder, ids
from sampling import examples
from secondpass import Candidate
from secondpass_evaluation import HybridRetriever, write_corpus
from secondpass_evaluation.errors import IndexFaultError, StaleIndexError
from secondpass_evaluation.search.documents import read_source
from secondpass_evaluation.search.index import open_index
from secondpass_evaluation.search.indexing import build_index
from secondpass_evaluation.search.selection import MANIFEST, is_index


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux")
def test_file_that_becomes_readable_makes_an_index_stale(docs, tmp_path) -> None:
    file, index = docs / "closed.txt", tmp_path / "index"
    file.symlink_to("/proc/self/mem")  # nobody can read it
    build_index(docs, index)
    assert not build_index(docs, index).made
    assert open_index(index).changes == ()
    file.unlink()
    file.write_text("an owl")
    with pytest.raises(StaleIndexError, match=r"closed\.txt has changed"):
        open_index(index)


any_text = st.text(st.sampled_from([*"abc  é", "\ud800", "\n", "\u2028"]), max_size=12)
metadata = st.dictionaries(
    st.sampled_from(["title", "x"]),
    st.none() | st.booleans() | any_text | st.integers() | st.lists(any_text, max_size=2),
)


@examples(20)
@given(
    corpus=st.lists(st.tuples(any_text, metadata), min_size=1, max_size=8),
    query=any_text,
    with_vectors=st.booleans(),
)
def test_index_answers_like_a_retriever_in_memory(
    tmp_path_factory, corpus, query, with_vectors
) -> None:
    folder = tmp_path_factory.mktemp("index")
    lines = [
        json.dumps({"_id": str(position), "text": text, "metadata": own})
        for position, (text, own) in enumerate(corpus)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(lines), newline="")
    embedder = LetterEmbedder() if with_vectors else None
    build_index(folder / "corpus.jsonl", folder / "index", embedder)
    index = open_index(folder / "index", embedder)
    in_memory = HybridRetriever(read_source(folder).corpus, embedder)
    assert list(index.corpus) == list(in_memory.corpus)
    assert index.corpus[-1] == in_memory.corpus[-1]
    assert index.corpus[:1] == [in_memory.corpus[0]]
    assert index.modes == in_memory.modes
    for mode in index.modes:
        assert index.retrieve(query, 9, mode, 1) == in_memory.retrieve(query, 9, mode, 1)


def test_other_embedder_is_refused(index, docs) -> None:
    with pytest.raises(IndexFaultError, match="by another embedder: letters, not others"):
        open_index(index, LetterEmbedder("others"))
    with pytest.raises(IndexFaultError, match=r"another embedder \(letters\)"):
        open_index(index)


MINK = "# Owls\n\nThe owl hunts mink.\n\n## Food\n\nMice, mostly.\n"
"""As long as the text that is in its place."""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda docs: (docs / "new.txt").write_text("x"), "new.txt is new"),
        (lambda docs: (docs / "new.bin").write_bytes(b"\0"), "new.bin is new"),
        (lambda docs: (docs / "owls.md").write_text("x"), "owls.md has changed"),
        (lambda docs: (docs / "owls.md").write_text(MINK), "owls.md has changed"),
        (lambda docs: (docs / "cats.html").unlink(), "cats.html no longer exists"),
        (lambda docs: docs.rename(docs.parent / "moved"), "docs no longer exists"),
        (
            lambda docs: [(docs / f"{index}.txt").write_text("x") for index in range(5)],
            "0.txt is new, 1.txt is new, 2.txt is new, and 2 more",
        ),
    ],
)
def test_stale_index_is_refused(index, docs, change, message) -> None:
    os.utime(docs / "owls.md", ns=(1, 1))  # another time, but the same content
    assert not open_index(index, LetterEmbedder()).changes
    change(docs)
    with pytest.raises(StaleIndexError) as error:
        open_index(index, LetterEmbedder())
    assert message in str(error.value)
    assert f"To rebuild it, run: secondpass index {docs} --into {index}" in str(error.value)
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.changes) == (str(error.value), error.value.changes)
    stale = open_index(index, LetterEmbedder(), stale_ok=True)
    assert stale.changes == error.value.changes
    assert stale.retrieve("owl", 1)


@pytest.mark.parametrize("name", ["owl.md", "corpus.jsonl"])
def test_a_change_that_keeps_size_and_time_makes_an_index_stale(tmp_path, name) -> None:
    """As `cp -p`, archives and images keep times, or set all of them to one."""
    source = tmp_path / "docs" / name
    source.parent.mkdir()
    for text in ("an owl", "an elk"):
        source.write_text(json.dumps({"_id": "1", "text": text}))
        os.utime(source, ns=(1, 1))
        assert build_index(source.parent, tmp_path / "index").made
        assert not build_index(source.parent, tmp_path / "index").made
    source.write_text(source.read_text().replace("elk", "owl"))
    os.utime(source, ns=(1, 1))
    with pytest.raises(StaleIndexError, match=r"has changed"):
        open_index(tmp_path / "index")


def test_changed_corpus_makes_an_index_stale(tmp_path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    write_corpus(corpus, [Candidate("owl", "1")])
    build_index(corpus, tmp_path / "index")
    assert not build_index(corpus, tmp_path / "index", passage_size=99).made
    write_corpus(corpus, [Candidate("cat", "1")])
    with pytest.raises(StaleIndexError, match=r"corpus\.jsonl has changed"):
        open_index(tmp_path / "index")


def test_every_part_is_checked(index) -> None:
    parts = sorted(path for path in index.glob("parts-*/**/*") if path.is_file())
    assert len(parts) >= 9
    for path in parts:
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
@settings(examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        ('{"format": "secondpass index", "version": 9}', "version 9; this program reads 4"),
        ('{"format": "secondpass index", "version": 1}', "version 1; this program reads 4"),
        ('{"format": "secondpass index", "version": 4}', "was changed"),
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
