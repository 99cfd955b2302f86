"""Encoders with modules that score, without torch: as sentence-transformers scores them."""

import json
from functools import partial

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


def file(name, **changes):
    def change(folder):
        folders.edit(folder, name, **changes)
        return folder

    return change


config = partial(file, "config.json")
dense = partial(file, "2_Dense/config.json")
encoder = partial(file, "sentence_bert_config.json")


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


def with_biases_switched_off(folder):
    """As transformers, which reads none that its configuration does not name."""
    import torch

    names = ("final_norm", "embeddings.norm", "layers.0.attn.Wo", "layers.0.mlp.Wo")
    biases = {f"{name}.bias": torch.ones(32) for name in names}
    return folders.edit_weights(folder, lambda weights: {**weights, **biases})


def narrower(folder):
    """A first token of another size in the modules after the first."""
    import torch

    folders.edit(folder / "2_Dense", "config.json", out_features=16)
    folders.edit(folder / "3_LayerNorm", "config.json", dimension=16)
    folders.edit(folder / "4_Dense", "config.json", in_features=16)
    generator = torch.Generator().manual_seed(3)
    for part, shapes in {
        "2_Dense": {"linear.weight": (16, 32)},
        "3_LayerNorm": {"norm.weight": (16,), "norm.bias": (16,)},
        "4_Dense": {"linear.weight": (1, 16), "linear.bias": (1,)},
    }.items():
        weights = {name: torch.randn(*its, generator=generator) for name, its in shapes.items()}
        folders.edit_weights(folder, lambda _, weights=weights: weights, part)
    return folder


RIGHT = {
    "as stored": config(),
    "biases": configured(norm_bias=True, attention_bias=True, mlp_bias=True, norm_eps=0.01),
    "more layers": configured(num_hidden_layers=4, layer_types=None, local_attention=6),
    "as on the hub": config(
        layer_types=None,
        rope_parameters=None,
        global_attn_every_n_layers=3,
        global_rope_theta=500.0,
        local_rope_theta=77.0,
    ),
    "bfloat16": of_type("bfloat16"),
    "float16": of_type("float16"),
    "model.": named_as_a_part,
    "more weights": with_more_weights,
    "biases switched off": with_biases_switched_off,
    "narrower": narrower,
    "by an earlier sentence-transformers": encoder(
        modality_config=None,
        module_output_name=None,
        transformer_task=None,
        max_seq_length=64,
        do_lower_case=False,
    ),
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


def without_safetensors(folder):
    (folder / "4_Dense" / "model.safetensors").rename(folder / "4_Dense" / "other")
    return folder


def damaged(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    return folder


READ = {"method": "forward", "method_output_name": "last_hidden_state"}


def templated(folder):
    """Messages through a chat template, which sentence-transformers prefers to pairs."""
    both = {"text": READ, "message": {**READ, "format": "flat"}}
    folders.edit(folder, "sentence_bert_config.json", modality_config=both)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m }}{% endfor %}")
    return folder


def of_modules(change):
    def changed(folder):
        modules = json.loads((folder / "modules.json").read_text())
        change(modules)
        (folder / "modules.json").write_text(json.dumps(modules))
        return folder

    return changed


def in_a_folder_below(folder):
    (folder / "0_Transformer").mkdir()
    return of_modules(lambda modules: modules[0].update(path="0_Transformer"))(folder)


def twice(folder):
    return folders.edit_weights(
        folder,
        lambda weights: {
            **{f"model.{key}": it for key, it in weights.items()},
            "final_norm.weight": weights["final_norm.weight"] * 3,
        },
    )


def adapted(folder):
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    return folder


def damaged_header(folder):
    (folder / "model.safetensors").write_bytes(b"\x10" + bytes(7) + b'{"a":[1,2,3]}   ')
    return folder


def more_in(part, name, size):
    import torch

    return lambda folder: folders.edit_weights(
        folder, lambda weights: {**weights, name: torch.ones(size)}, part
    )


def with_token(place):
    """A token that has no vector, though there are no more tokens than vectors."""

    def change(folder):
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text())
        if place == "vocabulary":
            content["model"]["vocab"]["dog"] = 45
        else:
            new = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            content["added_tokens"].append({"id": 40, "content": "[NEW]", "special": False, **new})
        path.write_text(json.dumps(content))
        return folder

    return change


def rope(**its):
    return config(rope_parameters={"full_attention": its})


OTHER = {
    "another encoder": (config(model_type="bert"), "is no ModernBERT"),
    "code of its own": (config(auto_map={"AutoModel": "m.M"}), "is no ModernBERT"),
    "another activation": (config(hidden_activation="silu"), "has another activation"),
    "scaled positions": (
        config(rope_parameters={"full_attention": {"rope_type": "yarn"}}),
        "has scaled positions",
    ),
    "another attention": (config(layer_types=["chunked"] * 2), "has other kinds of attention"),
    "scaled positions, older": (config(rope_scaling={"type": "yarn"}), "sets rope_scaling in"),
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
    "no pooling": (
        of_modules(lambda modules: modules.pop(1)),
        "has the modules Transformer, Dense, LayerNorm, Dense",
    ),
    "no score": (of_modules(list.pop), "does not end with one score"),
    "module of its own": (folders.own_module, "own_scores.OwnScores"),
    "no safetensors": (without_safetensors, "has no model.safetensors for each module"),
    "damaged": (damaged, "has weights that cannot be read without torch"),
    "chat template": (templated, "does not read the state of its encoder"),
    "another method": (
        encoder(modality_config={"text": {**READ, "method": "get_input_embeddings"}}),
        "does not read the state of its encoder",
    ),
    "no name of the state": (encoder(module_output_name=None), "does not read the state of its"),
    "another name of the state": (encoder(module_output_name="other"), "does not read the state"),
    "another task": (encoder(transformer_task="fill-mask"), "does not read the state of its"),
    **{
        name: (encoder(**{name: {"local_attention": 2}}), f"settings of its own .*: {name}")
        for name in (
            *("config_kwargs", "config_args", "processor_kwargs", "tokenizer_args"),
            *("model_kwargs", "model_args", "tokenizer_name_or_path"),
        )
    },
    "long": (encoder(max_seq_length=100), "reads more tokens than it has positions"),
    "no length": (encoder(max_seq_length=0), "reads more tokens than it has positions"),
    "a window of its own": (config(sliding_window=1), "sets sliding_window in its config.json"),
    "another size of heads": (config(head_dim=8), "sets head_dim in its config.json"),
    "quantized": (config(quantization_config={}), "sets quantization_config in its config.json"),
    "scaled positions, type": (rope(type="linear", factor=4.0), "has scaled positions"),
    "type alone": (rope(type="linear"), "has scaled positions"),
    "part of the positions": (rope(partial_rotary_factor=0.5), "has scaled positions"),
    "one rope": (config(rope_parameters={"rope_theta": 3.0}), "has scaled positions"),
    "no rope": (config(rope_parameters={"sliding_attention": None}), "has scaled positions"),
    "no base": (rope(rope_theta=None), "has scaled positions"),
    "whole norm_eps": (config(norm_eps=1), "has a norm_eps that is no float"),
    "bias of a word": (config(norm_bias="no"), "has biases that its config.json does not name"),
    "no layers of global attention": (
        config(global_attn_every_n_layers=0),
        "has a global_attn_every_n_layers that is no number",
    ),
    "odd heads": (config(num_attention_heads=32), "has sizes that do not fit its heads"),
    "other inner size": (config(intermediate_size=32), "has a checkpoint of other sizes"),
    "two encoders": (twice, "has the weights of two encoders"),
    "adapter": (adapted, "has an adapter"),
    "folder below": (in_a_folder_below, "has its encoder in a folder of its own"),
    "no path": (of_modules(lambda modules: modules[2].pop("path")), "has modules without a path"),
    "word without a vector": (with_token("vocabulary"), "has tokens without a vector"),
    "added token without a vector": (with_token("added"), "has tokens without a vector"),
    "padding without a vector": (config(pad_token_id=40), "has tokens without a vector"),
    "bias switched off": (
        more_in("2_Dense", "linear.bias", 32),
        "has another form of the module 2_Dense",
    ),
    "more weights of a module": (
        more_in("3_LayerNorm", "norm.other", 32),
        "has another form of the module 3_LayerNorm",
    ),
    "another size of a norm": (
        file("3_LayerNorm/config.json", dimension=16),
        "has another form of the module 3_LayerNorm",
    ),
    "activation of another package": (
        dense(activation_function="activation.GELU"),
        "has another form of the module 2_Dense",
    ),
    "also mean": (
        file("1_Pooling/config.json", pooling_mode_mean_tokens=True),
        "does not pool its first token",
    ),
    "damaged header": (damaged_header, "has weights that cannot be read without torch"),
    "another type": (of_type("float64"), "has weights that cannot be read without torch"),
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
    of_type("bfloat16")(folder)  # what counts is their size in float32
    size = (folder / "model.safetensors").stat().st_size
    monkeypatch.setattr(modular_graph, "_LARGEST", size)
    with pytest.raises(choice.TorchOnlyError, match="is too large for a graph in memory"):
        scores(folder, "openvino")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (dense(bias=None), "linear.bias"),
        (config(norm_bias=True), "embeddings.norm.bias"),
        (config(attention_bias=True), "layers.0.attn.Wqkv.bias"),
        (config(mlp_bias=True), "layers.0.mlp.Wi.bias"),
        (
            lambda folder: folders.edit_weights(folder, folders.without("bias"), "3_LayerNorm"),
            "norm.bias",
        ),
    ],
)
def test_biases_that_the_configuration_says_are_there_are_named(tmp_path, change, name):
    folder = folders.modular(tmp_path / "model")
    change(folder)
    with pytest.raises(ModelLoadError, match=f"has no {name}, which its scores need"):
        scores(folder, "onnx")
    with pytest.raises(ModelLoadError, match=name.rpartition(".")[2]):
        scores(folder, "torch")


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
