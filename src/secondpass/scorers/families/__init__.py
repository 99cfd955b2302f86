"""Families of rerankers: their descriptions, and which one a model is of."""
