import math
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace

import pytest

from checkpoint_folders import edit
from secondpass import (
    ConfigurationError,
    InputError,
    MissingExtraError,
    ModelLoadError,
    NotSerializableError,
    Reranker,
)
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.hub.model import HubModel
from tiny_architectures import write_mmarco
from tiny_models import write_causal, write_classifier, write_late_interaction, write_onnx

DOCUMENTS = ["the dog ran", "the cat sat on the mat", "cat food", "a", "food on the mat " * 30]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(write_classifier(tmp_path_factory.mktemp("model") / "classifier"))


@pytest.fixture(scope="module")
def scorer(folder):
    return CrossEncoderScorer(folder, precision="exact")


@cache
def predicted(folder, *, prompt=None, **settings):
    """What sentence-transformers makes of the documents."""
    import torch
    from sentence_transformers import CrossEncoder

    pairs = [("cat", document) for document in DOCUMENTS]
    encoder = CrossEncoder(folder, device="cpu", **settings)
    return encoder.predict(pairs, activation_fn=torch.nn.Identity(), prompt=prompt).tolist()


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_length": 12}, {"batch_size": 2}, {"trust_remote_code": True}, {"model_kwargs": {}}],
)
def test_scores_are_logits(folder, settings):
    ours = CrossEncoderScorer(folder, precision="exact", **settings).score_pairs("cat", DOCUMENTS)
    theirs = predicted(folder, max_length=settings.get("max_length"))
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert all(type(score) is float for score in ours)
    assert len(set(ours)) == len(ours)


@pytest.mark.parametrize("positions", [64, 1024])
def test_a_preset_cuts_texts_for_its_own_model_alone(tmp_path, positions):
    folder = str(write_classifier(tmp_path / "model", positions=positions))
    texts = ["food " * 600 + end * 100 for end in ("cat ", "dog ", "mat ")]
    own = CrossEncoderScorer(folder, precision="exact").score_pairs("cat", texts)
    assert len({*own}) == (1 if positions == 64 else 3)
    method = {"model": folder, "precision": "exact", "known_answers": False}
    ranking = Reranker.from_preset("default", method=method).rerank("cat", texts)
    assert ranking.report.status == "ok"
    scores = {item.text: item.rerank_score for item in ranking}
    assert [scores[text] for text in texts] == pytest.approx(own, abs=1e-5)


@pytest.mark.parametrize("backend", ["torch", "onnx", "openvino"])
def test_the_shape_of_mmarco(tmp_path, backend):
    """XLM-R's tokenizer and its positions, without token types, whose files name no inputs."""
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    folder = str(write_onnx(write_mmarco(tmp_path / "model")))
    texts = [*DOCUMENTS, "", "北京 cats?", "the  cat\n sat ", "Ça, xyz"]
    pairs = [("the cat", text) for text in texts]
    encoder = CrossEncoder(folder, device="cpu")
    theirs = encoder.predict(pairs, activation_fn=Identity()).tolist()
    scorer = CrossEncoderScorer(folder, backend=backend, precision="exact")
    assert scorer.score_pairs("the cat", texts) == pytest.approx(theirs, abs=1e-4)
    assert scorer.truncated("the cat", texts) == [4]
    assert len(set(theirs)) == len(theirs)


def test_sigmoid_gives_probabilities(folder, scorer):
    probable = CrossEncoderScorer(folder, activation="sigmoid", precision="exact")
    assert (scorer.score_kind, probable.score_kind) == ("logit", "probability")
    assert probable.score_pairs("cat", DOCUMENTS) == pytest.approx(
        [1 / (1 + math.exp(-logit)) for logit in scorer.score_pairs("cat", DOCUMENTS)], abs=1e-6
    )


@pytest.mark.parametrize("deadline", [None, 60])
def test_an_infinite_logit_is_no_certainty(monkeypatch, deadline):
    logits = {"a": math.inf, "b": 0.5, "c": -math.inf, "d": math.nan}
    scorer = CrossEncoderScorer("any", activation="sigmoid")
    engine = KnownScores(logits)
    monkeypatch.setattr(scorer, "_load", lambda: engine)
    ranking = Reranker(scorer, limits={"deadline": deadline}).rerank("q", list(logits))
    assert {item.text: item.rerank_score for item in ranking} == {
        **dict.fromkeys("acd"),
        "b": pytest.approx(0.6225, abs=1e-4),
    }
    assert ranking.report.status == "partial"
    [issue] = ranking.report.issues
    assert (issue.code, issue.positions) == ("score_not_finite", (0, 2, 3))


class KnownScores:
    """In place of an engine."""

    score_kind, takes_instruction = "logit", False
    engine = SimpleNamespace(info=None)

    def __init__(self, scores):
        self.scores = scores

    def score(self, requests, instruction=None):
        return [[self.scores[passage] for passage in passages] for _, passages in requests]

    def score_until(self, requests, deadline, instruction=None):
        for request, scores in enumerate(self.score(requests)):
            yield [(request, passage, score) for passage, score in enumerate(scores)]


def test_many_requests_share_their_batches(scorer):
    requests = [("cat", DOCUMENTS[:2]), ("dog", []), ("mat", DOCUMENTS)]
    assert scorer.score_many(requests) == [
        pytest.approx(scorer.score_pairs(query, documents), abs=1e-5)
        for query, documents in requests
    ]
    assert scorer.score_many([("cat", [])]) == [[]]


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return str(write_causal(tmp_path_factory.mktemp("instructed") / "causal"))


def test_causal_models_answer_yes_or_no(causal, tmp_path):
    prompted = CrossEncoderScorer(causal, prompt="the query food", precision="exact")
    ours = prompted.score_pairs("cat", DOCUMENTS)
    assert ours == pytest.approx(predicted(causal, prompt="the query food"), abs=1e-5)
    plain = CrossEncoderScorer(causal, precision="exact").score_pairs("cat", DOCUMENTS)
    assert ours != pytest.approx(plain, abs=1e-5)
    stored = shutil.copytree(causal, tmp_path / "stored")
    edit(stored, "config_sentence_transformers.json", prompts={"task": "the query food"})
    named = CrossEncoderScorer(str(stored), prompt_name="task", precision="exact")
    assert named.score_pairs("cat", DOCUMENTS) == pytest.approx(ours, abs=1e-6)


def test_the_prompt_holds_the_instruction_of_a_call(causal):
    scorer = CrossEncoderScorer(causal, prompt="the {instruction} food", precision="exact")
    assert scorer.takes_instruction
    reranker = Reranker(scorer)
    for instruction in ("query", "dog {instruction}", None, "query"):
        ranking = reranker.rerank("cat", DOCUMENTS, instruction=instruction)
        prompt = None if instruction is None else f"the {instruction} food"
        assert [issue.code for issue in ranking.report.issues] == ["text_truncated"]
        ours = {item.text: item.rerank_score for item in ranking}
        assert [ours[text] for text in DOCUMENTS] == pytest.approx(
            predicted(causal, prompt=prompt), abs=1e-5
        )


@pytest.mark.parametrize("settings", [{}, {"prompt": "the query food"}, {"prompt": "{query}"}])
def test_a_prompt_without_a_place_for_the_instruction(causal, settings):
    reranker = Reranker(CrossEncoderScorer(causal, precision="exact", **settings))
    usual = reranker.rerank("cat", DOCUMENTS)
    ranking = reranker.rerank("cat", DOCUMENTS, instruction="prefer owls")
    assert [item.rerank_score for item in ranking] == [item.rerank_score for item in usual]
    codes = [issue.code for issue in ranking.report.issues]
    assert codes == ["text_truncated", "instruction_not_used"]
    assert {issue.method for issue in ranking.report.issues} == {causal}
    for call in (
        lambda: reranker.method.scorer.score_pairs("cat", DOCUMENTS, instruction="prefer owls"),
        lambda: [*reranker.method.scorer.score_batches([], None, instruction="prefer owls")],
    ):
        with pytest.raises(InputError, match=r"does not name \{instruction\}"):
            call()


@pytest.mark.parametrize("deadline", [None, 60])
def test_concurrent_calls_keep_their_instructions(causal, deadline):
    scorer = CrossEncoderScorer(causal, prompt="{instruction}", precision="exact", score_cache=1000)
    reranker = Reranker(scorer, limits={"deadline": deadline})
    words = ["cat", "dog", "mat", "food", None] * 3
    expected = {word: predicted(causal, prompt=word) for word in set(words)}

    def scores(word):
        ranking = reranker.rerank("cat", DOCUMENTS, instruction=word)
        return {item.text: item.rerank_score for item in ranking}

    with ThreadPoolExecutor(len(words)) as pool:
        for word, ours in zip(words, pool.map(scores, words), strict=True):
            assert [ours[text] for text in DOCUMENTS] == pytest.approx(expected[word], abs=1e-5)


def test_an_unknown_device_is_named(folder):
    with pytest.raises(ModelLoadError, match=r"^device: 'bogus' is no device of torch"):
        CrossEncoderScorer(folder, device="bogus").warm_up()


def test_load_failure_is_remembered(monkeypatch):
    scorer = CrossEncoderScorer("no/such-model", local_files_only=True)
    tried = []
    load = scorer._load
    monkeypatch.setattr(scorer, "_load", lambda: tried.append(1) or load())
    for _ in range(3):
        with pytest.raises(ModelLoadError):
            scorer.score_pairs("q", ["a"])
    assert len(tried) == 1
    with pytest.raises(ModelLoadError):
        scorer.warm_up()
    assert len(tried) == 2


def test_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    torch = {"backend": "torch"}
    told = re.escape(MissingExtraError("sentence-transformers", "it").command)
    with pytest.raises(MissingExtraError, match=told):
        Reranker.from_preset("cross_encoder_hybrid", method=torch)
    with pytest.raises(MissingExtraError, match=told):
        CrossEncoderScorer("any", **torch).score_pairs("q", ["a"])
    ranking = Reranker.from_preset("default", method=torch).rerank("q", ["a", "b"])
    assert ranking.report.status == "degraded"
    assert ranking.report.issues[0].code == "missing_extra"


def test_token_is_not_written(folder, monkeypatch):
    monkeypatch.setenv("MY_HUB_TOKEN", "hf_secret")
    reranker = Reranker({"type": "cross_encoder", "model": folder, "token_env": "MY_HUB_TOKEN"})
    reranker.rerank("q", ["a"])
    assert reranker.to_config()["method"]["token_env"] == "MY_HUB_TOKEN"
    assert "hf_secret" not in repr(reranker) + repr(reranker.to_config()) + repr(vars(reranker))


def test_token_sources(folder, monkeypatch):
    given = []
    monkeypatch.setattr(HubModel, "is_offline", lambda source: bool(given.append(source.token)))
    monkeypatch.setenv("SECOND", "hf_second")
    monkeypatch.delenv("FIRST", raising=False)
    for settings in (
        {"token": "hf_given"},
        {"token_env": ["FIRST", "SECOND"]},
        {"token_env": "FIRST", "remember": 1},  # unlike those of other tests: engines are shared
        {"remember": 2},
    ):
        scorer = CrossEncoderScorer(str(folder), **settings)
        scorer.score_pairs("q", ["a"])
        scorer.close()
    assert given == ["hf_given", "hf_second", None, None]
    with pytest.raises(NotSerializableError, match="token"):
        Reranker(CrossEncoderScorer(str(folder), token="hf_given")).to_config()


def test_tokenizer_and_config_arguments(folder):
    scorer = CrossEncoderScorer(
        str(folder),
        tokenizer_kwargs={"model_max_length": 9},
        config_kwargs={"classifier_dropout": 0.25},
    )
    scorer.warm_up()
    encoder = scorer._shared.loaded.engine.model.encoder
    assert encoder.tokenizer.model_max_length == 9
    assert encoder.config.classifier_dropout == 0.25
    assert scorer.tokenizer_kwargs == {"model_max_length": 9}


LIMITS = {
    "setting": {"max_length": 12},
    "tokenizer": {"tokenizer_kwargs": {"model_max_length": 12}},
    "own": {},
    "none": {"tokenizer_kwargs": {"model_max_length": int(1e30)}},
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("write", [write_classifier, write_late_interaction])
def test_a_limit_has_two_names_and_the_report_says_whose_it_is(tmp_path, write, name):
    folder = str(write(tmp_path / "model"))
    same = "own" if name in {"own", "none"} else "setting"
    scorers = [
        CrossEncoderScorer(folder, precision="exact", backend="torch", **LIMITS[each])
        for each in (name, same)
    ]
    rankings = [Reranker(scorer).rerank("cat", DOCUMENTS) for scorer in scorers]
    scores = [[item.rerank_score for item in ranking] for ranking in rankings]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    (issue,) = (it for it in rankings[0].report.issues if it.code == "text_truncated")
    assert ("12 tokens that the configuration sets" in issue.message) == (same == "setting")
    assert ("longer than the model reads" in issue.message) == (same == "own")


def test_a_limit_beyond_the_positions_of_the_model(folder):
    scorer = CrossEncoderScorer(folder, tokenizer_kwargs={"model_max_length": 65})
    with pytest.raises(ModelLoadError, match="65 is more than the 64 positions"):
        scorer.warm_up()


@pytest.mark.parametrize(
    "settings",
    [
        {"model": ""},
        {"batch_size": 0},
        {"max_length": 1},
        {"threads": 0},
        {"precision": "half"},
        {"backend": "tensorflow"},
        {"trust_remote_code": "yes"},
        {"modle": "x"},
        {"prompt": "a", "prompt_name": "b"},
        {"token_env": "hf_a_token_itself"},
        {"token_env": "not a name"},
        {"token_env": ["A", "not a name"]},
        {"token_env": []},
        {"token": "a", "token_env": "B"},
        {"token": " "},
        {"model_kwargs": {"token": "secret"}},
        {"precision": "exact", "model_kwargs": {"torch_dtype": "bfloat16"}},
        {"precision": "float16", "model_kwargs": {"dtype": "bfloat16"}},
        {"max_length": 12, "tokenizer_kwargs": {"model_max_length": 12}},
        {"file": "x.onnx", "backend": "torch"},
    ],
)
def test_wrong_settings(settings):
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        CrossEncoderScorer(**settings)
