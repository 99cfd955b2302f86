"""What ``doctor`` says of a model."""

import json
import shutil
from types import SimpleNamespace

import pytest

import family_models as families
from command_fixtures import *  # noqa: F403
from secondpass.ranking.blending import sigmoid
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.inspection import PASSAGE, QUERY, compared, inspect_model
from terminals import on_a_terminal
from tiny_models import write_classifier, write_late_interaction


def test_a_described_model(tmp_path):
    folder = families.write_causal_family(tmp_path / "mxbai-rerank-base-v2", "Qwen2")
    found = inspect_model(str(folder))
    assert (found["family"], found["verified"]) == ("mxbai-rerank-v2", "0.1.6")
    assert found["reasons"] == ["architectures Qwen2ForCausalLM", "the name mxbai-rerank-base-v2"]
    assert found["read_out"] == "the logit of '1' minus the logit of '0' at the last token"
    assert found["tokens"][0] == "<|im_start|>"
    assert isinstance(found["score"], float)
    assert found["engine"]["backend"] == "torch"
    assert "8,192 tokens" in found["cut"]
    assert "refused" not in found


def test_models_by_their_own_files(tmp_path):
    chat = inspect_model(str(families.write_chat_reranker(tmp_path / "chat")))
    assert chat["family"] == "logit-score"
    assert chat["read_out"] == "the logit of 'yes' minus the logit of 'no' at the last token"
    assert "<|im_end|>" in chat["tokens"]
    assert inspect_model(str(write_classifier(tmp_path / "bert")))["tokens"][0] == "[CLS]"
    late = inspect_model(str(write_late_interaction(tmp_path / "late")))
    assert (late["family"], late["score_kind"], "tokens" in late) == ("colbert", "unbounded", False)


def test_a_model_of_no_family(tmp_path):
    folder = families.write_causal_family(tmp_path / "judge", "Qwen3")
    found = inspect_model(str(folder))
    assert "fits no description" in found["refused"]
    assert "draft" not in found


def test_what_is_no_model(tmp_path):
    assert "cannot be loaded" in inspect_model(str(tmp_path))["refused"]
    (tmp_path / "config.json").write_text("{")
    assert "cannot be loaded" in inspect_model(str(tmp_path))["refused"]
    broken = families.write_listwise(tmp_path / "jina-reranker-v3")
    (broken / "model.safetensors").unlink()
    assert "cannot be loaded" in inspect_model(str(broken))["refused"]


# ---------------------------------------------------------------------- the engine


def test_what_runs_is_what_auto_chooses(folder):
    scorer = CrossEncoderScorer(folder)
    scorer.warm_up()
    found = inspect_model(folder)
    engine = scorer.engine
    assert engine.backend != "torch"
    assert found["engine"] == {
        "backend": engine.backend,
        "precision": engine.precision,
        "reason": engine.reason,
    }
    [expected] = scorer.score_pairs(QUERY, [PASSAGE])
    assert found["score"] == pytest.approx(expected, abs=0.01)
    torch = CrossEncoderScorer(folder, backend="torch")
    torch.warm_up()
    features = torch.loaded_model.encoder.preprocess([(QUERY, PASSAGE)])
    tokens = torch.loaded_model.encoder.tokenizer.convert_ids_to_tokens(features["input_ids"][0])
    assert found["tokens"] == tokens


@pytest.mark.parametrize("whole", [True, False])
def test_a_broken_file_that_auto_would_take(folder, tmp_path, whole):
    broken = shutil.copytree(folder, tmp_path / "model")
    content = (broken / "onnx" / "model.onnx").read_bytes()
    (broken / "onnx" / "model.onnx").write_bytes(content[: len(content) // 2])
    if not whole:
        (broken / "model.safetensors").write_bytes(b"")
    refused = inspect_model(str(broken))["refused"]
    assert "cannot load 'model.onnx'" in refused
    assert ("weights are whole, and `backend: torch` runs them" in refused) is whole


# ---------------------------------------------------------------------- known scores

PAIRS = [("cat", "the cat sat on the mat"), ("dog", "the dog ran"), ("cat", "food")]


def known_pairs(folder, change=float):
    scorer = CrossEncoderScorer(folder, backend="torch", precision="exact")
    return [(query, text, change(*scorer.score_pairs(query, [text]))) for query, text in PAIRS]


def test_scores_that_agree_with_known_ones(folder):
    for change, activation in ((float, "none"), (sigmoid, "sigmoid")):
        found = inspect_model(folder, None, known_pairs(folder, change), 0.1)["against"]
        assert (found["agrees"], found["pairs"], found["activation"]) == (True, 3, activation)
        assert found["largest_difference"] <= 0.1


def test_scores_that_differ_from_known_ones(folder):
    pairs = known_pairs(folder)
    pairs[1] = (*pairs[1][:2], pairs[1][2] + 3)
    found = inspect_model(folder, None, pairs)["against"]
    assert not found["agrees"]
    assert (found["pair"], found["known"]) == (2, pairs[1][2])
    assert found["largest_difference"] == pytest.approx(3, abs=0.1)
    assert inspect_model(folder, None, pairs, 3.1)["against"]["agrees"]


def test_reduced_precision_may_differ_more():
    class Reduced:
        score_kind = "logit"
        engine = SimpleNamespace(precision="bfloat16")

        def score_many(self, requests):
            return [[float(text) for text in texts] for _, texts in requests]

    known = [("q", "-4.1", -4.0), ("q", "4", 4.0)]
    assert compared(Reduced(), known)["agrees"]
    Reduced.engine.precision = "float32"
    assert not compared(Reduced(), known)["agrees"]
    found = compared(Reduced(), [("q", "nan", 1.0), ("q", "9", 2.0)])
    assert (found["agrees"], found["pair"], found["score"]) == (False, 1, None)


def test_a_list_is_scored_in_the_order_of_the_file(tmp_path):
    model = str(families.write_listwise(tmp_path / "jina-reranker-v3"))
    scorer = CrossEncoderScorer(model)
    texts = ["the cat sat", "dog", "a mat"]
    scores = scorer.score_pairs("cat", texts)
    pairs = [("cat", text, score) for text, score in zip(texts, scores, strict=True)]
    pairs.insert(1, ("dog", "dog", *scorer.score_pairs("dog", ["dog"])))
    assert inspect_model(model, None, pairs, 1e-5)["against"]["agrees"]


def test_the_command_compares(folder, secondpass, tmp_path):
    path = tmp_path / "pairs.jsonl"
    for more, code, shown in ((0, 0, "agrees: "), (3, 1, "differs: ")):
        lines = [
            json.dumps({"query": query, "text": text, "score": score + more})
            for query, text, score in known_pairs(folder)
        ]
        path.write_text("\n".join(lines))
        call = ["doctor", folder, "--against", str(path), "--tolerance", "0.1"]
        told = secondpass(*call)
        found = json.loads(told.out)["model"]
        assert (told.code, found["against"]["agrees"]) == (code, not more)
        screen = on_a_terminal(*call, env={"COLUMNS": "300", "NO_COLOR": "1"})
        assert shown in screen
        assert "the scores of 3 pairs: the largest difference is " in screen
        assert f"runs on {found['engine']['backend']} in " in screen
    for wrong, message in (
        (["doctor", "--against", str(path)], "--against: needs a MODEL"),
        (["doctor", folder, "--tolerance", "1"], "--tolerance: needs --against"),
        (["doctor", folder, "--against", str(tmp_path / "none")], "none"),
    ):
        told = secondpass(*wrong)
        assert told.code != 0
        assert message in told.err
