"""Assigns parameters, and saves, loads and copies the component."""

import inspect
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, Self

from haystack import default_from_dict, default_to_dict
from haystack.components.generators.chat.types import ChatGenerator
from haystack.core.serialization import component_to_dict
from haystack.utils.deserialization import deserialize_chatgenerator_inplace

from haystack_integrations.components.rankers.secondpass.parameters import KWARGS, plain_types
from haystack_integrations.components.rankers.secondpass.tracing import Traced
from secondpass.adapters.life_cycle import LifeCycle
from secondpass.adapters.options import check_floor
from secondpass.adapters.parameters import Parameters
from secondpass.config.overrides import Override, without


class Saved(Traced):
    """Base class of the component."""

    PARAMETERS: ClassVar[Parameters]
    model: str | Path | None
    depth: int | None
    scale_score: bool | None
    dedupe: bool | None
    meta_prefix: str
    chat_generator: ChatGenerator | None
    _name: str | None
    _is_ready: bool
    _fixed: frozenset[str]
    _overrides: dict[str, Override]
    _life: LifeCycle

    def __new__(cls, *_arguments: Any, **named: Any) -> Self:
        """Reject unknown arguments; the message has the nearest parameter, unlike Python's."""
        own = inspect.signature(cls.__init__).parameters.values()  # a subclass may have others
        names = named.keys() - {parameter.name for parameter in own}
        if names and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own):
            unknown = "; ".join(map(str, cls.PARAMETERS.unknown(names)))
            raise TypeError(f"{cls.__name__}: {unknown}")
        return super().__new__(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        is_parameter = not name.startswith("_") and not hasattr(type(self), name)
        if "PARAMETERS" not in vars(type(self)):  # a subclass, which may have other attributes
            is_parameter = name in self.PARAMETERS.defaults
        if is_parameter and "_life" in vars(self):  # constructed
            value = self.PARAMETERS.assigned(name, value, self._overrides, self._fixed)
            if name == "score_threshold":
                check_floor(name, value, self.reranker)
        super().__setattr__(name, value)

    def to_dict(self) -> dict[str, Any]:
        """Serialize this component to a dictionary.

        :returns:
            Dictionary with serialized data.
        :raises secondpass.NotSerializableError:
            If the reranker holds an object that no configuration can describe.
        :raises ValueError:
            If `token` is not taken from the environment.
        """
        values = self.PARAMETERS.values(self)
        if self.chat_generator is not None:
            values["chat_generator"] = component_to_dict(self.chat_generator, "chat_generator")
        if self.model is not None:
            values["model"] = str(self.model)
        values |= {name: plain_types(values[name]) for name in KWARGS}
        values["reranker"] = self._name or self._configuration()
        return default_to_dict(self, **values)

    def _configuration(self) -> dict[str, Any]:
        config = without(self.reranker.to_config(), self._overrides)
        if not config.pop("dedupe", False) and not self._is_ready and self.dedupe is None:
            config["dedupe"] = False  # the default of the core, not of the component
        return config

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Deserialize this component from a dictionary.

        :param data:
            The dictionary to deserialize from.
        :returns:
            The deserialized component.
        """
        if data.get("init_parameters", {}).get("chat_generator"):
            deserialize_chatgenerator_inplace(data["init_parameters"])
        return default_from_dict(cls, data)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__, _life=deepcopy(self._life))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        shared = (self.reranker, self.chat_generator)
        memo.update((id(value), value) for value in shared)
        copied = type(self).__new__(type(self))
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied
