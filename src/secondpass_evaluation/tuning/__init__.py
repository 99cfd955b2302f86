"""Chooses a reranker and its settings, or none, on judged queries."""
