"""Cross-encoders on torch, by sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.errors import ModelLoadError
from secondpass.questions import affixes
from secondpass.scorers.checks.sizes import check_length
from secondpass.scorers.hub.facts import ModelFacts
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.runtimes.runtime import Precision
from secondpass.scorers.tokens.control_tokens import ControlTokens
from secondpass.scorers.tokens.truncated import TruncatedPairs
from secondpass.scorers.torch.checkpoints import (
    SAMPLE,
    check_read_out,
    check_vocabulary,
    learned_positions,
    load_checked,
    positions_of,
    set_pad_token,
    set_padding,
)
from secondpass.scorers.torch.runner import TorchRunner
from secondpass.scorers.torch.texts import CUTS, as_characters, as_messages, cut_pair, knows

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder
    from torch import Tensor

_CHARACTERS_PER_TOKEN = 4

INSTRUCTION = "{instruction}"
"""The placeholder in a prompt for the instruction of a call."""


class TextPair(NamedTuple):
    """A prepared pair, with an estimate of its tokens.

    Attributes:
        prompt: None for the model's own.
        has_control: whether the model's author or the operator wrote control tokens around its
            texts.
    """

    query: str
    passage: str
    length: int
    prompt: str | None
    has_control: bool = False


class TorchModel(TorchRunner):
    """A sentence-transformers ``CrossEncoder``, by the declarations in its files.

    ``facts`` are None if it has neither ``config.json`` nor ``modules.json``.

    Raises:
        ModelLoadError: the model cannot be loaded, lacks weights that its scores need, or has more
            than one label.
    """

    def __init__(
        self,
        source: HubModel,
        offline: bool,
        facts: ModelFacts | None = None,
        *,
        device: str,
        precision: Precision,
        prompt: str | None = None,
        prompt_name: str | None = None,
        options: Mapping[str, Any],
    ) -> None:
        settings = {"prompt": prompt, "prompt_name": prompt_name}
        super().__init__(
            source, offline, device=device, precision=precision, options=options, settings=settings
        )
        from sentence_transformers import CrossEncoder

        self.truncated = TruncatedPairs()
        self._prompt = prompt

        def construct() -> CrossEncoder:
            encoder: CrossEncoder = CrossEncoder(source.name, **self.arguments)
            check_vocabulary(source.name, encoder.tokenizer, encoder.transformers_model)
            set_pad_token(source.name, encoder.tokenizer, encoder.transformers_model)
            check_read_out(source.name, encoder, prompt)
            config = getattr(encoder.transformers_model, "config", None)
            if config is not None:
                check_length(source.name, options.get("max_length"), positions_of(config))
            return encoder

        def load() -> CrossEncoder:
            trusted = bool(options.get("trust_remote_code"))
            return load_checked(
                source.name, facts, construct, _scores_of_a_pair, trust_remote_code=trusted
            )

        encoder = self.encoder = self.load(load)
        if prompt_name is not None and prompt_name not in encoder.prompts:
            known = ", ".join(encoder.prompts) or "none"
            raise ModelLoadError(
                f"the model {source.name!r} has no prompt {prompt_name!r}; it has: {known}"
            )
        if encoder.num_labels != 1:
            raise ModelLoadError(
                f"the model {source.name!r} has {encoder.num_labels} labels; a reranker has one"
            )
        self._tokenizer: Any = getattr(encoder, "tokenizer", None)
        self._control = ControlTokens(getattr(self._tokenizer, "added_tokens_decoder", {}))
        # Such a model is given every pair by its chat template.
        self._is_chat = "message" in getattr(encoder[0], "modality_config", ())
        if not self._is_chat and "message" in getattr(encoder, "modalities", ()):
            raise ModelLoadError(
                f"the model {source.name!r} has a {type(encoder[0]).__name__} of modules with chat "
                "templates, which may take a text for the address of a picture"
            )
        self._passage_last = not self._is_chat or _holds_passage_last(encoder)
        name = prompt_name or encoder.default_prompt_name
        self._default_prompt: str | None = encoder.prompts.get(name) if name else None
        encoder.eval()
        self.loaded(encoder, encoder.device)
        self._longest: int = _limited(encoder)
        self.load(partial(self._set_padding, exact=precision == "exact"))

    def _set_padding(self, *, exact: bool) -> None:
        def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
            prepared = [pair for query, text in pairs for pair in self.prepare(query, [text])]
            return self._predict(prepared)

        reads_last = any(type(module).__name__ == "LogitScore" for module in self.encoder)
        model = self.encoder.transformers_model
        read = score if reads_last else None
        set_padding(self._source.name, self._tokenizer, model, read, exact=exact)

    @property
    def takes_instruction(self) -> bool:
        """Whether the prompt names the instruction of a call."""
        return self._prompt is not None and INSTRUCTION in self._prompt

    def knows(self, word: str) -> bool:
        return knows(self._tokenizer, word)

    def prepare(
        self, query: str, passages: Sequence[str], *, instruction: str | None = None
    ) -> list[TextPair]:
        prompt = self._prompt
        if prompt is not None and INSTRUCTION in prompt:
            if instruction is None:
                prompt = None
            else:
                prompt = prompt.replace(INSTRUCTION, self._control.escaped(instruction))
        start = len(prompt or "") + len(query)
        has_control = (
            self._is_chat
            or self._control.any_in((self._default_prompt if prompt is None else prompt) or "")
            or self._control.written_in(query)
        )
        return [
            TextPair(
                query,
                passage,
                min(3 + (start + len(passage)) // _CHARACTERS_PER_TOKEN, self._longest),
                prompt,
                has_control or self._control.written_in(passage),
            )
            for passage in passages
        ]

    def run(self, pairs: Sequence[TextPair]) -> list[float]:
        return self._thread.run(partial(self._predict, pairs))

    def _predict(self, pairs: Sequence[TextPair]) -> list[float]:
        scores = [0.0] * len(pairs)
        # Calls with different instructions may share a batch, but not a forward pass.
        for group in dict.fromkeys((pair.prompt, pair.has_control) for pair in pairs):
            indices = [
                index
                for index, pair in enumerate(pairs)
                if (pair.prompt, pair.has_control) == group
            ]
            predicted = self._forward([pairs[index] for index in indices], *group)
            for index, score in zip(indices, predicted, strict=True):
                scores[index] = score
        return scores

    def _forward(
        self, pairs: Sequence[TextPair], prompt: str | None, has_control: bool
    ) -> list[float]:
        """The logits of pairs with the same prompt, in one forward pass."""
        import torch
        from sentence_transformers.util import batch_to_device

        if prompt is None:
            prompt = self._default_prompt
        with suppress(AttributeError):
            # Without control tokens around the texts, the tokenizer reads all as characters. Not
            # the setting of `backend_tokenizer`: every call sets it to this.
            self._tokenizer.split_special_tokens = not has_control
        texts = [
            (self._escaped(pair.query, has_control), self._escaped(pair.passage, has_control))
            for pair in pairs
        ]
        fitted = [self._fitted(query, passage, prompt) for query, passage in texts]
        features = self._features(fitted, prompt)
        cuts = _cuts(features, len(pairs), self._longest)
        for pair, before, after, cut in zip(pairs, texts, fitted, cuts, strict=True):
            query_cut, passage_cut = (cut[part] or after[part] != before[part] for part in (0, 1))
            if query_cut or passage_cut:
                self.truncated.add(
                    pair.query,
                    passages=[pair.passage] if passage_cut else [],
                    beside=[pair.passage] if query_cut else [],
                )
        with torch.inference_mode():
            output = self.encoder(batch_to_device(features, self.encoder.device))
        scores: list[float] = output["scores"].float().reshape(len(pairs)).tolist()
        return scores

    def _escaped(self, text: str, has_control: bool) -> str:
        """The text without control tokens in its content, as its tokenizer now reads it."""
        is_fast = getattr(self._tokenizer, "is_fast", False)
        text = self._control.escaped(text, markup_only=is_fast and not has_control)
        return as_characters(self._tokenizer, self._control, text)

    def _cuts_query(self, query: str) -> bool:
        """Whether a cut at the end of the chat template might take part of the query."""
        return not self._passage_last or len(query) > self._longest // 2

    def _features(
        self, texts: Sequence[tuple[str, str]], prompt: str | None, **settings: Any
    ) -> dict[str, Any]:
        """The inputs of the model, by its own rules: template, prompt and truncation."""
        pairs: list[Any] = [(str(query), str(passage)) for query, passage in texts]
        if self._is_chat:
            pairs = [as_messages(self.encoder, query, passage) for query, passage in pairs]
        features: dict[str, Any] = self.encoder.preprocess(pairs, prompt=prompt, **settings)
        return features

    def _fitted(self, query: str, passage: str, prompt: str | None) -> tuple[str, str]:
        """Cut the texts between prefix and suffix where the tokenizer would cut these off."""
        framed = any((*affixes(query), *affixes(passage)))
        if not framed and not (self._is_chat and self._cuts_query(query)):
            return query, passage
        whole = {"text": {"truncation": False, "verbose": False}}
        for attempt in range(CUTS):
            features = self._features([(query, passage)], prompt, processing_kwargs=whole)
            excess = len(features["input_ids"][0]) - self._longest
            if excess <= 0:
                break
            excess += attempt  # the tokens at a cut may become more
            # The end of a chat template is cut, which is the passage's.
            query, passage = cut_pair(
                self._tokenizer, query, passage, excess, spares_query=self._is_chat
            )
        return query, passage


def _holds_passage_last(encoder: Any) -> bool:
    """Whether the passage follows the query in the model's chat template."""
    try:
        features = encoder.preprocess([("QUERYTEXT", "PASSAGETEXT")])
        text = str(encoder.tokenizer.decode(features["input_ids"][0]))
    except Exception:  # reported when a pair is scored
        return True
    return 0 <= text.find("QUERYTEXT") < text.find("PASSAGETEXT")


def _cuts(features: Any, count: int, longest: int) -> list[tuple[bool, bool]]:
    """Whether a tokenizer has cut the query and the passage of each pair.

    A tokenizer in Python does not say so: of a row that is full, the passage counts as cut. So does
    that of a chat template, which is one text.
    """
    encodings = getattr(features, "encodings", None)
    if encodings is not None:
        return [(_is_cut(encoding, 0), _is_cut(encoding, 1)) for encoding in encodings]
    mask = features.get("attention_mask")
    if mask is None:
        return [(False, False)] * count
    return [(False, length >= longest) for length in mask.sum(-1).tolist()]


def _is_cut(encoding: Any, part: int) -> bool:
    """Whether the first or the second text of an encoded pair has tokens that were cut off."""
    if encoding.n_sequences < 2:
        return part == 1 and bool(encoding.overflowing)
    return any(_start(rest, part) != _start(encoding, part) for rest in encoding.overflowing)


def _start(encoding: Any, part: int) -> int | None:
    """The first character of a text of a pair that has a token in an encoding."""
    places = zip(encoding.sequence_ids, encoding.offsets, strict=True)
    return next((start for owner, (start, _) in places if owner == part), None)


def _scores_of_a_pair(encoder: CrossEncoder) -> Tensor:
    import torch

    return encoder.predict(
        [(SAMPLE, SAMPLE)],
        activation_fn=torch.nn.Identity(),
        show_progress_bar=False,
        convert_to_tensor=True,
    )


def _limited(encoder: CrossEncoder) -> int:
    """Truncate pairs to the positions that the model uses; returns the tokens of a pair.

    The limit of sentence-transformers may be beyond, and includes positions that no token has
    (:func:`~secondpass.scorers.checks.sizes.skipped_positions`).
    """
    limit = encoder.max_seq_length
    longest = limit if isinstance(limit, int) else 1 << 30
    positions = learned_positions(getattr(encoder, "transformers_model", None))
    if positions is not None and positions < longest:
        longest = encoder.max_seq_length = positions
    return longest
