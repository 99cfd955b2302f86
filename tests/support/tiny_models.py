"""Small random-weight models that tests write to disk and load as a user loads real ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Concatenate, ParamSpec

P = ParamSpec("P")

TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "initializer_range": 0.5,  # scores that spread, without training
}
"""Sizes of encoders."""
TINY_CAUSAL = {**TINY, "num_key_value_heads": 2, "head_dim": 16}

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat on a mat dog ran yes no query food".split()


def once(write: Callable[Concatenate[Path, P], Path]) -> Callable[Concatenate[Path, P], Path]:
    """Make each model once a process; its files are written again wherever it is wanted."""
    made: dict[Hashable, dict[Path, bytes]] = {}

    @wraps(write)
    def write_again(folder: Path, *values: P.args, **settings: P.kwargs) -> Path:
        key = (values, tuple(sorted(settings.items())))
        if key not in made:
            with TemporaryDirectory() as place:
                first = write(Path(place) / "model", *values, **settings)
                paths = [path for path in first.rglob("*") if path.is_file()]
                made[key] = {path.relative_to(first): path.read_bytes() for path in paths}
        for name, content in made[key].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder

    return write_again


@once
def write_classifier(folder: Path, *, labels: int = 1, seed: int = 0) -> Path:
    """A BERT sequence classifier, as cross-encoders are stored."""
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(WORDS), max_position_embeddings=64, num_labels=labels, **TINY
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), model_max_length=64)
    tokenizer.save_pretrained(folder)
    # Transformers 5 passes over the file of words, so that every word would be unknown.
    words = {word: index for index, word in enumerate(WORDS)}
    BertWordPieceTokenizer(words).save(str(folder / "tokenizer.json"))
    return folder


@once
def write_causal(folder: Path) -> Path:
    """A causal model that answers yes or no, as sentence-transformers stores rerankers."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    raw = write_raw_causal(folder)
    transformer = Transformer(str(raw), transformer_task="text-generation")
    answers = map(transformer.tokenizer.convert_tokens_to_ids, ("yes", "no"))
    encoder = CrossEncoder(modules=[transformer, LogitScore(*answers)], device="cpu")
    encoder.save_pretrained(str(folder), create_model_card=False)
    return folder


@once
def write_raw_causal(folder: Path, *, tied: bool = False) -> Path:
    """A causal model whose files do not say which tokens are its answer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    ids = {word: number for number, word in enumerate(["<pad>", "<unk>", "<eos>", *WORDS[5:]])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<eos>",
        model_max_length=64,
    )
    fast.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(ids), max_position_embeddings=64, tie_word_embeddings=tied, **TINY_CAUSAL
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


CHAT_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "<|im_start|>system\n"
    "{% set system = messages | selectattr('role', 'eq', 'system') | first | default(none) %}"
    "{{ system['content'] if system else 'Judge.' }}<|im_end|>\n<|im_start|>user\n"
    "<Query>: {{ (messages | selectattr('role', 'eq', 'query') | first)['content'] }}\n"
    "<Document>: {{ (messages | selectattr('role', 'eq', 'document') | first)['content'] }}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


@once
def write_chat_reranker(folder: Path) -> Path:
    """A causal reranker with a chat template, as sentence-transformers stores Qwen3-Reranker.

    Its tokens are bytes, with the control tokens of Qwen3. It reads 192 tokens.
    """
    import torch
    from sentence_transformers import CrossEncoder
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "c"), ("Ġ", "t"), ("y", "e"), ("ye", "s"), ("n", "o")]
    words = [*alphabet, *("".join(pair) for pair in merges)]
    ids = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(ids, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in CHAT_TOKENS])
    tokenizer.add_tokens([AddedToken(token, special=False) for token in ("<think>", "</think>")])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        model_max_length=192,
    )
    fast.chat_template = CHAT_TEMPLATE
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(fast),
        max_position_embeddings=192,
        pad_token_id=fast.pad_token_id,
        **TINY_CAUSAL,
    )
    base = folder.with_name(f"{folder.name}-base")
    Qwen3ForCausalLM(config).save_pretrained(base)
    fast.save_pretrained(base)
    CrossEncoder(str(base), device="cpu").save_pretrained(str(folder))
    return folder


def write_tokenizer(path: Path, kind: str) -> Path:
    """A tokenizer of a few words that composes pairs as ``bert``, ``roberta`` or XLM-R does.

    Args:
        kind: ``sentencepiece`` is that of XLM-R.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = {"bert": ("[CLS]", "[SEP]")}.get(kind, ("<s>", "</s>"))
    spaced = [f"▁{word}" for word in WORDS[5:]] if kind == "sentencepiece" else []
    words = [*special, "[UNK]", *WORDS[5:], *spaced, ".", "-", "b", "[", "]", "sep", "<", ">", "/"]
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    first, last = ((name, ids[name]) for name in special)
    if kind == "bert":
        tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.post_processor = processors.BertProcessing(last, first)
    else:
        tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = (
            pre_tokenizers.Metaspace() if kind == "sentencepiece" else pre_tokenizers.Whitespace()
        )
        tokenizer.post_processor = processors.RobertaProcessing(last, first)
    tokenizer.add_special_tokens(list(special))
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))
    return path


def unigram(path: Path) -> Path:
    """A tokenizer whose control tokens are ordinary pieces, too, as XLM-R's; NFKC is applied."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    control = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = [*"▁abcdefghijklmnopqrstuvwxyz<>/"]
    vocabulary = [(word, 0.0) for word in control] + [(letter, -2.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens(control)
    tokenizer.save(str(path))
    return path


_traced: dict[bytes, bytes] = {}


def write_onnx(folder: Path) -> Path:
    """Add ``onnx/model.onnx`` to a classifier's folder, as hubs have it.

    A model is traced once a process.
    """
    model = hashlib.sha256()
    for name in ("config.json", "model.safetensors"):
        model.update((folder / name).read_bytes())
    path = folder / "onnx" / "model.onnx"
    path.parent.mkdir(exist_ok=True)
    if model.digest() not in _traced:
        _trace(folder, path)
        _traced[model.digest()] = path.read_bytes()
    path.write_bytes(_traced[model.digest()])
    return folder


def _trace(folder: Path, path: Path) -> None:
    import warnings

    import torch
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager")
    names = ["input_ids", "attention_mask"]
    if model.config.model_type == "bert":
        names.append("token_type_ids")
    example = torch.ones(2, 5, dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(),
            (example,) * len(names),
            str(path),
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "pairs", 1: "tokens"} for name in names},
            dynamo=False,
        )


def write_late_interaction(
    folder: Path, *, expansion: bool = False, lengths: tuple[int, int] = (16, 48), seed: int = 0
) -> Path:
    """A BERT model of late interaction, as sentence-transformers stores them.

    It has a prefix for each kind of text, and a skiplist ("on").

    Args:
        folder: where it is written.
        expansion: whether queries are extended to their length.
        lengths: tokens of queries and passages.
        seed: of the weights.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    base = write_classifier(folder.with_name(f"{folder.name}-base"), seed=seed)
    query_length, document_length = lengths
    transformer = Transformer(
        str(base),
        query_length=query_length,
        document_length=document_length,
        query_expansion={"strategy": "fixed", "length": query_length} if expansion else None,
    )
    torch.manual_seed(seed)
    projection = Dense(32, 8, bias=False, activation_function=torch.nn.Identity())
    projection.module_input_name = projection.module_output_name = "token_embeddings"
    MultiVectorEncoder(
        modules=[
            transformer,
            projection,
            MultiVectorMask(skiplist_words=["on"]),
            Normalize(module_input_name="token_embeddings"),
        ],
        prompts={"query": "yes ", "document": "no "},
    ).save_pretrained(str(folder), create_model_card=False)
    return folder
