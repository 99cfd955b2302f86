"""Folders of tiny models, right and wrong, each named by what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiny_architectures import write_architecture
from tiny_models import write_causal, write_classifier, write_late_interaction, write_raw_causal


def edit(folder: Path, name: str, **changes: Any) -> None:
    """Change members of a JSON file; None removes one."""
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {}
    content.update(changes)
    path.write_text(json.dumps({key: it for key, it in content.items() if it is not None}))


def edit_weights(
    folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]], name: str = "."
) -> Path:
    """Change the weights of a checkpoint."""
    from safetensors.torch import load_file, save_file

    path = folder / name / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})
    return folder


def without(*parts: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Without the weights whose names have one of these parts."""
    return lambda weights: {
        key: it for key, it in weights.items() if not any(part in key for part in parts)
    }


def modular(folder: Path) -> Path:
    """An encoder and modules that score its first token, as ettin-reranker is stored."""
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

    base = write_architecture(folder.with_name(f"{folder.name}-base"), "modernbert")
    gelu = torch.nn.GELU()
    CrossEncoder(
        modules=[
            Transformer(str(base)),
            Pooling(32, pooling_mode="cls"),
            Dense(32, 32, bias=False, activation_function=gelu),
            LayerNorm(32),
            Dense(32, 1, activation_function=None, module_output_name="scores"),
        ],
        device="cpu",
    ).save_pretrained(str(folder), create_model_card=False)
    return folder


def sharded(folder: Path) -> Path:
    """The weights are in several files."""
    from transformers import AutoModelForSequenceClassification

    write_classifier(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    return folder


def half_sharded(folder: Path) -> Path:
    """One of the files of weights lacks what the index says of it."""
    sharded(folder)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    file = index["weight_map"].pop("bert.encoder.layer.1.output.dense.weight")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    from safetensors.torch import load_file, save_file

    weights = without("layer.1.output.dense.weight")(load_file(folder / file))
    save_file(weights, folder / file, metadata={"format": "pt"})
    return folder


def pickled(folder: Path) -> Path:
    """The weights are in ``pytorch_model.bin``."""
    import torch
    from safetensors.torch import load_file

    write_classifier(folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def with_more_weights(folder: Path) -> Path:
    """The checkpoint has weights that the model does not use, as of a training head."""
    import torch

    more = {"mlm.weight": torch.ones(3, 3), "bert.embeddings.position_ids": torch.arange(64)[None]}
    return edit_weights(write_classifier(folder), lambda weights: weights | more)


def tied(folder: Path) -> Path:
    """A causal reranker whose output weights are those of its input."""
    return _with_read_out(
        write_raw_causal(folder.with_name(f"{folder.name}-raw"), tied=True), folder
    )


def untemplated(folder: Path) -> Path:
    """A causal reranker with the ids of its answer, and without a template."""
    raw = write_raw_causal(folder.with_name(f"{folder.name}-raw"))
    (raw / "chat_template.jinja").unlink()
    return _with_read_out(raw, folder)


def _with_read_out(raw: Path, folder: Path) -> Path:
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    modules = [Transformer(str(raw), transformer_task="text-generation"), LogitScore(5)]
    encoder = CrossEncoder(modules=modules, device="cpu")
    encoder.save_pretrained(str(folder), create_model_card=False)
    return folder


def bare(folder: Path, auto: str = "AutoModel") -> Path:
    """The encoder of a classifier, saved as a model of its own."""
    import transformers

    write_classifier(folder)
    getattr(transformers, auto).from_pretrained(folder).save_pretrained(folder)
    return folder


def without_head(folder: Path) -> Path:
    """A classifier whose checkpoint is that of its encoder."""
    return edit_weights(write_classifier(folder), without("classifier"))


def masked(folder: Path) -> Path:
    """A masked language model."""
    return bare(folder, "AutoModelForMaskedLM")


def sparse(folder: Path) -> Path:
    """A masked language model as sentence-transformers stores SPLADE."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    write_classifier(folder)
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig.from_pretrained(folder)).save_pretrained(folder)
    edit(folder, "config_sentence_transformers.json", model_type="SparseEncoder")
    return folder


def embedder(folder: Path) -> Path:
    """A bi-encoder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    base = bare(folder.with_name(f"{folder.name}-base"))
    modules = [Transformer(str(base)), Pooling(32), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder))
    return folder


def causal_embedder(folder: Path) -> Path:
    """A bi-encoder whose config.json names a causal model, as Qwen3-Embedding's does."""
    write_raw_causal(folder)
    types = ("base.modules.transformer.Transformer", "sentence_transformer.modules.pooling.Pooling")
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.{kind}"}
        for index, (kind, path) in enumerate(zip(types, ("", "1_Pooling"), strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def flash(folder: Path) -> Path:
    """Remote code with fused attention and the class of a plain model: jina-reranker-v2's form."""
    write_architecture(folder, "xlm-roberta")
    edit(
        folder,
        "config.json",
        auto_map={"AutoModelForSequenceClassification": "modeling.XLMRobertaFlash"},
    )
    return edit_weights(folder, without("attention.self"))


def unable(folder: Path) -> Path:
    """A causal reranker with a chat template that shows neither query nor document."""
    write_causal(folder)
    (folder / "chat_template.jinja").write_text(
        "{% for message in messages if message['role'] == 'user' %}{{ message['content'] }}"
        "{% endfor %}"
    )
    return folder


def sequence_to_sequence(folder: Path) -> Path:
    """monoT5's form."""
    from transformers import T5Config, T5ForConditionalGeneration

    write_classifier(folder)
    config = T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def listwise(folder: Path) -> Path:
    """jina-reranker-v3's form."""
    write_raw_causal(folder)
    edit(
        folder,
        "config.json",
        architectures=["JinaForRanking"],
        auto_map={"AutoModel": "modeling.JinaForRanking"},
    )
    return folder


def incomplete(folder: Path) -> Path:
    """One matrix of the attention is missing."""
    return edit_weights(write_classifier(folder), without("layer.1.attention.self.query.weight"))


def other_shape(folder: Path) -> Path:
    """A head for another width."""
    import torch

    head = {"classifier.weight": torch.ones(1, 16)}
    return edit_weights(write_classifier(folder), lambda weights: weights | head)


def headless_modules(folder: Path) -> Path:
    """The modules' last layer has no weights."""
    modular(folder)
    [last] = [
        path.parent.name
        for path in folder.glob("*/config.json")
        if json.loads(path.read_text()).get("out_features") == 1
    ]
    return edit_weights(folder, without("weight"), last)


def own_module(folder: Path) -> Path:
    """A module whose code is in the folder."""
    modular(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[-1]["type"] = "own_scores.OwnScores"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "own_scores.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w').close()\n"
        "from sentence_transformers.base.modules import Dense\nclass OwnScores(Dense): pass\n"
    )
    return folder


def routed_module(folder: Path) -> Path:
    """A router to a module whose code is in the folder."""
    own_module(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[-1]["type"] = "sentence_transformers.base.modules.router.Router"
    (folder / "modules.json").write_text(json.dumps(modules))
    edit(folder / modules[-1]["path"], "router_config.json", types={"a": "own_scores.OwnScores"})
    return folder


def without_pooler(folder: Path) -> Path:
    """A model of late interaction; its scores do not need the pooler that BERT has."""
    return edit_weights(write_late_interaction(folder), without("pooler"))


def late_incomplete(folder: Path) -> Path:
    """A model of late interaction that lacks a matrix of the attention."""
    return edit_weights(write_late_interaction(folder), without("layer.0.attention.self.key"))


def late_own_module(folder: Path) -> Path:
    """A model of late interaction with a module whose code is in the folder."""
    write_late_interaction(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "own_scores.OwnScores"
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def llama_classifier(folder: Path, *, ends: bool = False, pad: str | None = None) -> Path:
    """A causal classifier without a padding token.

    Args:
        folder: where it is written.
        ends: whether its tokenizer ends each text with the end-of-text token.
        pad: the tokenizer's padding token.
    """
    import torch
    from tokenizers import processors
    from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

    write_raw_causal(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if ends:
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="$A <eos>", pair="$A $B <eos>", special_tokens=[("<eos>", 2)]
        )
    tokenizer.pad_token, tokenizer.chat_template = pad, None
    (folder / "chat_template.jinja").unlink()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        num_labels=1,
        pad_token_id=None,
        initializer_range=0.5,
    )
    LlamaForSequenceClassification(config).save_pretrained(folder)
    edit(folder, "config.json", sentence_transformers={"version": "5.0"})
    return folder


def architecture(name: str) -> Callable[[Path], Path]:
    """A complete classifier."""
    return lambda folder: write_architecture(folder, name)
