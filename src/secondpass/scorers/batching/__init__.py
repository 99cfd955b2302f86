"""Batches of pairs, which concurrent calls share."""
