"""What a ranking is made of, without I/O: candidates, texts, scores, order, report."""
