"""Reranking on Ray: a Dataset of requests to one of rankings.

``secondpass job`` does the same from files to files, and can be resumed. Needs the extra ``ray``.
"""

from secondpass.adapters.ray.datasets import rerank_dataset

__all__ = ["rerank_dataset"]
