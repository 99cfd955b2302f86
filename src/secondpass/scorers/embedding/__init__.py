"""Embedding models that packages contain, and scores from their vectors."""
