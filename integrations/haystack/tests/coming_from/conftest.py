"""A small cross-encoder."""

from __future__ import annotations

from pathlib import Path

import pytest

import tiny_models


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small cross-encoder on disk that knows its words, so that it tells texts apart."""
    from tokenizers import BertWordPieceTokenizer

    folder = tiny_models.write_classifier(tmp_path_factory.mktemp("models") / "model")
    vocabulary = {word: number for number, word in enumerate(tiny_models.WORDS)}
    BertWordPieceTokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    return folder
