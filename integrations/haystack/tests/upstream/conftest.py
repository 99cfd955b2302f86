"""Both ways to call a ranker, and a small cross-encoder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tiny_models
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import Call


@pytest.fixture(params=["run", "run_async"])
def call(request: pytest.FixtureRequest) -> Call:
    """Runs a ranker, synchronously or in an event loop of its own."""

    def called(ranker: SecondPassRanker, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if request.param == "run":
            return ranker.run(*args, **kwargs)
        return asyncio.run(ranker.run_async(*args, **kwargs))

    return called


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small cross-encoder on disk that knows its words, so that it tells texts apart."""
    from tokenizers import BertWordPieceTokenizer

    folder = tiny_models.write_classifier(tmp_path_factory.mktemp("models") / "model")
    vocabulary = {word: number for number, word in enumerate(tiny_models.WORDS)}
    BertWordPieceTokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    return folder
