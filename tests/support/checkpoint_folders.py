"""Folders of tiny models, right and wrong, each named by what it is."""

import json

from tiny_architectures import write_architecture
from tiny_models import once, write_classifier, write_raw_causal


def edit(folder, name, **changes):
    """Change members of a JSON file; None removes one."""
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {}
    content.update(changes)
    path.write_text(json.dumps({key: it for key, it in content.items() if it is not None}))


def edit_weights(folder, change, name="."):
    """Change the weights of a checkpoint."""
    from safetensors.torch import load_file, save_file

    path = folder / name / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})
    return folder


def without(*parts):
    """Without the weights whose names have one of these parts."""
    return lambda weights: {
        key: it for key, it in weights.items() if not any(part in key for part in parts)
    }


@once
def modular(folder):
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


def tied(folder):
    """A causal reranker whose output weights are those of its input."""
    return _with_read_out(
        write_raw_causal(folder.with_name(f"{folder.name}-raw"), tied=True), folder
    )


def untemplated(folder):
    """A causal reranker with the ids of its answer, and without a template."""
    raw = write_raw_causal(folder.with_name(f"{folder.name}-raw"))
    (raw / "chat_template.jinja").unlink()
    return _with_read_out(raw, folder)


def _with_read_out(raw, folder):
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    modules = [Transformer(str(raw), transformer_task="text-generation"), LogitScore(5)]
    encoder = CrossEncoder(modules=modules, device="cpu")
    encoder.save_pretrained(str(folder), create_model_card=False)
    return folder


def bare(folder):
    """The encoder of a classifier, saved as a model of its own."""
    from transformers import AutoModel

    write_classifier(folder)
    AutoModel.from_pretrained(folder).save_pretrained(folder)
    return folder


def without_head(folder):
    """A classifier whose checkpoint is that of its encoder."""
    return edit_weights(write_classifier(folder), without("classifier"))


def sparse(folder):
    """A masked language model as sentence-transformers stores SPLADE."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    write_classifier(folder)
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig.from_pretrained(folder)).save_pretrained(folder)
    edit(folder, "config_sentence_transformers.json", model_type="SparseEncoder")
    return folder


def embedder(folder):
    """A bi-encoder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    base = bare(folder.with_name(f"{folder.name}-base"))
    modules = [Transformer(str(base)), Pooling(32), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder))
    return folder


def incomplete(folder):
    """One matrix of the attention is missing."""
    return edit_weights(write_classifier(folder), without("layer.1.attention.self.query.weight"))


def own_module(folder):
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
