"""Folders of the model of :mod:`overlap_model`, each damaged in one way.

``DAMAGES`` has what is done by name. Some damages do no harm, such as tokens with other numbers:
what matters is that no other order is reported as ``ok``.
"""

import json

from checkpoint_folders import edit, edit_weights, without
from overlap_model import SPECIAL, known_words, overlap_model, write_overlap, write_tokenizer
from tiny_models import write_classifier, write_onnx

LAYER = "bert.encoder.layer"
FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


# ---------------------------------------------------------------------- checkpoints


def weights(change):
    """The weights are what ``change`` makes of them."""
    return lambda folder: edit_weights(folder, change)


def scaled(part, factor):
    return weights(
        lambda all_: {key: it * factor if part in key else it for key, it in all_.items()}
    )


def renamed(old, new):
    return weights(lambda all_: {key.replace(old, new): it for key, it in all_.items()})


def added(name, like, factor=1.0):
    """One more weight, of the shape of another."""
    return weights(lambda all_: {**all_, name: all_[like] * factor})


def randomized(part):
    def change(all_):
        import torch

        torch.manual_seed(1)
        return {key: torch.randn(it.shape) * 0.3 if part in key else it for key, it in all_.items()}

    return weights(change)


def filled(part, value):
    def change(all_):
        return {key: it.clone().fill_(value) if part in key else it for key, it in all_.items()}

    return weights(change)


def exchanged(one, other):
    """Two parts of the names exchanged."""

    def change(all_):
        names = {
            key: key.replace(one, "\0").replace(other, one).replace("\0", other) for key in all_
        }
        return {names[key]: it for key, it in all_.items()}

    return weights(change)


def transposed(part):
    def change(all_):
        return {
            key: it.T.contiguous() if part in key and it.ndim == 2 else it
            for key, it in all_.items()
        }

    return weights(change)


def rolled(part, by=1):
    """The rows of a matrix one further."""
    return weights(
        lambda all_: {key: it.roll(by, 0) if part in key else it for key, it in all_.items()}
    )


def cut_rows(part, rows):
    return weights(
        lambda all_: {
            key: it[:rows].contiguous() if part in key else it for key, it in all_.items()
        }
    )


def further_layer(folder):
    """A third layer in the checkpoint, of which config.json knows nothing."""

    def change(all_):
        third = {
            key.replace("layer.1.", "layer.2."): it * 0.5
            for key, it in all_.items()
            if "layer.1." in key
        }
        return {**all_, **third}

    return edit_weights(folder, change)


def other_seed(folder):
    """The checkpoint of another model of the same shapes."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(5)
    config = BertConfig.from_pretrained(folder)
    config.initializer_range = 0.5
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def in_half(folder):
    import torch

    return edit_weights(
        folder, lambda all_: {key: it.to(torch.float16) for key, it in all_.items()}
    )


def cut_file(name, share):
    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])
        return folder

    return damage


def gone(*names):
    def damage(folder):
        for name in names:
            (folder / name).unlink(missing_ok=True)
        return folder

    return damage


def config(**changes):
    return lambda folder: edit(folder, "config.json", **changes) or folder


def labelled(folder):
    """A second label without its row in the head."""
    return config(id2label={"0": "a", "1": "b"}, label2id={"a": 0, "b": 1})(folder)


def two_labels(folder):
    write_overlap(folder, labels=2)
    return folder


# ---------------------------------------------------------------------- tokenizers


def tokenizer(change):
    """The content of tokenizer.json is what ``change`` makes of it."""

    def damage(folder):
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps(change(content) or content))
        return folder

    return damage


def settings(**changes):
    return lambda folder: edit(folder, "tokenizer_config.json", **changes) or folder


def vocabulary(words):
    def damage(folder):
        write_tokenizer(folder, words() if callable(words) else words, 96)
        return folder

    return damage


def _set(*path, value):
    def change(content):
        inner = content
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value

    return tokenizer(change)


def _pair(*parts):
    """A pair composed in another way."""
    pieces = [
        {"SpecialToken": {"id": part, "type_id": kind}}
        if part.startswith("[")
        else {"Sequence": {"id": part, "type_id": kind}}
        for part, kind in parts
    ]
    return _set("post_processor", "pair", value=pieces)


def foreign_words():
    """Half of the words of another tokenizer are other ones, all at other numbers."""
    return [*SPECIAL, *known_words()[::-2], *(f"w{index}" for index in range(45))]


def reversed_ids(folder):
    """Other numbers of the words, all below those of the model."""
    words = known_words()
    return vocabulary([*SPECIAL, *reversed(words)])(folder)


def shifted_ids(content):
    """The special tokens have the numbers of words, and the reverse."""
    vocab = content["model"]["vocab"]
    size = len(vocab)
    content["model"]["vocab"] = {word: (index + 7) % size for word, index in vocab.items()}
    for token in content["added_tokens"]:
        token["id"] = (token["id"] + 7) % size
    for name, token in content["post_processor"]["special_tokens"].items():
        token["ids"] = [content["model"]["vocab"][name]]


def more_tokens(count, special=False):
    """Added tokens that the model has no vectors for."""

    def change(content):
        size = len(content["model"]["vocab"])
        for index in range(count):
            content["added_tokens"].append(
                {
                    "id": size + index,
                    "content": ["planet", "wolf", "lion"][index],
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": special,
                }
            )

    return tokenizer(change)


def fewer_words(share):
    words = [*SPECIAL, *known_words()]
    return vocabulary(words[: int(len(words) * share)])


def reversing(content):
    """Each text is read from its end."""
    content["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": "."},
        "behavior": "Isolated",
        "invert": False,
    }


# ---------------------------------------------------------------------- files of other engines


def traced(wrap=None, names=("input_ids", "attention_mask", "token_type_ids"), length=5, axes=True):
    """An ONNX file of what ``wrap`` makes of the model."""

    def damage(folder):
        import warnings

        import torch
        from transformers import AutoModelForSequenceClassification

        model = AutoModelForSequenceClassification.from_pretrained(
            folder, attn_implementation="eager"
        ).eval()
        module = traced_module(model, names, wrap)
        path = folder / "onnx" / "model.onnx"
        path.parent.mkdir(exist_ok=True)
        example = torch.ones(2, length, dtype=torch.long)
        dynamic = {name: {0: "pairs", 1: "tokens"} for name in names} if axes is True else axes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (example,) * len(names),
                str(path),
                input_names=[*names],
                output_names=["logits"],
                dynamic_axes=dynamic or None,
                dynamo=False,
            )
        return folder

    return damage


def traced_module(model, names, wrap):
    import torch

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            given = dict(zip(names, inputs, strict=True))
            return self.model(**given).logits if wrap is None else wrap(self.model, given)

    return Module().eval()


def ignoring_mask(model, given):
    """The mask is an input, and of no consequence."""
    import torch

    mask = torch.ones_like(given["attention_mask"])
    logits = model(**{**given, "attention_mask": mask}).logits
    return logits + 0 * given["attention_mask"].sum(1, keepdim=True)


def ignoring_types(model, given):
    types = torch_zeros(given["token_type_ids"])
    return model(**{**given, "token_type_ids": types}).logits + 0 * given["token_type_ids"].sum(
        1, keepdim=True
    )


def torch_zeros(like):
    import torch

    return torch.zeros_like(like)


def left_padded(model, given):
    """As exported for texts that are padded at the left: the tokens are moved there first."""
    import torch

    mask = given["attention_mask"]
    places = torch.ones_like(mask).cumsum(1) - 1
    size = mask.shape[1]
    order = torch.remainder(places + mask.sum(1, keepdim=True), size)
    moved = {key: torch.gather(value, 1, order) for key, value in given.items()}
    return model(**moved).logits


def negated(model, given):
    return -model(**given).logits


def squared(model, given):
    return model(**given).logits ** 2 * -1


def constant(model, given):
    return model(**given).logits * 0 + 1


def of_states(model, given):
    return model.bert(**given).last_hidden_state[:, 0]


def of_last_token(model, given):
    return model.bert(**given).last_hidden_state[:, -1, -4:-3]


def exchanged_texts(model, given):
    """Token types the other way round."""
    return model(**{**given, "token_type_ids": 1 - given["token_type_ids"]}).logits


def transposed_batch(model, given):
    """The scores of a batch in reverse."""
    return model(**given).logits.flip(0)


def of_batch(model, given):
    """Scores that are normalised over the batch."""
    logits = model(**given).logits
    return logits - logits.mean()


def softmaxed(model, given):
    """Probabilities over the batch."""
    import torch

    return torch.softmax(model(**given).logits, 0)


def cut_at(length):
    def wrap(model, given):
        return model(**{key: value[:, :length] for key, value in given.items()}).logits

    return wrap


def onnx_of_random(folder):
    """The ONNX file of a model of the same shapes."""
    other = write_overlap(folder.with_name(f"{folder.name}-other"))
    write_onnx(other_seed(other))
    (folder / "onnx").mkdir(exist_ok=True)
    (folder / "onnx" / "model.onnx").write_bytes((other / "onnx" / "model.onnx").read_bytes())
    return folder


def onnx_of_another(folder):
    """The ONNX file of another model, whose vocabulary is smaller."""
    other = write_onnx(write_classifier(folder.with_name(f"{folder.name}-other")))
    (folder / "onnx").mkdir(exist_ok=True)
    (folder / "onnx" / "model.onnx").write_bytes((other / "onnx" / "model.onnx").read_bytes())
    return folder


def onnx_then(damage):
    """A right ONNX file beside other damage."""
    return lambda folder: damage(write_onnx(folder)) or folder


# ---------------------------------------------------------------------- modules and their settings


def modules(*kinds, **files):
    def damage(folder):
        listed = [
            {
                "idx": index,
                "name": str(index),
                "path": "" if not index else f"{index}_M",
                "type": it,
            }
            for index, it in enumerate(kinds)
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
        for name, content in files.items():
            path = folder / f"{name[-1]}_M" / "config.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content))
        return folder

    return damage


TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
POOLING = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
DENSE = "sentence_transformers.base.modules.dense.Dense"


def reads(**changes):
    """Settings of sentence-transformers for the transformer."""

    def damage(folder):
        modules(TRANSFORMER)(folder)
        edit(folder, "config_sentence_transformers.json", model_type="CrossEncoder")
        edit(folder, "sentence_bert_config.json", **changes)
        return folder

    return damage


def own(**changes):
    return lambda folder: edit(folder, "config_sentence_transformers.json", **changes) or folder


DAMAGES = {
    "nothing": lambda folder: folder,
    "right ONNX file": write_onnx,
    # weights
    "no head": weights(without("classifier")),
    "no pooler": weights(without("pooler")),
    "no bias of the head": weights(without("classifier.bias")),
    "no attention": weights(without("layer.0.attention.self")),
    "no query matrix": weights(without("layer.1.attention.self.query.weight")),
    "no value matrix": weights(without("layer.0.attention.self.value.weight")),
    "no last layer": weights(without("layer.1.")),
    "no first layer": weights(without("layer.0.")),
    "no norms": weights(without("LayerNorm")),
    "no words": weights(without("word_embeddings")),
    "no positions": weights(without("position_embeddings")),
    "no types": weights(without("token_type_embeddings")),
    "no inner layers": weights(without("intermediate")),
    "other prefix": renamed("bert.", "model."),
    "prefix of a wrapper": renamed("bert.", "module.bert."),
    "old names of norms": renamed("LayerNorm.weight", "LayerNorm.gamma"),
    "head negated": scaled("classifier", -1),
    "head weight negated": scaled("classifier.weight", -1),
    "pooler negated": scaled("pooler.dense", -1),
    "head of zeros": scaled("classifier", 0),
    "pooler of zeros": scaled("pooler", 0),
    "words of zeros": scaled("word_embeddings", 0),
    "types of zeros": scaled("token_type", 0),
    "types negated": scaled("token_type", -1),
    "positions negated": scaled("position_embeddings", -1),
    "values negated": scaled("attention.self.value", -1),
    "output negated": scaled("attention.output.dense", -1),
    "norms negated": scaled("embeddings.LayerNorm", -1),
    "keys negated": scaled("attention.self.key", -1),
    "queries of zeros": scaled("attention.self.query", 0),
    "everything tiny": scaled("", 1e-3),
    "everything large": scaled("", 1e3),
    "everything random": other_seed,
    "random head": randomized("classifier.weight"),
    "random pooler": randomized("pooler.dense.weight"),
    "random words": randomized("word_embeddings"),
    "random last layer": randomized("layer.1."),
    "random values": randomized("value.weight"),
    "NaN in the head": filled("classifier.bias", float("nan")),
    "NaN in a norm": filled("layer.0.output.LayerNorm.bias", float("nan")),
    "infinite positions": filled("position_embeddings", float("inf")),
    "layers exchanged": exchanged("layer.0.", "layer.1."),
    "keys and values exchanged": exchanged("self.key", "self.value"),
    "queries and values exchanged": exchanged("self.query", "self.value"),
    "values transposed": transposed("value.weight"),
    "output transposed": transposed("attention.output.dense"),
    "pooler transposed": transposed("pooler.dense"),
    "words rolled": rolled("word_embeddings"),
    "types rolled": rolled("token_type"),
    "pooler rolled": rolled("pooler.dense.weight", 7),
    "further layer": further_layer,
    "further head": added("score.weight", "classifier.weight", -1.0),
    "second classifier": added("classifier.out_proj.weight", "bert.pooler.dense.weight"),
    "adapter in a layer": added(
        "bert.encoder.layer.0.adapter.up.weight", "bert.pooler.dense.weight"
    ),
    "fewer words than config.json": cut_rows("word_embeddings", 60),
    "fewer positions than config.json": cut_rows("position_embeddings", 50),
    "half precision": in_half,
    "checkpoint cut off": cut_file("model.safetensors", 0.5),
    "checkpoint empty": cut_file("model.safetensors", 0),
    "no checkpoint": gone("model.safetensors"),
    # config.json
    "one layer": config(num_hidden_layers=1),
    "three layers": config(num_hidden_layers=3),
    "more heads": config(num_attention_heads=5),
    "wider": config(hidden_size=120),
    "a decoder": config(is_decoder=True),
    "large epsilon": config(layer_norm_eps=1e3),
    "another kind": config(
        model_type="roberta", architectures=["RobertaForSequenceClassification"]
    ),
    "ELECTRA": config(model_type="electra", architectures=["ElectraForSequenceClassification"]),
    "no class": config(architectures=None),
    "bare class": config(architectures=["BertModel"]),
    "class of tokens": config(architectures=["BertForTokenClassification"]),
    "class of a language model": config(architectures=["BertForMaskedLM"]),
    "own code": config(auto_map={"AutoModelForSequenceClassification": "modeling.Own"}),
    "second label": labelled,
    "two labels": two_labels,
    "one token type": config(type_vocab_size=1),
    "config.json cut off": cut_file("config.json", 0.5),
    "no config.json": gone("config.json"),
    # tokenizers
    "no tokenizer": gone(*FILES),
    "no tokenizer.json": gone("tokenizer.json"),
    "no tokenizer_config.json": gone("tokenizer_config.json"),
    "tokenizer cut off": cut_file("tokenizer.json", 0.6),
    "empty vocabulary": vocabulary(SPECIAL),
    "a third of the vocabulary": fewer_words(0.33),
    "foreign vocabulary": vocabulary(foreign_words),
    "letters alone": vocabulary([*SPECIAL, *"abcdefghijklmnopqrstuvwxyz0123456789.?"]),
    "larger vocabulary": vocabulary(
        lambda: [*SPECIAL, *known_words(), *(f"w{index}" for index in range(90))]
    ),
    "other numbers of words": reversed_ids,
    "shifted numbers": tokenizer(shifted_ids),
    "case kept": _set("normalizer", "lowercase", value=False),
    "no normalizer": _set("normalizer", value=None),
    "no words split": _set("pre_tokenizer", value=None),
    "characters": tokenizer(reversing),
    "no special tokens": _set("post_processor", value=None),
    "passage first": _pair(("[CLS]", 0), ("B", 0), ("[SEP]", 0), ("A", 1), ("[SEP]", 1)),
    "query alone": _pair(("[CLS]", 0), ("A", 0), ("[SEP]", 0)),
    "no types in a pair": _pair(("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 0), ("[SEP]", 0)),
    "types exchanged": _pair(("[CLS]", 1), ("A", 1), ("[SEP]", 1), ("B", 0), ("[SEP]", 0)),
    "no types for the model": settings(model_input_names=["input_ids", "attention_mask"]),
    "padded at the left": settings(padding_side="left"),
    "pad token unknown": settings(pad_token="[UNK]"),
    "added tokens without vectors": more_tokens(3),
    "special tokens without vectors": more_tokens(3, special=True),
    "longer than its positions": settings(model_max_length=1000),
    # files of other engines
    "ONNX without a mask": traced(names=("input_ids", "token_type_ids")),
    "ONNX ignoring the mask": traced(ignoring_mask),
    "ONNX without types": traced(names=("input_ids", "attention_mask")),
    "ONNX ignoring types": traced(ignoring_types),
    "ONNX of exchanged types": traced(exchanged_texts),
    "ONNX padded at the left": traced(left_padded),
    "ONNX of a fixed length": traced(axes={"input_ids": {0: "pairs"}}),
    "ONNX of a fixed batch": traced(
        axes={name: {1: "tokens"} for name in ("input_ids", "attention_mask", "token_type_ids")}
    ),
    "ONNX negated": traced(negated),
    "ONNX squared": traced(squared),
    "ONNX constant": traced(constant),
    "ONNX of states": traced(of_states),
    "ONNX of the last token": traced(of_last_token),
    "ONNX of reversed batches": traced(transposed_batch),
    "ONNX normalised over the batch": traced(of_batch),
    "ONNX of probabilities over the batch": traced(softmaxed),
    "ONNX of eight tokens": traced(cut_at(8)),
    "ONNX of random weights": onnx_of_random,
    "ONNX of another model": onnx_of_another,
    "ONNX cut off": onnx_then(cut_file("onnx/model.onnx", 0.7)),
    "ONNX empty": onnx_then(cut_file("onnx/model.onnx", 0)),
    "right ONNX, no checkpoint": onnx_then(gone("model.safetensors")),
    "right ONNX, no tokenizer": onnx_then(gone(*FILES)),
    "right ONNX, foreign vocabulary": onnx_then(vocabulary(foreign_words)),
    "right ONNX, added tokens": onnx_then(more_tokens(3)),
    "right ONNX, passage first": onnx_then(
        _pair(("[CLS]", 0), ("B", 0), ("[SEP]", 0), ("A", 1), ("[SEP]", 1))
    ),
    "right ONNX, types exchanged": onnx_then(
        _pair(("[CLS]", 1), ("A", 1), ("[SEP]", 1), ("B", 0), ("[SEP]", 0))
    ),
    "right ONNX, negated weights": onnx_then(scaled("classifier", -1)),
    # modules
    "a pooling after the head": modules(TRANSFORMER, POOLING, file1={"pooling_mode": "mean"}),
    "a module of its own": modules(TRANSFORMER, "own.Head"),
    "an embedder by its files": own(model_type="SentenceTransformer"),
    "late interaction by its files": own(model_type="MultiVectorEncoder"),
    "another activation": own(activation_fn="torch.nn.modules.activation.Tanh"),
    "a prompt": own(prompts={"q": "bananas food: "}, default_prompt_name="q"),
    "lower case before": reads(do_lower_case=True),
    "features alone": reads(transformer_task="feature-extraction"),
}


def write_damaged(folder, name):
    """The folder of the model after a damage."""
    return DAMAGES[name](write_overlap(folder)) or folder


def undamaged(labels=1):
    """The model itself, for its order."""
    return overlap_model(len(SPECIAL) + len(known_words()), labels)
