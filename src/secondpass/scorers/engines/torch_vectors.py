"""Models on torch that encode each text by itself, by sentence-transformers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.errors import MissingExtraError, ModelLoadError
from secondpass.questions import affixes, text_key
from secondpass.scorers.engines.checkpoints import SAMPLE, check_vocabulary, load_checked
from secondpass.scorers.engines.control_tokens import ControlTokens
from secondpass.scorers.engines.facts import read_facts
from secondpass.scorers.engines.lru import LRU
from secondpass.scorers.engines.pace import Pace
from secondpass.scorers.engines.runtimes import Precision
from secondpass.scorers.engines.torch_runner import BUDGET, BUDGET_ON_GPU
from secondpass.scorers.engines.torch_texts import as_characters, count_tokens, shortened
from secondpass.scorers.engines.truncated import TruncatedPairs
from secondpass.scorers.hub import HubModel
from secondpass.scorers.recognition import recognise
from secondpass.types import EngineInfo, ScoreKind

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder
    from torch import Tensor

EXTRA = "sentence-transformers"

_CHARACTERS_PER_TOKEN = 5
_KEPT_QUERIES = 64
"""Queries whose vectors are kept, because their pairs are in several batches."""
_CUTS = 8
"""Attempts to make a text fit: the tokens at a cut change with it."""


class VectorModel:
    """An encoder of sentence-transformers, in a separate thread.

    Calls from many threads take turns. A forked child can use torch: a thread that has used it in
    the parent would wait forever for other threads of torch, which do not exist in the child.

    Args:
        source: the model.
        kind: the class; ``MultiVectorEncoder`` is that of late interaction.
        device: ``auto`` selects an accelerator if there is one.
        precision: of the weights.
        query_length: tokens per query; None is the model's own setting.
        document_length: the same for passages.
        batch_size: texts per forward pass; None is 8 on a CPU, 32 elsewhere.
        options: further arguments of ``MultiVectorEncoder``.

    Attributes:
        info: how it runs.
        batch_size: texts per forward pass.
        characters: estimated number of characters of a passage that are read.
        pace: the rate of encoding passages.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ModelLoadError: the model cannot be loaded, lacks weights that its scores need, or is not
            one of late interaction.
    """

    def __init__(
        self,
        source: HubModel,
        kind: str = "MultiVectorEncoder",
        *,
        device: str,
        precision: Precision,
        query_length: int | None,
        document_length: int | None,
        batch_size: int | None,
        options: Mapping[str, Any],
    ) -> None:
        try:
            import sentence_transformers
            import torch
        except ImportError as error:
            raise MissingExtraError(EXTRA, "the late_interaction scorer") from error
        needed = "late_interaction" if kind == "MultiVectorEncoder" else f"a {kind}"
        if not hasattr(sentence_transformers, kind):
            raise ModelLoadError(
                f"{needed} needs sentence-transformers 6 or later, "
                f"and {sentence_transformers.__version__} is installed"
            )
        offline = source.is_offline()
        trusted = bool(options.get("trust_remote_code"))
        self.kind = kind
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="secondpass-late-interaction")
        arguments = source.loader_arguments(
            options, device=device, precision=precision, offline=offline
        )

        def construct() -> MultiVectorEncoder:
            encoder: MultiVectorEncoder = getattr(sentence_transformers, kind)(
                source.name, **arguments
            )
            if kind != "MultiVectorEncoder":  # its files say that they are of one
                _check_vectors(source.name, encoder)
            transformer = getattr(encoder, "transformers_model", None)
            check_vocabulary(source.name, getattr(encoder, "tokenizer", None), transformer)
            return encoder

        def load() -> MultiVectorEncoder:
            facts = read_facts(source, offline=offline)
            if facts is not None and kind == "MultiVectorEncoder":
                recognise(source.name, facts, trusted=trusted, late_interaction=True)
            encoder: MultiVectorEncoder = load_checked(
                source.name,
                facts,
                construct,
                lambda model: model.encode_document([SAMPLE], **self._form)[0],
                trust_remote_code=trusted,
            )
            _set_lengths(encoder, query_length, document_length)
            return encoder

        try:
            self._encoder = self._thread.submit(load).result()
        except ModelLoadError:
            raise
        except Exception as error:
            raise source.load_error(error, offline) from error
        self._tokenizer: Any = getattr(self._encoder, "tokenizer", None)
        self._control = ControlTokens.of(getattr(self._tokenizer, "added_tokens_decoder", {}))
        self._truncated = TruncatedPairs()
        longest = getattr(self._encoder[0], "document_length", None) or self._encoder.max_seq_length
        self.characters = _CHARACTERS_PER_TOKEN * longest if longest else sys.maxsize
        self.batch_size = batch_size or (8 if self._encoder.device.type == "cpu" else 32)
        self.pace = Pace(self.batch_size)
        self.info = EngineInfo(
            method="",  # the report has the name
            backend="torch",
            precision=str(next(self._encoder.parameters()).dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            batch_rule=f"up to {self.batch_size} texts, sorted by length",
            reason=f"{needed} runs on torch only",
        )

    @property
    def device(self) -> str:
        """The device of the model, such as ``cpu`` or ``cuda``."""
        return str(self._encoder.device.type)

    @property
    def origin(self) -> dict[str, Any]:
        """The commit of the model's files on the hub, and the versions of what runs them."""
        import sentence_transformers
        import torch

        config = getattr(getattr(self._encoder, "transformers_model", None), "config", None)
        return {
            "commit": getattr(config, "_commit_hash", None),
            "versions": [torch.__version__, sentence_transformers.__version__],
        }

    @property
    def similarity(self) -> str:
        """The name of the similarity of two vectors."""
        return str(getattr(self._encoder, "similarity_fn_name", "maxsim"))

    @property
    def _form(self) -> dict[str, Any]:
        """Arguments of ``encode_query`` and ``encode_document``."""
        forms = {
            "SentenceTransformer": {"convert_to_tensor": True},
            "SparseEncoder": {"convert_to_sparse_tensor": False},
        }
        return {"show_progress_bar": False, **forms.get(self.kind, {})}

    def queries(self, texts: Sequence[str]) -> list[Tensor]:
        """The vectors of each query, of shape (tokens, dimensions)."""
        return self._thread.submit(self._encode, "query", texts).result()

    def passages(self, texts: Sequence[str]) -> list[Tensor]:
        """The vectors of each passage, of shape (tokens, dimensions)."""
        return self._thread.submit(self._encode, "document", texts).result()

    def truncated(self, query: str, passages: Sequence[str]) -> list[int]:
        """The indices of passages that were not read whole; all if the query was not."""
        if self._truncated.indices("query", [query]):
            return list(range(len(passages)))
        return self._truncated.indices("document", passages)

    def scores(self, query: Tensor, passages: Sequence[Tensor]) -> list[float]:
        """The sum over the query's vectors of the largest dot product with one of a passage's."""

        def score() -> list[float]:
            if self.kind == "MultiVectorEncoder":
                # The sum, even of a model whose own similarity is the mean.
                settings: Any = {"length_normalize": False}
                matrix = self._encoder.similarity([query], list(passages), **settings)
            else:
                import torch

                single: Any = self._encoder
                matrix = single.similarity(query[None].float(), torch.stack([*passages]).float())
            scores: list[float] = matrix[0].tolist()
            return scores

        return self._thread.submit(score).result()

    def _encode(self, kind: str, texts: Sequence[str]) -> list[Tensor]:
        """The vectors of each text of a kind, ``query`` or ``document``."""
        room = self._room(kind)
        fitted = [self._fitted(kind, text, room) for text in texts]
        encode: Callable[..., Sequence[Tensor]] = getattr(self._encoder, f"encode_{kind}")
        return [*encode(fitted, batch_size=self.batch_size, **self._form)]

    def _room(self, kind: str) -> int:
        """The number of tokens of a text that are read, without prompt and special tokens."""
        module, encoder = self._encoder[0], self._encoder
        longest = getattr(module, f"{kind}_length", None) or encoder.max_seq_length
        if not longest or self._tokenizer is None:
            return sys.maxsize
        prompt = (encoder.prompts or {}).get(kind) or ""
        around = count_tokens(self._tokenizer, prompt) if prompt else 0
        return int(longest) - around - int(self._tokenizer.num_special_tokens_to_add())

    def _fitted(self, kind: str, text: str, room: int) -> str:
        """The text as the model is to read it: content as characters, suffix not cut off."""
        fitted = as_characters(self._tokenizer, self._control, self._control.escaped(text))
        # A token is at least a byte.
        if len(text) > room or (not text.isascii() and len(text.encode(errors="replace")) > room):
            excess = count_tokens(self._tokenizer, fitted) - room
            if excess > 0:
                self._truncated.add(kind, [text])
            for attempt in range(_CUTS if any(affixes(fitted)) else 0):
                if excess <= 0:
                    break
                # The tokens at a cut may become more.
                fitted = shortened(self._tokenizer, fitted, excess + attempt)
                excess = count_tokens(self._tokenizer, fitted) - room
        return str(fitted)


class TextPair(NamedTuple):
    """A pair whose texts are encoded by themselves.

    Attributes:
        query: a text.
        passage: a text.
        length: estimated number of tokens of the passage.
    """

    query: str
    passage: str
    length: int


class VectorPairs:
    """Scores pairs by the vectors of their texts.

    Args:
        model: encodes them.
        identity: everything else that a score depends on.

    Attributes:
        score_kind: of the scores, by the model's own similarity.
    """

    threads = 1
    backend = "torch"
    takes_instruction = False

    def __init__(self, model: VectorModel, identity: Mapping[str, Any]) -> None:
        self.model, self._identity = model, identity
        self.precision = model.info.precision
        self.budget = BUDGET if model.device == "cpu" else BUDGET_ON_GPU
        self.score_kind: ScoreKind = "similarity" if model.similarity == "cosine" else "unbounded"
        self._queries: LRU[str, Tensor] = LRU(_KEPT_QUERIES)

    def identity(self) -> Mapping[str, Any]:
        """Everything but the texts that a score depends on."""
        return {
            **self._identity,
            **self.model.origin,
            "precision": self.precision,
            "device": self.model.device,
        }

    def prepare(self, query: str, passages: Sequence[str]) -> list[TextPair]:
        """The pairs with the estimated lengths of their passages."""
        characters = self.model.characters
        return [
            TextPair(query, text, 3 + min(len(text), characters) // _CHARACTERS_PER_TOKEN)
            for text in passages
        ]

    def run(self, pairs: Sequence[TextPair]) -> list[float]:
        """The score of each pair."""
        scores = [0.0] * len(pairs)
        vectors = self.model.passages([pair.passage for pair in pairs])
        for query in {text_key(pair.query): pair.query for pair in pairs}.values():
            key = text_key(query)
            indices = [i for i, pair in enumerate(pairs) if text_key(pair.query) == key]
            [own] = self._queries.get_many([key])
            if own is None:
                [own] = self.model.queries([query])
                self._queries.put_many([(key, own)])
            found = self.model.scores(own, [vectors[index] for index in indices])
            for index, score in zip(indices, found, strict=True):
                scores[index] = score
        return scores

    def truncated(self, query: str, passages: Sequence[str]) -> list[int]:
        """The indices of passages that the model could not read whole."""
        return self.model.truncated(query, passages)


def _check_vectors(name: str, encoder: Any) -> None:
    """Check that the modules make vectors, and that none computes the score of a pair.

    Raises:
        ModelLoadError: one does, as in a reranker whose files do not say that it is one.
    """
    if any(getattr(module, "module_output_name", None) == "scores" for module in encoder):
        raise ModelLoadError(
            f"the model {name!r} has a module that scores pairs, but its "
            "config_sentence_transformers.json does not say that it is a CrossEncoder"
        )


def _set_lengths(
    encoder: MultiVectorEncoder, query_length: int | None, document_length: int | None
) -> None:
    """Replace the model's own lengths.

    Raises:
        ValueError: it reads fewer tokens, or has no such setting.
    """
    if query_length is None and document_length is None:
        return
    module: Any = encoder[0]
    if not hasattr(module, "document_length"):
        raise ValueError("query_length and document_length cannot be set for this model")
    longest = min(
        encoder.max_seq_length or 1 << 30,
        getattr(module.config, "max_position_embeddings", None) or 1 << 30,
    )
    for name, length in (("query_length", query_length), ("document_length", document_length)):
        if length is not None and length > longest:
            raise ValueError(f"{name} is {length}, but the model reads {longest} tokens at most")
    if document_length is not None:
        module.document_length = document_length
    if query_length is not None:
        expansion = module.query_expansion
        module.query_length = query_length
        if expansion is not None:
            module.query_expansion = {**expansion, "length": query_length}
