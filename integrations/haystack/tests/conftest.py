"""A setting of Haystack for all tests, a small cross-encoder, and one embedded model."""

from pathlib import Path

import pytest
from haystack.document_stores.in_memory import InMemoryDocumentStore

import haystack_two
import tiny_models
from remembered_model import remember

haystack_two.install()  # before the test modules import
# Its embedders for tests came with Haystack 3.
collect_ignore = ["pipelines/test_retrievers.py"] if haystack_two.IS_INSTALLED else []

# Its finalizer waits for its threads. The collector may call it anywhere, so in a thread that has
# just begun and holds a lock of `threading`, for which that wait then waits forever. The threads
# end without it too, as soon as the executor that they belong to is collected.
if hasattr(InMemoryDocumentStore, "__del__"):
    del InMemoryDocumentStore.__del__


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch: pytest.MonkeyPatch) -> None:
    remember(monkeypatch)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small cross-encoder on disk that knows its words, so that it tells texts apart."""
    from tokenizers import BertWordPieceTokenizer

    folder = tiny_models.write_classifier(tmp_path_factory.mktemp("models") / "model")
    vocabulary = {word: number for number, word in enumerate(tiny_models.WORDS)}
    BertWordPieceTokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    return folder
