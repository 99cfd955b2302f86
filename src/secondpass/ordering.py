"""Rules that move items after they are ranked. They never touch scores.

An ordering is a function from the ranked head to the same items in another order. Any callable
that does this will do; these are the ones that have a name in configurations. They take plain
candidates as well. One that has an attribute ``arranges`` that is true lays items out rather than
choose among them: it is given only those that ``top_k`` leaves, and only where the method judged
something. The others are applied to the order that came in, too, when nothing was judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, TypeVar

from secondpass.candidates import field_value
from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import Nested, configurable, describe, registry, suggestion
from secondpass.types import Candidate, Ranked

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

Item = TypeVar("Item", bound=Ranked | Candidate)
Ordering: TypeAlias = Callable[[Sequence[Ranked]], Sequence[Ranked]]


@configurable
@dataclass(frozen=True)
class Tiers:
    """Items of an earlier tier first, at the top of the list; within a tier the ranking stays.

    For example learning material, introductory before advanced. Items behind the window stay put.

    Attributes:
        field: the metadata key that holds the tier; a dot goes into nested mappings.
        tiers: its values, first tier first.
        default: the tier of items whose field is missing or holds none of ``tiers``.
        window: how many items at the top are sorted; None sorts all.
    """

    field: str
    tiers: Annotated[Sequence[str | int], MinLen(1)]
    default: str | int | None = None
    window: Annotated[int, Ge(1)] | None = None

    def __post_init__(self) -> None:
        if len(set(self.tiers)) < len(self.tiers):
            raise ConfigurationError([Problem(("tiers",), "names a tier twice")])
        if self.default is not None and self.default not in self.tiers:
            raise ConfigurationError(
                [
                    Problem(
                        ("default",),
                        f"{self.default!r} is none of the tiers",
                    )
                ]
            )

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        place = {tier: index for index, tier in enumerate(self.tiers)}
        fallback = len(self.tiers) if self.default is None else place[self.default]

        def tier(item: Item) -> int:
            candidate = item.candidate if isinstance(item, Ranked) else item
            value = field_value(candidate, self.field)
            known = isinstance(value, str | int) and not isinstance(value, bool)
            return place.get(value, fallback) if known else fallback

        end = len(items) if self.window is None else self.window
        return [*sorted(items[:end], key=tier), *items[end:]]


@configurable
@dataclass(frozen=True)
class LostInTheMiddle:
    """The best items at both ends, the weakest in the middle.

    Language models read the ends of a long context best (Liu et al., "Lost in the middle", TACL
    2024). First goes to the front, second to the back, third behind the first, and so on.
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
    """The ordering that a callable, a mapping with a ``type``, or a name describes.

    ``"none"`` and None stand for the ranking as it is. Names in ``named`` come before others.

    Raises:
        ConfigurationError: it is none of these.
    """
    if isinstance(value, str) and named is not None and value in named:
        return named[value]
    if value is None or (isinstance(value, str) and value == "none"):
        return None
    if isinstance(value, Mapping):
        try:
            settings = dict(value)
        except Exception as error:  # a foreign mapping may raise anything
            message = f"cannot be read ({type(error).__name__})"
        else:
            built: Ordering = registry.build("orderings", settings)
            return built
        raise ConfigurationError(message)
    if isinstance(value, str):
        if value not in registry.names("orderings"):
            known = ["none", *(named or ()), *registry.names("orderings")]
            hint = suggestion(value, known)
            raise ConfigurationError(f"no ordering is named {describe(value)}{hint}")
        usual: Ordering = registry.build("orderings", {"type": value})
        return usual
    if callable(value) and not isinstance(value, type):
        return value
    raise ConfigurationError(f"give a name, a mapping or a function, not {describe(value)}")


def chosen_ordering(
    order: Ordering | str | None, orders: Mapping[str, Ordering | None] | None
) -> Ordering | None:
    """The ordering of the setting ``order``, which may be a name in ``orders``.

    Raises:
        ConfigurationError: there is no ordering of that name.
    """
    if not isinstance(order, str):
        return order
    try:
        return to_ordering(order, orders)
    except ConfigurationError as error:
        raise ConfigurationError([p.under(("order",)) for p in error.problems]) from None


def _unless_name(value: object) -> Ordering | str | None:
    """A name stays one: only beside ``orders`` is it known what it stands for."""
    return value if isinstance(value, str) else to_ordering(value)


ORDERING = Nested(to_ordering, _schema)
"""A parameter that holds an ordering."""

CHOSEN_ORDERING = Nested(_unless_name, lambda: {"anyOf": [{"type": "string"}, *_schema()["anyOf"]]})
"""A parameter that holds an ordering, or the name of one that another parameter defines."""
