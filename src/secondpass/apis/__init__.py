"""Rerank APIs: their descriptions, and the method that speaks to them."""
