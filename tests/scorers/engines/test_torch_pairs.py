"""Cross-encoders on torch, with an encoder that records how it is loaded and called."""

from types import SimpleNamespace

import pytest

from secondpass import ModelLoadError
from secondpass.scorers.engines import torch_pairs
from secondpass.scorers.engines.torch_pairs import TextPair, TorchModel
from secondpass.scorers.hub import HubModel


@pytest.fixture
def encoder(monkeypatch):
    """In place of a loaded ``CrossEncoder``; the score of a pair is the passage's length."""
    import sentence_transformers
    import torch

    def predict(pairs, **settings):
        calls.append((pairs, settings))
        return torch.tensor([float(len(passage)) for _, passage in pairs])

    def load(name, **arguments):
        encoder.arguments = {"name": name, **arguments}
        weights = torch.zeros(1, dtype=arguments["model_kwargs"]["dtype"])
        encoder.parameters = lambda: iter([weights])
        return encoder

    calls = []
    encoder = SimpleNamespace(
        prompts={"web": "Search: ", "mail": ""},
        num_labels=1,
        tokenizer=SimpleNamespace(),
        device=SimpleNamespace(type="cpu"),
        max_seq_length=64,
        predict=predict,
        calls=calls,
    )
    monkeypatch.setattr(sentence_transformers, "CrossEncoder", load)
    return encoder


def loaded(name="some/model", **settings):
    defaults = {"device": "auto", "precision": "exact", "dtype": None, "options": {}}
    prompts = {"prompt": None, "prompt_name": None}
    return TorchModel(HubModel(name), True, **{**defaults, **prompts, **settings})


@pytest.mark.parametrize(
    ("fast", "precision", "dtype", "expected"),
    [
        (True, "auto", None, "bfloat16"),
        (True, "exact", None, "float32"),
        (False, "auto", None, "float32"),
        (True, "auto", "float16", "float16"),
    ],
)
def test_precision(encoder, monkeypatch, fast, precision, dtype, expected):
    monkeypatch.setattr(torch_pairs, "_is_fast", lambda device: fast and device == "cpu")
    model = loaded(device="cpu", precision=precision, dtype=dtype)
    assert model.precision == model.identity()["precision"] == expected
    assert encoder.arguments["local_files_only"] is True


@pytest.mark.parametrize(
    ("device", "processor", "gpu", "fast"),
    [
        ("cpu", True, None, True),
        ("cpu", False, True, False),
        ("auto", True, None, True),
        ("auto", False, True, True),
        ("auto", True, False, False),
        ("cuda:1", False, True, True),
        ("cuda", True, False, False),
        ("cuda", True, None, False),
        ("mps", True, True, False),
    ],
)
def test_bfloat16_only_where_it_is_fast(monkeypatch, device, processor, gpu, fast):
    """``gpu`` is None without one, else whether it has bfloat16."""
    import torch

    def is_supported(*, including_emulation):
        assert not including_emulation
        return gpu

    monkeypatch.setattr(torch_pairs, "has_fast_bfloat16", lambda: processor)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu is not None)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    assert torch_pairs._is_fast(device) is fast


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({}, {"prompt_name": "x"}, "the model 'some/model' has no prompt 'x'; it has: web, mail$"),
        ({"prompts": {}}, {"prompt_name": "x"}, "has no prompt 'x'; it has: none$"),
        ({"num_labels": 3}, {}, "the model 'some/model' has 3 labels; a reranker has one"),
    ],
    ids=["prompt", "no prompts", "labels"],
)
def test_models_that_do_not_fit(encoder, changes, settings, message):
    vars(encoder).update(changes)
    with pytest.raises(ModelLoadError, match=message):
        loaded(**settings)
    assert not hasattr(encoder.tokenizer, "split_special_tokens")


@pytest.mark.parametrize(("device", "budget"), [("cpu", 768), ("cuda", 16_384)])
def test_the_budget_depends_on_the_device(encoder, device, budget):
    encoder.device.type = device
    model = loaded()
    assert (model.budget, model.device) == (budget, device)


def test_a_tokenizer_without_the_setting_is_left_alone(encoder):
    loaded()
    assert encoder.tokenizer.split_special_tokens is True
    encoder.tokenizer = object()
    loaded()


CONFIGS = {
    "roberta": ({"model_type": "roberta", "pad_token_id": 1}, 50, 48),
    "roberta, shorter limit": ({"model_type": "roberta", "pad_token_id": 1}, 514, 64),
    "bert": ({"model_type": "bert"}, 50, 64),
}


@pytest.mark.parametrize(("config", "positions", "longest"), CONFIGS.values(), ids=CONFIGS)
def test_pairs_are_cut_to_the_positions_that_tokens_have(encoder, config, positions, longest):
    held = SimpleNamespace(max_position_embeddings=positions, to_dict=lambda: config)
    encoder.model = SimpleNamespace(config=held)
    (pair,) = loaded().prepare("q", ["p" * 10_000])
    assert (encoder.max_seq_length, pair.length) == (longest, longest)


def test_a_model_without_a_limit(encoder):
    encoder.max_seq_length = None
    (pair,) = loaded().prepare("q", ["p" * 10_000])
    assert pair.length == 3 + 10_001 // 4
    assert encoder.max_seq_length is None


@pytest.mark.parametrize(
    ("prompt", "instruction", "expected"),
    [
        (None, None, None),
        (None, "x", None),
        ("find", None, "find"),
        ("find", "x", "find"),
        ("a {instruction}: ", "news", "a news: "),
        ("a {instruction}: ", "{instruction}", "a {instruction}: "),
        ("a {instruction}: ", None, None),
        ("a {instruction}: ", "", "a : "),
    ],
)
def test_the_prompt_counts_towards_the_length(encoder, prompt, instruction, expected):
    pairs = loaded(prompt=prompt).prepare("12345", ["", "1234567"], instruction=instruction)
    size = len(expected or "") + 5
    assert pairs == [
        TextPair("12345", "", 3 + size // 4, expected),
        TextPair("12345", "1234567", 3 + (size + 7) // 4, expected),
    ]


def test_each_prompt_has_a_forward_pass(encoder):
    model = loaded(prompt_name="web")
    prompts = [None, "b", None, "a", "b"]
    pairs = [TextPair("q", "p" * number, 9, prompt) for number, prompt in enumerate(prompts)]
    assert model.run(pairs) == [0.0, 1.0, 2.0, 3.0, 4.0]
    passes = [
        (settings["prompt"], settings["prompt_name"], settings["batch_size"], len(texts))
        for texts, settings in encoder.calls
    ]
    assert passes == [(None, "web", 2, 2), ("b", None, 2, 2), ("a", None, 1, 1)]


def test_the_identity_has_the_files_that_torch_reads(encoder, tmp_path):
    name = str(tmp_path)
    identities = [loaded(name).identity()]
    for place in ("model.safetensors", "1_Module/weights", "onnx/model.onnx", "openvino/model.bin"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_bytes(b"weights")
        identities.append(loaded(name).identity())
    assert identities[0] != identities[1] != identities[2] == identities[3] == identities[4]


@pytest.mark.parametrize(
    "settings",
    [{"prompt": "x"}, {"prompt_name": "web"}, {"options": {"max_length": 9}}, {"dtype": "float16"}],
)
def test_the_identity_has_settings(encoder, settings):
    assert loaded(**settings).identity() != loaded().identity()
