"""Whether a model's files hold everything that its scores need; for models on torch.

transformers initialises weights that a checkpoint lacks at random, with a warning. Here such a
model is refused: its scores would be noise, and different in each process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from secondpass.errors import ModelLoadError
from secondpass.scorers.checks.padding import Score, padding_fault
from secondpass.scorers.checks.sizes import check_own_words, check_size, skipped_positions
from secondpass.scorers.hub.facts import ModelFacts
from secondpass.scorers.torch.loading import Loading, observed_loading
from secondpass.scorers.torch.texts import ids_of
from secondpass.settings import counted

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

M = TypeVar("M", bound="Module")

_KNOWN_MODULE = re.compile(
    r"sentence_transformers(\.\w+)+|torch\.nn(\.\w+)+|(transformers|pylate)(\.\w+){2,}"
)
"""Module types that are no code of the folder. A reference of two parts, such as ``pylate.Dense``,
may be read as a file of the folder and a class in it."""

SAMPLE = "Which of these weights does a score of some words depend on?"
"""A text that a score is computed of, to learn which weights it depends on."""

_SHOWN = 4
"""Missing weights that a message names."""


def _layer(key: str) -> int:
    """The number of the layer that a weight is of; -1 if it is of none."""
    match = _OF_LAYER.search(key)
    return -1 if match is None else int(match[2])


def load_checked(
    name: str,
    facts: ModelFacts | None,
    construct: Callable[[], M],
    score: Callable[[M], Tensor],
    *,
    trust_remote_code: bool = False,
    reads: Sequence[str] = (),
    supplied: Sequence[str] = (),
) -> M:
    """Load a model that is complete, scores a text, and whose modules are no code of its own.

    A missing weight on which no score depends, such as BERT's pooler in late interaction, is
    allowed. ``score`` scores or encodes :data:`SAMPLE`; ``facts`` are None if the model has neither
    ``config.json`` nor ``modules.json``; ``reads`` are names of weights that are read beside those
    of the model's class, ``supplied`` those that ``construct`` takes from an adapter.

    Raises:
        ModelLoadError: it needs code of its own, lacks a weight or its vocabulary, has weights that
            its class does not compute, or cannot score a text.
    """
    if facts is not None:
        check_tokenizer_files(name, facts)
    for type_ in facts.types if facts is not None and not trust_remote_code else ():
        if not _KNOWN_MODULE.fullmatch(type_):
            raise ModelLoadError(
                f"the model {name!r} has a module of the type {type_!r}, which is code of its own "
                "or of another package; trust_remote_code runs it"
            )
    try:
        with observed_loading() as loadings:
            model = construct()
    except RuntimeError as error:
        # Of a module of sentence-transformers; its first line does not name the weights.
        if not str(error).startswith("Error(s) in loading state_dict"):
            raise
        lines = [line.strip() for line in str(error).splitlines()[1:]]
        raise ModelLoadError(_refusal(name, facts, "; ".join(lines))) from error
    loadings = [
        loading._replace(missing=[key for key in loading.missing if key not in supplied])
        for loading in loadings
    ]
    mismatched = sorted({key for loading in loadings for key in loading.mismatched})
    if mismatched:
        reason = f"its checkpoint has other shapes of {_listed(mismatched)}"
        raise ModelLoadError(_refusal(name, facts, reason))
    missing = sorted({key for loading in loadings for key in loading.missing})
    if missing and _are_needed(model, loadings, score):
        kinds = ", ".join(dict.fromkeys(type(loading.model).__name__ for loading in loadings))
        reason = f"its checkpoint has no {_listed(missing)}, which the scores of {kinds} need"
        raise ModelLoadError(_refusal(name, facts, reason))
    if not trust_remote_code:
        _check_unexpected(name, facts, loadings, reads)
    _check_score(name, facts, model, score)
    return model


_HARMLESS = re.compile(
    r"pooler|position_ids|inv_freq|rotary_emb|\.attn\.(masked_)?bias$|^decoder\.(weight|bias)$"
    r"|(^|\.)(cls|lm_head|\w*predictions|vocab_(transform|layer_norm|projector)|mlm\w*|mtp)\."
)
"""Weights without influence on scores: of buffers, poolers, of the training as a language model."""
_OF_LAYER = re.compile(r"(^|\.)(?:layers?|h|blocks?)\.(\d+)\.")


def _check_unexpected(
    name: str, facts: ModelFacts | None, loadings: Sequence[Loading], reads: Sequence[str]
) -> None:
    """Check that the class of a model computes all of its checkpoint.

    Layers beyond those of config.json, or a second head, are left out in silence. Of an encoder the
    heads are no matter.
    """
    for loading in loadings:
        kind = type(loading.model).__name__
        last = max((_layer(key) for key, _ in loading.model.named_parameters()), default=-1)
        is_encoder = kind.endswith(("Model", "ForMaskedLM"))
        more = [
            key
            for key in loading.unexpected
            if key not in reads
            and not _HARMLESS.search(key)
            and (_layer(key) > last or (_layer(key) < 0 and not is_encoder))
        ]
        if more:
            reason = f"its checkpoint has {_listed(more)}, which {kind} does not compute"
            raise ModelLoadError(_refusal(name, facts, reason))


def _check_score(
    name: str, facts: ModelFacts | None, model: M, score: Callable[[M], Tensor]
) -> None:
    """Check that modules fit each other and numbers are finite, or each call would fail."""
    import torch

    try:
        with torch.no_grad():
            scored = score(model)
    except ModelLoadError:
        raise
    except Exception as error:
        line = str(error).strip().partition("\n")[0][:200]
        reason = f"it cannot score a text ({type(error).__name__}: {line})"
        raise ModelLoadError(_refusal(name, facts, reason)) from error
    if not torch.isfinite(scored).all():
        raise ModelLoadError(_refusal(name, facts, "its weights give no finite score"))


VOCABULARIES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model"),
    *("tokenizer.model", "spm.model", "sentencepiece.model", "source.spm", "bpe.codes"),
    *("vocab.bpe", "tekken.json", "vocab.model"),
)
"""Files that hold the vocabulary of a tokenizer."""
_NEED_NONE = ("ByT5", "Canine", "Perceiver")
"""Tokenizers of bytes or characters, which have no such file."""


def check_tokenizer_files(name: str, facts: ModelFacts) -> None:
    """Check that a model has a vocabulary; transformers makes one of five tokens if it has none."""
    for where in dict.fromkeys(("", *_places(facts))):
        settings = facts.read(f"{where}tokenizer_config.json") or {}
        own = str(settings.get("tokenizer_class", "")).startswith(_NEED_NONE)
        if own or settings.get("auto_map"):
            return
        if any(facts.find(f"{where}{file}") is not None for file in VOCABULARIES):
            return
    raise ModelLoadError(
        f"the model {name!r} has no tokenizer: neither {VOCABULARIES[0]} nor another file of a "
        "vocabulary"
    )


def _places(facts: ModelFacts) -> Iterator[str]:
    """The beginnings of the paths of what modules have, those of routers, too."""
    for module in facts.modules or ():
        folder = str(module.get("path") or "")
        where = f"{folder}/" if folder else ""
        yield where
        router = facts.read(f"{where}router_config.json") or {}
        yield from (f"{where}{name}/" for name in router.get("types") or () if name)


def check_vocabulary(name: str, tokenizer: Any, model: Any) -> None:
    """As :func:`check_tokens`, of a model of transformers; nothing of one that is none."""
    try:
        rows = model.get_input_embeddings().weight.shape[0]
    except (AttributeError, NotImplementedError):  # a model of vectors without transformers
        return
    check_tokens(name, tokenizer, rows)


def check_tokens(name: str, tokenizer: Any, rows: int) -> None:
    """Check that a model has a vector for each token of its tokenizer, but for added tokens, and
    that the tokenizer is not much smaller.
    """
    size = getattr(tokenizer, "vocab_size", 0)
    if size > rows:
        raise ModelLoadError(
            f"the model {name!r} has {rows} token vectors, and its tokenizer {size} tokens: it is "
            "the tokenizer of another model"
        )
    if size:
        check_size(name, len(tokenizer), rows)
        check_own_words(
            name, size, tokenizer.convert_ids_to_tokens, lambda text: ids_of(tokenizer, text)
        )


def check_read_out(name: str, encoder: Any, prompt: str | None) -> None:
    """Check that a causal cross-encoder has a template that can hold a pair."""
    modules = [type(module).__name__ for module in encoder]
    if "LogitScore" not in modules:
        return
    template = getattr(encoder.processor, "chat_template", None)
    if template is None and prompt is None and encoder.default_prompt_name is None:
        raise ModelLoadError(
            f"the model {name!r} has no template: neither a chat template nor a default prompt; "
            "set `prompt`, or tokenizer_kwargs: {chat_template: …}"
        )
    try:
        encoder.preprocess([("a", "b"), ("a", "b b")], prompt=prompt)
    except Exception as error:
        line = str(error).strip().partition("\n")[0][:200]
        raise ModelLoadError(f"the model {name!r} cannot read pairs: {line}") from error


def positions_of(config: Any) -> int | None:
    """The number of tokens for which a model has positions; None if it is not limited."""
    config = config.get_text_config()
    positions: int | None = getattr(config, "max_position_embeddings", None)
    return None if positions is None else positions - skipped_positions(config.to_dict())


_LEARNED = ("position_embeddings.weight", "wpe.weight", "embed_positions.weight")
"""The ends of the names of vectors of positions that are learned, as of BERT, GPT-2 and OPT."""


def learned_positions(model: Any) -> int | None:
    """As :func:`positions_of`, if each position has a vector, so that no more can be read."""
    if model is None or not any(name.endswith(_LEARNED) for name, _ in model.named_parameters()):
        return None
    return positions_of(model.config)


def set_padding(name: str, tokenizer: Any, model: Any, score: Score | None, *, exact: bool) -> None:
    """Have a tokenizer that pads at the left pad at the right, where the model needs that.

    The first token of an encoder would be padding, and learned positions would be counted from it.
    Of a causal model that is read at the last position, padding at the left is a must: ``score``
    scores its pairs in one forward pass.

    Raises:
        ModelLoadError: the model is read at the last position, and its positions are learned and
            counted from the padding.
    """
    if getattr(tokenizer, "padding_side", "right") != "left" or model is None:
        return
    is_learned = learned_positions(model) is not None
    if score is None:
        is_causal = any(getattr(module, "is_causal", False) for module in model.modules())
        if is_learned or not is_causal:
            tokenizer.padding_side = "right"
    elif is_learned and (fault := padding_fault(score, exact=exact)) is not None:
        raise ModelLoadError(
            f"the model {name!r} has scores that depend on the batch, as it is read at the last "
            f"position and counts positions from the padding: {fault}"
        )


def set_pad_token(name: str, tokenizer: Any, model: Any) -> None:
    """Give a model without a padding token its tokenizer's, or else the end of a text.

    Batches are padded, and causal classifiers read the last token that is no padding.
    """
    if getattr(tokenizer, "pad_token_id", 0) is None:
        if tokenizer.eos_token_id is None:
            raise ModelLoadError(
                f"the model {name!r} has neither a pad token nor an end-of-text token, so that "
                "batches cannot be padded; set tokenizer_kwargs: {pad_token: …}"
            )
        tokenizer.pad_token = tokenizer.eos_token
    if model is None or not type(model).__name__.endswith("ForSequenceClassification"):
        return
    config = model.config.get_text_config()
    own = getattr(config, "pad_token_id", 0)
    pad = getattr(tokenizer, "pad_token_id", own)
    if own == pad or not hasattr(config, "pad_token_id"):
        return
    ids = tokenizer("a", "a")["input_ids"]
    if own is not None:
        # It would read the padding, or, of a text that ends with its own token, the one before.
        if ids and ids[-1] in {own, pad}:
            raise ModelLoadError(
                f"the model {name!r} has another pad token (pad_token_id {own}) than its tokenizer "
                f"({pad}), and one of them ends each text"
            )
    elif ids and ids[-1] == pad:
        raise ModelLoadError(
            f"the model {name!r} has no pad token (pad_token_id), and {tokenizer.pad_token!r} ends "
            "each text; set tokenizer_kwargs: {pad_token: …} to another token of its vocabulary"
        )
    config.pad_token_id = tokenizer.pad_token_id


def _refusal(name: str, facts: ModelFacts | None, reason: str) -> str:
    is_a = f" ({facts.architecture})" if facts is not None and facts.architecture else ""
    return f"the model {name!r}{is_a} cannot be loaded: {reason}"


def _listed(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_SHOWN])
    return (
        shown
        if len(keys) <= _SHOWN
        else f"{shown} and {counted(len(keys) - _SHOWN, 'more weight')}"
    )


def _are_needed(model: M, loadings: Sequence[Loading], score: Callable[[M], Tensor]) -> bool:
    """Whether a score depends on a missing weight: whether other numbers there change it."""
    import torch

    weights: list[Tensor] = []
    for loading in loadings:
        named = {**dict(loading.model.named_parameters()), **dict(loading.model.named_buffers())}
        for key in loading.missing:
            weight = named.get(key)
            if weight is None or weight.is_meta:
                return True
            if weight.is_floating_point():  # others, such as positions, are no random numbers
                weights.append(weight)
    if not weights:
        return False
    with torch.no_grad():
        before = [weight.clone() for weight in weights]
        try:
            first = score(model)
            for weight in weights:
                weight.copy_(torch.linspace(-1, 1, weight.numel()).reshape(weight.shape))
            return not torch.equal(first, score(model))
        except Exception:
            return True
        finally:
            for weight, values in zip(weights, before, strict=True):
                weight.copy_(values)
