"""Whether a model's files hold everything that its scores need; for models on torch.

transformers initialises weights that a checkpoint lacks at random, with a warning. Here such a
model is refused: its scores would be noise, and different in each process.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from secondpass.concurrency.lazy import ForkLock
from secondpass.errors import ModelLoadError, with_article
from secondpass.scorers.hub import HubModel

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

M = TypeVar("M", bound="Module")
Kind = Literal["cross_encoder", "late_interaction"]

_PYLATE = {"query_prefix", "document_prefix", "query_length", "document_length", "skiplist_words"}
"""Settings that older versions of PyLate write into the configuration of a model."""

_KNOWN_MODULE = re.compile(
    r"sentence_transformers(\.\w+)+|torch\.nn(\.\w+)+|(transformers|pylate)(\.\w+){2,}"
)
"""Module types that are no code of the folder. A reference of two parts, such as ``pylate.Dense``,
may be read as a file of the folder and a class in it."""

_OTHER_INPUT = {
    "ForConditionalGeneration": "generates text from an encoder's states (sequence to sequence)",
    "ForRanking": "reads all passages of a list in one prompt",
    "ForTokenClassification": "labels each token",
    "ForMultipleChoice": "compares answers",
}
"""What models do that no pair of texts can be given to, by the end of their class's name."""

SAMPLE = "Which of these weights does a score of some words depend on?"
"""A text that a score is computed of, to learn which weights it depends on."""

_SHOWN = 4
"""Missing weights that a message names."""


@dataclass(frozen=True)
class ModelDescription:
    """What the JSON files of a model say of it.

    Attributes:
        config: ``config.json``, of the model's first module.
        own: ``config_sentence_transformers.json``.
        modules: ``modules.json``; None if there is none.
        types: the types of all modules, with those of routers.
    """

    config: Mapping[str, Any]
    own: Mapping[str, Any]
    modules: Sequence[Mapping[str, Any]] | None
    types: Sequence[str]

    @property
    def architecture(self) -> str:
        """The class of the transformer, or its kind, or an empty string."""
        names = self.config.get("architectures") or [self.config.get("model_type")]
        return str(names[0] or "")

    @property
    def is_late_interaction(self) -> bool:
        """Whether it was trained for late interaction."""
        return bool(
            self.own.get("model_type") in ("MultiVectorEncoder", "ColBERT")
            or self.own.keys() & _PYLATE
            or self.architecture == "HF_ColBERT"
            or self.architecture.endswith("ForRetrieval")
        )

    @property
    def is_modular_cross_encoder(self) -> bool:
        """Whether sentence-transformers loads its modules as those of a cross-encoder."""
        return self.modules is not None and self.own.get("model_type") == "CrossEncoder"


def describe(source: HubModel, offline: bool) -> ModelDescription | None:
    """Read the JSON files of a model; None if it has neither ``config.json`` nor ``modules.json``.

    Raises:
        ValueError: a file is no JSON, or of another form.
    """

    def read(name: str, folder: str = "", form: type = dict) -> Any:
        content = _read_json(source, offline, name, folder)
        if content is not None and not isinstance(content, form):
            raise ValueError(f"{name} holds {with_article(type(content).__name__)}")
        return content

    modules = read("modules.json", form=list)
    own = read("config_sentence_transformers.json")
    config = read("config.json")
    if config is None and modules is None:
        return None
    types: list[str] = []
    for module in modules or ():
        kind, folder = str(module.get("type", "")), str(module.get("path", ""))
        types.append(kind)
        if kind.endswith((".Router", ".Asym")):
            router = read("router_config.json", folder) or read("config.json", folder) or {}
            types.extend(map(str, (router.get("types") or {}).values()))
    if config is None and modules:
        config = read("config.json", str(modules[0].get("path", "")))
    return ModelDescription(config or {}, own or {}, modules, types)


def _check_kind(name: str, description: ModelDescription, kind: Kind) -> None:
    """Check that a model is made for the scorer, as far as its JSON files say."""
    architecture = description.architecture
    if kind == "late_interaction":
        if not description.is_late_interaction:
            raise ModelLoadError(f"the model {name!r} was not trained for late interaction")
        return
    if description.is_modular_cross_encoder:
        return
    for end, reason in _OTHER_INPUT.items():
        if architecture.endswith(end):
            raise ModelLoadError(
                f"the model {name!r} is {with_article(architecture)}: it {reason}, and a "
                "cross_encoder scores pairs"
            )
    if architecture.endswith("ForCausalLM"):
        fits = _fits(description)
        raise ModelLoadError(
            f"the model {name!r} is {with_article(architecture)} without the read-out of a "
            "reranker: neither the ids of its answer tokens nor its template are known. "
            + (
                fits
                or "Use its author's files for sentence-transformers, whose modules.json has a "
                "LogitScore, or make them: CrossEncoder(modules=[Transformer(…, "
                "transformer_task='text-generation'), LogitScore(true_token_id=…, "
                "false_token_id=…)]).save_pretrained(…), with a chat template"
            )
        )


def _check_code(name: str, description: ModelDescription) -> None:
    """Check that no code but that of known packages defines a model."""
    for type_ in description.types:
        if not _KNOWN_MODULE.fullmatch(type_):
            raise ModelLoadError(
                f"the model {name!r} has a module of the type {type_!r}, which is code of its own "
                "or of another package; trust_remote_code runs it"
            )
    auto_map = description.config.get("auto_map")
    for key, code in auto_map.items() if isinstance(auto_map, Mapping) else ():
        if str(key).startswith(("AutoModel", "AutoConfig")):
            raise ModelLoadError(
                f"the model {name!r} ({description.architecture or 'of unknown kind'}) is defined "
                f"by code of its own ({code}), without which the scores would be others; "
                "trust_remote_code runs it"
            )


def load_checked(
    source: HubModel,
    offline: bool,
    kind: Kind,
    construct: Callable[[], M],
    score: Callable[[M], Tensor],
    *,
    trust_remote_code: bool,
    prompt: str | None = None,
) -> M:
    """Load a model of sentence-transformers that is what the scorer needs, and complete.

    A missing weight on which no score depends, such as BERT's pooler in late interaction, is
    allowed.

    Args:
        source: the model.
        offline: whether the hub is not to be contacted.
        kind: the scorer that is to run it.
        construct: calls the constructor of sentence-transformers.
        score: scores or encodes :data:`SAMPLE` with the loaded model.
        trust_remote_code: whether code of the model may run.
        prompt: that of the configuration.

    Raises:
        ModelLoadError: it is of another kind, needs code of its own, or lacks a weight, the
            template of its read-out or a padding token.
    """
    name, description = source.name, describe(source, offline)
    if description is not None:
        _check_kind(name, description, kind)
        if not trust_remote_code:
            _check_code(name, description)
    try:
        with _observer.observed() as loadings:
            model = construct()
    except RuntimeError as error:
        # Of a module of sentence-transformers; its first line does not name the weights.
        if not str(error).startswith("Error(s) in loading state_dict"):
            raise
        lines = [line.strip() for line in str(error).splitlines()[1:]]
        raise ModelLoadError(_refusal(name, description, "; ".join(lines))) from error
    mismatched = sorted({key for loading in loadings for key in loading.mismatched})
    if mismatched:
        reason = f"its checkpoint has other shapes of {_listed(mismatched)}"
        raise ModelLoadError(_refusal(name, description, reason))
    _set_pad_token(name, model)
    missing = sorted({key for loading in loadings for key in loading.missing})
    if missing and _are_needed(model, loadings, score):
        kinds = ", ".join(dict.fromkeys(type(loading.model).__name__ for loading in loadings))
        reason = f"its checkpoint has no {_listed(missing)}, which the scores of {kinds} need"
        raise ModelLoadError(_refusal(name, description, reason))
    if kind == "cross_encoder":
        _check_read_out(name, model, prompt)
    return model


def _check_read_out(name: str, encoder: Any, prompt: str | None) -> None:
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


def _set_pad_token(name: str, encoder: Any) -> None:
    """Give a model without a padding token its tokenizer's, or else the end of a text.

    Batches are padded, and causal classifiers read the last token that is no padding.
    """
    tokenizer = encoder.tokenizer
    if getattr(tokenizer, "pad_token_id", 0) is None:
        if tokenizer.eos_token_id is None:
            raise ModelLoadError(
                f"the model {name!r} has neither a pad token nor an end-of-text token, so that "
                "batches cannot be padded; set tokenizer_kwargs: {pad_token: …}"
            )
        tokenizer.pad_token = tokenizer.eos_token
    model = encoder.transformers_model
    if model is None or not type(model).__name__.endswith("ForSequenceClassification"):
        return
    config = model.config.get_text_config()
    if getattr(config, "pad_token_id", 0) is not None:
        return
    ids = tokenizer("a", "a")["input_ids"]
    if ids and ids[-1] == tokenizer.pad_token_id:
        raise ModelLoadError(
            f"the model {name!r} has no pad token (pad_token_id), and {tokenizer.pad_token!r} ends "
            "each text; set tokenizer_kwargs: {pad_token: …} to another token of its vocabulary"
        )
    config.pad_token_id = tokenizer.pad_token_id


def _refusal(name: str, description: ModelDescription | None, reason: str) -> str:
    """The message, with what the model is made for."""
    fits = None if description is None else _fits(description)
    kind = "" if description is None else description.architecture
    is_a = f" ({kind})" if kind else ""
    return f"the model {name!r}{is_a} cannot be loaded: {reason}" + (f". {fits}" if fits else "")


def _fits(description: ModelDescription) -> str | None:
    """What the model is made for, if it is no reranker of pairs."""
    if description.is_modular_cross_encoder:
        return None
    if description.is_late_interaction:
        return "It is a model of late interaction, for the scorer late_interaction"
    if description.own.get("model_type") == "SparseEncoder":
        return "It is a sparse encoder, for the first stage of a search, and no reranker"
    if any(type_.endswith((".Pooling", ".Normalize")) for type_ in description.types):
        return "It is an embedder (bi-encoder), for the first stage of a search, and no reranker"
    if description.architecture.endswith(("Model", "ForMaskedLM", "ForPreTraining")):
        return "It is an encoder that was not trained as a reranker"
    return None


def _listed(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_SHOWN])
    return shown if len(keys) <= _SHOWN else f"{shown} and {len(keys) - _SHOWN} more weights"


# ---------------------------------------------------------------------- what was loaded


@dataclass
class _Loading:
    """One call of ``from_pretrained``: the model, and the names of its weights."""

    model: Any
    missing: list[str]
    mismatched: list[str] = field(default_factory=list)


class _Observer:
    """Learns what transformers loads in a thread.

    ``from_pretrained`` tells it with ``output_loading_info``, in all versions. As
    sentence-transformers calls it several levels down and has no such argument, it is wrapped
    meanwhile. Calls of other threads pass through.
    """

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._threads = threading.local()
        self._observing = 0
        self._original: Any = None

    @contextmanager
    def observed(self) -> Iterator[list[_Loading]]:
        """What this thread loads in the meantime."""
        from transformers import PreTrainedModel

        with self._lock:
            if not self._observing:
                self._original = PreTrainedModel.__dict__["from_pretrained"]
                wrapper = self._wrapper(self._original.__func__)
                setattr(PreTrainedModel, "from_pretrained", classmethod(wrapper))  # noqa: B010
            self._observing += 1
        loadings: list[_Loading] = []
        self._threads.loadings = loadings
        try:
            yield loadings
        finally:
            self._threads.loadings = None
            with self._lock:
                self._observing -= 1
                if not self._observing:
                    setattr(PreTrainedModel, "from_pretrained", self._original)  # noqa: B010

    def _wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def from_pretrained(cls: Any, *args: Any, **settings: Any) -> Any:
            loadings = getattr(self._threads, "loadings", None)
            if loadings is None:
                return original(cls, *args, **settings)
            asked = settings.pop("output_loading_info", False)
            # Otherwise transformers raises an error that names no weight.
            settings["ignore_mismatched_sizes"] = True
            model, info = original(cls, *args, output_loading_info=True, **settings)
            loadings.append(_loading(model, info, settings.get("config")))
            return (model, info) if asked else model

        return from_pretrained


_observer = _Observer()


def _loading(model: Any, info: Mapping[str, Any], config: Any) -> _Loading:
    missing = list(info["missing_keys"])
    if getattr(model, "_hf_peft_config_loaded", False):
        # These are keys of the adapter alone; a head that its base lacks must be in it.
        names = [name for name, _ in model.named_parameters()]
        known = getattr(config, "architectures", None) or ()
        if type(model).__name__ not in known and not any(".modules_to_save." in it for it in names):
            missing.append("trained head")
    return _Loading(model, missing, sorted(key for key, *_ in info["mismatched_keys"]))


def _are_needed(model: M, loadings: Sequence[_Loading], score: Callable[[M], Tensor]) -> bool:
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


def _read_json(source: HubModel, offline: bool, name: str, folder: str) -> Any:
    """The content of a JSON file; None if the model has none of that name."""
    from sentence_transformers.util import load_file_path

    path = load_file_path(
        source.name,
        name,
        subfolder=folder,
        token=source.token,
        cache_folder=source.cache_folder,
        revision=source.revision,
        local_files_only=offline,
    )
    return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
