"""Encoders with modules that score, without torch: as sentence-transformers scores them."""

import json
from functools import partial

import pytest

import checkpoint_folders as folders
from secondpass import ModelLoadError
from secondpass.scorers import choice
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.runtimes import modular_graph
from secondpass.scorers.runtimes.runtime import backends_by_speed

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
            weights(lambda its: {key: it.to(kind) for key, it in its.items()}, part)(folder)
        return folder

    return change


def weights(change, part="."):
    return lambda folder: folders.edit_weights(folder, change, part)


def ones(*names, size=32):
    import torch

    return {name: torch.ones(size) for name in names}


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
        new = {name: torch.randn(*its, generator=generator) for name, its in shapes.items()}
        weights(lambda _, new=new: new, part)(folder)
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
    "model.": weights(lambda its: {f"model.{key}": weight for key, weight in its.items()}),
    # transformers reads no weights that its configuration does not name, either
    "more weights": weights(
        lambda its: {**its, "layers.0.attn_norm.weight": its["final_norm.weight"] * 2}
    ),
    "biases switched off": weights(
        lambda its: {
            **its,
            **ones("final_norm.bias", "embeddings.norm.bias", "layers.0.attn.Wo.bias"),
        }
    ),
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


@pytest.mark.parametrize("name", RIGHT)
def test_scores_are_those_of_sentence_transformers(tmp_path, name):
    folder = RIGHT[name](folders.modular(tmp_path / "model"))
    theirs = scores(folder, "torch")
    assert len({round(score, 4) for score in theirs}) == len(TEXTS)
    for backend in ("onnx", "openvino"):
        assert scores(folder, backend) == pytest.approx(theirs, abs=1e-4), backend


def test_no_torch_is_needed(tmp_path, monkeypatch):
    folder = folders.modular(tmp_path / "model")
    monkeypatch.setattr(choice, "is_installed", lambda name: name != "sentence_transformers")
    scorer = CrossEncoderScorer(str(folder), known_answers=False)
    scorer.warm_up()
    assert scorer.engine.backend == backends_by_speed()[0]


def test_scores_are_kept_for_the_weights_of_all_modules(tmp_path):
    folder = folders.modular(tmp_path / "model")

    def identity():
        scorer = CrossEncoderScorer(str(folder), backend="onnx", known_answers=False)
        scorer.warm_up()
        return scorer.loaded_model.identity()

    before = identity()
    assert identity() == before
    weights(lambda its: {key: -weight for key, weight in its.items()}, "4_Dense")(folder)
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


def adapted(folder):
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    return folder


def damaged_header(folder):
    (folder / "model.safetensors").write_bytes(b"\x10" + bytes(7) + b'{"a":[1,2,3]}   ')
    return folder


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


SETTINGS_OF_LOADERS = (
    *("config_kwargs", "config_args", "processor_kwargs", "tokenizer_args"),
    *("model_kwargs", "model_args", "tokenizer_name_or_path"),
)

OTHER = {  # what is said: changes
    "is no ModernBERT": [config(model_type="bert"), config(auto_map={"AutoModel": "m.M"})],
    "has another activation": [config(hidden_activation="silu")],
    "has scaled positions": [
        rope(rope_type="yarn"),
        rope(type="linear", factor=4.0),
        rope(type="linear"),
        rope(partial_rotary_factor=0.5),
        rope(rope_theta=None),
        config(rope_parameters={"rope_theta": 3.0}),
        config(rope_parameters={"sliding_attention": None}),
    ],
    "has other kinds of attention": [config(layer_types=["chunked"] * 2)],
    "sets rope_scaling in": [config(rope_scaling={"type": "yarn"})],
    "sets sliding_window in its config.json": [config(sliding_window=1)],
    "sets head_dim in its config.json": [config(head_dim=8)],
    "sets quantization_config in its config.json": [config(quantization_config={})],
    "has sizes that its config.json does not name": [config(hidden_size=None)],
    "has sizes that do not fit its heads": [config(num_attention_heads=32)],
    "has a checkpoint of other sizes": [config(vocab_size=41), config(intermediate_size=32)],
    "has a norm_eps that is no float": [config(norm_eps=1)],
    "has biases that its config.json does not name": [config(norm_bias="no")],
    "has a global_attn_every_n_layers that is no number": [config(global_attn_every_n_layers=0)],
    "is one of bi-encoders": [
        file("config_sentence_transformers.json", model_type="SentenceTransformer")
    ],
    "has a default prompt": [
        file("config_sentence_transformers.json", prompts={"a": "b"}, default_prompt_name="a")
    ],
    "does not read the state of its encoder": [
        encoder(modality_config={"text": {**READ, "method_output_name": "pooler_output"}}),
        encoder(modality_config={"text": {**READ, "method": "get_input_embeddings"}}),
        encoder(module_output_name=None),
        encoder(module_output_name="other"),
        encoder(transformer_task="fill-mask"),
        templated,
    ],
    **{
        f"settings of its own .*: {name}": [encoder(**{name: {"local_attention": 2}})]
        for name in SETTINGS_OF_LOADERS
    },
    "reads more tokens than it has positions": [
        encoder(max_seq_length=100),
        encoder(max_seq_length=0),
    ],
    "does not pool its first token": [
        file("1_Pooling/config.json", pooling_mode="mean"),
        file("1_Pooling/config.json", pooling_mode_mean_tokens=True),
    ],
    "has another form of the module 2_Dense": [
        dense(use_residual=True),
        dense(activation_function="torch.nn.modules.activation.SiLU"),
        dense(activation_function="activation.GELU"),
        dense(module_input_name="token_embeddings"),
        weights(lambda its: {**its, **ones("linear.bias")}, "2_Dense"),
    ],
    "has another form of the module 3_LayerNorm": [
        file("3_LayerNorm/config.json", dimension=16),
        weights(lambda its: {**its, **ones("norm.other")}, "3_LayerNorm"),
    ],
    "has the modules Transformer, Dense, LayerNorm, Dense": [
        of_modules(lambda modules: modules.pop(1))
    ],
    "does not end with one score": [of_modules(list.pop)],
    "own_scores.OwnScores": [folders.own_module],
    "has modules without a path": [of_modules(lambda modules: modules[2].pop("path"))],
    "has its encoder in a folder of its own": [in_a_folder_below],
    "has no model.safetensors for each module": [without_safetensors],
    "has weights that cannot be read without torch": [damaged, damaged_header, of_type("float64")],
    "has the weights of two encoders": [
        weights(lambda its: {**its, **ones("model.final_norm.weight")})
    ],
    "has an adapter": [adapted],
    "has tokens without a vector": [
        with_token("vocabulary"),
        with_token("added"),
        config(pad_token_id=40),
    ],
}


@pytest.mark.parametrize(
    ("message", "change"),
    [(message, change) for message, changes in OTHER.items() for change in changes],
)
def test_what_the_graph_does_not_compute_is_for_torch(tmp_path, message, change):
    folder = change(folders.modular(tmp_path / "model"))
    scorer = CrossEncoderScorer(str(folder), backend="onnx", known_answers=False)
    with pytest.raises(ModelLoadError, match=message) as caught:
        scorer.warm_up()
    assert "\n" not in str(caught.value)


def test_large_models_are_for_torch(tmp_path, monkeypatch):
    folder = folders.modular(tmp_path / "model")
    of_type("bfloat16")(folder)  # what counts is their size in float32
    size = (folder / "model.safetensors").stat().st_size
    monkeypatch.setattr(modular_graph, "_LARGEST", size)
    with pytest.raises(ModelLoadError, match="is too large for a graph in memory"):
        scores(folder, "openvino")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (dense(bias=None), "linear.bias"),
        (config(norm_bias=True), "embeddings.norm.bias"),
        (config(attention_bias=True), "layers.0.attn.Wqkv.bias"),
        (config(mlp_bias=True), "layers.0.mlp.Wi.bias"),
        (weights(folders.without("bias"), "3_LayerNorm"), "norm.bias"),
        (weights(folders.without("layers.1.mlp.Wo")), "layers.1.mlp.Wo.weight"),
        (weights(folders.without("final_norm")), "final_norm.weight"),
        (weights(folders.without("linear"), "4_Dense"), "linear.weight"),
    ],
)
def test_missing_weights_are_named(tmp_path, change, name):
    folder = change(folders.modular(tmp_path / "model"))
    with pytest.raises(ModelLoadError, match=f"its checkpoint has no {name}, which its scores"):
        scores(folder, "auto")
    with pytest.raises(ModelLoadError, match=name.rpartition(".")[2]):
        scores(folder, "torch")


def test_weights_of_another_shape_are_refused(tmp_path):
    narrow = weights(lambda _: ones("linear.weight", size=(32, 16)), "2_Dense")
    folder = narrow(folders.modular(tmp_path / "model"))
    for backend in ("onnx", "openvino", "auto"):
        with pytest.raises(ModelLoadError):
            scores(folder, backend)
