"""Thresholds with a stated share of relevant candidates, and scores as probabilities."""
