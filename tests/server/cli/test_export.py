"""``secondpass export``, as it is called."""

import json
import sys

import pytest

from remembered_trace import remember
from secondpass.scorers.engines import exporting
from tiny_architectures import word_pairs, write_architecture
from tiny_models import write_classifier


@pytest.fixture
def model(tmp_path, monkeypatch):
    remember(monkeypatch)
    return write_architecture(tmp_path / "model", "bert")


@pytest.fixture
def pairs(write):
    return write("pairs.jsonl", [{"query": query, "text": text} for query, text in word_pairs()])


@pytest.fixture
def refused(monkeypatch):
    monkeypatch.setattr(exporting, "LEAST_OVERLAP", 1.5)


def test_the_file_is_written_and_compared(secondpass, model, pairs):
    done = secondpass("export", model, "--pairs", pairs)
    assert (done.code, done.err) == (0, "")
    first, _, heads, row, _, last = done.out.splitlines()
    assert first.startswith(f"{model}/onnx/model.onnx: 0.")
    assert first.endswith(" MB")
    assert heads.split("  ")[0] == "against the original"
    assert row.split()[:2] == ["float32", "60"]
    assert row.count(" sd)") == 2
    assert row.split()[-2:] == ["1.000", "1.000"]
    assert last == (
        f"next: set `model: {model}` of cross_encoder; `backend: auto` uses the file where "
        "secondpass[onnx] is installed"
    )
    assert (model / "onnx" / "model.onnx").is_file()


def test_json(secondpass, model, pairs, tmp_path):
    into = tmp_path / "new"
    options = ("--into", into, "--backend", "openvino", "--int8", "--force", "--json")
    done = secondpass("export", model, "--pairs", pairs, *options)
    assert done.code == 0
    record = json.loads(done.out)
    assert record["status"] == "written"
    assert (record["folder"], record["file"]) == (str(into), "openvino/openvino_model_int8.xml")
    files = [into / record["file"], (into / record["file"]).with_suffix(".bin")]
    assert record["bytes"] == sum(path.stat().st_size for path in files)
    measured = record["agreement"]["float32"]
    assert (measured["pairs"], measured["queries"]) == (60, 4)
    assert 0 < measured["mean_difference"] < measured["largest_difference"]
    assert measured["standard_deviation"] > 0
    assert measured["kendall_tau"] > 0.9
    assert measured["top_10_overlap"] > 0.9
    assert "an int8 file is used only if it is named" in record["next"]


def test_a_refusal_shows_what_was_measured(secondpass, model, pairs, refused):
    done = secondpass("export", model, "--pairs", pairs)
    assert done.code == 1
    assert "float32" in done.out
    assert done.err.startswith("secondpass: refused: the top-10 overlap with the original is 1.000")
    assert not (model / "onnx").exists()
    as_json = secondpass("export", model, "--pairs", pairs, "--json")
    assert as_json.code == 1
    assert json.loads(as_json.out)["status"] == "refused"
    assert json.loads(as_json.out)["agreement"]["float32"]["pairs"] == 60


def test_force_keeps_the_file_with_a_warning(secondpass, model, pairs, refused):
    done = secondpass("export", model, "--pairs", pairs, "--force")
    assert done.code == 0
    warning = "warning: in float32, the ranking differs from that of the original"
    assert done.err.splitlines() == [warning]
    assert (model / "onnx" / "model.onnx").is_file()


def test_wrong_pairs(secondpass, model, write):
    pairs = write("pairs.jsonl", [{"query": "q", "text": "a"}])
    done = secondpass("export", model, "--pairs", pairs)
    assert done.code == 1
    assert "pairs: no query has more than 10 passages" in done.err
    assert not (model / "onnx").exists()


def test_errors_are_one_sentence(secondpass, tmp_path, monkeypatch):
    labels = write_classifier(tmp_path / "labels", labels=3)
    for arguments, message in (
        (("some/model",), "into: is needed, because 'some/model' is not a local folder"),
        ((tmp_path / "missing",), "is not a local folder"),
        ((labels,), "has 3 labels; a reranker has one"),
        ((labels, "--pairs", tmp_path / "no.jsonl"), "no.jsonl: there is no such file or folder"),
    ):
        done = secondpass("export", *arguments)
        assert done.code == 1
        assert message in done.flat
        assert len(done.err.splitlines()) == 1
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = secondpass("export", labels)
    assert (done.code, 'pip install "secondpass[export]"' in done.err) == (1, True)


def test_an_unknown_backend_is_a_usage_error(secondpass, model):
    done = secondpass("export", model, "--backend", "tensorrt")
    assert done.code == 2
    assert "onnx" in done.flat
