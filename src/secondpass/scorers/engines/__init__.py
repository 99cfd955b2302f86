"""Engines for local models: files, tokens, batches, runtimes, and what is shared between scorers."""
