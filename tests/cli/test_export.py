"""``secondpass export``: what it passes on and prints. `tests/exporting` has the export."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from secondpass import MissingExtraError
from secondpass.exporting import export as exporting
from secondpass.exporting.agreement import ScoreAgreement
from secondpass.exporting.conversion import ExportError
from secondpass.exporting.export import Exported
from tiny_architectures import word_pairs, write_architecture

GOOD = ScoreAgreement(60, 4, 0.02, 0.01, 0.5, 1.0, 1.0)


class Export:
    """Stands for the export of any model; keeps its arguments."""

    measured, given, doubt = GOOD, None, None

    def __call__(self, model, *, progress, **given):
        progress("Converting the model", 1, 4)
        self.given = {"model": model, **given}
        agreements = {"float32": self.measured}
        if self.measured.overlap < exporting.LEAST_OVERLAP and not given["force"]:
            raise ExportError("refused: the overlap is too small", agreements)
        folder = Path(given["into"] or model)
        file = f"{given['backend']}/model.file"
        return Exported(folder, file, 2_500_000, agreements, self.doubt)


@pytest.fixture
def export(monkeypatch):
    monkeypatch.setattr(exporting, "export", standing := Export())
    return standing


def test_the_file_is_named_with_its_agreement(secondpass, export, write):
    pairs = write("pairs.jsonl", [{"query": "q", "text": "a"}])
    done = secondpass("export", "model", "--pairs", pairs)
    assert (done.code, done.err) == (0, "")
    assert export.given == {
        "model": "model", "into": None, "backend": "onnx",
        "pairs": [("q", "a")], "force": False,
    }  # fmt: skip
    first, _, heads, row, _, last = done.out.splitlines()
    assert first == "model/onnx/model.file: 2.5 MB"
    assert heads.startswith("against the original")
    numbers = "float32 60 0.02 (0.04 sd) 0.01 (0.02 sd) 1.000 1.000"
    assert row.split() == numbers.split()
    assert last == (
        "next: set `model: model` of cross_encoder; `backend: auto` uses the file where "
        "secondpass[onnx] is installed"
    )


def test_json(secondpass, export):
    options = ("--into", "new", "--backend", "openvino", "--force", "--json")
    done = secondpass("export", "org/model", *options)
    assert done.code == 0
    given = {name: export.given[name] for name in ("into", "backend", "pairs", "force")}
    assert given == {
        "into": Path("new"), "backend": "openvino", "pairs": None, "force": True,
    }  # fmt: skip
    assert json.loads(done.out) == {
        "status": "written",
        "folder": "new",
        "file": "openvino/model.file",
        "bytes": 2_500_000,
        "agreement": {
            "float32": {
                "pairs": 60,
                "queries": 4,
                "largest_difference": 0.02,
                "mean_difference": 0.01,
                "standard_deviation": 0.5,
                "kendall_tau": 1.0,
                "top_10_overlap": 1.0,
            }
        },
        "doubt": None,
        "next": "next: set `model: new` of cross_encoder; `backend: auto` uses the file where "
        "secondpass[openvino] is installed",
    }


def test_a_refusal_shows_what_was_measured_and_force_warns(secondpass, export):
    export.measured = replace(GOOD, overlap=0.9, tau=None, deviation=0.0)
    done = secondpass("export", "model")
    assert done.code == 1
    assert done.out.splitlines()[-1].split() == "float32 60 0.02 0.01 - 0.900".split()
    assert done.err == "secondpass: refused: the overlap is too small\n"
    as_json = secondpass("export", "model", "--json")
    assert as_json.code == 1
    assert json.loads(as_json.out)["status"] == "refused"
    assert json.loads(as_json.out)["agreement"]["float32"]["pairs"] == 60
    forced = secondpass("export", "model", "--force")
    warning = "warning: in float32, the ranking differs from the original's"
    assert (forced.code, forced.err.splitlines()) == (0, [warning])


def test_a_doubtful_model_is_warned_of(secondpass, export):
    export.doubt = "it knows nothing"
    done = secondpass("export", "model")
    assert (done.code, done.err) == (0, "warning: the model is doubtful: it knows nothing\n")
    assert json.loads(secondpass("export", "model", "--json").out)["doubt"] == export.doubt


def test_errors_are_one_sentence(secondpass, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    for arguments, message in (
        (("some/model",), "into: is needed, because 'some/model' is not a local folder"),
        ((tmp_path, "--pairs", tmp_path / "no.jsonl"), "no.jsonl: there is no such file or folder"),
    ):
        done = secondpass("export", *arguments)
        assert done.code == 1
        assert message in done.flat
        assert len(done.err.splitlines()) == 1
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = secondpass("export", "some/model")
    assert (done.code, MissingExtraError("export", "it").command in done.err) == (1, True)
    done = secondpass("export", "some/model", "--backend", "tensorrt")
    assert (done.code, "onnx" in done.flat) == (2, True)


@pytest.mark.long  # traces a model
def test_a_model_is_exported(secondpass, tmp_path, write):
    model = write_architecture(tmp_path / "model", "bert")
    pairs = write("pairs.jsonl", [{"query": query, "text": text} for query, text in word_pairs()])
    done = secondpass("export", model, "--pairs", pairs)
    assert (done.code, done.err) == (0, "")
    assert (model / "onnx" / "model.onnx").is_file()
