"""Clients of HTTP services: connections, limits, the meaning of errors, and when to ask."""
