"""Files that a model is converted to, and errors of the conversion."""

import pickle
import warnings
from contextlib import suppress
from types import SimpleNamespace

import pytest

from remembered_trace import remember
from secondpass.exporting.agreement import ScoreAgreement
from secondpass.exporting.conversion import ExportError, convert, quiet
from secondpass.exporting.export import export
from tiny_architectures import CONFIGS, scores_of, word_pairs, write_architecture

PAIRS = word_pairs(queries=2)


@pytest.fixture(autouse=True)
def _remembered_trace(monkeypatch):
    remember(monkeypatch)


@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(name, id=name, marks=() if name == "modernbert" else pytest.mark.long)
        for name in CONFIGS
    ],
)
def test_every_architecture_scores_as_before_on_both_backends(tmp_path, architecture):
    folder = write_architecture(tmp_path / "model", architecture)
    expected = scores_of(folder, "torch", PAIRS, device="cpu")
    for backend in ("onnx", "openvino"):
        exported = export(str(folder), backend=backend, pairs=PAIRS)
        assert exported.agreements["float32"].overlap == 1
        assert exported.agreements["float32"].largest < 1e-3
        assert scores_of(folder, backend, PAIRS) == pytest.approx(expected, abs=2e-4)


def test_a_model_that_cannot_be_traced(tmp_path):
    def preprocess(_pairs):
        raise RuntimeError("unsupported operator\nlong explanation")

    untraceable = SimpleNamespace(model=None, preprocess=preprocess)
    message = "^the model cannot be converted to ONNX: RuntimeError: unsupported operator$"
    with pytest.raises(ExportError, match=message) as caught:
        convert(untraceable, tmp_path / "new" / "m.onnx", "onnx", sample=PAIRS, scratch=tmp_path)
    assert caught.value.agreements == {}
    assert list(tmp_path.rglob("*")) == [tmp_path / "new"]


def test_errors_keep_their_agreements_between_processes():
    agreements = {"float32": ScoreAgreement(30, 2, 0.5, 0.1, 1.0, 0.9, 0.8)}
    error = pickle.loads(pickle.dumps(ExportError("refused", agreements)))
    assert (str(error), error.agreements) == ("refused", agreements)


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("error", [None, ValueError])
def test_loaders_are_silent_for_a_time(monkeypatch, shown, error):
    from transformers.utils import logging

    bars = [shown]
    monkeypatch.setattr(logging, "is_progress_bar_enabled", lambda: bars[-1])
    monkeypatch.setattr(logging, "enable_progress_bar", lambda: bars.append(True))
    monkeypatch.setattr(logging, "disable_progress_bar", lambda: bars.append(False))
    with suppress(ValueError), quiet():
        assert not bars[-1]
        warnings.warn("would be an error", stacklevel=1)
        if error:
            raise error
    assert bars[-1] == shown
