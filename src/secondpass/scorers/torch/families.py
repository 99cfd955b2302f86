"""Models of described families on torch: inputs and read-out as the description says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from secondpass.errors import ModelLoadError
from secondpass.scorers.checks.sizes import check_length
from secondpass.scorers.families.descriptions import Family, Input, Scale
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
from secondpass.scorers.torch.family_inputs import FamilyInputs, TokenizedInput
from secondpass.scorers.torch.pairs import INSTRUCTION
from secondpass.scorers.torch.readouts import READ_OUTS, Checkpoint, ReadOut
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
        self._kind = READ_OUTS[family.read.place]
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
            _check_types(name, family.input, self.tokenizer, model)
            checkpoint = Checkpoint(name, model, self.tokenizer, self.inputs, facts)
            self._read_out: ReadOut = self._kind(self._run, self._read, checkpoint)
            return model

        def score(_: Any) -> Tensor:
            import torch

            with torch.inference_mode():
                return self._read_out.sample(self._rendered(SAMPLE, [SAMPLE]))

        reads = self._kind.weights(self._read)
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
    ) -> list[TokenizedInput]:
        rendered = self.inputs.pairs(query, passages, self._instruction(instruction))
        self._add_truncated(query, passages, rendered)
        return rendered

    def sample_ids(self, query: str, passage: str) -> list[int]:
        """The tokens that the model is given for a pair, or for a list of one passage."""
        return [*self._rendered(query, [passage])[0].ids]

    def run(self, pairs: Sequence[TokenizedInput]) -> list[float]:
        return self._thread.run(partial(self._scores, pairs))

    def _scores(self, rows: Sequence[TokenizedInput]) -> list[float]:
        import torch

        with torch.inference_mode():
            numbers = self._read_out.numbers(rows)
        scores: list[float] = (numbers / self._divide).tolist()
        return scores

    # ------------------------------------------------------------------ lists

    def score_list(
        self, query: str, passages: Sequence[str], instruction: str | None = None
    ) -> tuple[list[float], int]:
        """The scores of a list, and the number of passes that it took."""
        blocks = self.inputs.lists(query, passages, self._instruction(instruction))
        self._add_truncated(query, passages, blocks)
        scores = self._thread.run(partial(self._scores, blocks))
        return scores, len(blocks)

    # ------------------------------------------------------------------ both

    def _rendered(self, query: str, passages: Sequence[str]) -> list[TokenizedInput]:
        """What is read of pairs or of a list, without the instruction of a call."""
        render = self.inputs.lists if self.reads_lists else self.inputs.pairs
        return render(query, passages)

    def _add_truncated(
        self, query: str, passages: Sequence[str], rows: Sequence[TokenizedInput]
    ) -> None:
        self.truncated.add(
            query,
            passages=[passages[index] for row in rows for index in row.cut],
            beside=[passages[index] for row in rows if row.query_cut for index in row.passages],
        )

    def _instruction(self, instruction: str | None) -> str | None:
        """The instruction of a call, within the prompt of the configuration."""
        if instruction is None or self._prompt is None:
            return instruction
        return self._prompt.replace(INSTRUCTION, instruction)


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
