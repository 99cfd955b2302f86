"""Small random-weight models that tests write to disk and load as a user loads real ones."""

import hashlib
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory

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


def once(write):
    """Make each model once a process; its files are written again wherever it is wanted."""
    made = {}

    @wraps(write)
    def write_again(folder, *values, **settings):
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
def write_classifier(folder, *, labels=1, seed=0, positions=64):
    """A BERT sequence classifier, as cross-encoders are stored."""
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(WORDS), max_position_embeddings=positions, num_labels=labels, **TINY
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), model_max_length=positions)
    tokenizer.save_pretrained(folder)
    # Transformers 5 passes over the file of words, so that every word would be unknown.
    words = {word: index for index, word in enumerate(WORDS)}
    BertWordPieceTokenizer(words).save(str(folder / "tokenizer.json"))
    return folder


@once
def write_causal(folder):
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
def write_raw_causal(folder, *, tied=False):
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


def write_tokenizer(path, kind):
    """A tokenizer of a few words that composes pairs as one of ``bert``, ``roberta`` or XLM-R,
    whose kind is ``sentencepiece``."""
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


def unigram(path):
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


_traced = {}


def write_onnx(folder):
    """Add ``onnx/model.onnx`` to a classifier's folder, as hubs have it.

    A model is traced once a process.
    """
    content = (folder / "config.json").read_bytes() + (folder / "model.safetensors").read_bytes()
    model = hashlib.sha256(content).digest()
    path = folder / "onnx" / "model.onnx"
    path.parent.mkdir(exist_ok=True)
    if model not in _traced:
        _trace(folder, path)
        _traced[model] = path.read_bytes()
    path.write_bytes(_traced[model])
    return folder


def _trace(folder, path):
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


def write_late_interaction(folder, *, expansion=False):
    """A BERT model of late interaction, as sentence-transformers stores them.

    It has a prefix for each kind of text, and a skiplist ("on"). Queries have 16 tokens, passages
    48; with ``expansion``, shorter queries are extended to theirs.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    base = write_classifier(folder.with_name(f"{folder.name}-base"))
    transformer = Transformer(
        str(base),
        query_length=16,
        document_length=48,
        query_expansion={"strategy": "fixed", "length": 16} if expansion else None,
    )
    torch.manual_seed(0)
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
