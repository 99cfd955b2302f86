import json
import os
import threading
from functools import cache

import pytest

from secondpass import Candidate, ConfigurationError, ModelLoadError, Reranker
from secondpass.ranking.rendering import Rendering
from secondpass.scorers.late_interaction import LateInteractionScorer
from tiny_models import write_late_interaction

DOCUMENTS = ["the dog ran", "cat food on a mat", "a", "", "on", "the cat sat " * 300, "the dog ran"]
QUERIES = ["cat", "dog", "the mat", "food query yes no cat dog sat " * 20, ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(write_late_interaction(tmp_path_factory.mktemp("model") / "plain"))


@pytest.fixture(scope="module")
def expanding(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "expanding"
    return str(write_late_interaction(folder, expansion=True))


@pytest.fixture(scope="module")
def scorer(folder):
    return opened(folder)


opened = cache(LateInteractionScorer)


def close(scores):
    return pytest.approx(scores, abs=2e-5)


@cache
def encoder(folder):
    from sentence_transformers import MultiVectorEncoder

    return MultiVectorEncoder(folder, device="cpu")


def reference(folder, query, documents=DOCUMENTS, change=None):
    """The scores by the model's own functions."""
    if change is None:
        model = encoder(folder)
    else:
        model = encoder.__wrapped__(folder)
        change(model)
    passages = model.encode_document(documents)
    return model.similarity(model.encode_query([query]), passages)[0].tolist()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("model", ["folder", "expanding"])
def test_scores_of_the_model(model, query, request):
    folder = request.getfixturevalue(model)
    scores = opened(folder).score_pairs(query, DOCUMENTS)
    assert scores == close(reference(folder, query))
    assert all(type(score) is float for score in scores)
    assert len(set(scores)) >= 5
    assert scores[0] == scores[-1]


def test_a_model_of_the_mean_is_scored_by_the_sum(folder, scorer, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "mean")
    settings = tmp_path / "mean" / "config_sentence_transformers.json"
    content = json.loads(settings.read_text())
    settings.write_text(json.dumps({**content, "similarity_fn_name": "meanmaxsim"}))
    mean = str(tmp_path / "mean")
    ours = LateInteractionScorer(mean).score_pairs("the mat", DOCUMENTS)
    assert ours == close(scorer.score_pairs("the mat", DOCUMENTS))
    assert ours != close(reference(mean, "the mat"))


def test_what_the_configuration_wrote_is_tokens_and_stays(folder, scorer):
    render = Rendering(prefix="[SEP] ", suffix=" [MASK] dog")
    fitting, long = render.candidates([Candidate("cat " * count) for count in (42, 300)])
    expected = reference(folder, "food", [str(fitting)])
    assert scorer.score_pairs("food", [fitting, long]) == close(expected * 2)
    assert scorer.truncated("food", [fitting, long]) == [1]


def test_texts_that_are_not_read_whole_are_reported(folder):
    reranker = Reranker(opened(folder))
    [issue] = reranker.rerank("cat", DOCUMENTS).report.issues
    assert (issue.code, issue.positions) == ("text_truncated", (5,))
    [issue] = reranker.rerank(QUERIES[3], DOCUMENTS).report.issues
    assert issue.positions == tuple(range(len(DOCUMENTS)))


def test_many_requests(scorer, monkeypatch):
    requests = [("cat", DOCUMENTS), ("dog", []), ("", DOCUMENTS[:2]), ("cat", ["mat", "a"])]
    alone = [scorer.score_pairs(query, documents) for query, documents in requests]
    model = scorer._model.get()
    encoded = []
    encode = model.passages
    monkeypatch.setattr(model, "passages", lambda texts: encoded.extend(texts) or encode(texts))
    for block in (256, 3, 1):
        monkeypatch.setattr("secondpass.scorers.late_interaction._BLOCK", block)
        encoded.clear()
        assert scorer.score_many(requests) == [close(scores) for scores in alone]
        assert sorted(encoded) == sorted({*DOCUMENTS, "mat"})  # each once
    assert scorer.score_many([("cat", [])]) == [[]]
    assert scorer.score_many([]) == []


def test_lengths(folder, expanding):
    def shorten(model):
        model[0].query_length, model[0].document_length = 8, 10

    long = ["food on the mat " * 30, "cat " * 8]
    query = "the cat sat on a mat dog ran yes no query food"
    ours = LateInteractionScorer(folder, query_length=8, document_length=10)
    assert ours.score_pairs(query, long) == close(reference(folder, query, long, shorten))
    assert ours.score_pairs(query, long) != close(reference(folder, query, long))
    extended = LateInteractionScorer(expanding, query_length=24)
    assert [len(vectors) for vectors in extended._model.get().queries(["cat", query])] == [24] * 2
    assert len(LateInteractionScorer(expanding)._model.get().queries(["cat"])[0]) == 16
    shorter = LateInteractionScorer(expanding, query_length=10)
    assert len(shorter._model.get().queries(["cat"])[0]) == 10


class Clock:
    """Time that passes only as passages are encoded."""

    def __init__(self, monkeypatch, model, seconds=0.01):
        self.now, self.seconds, self.batches = 1000.0, seconds, []
        self._encode = model.passages
        monkeypatch.setattr(model, "passages", self._passages)
        monkeypatch.setattr("secondpass.scorers.late_interaction.monotonic", lambda: self.now)

    def _passages(self, texts):
        self.now += self.seconds * len(texts)
        self.batches.append(list(texts))
        return self._encode(texts)


MANY = [f"the cat sat {number}" for number in range(100)]


def test_batches_until_a_deadline(folder, scorer, monkeypatch):
    expected = scorer.score_pairs("cat", MANY)
    hurried = LateInteractionScorer(folder)
    clock = Clock(monkeypatch, hurried._model.get())
    for seconds, least in ((0.2, 17), (0.5, 43), (10.0, 100)):
        began = clock.now
        found = [
            item
            for batch in hurried.score_batches([("cat", MANY)], began + seconds)
            for item in batch
        ]
        assert clock.now <= began + seconds
        assert least <= len(found) <= min(seconds / clock.seconds, 100)
        assert {index for _, index, _ in found} == set(range(len(found)))
        for query, index, score in found:
            assert (query, score) == (0, close(expected[index]))
    assert max(map(len, clock.batches)) == 8


@pytest.mark.parametrize("timed", [False, True])
def test_copies_are_scored_once(folder, monkeypatch, timed):
    scorer = LateInteractionScorer(folder)
    clock = Clock(monkeypatch, scorer._model.get())
    copies = [*MANY[:3], *MANY[:3] * 20, *MANY[3:20], MANY[0]]
    requests = [("cat", copies), ("dog", MANY[:2] * 2)]
    expected = {query: scorer.score_pairs(query, [*{*texts}]) for query, texts in requests}
    known = {
        query: dict(zip([*{*texts}], expected[query], strict=True)) for query, texts in requests
    }
    compared = []
    compare = scorer._model.get().scores
    monkeypatch.setattr(
        scorer._model.get(),
        "scores",
        lambda query, passages: compared.extend(passages) or compare(query, passages),
    )
    clock.batches.clear()
    deadline = clock.now + 1000 if timed else None
    found = [item for batch in scorer.score_batches(requests, deadline) for item in batch]
    assert len(compared) == 20 + 2
    assert sorted(item[:2] for item in found) == [
        (number, index) for number, (_, texts) in enumerate(requests) for index in range(len(texts))
    ]
    scores = {}
    for number, index, score in found:
        query, texts = requests[number]
        assert score == close(known[query][texts[index]])
        assert scores.setdefault((number, texts[index]), score) == score


def test_a_slow_batch(folder, monkeypatch):
    """Each call scores one passage in any case, and so learns that the model became faster."""
    hurried = LateInteractionScorer(folder)
    clock = Clock(monkeypatch, hurried._model.get(), seconds=5.0)

    def score(seconds):
        deadline = clock.now + seconds
        return sum(map(len, hurried.score_batches([("cat", MANY)], deadline)))

    assert score(0.2) == 1
    clock.seconds = 0.01
    for _ in range(20):
        last = score(0.2)
    assert last >= 17
    clock.seconds = 0.1  # slower in the middle of what was thought to fit
    began = clock.now
    score(0.3)
    assert clock.now - began <= 0.3 + 8 * 0.1
    assert score(0.0) == score(-1.0) == 0


def test_kept_passages_take_no_time(folder, monkeypatch):
    hurried = LateInteractionScorer(folder, remember=100)
    clock = Clock(monkeypatch, hurried._model.get())
    hurried.score_pairs("cat", MANY[40:])
    list(hurried.score_batches([("cat", MANY[:5])], clock.now + 1))
    found = hurried.score_batches([("cat", MANY[5:10] + MANY[40:])], clock.now + 0.06)
    assert sum(map(len, found)) == 65


def test_prompts(folder, scorer):
    other = LateInteractionScorer(folder, prompts={"query": "food ", "document": "mat "})
    theirs = reference(
        folder, "cat", change=lambda model: model.prompts.update(query="food ", document="mat ")
    )
    assert other.score_pairs("cat", DOCUMENTS) == close(theirs)
    assert other.score_pairs("cat", DOCUMENTS) != close(scorer.score_pairs("cat", DOCUMENTS))


def test_engine(folder):
    new = LateInteractionScorer(folder, batch_size=5)
    assert new.engine is None
    new.score_pairs("cat", ["a"])
    assert (new.engine.backend, new.engine.precision) == ("torch", "float32")
    assert new.engine.batch_rule == "up to 5 texts, sorted by length"
    assert new.engine.threads >= 1
    assert folder not in str(new.engine)
    new.close()
    assert new.engine is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("loaded", [True, False])
def test_fork(folder, scorer, loaded):
    shared = LateInteractionScorer(folder, remember=10)
    expected = scorer.score_pairs("cat", DOCUMENTS)
    if loaded:
        shared.score_pairs("dog", DOCUMENTS[:2])
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        timer = threading.Timer(60, os._exit, [2])
        timer.daemon = True
        timer.start()
        try:
            stale = shared.engine is not None
            os._exit(stale or shared.score_pairs("cat", DOCUMENTS) != close(expected))
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert shared.score_pairs("cat", DOCUMENTS) == close(expected)


def test_models_of_pylate(folder, tmp_path):
    """Its older versions save only the model and the projection."""
    import shutil

    old = tmp_path / "old"
    shutil.copytree(folder, old)
    modules = json.loads((old / "modules.json").read_text())
    (old / "modules.json").write_text(json.dumps(modules[:2]))
    module = json.loads((old / "sentence_bert_config.json").read_text())
    for name in ("query_length", "document_length", "query_expansion"):
        module.pop(name, None)
    (old / "sentence_bert_config.json").write_text(json.dumps(module))
    for settings in (
        {"model_type": "ColBERT", "query_prefix": "yes ", "document_prefix": "no "},
        {"query_prefix": "yes ", "document_prefix": "no ", "query_length": 20},
    ):
        (old / "config_sentence_transformers.json").write_text(json.dumps(settings))
        ours = LateInteractionScorer(str(old))
        theirs = reference(str(old), "cat", change=lambda model: None)  # files that change
        assert ours.score_pairs("cat", DOCUMENTS) == close(theirs)
        length = settings.get("query_length", 32)
        assert len(ours._model.get().queries(["cat"])[0]) == length


def test_damaged_models(folder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "truncated")
    weights = tmp_path / "truncated" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    shutil.copytree(folder, tmp_path / "garbled")
    (tmp_path / "garbled" / "config_sentence_transformers.json").write_text("{")
    for name in ("truncated", "garbled"):
        with pytest.raises(ModelLoadError, match="cannot be loaded: "):
            LateInteractionScorer(str(tmp_path / name)).warm_up()
    with pytest.raises(ModelLoadError, match=r"cannot be loaded: RuntimeError: .*bogus"):
        LateInteractionScorer(folder, device="bogus").warm_up()


def test_settings(folder):
    settings = {
        "type": "late_interaction",
        "model": folder,
        "query_length": 12,
        "prompts": {"query": "food "},
        "remember": 7,
        "token_env": "MY_HUB_TOKEN",
    }
    reranker = Reranker(settings)
    assert reranker.to_config()["method"] == settings
    for wrong, told in (
        ({}, "model: is required"),
        ({"model": "a", "remember": -1}, "remember: "),
        ({"model": "a", "prompts": {"passage": "a"}}, "prompts"),
        ({"model": "a", "model_kwargs": {"token": "a"}}, "model_kwargs.token: name its variable"),
        ({"model": "a", "token": "a", "token_env": "A"}, "token, token_env: give one of them"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            Reranker({"type": "late_interaction", **wrong})


def test_token_sources(folder, monkeypatch):
    from secondpass.scorers.hub import HubModel

    given = []
    monkeypatch.setattr(HubModel, "is_offline", lambda source: bool(given.append(source.token)))
    monkeypatch.setenv("SECOND", "hf_second")
    monkeypatch.delenv("FIRST", raising=False)
    for settings in ({"token": "hf_given"}, {"token_env": ["FIRST", "SECOND"]}, {}):
        LateInteractionScorer(folder, **settings).score_pairs("q", ["a"])
    assert given == ["hf_given", "hf_second", None]
    reranker = Reranker({"type": "late_interaction", "model": folder, "token_env": "SECOND"})
    assert "hf_second" not in repr(reranker) + repr(reranker.to_config()) + repr(vars(reranker))
