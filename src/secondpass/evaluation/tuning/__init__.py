"""Choosing a reranker, its settings, or none, on judged queries."""
