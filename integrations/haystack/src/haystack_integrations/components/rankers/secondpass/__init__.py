"""secondpass as a Haystack ranker."""

from haystack_integrations.components.rankers.secondpass.chat_generator import ChatGeneratorLLM
from haystack_integrations.components.rankers.secondpass.ranker import SecondPassRanker

__all__ = ["ChatGeneratorLLM", "SecondPassRanker"]
