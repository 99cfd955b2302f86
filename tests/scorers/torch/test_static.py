"""Static embeddings, of model2vec and of sentence-transformers: scores, lengths, refusals."""

import numpy as np
import pytest

import checkpoint_folders as folders
from secondpass import ModelLoadError, Reranker
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from static_models import model2vec, write_static, write_trained

LONG = "a mat ran on the cat " * 3000
PASSAGES = ["dog", "", "the cat sat", "xyz", "dog xyz food, xyz", LONG]
FORMS = {
    "potion": {},
    "quantised vocabulary": {"clusters": 7},
    "unigram": {"kind": "Unigram"},
    "half precision": {"dtype": "float16"},
}


def scorer_of(folder, **settings):
    return CrossEncoderScorer(str(folder), **{"known_answers": False, "device": "cpu", **settings})


@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_model2vec(tmp_path, form):
    folder = write_static(tmp_path / "model", **FORMS[form])
    scorer = scorer_of(folder)
    theirs = model2vec(folder, "which cat?", PASSAGES)
    assert scorer.score_pairs("which cat?", PASSAGES) == pytest.approx(theirs, abs=1e-4)
    assert len({round(score, 4) for score in theirs}) == 5  # of no known word: 0
    assert scorer.truncated("which cat?", PASSAGES) == []
    assert (scorer.score_kind, scorer.engine.precision) == ("similarity", "float32")


def test_scores_are_those_of_the_package_itself(tmp_path):
    package = pytest.importorskip("model2vec")
    folder = write_static(tmp_path / "model", clusters=7)
    model = package.StaticModel.from_pretrained(str(folder))
    query = model.encode(["which cat?"])[0]
    theirs = (model.encode(PASSAGES, max_length=None) @ query).tolist()
    assert scorer_of(folder).score_pairs("which cat?", PASSAGES) == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("described", [False, True])
def test_scores_are_those_of_sentence_transformers(tmp_path, described):
    from sentence_transformers import SentenceTransformer

    folder = write_trained(tmp_path / "model")
    encoder = SentenceTransformer(str(folder), device="cpu")
    theirs = encoder.similarity(encoder.encode_query(["cat"]), encoder.encode_document(PASSAGES))
    family = {
        "title": "static embeddings",
        "match": {"modules": "StaticEmbedding"},
        "run": {"model": "SentenceTransformer"},
        "read": {"own": True},
        "scale": {"kind": "similarity"},
    }
    scorer = scorer_of(folder, family=family if described else None)
    assert scorer.score_pairs("cat", PASSAGES) == pytest.approx(theirs[0].tolist(), abs=1e-4)
    assert scorer.truncated("cat", PASSAGES) == []


def test_a_tokenizer_that_cuts_is_reported(tmp_path):
    folder = write_static(tmp_path / "model", cut=8)
    report = Reranker(scorer_of(folder)).rerank("cat", ["dog", "the cat sat on a mat " * 3]).report
    assert [issue.code for issue in report.issues] == ["text_truncated"]
    report = Reranker(scorer_of(folder)).rerank("cat", ["dog", "the cat sat on a mat, dog"]).report
    assert report.issues == ()  # eight tokens


def test_control_tokens_in_texts_are_characters(tmp_path):
    folder = write_static(tmp_path / "model")
    before = scorer_of(folder).score_pairs("cat [SEP]", ["dog [SEP] food"])

    def change(weights):
        weights["embeddings"][3] += 5  # the token [SEP]
        return weights

    folders.edit_weights(folder, change)
    assert scorer_of(folder).score_pairs("cat [SEP]", ["dog [SEP] food"]) == before


def test_other_vectors_are_another_model_for_the_score_cache(tmp_path):
    folder = write_static(tmp_path / "model")
    scorer = scorer_of(folder)
    scorer.warm_up()
    first = scorer.loaded_model.identity()
    folders.edit_weights(folder, lambda weights: {key: it * 2 for key, it in weights.items()})
    scorer = scorer_of(folder)
    scorer.warm_up()
    assert first["vectors"] != scorer.loaded_model.identity()["vectors"]


def remove(name):
    return lambda folder: (folder / name).unlink()


def weights(change):
    return lambda folder: folders.edit_weights(folder, change)


def quantised(folder):
    write_static(folder, dtype="int8")


REFUSED = {
    "no tokenizer": (remove("tokenizer.json"), "its static embeddings have no tokenizer.json"),
    "no weights": (remove("model.safetensors"), "static embeddings have no model.safetensors"),
    "other weights": (
        weights(lambda all_: {"matrix": all_["embeddings"]}),
        "neither 'embedding.weight' nor 'embeddings', the vectors of its tokens",
    ),
    "integers": (quantised, "stored as I8, which sentence-transformers does not read"),
    "fewer vectors": (
        weights(lambda all_: {"embeddings": all_["embeddings"][:9].clone()}),
        "has 9 token vectors, and its tokenizer 17 tokens: it is the tokenizer of another",
    ),
    "more vectors": (
        weights(lambda all_: {"embeddings": all_["embeddings"].repeat(3, 1)}),
        "has 51 token vectors, and its tokenizer only 17 tokens",
    ),
    "no numbers": (
        weights(lambda all_: {"embeddings": np.nan * all_["embeddings"]}),
        "its weights give no finite score",
    ),
    "no modules.json": (
        remove("modules.json"),
        "StaticModel that fits no description of a reranker: it has no modules.json, with which",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_ones_are_refused_by_the_part(tmp_path, name):
    damage, message = REFUSED[name]
    folder = write_static(tmp_path / "model")
    damage(folder)
    with pytest.raises(ModelLoadError, match=message) as caught:
        scorer_of(folder).warm_up()
    assert "\n" not in str(caught.value)
