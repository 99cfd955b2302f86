"""Whether a loaded model can be right."""
