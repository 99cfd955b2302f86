"""Tiny static embeddings in the forms of model2vec and sentence-transformers."""

import json

import numpy as np

from tiny_models import WORDS

SIZE = 16
MODULE = "sentence_transformers.models"


def static_tokenizer(kind="WordPiece"):
    """A tokenizer of words, with an unknown token."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    if kind == "Unigram":
        vocabulary = [(word, -1.0) for word in ["[UNK]", "[SEP]", *(f"▁{it}" for it in WORDS[5:])]]
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        ids = {word: number for number, word in enumerate(WORDS)}
        tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[UNK]", "[SEP]"])
    return tokenizer


def write_static(folder, *, kind="WordPiece", dtype="float32", clusters=None, cut=None):
    """As model2vec 0.10 saves a model; potion-base-8M has the same files.

    ``clusters`` quantise the vocabulary; ``cut`` is the number of tokens that are read.
    """
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = static_tokenizer(kind)
    if cut is not None:
        tokenizer.enable_truncation(cut)
    size, numbers = tokenizer.get_vocab_size(), np.random.default_rng(0)
    tensors = {"embeddings": numbers.normal(size=(clusters or size, SIZE))}
    tensors["embeddings"] = tensors["embeddings"].astype(dtype)
    if clusters is not None:
        tensors["mapping"] = numbers.integers(clusters, size=size)
        tensors["weights"] = numbers.uniform(0.1, 2, size=size).astype("float32")
    save_file(tensors, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True}
    (folder / "config.json").write_text(json.dumps({**config, "hidden_dim": SIZE}))
    modules = [
        {"idx": 0, "name": "0", "path": ".", "type": f"{MODULE}.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{MODULE}.Normalize"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def write_trained(folder):
    """As sentence-transformers saves one, such as static-retrieval-mrl-en-v1."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(0)
    modules = [StaticEmbedding(static_tokenizer(), embedding_dim=SIZE)]
    prompts = {"query": "yes ", "document": "the "}
    encoder = SentenceTransformer(modules=modules, device="cpu", prompts=prompts)
    encoder.save_pretrained(str(folder), create_model_card=False)
    return folder


def model2vec(folder, query, passages):
    """Cosines of what ``StaticModel.encode(texts, max_length=None)`` of model2vec 0.10 returns.

    Its model.py: the mean of the vectors of the tokens, each times its weight, without the unknown
    token and without those that a tokenizer adds around a text.
    """
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    tensors = load_file(folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    unknown = tokenizer.token_to_id("[UNK]")

    def encode(text):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        ids = np.array([number for number in ids if number != unknown], dtype=int)
        rows = tensors["embeddings"][tensors.get("mapping", np.arange(10_000))[ids]]
        if not len(rows):
            return np.zeros(SIZE)
        mean = (rows * tensors.get("weights", np.ones(10_000))[ids][:, None]).mean(0)
        return mean / np.linalg.norm(mean)

    return [float(encode(query) @ encode(passage)) for passage in passages]
