"""The files of a model that run without torch, in a folder or on the Hugging Face hub."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secondpass.errors import ModelLoadError, with_article
from secondpass.scorers.checks.sizes import skipped_positions, whole
from secondpass.scorers.hub.find import Find
from secondpass.scorers.runtimes import modular_graph
from secondpass.scorers.runtimes.runtime import Backend

FILES: Mapping[Backend, Sequence[str]] = {
    "onnx": ("onnx/model.onnx", "model.onnx"),
    "openvino": (
        "openvino/openvino_model.xml",
        "openvino_model.xml",
        "onnx/model.onnx",
        "model.onnx",
    ),
}
"""Usual paths of the float32 file of each backend, in the order in which they are tried. OpenVINO
reads ONNX files, too."""


class TorchOnlyError(ModelLoadError):
    """The model is sound, but only torch runs it; the message says why."""


@dataclass(frozen=True)
class ModelFiles:
    """A cross-encoder that a runtime without torch can load.

    Attributes:
        model: the name or folder, for messages.
        weights: the ONNX or OpenVINO file, or that of the weights of ``graph``.
        max_length: tokens of a pair that the model can read; None if no file says so.
        positions: tokens for which the model has positions; None if it is not limited.
        types: whether the model takes token types, of which it knows ``type_count``.
        graph: the model in ONNX, if it was written from its weights.
        words: number of tokens that the model knows; None if no file says so.
    """

    model: str
    weights: Path
    tokenizer: Path
    max_length: int | None
    positions: int | None
    pad: int
    truncates_left: bool
    types: bool = True
    type_count: int = 1
    graph: bytes | None = field(default=None, repr=False)
    words: int | None = None


def model_files(
    model: str, find: Find, backend: Backend, file: str | None = None
) -> ModelFiles | None:
    """The files of a cross-encoder for a backend; None if it has no model file for it.

    Raises:
        TorchOnlyError: the model is of a kind that only torch runs.
        ModelLoadError: the model is no reranker, or a file of it cannot be read.
        FileNotFoundError: there is no such model.
    """
    config = _read(model, find, "config.json")
    if config is None:
        for name in ("modules.json", "adapter_config.json"):
            if find(name) is not None:
                raise TorchOnlyError(f"the model {model!r} has {name} and no config.json beside it")
        raise FileNotFoundError("config.json")
    graph = None if file else _graph(model, find, config)
    if graph is None:
        _check(model, find, config)
    _check_texts(model, find)
    weights = (
        find("model.safetensors") if graph else _weights(find, (file,) if file else FILES[backend])
    )
    if weights is None:
        if file is None:
            return None
        raise ModelLoadError(f"the model {model!r} has no file {file!r}")
    tokenizer = find("tokenizer.json")
    if tokenizer is None:
        raise TorchOnlyError(f"the model {model!r} has no tokenizer.json")
    settings = _read(model, find, "tokenizer_config.json") or {}
    _check_normalizer(model, tokenizer, settings)
    positions = whole(config.get("max_position_embeddings"))
    if positions is not None:
        positions -= skipped_positions(config)
    max_length = whole(settings.get("model_max_length"))
    if find("modules.json") is not None:
        transformer = _read(model, find, "sentence_bert_config.json") or {}
        max_length = whole(transformer.get("max_seq_length")) or max_length
    lengths = [length for length in (max_length, positions) if length]
    return ModelFiles(
        model,
        weights,
        tokenizer,
        min(lengths, default=None),
        positions,
        whole(config.get("pad_token_id")) or 0,
        settings.get("truncation_side") == "left",
        "token_type_ids" in settings.get("model_input_names", _inputs(settings)),
        whole(config.get("type_vocab_size")) or 1,
        graph,
        whole(config.get("vocab_size")),
    )


def _inputs(settings: Mapping[str, Any]) -> Sequence[str]:
    """The inputs of a model whose tokenizer names none: generic classes have no token types."""
    generic = settings.get("tokenizer_class") in {"TokenizersBackend", "PreTrainedTokenizerFast"}
    return () if generic else ("token_type_ids",)


def _weights(find: Find, names: Sequence[str]) -> Path | None:
    """The first of these files; a separate file of its weights is downloaded as well."""
    for name in names:
        path = find(name)
        if path is None:
            continue
        if name.endswith(".xml"):
            find(name[: -len("xml")] + "bin")
        else:
            find(name + "_data")
            find(name + ".data")  # as newer versions of torch name it
        return path
    return None


def _graph(model: str, find: Find, config: Mapping[str, Any]) -> bytes | None:
    """The graph of an encoder with modules that score; None if the model is no such one."""
    modules = _read(model, find, "modules.json") or ()
    if len(modules) < 2 or str((config.get("architectures") or [""])[0]) != "ModernBertModel":
        return None
    try:
        return modular_graph.build(lambda name: _read(model, find, name), find)
    except ValueError as error:
        raise TorchOnlyError(f"the model {model!r} {error}") from error
    except KeyError as error:
        raise ModelLoadError(
            f"the model {model!r} cannot be loaded: its checkpoint has no {error.args[0]}, which "
            "its scores need"
        ) from error


def _check(model: str, find: Find, config: Mapping[str, Any]) -> None:
    """Check that the model is a classifier that its file can hold whole."""
    architectures = config.get("architectures") or [""]
    if not str(architectures[0]).endswith("ForSequenceClassification"):
        kind = architectures[0] or "model of unknown kind"
        raise TorchOnlyError(
            f"the model {model!r} is {with_article(kind)}, not a sequence classifier"
        )
    labels = len(config.get("id2label") or ()) or config.get("num_labels", 2)
    if labels != 1:
        raise ModelLoadError(f"the model {model!r} has {labels} labels; a reranker has one")
    modules = _read(model, find, "modules.json")
    if modules is not None and len(modules) > 1:
        raise TorchOnlyError(f"the model {model!r} has {len(modules)} modules")


_ARGUMENTS = (
    "processing_kwargs",
    *(f"{part}_{word}" for part in ("model", "config") for word in ("kwargs", "args")),
    *("processor_kwargs", "tokenizer_args"),
)
"""Arguments for a loader of transformers, in ``sentence_bert_config.json``."""


def _check_texts(model: str, find: Find) -> None:
    """Check that a runtime without torch reads texts as sentence-transformers would."""
    own = _read(model, find, "config_sentence_transformers.json") or {}
    if own.get("default_prompt_name"):
        raise TorchOnlyError(f"the model {model!r} has a default prompt")
    transformer = _read(model, find, "sentence_bert_config.json") or {}
    if transformer.get("do_lower_case"):
        raise TorchOnlyError(f"the model {model!r} lower-cases texts before its tokenizer")
    for key in _ARGUMENTS:
        if transformer.get(key):
            raise TorchOnlyError(f"the model {model!r} has settings of its own: {key}")


def _check_normalizer(model: str, tokenizer: Path, settings: Mapping[str, Any]) -> None:
    """Check that the tokenizer normalizes as its settings say, which transformers follows."""
    kind = str(settings.get("tokenizer_class", "")).removesuffix("Fast")
    if kind not in {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"}:
        return
    try:
        normalizer = json.loads(tokenizer.read_text(encoding="utf-8")).get("normalizer") or {}
    except (OSError, ValueError, AttributeError):
        return  # reported when it is loaded
    if normalizer.get("type") != "BertNormalizer":
        return
    lower, accents = settings.get("do_lower_case", True), settings.get("strip_accents")
    actual_lower, actual_accents = normalizer.get("lowercase"), normalizer.get("strip_accents")
    strips = lower if accents is None else accents
    actual_strips = actual_lower if actual_accents is None else actual_accents
    expected = lower, settings.get("tokenize_chinese_chars", True), strips
    if expected != (actual_lower, normalizer.get("handle_chinese_chars"), actual_strips):
        raise TorchOnlyError(
            f"the files tokenizer.json and tokenizer_config.json of the model {model!r} disagree"
        )


def _read(model: str, find: Find, name: str) -> Any:
    """The contents of a JSON file; None if the model has no such file."""
    path = find(name)
    if path is None:
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(
            f"the file {name} of the model {model!r} cannot be read ({type(error).__name__})"
        ) from error
