"""Doubtful models: those that do not find obvious answers, and what reports say of them."""

import asyncio
import gc
import re
import weakref
from functools import partial
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damaged_folders import write_damaged
from overlap_model import words_of, write_overlap
from secondpass import ModelLoadError, Reranker, RerankError
from secondpass.concurrency import lazy
from secondpass.scorers import choice
from secondpass.scorers.batching.pairs import PairEngine
from secondpass.scorers.checks import known_answers
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.embedded import EmbeddedScorer
from secondpass.scorers.tokens.pair_tokenizer import PairTokenizer
from secondpass.scorers.torch import texts as torch_texts
from tiny_models import unigram, write_late_interaction, write_onnx, write_tokenizer

DOUBT = known_answers.doubt  # as tests find it, it has no doubts: see conftest.py
TEXTS = ["the cat sat", "a dog ran", "food on a mat"]


@pytest.fixture
def checked(monkeypatch):
    """Known answers are computed. Lists the calls."""
    calls = []
    monkeypatch.setattr(known_answers, "doubt", lambda *told: calls.append(1) or DOUBT(*told))
    return calls


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    return str(write_late_interaction(tmp_path_factory.mktemp("model") / "vectors"))


# ---------------------------------------------------------------------- the rule


def everything(_):
    return True


def only(*words):
    """A vocabulary of these words, of six questions in their order."""
    return lambda word: word in words


ENGLISH = ("Tower", "nectar", "Einstein", "Dresden", "Python", "Linux")


def scores(marks):
    """One of ``+`` (the answer is higher), ``-`` and ``=`` for each question."""
    of = {"+": [1.0, 0.0], "-": [0.0, 1.0], "=": [0.5, 0.5]}

    def score(requests):
        assert len(requests) == len(marks)
        return [of[mark] for mark in marks]

    return score


@pytest.mark.parametrize(
    ("marks", "words", "message"),
    [
        ("++++++", 6, None),
        ("+++++-", 6, None),
        ("+++++=", 6, None),
        ("++++--", 6, "of six questions .* that of 4 first: it is not trained"),
        ("++----", 6, "that of 2 first: it is not trained"),
        ("=+=+==", 6, "that of 2 first: it is not trained"),
        ("==----", 6, "that of 0 first: it is not trained"),  # ties never accuse
        ("+++++", 5, None),
        ("++++-", 5, None),
        ("+++--", 5, "of 5 questions .* that of 3 first"),
        ("+++-", 4, None),
        ("----", 4, "of 4 questions .* that of 0 first"),
    ],
)
def test_how_many_answers_are_enough(marks, words, message):
    doubt = DOUBT(scores(marks), only(*ENGLISH[:words]))
    assert doubt is None if message is None else re.search(message, doubt)


@pytest.mark.parametrize("marks", ["------", "-----+", "=-----", "-----"])
def test_a_model_that_ranks_other_passages_first_is_refused(marks):
    with pytest.raises(ModelLoadError, match="its scores mean the opposite") as caught:
        DOUBT(scores(marks), only(*ENGLISH[: len(marks)]))
    assert caught.value.is_final


def test_a_model_that_knows_the_words_of_fewer_than_four_is_not_asked():
    def score(_):
        pytest.fail("the model was asked")

    assert DOUBT(score, only("Tower", "tall", "nectar", "Linux")) is None


@pytest.mark.parametrize("same", [0.0, float("-inf")])
def test_one_score_for_all(same):
    assert "the same score" in DOUBT(lambda requests: [[same, same] for _ in requests], everything)


@given(st.dictionaries(st.integers(0, 5), st.floats(-9, 9)))
def test_a_preference_for_passages_finds_three_answers_at_most(preferences):
    """What most random weights do: the question has little influence."""
    number = {text: index for index, (_, (text, _)) in enumerate(known_answers.requests())}

    def score(requests):
        return [[preferences.get(number[text], 0.0) for text in texts] for _, texts in requests]

    assert DOUBT(score, everything) is not None  # and it is not refused


def test_a_model_of_english_finds_all_of_them():
    lists = EmbeddedScorer(feedback=0, idf=False).score_many(known_answers.requests())
    assert all(answer > other + 0.2 for answer, other in lists)


# ---------------------------------------------------------------------- reports


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory):
    """A model of random weights that knows the words."""
    return str(write_damaged(tmp_path_factory.mktemp("model") / "random", "everything random"))


@pytest.fixture(scope="module")
def inverted(tmp_path_factory):
    """A model whose head is negated, with an ONNX file."""
    folder = write_damaged(tmp_path_factory.mktemp("model") / "inverted", "head negated")
    return str(write_onnx(folder))


def test_a_doubtful_model_in_every_report(random_folder, checked):
    method = {"type": "cross_encoder", "model": random_folder, "remember": 1}
    reranker = Reranker(method)
    reranker.warm_up()
    rankings = [
        reranker.rerank("cat", TEXTS),
        reranker.rerank("cat", TEXTS, deadline=60),
        asyncio.run(reranker.arerank("cat", TEXTS[:1])),
        *reranker.rerank_many([("cat", TEXTS), ("dog", TEXTS)]),
    ]
    for ranking in rankings:
        assert (ranking.report.status, ranking.report.degraded_by) == ("degraded", ("doubtful",))
        assert [issue.code for issue in ranking.report.issues] == ["model_doubtful"]
        assert ranking.report.issues[0].method == random_folder
        assert all(item.status == "scored" for item in ranking)
    assert checked == [1]
    with pytest.raises(RerankError, match="degraded by doubtful, and strict is set: model_doubtf"):
        reranker.rerank("cat", TEXTS, strict=True)


@pytest.mark.parametrize("backend", ["torch", "openvino", "onnx"])
def test_an_inverted_model_is_refused_by_every_way_in(inverted, backend, checked):
    method = {"type": "cross_encoder", "model": inverted, "backend": backend}
    report = Reranker(method).rerank("cat", TEXTS).report
    assert report.status == "unchanged"
    assert [issue.code for issue in report.issues] == ["model_not_loaded"]
    with pytest.raises(RerankError, match="model_not_loaded: of six questions"):
        Reranker(method, strict=True).rerank("cat", TEXTS)
    with pytest.raises(ModelLoadError, match="its scores mean the opposite"):
        Reranker(method).warm_up()
    fallen = Reranker(method, fallback=["lexical"]).rerank("cat", TEXTS)
    assert fallen.report.degraded_by == ("fallback",)
    assert fallen[0].text == "the cat sat"
    taken = Reranker({**method, "known_answers": False}).rerank("cat", TEXTS)
    assert taken.report.status == "ok"
    assert taken[-1].text == "the cat sat"


def test_a_refused_model_is_released_and_not_loaded_again(inverted, checked, monkeypatch):
    loaded = []
    load = choice.load

    def loading(settings):
        result = load(settings)
        loaded.append(weakref.ref(result.engine))
        return result

    monkeypatch.setattr(choice, "load", loading)
    monkeypatch.setattr(lazy, "_RETRY_AFTER", 0.0)
    reranker = Reranker({"type": "cross_encoder", "model": inverted, "backend": "torch"})
    for _ in range(3):
        assert reranker.rerank("cat", TEXTS).report.status == "unchanged"
    gc.collect()
    [engine] = loaded
    assert engine() is None
    with pytest.raises(ModelLoadError):
        reranker.warm_up()  # which tries again
    assert len(loaded) == 2


def test_a_model_is_checked_once_and_without_warm_up(random_folder, vectors, checked):
    settings = {"model": random_folder, "remember": 2}
    scorers = [CrossEncoderScorer(**settings) for _ in range(2)]
    off = CrossEncoderScorer(**settings, known_answers=False)
    CrossEncoderScorer(vectors, known_answers=False).score_pairs("cat", TEXTS)
    for scorer in (*scorers, off):
        scorer.score_pairs("cat", TEXTS)
    assert checked == [1]
    assert scorers[0].doubt == scorers[1].doubt is not None
    assert off.doubt is None
    assert Reranker(off).rerank("cat", TEXTS).report.status == "ok"


class Words:
    """In place of a loaded model: scores are the words that texts share, or a fixed number."""

    backend, precision, threads, budget = "torch", "float32", 1, 512

    def __init__(self, fixed=None):
        self.fixed = fixed

    def knows(self, word):
        return True

    def prepare(self, query, passages):
        return [(query, passage) for passage in passages]

    def run(self, pairs):
        if self.fixed is not None:
            return self.fixed
        return [float(len({*query.split()} & {*passage.split()})) for query, passage in pairs]


def test_a_model_that_cannot_score_is_not_loaded(checked):
    with pytest.raises(ModelLoadError, match="the model cannot score pairs: StopIteration"):
        PairEngine(Words(fixed=[])).doubt()


# ---------------------------------------------------------------------- right models


RIGHT = {  # script or language: what its vocabulary knows
    "English": "the a of in is how what which tall tower bees make honey nectar . ? 330",
    "German": "der die das im wann wurde wo am märz fluss durch stadt fließt geboren . ? 14 1879",
    "French": "le la de du fleuve ville traverse né quand où . ? 14",
    "Vietnamese": "ai là gì con sông chảy qua thành phố . ? 1991",
    "Russian": "кто где река город течёт через родился когда в . ? 14 330 1879 1991",
    "Ukrainian": "хто де ріка місто тече через народився коли в . ? 14 1991",
    "Chinese": "语 言 是 什 么 时 候 发 布 的 作 者 谁 于 年 首 次 芬 兰 人 。 ？ 1991",  # noqa: RUF001
    "Japanese": "誰 は 何 で す か 川 町 を 流 れ る 作 者 の 。 ？ 1991",  # noqa: RUF001
    "Arabic": "من هو أين النهر المدينة يجري في ولد متى . ؟ 1991 330",
    "Persian": "کی کجا رود شهر می گذرد به دنیا آمد . ؟ 1879 14",
    "Hindi": "कौन कहाँ नदी शहर से बहती है जन्म कब हुआ . ? । 1991 330",
    "Greek": "ποιος που ποταμός πόλη περνά από γεννήθηκε πότε . ? 14 330 1879 1991",
}


LETTERS = [*ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)]
"""As vocabularies of other scripts have, too."""


@pytest.mark.parametrize("language", RIGHT)
@pytest.mark.parametrize("backend", ["torch", "openvino"])
def test_right_models_of_twelve_languages_are_not_accused(tmp_path, language, backend, checked):
    """In six scripts and more; none knows the words of all questions, some those of none."""
    words = [*words_of([RIGHT[language]]), *LETTERS]
    folder = write_overlap(tmp_path / "model", words=tuple(dict.fromkeys(words)))
    if backend == "openvino":
        write_onnx(folder)
    scorer = CrossEncoderScorer(str(folder), backend=backend)
    known = RIGHT[language].split()
    first, other = " ".join(known[:5]), " ".join(known[5:10])
    right, wrong = scorer.score_pairs(first, [first, other])
    assert right > wrong
    assert scorer.doubt is None


def test_all_vocabularies_say_what_they_know(tmp_path):
    """The kinds of tokenizers, in both libraries."""
    from transformers import PreTrainedTokenizerFast

    for kind in ("bert", "roberta", "sentencepiece", "unigram"):
        path = tmp_path / f"{kind}.json"
        (unigram if kind == "unigram" else partial(write_tokenizer, kind=kind))(path)
        pair = PairTokenizer(path, max_length=None)
        unknown = "<unk>" if kind == "unigram" else "[UNK]"
        fast = PreTrainedTokenizerFast(tokenizer_file=str(path), unk_token=unknown)
        for word, known in (
            ("cat", kind != "unigram"),  # of letters
            ("城", False),
            ("cat城", False),
            ("", False),
        ):
            assert pair.knows(word) == torch_texts.knows(fast, word) == known, (kind, word)
