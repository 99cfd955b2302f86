"""The rerankers of a comparison, by name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from secondpass import ConfigurationError, MissingExtraError, ModelLoadError, Reranker
from secondpass.asking.life_cycle import close_all
from secondpass.config import resolve

Spec: TypeAlias = Reranker | Mapping[str, Any] | str | PathLike[str]
"""A reranker, a configuration, the path of one, or the name of a preset."""


class NamedReranker(NamedTuple):
    """A reranker; ``owned`` if it was created here and has to be closed."""

    reranker: Reranker
    owned: bool


def create_rerankers(
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec,
) -> tuple[dict[str, NamedReranker], dict[str, str]]:
    """The rerankers by name; and, by name, why others cannot be created."""
    created, missing = {}, {}
    for name, spec in _by_name(rerankers).items():
        try:
            created[name] = NamedReranker(resolve(spec), not isinstance(spec, Reranker))
        except (MissingExtraError, ModelLoadError) as error:
            missing[name] = str(error)
        except ConfigurationError as error:
            about = error.about if isinstance(spec, str | PathLike) else name
            raise ConfigurationError(error.problems, about) from None
    return created, missing


def close_created(rerankers: Mapping[str, NamedReranker]) -> None:
    """Close those that were created here."""
    close_all(reranker for reranker, owned in rerankers.values() if owned)


def unique_name(name: str, taken: Container[str]) -> str:
    """The name, with a number appended if it is taken: ``mine``, ``mine-2``, ``mine-3``, …"""
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}-{number}", number + 1
    return unique


def _by_name(rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec) -> dict[str, Spec]:
    if isinstance(rerankers, Mapping):
        # A mapping with the key `method` is a configuration, unless a reranker has that name.
        method = rerankers.get("method")
        is_name = isinstance(method, Reranker) or (
            isinstance(method, Mapping) and "method" in method
        )
        if method is None or is_name:
            return {str(name): spec for name, spec in rerankers.items()}
    single = isinstance(rerankers, str | PathLike | Mapping | Reranker)
    several: Any = rerankers if isinstance(rerankers, Iterable) and not single else [rerankers]
    specs: dict[str, Spec] = {}
    for spec in several:
        name = Path(spec).stem if isinstance(spec, str | PathLike) else "rerank"
        specs[unique_name(name, specs)] = spec
    return specs
