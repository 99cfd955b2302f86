"""Which models of late interaction are loaded, with what lengths, and how they are called."""

import importlib.util
import json
import sys
from types import SimpleNamespace

import pytest

from secondpass import MissingExtraError, ModelLoadError
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.torch.checkpoints import SAMPLE
from secondpass.scorers.torch.vectors import VectorModel


class Encoder:
    """In place of a loaded ``MultiVectorEncoder``."""

    max_seq_length = 64
    tokenizer = transformers_model = None

    def __init__(self):
        self.module = SimpleNamespace(
            document_length=48,
            query_length=16,
            query_expansion=None,
            config=SimpleNamespace(max_position_embeddings=80),
        )
        self.device = SimpleNamespace(type="cpu")
        self.calls = []

    def __getitem__(self, index):
        assert index == 0
        return self.module

    def parameters(self):
        import torch

        return iter([torch.zeros(1, dtype=torch.bfloat16)])

    def encode_query(self, texts, **settings):
        self.calls.append(("query", texts, settings))
        return texts

    def encode_document(self, texts, **settings):
        if texts == [SAMPLE]:  # of loading
            import torch

            return torch.zeros(1, 2)
        self.calls.append(("document", texts, settings))
        return texts


@pytest.fixture
def encoder(monkeypatch):
    import sentence_transformers

    encoder = Encoder()
    monkeypatch.setattr(sentence_transformers, "MultiVectorEncoder", lambda *_, **__: encoder)
    return encoder


@pytest.fixture
def folder(tmp_path):
    """A folder that names its kind; the encoder takes the place of its weights."""
    write(tmp_path, "config_sentence_transformers.json", {"model_type": "MultiVectorEncoder"})
    return tmp_path


def write(folder, name, content):
    (folder / name).write_text(json.dumps(content))


def loaded(folder, **settings):
    settings = {"device": "cpu", "precision": "exact", "options": {}, **settings}
    return VectorModel(HubModel(str(folder), local_files_only=True), True, None, **settings)


# ---------------------------------------------------------------------- kinds of models


def test_an_old_package(folder, monkeypatch):
    module = type(sys)("sentence_transformers")
    module.__version__ = "5.4.0"
    module.__spec__ = importlib.util.spec_from_loader("sentence_transformers", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    message = "a MultiVectorEncoder needs sentence-transformers 6 or later, and 5.4.0 is installed"
    with pytest.raises(ModelLoadError, match=message):
        loaded(folder)


@pytest.mark.parametrize("package", ["sentence_transformers", "torch"])
def test_a_missing_package(folder, monkeypatch, package):
    importlib.import_module("transformers.modeling_utils")  # or it never finds torch again
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"\.\[sentence-transformers\]"):
        loaded(folder)


# ---------------------------------------------------------------------- lengths


@pytest.mark.parametrize(
    ("limit", "positions", "longest"),
    [(64, 80, 64), (80, 64, 64), (64, None, 64), (None, 64, 64), (None, None, None)],
)
def test_no_length_is_beyond_the_model(encoder, folder, limit, positions, longest):
    encoder.max_seq_length = limit
    encoder.module.config.max_position_embeddings = positions
    assert loaded(folder, max_length=longest or 10_000)
    if longest is not None:
        message = "max_length is 65, but the model reads 64 tokens at most"
        with pytest.raises(ModelLoadError, match=message):
            loaded(folder, max_length=65)


def test_a_model_without_lengths(encoder, folder):
    encoder.module = SimpleNamespace(config=encoder.module.config)
    [pair] = loaded(folder).prepare("q", ["a" * 1000])
    assert pair.length == 3 + 64
    with pytest.raises(ModelLoadError, match="max_length cannot be set"):
        loaded(folder, max_length=10)


# ---------------------------------------------------------------------- calls


@pytest.mark.parametrize(
    ("device", "batch_size", "expected"), [("cpu", None, 8), ("cuda", None, 32), ("cuda", 5, 5)]
)
def test_texts_per_forward_pass(encoder, folder, device, batch_size, expected):
    encoder.device.type = device
    model = loaded(folder, batch_size=batch_size)
    assert model.encode("query", ("a",)) == ["a"]
    assert model.encode("document", ("b", "c")) == ["b", "c"]
    settings = {"batch_size": expected, "show_progress_bar": False}
    assert encoder.calls == [("query", ["a"], settings), ("document", ["b", "c"], settings)]
    assert (model.batch_size, model.precision) == (expected, "bfloat16")
