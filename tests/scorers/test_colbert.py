"""Models of late interaction: those of the family ``colbert``."""

import json
import shutil
import time
from functools import cache, partial

import pytest

from checkpoint_folders import edit
from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from secondpass import Candidate, ConfigurationError, InputError, ModelLoadError, Reranker
from secondpass.ranking.rendering import Rendering
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.families.descriptions import FAMILIES
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


colbert = partial(CrossEncoderScorer, family="colbert")
opened = cache(colbert)


def model_of(scorer):
    """The model that a scorer has loaded."""
    scorer.warm_up()
    return scorer.loaded_model


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


@pytest.mark.parametrize(
    ("own", "base", "message"),
    [
        ({"model_type": "SentenceTransformer"}, {"architectures": ["BertModel"]}, r"Stanford\)$"),
        ({}, {"architectures": None}, "; it fits 'classifier'"),
        (
            {"model_type": "MultiVectorEncoder"},
            {"architectures": ["Lfm2BidirectionalModel"]},
            "; it fits 'lfm2.5-colbert'",
        ),
    ],
)
def test_no_model_of_another_family_is_loaded(tmp_path, own, base, message):
    for name, content in (("config_sentence_transformers", own), ("config", base)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    with pytest.raises(ModelLoadError, match=rf"does not fit the family 'colbert' .*{message}"):
        colbert(str(tmp_path)).warm_up()


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ModelLoadError, match="cannot be loaded"):
        colbert(str(tmp_path)).warm_up()


def test_what_is_known_before_it_is_loaded_and_the_scores_that_are_kept(folder, tmp_path):
    named = colbert(folder, score_cache=str(tmp_path / "scores.db"))
    assert (named.score_kind, named.takes_instruction) == ("unbounded", False)
    expected = named.score_pairs("the mat", DOCUMENTS)
    recognised = CrossEncoderScorer(folder)
    assert recognised.score_pairs("the mat", DOCUMENTS) == expected
    assert recognised.score_kind == "unbounded"
    assert "which only torch runs" in named.engine.reason
    new = colbert(folder, score_cache=named.score_cache, batch_size=3)
    new.warm_up()
    assert new.loaded_model is not named.loaded_model
    model_of(new).run = None  # not called: the scores are remembered
    assert new.score_pairs("the mat", DOCUMENTS) == expected
    with pytest.raises(InputError, match="instruction"):
        named.score_pairs("the mat", DOCUMENTS, instruction="find")


def test_a_model_of_the_mean_is_scored_by_the_sum(folder, scorer, tmp_path):
    mean = shutil.copytree(folder, tmp_path / "mean")
    edit(mean, "config_sentence_transformers.json", similarity_fn_name="meanmaxsim")
    ours = colbert(str(mean)).score_pairs("the mat", DOCUMENTS)
    assert ours == close(scorer.score_pairs("the mat", DOCUMENTS))
    assert ours != close(reference(str(mean), "the mat"))


def test_what_the_configuration_wrote_is_tokens_and_stays(folder, scorer):
    render = Rendering(prefix="[SEP] ", suffix=" [MASK] dog")
    fitting, long = render.candidates([Candidate("cat " * count) for count in (42, 300)])
    expected = reference(folder, "food", [str(fitting)])
    assert scorer.score_pairs("food", [fitting, long]) == close(expected * 2)
    assert scorer.truncated("food", [fitting, long]) == [1]


def test_texts_that_are_not_read_whole_are_reported(folder):
    reranker, documents = Reranker(opened(folder)), [text for text in DOCUMENTS if text]
    [issue] = reranker.rerank("cat", documents).report.issues
    assert (issue.code, issue.positions) == ("text_truncated", (4,))
    issues = reranker.rerank(QUERIES[3], documents).report.issues
    assert {issue.code: issue.positions for issue in issues} == {
        "text_truncated": (4,),
        "query_truncated": tuple(range(len(documents))),
    }


def test_lengths(folder, expanding):
    def shorten(model):
        model[0].document_length = 10

    long = ["food on the mat " * 30, "cat " * 8]
    query = "the cat sat on a mat dog ran yes no query food"
    ours = colbert(folder, max_length=10)
    assert ours.score_pairs(query, long) == close(reference(folder, query, long, shorten))
    assert ours.score_pairs(query, long) != close(reference(folder, query, long))
    assert len(model_of(colbert(expanding)).encode("query", ["cat"])[0]) == 16


def test_many_requests(scorer):
    requests = [("cat", DOCUMENTS), ("dog", []), ("mat", DOCUMENTS[:2])]
    alone = [scorer.score_pairs(query, documents) for query, documents in requests]
    assert scorer.score_many(requests) == [close(scores) for scores in alone]
    assert scorer.score_many([("cat", [])]) == [[]]
    found = [item for batch in scorer.score_batches(requests, None) for item in batch]
    assert sorted(found) == [
        (number, index, close(score))
        for number, scores in enumerate(alone)
        for index, score in enumerate(scores)
    ]
    assert not list(scorer.score_batches(requests, time.monotonic() - 1))
    assert not list(scorer.score_batches([("cat", [])], None))


def test_texts_are_encoded_once_while_their_vectors_are_kept(folder, tmp_path):
    own = str(shutil.copytree(folder, tmp_path / "own"))  # shares its vectors with no other
    scorer = colbert(own, known_answers=False)
    scorer.warm_up()
    model, encoded = model_of(scorer), []
    encode = model.encoder.encode_document
    model.encoder.encode_document = lambda texts, **settings: (
        encoded.extend(texts) or encode(texts, **settings)
    )
    requests = [("cat", ["dog", "mat", "dog"]), ("food", ["dog", "on"])]
    expected = scorer.score_many(requests)
    assert scorer.score_many(requests) == [close(scores) for scores in expected]
    assert sorted(encoded) == ["dog", "mat", "on"]
    # What takes no time does not wait for a batch.
    assert [pair.length == 0 for pair in model.prepare("cat", ["on", "a"])] == [True, False]
    scorer.score_pairs("cat", [f"mat {number}" for number in range(64)])
    scorer.score_many(requests)
    assert encoded.count("dog") == 2


def test_prompts(folder, scorer):
    other = colbert(folder, prompt="food ")
    theirs = reference(folder, "cat", change=lambda model: model.prompts.update(query="food "))
    assert other.score_pairs("cat", DOCUMENTS) == close(theirs)
    assert other.score_pairs("cat", DOCUMENTS) != close(scorer.score_pairs("cat", DOCUMENTS))


def test_engine(folder):
    new = colbert(folder, batch_size=5)
    assert new.engine is None
    new.score_pairs("cat", ["a"])
    assert (new.engine.backend, new.engine.precision) == ("torch", "float32")
    assert new.engine.batch_rule == "up to 255 tokens and 5 pairs, sorted by length"
    assert new.engine.threads >= 1
    assert folder not in str(new.engine)
    new.close()
    assert new.engine is None


@NEEDS_FORK
@IGNORES_FORKS
@pytest.mark.parametrize("loaded", [True, False])
def test_fork(folder, scorer, loaded):
    shared = colbert(folder)
    expected = scorer.score_pairs("cat", DOCUMENTS)
    if loaded:
        shared.score_pairs("dog", DOCUMENTS[:2])

    def loads_again():
        return shared.engine is None and shared.score_pairs("cat", DOCUMENTS) == close(expected)

    assert ended_well(run_child(loads_again))
    assert shared.score_pairs("cat", DOCUMENTS) == close(expected)


def test_models_of_pylate(folder, tmp_path):
    """Its older versions save only the model and the projection."""
    old = shutil.copytree(folder, tmp_path / "old")
    modules = json.loads((old / "modules.json").read_text())
    (old / "modules.json").write_text(json.dumps(modules[:2]))
    lengths = ("query_length", "document_length", "query_expansion")
    edit(old, "sentence_bert_config.json", **dict.fromkeys(lengths))
    for settings in (
        {"model_type": "ColBERT", "query_prefix": "yes ", "document_prefix": "no "},
        {"query_prefix": "yes ", "document_prefix": "no ", "query_length": 20},
    ):
        (old / "config_sentence_transformers.json").write_text(json.dumps(settings))
        ours = colbert(str(old))
        theirs = reference(str(old), "cat", change=lambda model: None)  # files that change
        assert ours.score_pairs("cat", DOCUMENTS) == close(theirs)
        length = settings.get("query_length", 32)
        assert len(model_of(ours).encode("query", ["cat"])[0]) == length


OTHERS = sorted({*FAMILIES} - {"classifier"})


@pytest.mark.parametrize("family", OTHERS)
def test_a_family_that_the_default_model_has_not_needs_a_model(family):
    told = f"model: is required with the family '{family}'"
    with pytest.raises(ConfigurationError, match=told):
        Reranker({"type": "cross_encoder", "family": family})
    assert Reranker({"type": "cross_encoder", "family": family, "model": "a/b"})


def test_the_family_of_the_default_model_needs_none():
    assert Reranker({"type": "cross_encoder", "family": "classifier"})


def test_the_name_of_the_method_that_it_was():
    told = r"'type': 'cross_encoder', 'model': …, 'family': 'colbert'"
    for method in ("late_interaction", {"type": "late_interaction", "model": "a"}):
        with pytest.raises(ConfigurationError, match=told):
            Reranker(method)
