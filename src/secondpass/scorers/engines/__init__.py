"""Engines for local models: files, tokens, batches, runtimes, and what scorers share."""
