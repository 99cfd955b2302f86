"""secondpass as a Haystack ranker."""

from haystack_integrations.components.rankers.secondpass.ranker import SecondPassRanker

__all__ = ["SecondPassRanker"]
