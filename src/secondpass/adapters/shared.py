"""What servers and jobs share with the adapters of frameworks."""

from secondpass.adapters.issue_messages import without_messages
from secondpass.adapters.request_batches import rerank_grouped
from secondpass.adapters.scores import ScoreRule, served_scores

__all__ = [
    "ScoreRule",
    "rerank_grouped",
    "served_scores",
    "without_messages",
]
