"""Strategies: which candidates are put before a language model together, and what follows."""
