"""``secondpass export``: the file of a cross-encoder that runs without torch."""
