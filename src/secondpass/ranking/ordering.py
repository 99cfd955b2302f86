"""Orderings: functions that move items after they are ranked. They do not change scores.

An ordering is any callable that returns the items of the ranked head in another order. Those with a
name in configurations are defined here. Called alone, they accept whatever can be a candidate as
well: mappings, Candidates and documents of frameworks.

An ordering whose attribute ``arranges`` is true decides where items are placed, not which are
returned. It is called with the items within ``top_k`` only, and not if nothing was judged. Other
orderings are then applied to the input order.

An ordering that runs a model has a member ``effects(items, call)``: the same as a plan (a generator
of effects, :mod:`secondpass.effects`) with the handle of the pass, which is used in place of a
call. Its members ``warm_up`` and ``close``, if it has them, are called with those of the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, TypeVar

from secondpass.errors import ConfigurationError, Problem
from secondpass.ranking.candidates import as_candidate, field_value
from secondpass.ranking.scoring import member
from secondpass.settings import Nested, check_takes, configurable, describe, registry, suggestion
from secondpass.types import Ranked

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

Item = TypeVar("Item")
"""A ranked item, or whatever can be a candidate."""
Ordering: TypeAlias = Callable[[Sequence[Ranked]], Sequence[Ranked]]


@configurable
@dataclass(frozen=True)
class Tiers:
    """Sorts items by tier and keeps the ranking within a tier.

    For example learning material: introductory before advanced.

    Attributes:
        field: the metadata key that holds the tier; a dot reads nested mappings and objects.
        tiers: its values, first tier first.
        default: the tier of items whose field is missing or has another value; None puts them last.
        window: number of items at the top to sort; the others keep their places. None sorts all.
    """

    field: str
    tiers: Annotated[Sequence[str | int], MinLen(1)]
    default: str | int | None = None
    window: Annotated[int, Ge(1)] | None = None

    def __post_init__(self) -> None:
        if len(set(self.tiers)) < len(self.tiers):
            raise ConfigurationError([Problem(("tiers",), "names a tier twice")])
        if self.default not in {None, *self.tiers}:
            message = f"{self.default!r} is not one of the tiers"
            raise ConfigurationError([Problem(("default",), message)])

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        indices = {tier: index for index, tier in enumerate(self.tiers)}
        default = len(self.tiers) if self.default is None else indices[self.default]

        def tier(item: Item) -> int:
            value = field_value(as_candidate(item), self.field)
            is_tier = isinstance(value, str | int) and not isinstance(value, bool)
            return indices.get(value, default) if is_tier else default

        end = len(items) if self.window is None else self.window
        return [*sorted(items[:end], key=tier), *items[end:]]


@configurable
@dataclass(frozen=True)
class LostInTheMiddle:
    """Places the best items at both ends and the worst in the middle.

    Language models use the ends of a long context best (Liu et al., "Lost in the middle", TACL
    2024). The first item is placed first, the second last, the third second, and so on.
    """

    arranges: ClassVar[bool] = True

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        return [*items[::2], *reversed(items[1::2])]


def _schema() -> dict[str, Any]:
    options = registry.schemas("orderings")
    names = ["none", *registry.bare_names(options)]
    return {"anyOf": [{"type": "null"}, {"enum": names}, *options]}


def to_ordering(
    value: object, named: Mapping[str, Ordering | None] | None = None
) -> Ordering | None:
    """Convert a callable, a mapping with a ``type``, or a name to an ordering.

    ``"none"`` and None stand for no ordering. Names in ``named`` take precedence.
    """
    if isinstance(value, str) and named is not None and value in named:
        return named[value]
    if value is None or (isinstance(value, str) and value == "none"):
        return None
    settings: dict[str, Any]
    if isinstance(value, str):
        if value not in registry.names("orderings"):
            known = ["none", *(named or ()), *registry.names("orderings")]
            hint = suggestion(value, known)
            raise ConfigurationError(f"no ordering is named {describe(value)}{hint}")
        settings = {"type": value}
    elif isinstance(value, Mapping):
        reason = ""
        try:
            settings = dict(value)
        except Exception as error:  # a foreign mapping may raise anything
            reason = type(error).__name__
        if reason:
            raise ConfigurationError(f"cannot be read ({reason})")
    elif callable(value) and not isinstance(value, type):
        check_takes(value, "the function", "items")
        return value
    else:
        raise ConfigurationError(f"give a name, a mapping or a function, not {describe(value)}")
    built: Ordering = registry.build("orderings", settings)
    return built


def chosen_ordering(
    order: Ordering | str | None, orders: Mapping[str, Ordering | None] | None
) -> Ordering | None:
    """Convert the setting ``order``, which may be a name in ``orders``, to an ordering."""
    if not isinstance(order, str):
        return order
    try:
        return to_ordering(order, orders)
    except ConfigurationError as error:
        raise ConfigurationError([p.under(("order",)) for p in error.problems]) from None


ORDERING = Nested(to_ordering, _schema)
"""A parameter whose value is an ordering."""

CHOSEN_ORDERING = Nested(
    lambda value: value if isinstance(value, str) else to_ordering(value),
    lambda: {"anyOf": [{"type": "string"}, *_schema()["anyOf"]]},
)
"""A parameter whose value is an ordering, or the name of one in another parameter."""


def arranges(ordering: object) -> bool:
    """Whether an ordering only places items, as it states by ``arranges``."""
    return bool(member(ordering, "arranges", False))
