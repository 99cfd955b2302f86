"""Static embeddings: the vector of a text is the mean of those of its tokens, however many.

As model2vec and sentence-transformers store them: Tulkens and van Dongen, "Model2Vec: Fast
State-of-the-Art Static Embeddings", 2024, https://github.com/MinishLab/model2vec.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from secondpass.errors import ModelLoadError
from secondpass.scorers.hub.facts import ModelFacts
from secondpass.scorers.torch.checkpoints import check_tokens

_OWN, _MODEL2VEC = "embedding.weight", "embeddings"
"""The names of the token vectors in the two forms."""


class StaticFiles(NamedTuple):
    """The files of static embeddings, and the words of their tokenizer's model."""

    weights: Path
    words: Mapping[str, Any]


def static_files(name: str, facts: ModelFacts | None) -> StaticFiles | None:
    """The files of a model whose first module has static embeddings; None if it is another.

    Raises:
        ModelLoadError: one of them is absent, or lacks what scores need.
    """
    modules = (facts.modules if facts is not None else None) or ()
    if facts is None or not modules or not _is_static(modules[0].get("type")):
        return None
    folder = str(modules[0].get("path") or "").removeprefix(".")
    where = f"{folder}/" if folder else ""
    refused = f"the model {name!r} cannot be loaded: "
    tokenizer = facts.read(f"{where}tokenizer.json")
    if tokenizer is None:
        raise ModelLoadError(f"{refused}its static embeddings have no {where}tokenizer.json")
    weights = facts.find(f"{where}model.safetensors")
    if weights is None:
        raise ModelLoadError(f"{refused}its static embeddings have no {where}model.safetensors")
    dtypes = _dtypes(weights)
    if not dtypes.keys() & {_OWN, _MODEL2VEC}:
        raise ModelLoadError(
            f"{refused}its {where}model.safetensors has neither {_OWN!r} nor {_MODEL2VEC!r}, the "
            "vectors of its tokens"
        )
    if (dtype := dtypes.get(_OWN) or dtypes[_MODEL2VEC]) not in {"F32", "F16", "BF16", "F64"}:
        raise ModelLoadError(
            f"{refused}its vectors are stored as {dtype}, which sentence-transformers does not "
            "read; save it in float32 (model2vec: `quantize_to`)"
        )
    return StaticFiles(weights, tokenizer.get("model") or {})


def set_vectors(name: str, files: StaticFiles, module: Any, dtype: Any) -> Any:
    """Give a loaded module the vectors that its author's package computes with.

    Those of model2vec have a row for each token, or a ``mapping`` of tokens to rows and ``weights``
    of tokens, which sentence-transformers reads as of 6.2. Its unknown token is left out of the
    mean: that of a text with a vector of zeros for it has the same direction.

    Args:
        name: for messages.
        files: of the model.
        module: a ``StaticEmbedding``.
        dtype: of torch, or a text to leave what is stored.

    Returns:
        The tokenizer, in the form of transformers.

    Raises:
        ModelLoadError: the tokenizer is of another model.
    """
    import torch
    import transformers
    from safetensors.torch import load_file

    fast: Any = transformers.PreTrainedTokenizerFast
    unknown = _unknown(files.words, module.tokenizer)
    word = None if unknown is None else module.tokenizer.id_to_token(unknown)
    tokenizer = fast(tokenizer_object=module.tokenizer, unk_token=word)
    stored = load_file(files.weights)
    if _OWN not in stored:
        matrix = stored[_MODEL2VEC]
        if (mapping := stored.get("mapping")) is not None:
            matrix = matrix[mapping.long()]
        if (weights := stored.get("weights")) is not None:
            matrix = matrix.float() * weights.float()[:, None]
        if unknown is not None:
            matrix[unknown] = 0
        module.embedding = torch.nn.EmbeddingBag.from_pretrained(matrix)
    if isinstance(dtype, torch.dtype):
        module.to(dtype)
    check_tokens(name, tokenizer, module.embedding.weight.shape[0])
    return tokenizer


def _is_static(kind: Any) -> bool:
    return str(kind).rpartition(".")[2] == "StaticEmbedding"


def _dtypes(path: Path) -> dict[str, str]:
    """The type of each tensor of a file."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {key: str(file.get_slice(key).get_dtype()) for key in file.keys()}  # noqa: SIM118


def _unknown(words: Mapping[str, Any], tokenizer: Any) -> int | None:
    """The id of the unknown token; None if there is none."""
    number: int | None = words.get("unk_id")
    if number is None and words.get("unk_token") is not None:
        number = tokenizer.token_to_id(words["unk_token"])
    return number
