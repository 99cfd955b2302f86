"""Encoders with modules that score, without torch: as sentence-transformers scores them."""

import json

import pytest

import checkpoint_folders as folders
from secondpass import ModelLoadError
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.engines import choice, modular_graph

TEXTS = ["dog", "", "the cat sat on a mat and", "a mat ran " * 9, "the cat dogs " * 40]
"""Beside others within the window of the attention, longer, and longer than the model reads."""


def scores(folder, backend, texts=TEXTS):
    scorer = CrossEncoderScorer(
        str(folder), backend=backend, precision="exact", known_answers=False, device="cpu"
    )
    result = scorer.score_pairs("the cat", texts)
    assert scorer.truncated("the cat", texts) == [4]
    return result


def as_it_is(folder):
    return folder


def configured(**changes):
    """Another encoder, of random weights."""

    def change(folder):
        import torch
        from transformers import ModernBertConfig, ModernBertModel

        folders.edit(folder, "config.json", **changes)
        torch.manual_seed(1)
        model = ModernBertModel(ModernBertConfig.from_pretrained(folder))
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(weight)
        model.save_pretrained(folder)
        return folder

    return change


def older(folder):
    """The form of config.json that is on the hub."""
    folders.edit(
        folder,
        "config.json",
        layer_types=None,
        rope_parameters=None,
        global_attn_every_n_layers=3,
        global_rope_theta=500.0,
        local_rope_theta=77.0,
    )
    return folder


def of_type(name):
    def change(folder):
        import torch

        kind = getattr(torch, name)
        for part in (".", "2_Dense", "3_LayerNorm", "4_Dense"):
            folders.edit_weights(
                folder, lambda weights: {key: it.to(kind) for key, it in weights.items()}, part
            )
        return folder

    return change


def with_more_weights(folder):
    """As transformers, without what it does not read."""
    return folders.edit_weights(
        folder,
        lambda weights: {**weights, "layers.0.attn_norm.weight": weights["final_norm.weight"] * 2},
    )


def named_as_a_part(folder):
    return folders.edit_weights(
        folder, lambda weights: {f"model.{key}": it for key, it in weights.items()}
    )


def dense(**changes):
    def change(folder):
        folders.edit(folder / "2_Dense", "config.json", **changes)
        return folder

    return change


RIGHT = {
    "as stored": as_it_is,
    "biases": configured(norm_bias=True, attention_bias=True, mlp_bias=True, norm_eps=0.01),
    "more layers": configured(num_hidden_layers=4, layer_types=None, local_attention=6),
    "older": older,
    "bfloat16": of_type("bfloat16"),
    "float16": of_type("float16"),
    "model.": named_as_a_part,
    "more weights": with_more_weights,
    "a window at the end": configured(num_hidden_layers=3, layer_types=None, local_attention=6),
    "tanh": dense(activation_function="torch.nn.modules.activation.Tanh"),
    "no activation": dense(activation_function="torch.nn.modules.linear.Identity"),
}


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
@pytest.mark.parametrize("name", RIGHT)
def test_scores_are_those_of_sentence_transformers(tmp_path, name, backend):
    folder = RIGHT[name](folders.modular(tmp_path / "model"))
    ours, theirs = scores(folder, backend), scores(folder, "torch")
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert len({round(score, 4) for score in ours}) == len(TEXTS)


def test_no_torch_is_needed(tmp_path, monkeypatch):
    folder = folders.modular(tmp_path / "model")
    monkeypatch.setattr(choice, "is_installed", lambda name: name != "sentence_transformers")
    scorer = CrossEncoderScorer(str(folder), known_answers=False)
    scorer.warm_up()
    assert scorer.engine.backend == "openvino"


def test_scores_are_kept_for_the_weights_of_all_modules(tmp_path):
    folder = folders.modular(tmp_path / "model")

    def identity():
        scorer = CrossEncoderScorer(str(folder), backend="onnx", known_answers=False)
        scorer.warm_up()
        return scorer.loaded_model.identity()

    before = identity()
    assert identity() == before
    folders.edit_weights(folder, lambda weights: {k: -w for k, w in weights.items()}, "4_Dense")
    assert identity() != before


# ---------------------------------------------------------------------- torch only


def config(**changes):
    def change(folder):
        folders.edit(folder, "config.json", **changes)
        return folder

    return change


def file(name, **changes):
    def change(folder):
        folders.edit(folder, name, **changes)
        return folder

    return change


def without_safetensors(folder):
    (folder / "4_Dense" / "model.safetensors").rename(folder / "4_Dense" / "other")
    return folder


def damaged(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    return folder


def reordered(folder):
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([modules[0], *modules[2:]]))
    return folder


def shortened(folder):
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:-1]))
    return folder


def whole_numbers(folder):
    return of_type("float64")(folder)


OTHER = {
    "another encoder": (config(model_type="bert"), "is no ModernBERT"),
    "code of its own": (config(auto_map={"AutoModel": "m.M"}), "is no ModernBERT"),
    "another activation": (config(hidden_activation="silu"), "has another activation"),
    "scaled positions": (
        config(rope_parameters={"full_attention": {"rope_type": "yarn"}}),
        "has scaled positions",
    ),
    "another attention": (config(layer_types=["chunked"] * 2), "has other kinds of attention"),
    "scaled positions, older": (config(rope_scaling={"type": "yarn"}), "or scaled positions"),
    "unnamed sizes": (config(hidden_size=None), "has sizes that its config.json does not name"),
    "other sizes": (config(vocab_size=41), "has a checkpoint of other sizes"),
    "no CrossEncoder": (
        file("config_sentence_transformers.json", model_type="SentenceTransformer"),
        "was not saved as a CrossEncoder",
    ),
    "default prompt": (
        file("config_sentence_transformers.json", prompts={"a": "b"}, default_prompt_name="a"),
        "has a default prompt",
    ),
    "another state": (
        file(
            "sentence_bert_config.json",
            modality_config={"text": {"method": "forward", "method_output_name": "pooler_output"}},
        ),
        "does not read the state of its encoder",
    ),
    "mean": (file("1_Pooling/config.json", pooling_mode="mean"), "does not pool its first token"),
    "residual": (dense(use_residual=True), "has another form of the module 2_Dense"),
    "activation of a module": (
        dense(activation_function="torch.nn.modules.activation.SiLU"),
        "has another form of the module 2_Dense",
    ),
    "another input": (dense(module_input_name="token_embeddings"), "another form of the module"),
    "no pooling": (reordered, "has the modules Transformer, Dense, LayerNorm, Dense"),
    "no score": (shortened, "does not end with one score"),
    "module of its own": (folders.own_module, "own_scores.OwnScores"),
    "no safetensors": (without_safetensors, "has no model.safetensors for each module"),
    "damaged": (damaged, "has weights that cannot be read without torch"),
    "another type": (whole_numbers, "has weights that cannot be read without torch"),
}


@pytest.mark.parametrize("name", OTHER)
def test_what_the_graph_does_not_compute_is_for_torch(tmp_path, name):
    change, message = OTHER[name]
    folder = change(folders.modular(tmp_path / "model"))
    scorer = CrossEncoderScorer(str(folder), backend="onnx", known_answers=False)
    with pytest.raises(choice.TorchOnlyError, match=message) as caught:
        scorer.warm_up()
    assert "\n" not in str(caught.value)


def test_large_models_are_for_torch(tmp_path, monkeypatch):
    folder = folders.modular(tmp_path / "model")
    monkeypatch.setattr(modular_graph, "_LARGEST", 10_000)
    with pytest.raises(choice.TorchOnlyError, match="is too large for a graph in memory"):
        scores(folder, "openvino")


@pytest.mark.parametrize("part", ["layers.1.mlp.Wo", "final_norm", "linear"])
def test_missing_weights_are_named(tmp_path, part):
    folder = folders.modular(tmp_path / "model")
    folders.edit_weights(folder, folders.without(part), "4_Dense" if part == "linear" else ".")
    with pytest.raises(ModelLoadError, match=f"its checkpoint has no {part}.weight, which its sc"):
        scores(folder, "auto")


def test_weights_of_another_shape_are_refused(tmp_path):
    import torch

    folder = folders.modular(tmp_path / "model")
    folders.edit_weights(folder, lambda _: {"linear.weight": torch.ones(32, 16)}, "2_Dense")
    for backend in ("onnx", "openvino", "auto"):
        with pytest.raises(ModelLoadError):
            scores(folder, backend)
