"""Descriptions of APIs and model families: YAML files in the package's ``data``, and users' own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import yaml_text
from secondpass.settings.messages import describe, suggestion
from secondpass.settings.registry import names_in
from secondpass.settings.signature import Nested, from_mapping, model_of

T = TypeVar("T")

_PATH = r"\.ya?ml$|[/\\]"


class Descriptions(MutableMapping[str, T], Generic[T]):
    """The descriptions in a folder of ``data`` by name. Each file is read when it is first used."""

    def __init__(self, folder: str, cls: type, noun: str) -> None:
        self._folder = files("secondpass") / "data" / folder
        self._cls, self._noun = cls, noun
        self._read: dict[str, T | None] = dict.fromkeys(names_in(folder))

    def __getitem__(self, name: str) -> T:
        description = self._read[name]
        if description is None:
            text = (self._folder / f"{name}.yaml").read_text(encoding="utf-8")
            description = from_mapping(self._cls, yaml_text.parse(text))
            self._read[name] = description
        return description

    def __setitem__(self, name: str, description: T) -> None:
        self._read[name] = description

    def __delitem__(self, name: str) -> None:
        del self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)

    def __contains__(self, name: object) -> bool:
        return name in self._read

    def resolve(self, setting: Any) -> T:
        """The description that a setting names, holds, or names the file of.

        Raises:
            ConfigurationError: there is no such name or file, or the description is wrong.
        """
        if isinstance(setting, self._cls):
            return cast("T", setting)
        if isinstance(setting, Mapping):
            described: T = from_mapping(self._cls, setting)
            return described
        if isinstance(setting, PathLike):
            return self._from_file(fspath(setting))
        if isinstance(setting, str):
            if re.search(_PATH, setting):
                return self._from_file(setting)
            if setting in self:
                return self[setting]
            hint = suggestion(setting, list(self))
            raise ConfigurationError(f"has no such name: {describe(setting)}{hint}")
        raise ConfigurationError(
            f"give the name of {self._noun}, a mapping or a YAML path, not {describe(setting)}"
        )

    def setting(self, *, optional: bool = False) -> Nested:
        """Marks a parameter that holds one, or None if ``optional``, as it is written out."""

        def checked(value: Any) -> Any:
            if value is None and optional:
                return None
            self.resolve(value)
            return fspath(value) if isinstance(value, PathLike) else value

        def schema() -> dict[str, Any]:
            path = {"type": "string", "pattern": _PATH}
            described = model_of(self._cls).model_json_schema()
            none = [{"type": "null"}] if optional else []
            return {"anyOf": [{"enum": [*self]}, path, described, *none]}

        return Nested(checked, schema)

    def _from_file(self, path: str) -> T:
        try:
            described: T = from_mapping(self._cls, yaml_text.read_mapping(Path(path)))
        except FileNotFoundError:
            raise ConfigurationError(f"has no such file: {describe(path)}") from None
        except yaml_text.NotYAMLError as error:
            raise ConfigurationError(f"{path}: {error}") from None
        except ConfigurationError as error:
            problems = [Problem((), f"{path}: {problem}") for problem in error.problems]
            raise ConfigurationError(problems) from None
        return described
