"""Strategies: which candidates share a question, and how the answers become scores."""
