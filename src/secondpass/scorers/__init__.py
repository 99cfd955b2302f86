"""Scorers, one file each; none is imported before it is used."""
