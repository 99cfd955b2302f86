"""Small random cross-encoders of the architectures that are exported."""

import json
import random

from tiny_models import TINY, WORDS, once

_LETTERS = WORDS[5:]
_SIZES = {
    **TINY,
    "vocab_size": 30,
    "max_position_embeddings": 66,
    "num_labels": 1,
    "pad_token_id": 0,
}


CONFIGS = {
    "bert": ("BertConfig", {}),
    "roberta": ("RobertaConfig", {}),
    "xlm-roberta": ("XLMRobertaConfig", {}),
    "distilbert": ("DistilBertConfig", {"hidden_dim": 64}),
    "electra": ("ElectraConfig", {"embedding_size": 16}),
    "deberta-v2": (
        "DebertaV2Config",
        {
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 16,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "type_vocab_size": 0,
        },
    ),
    "modernbert": (
        "ModernBertConfig",
        {
            "local_attention": 8,
            "global_attn_every_n_layers": 2,
            **{"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3},
        },
    ),
}
"""The class of each configuration, and its own settings."""


@once
def write_architecture(folder, name):
    """A sequence classifier with one label, and a tokenizer of words."""
    import torch
    import transformers

    torch.manual_seed(0)
    kind, settings = CONFIGS[name]
    config = getattr(transformers, kind)(**{**_SIZES, **settings})
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(folder)
    _write_tokenizer(folder, types=name in {"bert", "electra"}, double="roberta" in name)
    return folder


def _write_tokenizer(folder, *, types, double):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    ids = {word: number for number, word in enumerate([*specials, *_LETTERS])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    between = "[SEP] [SEP]" if double else "[SEP]"
    second = 1 if types else 0
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS] $A {between} $B:{second} [SEP]:{second}",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask", *(["token_type_ids"] if types else [])],
    ).save_pretrained(folder)


@once
def write_mmarco(folder):
    """As cross-encoder/mmarco-mMiniLMv2-L12-H384-v1: an XLM-R with one label, whose tokenizer is
    XLM-R's in the form of 2022, with settings that newer versions write otherwise."""
    import torch
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    named = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "sep": "</s>"}
    named = {f"{name}_token": token for name, token in {**named, "cls": "<s>"}.items()}
    control = list(dict.fromkeys(named.values()))
    words = [(f"▁{word}", -3.0) for word in _LETTERS]
    letters = [(letter, -8.0) for letter in "▁abcdefghijklmnopqrstuvwxyz.,?北京"]
    pieces = [*((token, 0.0) for token in control), *words, *letters, ("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    split = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    mask = {"lstrip": True, "rstrip": False, "single_word": False, "normalized": True}
    tokenizer.add_special_tokens([*control, AddedToken("<mask>", **mask)])
    torch.manual_seed(0)
    own = {"type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    sizes = {**_SIZES, **own, "vocab_size": len(pieces), "layer_norm_eps": 1e-5}
    config = transformers.XLMRobertaConfig(**sizes)
    transformers.XLMRobertaForSequenceClassification(config).save_pretrained(folder)
    stored = json.loads((folder / "config.json").read_text())
    stored["position_embedding_type"] = "absolute"
    stored["sbert_ce_default_activation_function"] = "torch.nn.modules.linear.Identity"
    (folder / "config.json").write_text(json.dumps(stored))
    tokenizer.save(str(folder / "tokenizer.json"))
    named["mask_token"] = {"__type": "AddedToken", "content": "<mask>", **mask}
    (folder / "special_tokens_map.json").write_text(json.dumps(named))
    more = {"model_max_length": 64, "special_tokens_map_file": None, "name_or_path": "nreimers/x"}
    settings = {**named, **more, "tokenizer_class": "XLMRobertaTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def word_pairs(queries=4):
    """Pairs of known words, of different lengths, some too long for the models."""
    chance = random.Random(0)
    texts = [" ".join(chance.choices(_LETTERS, k=4)) for _ in range(queries)]
    return [
        (query, " ".join(chance.choices(_LETTERS, k=chance.randint(1, 70))))
        for query in texts
        for _ in range(15)
    ]


def scores_of(model, backend, pairs, **settings):
    """Scores in float32, in batches of other sizes and lengths than a model was traced with."""
    from secondpass.scorers.cross_encoder import CrossEncoderScorer

    scorer = CrossEncoderScorer(str(model), backend=backend, precision="exact", **settings)
    lists = {}
    for query, text in [*pairs, ("cat", "a")]:
        lists.setdefault(query, []).append(text)
    return [score for query, texts in lists.items() for score in scorer.score_pairs(query, texts)]
