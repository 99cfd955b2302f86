"""The method ``embedded_multilingual``: one rule for lists in all languages."""

# ruff: noqa: RUF001

import numpy as np
import pytest

from embedded_texts import PASSAGES
from multilingual import needs_model
from secondpass import Reranker
from secondpass.orderings.diversity import Diverse
from secondpass.scorers.embedded_multilingual import EmbeddedMultilingualScorer
from secondpass.types import Candidate

pytestmark = needs_model

LISTS = {
    "German": ("Wann wurde die Brücke gebaut?", "Sie wurde 1889 errichtet.", "Äpfel sind rot."),
    "Russian": ("Когда построили мост?", "Мост возвели в 1889 году.", "Яблоки бывают красными."),
    "Greek": (
        "Πότε χτίστηκε η γέφυρα;",
        "Η γέφυρα ολοκληρώθηκε το 1889.",
        "Τα μήλα είναι κόκκινα.",
    ),
    "Korean": ("다리는 언제 지어졌나요?", "그 다리는 1889년에 완공되었다.", "사과는 빨갛다."),
    "Japanese": ("橋はいつ建てられましたか", "その橋は1889年に完成した。", "りんごは赤い。"),
    "Arabic": ("متى بُني الجسر؟", "اكتمل بناء الجسر عام 1889.", "التفاح أحمر."),
    "German over English": (
        "Wann wurde die Brücke gebaut?",
        "The bridge was finished in 1889.",
        "Apples are red.",
    ),
}


@pytest.mark.parametrize(("query", "answer", "other"), LISTS.values(), ids=LISTS)
def test_answers_come_first_in_every_language(query, answer, other):
    ranking = Reranker("embedded_multilingual").rerank(query, [other, answer])
    assert [item.text for item in ranking] == [answer, other]
    assert (ranking.report.status, ranking.report.issues) == ("ok", ())
    assert ranking.report.method == "multilingual-e5-small-q4"


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_a_score_depends_on_the_pair_alone(backend):
    scorer = EmbeddedMultilingualScorer(backend=backend, precision="exact", threads=1)
    assert scorer.pointwise
    texts = [*PASSAGES, *(text for one in LISTS.values() for text in one[1:])]
    together = scorer.score_pairs("When was the bridge built?", texts)
    alone = [scorer.score_pairs("When was the bridge built?", [text])[0] for text in texts]
    assert together == pytest.approx(alone, abs=1e-5)
    assert all(-1 <= score <= 1 for score in together)
    assert together[3:5] == [0, 0]  # nothing to read


@pytest.mark.parametrize("kept", [{}, {"memory_mb": 5}, "store"])
def test_spans_and_stores(kept, tmp_path):
    settings = {"store": str(tmp_path / "passages.store")} if kept == "store" else kept
    text = "Vorwort…\nÄpfel sind rot. Die Bru\u0308cke wurde 1889 gebaut. Ende."
    for _ in range(2):
        reranker = Reranker(EmbeddedMultilingualScorer(threads=1, **settings))
        for _ in range(2):
            ranking = reranker.rerank("Wann baute man die Brücke?", [text])
            (item,) = ranking
            assert text[slice(*item.span)] == "Die Bru\u0308cke wurde 1889 gebaut."
        assert ranking.report.usage.known == (1 if kept else 0)
        reranker.close()


def test_a_store_of_the_english_model_is_not_read(tmp_path):
    store = str(tmp_path / "passages.store")
    text = "The bridge was built in 1889."
    english = Reranker({"type": "embedded", "store": store})
    assert english.store([Candidate(text)]).encoded == 1
    english.close()
    multilingual = Reranker({"type": "embedded_multilingual", "store": store})
    assert multilingual.store([Candidate(text)]).encoded == 1
    assert multilingual.store([Candidate(text)]).known == 1
    multilingual.close()


def test_what_is_not_read_whole_is_reported():
    reranker = Reranker(EmbeddedMultilingualScorer(max_length=16))
    [issue] = reranker.rerank("слово", ["кот", "слово " * 9000]).report.issues
    assert (issue.code, issue.positions) == ("text_truncated", (1,))


def test_diverse_orders_by_its_vectors():
    texts = [LISTS["Russian"][1], "В 1889 году возвели мост.", LISTS["Russian"][2]]
    order = Diverse(relevance=0.4, similarity="embedded_multilingual", duplicate=None)
    ranking = Reranker("embedded_multilingual", order=order).rerank("мост", texts)
    assert [item.position for item in ranking][1] == 2  # the other two say the same
    methods = [engine.method for engine in ranking.report.engines]
    assert methods == ["multilingual-e5-small-q4"]


def test_the_issue_of_the_english_model_names_it():
    query, *texts = LISTS["Russian"]
    [issue] = Reranker("embedded").rerank(query, texts).report.issues
    assert issue.code == "not_english"
    assert "the preset multilingual (method embedded_multilingual)" in issue.message


def test_vectors_of_passages():
    vectors = np.stack(EmbeddedMultilingualScorer().vectors(["кот", ""]))
    assert vectors.shape == (2, 384)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1, 0], abs=1e-5)
