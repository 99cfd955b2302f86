"""How many examples a property gets whose examples are expensive."""

from hypothesis import settings

_USUAL = 50


def at_most(quick: int) -> int:
    """So many examples in the quick profiles, and as many as any other property in the long one."""
    examples = settings().max_examples
    return examples if examples > _USUAL else quick
