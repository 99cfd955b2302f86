"""Texts as tokens, and what of them a model does not read."""
