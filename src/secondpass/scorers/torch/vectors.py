"""Models of vectors on torch: each text is encoded by itself, and a pair's vectors are compared."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isinf
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.errors import ModelLoadError
from secondpass.questions import affixes
from secondpass.scorers.hub.facts import ModelFacts
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.runtimes.runtime import Precision
from secondpass.scorers.tokens.control_tokens import ControlTokens
from secondpass.scorers.tokens.truncated import TruncatedTexts
from secondpass.scorers.torch.checkpoints import (
    SAMPLE,
    check_vocabulary,
    learned_positions,
    load_checked,
    set_padding,
)
from secondpass.scorers.torch.runner import TorchRunner
from secondpass.scorers.torch.static import set_vectors, static_files
from secondpass.scorers.torch.texts import (
    CUTS,
    as_characters,
    as_inputs,
    count_tokens,
    knows,
    shortened,
)
from secondpass.storage.digests import file_digest, text_digest
from secondpass.storage.lru import LRU
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder
    from torch import Tensor

_CHARACTERS_PER_TOKEN = 5
_KEPT_PASSAGES = 64
"""Batches are sorted by length, so that the pairs of a passage are near each other."""
_KEPT_QUERIES = 64
"""Queries whose vectors are kept, because their pairs are in several batches."""
_STATIC_TEXTS, _STATIC_BUDGET = 256, 65_536
"""Texts and estimated tokens of a batch of static embeddings, which cost little more than words."""
_FORMS: Mapping[str, Mapping[str, Any]] = {
    "SentenceTransformer": {"convert_to_tensor": True},
    "SparseEncoder": {"convert_to_sparse_tensor": False},
}
"""Further arguments of ``encode_query`` and ``encode_document``, by the class."""


class VectorPair(NamedTuple):
    """``length`` is an estimate of the passage's tokens; 0 if its vectors are kept."""

    query: str
    passage: str
    length: int


class VectorModel(TorchRunner):
    """A model of sentence-transformers whose ``kind``, the class, is no ``CrossEncoder``.

    ``MultiVectorEncoder`` is that of late interaction, ``score = sum_i max_j q_i · p_j``: q_i and
    p_j are the vectors of the tokens of query and passage that the model scores (Khattab and
    Zaharia, "ColBERT", SIGIR 2020). ``max_length`` is the number of tokens per passage. Without
    ``batch_size``, a forward pass has 8 texts on a CPU, where padding costs more than a larger
    batch gains, 32 elsewhere, and of static embeddings 256.

    Raises:
        ModelLoadError: the model cannot be loaded, or lacks weights that its scores need.
    """

    takes_instruction = False

    def __init__(
        self,
        source: HubModel,
        offline: bool,
        facts: ModelFacts | None,
        kind: str = "MultiVectorEncoder",
        *,
        device: str,
        precision: Precision,
        max_length: int | None = None,
        batch_size: int | None = None,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(
            source,
            offline,
            device=device,
            precision=precision,
            options=options,
            settings={"kind": kind, "length": max_length},
        )
        import sentence_transformers

        if not hasattr(sentence_transformers, kind):
            raise ModelLoadError(
                f"a {kind} needs sentence-transformers 6 or later, "
                f"and {sentence_transformers.__version__} is installed"
            )
        trusted = bool(options.get("trust_remote_code"))
        self._kind = kind
        self._form = {"show_progress_bar": False, **_FORMS.get(kind, {})}

        static = self._static = static_files(source.name, facts)

        def construct() -> MultiVectorEncoder:
            encoder: MultiVectorEncoder = getattr(sentence_transformers, kind)(
                source.name, **self.arguments
            )
            if kind != "MultiVectorEncoder":  # its files say that they are of one
                _check_vectors(source.name, encoder)
            self._tokenizer: Any = getattr(encoder, "tokenizer", None)
            if static is not None:
                dtype = self.arguments["model_kwargs"]["dtype"]
                self._tokenizer = set_vectors(source.name, static, encoder[0], dtype)
            transformer = getattr(encoder, "transformers_model", None)
            check_vocabulary(source.name, self._tokenizer, transformer)
            return encoder

        def load() -> MultiVectorEncoder:
            encoder: MultiVectorEncoder = load_checked(
                source.name,
                facts,
                construct,
                lambda model: model.encode_document([SAMPLE], **self._form)[0],
                trust_remote_code=trusted,
            )
            _set_length(encoder, max_length)
            positions = learned_positions(getattr(encoder, "transformers_model", None))
            if positions is not None and positions < (encoder.max_seq_length or 1 << 30):
                encoder.max_seq_length = positions
            return encoder

        self.truncated = TruncatedTexts()
        encoder = self.encoder = self.load(load)
        self.loaded(encoder, encoder.device)
        self._control = ControlTokens(getattr(self._tokenizer, "added_tokens_decoder", {}))
        longest = self._longest("document")
        self._characters = _CHARACTERS_PER_TOKEN * longest if longest else sys.maxsize
        model = getattr(encoder, "transformers_model", None)
        set_padding(source.name, self._tokenizer, model, None, exact=precision == "exact")
        self.batch_size = batch_size or (8 if self.device == "cpu" else 32)
        if static is not None:
            self.batch_size, self.budget = batch_size or _STATIC_TEXTS, _STATIC_BUDGET
        elif longest:  # no batch has fewer texts because they are long
            self.budget = self.batch_size * (3 + longest)
        self._kept: Mapping[str, LRU[bytes, Tensor]] = {
            "query": LRU(_KEPT_QUERIES),
            "document": LRU(_KEPT_PASSAGES),
        }

    @property
    def score_kind(self) -> ScoreKind:
        """Of the model's own similarity."""
        name = getattr(self.encoder, "similarity_fn_name", None)
        return "similarity" if name == "cosine" else "unbounded"

    def identity(self) -> dict[str, Any]:
        if self._static is None:
            return super().identity()
        # They have no config of transformers, which would name their commit on the hub.
        return {**super().identity(), "vectors": file_digest(self._static.weights)}

    def knows(self, word: str) -> bool:
        return knows(self._tokenizer, word)

    def prepare(self, query: str, passages: Sequence[str]) -> list[VectorPair]:
        kept = self._kept["document"].get_many(map(text_digest, passages))
        lengths = [
            3 + min(len(text), self._characters) // _CHARACTERS_PER_TOKEN for text in passages
        ]
        return [
            VectorPair(query, text, length if vectors is None else 0)
            for text, vectors, length in zip(passages, kept, lengths, strict=True)
        ]

    def run(self, pairs: Sequence[VectorPair]) -> list[float]:
        return self._thread.run(partial(self._scores, pairs))

    def encode(self, kind: str, texts: Sequence[str]) -> list[Tensor]:
        """The vectors of each text of a kind, ``query`` or ``document``: (tokens, dimensions).

        Equal texts are encoded once.
        """
        keys = [text_digest(text) for text in texts]
        known = dict(zip(keys, self._kept[kind].get_many(keys), strict=True))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if known[key] is None}
        if missing:
            room = self._room(kind)
            fitted = [self._fitted(kind, text, room) for text in missing.values()]
            encode: Callable[..., Sequence[Tensor]] = getattr(self.encoder, f"encode_{kind}")
            inputs = as_inputs(self.encoder, fitted)
            vectors = encode(inputs, batch_size=self.batch_size, **self._form)
            new = dict(zip(missing, vectors, strict=True))
            known.update(new)
            self._kept[kind].put_many(new.items())
        return [known[key] for key in keys]  # type: ignore[misc]

    def _scores(self, pairs: Sequence[VectorPair]) -> list[float]:
        queries = self.encode("query", [pair.query for pair in pairs])
        passages = self.encode("document", [pair.passage for pair in pairs])
        scores = [0.0] * len(pairs)
        for query in {id(vectors): vectors for vectors in queries}.values():
            indices = [index for index, vectors in enumerate(queries) if vectors is query]
            found = self._compare(query, [passages[index] for index in indices])
            for index, score in zip(indices, found, strict=True):
                scores[index] = score
        return scores

    def _compare(self, query: Tensor, passages: Sequence[Tensor]) -> list[float]:
        """The similarities; in late interaction the sum of the largest products of each vector."""
        if self._kind == "MultiVectorEncoder":
            # The sum, even of a model whose own similarity is the mean.
            settings: Any = {"length_normalize": False}
            matrix = self.encoder.similarity([query], list(passages), **settings)
        else:
            import torch

            single: Any = self.encoder
            matrix = single.similarity(query[None].float(), torch.stack([*passages]).float())
        scores: list[float] = matrix[0].tolist()
        return scores

    def _room(self, kind: str) -> int:
        """The number of tokens of a text that are read, without prompt and special tokens."""
        longest = self._longest(kind)
        if longest is None or self._tokenizer is None:
            return sys.maxsize
        prompt = (self.encoder.prompts or {}).get(kind) or ""
        around = count_tokens(self._tokenizer, prompt) if prompt else 0
        if self._static is None:
            around += int(self._tokenizer.num_special_tokens_to_add())
        return longest - around

    def _longest(self, kind: str) -> int | None:
        """The number of tokens of a text that are read with all around it; None for any number."""
        encoder: Any = self.encoder
        if self._static is not None:  # its tokenizer may cut, as model2vec stores it
            truncation = encoder.tokenizer.truncation
            return None if truncation is None else int(truncation["max_length"])
        longest = getattr(encoder[0], f"{kind}_length", None) or encoder.max_seq_length
        return int(longest) if longest and not isinf(longest) else None

    def _fitted(self, kind: str, text: str, room: int) -> str:
        """The text as the model is to read it: content as characters, suffix not cut off."""
        fitted = as_characters(self._tokenizer, self._control, self._control.escaped(text))
        # A token is at least a byte.
        if len(text) > room or (not text.isascii() and len(text.encode(errors="replace")) > room):
            excess = count_tokens(self._tokenizer, fitted) - room
            if excess > 0:
                add = self.truncated.add_query if kind == "query" else self.truncated.add_passage
                add(text)
            for attempt in range(CUTS if any(affixes(fitted)) else 0):
                if excess <= 0:
                    break
                # The tokens at a cut may become more.
                fitted = shortened(self._tokenizer, fitted, excess + attempt)
                excess = count_tokens(self._tokenizer, fitted) - room
        return str(fitted)


def _check_vectors(name: str, encoder: Any) -> None:
    """Refuse a reranker whose files do not say that it is one: a module computes its scores."""
    if any(getattr(module, "module_output_name", None) == "scores" for module in encoder):
        raise ModelLoadError(
            f"the model {name!r} has a module that scores pairs, but its "
            "config_sentence_transformers.json does not say that it is a CrossEncoder"
        )


def _set_length(encoder: MultiVectorEncoder, length: int | None) -> None:
    """Replace the model's own length of passages, unless it reads fewer tokens."""
    if length is None:
        return
    module: Any = encoder[0]
    if not hasattr(module, "document_length"):
        raise ValueError("max_length cannot be set for this model")
    longest = min(
        encoder.max_seq_length or 1 << 30,
        getattr(module.config, "max_position_embeddings", None) or 1 << 30,
    )
    if length > longest:
        raise ValueError(f"max_length is {length}, but the model reads {longest} tokens at most")
    module.document_length = length
