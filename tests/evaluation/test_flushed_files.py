"""What is kept for later is replaced in an order that survives a crash at any point."""

from pathlib import Path

from flushed_files import check_order, events, linux
from secondpass_evaluation.cli.first_stages import CachedEmbedder
from secondpass_evaluation.search.indexing import build_index

__all__ = ["events"]


@linux
def test_kept_vectors(tmp_path: Path, events) -> None:
    import numpy as np

    class Embedder:
        name = "ones"

        def embed(self, texts):
            return np.ones((len(texts), 1), dtype=np.float32)

    CachedEmbedder(Embedder(), tmp_path, lambda _done, _count: None).embed(["a", "b"])
    (kept,) = tmp_path.iterdir()
    check_order(events, kept.name, tmp_path)


@linux
def test_an_index(tmp_path: Path, events) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("owls hunt at night")
    build_index(tmp_path / "docs", tmp_path / "index")
    check_order(events, "secondpass-index.json", tmp_path / "index")
    renamed = events.index(("rename", "secondpass-index.json"))
    (parts,) = (tmp_path / "index").glob("parts-*")
    for path in [parts, *parts.rglob("*")]:
        assert ("flush", path.name) in events[:renamed]
