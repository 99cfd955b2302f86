"""Cross-encoders on onnxruntime or OpenVINO, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass.concurrency.processor import usable_cpus
from secondpass.errors import MethodError, ModelLoadError
from secondpass.scorers.checks.padding import padding_fault
from secondpass.scorers.checks.sizes import check_length, check_own_words, check_size
from secondpass.scorers.runtimes.light_files import ModelFiles, TorchOnlyError
from secondpass.scorers.runtimes.runtime import Backend, Precision, open_runtime
from secondpass.scorers.tokens.pair_tokenizer import Pair, PairTokenizer
from secondpass.settings import counted
from secondpass.storage.digests import file_digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BUDGETS: Mapping[Backend, int] = {"openvino": 1024, "onnx": 512}
"""Padded tokens of a batch: the best of 64 to 4,096 for pairs of 90 and of 220 tokens."""
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class LightModel:
    """A model that scores pairs, from its ONNX or OpenVINO file or its graph.

    Raises:
        MissingExtraError: the runtime or the package ``tokenizers`` is not installed.
        TorchOnlyError: the file lacks an input that the model's scores depend on.
        ModelLoadError: a file cannot be loaded, does not fit the others, or has scores that depend
            on the batch.
    """

    takes_instruction = False

    def __init__(
        self,
        files: ModelFiles,
        backend: Backend,
        *,
        precision: Precision,
        threads: int | None = None,
        max_length: int | None = None,
        remember: int = 0,
    ) -> None:
        check_length(files.model, max_length, files.positions)
        self._files = files
        self.threads = threads or usable_cpus()
        self._max_length = max_length or files.max_length
        self.tokenizer = PairTokenizer(
            files.tokenizer,
            max_length=self._max_length,
            pad=files.pad,
            truncates_left=files.truncates_left,
            types=files.types,
            remember=remember,
        )
        if files.words is not None:
            self._check_vocabulary(files.words)
        self.truncated = self.tokenizer.truncated
        self.runtime = open_runtime(
            files.graph or files.weights, backend, precision=precision, threads=self.threads
        )
        self.budget = _BUDGETS[backend]
        self.backend = backend
        self.precision = self.runtime.precision
        unknown = self.runtime.inputs - _INPUTS
        if unknown or "input_ids" not in self.runtime.inputs:
            inputs = ", ".join(sorted(self.runtime.inputs))
            raise ModelLoadError(
                f"{files.weights.name} has the inputs {inputs}; a cross-encoder has input_ids, "
                "attention_mask and perhaps token_type_ids"
            )
        if (
            files.type_count > 1
            and self.tokenizer.has_types
            and "token_type_ids" not in self.runtime.inputs
        ):
            raise TorchOnlyError(
                f"the model {files.model!r} tells query from passage by token_type_ids, an input "
                f"that {files.weights.name} lacks; `secondpass export` makes one with it"
            )
        self._try_out()
        self._check_padding(exact=precision == "exact")

    def _check_vocabulary(self, rows: int) -> None:
        """Check that there is a vector for each token; OpenVINO reads one for any number."""
        name, tokenizer = self._files.model, self.tokenizer
        if tokenizer.words > rows:
            raise ModelLoadError(
                f"the model {name!r} has {rows} token vectors, and its tokenizer {tokenizer.words} "
                "tokens: it is the tokenizer of another model"
            )
        if tokenizer.last_id >= rows:
            raise ModelLoadError(
                f"the model {name!r} has {rows} token vectors, and its tokenizer has added tokens "
                f"without one, up to the number {tokenizer.last_id}"
            )
        check_size(name, tokenizer.size, rows)
        check_own_words(name, tokenizer.words, tokenizer.token_of, tokenizer.read)

    def identity(self) -> dict[str, Any]:
        weights = self._files.weights
        files = [
            weights,
            weights.with_suffix(".bin"),
            Path(f"{weights}_data"),
            Path(f"{weights}.data"),
            self._files.tokenizer,
        ]
        graph = self._files.graph
        return {
            "files": [file_digest(path) for path in files if path.is_file()],
            "graph": None if graph is None else blake2b(graph, digest_size=16).hexdigest(),
            "backend": self.backend,
            "version": self.runtime.version,
            "precision": self.precision,
            "max_length": self._max_length,
            "types": self._files.types,
            "pad": self._files.pad,
            "truncates_left": self._files.truncates_left,
        }

    def knows(self, word: str) -> bool:
        return self.tokenizer.knows(word)

    def prepare(self, query: str, passages: Sequence[str]) -> list[Pair]:
        return self.tokenizer.pairs(query, passages)

    def run(self, pairs: Sequence[Pair]) -> list[float]:
        scores: list[float] = self._output(pairs)[:, 0].tolist()
        return scores

    def _output(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        arrays = self.tokenizer.arrays(pairs, self.runtime.inputs)
        inputs = {name: arrays[name] for name in self.runtime.inputs}
        output = self.runtime.run(inputs)
        if output.ndim == 1:
            output = output[:, None]
        if output.shape != (len(pairs), 1):
            shape = " x ".join(map(str, output.shape))
            raise MethodError(
                f"the model's output for {counted(len(pairs), 'pair')} is {shape}, not one score "
                "per pair",
                "score_count",
            )
        return output

    def _try_out(self) -> None:
        """Score two pairs, so that a wrong file fails when it is loaded."""
        pairs = self.prepare("a", ["a", "a a"])
        try:
            self._output(pairs)
        except Exception as error:
            reason = str(error) if isinstance(error, MethodError) else type(error).__name__
            raise ModelLoadError(
                f"{self._files.weights.name} of the model {self._files.model!r} cannot score "
                f"pairs: {reason}"
            ) from error

    def _check_padding(self, *, exact: bool) -> None:
        """Check that the file reads ``attention_mask`` as the model does."""

        def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
            return self.run([pair for query, text in pairs for pair in self.prepare(query, [text])])

        try:
            fault = padding_fault(score, exact=exact)
        except Exception as error:
            fault = f"it cannot score pairs of other lengths ({type(error).__name__})"
        if fault is not None:
            raise ModelLoadError.final(
                f"{self._files.weights.name} of the model {self._files.model!r} has scores that "
                f"depend on the batch: {fault}; `secondpass export` makes a right one of the "
                "model's weights, and `backend: torch` runs these"
            )
