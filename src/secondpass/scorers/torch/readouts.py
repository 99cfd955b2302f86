"""Where the score of a family's model is read: a class for each read-out of a description.

``READ_OUTS`` has them by the field of :class:`~secondpass.scorers.families.descriptions.Read` that
describes each. Importing this module does not import torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.errors import ModelLoadError
from secondpass.scorers.families.descriptions import Read, Run
from secondpass.scorers.hub.facts import ModelFacts
from secondpass.scorers.torch.family_inputs import FamilyInputs, TokenizedInput, token_id

if TYPE_CHECKING:
    from torch import Tensor


class Checkpoint(NamedTuple):
    """A loaded model of transformers, with what belongs to it.

    ``facts`` are None if the model has no ``config.json``.
    """

    name: str
    model: Any
    tokenizer: Any
    inputs: FamilyInputs
    facts: ModelFacts | None


class ReadOut(ABC):
    """Reads the scores of a model.

    ``__init__`` finds in the checkpoint what is read, such as tokens, labels and matrices.

    Raises:
        ModelLoadError: the checkpoint lacks some of it.
    """

    def __init__(self, run: Run, read: Read, checkpoint: Checkpoint) -> None:  # noqa: ARG002
        self._name, self._model = checkpoint.name, checkpoint.model
        self._pad = checkpoint.tokenizer.pad_token_id or 0

    @staticmethod
    @abstractmethod
    def words(run: Run, read: Read) -> str:
        """Where the score is read, in words, for ``secondpass doctor``."""

    @staticmethod
    def weights(read: Read) -> list[str]:  # noqa: ARG004
        """The weights of the checkpoint that are read beside those of the model's class."""
        return []

    @abstractmethod
    def numbers(self, rows: Sequence[TokenizedInput]) -> Tensor:
        """The number of each passage in the rows, in float32; shape (passages,)."""

    def sample(self, rows: Sequence[TokenizedInput]) -> Tensor:
        """Numbers that every weight changes on which the scores of these rows depend."""
        return self.numbers(rows)

    def _padded(self, rows: Sequence[TokenizedInput]) -> dict[str, Any]:
        """The inputs of a batch, padded at the right; shape (rows, longest row)."""
        import torch

        device = next(self._model.parameters()).device
        width = max(1, *(row.length for row in rows))

        def padded(numbers: Sequence[int], filler: int) -> list[int]:
            return [*numbers, *[filler] * (width - len(numbers))]

        features = {
            "input_ids": [padded(row.ids, self._pad) for row in rows],
            "attention_mask": [padded([1] * row.length, 0) for row in rows],
        }
        if any(row.types is not None for row in rows):
            features["token_type_ids"] = [padded(row.types or [0] * row.length, 0) for row in rows]
        return {key: torch.tensor(value, device=device) for key, value in features.items()}

    def _last_places(self, rows: Sequence[TokenizedInput]) -> Tensor:
        """The index of the last token of each row; shape (rows,)."""
        import torch

        device = next(self._model.parameters()).device
        return torch.tensor([row.length for row in rows], device=device) - 1


class LabelReadOut(ReadOut):
    """The logit of a label of a classifier, or of one minus that of another."""

    def __init__(self, run: Run, read: Read, checkpoint: Checkpoint) -> None:
        super().__init__(run, read, checkpoint)
        name, config = checkpoint.name, checkpoint.model.config
        labels = [label for label in (read.label, read.minus) if label is not None]
        self._labels = [_label(name, config, label) for label in labels]
        _check_differ("labels", name, read.label, read.minus, self._labels)
        if read.minus is None and config.num_labels != 1:
            raise ModelLoadError(
                f"the model {name!r} has {config.num_labels} labels; a reranker has one, "
                "or read.minus names a second"
            )
        _check_end(checkpoint)

    @staticmethod
    def words(run: Run, read: Read) -> str:  # noqa: ARG004
        return f"the logit of label {read.label!r}{_minus(read)}"

    def numbers(self, rows: Sequence[TokenizedInput]) -> Tensor:
        return _difference(self._model(**self._padded(rows)).logits, self._labels)


class LogitReadOut(ReadOut):
    """The logit of a token in the reply of a language model, or of one minus that of another."""

    def __init__(self, run: Run, read: Read, checkpoint: Checkpoint) -> None:
        super().__init__(run, read, checkpoint)
        name, config = checkpoint.name, checkpoint.model.config
        tokens = [token for token in (read.logit, read.minus) if token is not None]
        self._tokens = [token_id(name, checkpoint.tokenizer, token) for token in tokens]
        _check_differ("tokens", name, read.logit, read.minus, self._tokens)
        self._has_decoder = run.model == "seq2seq"
        if self._has_decoder and getattr(config, "decoder_start_token_id", None) is None:
            raise ModelLoadError(
                f"the model {name!r} cannot be loaded: its config.json has no "
                "decoder_start_token_id, with which its reply begins"
            )

    @staticmethod
    def words(run: Run, read: Read) -> str:
        place = "first written" if run.model == "seq2seq" else "last"
        return f"the logit of {read.logit!r}{_minus(read)} at the {place} token"

    def numbers(self, rows: Sequence[TokenizedInput]) -> Tensor:
        logits = self._first_written(rows) if self._has_decoder else self._at_last_token(rows)
        return _difference(logits, self._tokens)

    def _first_written(self, rows: Sequence[TokenizedInput]) -> Any:
        """The logits of the first token that a model with a decoder would write."""
        import torch

        tensors = self._padded(rows)
        begin = self._model.config.decoder_start_token_id
        begins = torch.full((len(rows), 1), begin, device=tensors["input_ids"].device)
        return self._model(**tensors, decoder_input_ids=begins, use_cache=False).logits[:, 0]

    def _at_last_token(self, rows: Sequence[TokenizedInput]) -> Any:
        """The logits of a causal model at the last token of each row.

        Later positions do not matter to such a model, so padding at the right is exact.
        """
        import torch

        places, index = torch.unique(self._last_places(rows), return_inverse=True)
        tensors = self._padded(rows)
        logits = self._model(**tensors, logits_to_keep=places, use_cache=False).logits
        return logits[torch.arange(len(rows), device=logits.device), index]


class HeadReadOut(ReadOut):
    """A head whose matrices the checkpoint has beside an encoder."""

    def __init__(self, run: Run, read: Read, checkpoint: Checkpoint) -> None:
        super().__init__(run, read, checkpoint)
        assert read.head is not None
        self._head = read.head
        biases = [_bias_of(weight) for weight in read.head.weights]
        self._matrices = _stored(checkpoint, read.head.weights, biases)

    @staticmethod
    def words(run: Run, read: Read) -> str:  # noqa: ARG004
        assert read.head is not None
        position = read.head.position
        place = "the mean token" if position == "mean" else f"the {position} token"
        layer = "" if read.head.layer is None else f" of layer {read.head.layer}"
        return f"the head {', '.join(read.head.weights)} at {place}{layer}"

    @staticmethod
    def weights(read: Read) -> list[str]:
        assert read.head is not None
        return [*read.head.weights, *map(_bias_of, read.head.weights)]

    def numbers(self, rows: Sequence[TokenizedInput]) -> Tensor:
        import torch

        state = self._state(rows)
        for number, name in enumerate(self._head.weights):
            if number and self._head.activation is not None:
                state = getattr(torch.nn.functional, self._head.activation)(state)
            bias = self._matrices.get(_bias_of(name))
            state = torch.nn.functional.linear(state, self._matrices[name], bias)
        numbers: Tensor = state.float().reshape(len(rows))
        return numbers

    def _state(self, rows: Sequence[TokenizedInput]) -> Tensor:
        """The hidden states that the head reads; shape (rows, size)."""
        import torch

        head, tensors = self._head, self._padded(rows)
        hidden: Tensor
        if head.layer is None:
            hidden = self._model(**tensors).last_hidden_state
        else:
            hidden = self._model(**tensors, output_hidden_states=True).hidden_states[head.layer]
        if head.position == "mean":
            mask = tensors["attention_mask"][..., None].to(hidden.dtype)
            mean: Tensor = (hidden * mask).sum(1) / mask.sum(1)
            return mean
        if head.position == "first":
            return hidden[:, 0]
        return hidden[torch.arange(len(rows), device=hidden.device), self._last_places(rows)]


class VectorsReadOut(ReadOut):
    """The cosine of the vectors of query and passage, at control tokens, of blocks of a list.

    The blocks of a list are joined by the query's vectors, whose average has the weights
    max((1 + cosine) / 2) over the passages of each block.
    """

    def __init__(self, run: Run, read: Read, checkpoint: Checkpoint) -> None:
        super().__init__(run, read, checkpoint)
        assert read.vectors is not None
        tokens = (read.vectors.query, read.vectors.passage)
        self._query, self._passage = (
            token_id(checkpoint.name, checkpoint.tokenizer, token) for token in tokens
        )
        stored = _stored(checkpoint, read.vectors.projector, alone=True)
        self._matrices = [*stored.values()]

    @staticmethod
    def words(run: Run, read: Read) -> str:  # noqa: ARG004
        assert read.vectors is not None
        tokens = f"{read.vectors.query!r} and {read.vectors.passage!r}"
        through = f", through {', '.join(read.vectors.projector)}" if read.vectors.projector else ""
        return f"the cosine of the hidden states at {tokens}{through}"

    @staticmethod
    def weights(read: Read) -> list[str]:
        assert read.vectors is not None
        return [*read.vectors.projector]

    def numbers(self, rows: Sequence[TokenizedInput]) -> Tensor:
        import torch
        from torch.nn.functional import cosine_similarity

        queries, passages, weights = [], [], []
        for block in rows:
            query, vectors = self._vectors(block)
            cosines = cosine_similarity(vectors, query)
            queries.append(query)
            passages.append(vectors)
            weights.append((1 + cosines.max()) / 2)
        shares = torch.stack(weights)[:, None] / torch.stack(weights).sum()
        query = (torch.cat(queries) * shares).sum(0, keepdim=True)
        return cosine_similarity(torch.cat(passages), query)

    def sample(self, rows: Sequence[TokenizedInput]) -> Tensor:
        """The vectors: a weight that only scales them would change no cosine."""
        import torch

        return torch.cat([vector for block in rows for vector in self._vectors(block)])

    def _vectors(self, block: TokenizedInput) -> tuple[Tensor, Tensor]:
        """The projected vectors of the query, of shape (1, size), and of the passages.

        Of a query that stands several times in the prompt, the last is read, which follows all
        passages.
        """
        import torch

        ids = torch.tensor([block.ids], device=next(self._model.parameters()).device)
        hidden = self._model(
            input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
        ).last_hidden_state[0]
        ends = [hidden[ids[0] == self._query][-1:], hidden[ids[0] == self._passage]]
        for number, matrix in enumerate(self._matrices):
            ends = [(end.relu() if number else end) @ matrix.T for end in ends]
        return ends[0].float(), ends[1].float()


READ_OUTS: Mapping[str, type[ReadOut]] = {
    "label": LabelReadOut,
    "logit": LogitReadOut,
    "head": HeadReadOut,
    "vectors": VectorsReadOut,
}
"""By the field of ``Read``. ``own`` has none: sentence-transformers reads the score."""


def _minus(read: Read) -> str:
    return "" if read.minus is None else f" minus the logit of {read.minus!r}"


def _difference(logits: Any, columns: Sequence[int]) -> Tensor:
    """The logits of one column, or those of the first of two minus those of the second."""
    number: Tensor = logits[:, columns[0]].float()
    if len(columns) == 2:
        number = number - logits[:, columns[1]].float()
    return number


def _check_differ(
    kind: str, name: str, first: int | str | None, second: int | str | None, found: Sequence[int]
) -> None:
    """Check that two labels or tokens of a description are not the same one of the model."""
    if len({*found}) < len(found):
        raise ModelLoadError(
            f"read: the {kind} {first!r} and {second!r} are the same one of the model {name!r}"
        )


def _label(name: str, config: Any, label: int | str) -> int:
    """The index of a label of a classifier."""
    names = {int(index): str(it) for index, it in (config.id2label or {}).items()}
    if isinstance(label, int):
        if label < config.num_labels:
            return label
        raise ModelLoadError(f"the model {name!r} has no label {label}: it has {config.num_labels}")
    fitting = [index for index, it in names.items() if it.casefold() == label.casefold()]
    if len(fitting) != 1:
        known = ", ".join(names.values())
        raise ModelLoadError(f"the model {name!r} has no label {label!r}; it has: {known}")
    return fitting[0]


def _check_end(checkpoint: Checkpoint) -> None:
    """Check that texts do not end with the pad token.

    A classifier made of a causal model reads the last token before the padding.
    """
    pad = getattr(checkpoint.model.config.get_text_config(), "pad_token_id", None)
    [row] = checkpoint.inputs.pairs("a", ["a"])
    if pad is not None and row.ids and row.ids[-1] == pad:
        raise ModelLoadError(
            f"the model {checkpoint.name!r} has the pad token at the end of each text; set "
            "tokenizer_kwargs: {pad_token: …} to another token of its vocabulary"
        )


def _bias_of(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


def _stored(
    checkpoint: Checkpoint,
    names: Sequence[str],
    optional: Sequence[str] = (),
    *,
    alone: bool = False,
) -> dict[str, Tensor]:
    """Weights that the model's class does not have, by name, where and as its own weights are.

    With ``alone``, their modules must have no others, which would change the scores.
    """
    from safetensors import safe_open

    name, facts = checkpoint.name, checkpoint.facts
    index = facts.read("model.safetensors.index.json") if facts else None
    shards = (index or {}).get("weight_map", {})
    find = cache(facts.find) if facts else lambda _: None
    places = {key: find(file) for key, file in shards.items()}
    if (single := find("model.safetensors")) is not None:
        with safe_open(single, "pt") as tensors:
            places |= dict.fromkeys(tensors.keys(), single)
    modules = {key.partition(".")[0] for key in names} if alone else set()
    more = sorted({key for key in places if key.partition(".")[0] in modules} - {*names})
    if more:
        raise ModelLoadError(
            f"the model {name!r} cannot be loaded: its checkpoint has {more[0]}, which its family "
            "does not read"
        )
    own = next(checkpoint.model.parameters())
    stored: dict[str, Tensor] = {}
    for key in (*names, *optional):
        path = places.get(key)
        if path is not None:
            with safe_open(path, "pt") as tensors:
                stored[key] = tensors.get_tensor(key).to(device=own.device, dtype=own.dtype)
        elif key in names:
            raise ModelLoadError(
                f"the model {name!r} cannot be loaded: its checkpoint has no {key}, which its "
                "scores need"
            )
    return stored
