"""secondpass as a Haystack ranker."""

from haystack_integrations.components.rankers.secondpass.chat_generator import ChatGeneratorLLM
from haystack_integrations.components.rankers.secondpass.ranker import SecondPassRanker
from haystack_integrations.components.rankers.secondpass.storer import SecondPassStorer

__all__ = ["ChatGeneratorLLM", "SecondPassRanker", "SecondPassStorer"]
