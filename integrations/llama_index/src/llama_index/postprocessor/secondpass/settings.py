"""Fields of the postprocessor: checks, serialisation and copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

from llama_index.core.bridge.pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_serializer,
    field_validator,
)
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticSerializationError, ValidationError

from llama_index.postprocessor.secondpass.parameters import (
    ALIASES,
    BESIDE_READY,
    INSTEAD,
    holds_a_key,
    overrides_of,
    resolved,
    written_order,
)
from llama_index.postprocessor.secondpass.prompts import with_prompts
from llama_index.postprocessor.secondpass.query_settings import Scope
from secondpass import Reranker
from secondpass.adapters.options import check_depth, check_floor, check_order
from secondpass.adapters.parameters import Parameters
from secondpass.config import preset_names
from secondpass.config.overrides import without
from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.ordering import Ordering

RerankerLike: TypeAlias = str | dict[str, Any] | Path | SkipJsonSchema[Reranker]

R = TypeVar("R", bound="RerankFields")


class RerankFields(BaseNodePostprocessor):
    """Base class of the postprocessor, which describes the parameters."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, hide_input_in_errors=True)

    reranker: RerankerLike = Field(
        default="default",
        frozen=True,
        repr=False,
        description="Preset name, configuration, path of a YAML file, or secondpass.Reranker.",
    )
    top_n: int | None = Field(
        default=None, ge=1, strict=True, description="Number of nodes to return."
    )
    depth: int | None = Field(
        default=None, ge=1, strict=True, description="Number of nodes to judge."
    )
    similarity_cutoff: float | None = Field(
        default=None,
        strict=True,
        allow_inf_nan=False,
        description="Lowest score of judged nodes.",
    )
    model: str | None = Field(default=None, frozen=True, description="Name or folder of the model.")
    device: str | None = Field(default=None, frozen=True, description="Where a local model runs.")
    choice_batch_size: int | None = Field(
        default=None,
        ge=1,
        strict=True,
        frozen=True,
        description="Number of nodes that a model is given at once.",
    )
    trust_remote_code: bool = Field(
        default=False,
        strict=True,
        frozen=True,
        description="Whether to run code from the model's repository.",
    )
    cross_encoder_kwargs: dict[str, Any] | None = Field(
        default=None,
        frozen=True,
        description="Settings of a cross-encoder, as SentenceTransformerRerank takes them.",
    )
    api_key: SecretStr | None = Field(
        default=None, exclude=True, repr=False, frozen=True, description="Key of an API."
    )
    dedupe: bool | None = Field(
        default=None, description="Whether to keep only the best node of each id."
    )
    strict: bool | None = Field(
        default=None, frozen=True, description="Whether to raise where a node cannot be judged."
    )
    order: str | dict[str, Any] | SkipJsonSchema[Callable[..., Any]] | None = Field(
        default=None, description="Rule that moves nodes after they are ranked."
    )
    metadata_mode: MetadataMode = Field(
        default=MetadataMode.NONE, description="Which text of a node is judged."
    )
    metadata_prefix: str = Field(
        default="", description="Stands before the names of the metadata keys that are added."
    )
    keep_retrieval_score: bool = Field(
        default=True, description="Whether to keep the retrieval score in the metadata."
    )
    llm: SkipJsonSchema[LLM] | None = Field(
        default=None,
        exclude=True,
        repr=False,
        frozen=True,
        description="The language model to ask.",
    )

    PARAMETERS: ClassVar[Parameters]

    _reranker: Reranker = PrivateAttr()
    _prompts: dict[str, object] = PrivateAttr(default_factory=dict)
    _scope: Scope = PrivateAttr(default_factory=Scope)  # of query settings; copies share it

    def __init__(
        self,
        reranker: Reranker | Mapping[str, Any] | Path | str = "default",
        *,
        top_n: int | None = None,
        depth: int | None = None,
        similarity_cutoff: float | None = None,
        model: str | Path | None = None,
        device: str | None = None,
        choice_batch_size: int | None = None,
        trust_remote_code: bool = False,
        cross_encoder_kwargs: Mapping[str, Any] | None = None,
        api_key: str | SecretStr | None = None,
        dedupe: bool | None = None,
        strict: bool | None = None,
        order: str | Mapping[str, Any] | Ordering | None = None,
        metadata_mode: MetadataMode = MetadataMode.NONE,
        metadata_prefix: str = "",
        keep_retrieval_score: bool = True,
        llm: LLM | None = None,
        **fields: Any,
    ) -> None:
        values = self.PARAMETERS.arguments(locals())
        fields.pop("class_name", None)  # model_dump writes it
        if unknown := self.PARAMETERS.unknown(fields.keys() - type(self).model_fields.keys()):
            raise ConfigurationError(unknown, type(self).__name__)
        values["model"] = None if model is None else str(model)
        if isinstance(cross_encoder_kwargs, Mapping):
            values["cross_encoder_kwargs"] = dict(cross_encoder_kwargs)
        values["order"] = dict(order) if isinstance(order, Mapping) else order
        # Checked before pydantic, which would wrap errors of the core.
        fixed = self.PARAMETERS.fixed_by(reranker)
        for name in self.PARAMETERS.per_call:
            self.PARAMETERS.check_free(name, values[name], fixed)
        core = resolved(reranker, self.PARAMETERS, values)
        check_order(values["order"], core)
        super().__init__(**values, **fields)
        check_depth(self.depth, core)
        check_floor("similarity_cutoff", self.similarity_cutoff, core)
        self._reranker = core

    @field_validator("*")
    @classmethod
    def _not_set_twice(cls, value: Any, info: ValidationInfo) -> Any:
        # For assignments; the constructor checks its arguments itself.
        fixed = cls.PARAMETERS.fixed_by(info.data.get("reranker"))
        cls.PARAMETERS.check_free(str(info.field_name), value, fixed)
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # An LLM's repr may hold its key, and so may a mapping.
        yield "reranker", self.reranker if isinstance(self.reranker, str) else self._reranker
        for name, field in type(self).model_fields.items():
            in_repr = field.repr and name != "callback_manager"
            if in_repr and (value := getattr(self, name)) != field.default:
                yield name, value

    def __setattr__(self, name: str, value: Any) -> None:
        field = type(self).model_fields.get(name)
        if field is not None and field.frozen:
            # pydantic's own error would show the value, which may be a key.
            raise ValidationError.from_exception_data(
                type(self).__name__,
                [{"type": "frozen_field", "loc": (name,), "input": None}],
                hide_input=True,
            )
        if name == "order":
            check_order(value, self._reranker)
        if name == "similarity_cutoff":
            check_floor(name, value, self._reranker)
        super().__setattr__(name, value)

    # ------------------------------------------------------------------ serialisation

    @field_serializer("reranker")
    def _serialised(self, _value: object) -> str | dict[str, Any]:
        return self._configuration()

    @field_serializer("order")
    def _serialised_order(self, value: object) -> object:
        return written_order(value)

    def _configuration(self) -> str | dict[str, Any]:
        """The ``reranker`` argument that creates the same postprocessor with the other fields."""
        is_preset = isinstance(self.reranker, str) and self.reranker in preset_names()
        if is_preset and not self._prompts:
            return str(self.reranker)
        values, core = self._values(), self._reranker
        if self.api_key is not None:  # it is never written out
            core = resolved(self.reranker, self.PARAMETERS, {**values, "api_key": None})
            core = with_prompts(core, self._prompts)
        config = without(core.to_config(), overrides_of(self.PARAMETERS, values))
        per_call = self.PARAMETERS.per_call
        saved_apart = {place for name, place in per_call.items() if values[name] is not None}
        return {key: value for key, value in config.items() if key not in saved_apart}

    def _values(self) -> dict[str, Any]:
        names = type(self).model_fields.keys() - {"callback_manager"}
        return {name: getattr(self, name) for name in names}

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        """The fields, with the reranker as a name or a mapping for YAML and JSON.

        Raises:
            NotSerializableError: the reranker holds an object without a registered name.
        """
        try:
            return super().model_dump(**kwargs)
        except PydanticSerializationError:
            self._configuration()  # raises the core's own error, of which pydantic keeps the text
            written_order(self.order)
            raise

    # ------------------------------------------------------------------ copies

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy. A shallow copy shares the models, unless ``update`` replaces them."""
        original = deepcopy(self) if deep else self
        copied = super(RerankFields, original).model_copy(update=update)
        fixed = {"reranker", "llm", "cross_encoder_kwargs", *self.PARAMETERS.places}
        fixed -= self.PARAMETERS.per_call.keys()
        if update and not update.keys().isdisjoint(fixed):
            core = resolved(copied.reranker, self.PARAMETERS, copied._values())
            copied._reranker = with_prompts(core, copied._prompts)
        if update and "order" in update:
            check_order(copied.order, copied._reranker)
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        copied = _rebuilt(type(self), self._arguments(), self._prompts)
        copied.callback_manager = self.callback_manager
        copied._scope = self._scope
        if memo is not None:
            memo[id(self)] = copied
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        # The base class drops what cannot be pickled, such as locks and models, with only a log
        # line; their configuration can be pickled. Handlers and keys are never written out.
        arguments = {**self._arguments(), "api_key": None}
        message = "holds a key, which is not written out; name its environment variable instead"
        if holds_a_key(arguments["reranker"]):
            raise NotSerializableError([Problem(("reranker",), message)])
        if self.llm is not None and holds_a_key(vars(self.llm)):
            message = "holds a key, which is not written out; use to_json and from_json(..., llm=)"
            raise NotSerializableError([Problem(("llm",), message)])
        return _rebuilt, (type(self), arguments, self._prompts)

    def _arguments(self) -> dict[str, Any]:
        """Arguments for an equal postprocessor; objects that have no configuration are shared."""
        values = self._values()
        if isinstance(self.reranker, Mapping):
            with suppress(NotSerializableError):
                values["reranker"] = self._configuration()
        return values


def _rebuilt(cls: type[R], arguments: dict[str, Any], prompts: dict[str, Any]) -> R:
    rebuilt = cls(**arguments)
    rebuilt._reranker = with_prompts(rebuilt._reranker, prompts)
    rebuilt._prompts = prompts
    return rebuilt


RerankFields.PARAMETERS = Parameters(
    RerankFields.__init__, ALIASES, beside_ready=BESIDE_READY, instead=INSTEAD
)
