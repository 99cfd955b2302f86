"""Thresholds that keep a stated share of relevant candidates, and probabilities of relevance."""
