"""Models of described families on torch: inputs by the description, and the read-outs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from secondpass.errors import ModelLoadError
from secondpass.scorers.checks.sizes import check_length
from secondpass.scorers.families.descriptions import Family, Input, Read, Scale
from secondpass.scorers.families.recognition import Recognised
from secondpass.scorers.hub.facts import ModelFacts
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.runtimes.runtime import Precision
from secondpass.scorers.tokens.truncated import TruncatedPairs
from secondpass.scorers.torch.adapters import FILES, load_merged, of_base, tokenizer_source
from secondpass.scorers.torch.checkpoints import (
    SAMPLE,
    check_vocabulary,
    load_checked,
    positions_of,
    set_pad_token,
)
from secondpass.scorers.torch.family_inputs import FamilyInputs, Rendered, token_id
from secondpass.scorers.torch.pairs import INSTRUCTION
from secondpass.scorers.torch.runner import TorchRunner
from secondpass.scorers.torch.texts import knows
from secondpass.settings import counted
from secondpass.storage.digests import file_digest

if TYPE_CHECKING:
    from torch import Tensor

_CLASSES = {
    "classifier": "AutoModelForSequenceClassification",
    "causal": "AutoModelForCausalLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "encoder": "AutoModel",
}
"""Classes of transformers by what is computed."""


class FamilyModel(TorchRunner):
    """A model that is computed and read as its family's description says.

    Raises:
        ModelLoadError: the model cannot be loaded, or lacks weights or tokens that its scores need.
    """

    def __init__(
        self,
        source: HubModel,
        offline: bool,
        facts: ModelFacts | None,
        recognised: Recognised,
        *,
        device: str,
        precision: Precision,
        prompt: str | None,
        prompt_name: str | None,
        options: Mapping[str, Any],
    ) -> None:
        family = recognised.family
        assert family.run is not None
        assert family.read is not None
        settings = {"prompt": prompt, "family": repr(family)}
        super().__init__(
            source, offline, device=device, precision=precision, options=options, settings=settings
        )
        _check_attention(source.name, family, facts)
        self._run, self._read, self._facts = family.run, family.read, facts
        self.reads_lists = family.input.of == "list"
        self._divide = _divisor(source.name, family.scale, facts)
        self.takes_instruction = family.input.takes_instruction
        if prompt is not None and not self.takes_instruction:
            raise ModelLoadError(
                f"prompt: the family {recognised.name!r} of the model {source.name!r} has no place "
                "for one"
            )
        if prompt_name is not None:
            raise ModelLoadError(
                f"the model {source.name!r} has no prompt {prompt_name!r}; it has: none"
            )
        self.truncated = TruncatedPairs()
        self._prompt = prompt if prompt is not None and INSTRUCTION in prompt else None
        constant = prompt if self._prompt is None else None
        model = self.load(partial(self._load, family, constant))
        self.loaded(model, next(model.parameters()).device)

    def _load(self, family: Family, instruction: str | None) -> Any:
        """The model; sets its tokenizer, inputs and read-out."""
        import transformers
        from sentence_transformers.util import get_device_name

        source, facts, options = self._source, self._facts, self._options
        name = source.name
        native = None if facts is None else family.native(facts)
        base = None if facts is None else facts.base
        hub: dict[str, Any] = {
            "cache_dir": source.cache,
            "revision": source.revision,
            "local_files_only": self._offline,
            "token": source.token,
        }
        if native is None:
            hub["trust_remote_code"] = bool(options.get("trust_remote_code"))
        elif not hasattr(transformers, native):
            raise ModelLoadError(
                f"the model {name!r} needs transformers' {native}, which this version lacks"
            )
        cls = getattr(transformers, native or _CLASSES[self._run.model])
        arguments = self.arguments
        words = source if base is None else tokenizer_source(source, base, self._offline)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(
            words.name,
            **(hub if words is source else of_base(hub, words)),
            **(arguments.get("processor_kwargs") or {}),
        )
        more = {**(arguments.get("config_kwargs") or {}), **arguments["model_kwargs"]}
        place = arguments["device"] or get_device_name()
        supplied: list[str] = []  # by an adapter

        def construct() -> Any:
            if base is None:
                model = cls.from_pretrained(name, **hub, **more)
            else:
                model, names = load_merged(source, base, cls, hub, more)
                supplied.extend(names)
            model = model.eval().to(place)
            if self._run.attention == "both":
                _read_both_ways(model)
            check_vocabulary(name, self.tokenizer, model)
            set_pad_token(name, self.tokenizer, model)
            positions = positions_of(model.config)
            check_length(name, options.get("max_length"), positions)
            self.inputs = FamilyInputs(
                name,
                family.input,
                self.tokenizer,
                positions=positions,
                max_length=options.get("max_length"),
                instruction=instruction,
            )
            self._set_read_out(model, facts)
            self._check_input(model, family.input)
            return model

        def score(model: Any) -> Tensor:
            import torch

            with torch.inference_mode():
                return self._sample(model)

        reads = _names_read(self._read)
        return load_checked(name, facts, construct, score, reads=reads, supplied=supplied)

    # ------------------------------------------------------------------ pairs

    def identity(self) -> dict[str, Any]:
        identity, facts = super().identity(), self._facts
        if facts is None or facts.base is None:
            return identity
        # The commit is that of the base.
        files = [*filter(None, map(facts.find, FILES))]
        adapter = [file_digest(file) for file in files]
        return {**identity, "base": [facts.base.name, facts.base.stamp()], "adapter": adapter}

    def knows(self, word: str) -> bool:
        return knows(self.tokenizer, word)

    def prepare(
        self, query: str, passages: Sequence[str], *, instruction: str | None = None
    ) -> list[Rendered]:
        rendered = self.inputs.pairs(query, passages, self._instruction(instruction))
        self._add_truncated(query, passages, rendered)
        return rendered

    def sample_ids(self, query: str, passage: str) -> list[int]:
        """The tokens that the model is given for a pair, or for a list of one passage."""
        render = self.inputs.pairs if self._read.vectors is None else self.inputs.lists
        return [*render(query, [passage])[0].ids]

    def run(self, pairs: Sequence[Rendered]) -> list[float]:
        return self._thread.run(partial(self._scores, pairs))

    def _scores(self, rows: Sequence[Rendered]) -> list[float]:
        import torch

        with torch.inference_mode():
            numbers = self._numbers(self._model, rows)
        scores: list[float] = (numbers / self._divide).tolist()
        return scores

    # ------------------------------------------------------------------ lists

    def score_list(
        self, query: str, passages: Sequence[str], instruction: str | None = None
    ) -> tuple[list[float], int]:
        """The scores of a list, and the number of passes that it took.

        Several are joined by the query's vectors, whose average has the weights
        max((1 + cosine) / 2) over the passages of each pass.
        """
        blocks = self.inputs.lists(query, passages, self._instruction(instruction))
        self._add_truncated(query, passages, blocks)
        scores = self._thread.run(partial(self._list_scores, blocks))
        return scores, len(blocks)

    def _list_scores(self, blocks: Sequence[Rendered]) -> list[float]:
        import torch
        from torch.nn.functional import cosine_similarity

        queries, passages, weights = [], [], []
        with torch.inference_mode():
            for block in blocks:
                query, vectors = self._vectors(self._model, block)
                cosines = cosine_similarity(vectors, query)
                queries.append(query)
                passages.append(vectors)
                weights.append((1 + cosines.max()) / 2)
            shares = torch.stack(weights)[:, None] / torch.stack(weights).sum()
            query = (torch.cat(queries) * shares).sum(0, keepdim=True)
            scores = cosine_similarity(torch.cat(passages), query)
        result: list[float] = (scores / self._divide).tolist()
        return result

    def _vectors(self, model: Any, block: Rendered) -> tuple[Tensor, Tensor]:
        """The projected vectors of the query, of shape (1, size), and of the passages.

        Of a query that stands several times in the prompt, the last is read, which follows all
        passages.
        """
        import torch

        ids = torch.tensor([block.ids], device=next(model.parameters()).device)
        hidden = model(
            input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
        ).last_hidden_state[0]
        query, passage = self._tokens
        ends = [hidden[ids[0] == query][-1:], hidden[ids[0] == passage]]
        for number, matrix in enumerate(self._matrices):
            ends = [(end.relu() if number else end) @ matrix.T for end in ends]
        return ends[0].float(), ends[1].float()

    def _add_truncated(self, query: str, passages: Sequence[str], rows: Sequence[Rendered]) -> None:
        self.truncated.add(
            query,
            passages=[passages[index] for row in rows for index in row.cut],
            beside=[passages[index] for row in rows if row.query_cut for index in row.passages],
        )

    # ------------------------------------------------------------------ read-outs

    def _set_read_out(self, model: Any, facts: ModelFacts | None) -> None:
        """Find the tokens, the labels and the matrices that are read."""
        import torch

        read, name = self._read, self._source.name
        self._tokens: list[int] = []
        self._matrices: list[Tensor] = []
        weights = next(model.parameters())
        move = partial(torch.Tensor.to, device=weights.device, dtype=weights.dtype)
        if read.vectors is not None:
            wanted = [read.vectors.query, read.vectors.passage]
            self._tokens = [token_id(name, self.tokenizer, token) for token in wanted]
            stored = _stored(name, facts, read.vectors.projector, alone=True)
            self._matrices = [*map(move, stored.values())]
        elif read.head is not None:
            biases = [_bias_of(weight) for weight in read.head.weights]
            stored = _stored(name, facts, read.head.weights, biases)
            self._head = {key: move(matrix) for key, matrix in stored.items()}
        elif read.logit is not None:
            wanted_ids = [read.logit] if read.minus is None else [read.logit, read.minus]
            self._tokens = [token_id(name, self.tokenizer, token) for token in wanted_ids]
            if len({*self._tokens}) < len(wanted_ids):
                raise ModelLoadError(
                    f"read: the tokens {read.logit!r} and {read.minus!r} are the same one of the "
                    f"model {name!r}"
                )
            if (
                self._run.model == "seq2seq"
                and getattr(model.config, "decoder_start_token_id", None) is None
            ):
                raise ModelLoadError(
                    f"the model {name!r} cannot be loaded: its config.json has no "
                    "decoder_start_token_id, with which its reply begins"
                )
        else:
            labels = [label for label in (read.label, read.minus) if label is not None]
            self._labels = [_label(name, model.config, label) for label in labels]
            if len({*self._labels}) < len(self._labels):
                raise ModelLoadError(
                    f"read: the labels {read.label!r} and {read.minus!r} are the same one of the "
                    f"model {name!r}"
                )
            if read.minus is None and model.config.num_labels != 1:
                raise ModelLoadError(
                    f"the model {name!r} has {model.config.num_labels} labels; a reranker has one, "
                    "or read.minus names a second"
                )

    def _check_input(self, model: Any, spec: Input) -> None:
        """Check the token types, and that a causal classifier finds the end of what it reads."""
        _check_types(self._source.name, spec, self.tokenizer, model)
        if self._run.model != "classifier":
            return
        pad = getattr(model.config.get_text_config(), "pad_token_id", None)
        [row] = self.inputs.pairs("a", ["a"])
        if pad is not None and row.ids and row.ids[-1] == pad:
            raise ModelLoadError(
                f"the model {self._source.name!r} has the pad token at the end of each text; set "
                "tokenizer_kwargs: {pad_token: …} to another token of its vocabulary"
            )

    def _sample(self, model: Any) -> Tensor:
        """What a missing weight would change."""
        import torch

        if self._read.vectors is None:
            return self._numbers(model, self.inputs.pairs(SAMPLE, [SAMPLE]))
        return torch.cat(self._vectors(model, self.inputs.lists(SAMPLE, [SAMPLE])[0]))

    def _numbers(self, model: Any, rows: Sequence[Rendered]) -> Tensor:
        """The number of each row, in float32: of a head, a logit, or the difference of two."""
        tensors = self._padded(model, rows)
        lengths = [row.length for row in rows]
        if self._run.model == "classifier":
            return _difference(model(**tensors).logits, self._labels)
        if self._run.model == "seq2seq":
            return _difference(_first_written(model, tensors), self._tokens)
        if self._read.head is not None:
            return self._headed(model, tensors, lengths)
        return _difference(_at_last_token(model, tensors, lengths), self._tokens)

    def _padded(self, model: Any, rows: Sequence[Rendered]) -> dict[str, Any]:
        """The inputs of a batch, padded at the right; shape (rows, longest row)."""
        import torch

        device = next(model.parameters()).device
        width = max(1, *(row.length for row in rows))
        pad = self.tokenizer.pad_token_id or 0

        def padded(numbers: Sequence[int], filler: int) -> list[int]:
            return [*numbers, *[filler] * (width - len(numbers))]

        features = {
            "input_ids": [padded(row.ids, pad) for row in rows],
            "attention_mask": [padded([1] * row.length, 0) for row in rows],
        }
        if any(row.types is not None for row in rows):
            features["token_type_ids"] = [padded(row.types or [0] * row.length, 0) for row in rows]
        return {key: torch.tensor(value, device=device) for key, value in features.items()}

    def _headed(self, model: Any, tensors: Mapping[str, Any], lengths: Sequence[int]) -> Tensor:
        """The numbers of a head on the hidden states of an encoder."""
        import torch

        head = self._read.head
        assert head is not None
        if head.layer is None:
            hidden = model(**tensors).last_hidden_state
        else:
            hidden = model(**tensors, output_hidden_states=True).hidden_states[head.layer]
        if head.position == "mean":
            mask = tensors["attention_mask"][..., None].to(hidden.dtype)
            state = (hidden * mask).sum(1) / mask.sum(1)
        elif head.position == "first":
            state = hidden[:, 0]
        else:
            rows = torch.arange(len(lengths), device=hidden.device)
            state = hidden[rows, torch.tensor(lengths, device=hidden.device) - 1]
        for number, name in enumerate(head.weights):
            if number and head.activation is not None:
                state = getattr(torch.nn.functional, head.activation)(state)
            bias = self._head.get(_bias_of(name))
            state = torch.nn.functional.linear(state, self._head[name], bias)
        scores: Tensor = state.float().reshape(len(lengths))
        return scores

    def _instruction(self, instruction: str | None) -> str | None:
        """The instruction of a call, within the prompt of the configuration."""
        if instruction is None or self._prompt is None:
            return instruction
        return self._prompt.replace(INSTRUCTION, instruction)


def _first_written(model: Any, tensors: Mapping[str, Any]) -> Any:
    """The logits of the first token that a model with a decoder would write."""
    import torch

    ids = tensors["input_ids"]
    begin = model.config.decoder_start_token_id
    begins = torch.full((len(ids), 1), begin, device=ids.device)
    return model(**tensors, decoder_input_ids=begins, use_cache=False).logits[:, 0]


def _at_last_token(model: Any, tensors: Mapping[str, Any], lengths: Sequence[int]) -> Any:
    """The logits of a causal model at the last token of each row.

    Later positions do not matter to such a model, so padding at the right is exact.
    """
    import torch

    device = tensors["input_ids"].device
    last = torch.tensor(lengths, device=device) - 1
    places, index = torch.unique(last, return_inverse=True)
    logits = model(**tensors, logits_to_keep=places, use_cache=False).logits
    return logits[torch.arange(len(lengths), device=device), index]


def _difference(logits: Any, columns: Sequence[int]) -> Tensor:
    """The logits of one column, or those of the first of two minus those of the second."""
    number: Tensor = logits[:, columns[0]].float()
    if len(columns) == 2:
        number = number - logits[:, columns[1]].float()
    return number


def _divisor(name: str, scale: Scale, facts: ModelFacts | None) -> float:
    """What scores are divided by."""
    divide = scale.divide
    if isinstance(divide, str):
        divide = 1.0 if facts is None else facts.config.get(divide, 1.0)
    if not isinstance(divide, int | float) or divide <= 0:
        raise ModelLoadError(f"the model {name!r} has {scale.divide} {divide!r} in its config.json")
    return float(divide)


def _check_attention(name: str, family: Family, facts: ModelFacts | None) -> None:
    """Check that a model that should read both ways is no causal one."""
    assert family.run is not None
    if family.run.attention == "both" and facts is not None and facts.config.get("is_causal"):
        raise ModelLoadError(
            f"the model {name!r} is one of {family.title}, which reads both ways, and its "
            "config.json says is_causal: true"
        )


def _read_both_ways(model: Any) -> None:
    """Let each token of a causal model read all others."""
    model.config.is_causal = False
    for module in model.modules():
        if hasattr(module, "is_causal"):
            module.is_causal = False


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


def _check_types(name: str, spec: Input, tokenizer: Any, model: Any) -> None:
    """Check that each part has a token type if the model tells texts by them, and none if not."""
    if not spec.parts:
        return
    count = getattr(model.config.get_text_config(), "type_vocab_size", None) or 1
    types = [part.type for part in spec.parts]
    wrong = [it for it in types if it is not None and it >= count]
    if wrong:
        raise ModelLoadError(
            f"input.parts: the model {name!r} has {counted(count, 'token type')}, not {wrong[0]}"
        )
    composed = tokenizer("a", "a").get("token_type_ids") or ()
    if count > 1 and any(composed) and None in types:
        raise ModelLoadError(
            f"input.parts: the model {name!r} tells texts by token types, so each part needs its "
            "`type`, such as 0 for the first text and 1 for the second"
        )


def _names_read(read: Read) -> list[str]:
    """The weights of the checkpoint that are read beside those of the model's class."""
    if read.head is not None:
        return [*read.head.weights, *map(_bias_of, read.head.weights)]
    return [] if read.vectors is None else [*read.vectors.projector]


def _bias_of(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


def _stored(
    name: str,
    facts: ModelFacts | None,
    names: Sequence[str],
    optional: Sequence[str] = (),
    *,
    alone: bool = False,
) -> dict[str, Tensor]:
    """Weights of the checkpoint that its class of transformers does not have, by their names.

    With ``alone``, their modules must have no others, which would change the scores.
    """
    from safetensors import safe_open

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
    stored: dict[str, Tensor] = {}
    for key in (*names, *optional):
        path = places.get(key)
        if path is not None:
            with safe_open(path, "pt") as tensors:
                stored[key] = tensors.get_tensor(key)
        elif key in names:
            raise ModelLoadError(
                f"the model {name!r} cannot be loaded: its checkpoint has no {key}, which its "
                "scores need"
            )
    return stored
