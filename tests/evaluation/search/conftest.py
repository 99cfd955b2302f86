"""A folder of documents and its index."""

from pathlib import Path

import pytest

from letter_embedder import LetterEmbedder
from secondpass_evaluation.search.indexing import build_index


@pytest.fixture
def docs(tmp_path) -> Path:
    folder = tmp_path / "docs"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "owls.md").write_text("# Owls\n\nThe owl hunts mice.\n\n## Food\n\nMice, mostly.\n")
    (folder / "deep" / "er" / "ships.txt").write_text("Ships cross the sea.")
    (folder / "cats.html").write_text("<title>Cats</title><p>A cat fears the owl.")
    return folder


@pytest.fixture
def index(docs, tmp_path) -> Path:
    folder = tmp_path / "index"
    build_index(docs, folder, LetterEmbedder())
    return folder
