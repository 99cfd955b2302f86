"""Reranking on Ray: a Dataset of requests to one of rankings, and the server on Ray Serve.

``secondpass job`` does the first from files to files, and can be resumed. Needs the extra ``ray``.
"""

from secondpass_ray.datasets import rerank_dataset
from secondpass_ray.serving import app_builder, deployment

__all__ = ["app_builder", "deployment", "rerank_dataset"]
