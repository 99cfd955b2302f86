"""Orders that need scorers."""
