"""A setting of Haystack for all tests, a small cross-encoder, and one embedded model."""

from pathlib import Path

import pytest

import tiny_models
from remembered_model import remember


def pytest_ignore_collect() -> None:
    """Prepare Haystack before test modules import it, in the processes that run tests.

    It takes seconds to import, which the one that distributes tests to others is spared.
    """
    import haystack_two

    haystack_two.install()


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
