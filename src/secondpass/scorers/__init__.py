"""Scorers: one file each, none imported before it is used."""
